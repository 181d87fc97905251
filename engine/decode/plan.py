"""What a decode run will do, before anything runs: its arms, its prompts, what it costs, warnings.

Knows prompts and counts of entries.  Loads no weights and asks no model.
"""

from __future__ import annotations

import math
from typing import Any

from engine.cautions import FEW_SAMPLES, frozen, slow
from engine.estimate import (
    MAX_COPIES,
    MAX_SECONDS,
    PIECE,
    RUNTIME,
    Estimate,
    compute_rate,
    duration,
    least_seconds,
    memory_cap,
    refuse,
    size,
    smaller,
)
from engine.eviction.arms import Arm, arms, held_by, prompt_tokens
from engine.eviction.spec import FULL, label, method_options
from engine.registry import FieldError, SpecError

PREVIEWED = 8  # prompts that are made for a plan, where all are of one length
FAR = 0.05  # by how much of it a mean may miss the one asked for, untold
CHARACTERS = 32  # no tokenizer in use spends fewer than one token on so many


def plan(spec: Any, tokenizer: Any, facts: Any, speed: float | None = None) -> dict:
    """What will run, as JSON; SpecError where something is refused.

    `speed`: tokens per second of an earlier decode run of this model on this machine, if known.
    """
    _check_before(spec, facts)
    own = getattr(spec.task, "size", int)()
    samples = spec.task.samples(
        tokenizer, spec.samples if own else min(spec.samples, PREVIEWED), spec.seed
    )
    _check_windows(spec, samples)
    _check_positions(spec, facts, samples)
    length = prompt_tokens(samples)
    made = arms(spec, length)
    lines = [arm_line(spec, arm, facts, length) for arm in made]
    cost = estimate(spec, facts, made, length, speed)
    check_caps(spec, cost)
    lengths = [len(sample.prompt) for sample in samples]
    return {
        "kind": spec.kind,
        "key": spec.key,
        "spec": spec.to_dict(),
        "phrase": spec.phrase(),
        "copies": spec.parts,
        "tokens": cost.tokens,
        "length": [min(lengths), max(lengths)],
        "prompt_tokens": length,
        "steps": spec.steps,
        "arms": lines,
        "bytes_per_token": bytes_per_token(facts),
        "sample": _shown(tokenizer, samples[0]),
        "model": {
            "n_layers": facts.n_layers,
            "layers": list(facts.full_layers),
            "q_heads": facts.q_heads,
            "kv_heads": facts.kv_heads,
        },
        "estimate": cost.to_dict(),
        "warnings": warnings(spec, made, lines, length),
    }


# ---- arms


def bytes_per_token(facts: Any) -> int:
    """Keys and values of one entry in every evicting layer, one row."""
    return 2 * len(facts.full_layers) * facts.kv_heads * facts.head_dim * facts.bytes_per_weight


def arm_numbers(arm: Arm, facts: Any, total: int) -> dict:
    """What is kept with a run of each of its arms; `total`: tokens of prompt and steps."""
    heads = facts.q_heads // facts.kv_heads if getattr(arm.memory, "per_query_head", False) else 1
    return {
        "budget": arm.budget,
        "own_budget": getattr(arm.memory, "budget", None),
        "bytes": min(arm.budget or total, total) * heads * bytes_per_token(facts),
    }


def told_arms(spec: Any, length: int, numbers: list[dict]) -> list[dict]:
    """Arms as statistics and pages read them, from the numbers that are kept with a run."""
    methods = [(memory, b) for memory in spec.methods for b in spec.budgets_of(memory)]
    total, found = spec.shared(length), []
    for index, ((memory, _), own) in enumerate(zip(methods, numbers, strict=True)):
        options = method_options(memory)
        kept = 1.0 if own["budget"] is None else min(own["budget"] / total, 1.0)
        found.append(
            {
                "index": index,
                "kind": options.pop("kind"),
                "label": FULL if memory.kind == FULL else label(memory),
                "options": options,
                "prompt": length,
                "steps": spec.steps,
                "kept_share": kept,
                "removed_share": 1 - kept,
                **{name: own[name] for name in ("budget", "own_budget", "bytes")},
            }
        )
    return found


def arm_line(spec: Any, arm: Arm, facts: Any, length: int) -> dict:
    """One arm of a plan: its budget in three units, its bytes, and what its schedule holds."""
    numbers = arm_numbers(arm, facts, length + spec.steps)
    share = 1.0 if arm.budget is None else min(arm.budget / spec.shared(length), 1.0)
    held = held_by(arm.memory, spec, length)
    return {
        "arm": arm.index,
        "method": arm.memory.kind,
        "label": arm.label,
        "options": {k: v for k, v in method_options(arm.memory).items() if k != "kind"},
        **numbers,
        "kept_share": share,
        "removed_share": 1 - share,
        "mean_resident": held.mean,
        "peak_resident": held.peak,
        "events": held.events,
    }


