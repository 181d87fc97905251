"""From a spec to its copies, and to what the page shows before anything runs.

Knows tasks, copies and a memory's grid.  Loads no weights and asks no model.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from engine.cautions import cautions
from engine.copies import SLOTS, Copy, LogicalSample, phase_copies
from engine.estimate import check_caps, check_characters, estimate, refuse
from engine.registry import FieldError, SpecError
from engine.tasks.text import piece

PREVIEWED = 4096  # copies that are made for a plan


def build(spec: Any, tokenizer: Any, facts: Any) -> list[Copy]:
    """All copies of all samples, ordered by (sample, shift).

    Raises SpecError when a prompt is longer than the model's positions, when the memory does not
    fit the model, or when time, memory or the number of copies passes a cap: before the rest of
    the samples are made.
    """
    return _build(spec, tokenizer, facts)[1]


def _build(
    spec: Any, tokenizer: Any, facts: Any, speed: float | None = None, most: int | None = None
) -> tuple[list[LogicalSample], list[Copy]]:
    """Samples and their copies, `most` samples at most."""
    task, asked = spec.task, spec.settings
    problems = spec.memory.check_model(facts.n_layers, facts.full_layers)
    if problems:
        raise SpecError(*(FieldError(f"memory.{e.field}", e.message) for e in problems))
    if hasattr(task, "characters"):
        check_characters(task.characters(), spec, facts, "task.text")
    sample = task.samples(tokenizer, 1, asked.seed)[0]
    after = getattr(spec.memory, "when", "streamed") == "after_context"
    if after and sample.context_end >= len(sample.tokens):
        raise refuse(
            "task.text",
            "after_context compresses what stands before the question: mark it with {{question}}",
        )
    first = phase_copies(sample, asked.protocol, asked.modulus)
    _check_positions(spec, facts, first)
    count = len(first) * asked.samples
    cost = estimate(spec, facts, count, max(map(_scored, first)), speed)
    check_caps(spec, cost, count)
    wanted = asked.samples if most is None else min(asked.samples, most)
    samples = task.samples(tokenizer, wanted, asked.seed)
    copies = []
    for sample in samples:
        made = phase_copies(sample, asked.protocol, asked.modulus)
        _check_positions(spec, facts, made)
        copies += made
    return samples, copies


def _scored(copy: Copy) -> int:
    """Tokens that one forward reads: the prompt and its answer."""
    return len(copy.tokens) + len(copy.answer)


def _check_positions(spec: Any, facts: Any, copies: list[Copy]) -> None:
    longest = max(map(_scored, copies))
    if longest > facts.positions:
        sample = f"prompt {copies[0].sample + 1}" if spec.settings.samples > 1 else "the prompt"
        raise refuse(
            f"task.{getattr(spec.task, 'size_field', 'text')}",
            f"{sample} has {longest:,} tokens with its padding and answer; {spec.model.id} takes "
            f"{facts.positions:,} positions: {longest - facts.positions:,} too many",
        )


def plan(spec: Any, tokenizer: Any, facts: Any, speed: float | None = None) -> dict:
    """What will run, as JSON: token strip, design table, estimate, warnings.

    `speed`: tokens per second measured on this machine, if known.  Token texts are raw.  Of a large
    run the first PREVIEWED copies stand for all: their lengths, their design table.
    """
    most = max(PREVIEWED // spec.settings.modulus, 1)
    samples, copies = _build(spec, tokenizer, facts, speed, most)
    count = len(copies) * spec.settings.samples // len(samples)
    lengths = [len(copy.tokens) for copy in copies]
    scored = float(np.mean([*map(_scored, copies)]))
    sample, table = samples[0], design(copies)
    cost = estimate(spec, facts, count, round(scored), speed)
    result = {
        "key": spec.key,
        "spec": spec.to_dict(),
        "phrase": spec.memory.phrase(),
        "copies": count,
        "tokens": round(count * scored),
        "length": [min(lengths), max(lengths)],
        "answer": {"text": sample.answer_text, "tokens": _named(tokenizer, sample.answer)},
        "rivals": [
            {"text": text, "id": token, "token": piece(tokenizer, token)}
            for text, token in zip(sample.rival_texts, sample.rivals, strict=True)
        ],
        "filler": {"text": piece(tokenizer, sample.filler), "id": sample.filler},
        "strip": _strip(spec, tokenizer, sample, copies[0]),
        "design": table,
        "model": {"n_layers": facts.n_layers, "q_heads": facts.q_heads},
        "estimate": cost.to_dict(),
        "warnings": cautions(spec, facts, samples, copies, table),
    }
    if sample.shifted is not None:
        result["pair"] = {"tokens": len(sample.shifted.tokens) - len(sample.tokens)}
    return result


def _named(tokenizer: Any, tokens: tuple[int, ...]) -> list[dict]:
    return [{"id": token, "text": piece(tokenizer, token)} for token in tokens]


def _strip(spec: Any, tokenizer: Any, sample: LogicalSample, copy: Copy) -> dict:
    """Tokens of one copy with the grid over them; slots `at` count the prompt without fillers."""
    stride, origin = spec.stride, _origin(spec, copy)
    names = SLOTS.get(spec.settings.protocol, ())
    tokens = []
    for t, (token, role) in enumerate(zip(copy.tokens, copy.roles, strict=True)):
        tokens.append(
            {
                "position": t,
                "id": token,
                "text": piece(tokenizer, token),
                "role": role,
                "phase": (t - origin) % stride if stride else None,
                "window": (t - origin) // stride if stride and t >= origin else None,
                "target": copy.target[0] <= t < copy.target[1],
                "pad": role == "pad",
            }
        )
    return {
        "shift": copy.shift,
        "tokens": tokens,
        "slots": [{"name": s.name, "at": s.at} for s in sample.slots if s.name in names],
        "window": getattr(spec.memory, "window", None),
        "stride": stride,
        "origin": origin,
        "context_end": copy.context_end,
    }


def _origin(spec: Any, copy: Copy) -> int:
    """Where the grid of this copy starts, as the memory places it."""
    moved = copy.origin % spec.stride if spec.stride else copy.origin
    return getattr(spec.memory, "origin", 0) + moved


def design(copies: list[Copy]) -> list[dict]:
    """Per residue: copies, and mean and spread of their targets' positions (SCIENCE §2)."""
    groups: dict[int, list[Copy]] = defaultdict(list)
    for copy in copies:
        groups[copy.residue].append(copy)
    table = []
    for residue, group in sorted(groups.items()):
        targets = [copy.target[0] for copy in group]
        table.append(
            {
                "residue": residue,
                "n": len(group),
                "target_mean": float(np.mean(targets)),
                "target_sd": float(np.std(targets)),
                "query_mean": float(np.mean([copy.query_position for copy in group])),
                "length": float(np.mean([len(copy.tokens) for copy in group])),
            }
        )
    return table
