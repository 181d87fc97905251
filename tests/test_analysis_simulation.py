"""Coverage and false alarms proven by simulation (SCIENCE §3); power is in test_analysis_power.

Copies of one sample share its difficulty, as they do in reality.  Everything is seeded.  A rate
is held at its nominal value plus 2.5 to 3 standard errors of the simulation; `pytest -s` prints the
tables, and LOG.md has those of larger runs.
"""

from __future__ import annotations

import numpy as np
import pytest
from planted import answered, correlated, curve, places, rows, shape
from scipy import stats

from engine.analysis.gap import gap_interval, rotation_test
from engine.analysis.intervals import percentile, resample, resampled_means, wilson
from engine.analysis.period import Curve, detect
from engine.analysis.report import report

DRAWS = 99  # p = k / 100 exactly: .05 is a level that the tests can hold
RESIDUES = 24


def alarms(make, strides: tuple[int, ...], runs: int, period: bool = True) -> tuple[float, float]:
    """Shares of made curves with period.p and with gap_p at or below .05, strides in turn."""
    found = np.zeros((runs, 2))
    for k in range(runs):
        stride = strides[k % len(strides)]
        made = make(stride)
        if period:
            found[k, 0] = detect(made, seed=k, draws=DRAWS).p <= 0.05
        found[k, 1] = rotation_test(made, stride, seed=k, draws=DRAWS).p <= 0.05
    return tuple(found.mean(axis=0))


def bound(runs: int, errors: float = 2.5) -> float:
    return 0.05 + errors * np.sqrt(0.05 * 0.95 / runs)


# ---- coverage of one residue's accuracy and of the mean


@pytest.mark.parametrize("n", [64, 96, 128, 256, 288, 512])
def test_wilson_covers(n):
    """Exactly, over all outcomes: at every p in [.1, .9] between 93 and 97 %, on average 95 %."""
    hits, p = np.arange(n + 1), np.linspace(0.1, 0.9, 801)[:, None]
    low, high = wilson(hits, n)
    covered = (stats.binom.pmf(hits, n, p) * ((low <= p) & (p <= high))).sum(axis=1)
    print(f"Wilson n={n}: {covered.mean():.4f}, from {covered.min():.4f} to {covered.max():.4f}")
    assert covered.min() >= 0.93
    assert covered.max() <= 0.97
    assert covered.mean() == pytest.approx(0.95, abs=0.002)


@pytest.mark.parametrize("n", [64, 128, 288])
def test_wilson_of_one_residue_and_bootstrap_of_the_mean_cover_with_correlated_copies(n):
    """p from all of [.1, .9]; intervals that take copies for samples are seen to fail."""
    rng = np.random.default_rng(n)
    runs = 12_000
    p = rng.uniform(0.1, 0.9, runs)
    # Every run has samples of its own; matrices are [n, runs].
    chances = correlated(rng, np.repeat(p, n)[:, None], runs * n).reshape(runs, n).T
    hits = rng.binomial(RESIDUES - 1, chances)  # right at the other residues
    one = answered(rng, chances)
    means = (hits + one) / RESIDUES
    spans = {
        "Wilson": wilson(one.sum(axis=0), n),
        "bootstrap": percentile(resampled_means(means, resample(n, 0)), n),
        "copies as samples": wilson((hits + one).sum(axis=0), n * RESIDUES),
    }
    covered = {name: (low <= p) & (p <= high) for name, (low, high) in spans.items()}
    ends = (p < 0.2) | (p > 0.8)
    for name, inside in covered.items():
        print(f"{name} n={n}: {inside.mean():.4f}, beyond .2 and .8 {inside[ends].mean():.4f}")
    for name in ("Wilson", "bootstrap"):
        assert 0.93 <= covered[name].mean() <= 0.97
        assert 0.93 <= covered[name][ends].mean() <= 0.97
    assert covered["copies as samples"].mean() < 0.7


def test_the_report_gives_these_intervals():
    rng = np.random.default_rng(1)
    right = answered(rng, correlated(rng, np.full(8, 0.7), 20))
    told = report(
        rows(0.1 + 0.8 * right),
        None,
        modulus=8,
        strides=(4,),
        window=4,
        measure="accuracy",
        protocol="outer",
    )
    low, high = percentile(resampled_means(right.mean(axis=1)[:, None], resample(20, 0)), 20)
    assert (told["mean_low"], told["mean_high"]) == pytest.approx((low[0], high[0]))
    low, high = wilson(right.sum(axis=0), 20)
    assert [row["low"] for row in told["residues"]] == pytest.approx(low)
    assert [row["high"] for row in told["residues"]] == pytest.approx(high)


# ---- coverage of the gap