# ---- what is refused


def _check_before(spec: Any, facts: Any) -> None:
    """Refusals that need no tokens: the model's layers, far too long prompts."""
    problems = [
        FieldError("model.id", e.message)
        for memory in spec.methods[1:]
        for e in memory.check_model(facts.n_layers, facts.full_layers)
    ]
    if problems:
        raise SpecError(problems[0])
    if spec.parts > MAX_COPIES:
        most = MAX_COPIES // spec.arm_count
        told = f"{spec.parts:,} parts; the cap is {MAX_COPIES:,}: at most {most:,} samples"
        raise refuse("samples", f"this run would be {told}")
    field = f"task.{getattr(spec.task, 'size_field', 'prompts')}"
    length = getattr(spec.task, "length", 0)
    if length + spec.steps > facts.positions:
        raise _too_long(field, "a prompt", length, spec.steps, facts.positions, spec.model.id)
    for number, count in enumerate(_characters(spec.task), 1):
        if count > CHARACTERS * min(facts.positions, 1_000_000):
            told = f"prompt {number} has {count:,} characters, about {count // 4:,} tokens; the "
            raise refuse(field, f"{told}model takes {facts.positions:,} positions")


def _characters(task: Any) -> list[int]:
    """Of each of the user's own prompts, for a refusal before anything is tokenised."""
    tables = [p for p in getattr(task, "prompts", ()) if isinstance(p, dict)]
    return [sum(len(v) for v in p.values() if isinstance(v, str)) for p in tables]


def _check_windows(spec: Any, samples: list) -> None:
    """Methods whose queries must fit into the shortest prompt."""
    shortest = min(len(sample.prompt) for sample in samples)
    for memory in spec.methods[1:]:
        if getattr(memory, "evicts", False) and (found := memory.check_prompt(shortest)):
            raise refuse("methods", f"{label(memory)}: {found[0].field}: {found[0].message}")


def _check_positions(spec: Any, facts: Any, samples: list) -> None:
    """Prompt, what is written behind it, and each question with its answer."""
    for sample in samples:
        asked = max((len(q.tokens) + len(q.answer) for q in sample.questions), default=0)
        behind = (len(sample.continuation) or spec.steps) + asked
        if len(sample.prompt) + behind > facts.positions:
            name = f"prompt {sample.index + 1}" if spec.samples > 1 else "the prompt"
            field = f"task.{getattr(spec.task, 'size_field', 'prompts')}"
            found = len(sample.prompt)
            raise _too_long(field, name, found, behind, facts.positions, spec.model.id)


def _too_long(field: str, name: str, length: int, behind: int, most: int, model: str) -> SpecError:
    over = length + behind - most
    return refuse(
        field,
        f"{name} of {length:,} tokens with {behind:,} behind it is {over:,} too many: {model} "
        f"takes {most:,} positions; shorten the prompt or the steps",
    )


def check_caps(spec: Any, cost: Estimate) -> None:
    """SpecError with the estimate and the cap that it passes."""
    told = (
        f"this run would be {spec.parts:,} parts, {cost.tokens:,} tokens, about "
        f"{duration(cost.seconds)} and {size(cost.bytes)} of memory"
    )
    if cost.bytes > (cap := memory_cap()):
        told = f"{told}; the cap on this machine is {size(cap)} of memory: {cost.less}"
        raise refuse("batch", told)
    if cost.seconds > MAX_SECONDS:
        raise refuse("samples", f"{told}; the cap is {duration(MAX_SECONDS)}")


# ---- what it costs


def estimate(
    spec: Any, facts: Any, made: list[Arm], length: int, speed: float | None = None
) -> Estimate:
    """Seconds and bytes of all arms.  A forward takes as long as its arithmetic or as reading the
    weights, whichever is longer: single tokens are bound by the latter."""
    tokens = spec.parts * (length + spec.steps)
    if speed:
        seconds = tokens / speed
    else:
        groups = math.ceil(spec.samples / spec.batch)
        seconds = groups * sum(_seconds(spec, facts, arm, length) for arm in made)

    def held(batch: int, length: int) -> int:
        return _bytes(spec, facts, length, batch)

    rows, rate = min(spec.batch, spec.samples), tokens / max(seconds, 1e-9)
    less = smaller(held, rows, length)
    return Estimate(seconds, held(rows, length), tokens, rate, bool(speed), less)


