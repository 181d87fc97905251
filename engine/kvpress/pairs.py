"""Two imported evaluations of the same questions: the difference of their scores, row by row.

Knows stored predictions and the specs beside them.  Knows nothing of HTTP or of other kinds of run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

# What decides which questions were asked, and what else must be alike for a press to be blamed.
SAME = ("kind", "data_dir", "fraction", "max_context_length", "needle_depth")
KEPT = ("row", "task", "answer")
RESAMPLED = 1000  # rows up to which intervals are a bootstrap's and signs are flipped


def unpaired(one: pd.DataFrame, other: pd.DataFrame, first: dict, second: dict) -> str:
    """Why rows of the two specs' runs cannot be paired, or ""."""
    for name in SAME:
        if first["task"][name] != second["task"][name]:
            told = f"{first['task'][name]} and {second['task'][name]}"
            return f"{name.replace('kind', 'dataset')} differs: {told}"
    if first["seed"] != second["seed"] and first["task"]["fraction"] < 1:
        return "seed differs, and with it which questions of the dataset were drawn"
    if len(one) != len(other) or not one[[*KEPT]].equals(other[[*KEPT]]):
        return "rows differ: the two do not hold the same questions in the same order"
    for frame in (one, other):
        if not frame["score"].notna().all():
            return "rows have no scores, so only the means stand side by side"
    return ""


def difference(
    one: pd.DataFrame, other: pd.DataFrame, first: dict, second: dict
) -> tuple[dict[str, Any] | None, str]:
    """Mean score of `one` less that of `other` with its 95 % interval and p; or None and why not.

    {diff, low, high, p, n, value, base_value, tasks: [{task, n, diff}]}; frames as PREDICTIONS has
    them, specs as dicts.
    """
    if reason := unpaired(one, other, first, second):
        return None, reason
    each = (one["score"] - other["score"]).to_numpy()
    low, high = _interval(each, second["seed"])
    tasks = pd.DataFrame({"task": one["task"], "diff": each}).groupby("task", sort=True)["diff"]
    told = [{"task": t, "n": len(own), "diff": float(own.mean())} for t, own in tasks]
    found = {"diff": float(each.mean()), "low": low, "high": high, "n": len(each)}
    found |= {"p": _p(each, second["seed"]), "tasks": told}
    means = {"value": float(one["score"].mean()), "base_value": float(other["score"].mean())}
    return found | means, ""


def _interval(each: np.ndarray, seed: int) -> tuple[float | None, float | None]:
    """95 % of the mean: rows resampled, or by Student's t where there are very many."""
    from engine.analysis.eviction_pairs import clustered
    from engine.analysis.intervals import reach

    if len(each) < 2:
        return None, None
    if len(each) <= RESAMPLED or np.ptp(each) < 1e-12:
        made = clustered(each, seed, (-1.0, 1.0))
        return made.low, made.high
    half = reach(len(each)) * each.std() / np.sqrt(len(each))
    return float(max(-1.0, each.mean() - half)), float(min(1.0, each.mean() + half))


def _p(each: np.ndarray, seed: int) -> float:
    """Signs flipped at random.  Rows that do not differ have none; the sum of very many is normal,
    with the sum of their squares as variance."""
    from engine.analysis.eviction_pairs import sign_flip

    moved = each[each != 0]
    if len(moved) <= RESAMPLED:
        return sign_flip(moved, seed)
    return float(2 * stats.norm.sf(abs(moved.sum()) / np.sqrt((moved**2).sum())))
