"""The arms of a decode run: each method at each budget, with a budget of its own that is fair.

Counts alone decide them, so that a run is known before it starts.  Knows specs and schedules.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

from engine.eviction.schedule import Resident, fitted, least, resident
from engine.eviction.spec import FULL, POOLED, DecodeSpec, label, refusals
from engine.registry import FieldError, SpecError

NEAR = 0.02  # by how much of it a mean may pass the one asked for


def prompt_tokens(samples: list) -> int:
    """The length for which a run's arms are made: the mean of its prompts' lengths."""
    return round(sum(len(sample.prompt) for sample in samples) / len(samples))


class Arm(NamedTuple):
    """One method at one budget: `memory` carries the method's own budget, `budget` the asked one
    in entries per KV head (None for the full cache); `label` names the method, not the budget."""

    index: int
    memory: Any
    budget: int | None
    label: str


def arms(spec: DecodeSpec, prompt_tokens: int) -> list[Arm]:
    """All arms of a run over prompts of that many tokens; arm 0 is the full cache.

    SpecError where a budget cannot hold what a method protects, with the least that works.
    """
    reading = spec.steps, spec.prefill, spec.evict
    made, errors = [Arm(0, spec.methods[0], None, FULL)], _alike(spec, prompt_tokens)
    for memory in spec.methods[1:]:
        if memory.kind == POOLED:
            held = held_by(memory, spec, prompt_tokens)
            made.append(Arm(len(made), memory, max(1, round(held.mean)), label(memory)))
            continue
        for i, asked in enumerate(spec.budgets):
            budget = spec.tokens_of(asked, prompt_tokens)
            own = dataclasses.replace(memory, budget=budget)
            if spec.fair == "own":
                errors += refusals(memory, budget, i)
            else:
                own = fitted(memory, budget, prompt_tokens, *reading)
                held = resident(own, prompt_tokens, *reading).mean
                if not _near(held, budget) and own.budget <= least(memory):
                    errors.append(_above(own, held, budget, i, spec, prompt_tokens))
            made.append(Arm(len(made), own, budget, label(memory)))
    if errors:
        raise SpecError(*errors)
    return made


def held_by(memory: Any, spec: DecodeSpec, prompt: int) -> Resident:
    """What a method holds over a run; a chunked memory's own options alone decide it."""
    if memory.kind != POOLED:
        return resident(memory, prompt, spec.steps, spec.prefill, spec.evict)
    from engine.eviction.pooled_schedule import resident_pooled
    from engine.models.loader import facts

    return resident_pooled(memory, facts(spec.model).full_layers, prompt, spec.steps, spec.prefill)


def _near(held: float, budget: int) -> bool:
    """Whether a mean of that many entries passes as the one asked for."""
    return held <= budget + max(1, NEAR * budget)


def _alike(spec: DecodeSpec, prompt: int) -> list[FieldError]:
    """Refusals of shares that come to one number of entries: their arms would be the same."""
    found, errors = {}, []
    for i, asked in enumerate(spec.budgets):
        tokens = spec.tokens_of(asked, prompt)
        if tokens in found:
            told = f"{asked:g} is {tokens} tokens of this prompt, as budgets[{found[tokens]}] is"
            errors.append(FieldError(f"budgets[{i}]", f"{told}; one of them is enough"))
        found.setdefault(tokens, i)
    return errors


def _above(
    memory: Any, held: float, budget: int, at: int, spec: DecodeSpec, prompt: int
) -> FieldError:
    works = max(1, math.floor(held / (1 + NEAR)) - 1)
    while not _near(held, works):
        works += 1
    told = f"{works} tokens is the least that works"
    if spec.unit != "tokens":
        share = math.ceil(1000 * works / spec.shared(prompt)) / 1000
        share = min(share, 1.0) if spec.unit == "kept" else max(1 - share, 0.0)
        told += f", a {spec.unit} share of {round(share, 3):g}"
    return FieldError(
        f"budgets[{at}]",
        f"{memory.kind} holds {held:.0f} entries on average at the least budget it takes "
        f"({memory.budget}), more than {budget}; {told}",
    )
