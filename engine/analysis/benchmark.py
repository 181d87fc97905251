"""Repairs and rival explanations that a benchmark page tells beside its curves (SCIENCE §4, §8).

Two phases for one answer, and random jitter, under one rule of what is right; and whether accuracy
by residue goes with depth or density rather than with the phase.
Knows rows and a stride; knows nothing about memories, runs or sentences.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from engine.analysis.curve import fold, plain
from engine.analysis.gap import gap_interval
from engine.analysis.intervals import percentile, resample, resampled_means, wilson

DRAWS = 4000
BINS = 12  # quantile bins of a distance that takes many values


# ---- two phases, one answer


def combined(
    answers: pd.DataFrame,
    stride: int,
    other: pd.DataFrame | None = None,
    *,
    modulus: int | None = None,
    seed: int = 0,
) -> list[dict]:
    """Four rules for the same questions, one row each; [] without whole samples or rivals.

    The reading at residue r is combined with the one at r + S/2 (r + (S + 1)/2 for odd S) of the
    same sample, taken from `other` where another run of the samples is given.

    Right is a *forced choice among gold and the followed rivals* at the first answer token, in all
    four rules alike: rows do not hold the rest of the vocabulary, so these numbers stand at or
    above full-vocabulary accuracy and are compared with each other only.  `chance`: what a guess
    among them scores.

    - "one run": gold's log-probability exceeds every rival's.
    - "mean log-probability": gold's mean over both readings exceeds every rival's mean.
    - "agreement": both readings are right; where their choices differ no answer is given
      (`answered`: the share of questions that get one).
    - "random jitter once": a question is read at one residue drawn at random, whatever its own.
      Exact expectations: every residue then has the overall mean, `worst` too; its `worst_case` is
      that of one run.

    `mean`, `worst` (lowest residue), `gap` (max - min over residues), `folded_gap`, each with its
    interval except `gap`; `worst_case`: the share of questions that are right at whichever residue
    they are read, which no jitter improves.  Cluster bootstrap over samples; a single residue's
    share of right answers, `worst`, has Wilson's interval, which does not collapse at 0.
    """
    size = modulus or int(plain(answers)["residue"].max() + 1 if len(answers) else 0)
    first = _readings(answers, size)
    second = first if other is None else _readings(other, size)
    if not size or size % stride or first is None or second is None:
        return []
    shared = sorted(set(first) & set(second))
    if not shared:
        return []
    here = np.stack([first[s] for s in shared])  # [n, R, gold and rivals]
    there = np.stack([second[s] for s in shared])
    there = np.roll(there, -((stride + 1) // 2), axis=1)
    if here.shape != there.shape:
        return []
    right, mate = _chosen(here), _chosen(there)
    both = (right == 0) & (mate == 0)
    one = (right == 0).astype(float)
    counts = resample(len(shared), seed)
    jitter = np.repeat(one.mean(axis=1, keepdims=True), size, axis=1)
    rows = [
        _row("one run", one, stride, counts, 1),
        _row("mean log-probability", _chosen(here + there) == 0, stride, counts, 2),
        _row("agreement", both, stride, counts, 2),
        _row("random jitter once", jitter, stride, counts, 1),
    ]
    rows[2]["answered"] = float(np.mean(right == mate))
    rows[3] |= {k: rows[0][k] for k in ("worst_case", "worst_case_low", "worst_case_high")}
    return [row | {"chance": 1 / here.shape[2]} for row in rows]


def _readings(answers: pd.DataFrame, size: int) -> dict[int, np.ndarray] | None:
    """Sample → log-probabilities [R, gold and rivals] of whole samples; None without rivals."""
    rows = plain(answers)
    if not len(rows) or "rival_logprobs" not in rows:
        return None
    rivals = rows["rival_logprobs"].tolist()
    told = [isinstance(r, np.ndarray | list | tuple) for r in rivals]
    many = max((len(r) for r, known in zip(rivals, told, strict=True) if known), default=0)
    if not many:
        return None
    table = np.full((len(rows), 1 + many), np.nan)
    table[:, 0] = _gold(rows)
    for cells, one, known in zip(table, rivals, told, strict=True):
        if known and len(one) == many:
            cells[1:] = one
    samples, row = np.unique(rows["sample"].to_numpy(int), return_inverse=True)
    cells = np.full((len(samples), size, 1 + many), np.nan)
    cells[row, rows["residue"].to_numpy(int) % size] = table
    whole = np.isfinite(cells).all(axis=(1, 2))
    return {int(s): cells[i] for i, s in enumerate(samples) if whole[i]}


def _gold(rows: pd.DataFrame) -> np.ndarray:
    """Gold's log-probability at the first answer token, where rivals are measured too."""
    joint = rows["logprob"].to_numpy(float, na_value=np.nan)
    if "token_logprobs" not in rows:
        return joint
    lists = rows["token_logprobs"].tolist()
    return np.array(
        [
            t[0] if isinstance(t, np.ndarray | list | tuple) and len(t) else whole
            for t, whole in zip(lists, joint, strict=True)
        ]
    )


