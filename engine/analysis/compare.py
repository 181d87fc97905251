"""How much two sweeps differ on the same prompts: mean, worst phase, gap (SCIENCE §3).

Copies of one logical sample are correlated, and the two runs read the same samples: samples are
resampled whole, in both runs by the same draws, and worst phase and gap are read again in each.

A minimum is too low and a gap too large by what noise adds, more so in the noisier run, so a
difference of two has a bias of its own.  It is measured: phases of each run are drawn together
until noise alone makes them show the minimum or gap that was observed, and draws around *that*
curve tell by how much a shown difference misses the true one.  Intervals are the shown difference
less this error; `corrected` is their centre.  An interval is stretched to the shown difference, so
that a number in a table never lies outside of its own interval.

p of the mean: signs of the prompts' differences are flipped.  p of worst and gap is the larger of
two.  (1) Null: the two memories act alike on every prompt.  The two curves of each prompt change
sides at random, and minimum or gap are read again.  Exact, whatever the number of prompts.
(2) Null: the true worst phases (gaps) are equal, whatever else differs.  The share of the errors
above that reach the shown difference.  Either alone would be fooled: the first where one run is
merely noisier, the second where few prompts agree by chance.

Knows rows and strides.  Knows nothing of specs, names or sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from engine.analysis.curve import curves, mean_of
from engine.analysis.eviction_pairs import EXACT, STEP, _signs, clustered, holm, sign_flip
from engine.analysis.gap import rotation_test
from engine.analysis.intervals import Interval, percentile, reach, resample, resampled_means, wilson
from engine.analysis.period import TOLERANCE, Curve, class_means

LEVEL = 0.05
SPAN = (-1.0, 1.0)  # of a difference of two fractions
STEPS = 14  # halvings of the search for a curve without noise
MEASURES = ("mean", "worst", "gap")


class Sheet(NamedTuple):
    """One run's measure at every residue, of the samples that have them all.

    `places`: where the target and the query stand, so that two runs' copies can be told to be the
    same prompts.  `stride` None: no grid that folds these residues.
    """

    samples: np.ndarray  # [n] sample numbers, ascending
    values: np.ndarray  # [n, R], no NaN
    places: np.ndarray  # [n, R]
    stride: int | None
    parts: Curve  # what the gap's null is made from


def sheet(answers: pd.DataFrame, modulus: int, measure: str, stride: int | None) -> Sheet:
    """The rows of one run as a sheet; `measure` as in a sweep's settings."""
    cells = curves(answers, modulus, measure)
    folds = stride is not None and 1 < stride <= modulus and modulus % stride == 0
    place = np.full(cells.value.shape, -1, int)
    row = np.searchsorted(cells.samples, answers["sample"].to_numpy(int))
    where = answers["residue"].to_numpy(int) % modulus
    target, query = (answers[f"{n}_position"].to_numpy(int) for n in ("target", "query"))
    place[row, where] = (target << 24) + query
    whole = cells.complete
    return Sheet(
        cells.samples[whole],
        cells.value[whole],
        place[whole],
        stride if folds else None,
        cells.parts,
    )


