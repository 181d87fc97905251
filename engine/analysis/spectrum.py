"""The curve's own frequencies, drawn beside the period test (SCIENCE §3).

The spectrum proposes, the geometry decides: nothing here says what the period is.
Knows one curve over R residues.
"""

from __future__ import annotations

import numpy as np

FLAT = 1e-12


def power(curve: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two-sided DFT power of `curve` [R] at k = 1 … R//2 cycles, and each share of the total.

    power_k = (2 / R) |X_k|², the Nyquist bin (k = R/2) once; they sum to Σ (curve - mean)² by
    Parseval.  A constant curve has shares of zero.
    """
    size = len(curve)
    bins = np.abs(np.fft.rfft(curve - curve.mean())[1:]) ** 2 * 2 / size
    if size % 2 == 0:
        bins[-1] /= 2
    total = bins.sum()
    flat = total <= FLAT * max(1.0, float(np.sum(np.square(curve))))
    return bins, np.zeros_like(bins) if flat else bins / total


def comb_share(curve: np.ndarray, period: int) -> float | None:
    """Share of power at `period` and its harmonics; None for a constant curve.

    Equals the share of variance between the phases of the curve folded at `period`.
    """
    shares = power(curve)[1]
    step = len(curve) // period
    return float(shares[step - 1 :: step].sum()) if shares.any() else None


def comb_chance(residues: int, period: int) -> float:
    """(S - 1) / (R - 1): the share that a curve of pure noise has on average."""
    return (period - 1) / (residues - 1)


def spectrum(curve: np.ndarray) -> list[dict]:
    """[{period, frequency (cycles per token), power, share}], longest period first."""
    bins, shares = power(curve)
    size = len(curve)
    return [
        {
            "period": size / k,
            "frequency": k / size,
            "power": float(bins[k - 1]),
            "share": float(shares[k - 1]),
        }
        for k in range(1, size // 2 + 1)
    ]


def autocorrelation(curve: np.ndarray) -> list[float] | None:
    """Circular autocorrelation at lags 0 … R//2; None for a constant curve."""
    centred = curve - curve.mean()
    total = float(centred @ centred)
    if total <= FLAT * max(1.0, float(curve @ curve)):
        return None
    return [float(centred @ np.roll(centred, -lag)) / total for lag in range(len(curve) // 2 + 1)]
