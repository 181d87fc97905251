"""Rows that a decode run would have stored, with known numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd

LAYOUT = {
    "steps": ("arm", "sample", "position", "token_id", "text", "logprob", "rank", "kept", "event"),
    "answers": ("arm", "sample", "question", "mark", "correct", "logprob", "tokens", "retained"),
    "marks": ("arm", "sample", "seen", "mark", "retained"),
    "costs": ("arm", "sample", "rows", "prefill_seconds", "decode_seconds", "tokens", "events",
              "event_ms", "step_ms", "observe_ms", "resident_mean", "resident_peak", "peak_bytes",
              "mean_bytes", "state_bytes", "fps_ms", "state_peak", "memory_peak"),
}  # fmt: skip
BEACON = {"n_beacon": 16, "n_recent": 16, "selector": "continual"}
BEACON |= {"over_queries": "max", "over_heads": "max", "protect": 32}
PLAIN = BEACON | {"n_beacon": 0, "n_recent": 32}


def arm(index: int, kind: str = "rkv", budget: float | None = 96, label: str = "", **options):
    return {
        "index": index,
        "kind": kind,
        "label": label or kind,
        "options": options,
        "budget": budget,
        "own_budget": budget,
        "prompt": 200,
        "steps": 56,
        "kept_share": None if budget is None else budget / 256,
        "removed_share": None if budget is None else 1 - budget / 256,
        "bytes": 1000,
    }


def full() -> dict:
    return arm(0, "full", None, "full cache")


def table(name: str, rows: list[dict]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(LAYOUT[name]))


def steps(nll: np.ndarray, numbers: list[int] | None = None, start: int = 200) -> pd.DataFrame:
    """Continuation tokens with NLL `nll` [A, S, K], NaN as unscored; prompts of unequal length."""
    rows = [
        {"arm": (numbers or range(len(nll)))[a], "sample": s, "position": start + 3 * s + k}
        | {"token_id": 100 * s + k, "logprob": -nll[a, s, k], "kept": 90, "event": False}
        for a, s, k in np.ndindex(nll.shape)
    ]
    return table("steps", rows)


def answers(
    right: np.ndarray, retained: float = 0.5, numbers: list[int] | None = None
) -> pd.DataFrame:
    """Questions with `right` [A, S, Q] of 0 and 1, no row where NaN."""
    rows = [
        {"arm": (numbers or range(len(right)))[a], "sample": s, "question": q, "mark": f"fact {q}"}
        | {"correct": bool(right[a, s, q]), "logprob": -1.0, "tokens": 2, "retained": retained}
        for a, s, q in np.ndindex(right.shape)
        if np.isfinite(right[a, s, q])
    ]
    return table("answers", rows)


def costs(arms: list[dict], batches: int = 2, **changed) -> pd.DataFrame:
    """Batches of four rows; mean resident tokens are what was asked unless `changed`."""
    rows = [
        {"arm": a["index"], "sample": 4 * k, "rows": 4, "prefill_seconds": 0.5}
        | {"decode_seconds": 2.0, "tokens": 56, "events": 0 if a["budget"] is None else 7}
        | {"event_ms": [1.0, 3.0], "step_ms": [2.0, 4.0, 6.0], "observe_ms": 100.0}
        | {"resident_mean": float(a["budget"] or 228), "resident_peak": int(a["budget"] or 256)}
        | {"peak_bytes": 2000, "mean_bytes": 1000, "state_bytes": 0}
        | {"fps_ms": 28.0, "state_peak": 64, "memory_peak": 1 << 20}
        | changed
        for a in arms
        for k in range(batches)
    ]
    return table("costs", rows)


def nothing(name: str) -> pd.DataFrame:
    return table(name, [])
