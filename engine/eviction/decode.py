"""Read tokens through a cache that forgets: forwards between events, events that really drop.

Between two events the cache only grows, so a piece of several known tokens is read at once and
gives what token by token would.  Knows models, caches and methods; knows no rows or jobs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from engine.eviction.base import (
    Clock,
    Evicting,
    Seen,
    Setting,
    Votes,
    behind_prompt,
    keep,
    room,
    start,
)
from engine.eviction.cache import KeptLayer, kept_cache
from engine.eviction.timing import now
from engine.memory.attention import RECORD
from engine.memory.rotary import Rotary, rotate, unrotate

PIECE = 512  # tokens of a prompt in one forward; bounds the observed queries in flight


@dataclass
class Event:
    """One event: tokens read when it came, entries before and after, and its seconds."""

    seen: int
    before: int
    after: int
    seconds: float
    retained: list[dict[str, float]] = field(default_factory=list)  # per row: mark → share kept
    detail: Any = None  # of the watched layer: see `Detail`


@dataclass
class Detail:
    """The watched layer and row at an event: who was there, how it was judged, what stayed."""

    positions: Tensor  # (K, n) before
    score: Tensor  # (K, n)
    winner: Tensor | None  # (K, n) index of group head · m + observer
    index: Tensor  # (K, size) of what stayed
    observers: list
    queries: Tensor | None  # (H, m, D) before RoPE
    prefix: int
    latest: int


class Decoder:
    """A batch of rows read together under one memory; rows never see each other.

    marks: per row a tuple of (name, start, stop) whose retention every event tells.
    watch: (layer, row) whose events are kept in detail, with all its queries in `shown`.
    archive: keep what events drop, to put it back.
    evict: where events may come: prompt, decode (behind it) or both; see `behind_prompt`.
    """

    def __init__(
        self,
        loaded: Any,
        memory: Any,
        rows: int,
        *,
        streams: tuple[int, ...] = (),
        marks: tuple = (),
        lead: int = 0,
        watch: tuple[int, int] | None = None,
        archive: bool = False,
        evict: str = "both",
        pulse: Callable[[], None] | None = None,
    ):
        facts = loaded.facts
        self.loaded, self.rows, self.marks, self.watch = loaded, rows, marks, watch
        self.pulse, self.evict = pulse, evict
        self.shown: list[Tensor] = []  # (H, T, D) after RoPE, of the watched layer and row
        self.shown_at: list[Tensor] = []  # (T,) positions at which they were rotated
        self.archived: list[list[KeptLayer]] | None = (
            [[] for _ in loaded.facts.full_layers] if archive else None
        )
        self.memory: Evicting | None = memory if getattr(memory, "evicts", False) else None
        group = facts.q_heads // facts.kv_heads
        self.repeat = group if self.memory and self.memory.per_query_head else 1
        self.slots = bool(self.memory and self.memory.slots_used)
        self.layers = facts.full_layers
        self.cache = kept_cache(loaded, self.repeat, self.slots)
        self.rotary = Rotary(loaded.model)
        self.scale = _scale(loaded.model, facts.head_dim)
        self.clock = Clock(lead=lead, rests=start(evict))
        self.state = None
        if self.memory:
            setting = Setting(
                layers=len(self.layers),
                rows=rows,
                q_heads=facts.q_heads,
                kv_heads=facts.kv_heads * self.repeat,
                head_dim=facts.head_dim,
                scale=self.scale,
                rotary=self.rotary,
                streams=streams or tuple(range(rows)),
            )
            self.state = self.memory.state(setting)
        self.events: list[Event] = []
        self.step_seconds: list[float] = []  # of forwards, in order
        self.observe_seconds: list[float] = []  # of the same forwards
        self.state_held: list[tuple[int, int]] = []  # of the same: tokens, the state's bytes a row
        self.peak = 0  # entries per head, at most

    # ---- told

    @property
    def upkeep_seconds(self) -> float:
        """Observing and judging, events included."""
        return sum(self.observe_seconds) + sum(event.seconds for event in self.events)

    @property
    def fps_seconds(self) -> float:
        """Of that, choosing the stored queries; 0 where a method stores none."""
        return getattr(self.state, "fps_seconds", 0.0)

    def _now(self) -> float:
        return now(self.loaded.model.device)

    # ---- reading

    def prefill(self, ids: Tensor) -> Tensor:
        """Read a prompt (B, T) exactly and at once, then one event if it is due → (B, T, d)."""
        self.clock.prompt = ids.shape[1]
        states = self._forward(ids)
        self.clock.prefilled = True
        self._event_if_due()
        self.clock.prefilled = False
        return states

    def begin(self) -> None:
        """The prompt is read, whole or in pieces: what comes now is decoded."""
        if self.memory:
            behind_prompt(self.memory, self.clock, self.evict)

    def read(self, ids: Tensor) -> Tensor:
        """Read tokens (B, T) as if they were generated, events as they come → states (B, T, d)."""
        states = []
        while ids.shape[1]:
            take = min(ids.shape[1], self._room(), PIECE)
            states.append(self._forward(ids[:, :take]))
            self._event_if_due()
            ids = ids[:, take:]
        return torch.cat(states, 1)

    def fork(self) -> Decoder:
        """A decoder of its own that goes on from here; nothing read there is seen here."""
        other = copy.copy(self)
        other.cache = copy.copy(self.cache)
        other.cache.layers = [
            layer.copied() if isinstance(layer, KeptLayer) else copy.deepcopy(layer)
            for layer in self.cache.layers
        ]
        other.clock, other.state = copy.copy(self.clock), copy.deepcopy(self.state, _shared(self))
        other.events, other.step_seconds, other.observe_seconds = [], [], []
        other.watch, other.shown, other.shown_at, other.archived = None, [], [], None
        other.state_held = []
        return other

    @property
    def kept_layers(self) -> list[KeptLayer]:
        return [self.cache.layers[i] for i in self.layers]

    @property
    def bytes(self) -> int:
        """Of the evicting layers' keys and values, one row."""
        return sum(layer.bytes for layer in self.kept_layers)

    def retained(self) -> list[dict[str, float]]:
        """Per row: mark → share of its positions still held, mean over layers and KV heads."""
        return [
            {n: self._share(row, a, b) for n, a, b in own} for row, own in enumerate(self.marks)
        ]

    def _share(self, row: int, start: int, stop: int) -> float:
        inside = 0.0
        for layer in self.kept_layers:
            held = layer.positions[row]
            inside += ((held >= start) & (held < stop)).float().sum(-1).mean().item()
        return inside / (len(self.layers) * max(1, stop - start))

    def _room(self) -> int:
        return max(1, room(self.memory, self.clock)) if self.memory else PIECE

    def _forward(self, ids: Tensor) -> Tensor:
        if self.pulse:
            self.pulse()
        begun, clock = self._now(), self.clock
        ids = ids.to(self.loaded.model.device)
        base = clock.kept if self.slots else clock.seen
        positions = torch.arange(base, base + ids.shape[1], device=ids.device)
        shown = _Queries(self.layers)
        record = self.state is not None or self.watch is not None
        with torch.inference_mode(), shown.recording(record), self._groups():
            out = self.loaded.model.base_model(
                ids, cache=self.cache, use_cache=True, position_ids=positions[None]
            )
        done = self._now()
        self.step_seconds.append(done - begun)
        if self.state is not None:
            with torch.inference_mode():
                layers = self.kept_layers
                keys, places = [x.keys for x in layers], [x.positions for x in layers]
                self.state.observe(Seen(shown.stacked(), positions, keys, places), clock)
        self.observe_seconds.append(self._now() - done)
        self.state_held.append((ids.shape[1], self.state.bytes if self.state else 0))
        if self.watch:
            self.shown.append(shown.found[self.watch[0]][self.watch[1]].cpu())
            self.shown_at.append(positions.cpu())
        clock.seen += ids.shape[1]
        clock.kept += ids.shape[1]
        self.peak = max(self.peak, clock.kept)
        return out.last_hidden_state

    @contextmanager
    def _groups(self):
        """While sets are kept per query head, the modules' groups are of one head each."""
        if self.repeat == 1:
            yield
            return
        modules = [  # a layer with a sliding window keeps its groups
            m
            for m in self.loaded.model.modules()
            if hasattr(m, "num_key_value_groups") and m.layer_idx in self.layers
        ]
        before = [m.num_key_value_groups for m in modules]
        try:
            for module in modules:
                module.num_key_value_groups = 1
            yield
        finally:
            for module, groups in zip(modules, before, strict=True):
                module.num_key_value_groups = groups

    # ---- events

    def _event_if_due(self) -> None:
        if self.memory is None or room(self.memory, self.clock) > 0:
            return
        size = self.memory.floor(self.clock)
        if size < self.clock.kept:
            with torch.inference_mode():
                self._event(size)
        self.clock.events += 1

    def _event(self, size: int) -> None:
        begun, clock = self._now(), self.clock
        prefix, latest = self.memory.protected(clock)
        indices, detail = [], None
        for number, layer in enumerate(self.kept_layers):
            votes: Votes = self.state.votes(number, layer.keys, layer.positions, clock)
            index = keep(votes.score, layer.positions, prefix, latest, size)
            indices.append(index)
            if self.watch and self.layers[number] == self.watch[0]:
                detail = self._detail(number, layer, votes, index, prefix, latest)
        for number, (layer, index) in enumerate(zip(self.kept_layers, indices, strict=True)):
            if self.archived is not None:
                gone = layer.copied()
                gone.keep(others(index, layer.kept))
                self.archived[number].append(gone)
            self._drop(layer, index)
        self.state.dropped(indices, clock)
        before, clock.kept = clock.kept, size
        seconds = self._now() - begun
        told = self.retained()
        self.events.append(Event(clock.seen, before, size, seconds, told, detail))

    def _drop(self, layer: KeptLayer, index: Tensor) -> None:
        """Keep `index`; where positions are those inside the cache, keys move to their new slot."""
        if self.slots:
            old = index  # the slot that each kept entry stood at
            layer.keep(index)
            flat = layer.keys.flatten(0, 1)[:, None]
            new = torch.arange(index.shape[-1], device=index.device)[None]
            count = int(self.clock.kept)
            plain = unrotate(flat, self.rotary.tables(old.flatten(0, 1), count, flat))
            turned = rotate(plain, self.rotary.tables(new, count, flat))
            layer.keys = turned[:, 0].unflatten(0, layer.keys.shape[:2])
        else:
            layer.keep(index)

    def _detail(self, number: int, layer: KeptLayer, votes: Votes, index: Tensor, prefix, latest):
        row = self.watch[1]
        observers, queries = self.state.observers(number)
        return Detail(
            layer.positions[row].cpu(),
            votes.score[row].cpu(),
            None if votes.winner is None else votes.winner[row].cpu(),
            index[row].cpu(),
            observers,
            None if queries is None else queries[row].cpu(),
            prefix,
            latest,
        )


