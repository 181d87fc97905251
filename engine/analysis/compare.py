"""How much two sweeps differ on the same prompts: mean, worst phase, gap (SCIENCE §3).

Copies of one logical sample are correlated, and the two runs read the same samples: samples are
resampled whole, in both runs by the same draws, and worst phase and gap are read again in each.

A minimum is too low and a gap too large by what noise adds, more so in the noisier run and the
more so the more phases are alike.  So a shown difference has a bias, and a percentile of resampled
differences has it twice.  The bootstrap gives the noise of the folded curves only, the same draws
for both runs, and intervals are inverted tests: they hold each true difference under which the
shown one is in the middle 95 %.  What noise cannot tell is read for safety: for each end, phases
are tied in the run where that moves the end out, and kept apart in the other.  `corrected` is the
shown difference less its bias.  An interval is stretched to the shown difference, so that a number
in a table never lies outside of its own interval.

p of the mean: signs of the prompts' differences are flipped.  p of worst and gap is the larger of
two.  (1) Null: the two memories act alike on every prompt.  The two curves of each prompt change
sides at random, and minimum or gap are read again: exact, whatever the number of prompts.
(2) Null: the true worst phases (gaps) are equal, whatever else differs: the inverted test at zero.
Either alone would be fooled: the first where one run is merely noisier, the second where few
prompts agree by chance.

Knows rows and strides.  Knows nothing of specs, names or sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from engine.analysis.curve import curves
from engine.analysis.eviction_pairs import EXACT, STEP, _signs, clustered, holm, sign_flip
from engine.analysis.gap import KEPT, _apart, _crossing, _tied, rotation_test
from engine.analysis.intervals import percentile, reach, resample, resampled_means, wilson
from engine.analysis.period import TOLERANCE, Curve, class_means

LEVEL = 0.05
SPAN = (-1.0, 1.0)  # of a difference of two fractions
SWAPS = 4000  # patterns of changed sides
INSIDE = 0.95
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
    folds = class_means(first, own), class_means(second, other)
    drawn = resampled_means(np.concatenate(folds, axis=1), resample(n, seed)).T
    a, b = _Folded.of(folds[0], drawn[:own]), _Folded.of(folds[1], drawn[own:])
    swapped = _Swapped.of(first, second, own, other, seed)
    return {
        "mean": mean,
        "worst": _worst_test(a, b, swapped, n),
        "gap": _gap_test(a, b, swapped, n),
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


class _Folded(NamedTuple):
    """One run's mean folded curve [S] and its noise [S, draws]; the other run has the same draws.

    `alike`: by how much noise alone sets two phases apart, in all but 5 % of draws.
    """

    mean: np.ndarray
    noise: np.ndarray
    alike: float

    @classmethod
    def of(cls, fold: np.ndarray, drawn: np.ndarray) -> _Folded:
        mean = fold.mean(axis=0)
        noise = np.ascontiguousarray(drawn) - mean[:, None]
        return cls(mean, noise, float(np.quantile(_gap(noise), 1 - LEVEL)))

    def low_errors(self, tied: bool) -> np.ndarray:
        """[draws] by how much the shown minimum misses the true one.

        Phases that noise cannot tell from the weakest are as weak (`tied`: the shown minimum is too
        low by the most), or are kept off it (too low by the least).
        """
        above = self.mean - self.mean.min()
        if tied:
            above = np.where(above <= self.alike, 0.0, above)
        else:
            off = np.maximum(above, KEPT * self.alike)
            above = np.where(np.arange(len(above)) == self.mean.argmin(), 0.0, off)
        return _worst(above[:, None] + self.noise)

    def shown_gap(self, gap: float, tied: bool) -> np.ndarray:
        """[draws] gaps that curves of a true gap show, with phases tied at the ends or kept off."""
        shape = (_tied if tied else _apart)(self.mean, self.alike)
        return _gap(gap * shape[:, None] + self.noise)

    def true_gap(self) -> float:
        """The gap of the curve, drawn towards its own mean, that shows the observed gap on average;
        0 where noise alone shows more."""
        observed, spread = float(np.ptp(self.mean)), (self.mean - self.mean.mean())[:, None]
        over = lambda share: float(_gap(share * spread + self.noise).mean()) >= observed  # noqa: E731
        return observed * _crossing(over, 1.0)


def _worst(curve: np.ndarray) -> np.ndarray:
    return curve.min(axis=0)


def _gap(curve: np.ndarray) -> np.ndarray:
    return curve.max(axis=0) - curve.min(axis=0)


class _Swapped(NamedTuple):
    """Mean folded curves [S, patterns] of both runs when prompts' curves change sides at random."""

    first: np.ndarray
    second: np.ndarray
    exact: bool  # every pattern once

    @classmethod
    def of(cls, first: np.ndarray, second: np.ndarray, own: int, other: int, seed: int) -> _Swapped:
        n = len(first)
        signs = _signs(n, seed)[:SWAPS]
        middle, half = (first + second) / 2, (first - second) / 2
        strides = (own,) if own == other else (own, other)
        columns = np.concatenate([class_means(half, s) for s in strides], axis=1)
        parts = (signs[k : k + STEP].astype(float) for k in range(0, len(signs), STEP))
        moved = np.concatenate([part @ (columns / n) for part in parts]).T
        moved = np.ascontiguousarray(moved)
        centres = [class_means(middle, s).mean(axis=0)[:, None] for s in (own, other)]
        return cls(centres[0] + moved[:own], centres[1] - moved[-other:], n <= EXACT)

    def p(self, statistic: Callable[[np.ndarray], np.ndarray], observed: float) -> float:
        """Two-sided, about the null's own centre: folds of two kinds have two biases."""
        shown = statistic(self.first) - statistic(self.second)
        centre = float(shown.mean())
        beaten = int(np.sum(np.abs(shown - centre) >= abs(observed - centre) - 1e-9))
        return beaten / len(shown) if self.exact else (1 + beaten) / (1 + len(shown))


