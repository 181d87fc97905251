"""When a chunked memory's entries come and its tokens go while decoding: counts, no keys.

What is seen changes at known positions only, so that what is held is known before a run.

Letters: E entries, N tokens, n held tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from engine.eviction.schedule import Resident
from engine.memory.base import NEVER, Plan

PIECE = 512  # tokens to look ahead where nothing changes


class Settled(NamedTuple):
    """Entries that there are then; held tokens that stay, and those of them that are seen."""

    ready: int
    index: Tensor | None  # None: all
    exact: Tensor | None


class Grid:
    """When entries come and tokens go in layers of one plan: counts, no keys.

    comes (E,): the first query that sees an entry; goes (N,): the first that does not see a token
    itself; used (N,): the last entry that is made of a token, −1 where none is.
    """

    def __init__(self, plan: Plan, context_end: int | None):
        real = (plan.last[0] < NEVER).nonzero()[:, 0]
        self.plan, self.real = plan, real
        self.index, self.last = plan.index[0, real], plan.last[0, real]
        closed = 0 if plan.beside else plan.local
        tokens = torch.arange(plan.covered.shape[1])
        covered = plan.covered[0]
        if context_end is None:
            self.comes = self.last + closed
            self.goes = torch.where(covered < NEVER, covered + closed, NEVER)
            if plan.beside:
                self.goes = torch.maximum(self.goes, tokens + plan.local)
        else:
            reach = context_end - 1 - closed
            self.comes = torch.where(self.last <= reach, context_end, NEVER)
            left = covered <= reach
            if plan.beside:
                left &= tokens <= context_end - 1 - plan.local
            self.goes = torch.where(left, context_end, NEVER)
        self.goes[: plan.sinks] = NEVER
        self.used = self._used(len(tokens))
        found = torch.cat([self.comes, self.goes]).unique()
        self.moments = found[found < NEVER]
        self._known: tuple = ((), None)  # layers of one grid ask the same, one after another

    def _used(self, length: int) -> Tensor:
        """Entries that never come use nothing."""
        used = torch.full((length,), -1)
        weighty = (self.plan.k_weight[0, self.real] > 0) | (self.plan.v_weight[0, self.real] > 0)
        weighty &= (self.comes < NEVER)[:, None]
        entries = torch.arange(len(self.real))[:, None].expand_as(self.index)
        return used.scatter_reduce_(0, self.index[weighty], entries[weighty], "amax")

    def room(self, query: int) -> int:
        """Queries from this one on that see the same entries and tokens."""
        later = self.moments[self.moments > query]
        return int(later[0]) - query if len(later) else PIECE

    def settled(self, query: int, seen: int, entries: int, places: Tensor) -> Settled:
        """What a layer does before that query, which holds `places` (n,) of `seen` tokens.

        A window that closes with a token not read yet (L = 0) waits for it.
        """
        asked = (query, seen, entries, len(places))
        if self._known[0] != asked:
            ready = int(((self.comes <= query) & (self.last < seen)).sum())
            here = places.cpu()
            exact = self.goes[here] > query
            held = exact | (self.used[here] >= max(ready, entries))
            index = None if held.all() else held.nonzero()[:, 0].to(places.device)
            exact = exact[held]
            exact = None if exact.all() else exact.nonzero()[:, 0].to(places.device)
            self._known = (asked, Settled(ready, index, exact))
        return self._known[1]


def shared_grids(
    memory: Any, layers: tuple[int, ...], length: int, origin: Tensor, context_end: int | None
) -> list[Grid | None]:
    """One a layer; layers with the same plan share it, None for a layer that is kept exact."""
    shared: dict[tuple, Grid] = {}
    found = []
    for number in layers:
        plan = memory.plan(number, length, origin)
        name = plan and tuple(plan.last[0].tolist())
        if plan and name not in shared:
            shared[name] = Grid(plan, context_end)
        found.append(plan and shared[name])
    return found


class _Held:
    """Tokens and entries of one grid, as a layer would hold them."""

    def __init__(self, grid: Grid | None):
        self.grid, self.entries, self.places = grid, 0, torch.empty(0, dtype=torch.int64)

    def read(self, start: int, stop: int) -> None:
        self.places = torch.cat([self.places, torch.arange(start, stop)])

    def settle(self, query: int, seen: int) -> None:
        if self.grid is None:
            return
        told = self.grid.settled(query, seen, self.entries, self.places)
        self.entries = max(self.entries, told.ready)
        if told.index is not None:
            self.places = self.places[told.index]

    @property
    def count(self) -> int:
        return len(self.places) + self.entries


def resident_pooled(
    memory: Any, layers: tuple[int, ...], prompt: int, steps: int, prefill: str = "whole"
) -> Resident:
    """Entries and tokens held per KV head, mean over `layers`, behind a prompt of that length.

    As `schedule.resident` tells it of a method that evicts; the decoder's counts, foreseen.
    """
    whole, total = prefill == "whole" and prompt > 0, prompt + steps
    end = prompt if memory.when == "after_context" else None
    grids = shared_grids(memory, layers, total + PIECE + memory.window, torch.zeros(1).long(), end)
    weights: dict[int, int] = {}
    for grid in grids:
        weights[id(grid)] = weights.get(id(grid), 0) + 1
    held = {id(grid): (_Held(grid), weights[id(grid)]) for grid in grids}
    real = [grid for grid in {id(g): g for g in grids}.values() if grid]

    def count() -> int:
        return round(sum(own.count * weight for own, weight in held.values()) / len(layers))

    kept, peak, events, summed, seen = 0, 0, 0, 0.0, 0
    while seen < total:
        if whole and seen == 0:
            take = prompt
        else:
            room = min((grid.room(seen) for grid in real), default=PIECE)
            take = max(1, min(room, total - seen, PIECE))
            if seen < prompt:
                take = min(take, prompt - seen)
        for own, _ in held.values():
            own.read(seen, seen + take)
            if not (whole and seen == 0):
                own.settle(seen, seen + take)
            own.settle(seen + take, seen + take)
        peak = max(peak, kept + take)
        after = count()
        if seen >= prompt:
            summed += sum(range(kept + 1, kept + take)) + after
        events += after != kept + take
        seen, kept = seen + take, after
    return Resident(summed / steps if steps else float(kept), peak, events, kept)
