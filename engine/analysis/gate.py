"""The gate: does a sweep keep what a release promises? (SCIENCE §3, §10)

Intervals decide, never points: a condition is met when its whole interval is on the right side, not
met when the whole is on the wrong side, undecided when the threshold lies inside.  Each end of an
interval errs in at most alpha / 2 of runs.  Knows rows and thresholds; knows nothing of runs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from engine.analysis.curve import curves, fold
from engine.analysis.gap import _apart, _crossing, _tied, rotation_test
from engine.analysis.gate_words import MET, NOT_MET, UNDECIDED, notes, sentence
from engine.analysis.intervals import DRAWS, Interval, reach, resample, resampled_means
from engine.analysis.period import TOLERANCE

PRIOR = 1.0  # failing prompts whose copies are taken to fail together, beside what the rows show
MOST = 1_000_000  # prompts; to need more is no help to a reader
DEEPEST = 0.0025  # tails below it are the normal's: 50 of 20 000 resamplings lie there


class Limits(NamedTuple):
    """Thresholds as fractions; None where nothing is asked."""

    worst: float | None = None
    gap: float | None = None
    mean: float | None = None
    alpha: float = 0.05


class Unjudged(ValueError):
    """These rows cannot be judged; the message says why."""


def judge(
    answers: pd.DataFrame,
    limits: Limits,
    *,
    modulus: int,
    stride: int | None,
    measure: str,
    seed: int = 0,
    noise_floor: float | None = None,
) -> dict:
    """{state, alpha, measure, by, stride, modulus, n_samples, phases, conditions, notes}.

    Residues are folded by `stride` where they can be; else each residue is a phase of its own.  The
    state is met if every condition is, not met if one is not, else undecided.
    """
    cells = curves(answers, modulus, measure)
    n = len(cells.samples)
    if not n:
        raise Unjudged("nothing to judge: the run has no answers")
    if missing := n - int(cells.complete.sum()):
        raise Unjudged(f"{missing} of {n} prompts lack residues; a gate judges whole runs only")
    folds = stride is not None and 1 < stride <= modulus and modulus % stride == 0
    size = stride if folds else modulus
    phases, copies = fold(cells.value, size), modulus // size  # [n, S]
    conditions = []
    if limits.worst is not None:
        conditions.append(_worst(phases, copies, limits.worst, limits.alpha))
    if limits.gap is not None:
        floor = max(TOLERANCE, (noise_floor or 0.0) if measure != "accuracy" else 0.0)
        null = rotation_test(cells.parts, size, seed=seed, tolerance=floor).null
        conditions.append(_gap(phases, copies, null, limits.gap, limits.alpha, seed))
    if limits.mean is not None:
        conditions.append(_mean(cells.value, limits.mean, limits.alpha))
    states = [condition["state"] for condition in conditions]
    made = {
        "state": next((state for state in (NOT_MET, UNDECIDED) if state in states), MET),
        "alpha": limits.alpha,
        "measure": measure,
        "by": "phase" if folds else "residue",
        "stride": size if folds else None,
        "modulus": modulus,
        "n_samples": n,
        "phases": _table(phases, copies, limits.alpha),
        "conditions": conditions,
    }
    for condition in conditions:
        condition["text"] = sentence(condition, made)
    return made | {"notes": notes(made, stride)}


def _table(phases: np.ndarray, copies: int, alpha: float) -> list[dict]:
    """Each phase [n, S] with an interval of its own; n counts answers."""
    low, high = bounds(phases, copies, alpha / 2, alpha / 2)
    return [
        {"phase": f, "n": len(phases) * copies, "value": v, "low": float(a), "high": float(b)}
        for f, (v, a, b) in enumerate(zip(phases.mean(axis=0).tolist(), low, high, strict=True))
    ]


# ---- conditions


def _worst(phases: np.ndarray, copies: int, limit: float, alpha: float) -> dict:
    """The weakest of the phases [n, S], and an interval of the least true phase.

    The lower end needs no correction for the choice: the least of the bounds is at most that of the
    phase that is truly weakest, whichever it is, and so errs no more often than one bound (Berger
    1982).  The upper end is the least of S bounds, any of which may err: each is at alpha / 2S.
    """
    low, high = bounds(phases, copies, alpha / 2, alpha / 2 / phases.shape[1])
    values = phases.mean(axis=0)
    at = int(values.argmin())
    found = {"phase": at, "n": len(phases) * copies}
    return (
        _at_least("worst", phases[:, at], copies, Interval(low.min(), high.min()), limit, alpha)
        | found
    )


def _mean(values: np.ndarray, limit: float, alpha: float) -> dict:
    """The mean over all residues of `values` [n, R]."""
    each, copies = values.mean(axis=1), values.shape[1]
    low, high = bounds(each[:, None], copies, alpha / 2, alpha / 2)
    made = _at_least("mean", each, copies, Interval(low[0], high[0]), limit, alpha)
    return made | {"phase": None, "n": values.size}


def _at_least(
    name: str, each: np.ndarray, copies: int, interval: Interval, limit: float, alpha: float
) -> dict:
    """A condition that asks for no less than `limit`; `each` [n] is the judged mean of a prompt."""
    value, (low, high) = float(each.mean()), interval
    state = MET if low >= limit else NOT_MET if high < limit else UNDECIDED
    needed = None
    if state == UNDECIDED and value > limit:
        z = stats.norm.ppf(1 - alpha / 2)
        worth = float(weight(each[:, None], copies)[0]) / len(each)
        needed = _more(z * z * limit * (1 - limit) / worth, (value - limit) ** 2, len(each))
    return _condition(name, state, value, low, high, limit, needed)


def _gap(
    phases: np.ndarray, copies: int, null: float, limit: float, alpha: float, seed: int
) -> dict:
    """The folded gap less what chance shows of it, and the interval of the true gap.

    A real gap leaves chance less room than the null has, so what is left can lie below the
    interval; the interval is stretched to it, so that both must be beyond the limit.
    """
    n, folded = len(phases), float(np.ptp(phases.mean(axis=0)))
    excess, (low, high) = folded - null, gap_bounds(phases, copies, seed, alpha / 2)
    low, high = max(min(low, excess), 0.0), max(high, excess)
    state = MET if high <= limit else NOT_MET if low > limit else UNDECIDED
    best, needed = max(excess, 0.0), None
    if state == UNDECIDED and best < limit < 1:
        needed = _more(n * (high - best) ** 2, (limit - best) ** 2, n)
    made = _condition("gap", state, excess, low, high, limit, needed)
    return made | {"phase": None, "n": n * copies, "folded_gap": folded, "gap_null": null}


def _condition(
    name: str, state: str, value: float, low: float, high: float, limit: float, needed: int | None
) -> dict:
    made = {"name": name, "state": state, "value": value, "low": float(low), "high": float(high)}
    return made | {"threshold": limit, "needed": needed}


def _more(top: float, bottom: float, n: int) -> int | None:
    """top / bottom prompts in two digits, rounded up, more than there are; None beyond MOST."""
    if top >= MOST * bottom:
        return None
    prompts = max(top / bottom, n + 1)
    unit = 10 ** max(0, math.floor(math.log10(prompts)) - 1)
    return math.ceil(prompts / unit) * unit


# ---- intervals


def bounds(means: np.ndarray, copies: int, below: float, above: float) -> Interval:
    """Clopper and Pearson's bounds of each column of `means` [n, k], in [0, 1], a prompt's mean
    over `copies`.  `below` and `above` are how often each end may err.

    Not Wilson's, whose ends err up to seventeen times too often in the corrected tail.  Not the
    bootstrap, for which prompts that all succeed differ by nothing.  Copies of a prompt are
    correlated: what they weigh is estimated (Korn & Graubard 1998).
    """
    value = means.mean(axis=0)
    lower, upper = (weight(means, copies, tail) for tail in (below, above))
    with np.errstate(invalid="ignore"):
        low = stats.beta.ppf(below, value * lower, (1 - value) * lower + 1)
        high = stats.beta.ppf(1 - above, value * upper + 1, (1 - value) * upper)
    return Interval(np.where(value > 0, low, 0.0), np.where(value < 1, high, 1.0))


def weight(means: np.ndarray, copies: int, tail: float | None = None) -> np.ndarray:
    """How many independent answers each column of prompts' means [n, k] is worth: n to n · copies.

    From the variance between prompts, p(1 - p) when a prompt's copies share one fate.  Where few
    prompts fail it is known badly, so PRIOR failing prompts of one fate are mixed in.  `tail` takes
    off what the variance's own error costs there, as Student's t does.
    """
    n, value = len(means), means.mean(axis=0)
    if copies == 1 or n == 1:
        return np.full(value.shape, float(n))
    most = value * (1 - value)
    spread = np.divide(means.var(axis=0, ddof=1), most, out=np.ones_like(value), where=most > 0)
    failing = n * np.minimum(value, 1 - value)
    shared = (failing * spread + PRIOR) / (failing + PRIOR)
    cost = 1.0 if tail is None else (stats.norm.ppf(tail) / stats.t.ppf(tail, n - 1)) ** 2
    return n * np.clip(cost / shared, 1, copies)


def gap_bounds(phases: np.ndarray, copies: int, seed: int, tail: float) -> tuple[float, float]:
    """`gap_interval` of the phases [n, S] with `tail` at each end; at .025 it is the report's own,
    but for an upper end that sees few failures.

    Where nearly all prompts agree at a phase the bootstrap sees no noise there.  So the upper end
    is at least how far the worst phase's bound lies below the mean of the others, and the best
    phase's above it.  One prompt tells nothing.
    """
    n = len(phases)
    if n < 2:
        return 0.0, 1.0
    mean = phases.mean(axis=0)
    observed = float(np.ptp(mean))
    at = max(tail, DEEPEST)
    rounds = math.ceil(50 / at / DRAWS)
    means = [resampled_means(phases, resample(n, seed + i)) for i in range(rounds)]
    widen = reach(n, 1 - 2 * tail) / stats.norm.ppf(1 - at)
    noise = np.ascontiguousarray(((np.concatenate(means) - mean) * widen).T)  # [S, draws]
    alike = float(np.quantile(np.ptp(noise, axis=0), 1 - 2 * at))
    tied, free = _tied(mean, alike), _apart(mean, alike)

    def shown(gap: float, shape: np.ndarray) -> np.ndarray:
        return np.ptp(gap * shape[:, None] + noise, axis=0)

    low = _crossing(lambda d: np.mean(shown(d, tied) >= observed - 1e-12) > at, observed)
    high = _crossing(
        lambda d: np.mean(shown(d, free) <= observed + 1e-12) < at, observed + 2 * alike
    )
    return low, min(max(high, *_beside_others(phases, copies, tail)), 1.0)


def _beside_others(phases: np.ndarray, copies: int, tail: float) -> tuple[float, float]:
    """How far the bound of the worst, and of the best phase, may lie from the others' mean."""
    mean = phases.mean(axis=0)
    low, high = bounds(phases, copies, tail, tail)
    worst, best = int(mean.argmin()), int(mean.argmax())
    others = [np.delete(mean, at).mean() for at in (worst, best)]
    return float(others[0] - low[worst]), float(high[best] - others[1])