def _worst_test(a: _Folded, b: _Folded, swapped: _Swapped, n: int) -> dict:
    told = _told(_worst, a, b, swapped, n)
    if n < 2 or told["low"] is not None:
        return told
    diff = told["diff"]
    least = a.low_errors(tied=True) - b.low_errors(tied=False)
    most = a.low_errors(tied=False) - b.low_errors(tied=True)
    corrected = diff - (least.mean() + most.mean()) / 2
    low, high = (diff - _far(errors, n, side) for errors, side in ((most, 1), (least, -1)))
    p = max(told["p"], _both(_beyond(most, diff, n, 1), _beyond(least, diff, n, -1)))
    return told | _stretched(corrected, low, high, diff) | {"p": p}


def _gap_test(a: _Folded, b: _Folded, swapped: _Swapped, n: int) -> dict:
    told = _told(_gap, a, b, swapped, n)
    if n < 2 or told["low"] is not None:
        return told
    diff, gaps = told["diff"], (a.true_gap(), b.true_gap())
    spread = [float(run.shown_gap(g, False).var()) for run, g in zip((a, b), gaps, strict=True)]
    share = spread[0] / max(sum(spread), 1e-300)

    def errors(true: float, side: int) -> list[np.ndarray]:
        """[draws] of the shown difference where the true one is `true`: with the gaps nearest to
        what was seen, and with the least that noise allows; side 1: at most shown, -1: at least."""
        least = max(true, 0.0)
        first = max(gaps[0] - share * (gaps[0] - gaps[1] - true), least)
        return [
            a.shown_gap(g, side > 0) - b.shown_gap(g - true, side < 0)
            for g in dict.fromkeys((first, max(first - max(a.alike, b.alike), least)))
        ]

    def may_be(true: float, side: int) -> bool:
        return max(_beyond(e, diff, n, side) for e in errors(true, side)) > (1 - INSIDE) / 2

    low = (
        -_crossing(lambda d: not may_be(-d, 1), 1.0)
        if may_be(0.0, 1)
        else _crossing(lambda d: may_be(d, 1), 1.0)
    )
    high = (
        _crossing(lambda d: not may_be(d, -1), 1.0)
        if may_be(0.0, -1)
        else -_crossing(lambda d: may_be(-d, -1), 1.0)
    )
    tails = [max(_beyond(e, diff, n, side) for e in errors(0.0, side)) for side in (1, -1)]
    p = max(told["p"], _both(*tails))
    return told | _stretched(gaps[0] - gaps[1], low, high, diff) | {"p": p}


def _told(statistic, a: _Folded, b: _Folded, swapped: _Swapped, n: int) -> dict:
    """What needs no interval.  Runs whose prompts all agree have no noise: as in `clustered`, a
    share of the prompts that were not asked may differ by as much as fractions can."""
    value, other = float(statistic(a.mean)), float(statistic(b.mean))
    diff = value - other
    told = {"value": value, "base_value": other, "diff": diff, "corrected": diff}
    told |= {"low": None, "high": None, "p": swapped.p(statistic, diff), "n": n}
    if n > 1 and max(np.abs(a.noise).max(), np.abs(b.noise).max()) < 1e-12:
        rest = float(wilson(0, n).high)
        told["low"], told["high"] = diff - rest * (diff + 1), diff + rest * (1 - diff)
    return told


def _stretched(corrected: float, low: float, high: float, diff: float) -> dict:
    low, high = max(min(low, diff), SPAN[0]), min(max(high, diff), SPAN[1])
    return {"corrected": float(corrected), "low": float(low), "high": float(high)}


def _far(errors: np.ndarray, n: int, side: int) -> float:
    """The end of 95 % of the errors, as far out as Student's t of n samples reaches."""
    return float(percentile(errors, n)[0 if side < 0 else 1])


def _beyond(shown: np.ndarray, observed: float, n: int, side: int) -> float:
    """Share of what is shown by chance that lies at or beyond the observed, tails as in `_far`.

    Beyond the last draw the tail is Student's of n samples: 2 000 draws alone end at .0005, which
    a correction for dozens of comparisons would never let through.
    """
    centre, spread = float(shown.mean()), float(shown.std())
    far = centre + (observed - centre) / _wider(n)
    beyond = int(np.sum(side * (shown - far) >= -1e-12))
    counted = (1 + beyond) / (1 + len(shown))
    if beyond or not spread:
        return counted
    return min(counted, float(stats.t.sf(side * (observed - centre) / spread, n - 1)))


@lru_cache(maxsize=64)
def _wider(n: int) -> float:
    """By how much Student's t of n samples reaches farther than the bootstrap's normal tails."""
    return reach(n) / float(stats.norm.ppf(0.5 + INSIDE / 2))


def _both(above: float, below: float) -> float:
    return min(1.0, 2 * min(above, below))
