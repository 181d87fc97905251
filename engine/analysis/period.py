"""The period test: does the memory act with period P? (SCIENCE §3, "Period detection")

Null: residues are exchangeable within each sample.  Two things break that null without being a
period, and are taken out:

- Drift over position.  Every sample is permuted by itself, so a trend that all samples share would
  stand out against the permutations.  A line in the target's position is fitted together with the
  phases (as a covariate), in the data and in every permutation.
- Residues that differ by other than phase (one filler more reads differently).  Where the residues
  within a phase scatter more than samples explain, phases must also stand out of *that* scatter (F).

Knows samples × residues; knows nothing about memories, strides or the null of the gap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

DRAWS = 2000
LEVEL = 0.05
MISFIT = 0.01  # level at which residues of one phase count as different from each other
TOLERANCE = 1e-9


class Test(NamedTuple):
    """Studentised statistics of some periods with their max-T p-values, in the same order."""

    statistics: np.ndarray
    p: np.ndarray


class Period(NamedTuple):
    """`detected` None when nothing is significant; `p` is the smallest of the candidates'."""

    detected: int | None
    p: float | None
    candidates: list[dict]


def candidates(residues: int) -> list[int]:
    """Divisors P of R with 2 ≤ P ≤ R/2, ascending."""
    return [p for p in range(2, residues // 2 + 1) if residues % p == 0]


def detect(
    values: np.ndarray,
    positions: np.ndarray | None = None,
    *,
    seed: int = 0,
    tolerance: float = TOLERANCE,
    draws: int = DRAWS,
) -> Period:
    """The period of `values` [samples, R] (no NaN), by residue.

    `positions` [samples, R]: the target's position, for drift; None for none.  Start at the smallest
    significant candidate; while a multiple explains significantly more (residues permuted within
    classes mod P), go to the smallest such multiple.  Curves that vary by no more than `tolerance`
    are constant: p = 1.
    """
    periods = candidates(values.shape[1])
    if not periods or not len(values):
        return Period(None, None, [])
    test = explained(values, positions, 1, periods, seed=seed, tolerance=tolerance, draws=draws)
    table = [
        {"period": q, "statistic": float(t), "p": float(p)}
        for q, t, p in zip(periods, test.statistics, test.p, strict=True)
    ]
    found = next((row["period"] for row in table if row["p"] <= LEVEL), None)
    while found and (multiples := [q for q in periods if q > found and q % found == 0]):
        more = explained(
            values, positions, found, multiples, seed=seed, tolerance=tolerance, draws=draws
        )
        better = [q for q, p in zip(multiples, more.p, strict=True) if p <= LEVEL]
        if not better:
            break
        found = better[0]
    return Period(found, float(test.p.min()), table)


def explained(
    values: np.ndarray,
    positions: np.ndarray | None,
    base: int,
    periods: list[int],
    *,
    seed: int = 0,
    tolerance: float = TOLERANCE,
    draws: int = DRAWS,
) -> Test:
    """What each of `periods` explains of the mean curve beyond a fold at `base` and a line.

    With `base` 1 that is the between-phase sum of squares.  Statistic: mean square over the sample-level noise of
    the mean curve, brought to a common scale for all periods by the cube root of Wilson and
    Hilferty; p by the maximum over `periods` (max-T) under permutation within classes mod `base`.
    With one sample there is no noise between samples: the curve's own variance takes its place.
    """
    n, size = values.shape
    rows, trend = _residuals(values, positions, base)
    total = float(np.sum(rows * rows))
    if np.ptp(values, axis=1).max() <= tolerance or total <= n * size * TOLERANCE**2:
        return Test(np.zeros(len(periods)), np.ones(len(periods)))
    nuisance = _orthonormal(
        np.column_stack([_folds(size, base), *([trend] if trend is not None else [])])
    )
    bases = [_orthonormal(_folds(size, q), nuisance) for q in periods]
    df = np.array([b.shape[1] for b in bases])
    free = size - nuisance.shape[1]  # dimensions in which residues may differ
    # Residuals of a fit have lost dimensions that permuted ones regain: scale the latter alike.
    scale = (size - base) / free

    def studentise(means: np.ndarray, factor: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """means [m, R] → statistics [m, periods], sums of squares [m, periods], noise [m]."""
        inside = means - (means @ nuisance) @ nuisance.T
        between = factor * np.sum(inside * inside, axis=1)
        squares = factor * np.stack([np.sum((means @ b) ** 2, axis=1) for b in bases], axis=1)
        noise = (
            np.maximum(total - n * between, 0) / ((n - 1) * free * n)
            if n > 1
            else total / free + 0 * between
        )
        noise = np.maximum(noise, total / (n * size) * 1e-12)
        return _common_scale(squares / (df * noise[:, None]), df), squares, noise

    mean = rows.mean(axis=0, keepdims=True)
    observed, squares, noise = studentise(mean, 1.0)
    null, _, _ = studentise(_permuted_means(rows, base, draws, seed), scale)
    beaten = null.max(axis=1)[:, None] >= observed[0] - 1e-9
    p = (1 + beaten.sum(axis=0)) / (1 + draws)
    if n > 1:
        inside = mean[0] - nuisance @ (nuisance.T @ mean[0])
        p = np.maximum(p, _misfit(squares[0], df, float(inside @ inside), free, float(noise[0]), n))
    return Test(observed[0], p)


def _misfit(
    squares: np.ndarray, df: np.ndarray, whole: float, free: int, noise: float, n: int
) -> np.ndarray:
    """p of phases against residues of the same phase, 0 where those agree within sample noise."""
    left = free - df
    rest = np.maximum(whole - squares, 0) / np.maximum(left, 1)
    differ = (left > 0) & (stats.f.sf(rest / noise, np.maximum(left, 1), (n - 1) * free) < MISFIT)
    with np.errstate(divide="ignore"):
        single = stats.f.sf(squares / df / rest, df, np.maximum(left, 1))
    return np.where(differ, 1 - (1 - single) ** len(df), 0.0)


def _common_scale(ratio: np.ndarray, df: np.ndarray) -> np.ndarray:
    """χ²/df → nearly standard normal for any df (Wilson & Hilferty 1931), so that maxima are fair."""
    return (np.cbrt(ratio) - (1 - 2 / (9 * df))) / np.sqrt(2 / (9 * df))


def _folds(size: int, period: int) -> np.ndarray:
    """[R, P] indicator of each phase."""
    return (np.arange(size)[:, None] % period == np.arange(period)).astype(float)


def _orthonormal(columns: np.ndarray, without: np.ndarray | None = None) -> np.ndarray:
    """Orthonormal basis [R, rank] of the columns' span, with the span of `without` taken out."""
    if without is not None:
        columns = columns - without @ (without.T @ columns)
    u, s, _ = np.linalg.svd(columns, full_matrices=False)
    return u[:, s > 1e-8 * np.sqrt(len(columns))]


def class_means(rows: np.ndarray, period: int) -> np.ndarray:
    """[n, R] → [n, P], the mean over residues of one phase: each sample's folded curve."""
    return rows.reshape(len(rows), -1, period).mean(axis=1)


def _residuals(
    values: np.ndarray, positions: np.ndarray | None, base: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """Each sample less its own fold at `base` and its own line in position; and the mean line [R].

    The second is None when positions do not vary (grid origin).
    """
    repeat = values.shape[1] // base
    rows = values - np.tile(class_means(values, base), repeat)
    if positions is None:
        return rows, None
    line = positions - np.tile(class_means(positions, base), repeat)
    length = np.sum(line * line, axis=1, keepdims=True)
    if not np.all(length > TOLERANCE):
        return rows, None
    rows = rows - line * np.sum(rows * line, axis=1, keepdims=True) / length
    return rows, positions.mean(axis=0) - positions.mean()


def _permuted_means(rows: np.ndarray, base: int, draws: int, seed: int) -> np.ndarray:
    """[draws, R] mean curves with each sample's residues permuted by themselves within classes mod base."""
    rng = np.random.default_rng([seed, 2, base])
    n, size = rows.shape
    total = np.zeros((draws, base, size // base))
    buffer = np.empty((draws * base, size // base))
    for row in rows:
        buffer.reshape(draws, base, -1)[:] = row.reshape(-1, base).T
        rng.permuted(buffer, axis=1, out=buffer)
        total += buffer.reshape(draws, base, -1)
    return total.transpose(0, 2, 1).reshape(draws, size) / n
