"""The period test: does the memory act with period P? (SCIENCE §3, "Period detection")

Null: residues are exchangeable within each sample.  Three things break that null without being a
period, and are taken care of:

- Drift over position.  Every sample is permuted by itself, so a trend that all samples share would
  stand out against the permutations.  A line in the target's position is fitted together with the
  phases (as a covariate), in the data and in every permutation.
- Residues that differ by other than phase (one filler more reads differently).  Where residues of
  one phase scatter more than samples explain, phases must also stand out of *that* scatter (F).
- Answers of several tokens.  Tokens of one copy share its fate but lie at neighbouring residues,
  which smooths the noise: whole copies are permuted, and their tokens aligned afterwards.

Knows samples, tokens and residues; knows nothing about memories, strides or the null of the gap.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import stats

DRAWS = 2000
LEVEL = 0.05
# What a longer period must show: share of its effect that is not the shorter one's already → level.
CLIMB = ((0.2, LEVEL), (0.1, 0.002), (-np.inf, 0.0005))
MISFIT = 0.01  # level at which residues of one phase count as different from each other
TOLERANCE = 1e-9
POOL = 4096  # most permutations that samples draw from
BLOCK = 2000  # permuted curves held at once


class Curve(NamedTuple):
    """What is tested.  `values` [samples, tokens, R] without NaN, each token by its own residue.

    `positions`: where that token lies, same shape, or None; `offsets` [tokens]: token k of the copy
    at residue r lies at residue r + offset k.
    """

    values: np.ndarray
    positions: np.ndarray | None = None
    offsets: tuple[int, ...] = (0,)

    @classmethod
    def of(cls, values: np.ndarray, positions: np.ndarray | None = None) -> Curve:
        """From [samples, R]: one number per copy."""
        return cls(values[:, None, :], None if positions is None else positions[:, None, :])

    @property
    def aligned(self) -> np.ndarray:
        """[samples, R], the mean over tokens."""
        return self.values.mean(axis=1)

    def constant(self, tolerance: float) -> bool:
        """No sample varies over residues by more than the tolerance."""
        return bool(np.ptp(self.values, axis=-1).max() <= tolerance)


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
    curve: Curve, *, seed: int = 0, tolerance: float = TOLERANCE, draws: int = DRAWS
) -> Period:
    """Start at the smallest significant candidate; while a multiple explains significantly more
    (copies permuted within classes mod P), go to the smallest such multiple.

    A hole of S is half there at S/2, so what a true period adds to its divisor is much, and the
    usual level finds it.  Beside a strong fold at S, noise adds little, and often enough passes
    that level at one multiple of several: there the evidence must be stronger.

    Curves that vary by no more than `tolerance` are constant: p = 1.
    """
    periods = candidates(curve.values.shape[-1])
    if not periods or not len(curve.values):
        return Period(None, None, [])
    if curve.constant(tolerance):
        return Period(None, 1.0, [{"period": q, "statistic": 0.0, "p": 1.0} for q in periods])
    test = explained(curve, 1, periods, seed=seed, draws=draws)
    table = [
        {"period": q, "statistic": float(t), "p": float(p)}
        for q, t, p in zip(periods, test.statistics, test.p, strict=True)
    ]
    found = next((row["period"] for row in table if row["p"] <= LEVEL), None)
    effect = {row["period"]: _effect(row) for row in table}
    while found and (multiples := [q for q in periods if q > found and q % found == 0]):
        more = explained(curve, found, multiples, seed=seed, draws=draws)
        levels = [_level(effect[found], effect[q], draws) for q in multiples]
        better = [q for q, p, at in zip(multiples, more.p, levels, strict=True) if p <= at]
        if not better:
            break
        found = better[0]
    return Period(found, float(test.p.min()), table)


def _level(shorter: float, longer: float, draws: int) -> float:
    """The level of a climb, or the least p that so few draws can show."""
    added = 1 - shorter / longer if longer else 0.0
    return max(next(p for share, p in CLIMB if added >= share), 1 / (1 + draws))


def _effect(row: dict) -> float:
    """SS_P over noise, less what is expected of noise alone, from the studentised statistic."""
    df = row["period"] - 1
    return max(0.0, row["statistic"] * np.sqrt(2 * df) - df)


def explained(
    curve: Curve, base: int, periods: list[int], *, seed: int = 0, draws: int = DRAWS
) -> Test:
    """What each of `periods` explains of the mean curve beyond a fold at `base` and a line.

    With `base` 1 that is the between-phase sum of squares SS_P.  Statistic: SS_P / (noise √(2 df)),
    df = P - base, noise = the sample-level variance of the mean curve at one residue (mean square
    of samples about the mean curve, over n): SS_P in units of its own spread under the null.  p by
    the maximum over `periods` (max-T), copies permuted within classes mod `base` in each sample.
    With one sample the variance of its own curve takes the place of the noise.
    """
    n, _, size = curve.values.shape
    rows, lines, trend = _residuals(curve, base)
    aligned = _project(rows.mean(axis=1), lines)
    total = float(np.sum(aligned * aligned))
    if total <= n * size * TOLERANCE**2:
        return Test(np.zeros(len(periods)), np.ones(len(periods)))
    nuisance = _orthonormal(
        np.column_stack([_folds(size, base), *([] if trend is None else [trend])])
    )
    bases = [_orthonormal(_folds(size, q), nuisance) for q in periods]
    df = np.array([b.shape[1] for b in bases])
    free = size - nuisance.shape[1]  # dimensions in which residues may differ
    mean = aligned.mean(axis=0, keepdims=True)
    squares, noise, rest = _squares(mean, np.array([total]), nuisance, bases, free, n)
    observed = squares[0] / (noise[0] * np.sqrt(2 * df))
    means, totals = _permuted(rows, lines, curve.offsets, base, draws, seed)
    null_squares, null_noise, _ = _squares(means, totals, nuisance, bases, free, n)
    null = null_squares / (null_noise[:, None] * np.sqrt(2 * df))
    beaten = null.max(axis=1)[:, None] >= observed - 1e-9
    p = (1 + beaten.sum(axis=0)) / (1 + draws)
    if n > 1:
        p = np.maximum(p, _misfit(squares[0], df, rest[0], free, noise[0], n))
    return Test(observed, p)


def _squares(
    means: np.ndarray,
    totals: np.ndarray,
    nuisance: np.ndarray,
    bases: list[np.ndarray],
    free: int,
    n: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean curves [m, R] with the sums of squares of their samples [m] → SS_P [m, periods],
    noise [m], and the mean curve's whole sum of squares beyond the nuisance [m]."""
    inside = means - (means @ nuisance) @ nuisance.T
    whole = np.sum(inside * inside, axis=1)
    squares = np.stack([np.sum((means @ b) ** 2, axis=1) for b in bases], axis=1)
    noise = (totals - n * whole) / ((n - 1) * free * n) if n > 1 else totals / free
    return squares, np.maximum(noise, totals / (n * free) * 1e-12), whole


