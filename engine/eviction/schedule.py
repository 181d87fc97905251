"""Counts alone: how many entries a method holds over a run, and the budget that gives a mean.

The schedule of events depends on lengths, never on content, so that it is known before a run.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from engine.eviction.base import Clock

MOST_BUDGET = 1 << 22


class Resident(NamedTuple):
    """Entries per KV head over the steps after the prompt, after each step's event."""

    mean: float
    peak: int  # at any time, the prompt's reading included
    events: int
    last: int  # at the end


def resident(memory: Any, prompt: int, steps: int, prefill: str = "whole") -> Resident:
    """Mean over `steps` tokens behind a prompt of `prompt` tokens.

    prefill: `whole` reads the prompt at once, with one event at its end where it is due;
    `streamed` reads it as if it had been generated.
    """
    if not getattr(memory, "evicts", False):
        mean = prompt + (steps + 1) / 2
        return Resident(mean, prompt + steps, 0, prompt + steps)
    clock = Clock(prompt=prompt if prefill == "whole" else 0)
    peak, total = 0, 0.0
    if prefill == "whole" and prompt:
        clock.seen = clock.kept = peak = prompt
        clock.prefilled = True
        _event(memory, clock)
        clock.prefilled = False
        left, counted = steps, 0
    else:
        left, counted = prompt + steps, prompt
    while left:
        take = max(1, min(left, memory.room(clock)))
        before, clock.seen, clock.kept = clock.kept, clock.seen + take, clock.kept + take
        peak = max(peak, clock.kept)
        left -= take
        last = clock.kept
        _event(memory, clock)
        skip = max(0, min(take, counted))  # steps of the prompt itself
        counted -= skip
        if take > skip:  # after the piece's tokens skip + 1 … take; the event follows the last
            total += sum(range(before + skip + 1, before + take)) + (
                clock.kept if clock.kept < last else last
            )
    return Resident(total / steps if steps else float(clock.kept), peak, clock.events, clock.kept)


def _event(memory: Any, clock: Clock) -> None:
    if memory.room(clock) <= 0:
        floor = memory.floor(clock)
        if floor < clock.kept:
            clock.kept = floor
        clock.events += 1


def fitted(memory: Any, mean: float, prompt: int, steps: int, prefill: str = "whole") -> Any:
    """The memory with the budget of its own whose mean resident entries come nearest to `mean`.

    Bisection: the mean never falls as the budget grows.  A budget that the method refuses is
    below the least that works; the least is taken then.
    """
    if not getattr(memory, "evicts", False):
        return memory

    def at(budget: int) -> float:
        made = dataclasses.replace(memory, budget=budget)
        return resident(made, prompt, steps, prefill).mean

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
