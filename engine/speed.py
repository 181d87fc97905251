"""How fast runs like this one were on this machine: what an estimate goes by."""

from __future__ import annotations

import statistics
from typing import Any

from engine.kinds import kind_of

RATED = 5  # newest runs that are asked
LEAST = 1_000  # tokens of a run that tells a speed


def speed(store: Any, spec: Any) -> float | None:
    """Tokens per second: the median of the newest own runs of this model, number format and device.

    Of runs with this kind of memory where there are any; what evicts is no measure of what does
    not.  None where nothing was measured.
    """
    asked = spec.to_dict()
    alike, others = [], []
    for made, other in store.booked(kind_of(spec)):
        rate = made.get("tokens_per_second")
        if other["model"] != asked["model"] or not rate or made.get("tokens", 0) < LEAST:
            continue
        mine, its = asked.get("memory") or {}, other.get("memory") or {}
        if mine.get("kind") == its.get("kind"):
            alike.append(rate)
        elif ("budget" in mine) == ("budget" in its):
            others.append(rate)
    rates = (alike or others)[:RATED]
    return statistics.median(rates) if rates else None
