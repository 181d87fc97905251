"""Values that the queue keeps of the work it hands out: progress, map requests, provenance.

Knows arithmetic on them only.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple


class MapWanted(NamedTuple):
    """One attention map: of which run, of its own rows or the control's."""

    key: str
    run: int
    control: bool
    layer: int
    head: int
    sample: int
    shift: int


@dataclass
class Progress:
    """Copies of a job at work, its control's included."""

    total: int = 0
    done: int = 0
    left_at_start: int = 0
    started: float | None = None

    def as_dict(self) -> dict:
        computed = self.left_at_start - (self.total - self.done)
        left = None
        if self.started is not None and computed > 0:
            rate = (time.monotonic() - self.started) / computed
            left = round(rate * (self.total - self.done), 1)
        return {"done": self.done, "total": self.total, "seconds_left": left}


def add_up(before: dict, now: dict) -> dict:
    """Provenance over several jobs: time and tokens add up, the peak is the largest."""
    if not before.get("tokens"):
        return now
    total = dict(now)
    for name in ("wall_seconds", "tokens"):
        total[name] = before[name] + now[name]
    total["peak_memory_bytes"] = max(before["peak_memory_bytes"], now["peak_memory_bytes"])
    total["tokens_per_second"] = now["tokens_per_second"] or before["tokens_per_second"]
    total["jobs"] = before.get("jobs", 1) + 1
    return total