@pytest.mark.parametrize("depth", [0.0, 0.1, 0.4])
def test_interval_of_the_folded_gap_covers(depth):
    """Holes, saw-teeth and halves in turn; the plain percentile of resampled gaps never holds 0."""
    runs, covered, plain, width = 72, {}, [], []
    for stride in (4, 8, 12):
        for n in (64, 256, 288):
            counts = [resample(n, seed, 400) for seed in range(3)]
            rng = np.random.default_rng([stride, n])
            inside = np.zeros(runs)
            for k in range(runs):
                level = 0.8 - depth * shape(("hole", "saw-tooth", "half")[k % 3], stride)
                chances = correlated(rng, np.tile(level, RESIDUES // stride), n)
                values = answered(rng, chances)
                low, high = gap_interval(values, stride, counts[k // 3 % 3])
                inside[k] = low <= depth + 1e-9 and depth <= high
                width.append(high - low)
                if n == 64:
                    folded = values.reshape(n, -1, stride).mean(axis=1)
                    draws = np.ptp(resampled_means(folded, counts[0]), axis=1)
                    low, high = percentile(draws, n)
                    plain.append(low <= depth <= high)
            covered[stride, n] = inside.mean()
    print(
        f"gap {depth}: covered {np.mean(list(covered.values())):.3f}, mean width "
        f"{np.mean(width):.3f}, plain percentile {np.mean(plain):.3f}; by S, n: "
        + ", ".join(f"{s} {n} {c:.2f}" for (s, n), c in covered.items())
    )
    assert np.mean(list(covered.values())) >= 0.93
    assert min(covered.values()) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / runs)
    assert depth > 0 or not any(plain)


# ---- false alarms

RUNS = 300


def measured(rng: np.random.Generator, chances: np.ndarray, measure: str) -> np.ndarray:
    """Right or wrong answers, or probabilities whose mean is the chance."""
    if measure == "accuracy":
        return answered(rng, chances)
    return rng.beta(6 * chances, 6 * (1 - chances))


@pytest.mark.parametrize("form", ["none", "sweep", "any start", "document"])
@pytest.mark.parametrize("measure", ["accuracy", "probability"])
def test_both_tests_hold_five_percent_under_drift_over_position(form, measure):
    """No effect at all; accuracy climbs by .6 within a sweep; or falls by .7 over 2 000 tokens."""
    rng = np.random.default_rng(12)
    n = 48

    def make(stride):
        first = {"any start": (48, 72), "document": (0, 2000)}.get(form, (48, 49))
        where = places(rng.integers(*first, n), RESIDUES)
        along = (where - where.min(axis=1, keepdims=True)) / RESIDUES
        slope = {"none": 0 * along + 0.7, "document": 0.95 - 0.7 * where / 2024}
        chances = correlated(rng, slope.get(form, 0.25 + 0.6 * along), n)
        return curve(measured(rng, chances, measure), where)

    period, gap = alarms(make, (4, 8, 12), RUNS)
    print(f"drift {form}, {measure}: period.p {period:.3f}, gap_p {gap:.3f}")
    assert period <= bound(RUNS)
    assert gap <= bound(RUNS)


@pytest.mark.parametrize("form", ["hole", "shape", "hole under drift"])
@pytest.mark.parametrize("measure", ["accuracy", "probability"])
def test_gap_holds_five_percent_when_every_sample_has_a_phase_of_its_own(form, measure):
    """The gap's own null: a strong period in each sample, no phase that they share."""
    rng = np.random.default_rng(15)
    n = 48

    def make(stride):
        where = places(rng.integers(0, 2000, n), RESIDUES)
        own = np.arange(RESIDUES) % stride == rng.integers(0, stride, (n, 1))
        if form == "shape":
            level = 0.6 + np.tile(rng.normal(0, 0.2, (n, stride)), RESIDUES // stride)
        else:
            level = 0.9 - 0.4 * own - (0.4 * where / 2024 if form == "hole under drift" else 0.0)
        return curve(measured(rng, level.clip(0.03, 0.97), measure), where)

    gap = alarms(make, (4, 8, 12), 500, period=False)[1]
    print(f"phases of their own, {form}, {measure}: gap_p {gap:.3f}")
    assert gap <= bound(500)


@pytest.mark.parametrize("form", ["bent", "odd residues"])
def test_both_tests_hold_when_residues_differ_by_other_than_phase(form):
    """A curved drift, or a level of its own for every residue, in all samples alike."""
    rng = np.random.default_rng(13)
    n, residues = 24, 16
    where = places(np.full(n, 32), residues)
    bend = 0.3 * ((where - 39.5) / 8) ** 2

    def make(_):
        shared = bend if form == "bent" else rng.normal(0, 0.05, residues)
        return curve(0.5 + shared + rng.normal(0, 0.05, (n, residues)), where)

    period, gap = alarms(make, (4,), RUNS)
    print(f"{form}: period.p {period:.3f}, gap_p {gap:.3f}")
    assert period <= bound(RUNS)
    assert gap <= bound(RUNS)


def test_period_holds_when_tokens_of_a_copy_share_its_fate():
    """Six digits of one copy lie at six residues: their shared noise is smooth, not periodic."""
    rng = np.random.default_rng(14)
    n, residues, tokens = 12, 16, 6
    where = places(np.full(n, 32), residues)

    def make(_):
        fate = rng.normal(0.7, 0.15, (n, residues))
        spread = [np.roll(fate, k, axis=1) + rng.normal(0, 0.03, fate.shape) for k in range(tokens)]
        at = [np.roll(where, k, axis=1) + k for k in range(tokens)]
        return Curve(np.stack(spread, axis=1), np.stack(at, axis=1), tuple(range(tokens)))

    period = alarms(make, (4,), RUNS)[0]
    print(f"tokens of one fate: period.p {period:.3f}")
    assert period <= bound(RUNS)