def against_residues(curve: Curve, period: int) -> float:
    """p of the phases of one `period` against residues of the same phase; 0 where those agree."""
    n, _, size = curve.values.shape
    if n < 2 or size < 2 * period:
        return 0.0
    rows, lines, trend = _residuals(curve, 1)
    aligned = _project(rows.mean(axis=1), lines)
    total = np.array([np.sum(aligned * aligned)])
    if total[0] <= n * size * TOLERANCE**2:
        return 0.0
    nuisance = _nuisance(size, 1, trend)
    bases = [_orthonormal(_folds(size, period), nuisance)]
    free = size - nuisance.shape[1]
    squares, noise, rest = _squares(aligned.mean(axis=0)[None], total, nuisance, bases, free, n)
    df = np.array([bases[0].shape[1]])
    return float(_misfit(squares[0], df, rest[0], free, noise[0], n)[0])


def _misfit(
    squares: np.ndarray, df: np.ndarray, whole: float, free: int, noise: float, n: int
) -> np.ndarray:
    """p of phases against residues of the same phase, 0 where those agree within sample noise."""
    left = np.maximum(free - df, 1)
    rest = np.maximum(whole - squares, 0) / left
    differ = (free > df) & (stats.f.sf(rest / noise, left, (n - 1) * free) < MISFIT)
    with np.errstate(divide="ignore", invalid="ignore"):
        single = stats.f.sf(squares / df / rest, df, left)
    return np.where(differ, 1 - (1 - single) ** len(df), 0.0)


