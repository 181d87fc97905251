"""BeaconKV: past queries that differ most vote together with the latest ones (BKV §4).

There is no public code: this follows the paper's algorithms 1 and 2 and, where it is silent,
SCIENCE §6.1.  The query window, the protected window and the prefix are three options.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.eviction.base import Clock, Evicting, Observer, Seen, Setting, Votes, attention
from engine.eviction.queries import fps, kmeans, pick, row_bytes
from engine.eviction.timing import now
from engine.memory.rotary import rotate, unrotate
from engine.registry import MEMORIES, FieldError, option

SELECTORS = ("continual", "naive", "centroids", "nearest", "random", "initial", "recent")
WHOLE = ("naive", "centroids", "nearest", "random")  # those that keep the whole history
AGGREGATES = ("max", "mean")


@MEMORIES.register("beacon", "beaconkv", "BeaconKV")
@dataclass(frozen=True)
class Beacon(Evicting):
    """BeaconKV: stored past queries vote on what the cache keeps while decoding."""

    n_beacon: int = option(
        16, "stored past queries per query head", label="Beacons", low=0, high=4096
    )
    n_recent: int = option(
        16, "latest queries that vote at their own positions", label="Recent", low=0, high=4096
    )
    selector: str = option(
        "continual",
        "how beacons are chosen: continual FPS, FPS of the whole history, k-means centroids, "
        "nearest real query to each, random, the initial ones, or none but recent ones",
        label="Selector",
        choices=SELECTORS,
    )
    over_queries: str = option(
        "max", "over observing queries", label="Over queries", choices=AGGREGATES
    )
    over_heads: str = option(
        "max", "over the heads of a group", label="Over heads", choices=AGGREGATES
    )
    event: int = option(
        0, "entries dropped at an event; 0 takes an eighth of the budget", label="Event", low=0
    )
    prefix: int = option(4, "first positions that are never dropped", label="Prefix", low=0)
    protect: int = option(32, "latest entries that are never dropped", label="Protected", low=0)

    def peak(self, clock: Clock) -> int:
        return self.budget

    def floor(self, clock: Clock) -> int:
        return self.budget - self.event if self.event else 7 * self.budget // 8

    def protected(self, clock: Clock) -> tuple[int, int]:
        return self.prefix, self.protect

    def check(self) -> list[FieldError]:
        errors = []
        held = self.prefix + self.protect + 1
        least = (
            held + self.event
            if self.event
            else next(b for b in range(held, 8 * held + 8) if 7 * b // 8 >= held and 7 * b // 8 < b)
        )
        parts = f"a prefix of {self.prefix} and {self.protect} protected entries after an event"
        errors += self.too_small(least, parts)
        if self.n_beacon + self.n_recent < 1:
            errors.append(FieldError("n_recent", "no query is left to vote; keep at least one"))
        return errors

    def phrase(self) -> str:
        words = "" if self.selector == "continual" else f", {self.selector}"
        return f"beacon {self.budget}, {self.n_beacon} + {self.n_recent} queries{words}"

    @property
    def renewed_at_events_only(self) -> bool:
        """Whether beacons stay frozen through a cycle, so that only the event's FPS renews them."""
        return 0 < self.period <= self.n_recent

    def state(self, setting: Setting) -> BeaconState:
        return BeaconState(self, setting)


