"""What will run, before anything runs: token strip, design table, estimate, warnings.

Knows tasks, copies and a memory's grid.  Loads no weights and asks no model.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import torch

from engine.build import built
from engine.build import scored as scored_tokens
from engine.cautions import cautions
from engine.copies import SLOTS, Copy, LogicalSample, lead_fillers
from engine.density import density
from engine.estimate import estimate
from engine.registry import FieldError, SpecError
from engine.tasks.access_code import AccessCode, sentences
from engine.tasks.text import piece

PREVIEWED = 4096  # copies that are made for a plan


def plan(spec: Any, tokenizer: Any, facts: Any, speed: float | None = None) -> dict:
    """What will run, as JSON: token strip, design table, estimate, warnings.

    `speed`: tokens per second measured on this machine, if known.  Token texts are raw.  Of a large
    run the first PREVIEWED copies stand for all: their lengths, and their design table where a task
    has no law for its targets' places (`designed`: of how many prompts the table is).  The user's
    own prompts are all read: any of them may be refused.
    """
    _check_sentences(spec, facts)
    own = getattr(spec.task, "prompts", ())
    most = None if own else max(PREVIEWED // spec.settings.modulus, 1)
    try:
        samples, copies = built(spec, tokenizer, facts, speed, most)
    except SpecError as error:
        raise _at_longest(spec.task, error) from None
    _check_questions(spec, samples)
    count = len(copies) * spec.settings.samples // len(samples)
    lengths = [len(copy.tokens) for copy in copies]
    scored = float(np.mean([*map(scored_tokens, copies)]))
    sample, places = samples[0], _places(spec, samples, copies)
    table = design(places)
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
        "strip": _strip(spec, tokenizer, facts, sample, copies[0]),
        "design": table,
        "designed": len({place.sample for place in places}),
        "model": {"n_layers": facts.n_layers, "q_heads": facts.q_heads},
        "density": density(spec),
        "estimate": cost.to_dict(),
        "warnings": cautions(spec, facts, samples, copies, table),
    }
    if sample.shifted is not None:
        result["pair"] = {"tokens": len(sample.shifted.tokens) - len(sample.tokens)}
    return result


def _at_longest(task: Any, error: SpecError) -> SpecError:
    """A prompt that is too long is told at its longest part: its text, system message or answer."""
    size = task.size_field
    parts = {name: getattr(task, name, "") for name in (size, "system", "answer")}
    longest = max(parts, key=lambda name: len(parts[name]) if isinstance(parts[name], str) else 0)
    if not isinstance(parts[size], str) or longest == size:
        return error
    return SpecError(
        *(
            FieldError(f"task.{longest}", e.message)
            if e.field == f"task.{size}" and "too many" in e.message
            else e
            for e in error.errors
        )
    )


def _check_sentences(spec: Any, facts: Any) -> None:
    """Refuse sentences by their number: to write thousands that cannot fit takes a minute."""
    if not isinstance(spec.task, AccessCode):
        return
    count = spec.task.before + spec.task.after
    words = count * min(len(sentence.split()) for sentence in sentences())
    if words > facts.positions:
        raise SpecError(
            FieldError(
                f"task.{spec.task.size_field}",
                f"{count:,} sentences have more than {words:,} tokens; {spec.model.id} takes "
                f"{facts.positions:,} positions: fewer before or after the fact fit",
            )
        )


def _check_questions(spec: Any, samples: list[LogicalSample]) -> None:
    """Refuse a prompt without a question where what stands before it is compressed."""
    if getattr(spec.memory, "when", "streamed") != "after_context":
        return
    for sample in samples:
        if sample.context_end >= len(sample.tokens):
            raise SpecError(
                FieldError(
                    f"task.{spec.task.size_field}",
                    f"prompt {sample.index + 1}: after_context compresses what stands before the "
                    "question: mark it with {{question}}",
                )
            )


def _named(tokenizer: Any, tokens: tuple[int, ...]) -> list[dict]:
    return [{"id": token, "text": piece(tokenizer, token)} for token in tokens]


def _strip(spec: Any, tokenizer: Any, facts: Any, sample: LogicalSample, copy: Copy) -> dict:
    """Tokens of one copy with the grid over them; slots `at` count the prompt without fillers."""
    stride, origin = spec.stride, _origin(spec, copy)
    # What learned gates keep is not in the spec, and what is evicted depends on the text.
    evicts = getattr(spec.memory, "evicts", False)
    unknown = evicts or getattr(spec.memory, "learned", False)
    names = SLOTS.get(spec.settings.protocol, ())
    tokens = []
    for t, (token, role) in enumerate(zip(copy.tokens, copy.roles, strict=True)):
        tokens.append(
            {
                "position": t,
                "id": token,
                "text": piece(tokenizer, token),
                "role": role,
                "phase": (t - copy.origin) % stride if stride else None,
                "window": (t - origin) // stride if stride and t >= origin else None,
                "target": copy.target[0] <= t < copy.target[1],
                "pad": role == "pad",
            }
        )
    return {
        "shift": copy.shift,
        "tokens": tokens,
        "slots": [{"name": s.name, "at": s.at} for s in sample.slots if s.name in names],
        "window": None if evicts else getattr(spec.memory, "window", None),
        "stride": stride,
        "origin": origin,
        "context_end": copy.context_end,
        "shares": shares(spec, facts) if stride and not unknown else None,
        "layers": [compressed(spec, facts), facts.n_layers],
    }


def shares(spec: Any, facts: Any) -> dict[str, list[float]]:
    """How much of a token's key and value its entries hold, by its offset in the stride, as shares
    of the largest.

    Read off the memory's own plan, of the first layer that it compresses, away from both ends.
    """
    stride, window = spec.stride, getattr(spec.memory, "window", 1)
    length = 4 * (window + stride) + getattr(spec.memory, "sinks", 0)
    plans = (
        spec.memory.plan(i, length, torch.zeros(1, dtype=torch.int64)) for i in facts.full_layers
    )
    made = next(plan for plan in plans if plan is not None)
    first = length - window - 2 * stride
    first -= (first - getattr(spec.memory, "origin", 0)) % stride  # where a window starts
    cycle = range(first, first + stride)
    found = {}
    for name, weight in (("keys", made.k_weight), ("values", made.v_weight)):
        held = torch.zeros(length, dtype=weight.dtype)
        held.index_add_(0, made.index[0].flatten(), weight[0].flatten())
        at = held[list(cycle)]
        found[name] = (at / at.max().clamp(min=1e-12)).tolist()
    return found


def compressed(spec: Any, facts: Any) -> int:
    """How many of the model's layers the memory compresses."""
    if getattr(spec.memory, "evicts", False):
        return len(facts.full_layers)
    origin = torch.zeros(1, dtype=torch.int64)
    return sum(spec.memory.plan(i, 1, origin) is not None for i in facts.full_layers)


