"""Curves with a known truth, and the rows a sweep would have stored for them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from engine.analysis.period import Curve


def hole(residues: int, stride: int, depth: float, top: float = 0.8, phase: int = 0) -> np.ndarray:
    """[R] flat at `top` but for one phase of the stride."""
    return np.where(np.arange(residues) % stride == phase % stride, top - depth, top)


def shape(name: str, stride: int) -> np.ndarray:
    """[S] from 0 (best phase) to 1 (worst)."""
    phase = np.arange(stride)
    return {
        "hole": phase == 0,
        "two holes": np.isin(phase, (0, stride // 3)),
        "half": phase < stride // 2,
        "saw-tooth": phase / (stride - 1),
        "slope and hole": np.where(phase == 0, 1.0, 0.3 * phase / (stride - 1)),
    }[name].astype(float)


def correlated(rng: np.random.Generator, chances: np.ndarray, n: int) -> np.ndarray:
    """[n, R] chances of samples, some easy and some hard, whose mean is `chances` [R] or [n, R].

    Probit with a sample's own shift of variance 1: two copies of a sample correlate by about .5 on
    that scale.
    """
    shifted = stats.norm.ppf(chances) * np.sqrt(2) + rng.normal(0, 1, (n, 1))
    return stats.norm.cdf(shifted)


def answered(rng: np.random.Generator, chances: np.ndarray) -> np.ndarray:
    """One right (1) or wrong (0) answer for each chance."""
    return (rng.random(chances.shape) < chances).astype(float)


def places(bases: np.ndarray, residues: int) -> np.ndarray:
    """[n, R] target positions by residue when sample i's shifts start at bases[i]."""
    start = np.asarray(bases)[:, None]
    return (start + (np.arange(residues)[None, :] - start) % residues).astype(float)


def curve(values: np.ndarray, positions: np.ndarray | None = None) -> Curve:
    return Curve.of(np.asarray(values, float), positions)


def rows(
    probs: np.ndarray,
    *,
    bases: np.ndarray | None = None,
    tokens: int = 1,
    layer: int = -1,
    still: bool = False,
) -> pd.DataFrame:
    """Answers whose joint probability at (sample, residue) is `probs` [n, R].

    Every token of an answer takes an equal part of the log-probability.  `still`: the grid's origin
    moves and positions do not.
    """
    n, residues = probs.shape
    bases = np.full(n, 3 * residues) if bases is None else bases
    made = []
    for sample in range(n):
        for shift in range(residues):
            residue = int(bases[sample] + shift) % residues
            logprob = float(np.log(probs[sample, residue]))
            at = int(bases[sample]) + (0 if still else shift)
            made.append(
                {
                    "sample": sample,
                    "shift": shift,
                    "residue": residue,
                    "layer": layer,
                    "length": 200,
                    "target_position": at,
                    "query_position": 199,
                    "origin": -shift if still else 0,
                    "correct": bool(probs[sample, residue] > 0.5),
                    "logprob": logprob,
                    "token_logprobs": [logprob / tokens] * tokens,
                    "token_ranks": [0] * tokens,
                    "token_residues": [(residue + k) % residues for k in range(tokens)],
                    "rival_logprobs": [float(np.log(0.1)), float(np.log(0.05))],
                }
            )
    return pd.DataFrame(made)
