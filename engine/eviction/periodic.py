"""Methods whose budget is what stays: an event every so many tokens brings the cache back to it.

R-KV's and kvpress's way of counting (BASELINES 5.9): size swings from the budget to the budget and
`every` more.  BeaconKV counts the other way: its budget is the peak.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.eviction.base import Clock, Evicting, Observer, Seen, Setting, Votes
from engine.eviction.queries import Latest
from engine.memory.rotary import unrotate
from engine.registry import option


@dataclass(frozen=True)
class Periodic(Evicting):
    """Down to the budget every so many tokens; a prompt over budget, at its end."""

    every: int = option(128, "tokens from one event to the next", label="Every", low=1, high=4096)

    def peak(self, clock: Clock) -> int:
        return self.budget + (1 if clock.prefilled else self.every)

    def floor(self, clock: Clock) -> int:
        return self.budget

    def room(self, clock: Clock) -> int:
        early = 0 if clock.events or clock.prefilled else clock.lead
        return self.peak(clock) - clock.kept - early


class Stateless:
    """A state of a method that looks at nothing but the entries."""

    bytes = 0

    def observe(self, seen: Seen, clock: Clock) -> None:
        return

    def dropped(self, kept: list[Tensor], clock: Clock) -> None:
        return

    def observers(self, layer: int) -> tuple[list[Observer], None]:
        return [], None


class LatestState:
    """The last `size` queries after RoPE; `memory.judge` scores the entries with them."""

    def __init__(self, memory: Evicting, setting: Setting, size: int):
        self.memory, self.setting = memory, setting
        self.latest = Latest(size)

    def observe(self, seen: Seen, clock: Clock) -> None:
        if not self.memory.once:
            self.latest.add(seen.queries, seen.positions)
        elif clock.seen:
            self._forget()
        elif clock.prompt:
            self.latest.add(seen.queries, seen.positions)

    def votes(self, layer: int, keys: Tensor, positions: Tensor, clock: Clock) -> Votes:
        queries, own = self.latest.queries[layer], self.latest.positions
        return self.memory.judge(queries, own, keys, positions, clock, self.setting.scale)

    def dropped(self, kept: list[Tensor], clock: Clock) -> None:
        if self.memory.once:
            self._forget()

    def _forget(self) -> None:
        self.latest = Latest(self.latest.size)

    def observers(self, layer: int) -> tuple[list[Observer], Tensor | None]:
        if self.latest.queries is None:
            return [], None
        queries, positions = self.latest.queries[layer], self.latest.positions
        tables = self.setting.rotary.tables(positions[None], int(positions[-1]) + 1, queries)
        told = [Observer("recent", int(p)) for p in positions]
        return told, unrotate(queries, tables)

    @property
    def bytes(self) -> int:
        return self.latest.bytes


def spread(score: Tensor, before: int, after: int) -> Tensor:
    """Scores of the candidates (…, c) among all entries: 0 for those that are protected anyway."""
    return torch.nn.functional.pad(score, (before, after))
