"""Decode specs and rows for tests of everything between a spec and what a client sees."""

from __future__ import annotations

import pyarrow as pa

from engine.eviction.rows import TABLES
from engine.eviction.spec import DecodeSpec

METHODS = [{"kind": "beacon"}, {"kind": "streaming", "sinks": 2}]
SPEC = {
    "kind": "decode",
    "task": {"kind": "lookback", "family": "codes", "length": 400, "facts": 2, "questions": 2},
    "methods": METHODS,
    "budgets": [64, 96],
    "steps": 6,
    "samples": 3,
    "batch": 2,
}
PROMPT = 400
MARKS = ("premise", "north gate")


def make(**changes) -> DecodeSpec:
    return DecodeSpec.from_dict(SPEC | changes)


def batches(spec: DecodeSpec) -> list[tuple[int, list[int]]]:
    """(arm, samples) in the order in which a worker would send them."""
    samples = list(range(spec.samples))
    groups = [samples[i : i + spec.batch] for i in range(0, len(samples), spec.batch)]
    return [(arm, group) for group in groups for arm in range(spec.arm_count)]


def tables(spec: DecodeSpec, arm: int, samples: list[int]) -> dict[str, pa.Table]:
    """Rows of one batch: the later the arm, the worse; one event in the middle of the steps."""
    rows: dict[str, list[dict]] = {name: [] for name in TABLES}
    evicts = arm > 0
    for sample in samples:
        place = {"arm": arm, "sample": sample}
        for i in range(spec.steps):
            rows["decode_steps"].append(
                place
                | {"position": PROMPT + i, "token_id": 100 * sample + i, "text": f" t{i}"}
                | {"logprob": None if i == 0 else -1.0 - 0.1 * arm - 0.01 * sample}
                | {"rank": None if i == 0 else arm, "kept": 60 + i, "event": evicts and i == 3}
            )
        for question, mark in enumerate(MARKS):
            rows["decode_answers"].append(
                place
                | {"question": question, "mark": mark, "correct": not arm, "logprob": -0.5 - arm}
                | {"tokens": 4, "retained": 0.5 if evicts else 1.0}
            )
        if evicts:
            rows["decode_marks"] += [
                place | {"seen": PROMPT + 4, "mark": mark, "retained": 0.5} for mark in MARKS
            ]
        if not evicts:
            rows["decode_texts"].append(place | {"text": "written\n", "ended": "cap"})
    rows["decode_costs"].append(
        {"arm": arm, "sample": samples[0], "rows": len(samples), "prefill_seconds": 0.5}
        | {"decode_seconds": 1.0, "tokens": spec.steps, "events": int(evicts)}
        | {"event_ms": [2.0] * evicts, "step_ms": [1.0, 3.0], "observe_ms": 4.0 * evicts}
        | {"resident_mean": 62.5, "resident_peak": PROMPT, "peak_bytes": 4000, "mean_bytes": 900}
        | {"fps_ms": 1.0 * evicts, "state_bytes": 32 * evicts, "state_peak": 40 * evicts}
        | {"memory_peak": None if arm else 10_000}
    )
    return {n: pa.Table.from_pylist(rows[n], schema=schema) for n, schema in TABLES.items()}


def numbers(spec: DecodeSpec) -> list[dict]:
    """What is kept with a run of its arms."""
    asked = [b for memory in spec.methods[1:] for b in spec.budgets_of(memory)]
    own = [80 if b is None else spec.tokens_of(b, PROMPT) for b in asked]
    told = [
        {"budget": b, "own_budget": None if a is None else b + 5, "bytes": 10 * b}
        for a, b in zip(asked, own, strict=True)
    ]
    return [{"budget": None, "own_budget": None, "bytes": 10 * (PROMPT + spec.steps)}, *told]


def fill(store, spec: DecodeSpec, code: str | None = None, skip: int = 0, **changes) -> int:
    """A finished run, without its last `skip` batches; returns its id."""
    from engine.version import code_version

    store.remember(spec)
    run = store.open_run(spec.key, code or code_version(True), asked=True, kind="decode")
    sent = batches(spec)
    for arm, samples in sent[: len(sent) - skip]:
        store.add_decode(run.id, arm, samples, tables(spec, arm, samples))
    values = {
        "status": "done",
        "copies": spec.parts,
        "answers_expected": spec.parts,
        "tokens_expected": store.counts(run.id).tokens,
        "provenance": {"arms": numbers(spec), "prompt_tokens": PROMPT, "parameters": 10_000},
    }
    store.change(run.id, **values | changes)
    store.verify(run.id)
    return run.id
