"""Everything that a page or the command line says about one decode run (SCIENCE §6.3).

NLL, recall and retention by method and budget, what each costs, paired tests between methods of one
budget, and the sentences.  Aggregates are always recomputed from rows.  While a run goes on, the
table shows what is there; tests use only prompts in which both arms scored the same.
Knows rows and the list of arms; knows nothing about models, caches or storage.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from engine.analysis.eviction_arms import published
from engine.analysis.eviction_curves import listed, loss_from, retention_curve
from engine.analysis.eviction_pairs import (
    SPAN,
    Cells,
    against_full,
    at_equal_budget,
    clustered,
    compared_at,
    nll_cells,
    recall_cells,
)
from engine.analysis.eviction_warnings import warn
from engine.analysis.eviction_words import say

GIVEN = ("own_budget", "kept_share", "removed_share", "bytes")


def report(
    steps: pd.DataFrame,
    answers: pd.DataFrame,
    marks: pd.DataFrame,
    costs: pd.DataFrame,
    arms: list[dict],
    *,
    seed: int = 0,
    mode: str = "forced",
    fair: str = "time_average",
    model: str = "",
    parameters: float | None = None,
    note: str = "",
) -> dict:
    """The `show` object's numbers, finding and doubt; plain Python values, None where undefined.

    `arms`: index, kind, label, options, budget (mean resident tokens that were asked; None for the
    full cache), own_budget, prompt and steps (tokens), kept_share, removed_share, bytes.  A label
    does not name the budget.  `mode`: "forced" (all arms score one text) or "free" (each writes its
    own, whose NLL is no comparison).  `fair`: "time_average" or "own", what a budget is.
    `parameters`: of the model.
    """
    arms = sorted(arms, key=lambda arm: arm["index"])
    order = [arm["index"] for arm in arms]
    cells = {"nll": nll_cells(steps, order), "recall": recall_cells(answers, order)}
    held = recall_cells(answers, order, "retained")
    compared = cells if mode == "forced" else {"recall": cells["recall"]}
    losses = against_full(compared, arms, seed)
    last, at = _last_held(marks), compared_at(arms)
    methods = [
        _method(
            k,
            arm,
            cells,
            _held(held.by_prompt[k], last.get(arm["index"])),
            costs[costs["arm"] == arm["index"]],
            seed,
        )
        | {"compared_at": at[k]}
        | {"against_full": {"nll": None, "recall": None} | losses[arm["index"]]}
        for k, arm in enumerate(arms)
    ]
    for row, flags in zip(methods, pareto(methods), strict=True):
        # Text of one's own has an NLL of its own.
        row["pareto_nll"] = flags["nll"] if mode == "forced" else None
        row["pareto_recall"] = flags["recall"]
    result = {
        "methods": methods,
        "overall": overall(cells, arms, mode, seed),
        "pairs": at_equal_budget(compared, arms, seed),
        "n_samples": len(_scored(cells)),
        "mode": mode,
        "fair": fair,
        "model": model,
        "parameters": parameters,
        "published": [
            row | {"table": name} for name, rows in published(arms).items() for row in rows
        ],
    }
    full = next((arm["index"] for arm in arms if arm["budget"] is None), None)
    mismatched = _mismatched(cells["nll"], order, full) if mode == "forced" else {}
    result["warnings"] = warn(result, mismatched)
    result["finding"], result["doubt"] = say(result, note)
    loss = full is not None and mode == "forced"
    result["curves"] = {
        "retention": listed(retention_curve(marks, by_mark=False, seed=seed), ("arm",)),
        "retention_by_mark": listed(retention_curve(marks, seed=seed), ("arm", "mark")),
        "loss": listed(loss_from(cells["nll"], order, full, seed), ("arm",)) if loss else [],
    }
    return result


def _scored(cells: dict[str, Cells]) -> set[int]:
    """Prompts that some arm has scored."""
    return {
        int(s)
        for table in cells.values()
        for s in table.samples[np.isfinite(table.by_prompt).any(axis=0)]
    }


def _mismatched(cells: Cells, order: list[int], full: int | None) -> dict[int, int]:
    """Arm → prompts that both it and the full cache scored, but not by the same tokens."""
    if full is None:
        return {}
    base, scored = order.index(full), np.isfinite(cells.by_prompt)
    counts = {
        arm: int((scored[k] & scored[base] & ~cells.comparable(k, base)).sum())
        for k, arm in enumerate(order)
    }
    return {arm: count for arm, count in counts.items() if count}


# ---- one method


def _method(
    row: int, arm: dict, cells: dict[str, Cells], retention: float, costs: pd.DataFrame, seed: int
) -> dict:
    """The line of one arm; `row` is its place in the cells."""
    told = {
        "arm": arm["index"],
        "method": arm["kind"],
        "label": arm["label"],
        "options": arm.get("options") or {},
        "budget": arm["budget"],
        **{name: arm.get(name) for name in GIVEN},
    }
    scored = set()
    for measure, table in cells.items():
        values = table.by_prompt[row]
        scored |= set(table.samples[np.isfinite(values)].tolist())
        mean = clustered(values, seed, SPAN[measure])
        told |= {
            measure: _number(mean.mean),
            f"{measure}_low": _number(mean.low),
            f"{measure}_high": _number(mean.high),
        }
    told |= {"retention": _number(retention), **_costs(costs)}
    length = (arm.get("prompt") or 0) + (arm.get("steps") or 0)
    held_all = arm["budget"] is not None and 0 < length <= arm["budget"]
    return told | {"length": length, "held_all": held_all, "n": len(scored)}


def _held(asked: np.ndarray, left: np.ndarray | None) -> float:
    """Share of marks held when the questions come, else after the last event; mean over prompts."""
    asked = asked[np.isfinite(asked)]
    values = asked if len(asked) or left is None else left
    return float(np.mean(values)) if len(values) else np.nan


def _last_held(marks: pd.DataFrame) -> dict[int, np.ndarray]:
    """Arm → of each prompt the mean over its marks after the prompt's last event."""
    known = marks[np.isfinite(marks["retained"].to_numpy(float, na_value=np.nan))]
    known = known.sort_values(["arm", "sample", "mark", "seen"], kind="stable")
    last = known.groupby(["arm", "sample", "mark"])["retained"].last()
    prompts = last.groupby(["arm", "sample"]).mean()
    return {int(arm): own.to_numpy(float) for arm, own in prompts.groupby("arm")}


