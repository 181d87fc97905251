"""From a spec to its copies: every sample at every residue, or the reason why not.

Knows tasks, copies and a memory's fit to a model.  Loads no weights and draws nothing.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from engine.copies import Copy, LogicalSample, phase_copies
from engine.estimate import check_caps, check_characters, estimate, refuse
from engine.registry import TASKS, FieldError, SpecError, to_options


def build(spec: Any, tokenizer: Any, facts: Any) -> list[Copy]:
    """All copies of all samples, ordered by (sample, shift).

    Raises SpecError when a prompt is longer than the model's positions, when the memory does not
    fit the model, or when time, memory or the number of copies passes a cap: before the rest of
    the samples are made.
    """
    return built(spec, tokenizer, facts)[1]


def built(
    spec: Any, tokenizer: Any, facts: Any, speed: float | None = None, most: int | None = None
) -> tuple[list[LogicalSample], list[Copy]]:
    """Samples and their copies, `most` samples at most."""
    task, asked = spec.task, spec.settings
    if facts.architecture == "controlled" and task.kind != "pairs":
        raise refuse("task.kind", f"{spec.model.id} knows only the words of pairs; choose pairs")
    window = getattr(spec.memory, "window", 0)
    if window > getattr(task, "first", window):
        told = f"targets would stand in the first window of {window} tokens; {window} is the least"
        raise refuse("task.first", told)
    problems = spec.memory.check_model(facts.n_layers, facts.full_layers)
    if problems:
        raise SpecError(*(FieldError(f"memory.{e.field}", e.message) for e in problems))
    if hasattr(task, "characters"):
        check_characters(task.characters(), spec, facts, f"task.{task.size_field}")
    sample = task.samples(tokenizer, 1, asked.seed)[0]
    after = getattr(spec.memory, "when", "streamed") == "after_context"
    if after and sample.context_end >= len(sample.tokens):
        raise refuse(
            f"task.{task.size_field}",
            "after_context compresses what stands before the question: mark it with {{question}}",
        )
    if after and getattr(spec.memory, "evicts", False):
        problems = spec.memory.check_prompt(sample.context_end)
        if problems:
            raise SpecError(*(FieldError(f"memory.{e.field}", e.message) for e in problems))
    first = phase_copies(sample, asked.protocol, asked.modulus)
    _check_positions(spec, facts, first)
    count = len(first) * asked.samples
    cost = estimate(spec, facts, count, max(map(scored, first)), speed)
    check_caps(spec, cost, count)
    wanted = asked.samples if most is None else min(asked.samples, most)
    text = json.dumps(to_options(task), sort_keys=True)
    samples, copies = _made(tokenizer, text, asked.protocol, asked.modulus, wanted, asked.seed)
    for sample in copies:
        _check_positions(spec, facts, sample)
    return samples, [copy for sample in copies for copy in sample]


@functools.lru_cache(maxsize=4)
def _made(
    tokenizer: Any, task: str, protocol: str, modulus: int, samples: int, seed: int
) -> tuple[list[LogicalSample], list[list[Copy]]]:
    """Samples and each one's copies, kept: a control and other memories read the same ones."""
    made = TASKS.build(json.loads(task)).samples(tokenizer, samples, seed)
    return made, [phase_copies(sample, protocol, modulus) for sample in made]


def scored(copy: Copy) -> int:
    """Tokens that one forward reads: the prompt and its answer."""
    return len(copy.tokens) + len(copy.answer)


def _check_positions(spec: Any, facts: Any, copies: list[Copy]) -> None:
    longest = max(map(scored, copies))
    if longest > facts.positions:
        sample = f"prompt {copies[0].sample + 1}" if spec.settings.samples > 1 else "the prompt"
        raise refuse(
            f"task.{spec.task.size_field}",
            f"{sample} has {longest:,} tokens with its padding and answer; {spec.model.id} takes "
            f"{facts.positions:,} positions: {longest - facts.positions:,} too many",
        )
