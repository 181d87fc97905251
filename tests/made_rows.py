"""Rows as a worker would send them, with numbers that a test can foresee."""

from __future__ import annotations

import math

import pyarrow as pa

from engine.rows import ANSWERS, TOKENS

SPEC = {
    "model": {"id": "smollm2-135m"},
    "memory": {"kind": "pooled", "window": 4, "stride": 4},
    "task": {"kind": "access_code"},
    "samples": 3,
    "modulus": 8,
    "batch": 4,
}


def probability(residue: int, weak: int | None) -> float:
    """.2 at the weak phase of stride 4, .8 elsewhere."""
    return 0.2 if weak is not None and residue % 4 == weak else 0.8


def answers(pairs: list[tuple[int, int]], weak: int | None = 1, layer: int = -1) -> pa.Table:
    """One answer row for each (sample, shift)."""
    rows = []
    for sample, shift in pairs:
        logprob = math.log(probability((shift + sample) % 8, weak)) + 0.001 * sample
        rows.append(
            {
                "sample": sample,
                "shift": shift,
                "residue": (shift + sample) % 8,
                "layer": layer,
                "length": 20,
                "target_position": shift + sample,
                "query_position": 19,
                "origin": 0,
                "correct": logprob > math.log(0.5),
                "logprob": logprob,
                "token_logprobs": [logprob / 2, logprob / 2],
                "token_ranks": [0, 0],
                "token_residues": [(shift + sample) % 8] * 2,
                "rival_logprobs": [-2.0],
            }
        )
    return pa.Table.from_pylist(rows, schema=ANSWERS)


def tokens(pairs: list[tuple[int, int]], length: int = 5) -> pa.Table:
    """`length` token rows for each (sample, shift); the first `shift` of them are fillers."""
    rows = []
    for sample, shift in pairs:
        for position in range(1, length + 1 + shift):
            pad = position <= shift
            rank = position - shift
            rows.append(
                {
                    "sample": sample,
                    "shift": shift,
                    "residue": (shift + sample) % 8,
                    "position": position,
                    "token_id": 0 if pad else 100 + rank,
                    "text": "·" if pad else f"t{rank}",
                    "role": "pad" if pad else "text",
                    "logprob": -1.0 - 0.1 * shift - max(rank, 0),
                    "rank": 0,
                    "entropy": 1.0,
                    "top_ids": [1, 2],
                    "top_logprobs": [-0.5, -1.5],
                }
            )
    return pa.Table.from_pylist(rows, schema=TOKENS)


ALL = [(sample, shift) for sample in range(3) for shift in range(8)]


def fill(store, key: str, pairs=ALL, weak: int | None = 1, code: str | None = None, **changes):
    """A finished run with these copies, its counts those of all copies; returns its id."""
    from engine.version import code_version

    run = store.open_run(key, code or code_version(), asked=True)
    for at in range(0, len(pairs), 4):
        batch = pairs[at : at + 4]
        store.add(run.id, answers(batch, weak), tokens(batch))
    values = {
        "status": "done",
        "copies": len(ALL),
        "answers_expected": len(ALL),
        "tokens_expected": tokens(ALL).num_rows,
        "noise_floor": 1e-6,
        "provenance": {"dtype": "float32"},
    }
    store.change(run.id, **values | changes)
    store.verify(run.id)
    return run.id


def fill_both(store, spec, **options) -> int:
    """A run and its flat control, remembered under their keys."""
    store.remember(spec)
    store.remember(spec.control)
    control = fill(store, spec.control.key, weak=None, **options)
    store.change(control, asked=False)
    return fill(store, spec.key, control_run=control, **options)