def _seconds(spec: Any, facts: Any, arm: Arm, length: int) -> float:
    """One arm over one batch: the prompt in large pieces, the steps in those between events."""
    rows, total = min(spec.batch, spec.samples), length + spec.steps
    rate = compute_rate(spec.model, facts, total)
    weights = least_seconds(spec.model, facts)
    period = max(getattr(arm.memory, "period", getattr(arm.memory, "stride", PIECE)), 1)
    writes = arm.index == 0 or spec.mode == "free"
    step = 1 if writes else min(period, PIECE)
    whole = spec.prefill == "whole" or arm.index == 0
    pieces = [(PIECE if whole else min(period, PIECE), length), (step, spec.steps)]
    asked = 16 * rows  # about the tokens of one question
    seconds = 4 * max(asked / rate, weights)
    for most, count in pieces:
        piece = min(most, count)
        seconds += math.ceil(count / piece) * max(rows * piece / rate, weights)
    return seconds + (spec.steps * rows / rate if writes else 0)


def _bytes(spec: Any, facts: Any, length: int, rows: int) -> int:
    """Peak of the worker: weights, a batch's full cache twice, the activations of one piece."""
    width, total = facts.bytes_per_weight, length + spec.steps
    cache = 2 * facts.n_layers * facts.kv_heads * facts.head_dim * total * width
    piece = min(length, PIECE)
    if spec.prefill == "whole":
        piece = length
    activations = piece * (12 * facts.hidden + 4 * facts.q_heads * facts.head_dim) * 4
    queries = facts.n_layers * facts.q_heads * facts.head_dim * piece * width
    mask = 3 * piece * total * width
    return RUNTIME + facts.parameters * width + rows * (2 * cache + activations + queries + mask)


# ---- what a reader should know


def warnings(spec: Any, made: list[Arm], lines: list[dict], length: int) -> list[str]:
    found = [*slow(spec)]
    total = length + spec.steps
    read = f"prompt and steps are {total:,} tokens"
    for holds, why in ((True, "the budget holds them"), (False, "no event comes within them")):
        idle = [
            f"{x['label']} at {x['budget']}"
            for x in lines[1:]
            if not x["events"] and (total <= x["budget"]) == holds
        ]
        if idle:
            found.append(f"Nothing is evicted by {_few(idle)}: {read}, and {why}.")
    if spec.fair == "time_average":
        off = [
            f"{x['label']} {x['mean_resident']:.0f} of {x['budget']}"
            for x in lines[1:]
            if x["events"] and abs(x["mean_resident"] - x["budget"]) > FAR * x["budget"]
        ]
        if off:
            found.append(f"Entries held on average miss the budget asked for: {_few(off)}.")
    else:
        found.append(
            "Budgets are the methods' own: at one budget they hold different numbers of entries "
            "on average. Set fair to time_average to compare them at the same."
        )
    if still := [arm.label for arm in made[1:] if frozen(arm.memory)]:
        found.append(
            f"An event comes before the latest queries are new: beacons of "
            f"{_few(list(dict.fromkeys(still)))} are renewed at events alone. A larger budget "
            "renews them in between."
        )
    if spec.samples < FEW_SAMPLES:
        noun = "prompt" if spec.samples == 1 else "prompts"
        found.append(
            f"{spec.samples} {noun}: intervals will be wide or absent; eight are a fair start."
        )
    return found


def _few(words: list[str], most: int = 4) -> str:
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")


def _shown(tokenizer: Any, sample: Any) -> dict:
    """The first prompt's tokens with the span each lies in, and its questions, as text."""
    from engine.tasks.text import piece

    names: list[str | None] = [None] * len(sample.prompt)
    for name, start, stop in sample.marks:  # wide spans first: the narrow one names the token
        names[start:stop] = [name] * (stop - start)
    return {
        "tokens": [
            {"position": i, "id": token, "text": piece(tokenizer, token), "mark": name}
            for i, (token, name) in enumerate(zip(sample.prompt, names, strict=True))
        ],
        "marks": [
            {"name": name, "start": start, "stop": stop} for name, start, stop in sample.marks
        ],
        "questions": [
            {
                "text": tokenizer.decode(question.tokens),
                "answer": tokenizer.decode(question.answer),
                "mark": question.mark,
            }
            for question in sample.questions
        ],
        "continuation": len(sample.continuation),
    }
