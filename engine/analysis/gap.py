"""The gap test: is one phase weak across prompts? (SCIENCE §3)

Null: each sample keeps its own folded shape, at a phase of its own.  Rotating every sample's curve
at random gives the gap that such samples show together; a maximum minus a minimum is biased upward,
so the gap is always read beside that expectation.  Knows samples by residues and a stride.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats

from engine.analysis.intervals import reach, resampled_means
from engine.analysis.period import (
    BLOCK,
    TOLERANCE,
    Curve,
    against_residues,
    class_means,
    without_fold,
)

DRAWS = 2000
TAIL = 0.025
KEPT = 0.25  # how far off an end a phase is kept, in units of what noise alone can span


class Gap(NamedTuple):
    """`null`: the expected folded gap when no phase is weak; `p` of the observed one against it."""

    null: float
    p: float


def folded_gap(values: np.ndarray, stride: int) -> float:
    """Largest minus smallest phase of the sample-mean curve of `values` [samples, R]."""
    return float(np.ptp(class_means(values, stride).mean(axis=0)))


def rotation_test(
    curve: Curve, stride: int, *, seed: int = 0, tolerance: float = TOLERANCE, draws: int = DRAWS
) -> Gap:
    """Folded gap of the sample-mean curve against random rotation of each sample.

    A drift over position that samples share would give every phase the same head start in every
    sample: a slope fitted within phases is taken off, in the data and in every rotation.  Where
    residues of one phase differ by more than samples explain, phases must also stand out of that
    scatter.  With one sample a rotation changes nothing: p = 1.
    """
    if curve.constant(tolerance):
        return Gap(0.0, 1.0)
    rows = without_fold(curve.aligned, 1)
    n, size = rows.shape
    line, weights, scale = _lines(curve, stride)
    rows = rows - line * (np.sum(weights * rows) / scale)
    drift = class_means(line, stride).mean(axis=0)
    observed = folded_gap(rows, stride)
    if n == 1:
        return Gap(observed, 1.0)
    rng = np.random.default_rng([seed, 3])
    turns = (np.arange(stride)[None, :] + np.arange(stride)[:, None]) % stride
    folds = class_means(rows, stride)[:, turns]  # [n, rotation mod S, S]
    spectra = np.fft.rfft(rows) * np.conj(np.fft.rfft(weights))
    tilts = np.fft.irfft(spectra, size)  # [n, rotation], Σ weight · y of the rotated sample
    turned = rng.integers(0, size, (n, draws))
    means, slopes = np.zeros((draws, stride)), np.zeros(draws)
    for at in range(0, n, many := max(1, BLOCK // draws)):
        some = slice(at, at + many)
        phase = turned[some, :, None] % stride
        means += np.take_along_axis(folds[some], phase, axis=1).sum(axis=0)
        slopes += np.take_along_axis(tilts[some], turned[some], axis=1).sum(axis=0)
    gaps = np.ptp(means / n - np.outer(slopes / scale, drift), axis=1)
    p = float((1 + np.sum(gaps >= observed - 1e-12)) / (1 + draws))
    return Gap(float(gaps.mean()), max(p, against_residues(curve, stride)))


def _lines(curve: Curve, stride: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Positions [n, R] centred per sample; weights [n, R] that give the slope, and their scale.

    slope = Σ weight · y / scale.  Weights are +1 at the last and -1 at the first residue of each
    phase: they see no phase, and the mean slope from end to end is what tilts a fold, whatever the
    form of the drift.  Zeros where positions do not vary (grid origin) or a phase has one residue.
    """
    n, _, size = curve.values.shape
    nothing = np.zeros((n, size)), np.zeros((n, size)), 1.0
    if curve.positions is None or size < 2 * stride:
        return nothing
    positions = curve.positions.mean(axis=1)
    cycles = positions.reshape(n, -1, stride)
    weights = np.zeros_like(cycles)
    np.put_along_axis(weights, cycles.argmin(axis=1)[:, None, :], -1.0, axis=1)
    np.put_along_axis(weights, cycles.argmax(axis=1)[:, None, :], 1.0, axis=1)
    weights = weights.reshape(n, size)
    scale = float(np.sum(weights * positions))
    return (
        (without_fold(positions, 1), weights, scale)
        if np.ptp(cycles, axis=1).min() > TOLERANCE
        else nothing
    )