def folded_numbers(run: Sheet, stride: int | None, seed: int, tolerance: float = TOLERANCE) -> dict:
    """{folded, worst, worst_phase, gap, gap_null, gap_p} with phases mod `stride`, or by residue.

    What a report says of a run's own stride, of another one: a full cache is read with the grid of
    the memories that it is compared with.
    """
    n, size = run.values.shape
    if not n:
        return dict.fromkeys(("worst", "worst_phase", "gap", "gap_null", "gap_p")) | {"folded": []}
    stride = stride or size
    per_sample = class_means(run.values, stride)
    low, high = percentile(resampled_means(per_sample, resample(n, seed)), n)
    mean = per_sample.mean(axis=0)
    null, p = rotation_test(run.parts, stride, seed=seed, tolerance=tolerance)
    return {
        "folded": [
            {"phase": f, "value": float(v), "low": float(low[f]), "high": float(high[f])}
            | {"n": n * (size // stride)}
            for f, v in enumerate(mean)
        ],
        "worst": float(mean.min()),
        "worst_phase": int(mean.argmin()),
        "gap": float(np.ptp(mean)),
        "gap_null": null,
        "gap_p": p,
    }


class Common(NamedTuple):
    """Two runs' values [n, R] on the samples that both have; `other`: of these, samples whose
    copies stand at other places."""

    first: np.ndarray
    second: np.ndarray
    other: int


def common(run: Sheet, base: Sheet) -> Common:
    _, a, b = np.intersect1d(run.samples, base.samples, return_indices=True)
    moved = (run.places[a] != base.places[b]).any(axis=1)
    return Common(run.values[a], base.values[b], int(moved.sum()))


def grids(run: Sheet, base: Sheet) -> tuple[int, int]:
    """The stride by which each is folded: its own; a run without a grid is read with the other's;
    where neither has one, each residue is a phase of its own."""
    size = run.values.shape[1]
    return run.stride or base.stride or size, base.stride or run.stride or size


def differences(run: Sheet, base: Sheet, seed: int = 0) -> dict[str, dict]:
    """{mean, worst, gap} → {value, base_value, diff, corrected, low, high, p, n}, run less base.

    {} without a sample that both have at every residue.  With one sample low and high are None.
    """
    first, second, _ = common(run, base)
    n = len(first)
    if not n:
        return {}
    change = first.mean(axis=1) - second.mean(axis=1)
    told = clustered(change, seed, SPAN)
    mean = {
        "value": float(first.mean()),
        "base_value": float(second.mean()),
        "diff": told.mean,
        "corrected": told.mean,
        "low": told.low if n > 1 else None,
        "high": told.high if n > 1 else None,
        "p": sign_flip(change, seed),
        "n": n,
    }
    own, other = grids(run, base)
    swapped = _Swapped.of(first, second, own, other, seed)
    pair = _Folds.of(first, second, own, other, seed)
    return {
        "mean": mean,
        "worst": _tested(pair, swapped, lambda curve: curve.min(axis=-1)),
        "gap": _tested(pair, swapped, lambda curve: np.ptp(curve, axis=-1)),
    }


def adjust(rows: list[dict]) -> list[dict]:
    """The rows of one comparison with `p_adjusted` (Holm) and `resolved`: p and interval say so."""
    tested = [row for row in rows if row.get("p") is not None]
    for row in rows:
        row |= {"p_adjusted": None, "resolved": False}
    for row, p in zip(tested, holm([row["p"] for row in tested]), strict=True):
        row["p_adjusted"] = float(p)
        row["resolved"] = bool(p < LEVEL and excludes_zero(row))
    return rows


def excludes_zero(row: dict) -> bool:
    return row["low"] is not None and (row["low"] > 0 or row["high"] < 0)


# ---- statistics of a folded curve

Statistic = Callable[[np.ndarray], np.ndarray]  # […, S] → […]


class _Folds(NamedTuple):
    """Mean folded curves of both runs [S], and their noise [draws, S] under the same draws."""

    first: np.ndarray
    second: np.ndarray
    first_noise: np.ndarray
    second_noise: np.ndarray
    n: int

    @classmethod
    def of(cls, first: np.ndarray, second: np.ndarray, own: int, other: int, seed: int) -> _Folds:
        n = len(first)
        folds = class_means(first, own), class_means(second, other)
        counts = resample(n, seed)
        noise = (resampled_means(f, counts) - f.mean(axis=0) for f in folds)
        return cls(*(f.mean(axis=0) for f in folds), *noise, n)


class _Swapped(NamedTuple):
    """Mean folded curves [draws, S] of both runs when prompts' curves change sides at random."""

    first: np.ndarray
    second: np.ndarray
    exact: bool  # every pattern once

    @classmethod
    def of(cls, first: np.ndarray, second: np.ndarray, own: int, other: int, seed: int) -> _Swapped:
        n, signs = len(first), _signs(len(first), seed)
        middle, half = (first + second) / 2, (first - second) / 2
        columns = [class_means(half, own)]
        if other != own:
            columns.append(class_means(half, other))
        table = np.concatenate(columns, axis=1).astype(np.float32)
        moved = np.concatenate(
            [signs[k : k + STEP].astype(np.float32) @ table for k in range(0, len(signs), STEP)]
        )
        moved = moved.astype(float) / n
        left = moved[:, :own]
        right = moved[:, own:] if other != own else left
        centres = [class_means(middle, s).mean(axis=0) for s in (own, other)]
        return cls(centres[0] + left, centres[1] - right, n <= EXACT)

    def p(self, statistic: Statistic, observed: float) -> float:
        """Two-sided, about the null's own centre: folds of two kinds have two biases."""
        shown = statistic(self.first) - statistic(self.second)
        centre = float(shown.mean())
        beaten = int(np.sum(np.abs(shown - centre) >= abs(observed - centre) - 1e-6))
        return beaten / len(shown) if self.exact else (1 + beaten) / (1 + len(shown))


def _tested(pair: _Folds, swapped: _Swapped, statistic: Statistic) -> dict:
    value, other = float(statistic(pair.first)), float(statistic(pair.second))
    diff = value - other
    told = {"value": value, "base_value": other, "diff": diff, "corrected": diff}
    told |= {"low": None, "high": None, "p": swapped.p(statistic, diff), "n": pair.n}
    if pair.n < 2:
        return told
    if max(np.abs(pair.first_noise).max(), np.abs(pair.second_noise).max()) < 1e-12:
        rest = float(wilson(0, pair.n).high)  # as in `clustered`: prompts may yet differ
        low, high = SPAN
        return told | {"low": diff - rest * (diff - low), "high": diff + rest * (high - diff)}
    errors = _errors(pair, statistic)
    centre, (low, high) = float(errors.mean()), _ends(errors, pair.n)
    told["corrected"] = diff - centre
    told["low"] = max(min(diff - high, diff), SPAN[0])
    told["high"] = min(max(diff - low, diff), SPAN[1])
    told["p"] = max(told["p"], _reached(errors, diff, centre, pair.n))
    return told


def _errors(pair: _Folds, statistic: Statistic) -> np.ndarray:
    """[draws] by how much a shown difference misses the true one."""
    found = 0.0
    for sign, mean, noise in (
        (1, pair.first, pair.first_noise),
        (-1, pair.second, pair.second_noise),
    ):
        truth = without_noise(mean, noise, statistic)
        found = found + sign * (statistic(truth + noise) - statistic(truth))
    return found


def without_noise(mean: np.ndarray, noise: np.ndarray, statistic: Statistic) -> np.ndarray:
    """The curve [S], drawn towards its own mean, that shows the statistic of `mean` on average
    once `noise` [draws, S] is added; flat where noise alone shows more."""
    centre = mean.mean()
    spread, wanted = mean - centre, float(statistic(mean))
    flat = float(statistic(np.full_like(mean, centre)))
    if wanted == flat:
        return mean
    sign = 1.0 if wanted > flat else -1.0

    def over(share: float) -> bool:
        return sign * float(statistic(centre + share * spread + noise).mean() - wanted) >= 0

    if over(0.0):
        return np.full_like(mean, centre)
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if over(middle) else (middle, high)
    return centre + high * spread


def _ends(errors: np.ndarray, n: int) -> Interval:
    """95 % of the errors, as far out as Student's t of n samples reaches."""
    low, high = percentile(errors, n)
    return Interval(float(low), float(high))


def _reached(errors: np.ndarray, observed: float, centre: float, n: int) -> float:
    """Two-sided share of the errors that reach the observed difference, tails as in `_ends`."""
    far = centre + (observed - centre) * stats.norm.ppf(0.975) / reach(n)
    beaten = min(np.sum(errors >= far - 1e-12), np.sum(errors <= far + 1e-12))
    return float(min(1.0, 2 * (1 + beaten) / (1 + len(errors))))


def curve_of(run: Sheet) -> np.ndarray:
    """[R] mean over samples."""
    return mean_of(run.values)