def _origin(spec: Any, copy: Copy) -> int:
    """Where the grid of this copy starts, as the memory places it."""
    moved = copy.origin % spec.stride if spec.stride else copy.origin
    return getattr(spec.memory, "origin", 0) + moved


class Place(NamedTuple):
    """Where one copy has its target and its query."""

    sample: int
    residue: int
    target: int
    query: int
    length: int


def _places(spec: Any, samples: list[LogicalSample], copies: list[Copy]) -> list[Place]:
    """Those of all copies where a layout sets them, else those of the copies that were made."""
    first, modulus = copies[0], spec.settings.modulus
    if samples[0].layout is None:
        return [
            Place(c.sample, c.residue, c.target[0], c.query_position, len(c.tokens)) for c in copies
        ]
    starts = [first.target[0] + lead_fillers(i, modulus) for i in range(spec.settings.samples)]
    return [
        Place(i, at % modulus, at, first.query_position, len(first.tokens))
        for i, start in enumerate(starts)
        for at in range(start, start + modulus)
    ]


def design(places: list[Place]) -> list[dict]:
    """Per residue: copies, and mean and spread of their targets' positions (SCIENCE §2)."""
    groups: dict[int, list[Place]] = defaultdict(list)
    for place in places:
        groups[place.residue].append(place)
    table = []
    for residue, group in sorted(groups.items()):
        targets = [place.target for place in group]
        table.append(
            {
                "residue": residue,
                "n": len(group),
                "target_mean": float(np.mean(targets)),
                "target_sd": float(np.std(targets)),
                "target_var": float(np.var(targets)),
                "query_mean": float(np.mean([place.query for place in group])),
                "length": float(np.mean([place.length for place in group])),
            }
        )
    return table