def _costs(costs: pd.DataFrame) -> dict:
    """Speed and memory of one arm, over all its batches.

    Only batches with tokens read one by one tell what decoding costs: a forward and the method's
    work beside it, means over those steps, and the events' seconds spread over all decoded
    tokens.  tokens_per_s: all rows' tokens at that pace.  upkeep_share: the method's part of it,
    events included; fps_share: of choosing stored queries alone.  prefill_s: median over batches.
    step_ms and event_ms: of one forward and one event of a batch, pooled.  mean_resident,
    mean_bytes, state_bytes, events: means over prompts; peaks: the largest.  total_bytes:
    mean_bytes (of the cache) and state_bytes (of the method), what one row costs.
    """
    costs = costs.sort_values("sample", kind="stable")
    rows = _column(costs, "rows")
    pace = _pace(costs)
    told = {
        "tokens_per_s": _ratio(1000 * pace["rows"], pace["ms"]),
        "prefill_s": _of(np.median, _column(costs, "prefill_seconds")),
        "upkeep_share": _ratio(pace["upkeep"], pace["ms"]),
        "fps_share": _ratio(pace["fps"], pace["ms"]),
        "mean_resident": _weighted(_column(costs, "resident_mean"), rows),
        "peak_resident": _whole(_of(np.max, _column(costs, "resident_peak"))),
        "peak_bytes": _whole(_of(np.max, _column(costs, "peak_bytes"))),
        "mean_bytes": _weighted(_column(costs, "mean_bytes"), rows),
        "state_bytes": _weighted(_column(costs, "state_bytes"), rows),
        "state_peak": _whole(_of(np.max, _column(costs, "state_peak"))),
        "memory_peak": _whole(_of(np.max, _column(costs, "memory_peak"))),
        "events": _whole(_weighted(_column(costs, "events"), rows)),
    }
    if told["mean_bytes"] is None:
        told["total_bytes"] = None
    else:
        told["total_bytes"] = told["mean_bytes"] + (told["state_bytes"] or 0)
    for name in ("event_ms", "step_ms"):
        pooled = _pooled(costs, name)
        told[f"{name}_p50"] = _of(np.median, pooled)
        told[f"{name}_p99"] = _of(lambda x: np.quantile(x, 0.99), pooled)
    return told