def _nuisance(size: int, base: int, trend: np.ndarray | None) -> np.ndarray:
    """Basis of what is given: the fold at `base` (1: the constant) and the line in position."""
    return _orthonormal(np.column_stack([_folds(size, base), *([] if trend is None else [trend])]))


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
    """[…, R] → […, P], the mean over residues of one phase: the folded curve."""
    return rows.reshape(*rows.shape[:-1], -1, period).mean(axis=-2)


def without_fold(rows: np.ndarray, period: int) -> np.ndarray:
    """[…, R] less its own fold at `period` (less its mean for period 1)."""
    return rows - np.tile(class_means(rows, period), rows.shape[-1] // period)


def _residuals(curve: Curve, base: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Each token of each sample less its fold at `base` and its line in position [samples, tokens,
    R]; each sample's line of unit length [samples, R]; the mean position [R].

    Lines are zero and the last is None where positions do not vary (grid origin).
    """
    rows = without_fold(curve.values, base)
    flat = rows, np.zeros((len(rows), rows.shape[-1])), None
    if curve.positions is None:
        return flat
    line, shared = (
        without_fold(curve.positions, base),
        without_fold(curve.positions.mean(axis=1), base),
    )
    lengths = [np.linalg.norm(x, axis=-1, keepdims=True) for x in (line, shared)]
    if not all(np.all(length > TOLERANCE) for length in lengths):
        return flat
    line, shared = line / lengths[0], shared / lengths[1]
    rows = rows - line * np.sum(rows * line, axis=-1, keepdims=True)
    mean = curve.positions.mean(axis=(0, 1))
    return rows, shared, mean - mean.mean()


def _project(rows: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """[samples, R] less each sample's component along its line of unit length."""
    return rows - lines * np.sum(rows * lines, axis=1, keepdims=True)


def _permuted(
    rows: np.ndarray, lines: np.ndarray, offsets: tuple[int, ...], base: int, draws: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean curves [draws, R], and sums of squares over samples [draws], of samples whose copies are
    permuted within classes mod `base` and whose line is then fitted again.

    In one draw all samples take different permutations, from a pool walked from a start of each
    sample's own.
    """
    n, _, size = rows.shape
    length = max(draws, min(8 * n, POOL))
    pool = _pool(seed, base, size, length, draws)
    starts = np.random.default_rng([seed, 5, base]).choice(length, n, replace=n > length)
    sums, totals = np.zeros((draws, size)), np.zeros(draws)
    along, tilted, plain = np.zeros((n, draws)), lines.any(), offsets == (0,)
    for at in range(0, n, many := max(1, BLOCK // draws)):
        some = slice(at, at + many)
        order = pool[starts[some, None] + np.arange(draws)]  # [samples, draws, R]
        order += (np.arange(len(order)) * size)[:, None, None]
        one = sum(
            _carried(rows[some, i], order, k) if k else np.take(rows[some, i], order)
            for i, k in enumerate(offsets)
        )
        if not plain:
            one /= len(offsets)
            totals += np.einsum("ndr,ndr->d", one, one)
        sums += one.sum(axis=0)
        if tilted:
            along[some] = (one @ lines[some, :, None])[..., 0]
    sums -= along.T @ lines
    totals -= np.einsum("nd,nd->d", along, along)
    if plain:  # a permutation keeps the sum of squares
        totals += np.sum(rows * rows)
    return sums / n, totals


def _carried(token: np.ndarray, order: np.ndarray, offset: int) -> np.ndarray:
    """One token's curves under permuted copies, aligned again by its own residue."""
    return np.roll(np.take(np.roll(token, -offset, axis=-1), order), offset, axis=-1)


@lru_cache(maxsize=8)
def _pool(seed: int, base: int, size: int, length: int, more: int) -> np.ndarray:
    """Orders [length + more, R] of the residues that stay within their class mod `base`, the last
    `more` of them the first ones again.
    """
    classes = np.tile(np.arange(size).reshape(-1, base).T, (length, 1))
    pool = np.random.default_rng([seed, 2, base]).permuted(classes, axis=1)
    pool = pool.reshape(length, base, -1).transpose(0, 2, 1).reshape(length, size)
    pool = np.concatenate([pool, pool[:more]])
    pool.flags.writeable = False
    return pool
