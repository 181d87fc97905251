"""How sure: Wilson intervals and the bootstrap over logical samples (SCIENCE §3).

Copies of one logical sample are correlated, so whole samples are resampled, never single copies.
Knows arrays of samples by columns; knows nothing about residues, memories or sentences.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import stats

DRAWS = 2000
LEVEL = 0.95


class Interval(NamedTuple):
    low: np.ndarray
    high: np.ndarray


def wilson(successes: np.ndarray, n: np.ndarray, level: float = LEVEL) -> Interval:
    """Wilson score interval of a proportion; NaN where n = 0.

    centre = (p + z²/2n) / (1 + z²/n), half = z √(p(1-p)/n + z²/4n²) / (1 + z²/n)   (Wilson 1927).
    For one residue's accuracy only: each sample gives one answer there.
    """
    successes, n = np.asarray(successes, float), np.asarray(n, float)
    z = stats.norm.ppf(0.5 + level / 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = successes / n
        scale = 1 + z * z / n
        centre = (p + z * z / (2 * n)) / scale
        half = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / scale
    # At 0 and n the ends are 0 and 1 exactly; rounding must not say otherwise.
    return Interval(
        np.where(successes == 0, np.where(n > 0, 0.0, np.nan), centre - half),
        np.where((successes == n) & (n > 0), 1.0, centre + half),
    )


@lru_cache(maxsize=4)
def resample(n: int, seed: int, draws: int = DRAWS) -> np.ndarray:
    """[draws, n] how often each of n samples is drawn: n out of n with replacement.

    Read-only, and kept: a run, its control and its relatives mostly have as many samples.
    """
    rng = np.random.default_rng([seed, 1])
    counts = rng.multinomial(n, np.full(n, 1 / n), draws).astype(float)
    counts.flags.writeable = False
    return counts


def resampled_means(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Column means of `values` [n, k] under each resampling `counts` [draws, n]: [draws, k].

    NaN entries are left out; a column that a draw leaves empty is NaN in that draw.
    """
    known = np.isfinite(values)
    if known.size and known.all():
        return (counts @ values) / counts.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (counts @ np.where(known, values, 0.0)) / (counts @ known.astype(float))


def reach(n: int, level: float = LEVEL) -> float:
    """How many bootstrap standard errors reach as far as Student's t of n - 1 samples does.

    The bootstrap's spread is too small by √((n - 1)/n), and its tails are the normal's
    (Hesterberg 2015).
    """
    return float(np.sqrt(n / (n - 1)) * stats.t.ppf(0.5 + level / 2, n - 1))


def percentile(draws: np.ndarray, n: int, level: float = LEVEL) -> Interval:
    """Expanded percentile interval of a mean from its bootstrap `draws` [draws, …] of n samples.

    Quantiles are taken `reach` out, which widens the plain interval for few samples.  NaN with one
    sample (nothing is known of how samples differ) and where every draw is NaN.
    """
    if n < 2:
        empty = np.full(draws.shape[1:], np.nan)
        return Interval(empty, empty.copy())
    tail = float(stats.norm.cdf(-reach(n, level)))
    if not np.isnan(draws).any():
        return Interval(*np.quantile(draws, [tail, 1 - tail], axis=0))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN")
        return Interval(*np.nanquantile(draws, [tail, 1 - tail], axis=0))