def _pace(costs: pd.DataFrame) -> dict[str, float]:
    """Milliseconds per token and batch, the method's and FPS's parts of them, and the rows that go
    at that pace; sums over the batches that were timed.
    """
    told = dict.fromkeys(("rows", "ms", "upkeep", "fps"), 0.0)
    for batch in costs.to_dict("records"):
        steps = batch["step_ms"]
        if not isinstance(steps, np.ndarray | list | tuple) or not len(steps):
            continue
        events = float(np.sum(batch["event_ms"])) / batch["tokens"]
        upkeep = batch["observe_ms"] / len(steps) + events
        told["rows"] += batch["rows"]
        told["ms"] += float(np.mean(steps)) + upkeep
        told["upkeep"] += upkeep
        told["fps"] += (batch["fps_ms"] or 0.0) / batch["tokens"]
    return told


def _column(costs: pd.DataFrame, name: str) -> np.ndarray:
    return costs[name].to_numpy(float, na_value=np.nan)


def _pooled(costs: pd.DataFrame, name: str) -> np.ndarray:
    lists = [cell for cell in costs[name].tolist() if isinstance(cell, np.ndarray | list | tuple)]
    return np.concatenate([np.asarray(cell, float) for cell in lists]) if lists else np.empty(0)


def _weighted(values: np.ndarray, rows: np.ndarray) -> float | None:
    known = np.isfinite(values) & np.isfinite(rows)
    return _ratio(np.sum(values[known] * rows[known]), np.sum(rows[known]))


def _ratio(above: float, below: float) -> float | None:
    return float(above / below) if below > 0 and np.isfinite(above) else None


def _of(statistic: Any, values: np.ndarray) -> float | None:
    values = values[np.isfinite(values)]
    return float(statistic(values)) if len(values) else None


def _whole(x: float | None) -> float | int | None:
    """A count that is whole is written as one."""
    return int(x) if x is not None and x == int(x) else x


def _number(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None


# ---- over all budgets


def overall(cells: dict[str, Cells], arms: list[dict], mode: str, seed: int) -> list[dict]:
    """Each method over all its budgets: per prompt the mean, then over prompts with an interval;
    the best first, by NLL where all read one text, else by recall.

    An order of point estimates; which differences are more than chance, `pairs` tells.
    """
    rows: dict[str, list[int]] = {}
    for row, arm in enumerate(arms):
        rows.setdefault(arm["label"], []).append(row)
    told = []
    for label, own in rows.items():
        line = {"label": label, "budgets": [arms[row]["budget"] for row in own]}
        for measure, table in cells.items():
            mean = clustered(table.by_prompt[own].mean(axis=0), seed, SPAN[measure])
            line |= {measure: _number(mean.mean)}
            line |= {f"{measure}_low": _number(mean.low), f"{measure}_high": _number(mean.high)}
        told.append(line)
    by, sign = ("nll", 1) if mode == "forced" else ("recall", -1)
    return sorted(told, key=lambda x: (x[by] is None, sign * (x[by] or 0.0)))


# ---- which are worth their bytes


def pareto(methods: list[dict]) -> list[dict]:
    """Method by method {nll, recall}: no other is as good for as few bytes and better in one.

    Point estimates against `total_bytes`; None where either is unknown.
    """
    flags: list[dict] = [{} for _ in methods]
    for measure, sign in (("nll", 1), ("recall", -1)):
        points = [
            None
            if m[measure] is None or m["total_bytes"] is None
            else (sign * m[measure], m["total_bytes"])
            for m in methods
        ]
        known = [p for p in points if p is not None]
        for flag, own in zip(flags, points, strict=True):
            if own is None:
                flag[measure] = None
                continue
            flag[measure] = not any(p != own and p[0] <= own[0] and p[1] <= own[1] for p in known)
    return flags
