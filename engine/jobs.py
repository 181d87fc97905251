"""Values that the queue keeps of the work it hands out: progress, small requests, provenance.

Knows arithmetic on them, and where the store keeps what was asked for.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine.results import clean


class MapWanted(NamedTuple):
    """One attention map: of which run, of its own rows or the control's."""

    key: str
    run: int
    control: bool
    layer: int
    head: int
    sample: int
    shift: int

    do, field = "map", "attention"

    @property
    def place(self) -> tuple[int, ...]:
        return self.run, self.layer, self.head, self.sample, self.shift

    def find(self, store: Any) -> str | None:
        """The side file, where it was made already."""
        return store.map_file(*self.place)

    def keep(self, store: Any, content: dict) -> None:
        labels = dict(content)
        store.keep_map(*self.place, store.maps.save(labels.pop("weights"), labels))

    def request(self, store: Any) -> dict:
        """What the worker is told."""
        return self._asdict()


class TraceWanted(NamedTuple):
    """One layer's and KV head's evictions in one sample of a decode run, under one arm.

    A query whose `top` keys lie more than `far` tokens away on average counts as global.
    """

    key: str
    run: int
    arm: int
    sample: int
    layer: int
    kv_head: int
    top: int
    far: int

    do, field = "trace", "trace"

    @property
    def place(self) -> tuple[int, ...]:
        return self[1:]

    def find(self, store: Any) -> str | None:
        return store.trace_file(self.place)

    def keep(self, store: Any, content: dict) -> None:
        store.keep_trace(self.place, store.traces.save(clean(content)))

    def request(self, store: Any) -> dict:
        """With the tokens that were read behind the prompt, where they are stored."""
        steps = store.decode_table(self.run, "decode_steps", self.arm, self.sample)
        return self._asdict() | {"continuation": steps["token_id"].to_pylist() or None}


SmallRequest = MapWanted | TraceWanted  # made beside the jobs, and kept in a side file


@dataclass
class Making:
    """A map or trace under way."""

    request: int = 0  # the worker's number for it, 0 before it is sent
    begun: float = field(default_factory=time.monotonic)
    steps: tuple[int, int] = (0, 0)  # of the worker: done, of how many
    dropped: bool = False  # nobody waits for it any more; the worker is still to be told

    def as_dict(self) -> dict:
        done, total = self.steps
        return {"seconds": round(time.monotonic() - self.begun, 1), "done": done, "total": total}


@dataclass
class Progress:
    """Copies of a job at work, its control's included; of a decode run, parts."""

    total: int = 0
    done: int = 0
    computed: int = 0  # in this job
    latest: float = 0.0  # when the last batch came
    costs: dict[str, list[float]] = field(default_factory=dict)  # part → [tokens, seconds]

    def spend(self, part: str, copies: int, tokens: int, seconds: float) -> None:
        """Count one batch."""
        cost = self.costs.setdefault(part, [0, 0.0])
        cost[0] += tokens
        cost[1] += seconds
        self.done += copies
        self.computed += copies
        self.latest = time.monotonic()

    def as_dict(self) -> dict:
        """The time left by the rate measured in this job; it falls between two batches.

        None when all copies are computed, as in a job that has ended.
        """
        left = None
        if self.computed and self.done < self.total:
            rate = sum(seconds for _, seconds in self.costs.values()) / self.computed
            waited = min(time.monotonic() - self.latest, rate * (self.total - self.done))
            left = round(rate * (self.total - self.done) - waited, 1)
        return {"done": self.done, "total": self.total, "seconds_left": left}


COSTS = ("tokens", "wall_seconds", "tokens_per_second", "jobs")


def add_costs(before: dict, tokens: float, seconds: float) -> dict:
    """Provenance with one more job's cost: a run that was cancelled and resumed cost both times."""
    total, spent = before.get("tokens", 0) + tokens, before.get("wall_seconds", 0.0) + seconds
    return before | {
        "tokens": int(total),
        "wall_seconds": round(spent, 3),
        "tokens_per_second": round(total / spent, 1) if spent else None,
        "jobs": before.get("jobs", 0) + 1,
    }


def renew(before: dict, now: dict) -> dict:
    """A finished job's provenance with the costs booked so far; the peak is the largest."""
    kept = {name: before[name] for name in COSTS if name in before}
    peak = max(before.get("peak_memory_bytes", 0), now["peak_memory_bytes"])
    return now | kept | {"peak_memory_bytes": peak}
