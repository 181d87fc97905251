"""How sure: Wilson intervals and the bootstrap over logical samples (SCIENCE §3).

Copies of one logical sample are correlated, so whole samples are resampled, never single copies.
Knows arrays of samples by columns; knows nothing about residues, memories or sentences.
"""

from __future__ import annotations

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
    return Interval(np.clip(centre - half, 0, 1), np.clip(centre + half, 0, 1))


def resample(n: int, seed: int, draws: int = DRAWS) -> np.ndarray:
    """[draws, n] how often each of n samples is drawn: n out of n with replacement."""
    return np.random.default_rng([seed, 1]).multinomial(n, np.full(n, 1 / n), draws).astype(float)


def resampled_means(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Column means of `values` [n, k] under each resampling `counts` [draws, n]: [draws, k].

    NaN entries are left out; a column that a draw leaves empty is NaN in that draw.
    """
    known = np.isfinite(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (counts @ np.where(known, values, 0.0)) / (counts @ known.astype(float))


def _tail(n: int, level: float) -> float:
    """Tail area whose normal quantile is as far out as Student's t of n - 1 samples.

    The plain percentile interval is too narrow for few samples; this widens it (Hesterberg 2015,
    "expanded percentile") and tends to (1 - level)/2 as n grows.
    """
    reach = np.sqrt(n / (n - 1)) * stats.t.ppf(0.5 + level / 2, n - 1)
    return float(stats.norm.cdf(-reach))


def percentile(draws: np.ndarray, n: int, level: float = LEVEL) -> Interval:
    """Expanded percentile interval of a mean from its bootstrap `draws` [draws, …] of n samples.

    NaN with one sample: nothing is known of how samples differ.
    """
    if n < 2:
        empty = np.full(draws.shape[1:], np.nan)
        return Interval(empty, empty.copy())
    tail = _tail(n, level)
    quantile = np.nanquantile if np.isnan(draws).any() else np.quantile
    low, high = quantile(draws, [tail, 1 - tail], axis=0)
    return Interval(low, high)


def basic(estimate: float, draws: np.ndarray, n: int, level: float = LEVEL) -> Interval:
    """Reflected ("basic") interval of a quantity ≥ 0: 2·estimate - quantiles of the draws.

    For a maximum minus a minimum, which resampling biases upward once more: reflecting takes the
    bias off instead of doubling it.  Coverage is measured in the tests.
    """
    low, high = percentile(draws, n, level)
    return Interval(np.maximum(2 * estimate - high, 0.0), np.maximum(2 * estimate - low, 0.0))
