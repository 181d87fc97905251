"""Two documents that differ by one token: paired differences, no period (SCIENCE §2, free prompts).

Knows rows with two shifts; knows nothing about phases.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.analysis.curve import curves
from engine.analysis.intervals import percentile, resample, resampled_means

EXACT = 12  # up to this many pairs all sign patterns are tried
DRAWS = 4000


def pair_difference(
    answers: pd.DataFrame, control: pd.DataFrame | None, measure: str, seed: int = 0
) -> dict | None:
    """{first, second, difference, low, high, p, n, beyond_control}; None without a whole pair.

    `difference` is the second document's measure less the first's, its interval resampled by pair;
    `p` from flipping the signs of differences at random (exact up to 12 pairs).  `beyond_control`:
    the same {difference, low, high, p, n} of each pair's difference less the control's own.
    """
    table = _by_document(answers, measure)
    if table.shape[1] != 2:
        return None
    whole = table.dropna()
    if whole.empty:
        return None
    change = whole.iloc[:, 1] - whole.iloc[:, 0]
    result = {
        "first": float(whole.iloc[:, 0].mean()),
        "second": float(whole.iloc[:, 1].mean()),
        **_tested(change.to_numpy(), seed),
        "beyond_control": None,
    }
    if control is not None:
        other = _by_document(control, measure).dropna()
        if other.shape[1] == 2:
            extra = (change - (other.iloc[:, 1] - other.iloc[:, 0])).dropna()
            result["beyond_control"] = _tested(extra.to_numpy(), seed) if len(extra) else None
    return result


def sign_flip_p(differences: np.ndarray, seed: int = 0) -> float:
    """Two-sided p of mean zero when each difference is as likely to be its negative."""
    n = len(differences)
    if n <= EXACT:
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        means = np.abs(signs @ differences)
        return float(np.mean(means >= means[0] - 1e-12))
    signs = np.random.default_rng([seed, 4]).choice([-1.0, 1.0], (DRAWS, n))
    observed = abs(differences.sum())
    return float((1 + np.sum(np.abs(signs @ differences) >= observed - 1e-12)) / (1 + DRAWS))


def _tested(differences: np.ndarray, seed: int) -> dict:
    n = len(differences)
    low, high = percentile(resampled_means(differences[:, None], resample(n, seed)), n)
    return {
        "difference": float(differences.mean()),
        "low": low[0],
        "high": high[0],
        "p": sign_flip_p(differences, seed),
        "n": n,
    }


def _by_document(answers: pd.DataFrame, measure: str) -> pd.DataFrame:
    """[samples, documents] of the measure of whole copies."""
    cells = curves(answers, 2, measure)
    return pd.DataFrame(cells.shift_value, index=cells.samples, columns=cells.shifts)
