"""Chunked memory as a cache while decoding: entries in the place of tokens, and fewer bytes.

The scoring path keeps every token and masks; here a token that no later query and no later window
needs is dropped.  Both give the same states (SCIENCE §1, rule 3).  What is seen changes at known
positions only, so that the tokens between two of them are read at once.

Letters: B rows, K KV heads, E entries, N tokens, n held tokens, W window, D head size.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from engine.eviction.cache import KeptLayer
from engine.eviction.decode import PIECE, Decoder, Event
from engine.eviction.pooled_schedule import Grid, shared_grids
from engine.memory.attention import READING, Layout, Piece, reading
from engine.memory.base import Plan
from engine.memory.full import Full
from engine.memory.rotary import Rotary, rotate, unrotate


class PooledLayer(KeptLayer):
    """One layer: pooled keys and values (B, K, E, D), and tokens that are still exact or needed.

    keys, values, positions are of the held tokens.  `whole`: nothing is pooled for the moment.
    """

    def __init__(self, rotary: Rotary):
        super().__init__()
        self.rotary = rotary
        self.grid: Grid | None = None
        self.whole = False
        self.entry_keys: Tensor | None = None
        self.entry_values: Tensor | None = None
        self.exact: Tensor | None = None  # held tokens that this forward sees; None: all

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any):
        first = self.seen
        keys, values = super().update(key_states, value_states)
        if self.grid is None or self.whole:
            return keys, values
        self.settle(first)
        keys, values = self.keys, self.values
        if self.exact is not None:
            keys, values = keys[:, :, self.exact], values[:, :, self.exact]
        if not self.entries:
            return keys, values
        return torch.cat([self.entry_keys, keys], 2), torch.cat([self.entry_values, values], 2)

    @property
    def entries(self) -> int:
        return 0 if self.entry_keys is None else self.entry_keys.shape[2]

    @property
    def places(self) -> Tensor:
        """Positions of the held tokens (n,), the same in every row and head."""
        return self.positions[0, 0]

    def settle(self, query: int) -> None:
        """Pool what that query is the first to see, and drop what nobody needs any more."""
        told = self.grid.settled(query, self.seen, self.entries, self.places)
        if told.ready > self.entries:
            self._pool(torch.arange(self.entries, told.ready))
        if told.index is not None:
            self.keep(told.index.expand(*self.keys.shape[:2], -1))
        self.exact = told.exact

    def _pool(self, new: Tensor) -> None:
        """Un-rotate the members, average, rotate once to the anchor (rule 6)."""
        plan, entries = self.grid.plan.to(self.device), self.grid.real[new].to(self.device)
        members = plan.index[0, entries]  # (e, W)
        at = torch.searchsorted(self.places, members.flatten())
        at = at.clamp(max=self.kept - 1).unflatten(0, members.shape)
        keys, values = self.keys[:, :, at], self.values[:, :, at]  # (B, K, e, W, D)
        k_weight, v_weight = plan.k_weight[0, entries], plan.v_weight[0, entries]
        length = self.seen
        if not plan.rotated:
            flat = keys.flatten(2, 3)
            keys = unrotate(flat, self.rotary.tables(members.flatten()[None], length, flat))
            keys = keys.unflatten(2, members.shape)
        pooled = (keys * k_weight.to(keys.dtype)[..., None]).sum(3)
        if not plan.rotated:
            pooled = rotate(pooled, self.rotary.tables(plan.anchor[:, entries], length, pooled))
        value = (values * v_weight.to(values.dtype)[..., None]).sum(3)
        before = self.entries
        self.entry_keys = torch.cat([self.entry_keys, pooled], 2) if before else pooled
        self.entry_values = torch.cat([self.entry_values, value], 2) if before else value

    def layout(self, queries: int, keys: Tensor) -> Layout:
        """All that is there, tokens causal."""
        count, device = keys.shape[2], keys.device
        first = self.seen - queries
        asked = torch.arange(first, self.seen, device=device)
        places = self.places if self.exact is None or self.whole else self.places[self.exact]
        entries = count - len(places)
        mask = keys.new_zeros(1, 1, queries, count)
        mask[..., entries:].masked_fill_(places > asked[:, None], float("-inf"))
        if self.grid is not None and self.grid.plan.bias is not None and entries:
            bias = self.grid.plan.bias[0, self.grid.real[:entries]]
            mask[..., :entries] = bias.to(device, keys.dtype)
        none = torch.empty(0, dtype=torch.int64, device=device)
        piece = Piece(slice(0, queries), none, torch.arange(count, device=device), mask)
        return Layout(_nothing(device), [piece], None, None)

    def copied(self) -> PooledLayer:
        layer = copy.copy(self)
        return layer

    @property
    def bytes(self) -> int:
        if not self.is_initialized:
            return 0
        each = self.keys.shape[-1] + self.values.shape[-1]
        held = self.kept + self.entries
        return self.keys.shape[1] * held * each * self.keys.element_size()


def _nothing(device: torch.device) -> Plan:
    """The plan of a cache whose entries are made already."""
    none = torch.zeros(1, 0, dtype=torch.int64, device=device)
    weight = torch.zeros(1, 0, 1, dtype=torch.float64, device=device)
    return Plan(weight.long(), weight, weight, none.double(), none, none, 0, 0, rotated=True)


class Shown:
    """What the attention function asks of a reading, in one forward, answered from the cache."""

    watch = None

    def __init__(self, layers: dict[int, PooledLayer]):
        self.layers = layers
        self.known: dict[tuple, Layout] = {}

    def layout(self, layer: int, queries: int, key: Tensor, piece: int) -> Layout | None:
        own = self.layers.get(layer)
        if own is None:
            return None
        name = (id(own.grid), key.shape[2])
        if name not in self.known:
            self.known[name] = own.layout(queries, key)
        return self.known[name]


class PooledDecoder(Decoder):
    """A Decoder under the chunked memory; the rows of a batch share one grid origin.

    lead: tokens by which the grid starts earlier.  Retention counts tokens that are held as
    themselves.
    """

    def __init__(self, loaded: Any, memory: Any, rows: int, *, lead: int = 0, **more: Any):
        super().__init__(loaded, Full(), rows, lead=lead, **more)
        self.pooling = memory
        self.context_end: int | None = None
        self.origin = torch.tensor([-lead])
        for layer in self.layers:
            self.cache.layers[layer] = PooledLayer(self.rotary)
        self.grids: list[Grid] = []
        self.horizon = 0

    @property
    def after_context(self) -> bool:
        return self.pooling.when == "after_context"

    def prefill(self, ids: Tensor) -> Tensor:
        """Read a prompt (B, T) at once, through the scoring path; then pool what can be."""
        self.clock.prompt = end = ids.shape[1]
        for layer in self.kept_layers:
            layer.whole = True
        if self.after_context:
            states = self._forward(ids)
            self.context_end = end
        else:
            own = (self.pooling, self.rotary, self.layers, self.origin)
            with reading(*own):
                states = super()._forward(ids)
        for layer in self.kept_layers:
            layer.whole = False
        self._settle()
        return states

    def read(self, ids: Tensor) -> Tensor:
        states = []
        while ids.shape[1]:
            take = min(ids.shape[1], self._room())
            states.append(self._forward(ids[:, :take]))
            self._settle()
            ids = ids[:, take:]
        return torch.cat(states, 1)

    def _room(self) -> int:
        self._plan(self.clock.seen + PIECE)
        return min((grid.room(self.clock.seen) for grid in self.grids), default=PIECE)

    def _forward(self, ids: Tensor) -> Tensor:
        layers = {i: self.cache.layers[i] for i in self.layers}
        token = READING.set(Shown(layers))
        try:
            return super()._forward(ids)
        finally:
            READING.reset(token)

    def _plan(self, length: int) -> None:
        """Plans that reach beyond the next tokens; layers with the same one share it."""
        if self.after_context and self.context_end is None:
            return  # all is exact so far
        if length <= self.horizon:
            return
        self.horizon = 2 * length + self.pooling.window
        found = shared_grids(self.pooling, self.layers, self.horizon, self.origin, self.context_end)
        for grid, layer in zip(found, self.kept_layers, strict=True):
            layer.grid = grid
        self.grids = list({id(grid): grid for grid in found if grid}.values())

    def _settle(self) -> None:
        """What the next query does not need goes now."""
        start, before = self._now(), self.clock.kept
        self._plan(self.clock.seen + PIECE)
        with torch.inference_mode():
            for layer in self.kept_layers:
                if layer.grid is not None:
                    layer.settle(self.clock.seen)
        held = [layer.kept + layer.entries for layer in self.kept_layers]
        self.clock.kept = round(sum(held) / len(held))
        if self.clock.kept != before:  # an entry may come before its tokens go
            self.clock.events += 1
            seconds, told = self._now() - start, self.retained()
            self.events.append(Event(self.clock.seen, before, self.clock.kept, seconds, told))