class BeaconState:
    """Per query head: a buffer of queries before RoPE, the frozen beacons, the latest queries.

    buffer, frozen (L, B, H, m, D); recent (L, B, H, r, D) before RoPE with positions (r,).
    """

    def __init__(self, memory: Beacon, setting: Setting):
        self.memory, self.setting = memory, setting
        self.buffer: Tensor | None = None
        self.frozen: Tensor | None = None
        self.recent: Tensor | None = None
        self.positions: Tensor | None = None
        self.history: Tensor | None = None
        self.fps_seconds = 0.0  # of choosing beacons, so far
        self.whole = memory.selector in WHOLE and memory.n_beacon > 0
        # Without beacons the window of latest queries runs on through the events.
        self.plain = memory.selector == "recent" or not memory.n_beacon
        self.n_beacon = 0 if self.plain else memory.n_beacon
        self.n_recent = memory.n_recent + (memory.n_beacon if self.plain else 0)

    # ---- while tokens are read

    def observe(self, seen: Seen, clock: Clock) -> None:
        """Sort T queries into the buffer and the latest: those behind the freeze are recent."""
        queries, positions = self._plain(seen), seen.positions
        count = queries.shape[-2]
        peak = self.memory.peak(clock) - (0 if clock.events else clock.lead)
        if not clock.seen and clock.prompt:  # a prompt, read at once, seeds the beacons whole
            late = min(max(clock.prompt - (peak - self.n_recent), 0), self.n_recent, count)
            self._remember(queries)
            self._sample(queries)
        else:
            late = min(max(clock.kept + count - (peak - self.n_recent), 0), count)
            self._remember(queries[..., : count - late, :])
            self._buffer(queries[..., : count - late, :])
        if not late:
            return
        if self.frozen is None:
            self._freeze()
        if clock.seen or not clock.prompt:
            self._remember(queries[..., count - late :, :])
        self._latest(queries[..., count - late :, :], positions[count - late :])

    def _remember(self, queries: Tensor) -> None:
        if self.whole:
            self.history = _joined(self.history, queries)

    def _plain(self, seen: Seen) -> Tensor:
        """Queries with their RoPE taken off, (L, B, H, T, D)."""
        flat = seen.queries.flatten(0, 1)
        length = int(seen.positions[-1]) + 1
        tables = self.setting.rotary.tables(seen.positions[None], length, flat)
        return unrotate(flat, tables).unflatten(0, seen.queries.shape[:2])

    def _sample(self, queries: Tensor) -> None:
        """The prompt's queries seed the beacons."""
        if not self.n_beacon or self.whole:
            return
        first = self.memory.selector == "initial"
        self.buffer = queries[..., : self.n_beacon, :].clone() if first else self._farthest(queries)

    def _buffer(self, queries: Tensor) -> None:
        """Append one by one; at n_beacon + n_recent the buffer is reduced to n_beacon again."""
        if not self.n_beacon or self.whole:
            return
        if self.memory.selector == "initial":
            have = 0 if self.buffer is None else self.buffer.shape[-2]
            self.buffer = _joined(self.buffer, queries[..., : max(0, self.n_beacon - have), :])
            return
        full = self.n_beacon + max(1, self.n_recent)
        while queries.shape[-2]:
            have = 0 if self.buffer is None else self.buffer.shape[-2]
            take = max(1, full - have)
            self.buffer = _joined(self.buffer, queries[..., :take, :])
            queries = queries[..., take:, :]
            if self.buffer.shape[-2] >= full:
                self.buffer = self._farthest(self.buffer)

    @contextmanager
    def _choosing(self, like: Tensor) -> Iterator[None]:
        start = now(like.device)
        yield
        self.fps_seconds += now(like.device) - start

    def _farthest(self, queries: Tensor) -> Tensor:
        with self._choosing(queries):
            return pick(queries, fps(queries, self.n_beacon))

    def _freeze(self) -> None:
        """The cycle's beacons; with them, the latest are collected anew."""
        memory = self.memory
        if not self.n_beacon:
            self.frozen = None
        elif memory.selector == "naive":
            self.frozen = self._farthest(self.history)
        elif memory.selector in ("centroids", "nearest"):
            with self._choosing(self.history):
                centres, near = kmeans(self.history, min(self.n_beacon, self.history.shape[-2]))
            real = memory.selector == "nearest"
            self.frozen = pick(self.history, near) if real else centres
        elif memory.selector == "random":
            self.frozen = pick(self.history, self._drawn())
        else:
            self.frozen = self.buffer

    def _drawn(self) -> Tensor:
        """Random places of the history, seeded by row, layer and head."""
        layers, rows, heads, count, _ = self.history.shape
        size = min(self.n_beacon, count)
        drawn = torch.empty(layers, rows, heads, size, dtype=torch.int64)
        for row, stream in enumerate(self.setting.streams):
            seed = (stream * 1_000_003 + count) % 2**63  # what a generator takes
            generator = torch.Generator().manual_seed(seed)
            noise = torch.rand(layers, heads, count, generator=generator)
            drawn[:, row] = noise.topk(size).indices.sort(-1).values
        return drawn.to(self.history.device)

    def _latest(self, queries: Tensor, positions: Tensor) -> None:
        self.recent = _joined(self.recent, queries)[..., -self.n_recent :, :]
        joined = positions if self.positions is None else torch.cat([self.positions, positions])
        self.positions = joined[-self.n_recent :]

    # ---- at an event

    def votes(self, layer: int, keys: Tensor, positions: Tensor, clock: Clock) -> Votes:
        """score (B, K, n): the largest (or mean) weight over the group's heads and all observers.

        Beacons are rotated to the current position, recent queries to their own; all attend to all
        cached keys.
        """
        if self.frozen is None:  # no latest query has come since the last event
            self._freeze()
        queries = self._rotated(layer, clock, keys)
        weights = attention(queries, keys, self.setting.scale)  # (B, K, G, m, n)
        winner = weights.flatten(2, 3).argmax(2)
        over = weights.amax(3) if self.memory.over_queries == "max" else weights.mean(3)
        score = over.amax(2) if self.memory.over_heads == "max" else over.mean(2)
        return Votes(score, winner)

    def _rotated(self, layer: int, clock: Clock, like: Tensor) -> Tensor:
        """Observing queries of one layer (B, H, m, D), beacons first."""
        found, places = [], []
        if self.frozen is not None:
            found.append(self.frozen[layer])
            places.append(torch.full((self.frozen.shape[-2],), clock.seen - 1))
        if self.recent is not None:
            found.append(self.recent[layer])
            places.append(self.positions.cpu())
        where = torch.cat(places)[None].to(like.device)
        plain = torch.cat(found, -2)
        return rotate(plain, self.setting.rotary.tables(where, clock.seen, plain))

    def dropped(self, kept: list[Tensor], clock: Clock) -> None:
        """Beacons and latest together are sampled for the next cycle."""
        if self.n_beacon and not self.whole and self.memory.selector != "initial":
            both = self.buffer if self.frozen is None else self.frozen
            both = both if self.recent is None else _joined(both, self.recent)
            self.buffer = None if both is None else self._farthest(both)
        self.frozen = None
        if not self.plain:
            self.recent = self.positions = None

    def observers(self, layer: int) -> tuple[list[Observer], Tensor | None]:
        beacons = 0 if self.frozen is None else self.frozen.shape[-2]
        told = [Observer("beacon", -1)] * beacons
        told += [
            Observer("recent", int(p)) for p in ([] if self.positions is None else self.positions)
        ]
        parts = [x[layer] for x in (self.frozen, self.recent) if x is not None]
        return told, torch.cat(parts, -2) if parts else None

    @property
    def bytes(self) -> int:
        frozen = None if self.frozen is self.buffer else self.frozen
        return sum(map(row_bytes, (self.buffer, frozen, self.recent, self.history)))


def _joined(before: Tensor | None, new: Tensor) -> Tensor:
    return new if before is None else torch.cat([before, new], -2)
