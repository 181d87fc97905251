"""The gap test: is one phase weak across prompts? (SCIENCE §3)

Null: each sample keeps its own folded shape, at a phase of its own.  Rotating every sample's curve
at random gives the gap that such samples show together; a maximum minus a minimum is biased upward,
so the gap is always read beside that expectation.  Knows samples × residues and a stride.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.analysis.intervals import basic, resampled_means
from engine.analysis.period import TOLERANCE, class_means

DRAWS = 2000


class Gap(NamedTuple):
    """`null` is the expected folded gap when no phase is weak; `p` of the observed one against it."""

    null: float
    p: float


def folded_gap(values: np.ndarray, stride: int) -> float:
    """Largest minus smallest phase of the sample-mean curve of `values` [samples, R]."""
    return float(np.ptp(class_means(values, stride).mean(axis=0)))


def rotation_test(
    values: np.ndarray,
    stride: int,
    positions: np.ndarray | None = None,
    *,
    seed: int = 0,
    tolerance: float = TOLERANCE,
    draws: int = DRAWS,
) -> Gap:
    """Folded gap of `values` [samples, R] (no NaN) against random rotation of each sample.

    A shared drift over `positions` [samples, R] would give every phase the same head start in every
    sample: a slope fitted within phases is taken off, in the data and in every rotation.  With one
    sample a rotation changes nothing: p = 1.
    """
    if np.ptp(values, axis=1).max() <= tolerance:
        return Gap(0.0, 1.0)
    rows = values - values.mean(axis=1, keepdims=True)
    line, within = _lines(positions, stride)
    if line is not None:
        scale = float(np.sum(within * within))
        rows = rows - line * (np.sum(within * rows) / scale)
        drift = class_means(line, stride).mean(axis=0)
    n, size = rows.shape
    observed = float(np.ptp(class_means(rows, stride).mean(axis=0)))
    rng = np.random.default_rng([seed, 3])
    turns = (np.arange(size)[None, :] + np.arange(size)[:, None]) % size  # [rotation, residue]
    means, slopes = np.zeros((draws, stride)), np.zeros(draws)
    for i, row in enumerate(rows):
        turned = row[turns]
        choice = rng.integers(0, size, draws)
        means += class_means(turned, stride)[choice]
        if line is not None:
            slopes += (turned @ within[i])[choice]
    means /= n
    if line is not None:
        means -= slopes[:, None] / scale * drift
    gaps = np.ptp(means, axis=1)
    return Gap(float(gaps.mean()), float((1 + np.sum(gaps >= observed - 1e-12)) / (1 + draws)))


def _lines(
    positions: np.ndarray | None, stride: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Positions centred per sample, and centred per sample and phase; None when they do not vary."""
    if positions is None:
        return None, None
    within = positions - np.tile(class_means(positions, stride), positions.shape[1] // stride)
    if np.sum(within * within) <= TOLERANCE:
        return None, None
    return positions - positions.mean(axis=1, keepdims=True), within


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
