"""Counts alone: how many entries a method holds over a run, and the budget that gives a mean.

The schedule of events depends on lengths, never on content, so that it is known before a run.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from engine.eviction.base import Clock, behind_prompt, room, start

MOST_BUDGET = 1 << 22


class Resident(NamedTuple):
    """Entries per KV head over the steps after the prompt, after each step's event."""

    mean: float
    peak: int  # at any time, the prompt's reading included
    events: int
    last: int  # at the end


def resident(
    memory: Any, prompt: int, steps: int, prefill: str = "whole", evict: str = "both"
) -> Resident:
    """Mean over `steps` tokens behind a prompt of `prompt` tokens.

    prefill: `whole` reads the prompt at once, with one event at its end where it is due;
    `streamed` reads it as if it had been generated.  evict: prompt, decode or both.
    """
    if not getattr(memory, "evicts", False):
        mean = prompt + (steps + 1) / 2
        return Resident(mean, prompt + steps, 0, prompt + steps)
    whole = prefill == "whole" and prompt > 0
    clock = Clock(prompt=prompt if whole else 0, rests=start(evict))
    if whole:
        peak = clock.seen = clock.kept = prompt
        clock.prefilled = True
        _event(memory, clock)
        clock.prefilled = False
    else:
        _, peak = _read(memory, clock, prompt)
    behind_prompt(memory, clock, evict)
    total, most = _read(memory, clock, steps)
    mean = total / steps if steps else float(clock.kept)
    return Resident(mean, max(peak, most), clock.events, clock.kept)


def _read(memory: Any, clock: Clock, count: int) -> tuple[int, int]:
    """Sum over `count` tokens of the entries after each one's event, and the most there were."""
    total = most = 0
    while count:
        take = max(1, min(count, room(memory, clock)))
        before, clock.seen, clock.kept = clock.kept, clock.seen + take, clock.kept + take
        most, count = max(most, clock.kept), count - take
        _event(memory, clock)
        total += sum(range(before + 1, before + take)) + clock.kept
    return total, most


def _event(memory: Any, clock: Clock) -> None:
    if room(memory, clock) <= 0:
        floor = memory.floor(clock)
        if floor < clock.kept:
            clock.kept = floor
        clock.events += 1


def fitted(
    memory: Any, mean: float, prompt: int, steps: int, prefill: str = "whole", evict: str = "both"
) -> Any:
    """The memory with the budget of its own whose mean resident entries come nearest to `mean`.

    Bisection: the mean never falls as the budget grows.  A budget that the method refuses is
    below the least that works; the least is taken then.
    """
    if not getattr(memory, "evicts", False):
        return memory

    def at(budget: int) -> float:
        made = dataclasses.replace(memory, budget=budget)
        return resident(made, prompt, steps, prefill, evict).mean

    low, high = least(memory), max(prompt + steps + 1, least(memory) + 1)
    if at(low) >= mean:  # a cache that grows with its prompt may hold more at any budget
        return dataclasses.replace(memory, budget=low)
    while high - low > 1:
        middle = (low + high) // 2
        if at(middle) <= mean:
            low = middle
        else:
            high = middle
    best = min((low, high), key=lambda budget: (abs(at(budget) - mean), budget))
    return dataclasses.replace(memory, budget=best)


def least(memory: Any) -> int:
    """The smallest budget that the method's own check accepts with its other options."""
    low, high = 1, 1
    while high < MOST_BUDGET and _refused(memory, high):
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if _refused(memory, middle):
            low = middle + 1
        else:
            high = middle
    return high


def _refused(memory: Any, budget: int) -> bool:
    return any(e.field == "budget" for e in dataclasses.replace(memory, budget=budget).check())