def gap_interval(values: np.ndarray, stride: int, counts: np.ndarray) -> tuple[float, float]:
    """95 % of the true folded gap; `counts` [draws, n] resample the samples.  NaN with one sample.

    A maximum minus a minimum is too large, most of all when many phases tie, and a percentile of
    resampled gaps is too large twice over.  So the bootstrap gives the noise of the folded curve
    only, and the interval holds each true gap under which the observed one is in the middle 95 %.
    The phases keep the curve's shape; for the lower end, those that noise cannot tell from the best
    or from the worst are tied there, for the upper end kept off it: each is the safer reading.
    """
    n = len(values)
    if n < 2:
        return float("nan"), float("nan")
    folded = class_means(values, stride)
    mean = folded.mean(axis=0)
    observed = float(np.ptp(mean))
    noise = (resampled_means(folded, counts) - mean) * reach(n) / stats.norm.ppf(0.975)
    noise = np.ascontiguousarray(noise.T)  # [S, draws]
    alike = float(np.quantile(np.ptp(noise, axis=0), 0.95))
    tied = _tied(mean, alike)
    free = _apart(mean, alike)

    def shown(gap: float, shape: np.ndarray) -> np.ndarray:
        """Gaps that curves of a true gap and this shape would show."""
        return np.ptp(gap * shape[:, None] + noise, axis=0)

    low = _crossing(lambda d: np.mean(shown(d, tied) >= observed - 1e-12) > TAIL, observed)
    high = _crossing(
        lambda d: np.mean(shown(d, free) <= observed + 1e-12) < TAIL, observed + 2 * alike
    )
    return low, min(high, 1.0)


def _tied(mean: np.ndarray, alike: float) -> np.ndarray:
    """The folded curve [S] as a shape from 0 to 1, phases within `alike` of an end put at it."""
    worst, best = float(mean.min()), float(mean.max())
    if best == worst:
        return np.zeros_like(mean)
    shape = (mean - worst) / (best - worst)
    near = alike / (best - worst)
    upper = (shape >= 1 - near) & ((shape >= 0.5) | (shape > near))
    lower = (shape <= near) & ~upper
    return np.where(upper, 1.0, np.where(lower, 0.0, shape))


def _apart(mean: np.ndarray, alike: float) -> np.ndarray:
    """The folded curve [S] as a shape from 0 to 1, all but one phase kept off each end.

    Without it the upper end missed the gap of a saw-tooth in 5-7 % of simulations.
    """
    worst, best = int(mean.argmin()), int(mean.argmax())
    if worst == best:
        return np.zeros_like(mean)
    span = mean[best] - mean[worst]
    off = min(KEPT * alike / span, 0.5)
    shape = np.clip((mean - mean[worst]) / span, off, 1 - off)
    shape[[worst, best]] = 0.0, 1.0
    return shape


def _crossing(above: Callable[[float], bool], end: float, steps: int = 16) -> float:
    """Where in [0, end] a rising claim turns true, by halving; 0 or end if it never does."""
    if above(0.0):
        return 0.0
    low, high = 0.0, end
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (low, middle) if above(middle) else (middle, high)
    return high


def within_and_boundary(folded: np.ndarray) -> tuple[float | None, float]:
    """Gap among phases 0 … S-2, and the value at phase S-1, where a window's edge splits a pair.

    Only meaningful for W = S, one grid and adjacent pairs (SCIENCE §3, §4).
    """
    inner = folded[:-1]
    return (float(np.ptp(inner)) if len(inner) > 1 else None), float(folded[-1])