def _chosen(logprobs: np.ndarray) -> np.ndarray:
    """Index of the choice on the last axis, 0 for gold; a rival that ties with gold wins."""
    rival = logprobs[..., 1:].argmax(axis=-1) + 1
    return np.where(logprobs[..., 0] > logprobs[..., 1:].max(axis=-1), 0, rival)


def _row(rule: str, right: np.ndarray, stride: int, counts: np.ndarray, forwards: int) -> dict:
    """One rule's numbers from what is right [n, R]."""
    right = right.astype(float)
    n, curve = len(right), right.mean(axis=0)
    worst = int(curve.argmin())
    mean = percentile(resampled_means(right, counts).mean(axis=1), n)
    always = right.min(axis=1, keepdims=True)
    least = percentile(resampled_means(always, counts)[:, 0], n)
    binary = np.isin(right, (0, 1)).all()
    hits = right[:, worst]
    low, high = (
        wilson(hits.sum(), n)
        if binary
        else percentile(resampled_means(hits[:, None], counts)[:, 0], n)
    )
    folded = fold(right, stride).mean(axis=0)
    gap_low, gap_high = gap_interval(right, stride, counts)
    numbers = {
        "mean": curve.mean(),
        "mean_low": mean.low,
        "mean_high": mean.high,
        "worst": curve[worst],
        "worst_low": low,
        "worst_high": high,
        "gap": np.ptp(curve),
        "folded_gap": np.ptp(folded),
        "folded_gap_low": gap_low,
        "folded_gap_high": gap_high,
        "worst_case": always.mean(),
        "worst_case_low": least.low,
        "worst_case_high": least.high,
        "answered": 1.0,
    }
    told = {name: float(x) if np.isfinite(x) else None for name, x in numbers.items()}
    return {"rule": rule, "forwards": forwards, "n_samples": n} | told


# ---- density and depth


def density_and_depth(
    answers: pd.DataFrame,
    pairs_in_window: Sequence[int] | None = None,
    *,
    seed: int = 0,
    draws: int = DRAWS,
) -> dict:
    """{distance, pairs}: does accuracy by residue go with depth, or with density?

    Columns: sample, residue, correct, target_position, query_position, and `pairs` (records in the
    target's window) unless `pairs_in_window` gives them by row.  Each block: `points` [{x,
    accuracy, n}], one a residue, the mean of its copies; `rho` and `p`, Spearman's rank correlation
    over those points, two-sided by permuting residues (None where x or accuracy do not vary);
    `bins`, the same of all copies, binned by whole number or by quantile.
    """
    rows = plain(answers)
    near = rows["query_position"].to_numpy(float) - rows["target_position"].to_numpy(float)
    dense = rows["pairs"] if pairs_in_window is None else pd.Series(pairs_in_window)
    if pairs_in_window is not None and len(dense) != len(rows):
        raise ValueError(f"{len(dense)} counts of pairs for {len(rows)} rows")
    told = {"distance": near, "pairs": dense.to_numpy(float)}
    right = rows["correct"].to_numpy(float, na_value=np.nan)
    residue = rows["residue"].to_numpy(int)
    return {name: _goes_with(x, right, residue, seed, draws) for name, x in told.items()}


def _goes_with(
    x: np.ndarray, right: np.ndarray, residue: np.ndarray, seed: int, draws: int
) -> dict:
    known = np.isfinite(x) & np.isfinite(right)
    x, right, residue = x[known], right[known], residue[known]
    points = _means(x, right, residue)
    rho, p = rank_correlation(
        [point["x"] for point in points], [point["accuracy"] for point in points], seed, draws
    )
    return {"points": points, "rho": rho, "p": p, "bins": _means(x, right, _bin(x))}


def _means(x: np.ndarray, right: np.ndarray, group: np.ndarray) -> list[dict]:
    at = np.unique(group, return_inverse=True)[1]
    count = np.bincount(at)
    columns = (np.bincount(at, weights=z) / count for z in (x, right))
    return [
        {"x": float(a), "accuracy": float(b), "n": int(n)}
        for a, b, n in zip(*columns, count, strict=True)
    ]


def _bin(x: np.ndarray) -> np.ndarray:
    """The whole numbers themselves where there are few, else quantile bins."""
    values = np.unique(x)
    if len(values) <= BINS:
        return np.searchsorted(values, x)
    return np.searchsorted(np.quantile(x, np.arange(1, BINS) / BINS), x, side="right")


def rank_correlation(
    x: Sequence[float], y: Sequence[float], seed: int = 0, draws: int = DRAWS
) -> tuple[float | None, float | None]:
    """Spearman's rho and its two-sided p by permutation, p = (1 + k) / (1 + draws)."""
    a, b = (stats.rankdata(np.round(z, 12)) if len(z) else np.zeros(0) for z in (x, y))
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None, None
    a, b = a - a.mean(), b - b.mean()
    scale = np.sqrt((a @ a) * (b @ b))
    turned = np.random.default_rng([seed, 6]).permuted(np.tile(b, (draws, 1)), axis=1) @ a
    beaten = np.sum(np.abs(turned) >= abs(a @ b) - 1e-9)
    return float(a @ b / scale), float((1 + beaten) / (1 + draws))
