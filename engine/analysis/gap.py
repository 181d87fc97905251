"""The gap test: is one phase weak across prompts? (SCIENCE §3)

Null: each sample keeps its own folded shape, at a phase of its own.  Rotating every sample's curve
at random gives the gap that such samples show together; a maximum minus a minimum is biased upward,
so the gap is always read beside that expectation.  Knows samples × residues and a stride.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.analysis.intervals import basic, resampled_means
from engine.analysis.period import TOLERANCE, Curve, class_means, without_fold

DRAWS = 2000


class Gap(NamedTuple):
    """`null` is the expected folded gap when no phase is weak; `p` of the observed one against it."""

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
    sample: a slope fitted within phases is taken off, in the data and in every rotation.  With one
    sample a rotation changes nothing: p = 1.
    """
    if curve.constant(tolerance):
        return Gap(0.0, 1.0)
    rows = without_fold(curve.aligned, 1)
    n, size = rows.shape
    line, within, scale = _lines(curve, stride)
    rows = rows - line * (np.sum(within * rows) / scale)
    drift = class_means(line, stride).mean(axis=0)
    observed = folded_gap(rows, stride)
    rng = np.random.default_rng([seed, 3])
    turns = (np.arange(size)[None, :] + np.arange(size)[:, None]) % size  # [rotation, residue]
    means, slopes = np.zeros((draws, stride)), np.zeros(draws)
    for row, inside in zip(rows, within, strict=True):
        choice, turned = rng.integers(0, size, draws), row[turns]
        means += class_means(turned, stride)[choice]
        slopes += (turned @ inside)[choice]
    gaps = np.ptp(means / n - np.outer(slopes / scale, drift), axis=1)
    return Gap(float(gaps.mean()), float((1 + np.sum(gaps >= observed - 1e-12)) / (1 + draws)))


def _lines(curve: Curve, stride: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Positions [n, R] centred per sample, centred per sample and phase, and the latter's sum of
    squares; zeros and 1 where positions do not vary within a phase (grid origin)."""
    n, _, size = curve.values.shape
    nothing = np.zeros((n, size)), np.zeros((n, size)), 1.0
    if curve.positions is None:
        return nothing
    positions = curve.positions.mean(axis=1)
    within = without_fold(positions, stride)
    scale = float(np.sum(within * within))
    return (without_fold(positions, 1), within, scale) if scale > TOLERANCE else nothing


def gap_interval(values: np.ndarray, stride: int, counts: np.ndarray) -> tuple[float, float]:
    """95 % of the folded gap, resampling samples by `counts` [draws, n]; reflected (see `basic`)."""
    folded = class_means(values, stride)
    draws = np.ptp(resampled_means(folded, counts), axis=1)
    low, high = basic(float(np.ptp(folded.mean(axis=0))), draws, len(values))
    return float(low), float(min(high, 1.0))


def within_and_boundary(folded: np.ndarray) -> tuple[float | None, float]:
    """Gap among phases 0 … S−2, and the value at phase S−1, where a window's edge splits a pair.

    Only meaningful for W = S, one grid and adjacent pairs (SCIENCE §3, §4).
    """
    inner = folded[:-1]
    return (float(np.ptp(inner)) if len(inner) > 1 else None), float(folded[-1])