def others(index: Tensor, count: int) -> Tensor:
    """Indices (B, K, count − m), ascending, that are not in `index` (B, K, m)."""
    left = torch.ones(*index.shape[:-1], count, dtype=torch.bool, device=index.device)
    left.scatter_(-1, index, False)
    return left.nonzero()[:, -1].reshape(*index.shape[:-1], -1)


class _Queries:
    """What the attention function shows of each layer's queries, while one forward lasts."""

    def __init__(self, layers: tuple[int, ...]):
        self.wanted = set(layers)
        self.found: dict[int, Tensor] = {}

    @contextmanager
    def recording(self, on: bool):
        token = RECORD.set(self if on else None)
        try:
            yield
        finally:
            RECORD.reset(token)

    def append(self, shown: tuple) -> None:
        module, _, query, _ = shown
        if module.layer_idx in self.wanted:
            self.found[module.layer_idx] = query

    def stacked(self) -> Tensor:
        """(L, B, H, T, D)."""
        return torch.stack([self.found[i] for i in sorted(self.found)])


def _scale(model: Any, head_dim: int) -> float:
    """What the model multiplies its logits with."""
    for module in model.modules():
        if hasattr(module, "layer_idx") and getattr(module, "scaling", None):
            return float(module.scaling)
    return head_dim**-0.5


def _shared(decoder: Decoder) -> dict:
    """Parts that a fork's state does not copy: the rotary module and the memory."""
    return {id(x): x for x in (decoder.rotary, decoder.memory) if x is not None}
