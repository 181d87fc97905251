"""The statistics proven by simulation (SCIENCE §3): coverage, false alarms, power, planted periods.

Seeded and small, so a bound is the nominal rate plus about 2.5 standard errors of the simulation;
LOG.md has the rates of larger runs.
"""

from __future__ import annotations

import numpy as np
import pytest
from planted import answered, curve, hole, places

from engine.analysis.gap import gap_interval, rotation_test
from engine.analysis.intervals import percentile, resample, resampled_means, wilson
from engine.analysis.period import Curve, detect

DRAWS = 199


def alarms(make, stride: int, runs: int) -> tuple[float, float]:
    """Share of made curves with period.p and with gap_p at or below .05."""
    made = [make() for _ in range(runs)]
    period = np.mean([detect(c, seed=k, draws=DRAWS).p <= 0.05 for k, c in enumerate(made)])
    gap = np.mean(
        [rotation_test(c, stride, seed=k, draws=DRAWS).p <= 0.05 for k, c in enumerate(made)]
    )
    return float(period), float(gap)


def fated(rng: np.random.Generator, n: int, residues: int, mean: float, share: float) -> np.ndarray:
    """[n, R] chances with a level of each sample's own: copies of one sample are correlated."""
    scale = (1 - share) / share
    level = rng.beta(mean * scale, (1 - mean) * scale, (n, 1))
    return np.repeat(level, residues, axis=1)


# ---- coverage


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("n", [64, 256])
def test_wilson_covers(n, p):
    """Exactly, by summing over all outcomes: between 93 and 97 %."""
    from scipy import stats

    hits = np.arange(n + 1)
    low, high = wilson(hits, n)
    covered = stats.binom.pmf(hits, n, p)[(low <= p) & (p <= high)].sum()
    assert 0.93 <= covered <= 0.97


@pytest.mark.parametrize(("n", "p"), [(64, 0.1), (64, 0.5), (128, 0.9)])
def test_cluster_bootstrap_of_means_covers_with_correlated_copies(n, p):
    rng = np.random.default_rng(n)
    covered, naive, runs = 0, 0, 250
    for k in range(runs):
        values = answered(rng, fated(rng, n, 8, p, 0.3))
        low, high = percentile(resampled_means(values, resample(n, k, 400)).mean(axis=1), n)
        covered += low <= p <= high
        low, high = wilson(values.sum(), values.size)
        naive += low <= p <= high
    assert 0.92 <= covered / runs <= 0.98
    assert naive / runs < 0.85, "pooling copies as if independent must be seen to fail"


@pytest.mark.parametrize("depth", [0.0, 0.1, 0.3])
@pytest.mark.parametrize(("residues", "stride"), [(16, 4), (24, 12)])
def test_interval_of_the_folded_gap_covers(residues, stride, depth):
    """Coverage is printed; the plain percentile of resampled gaps misses where phases tie."""
    rng = np.random.default_rng(7)
    covered, plain, runs, n = 0, 0, 120, 64
    for k in range(runs):
        values = answered(rng, np.tile(hole(residues, stride, depth), (n, 1)))
        counts = resample(n, k, 300)
        low, high = gap_interval(values, stride, counts)
        covered += low <= depth <= high
        folded = values.reshape(n, -1, stride).mean(axis=1)
        low, high = percentile(np.ptp(resampled_means(folded, counts), axis=1), n)
        plain += low <= depth <= high
    print(
        f"folded gap {depth} at S={stride}: covered {covered / runs:.2f}, plain {plain / runs:.2f}"
    )
    assert covered / runs >= 0.9
    if depth == 0:
        assert plain == 0


# ---- false alarms


@pytest.mark.parametrize(("n", "residues", "stride"), [(12, 16, 4), (48, 24, 8), (100, 8, 4)])
def test_both_tests_hold_five_percent_without_any_effect(n, residues, stride):
    rng = np.random.default_rng(11)
    where = places(np.full(n, residues), residues)
    period, gap = alarms(
        lambda: curve(answered(rng, fated(rng, n, residues, 0.6, 0.2)), where), stride, 150
    )
    assert period <= 0.09
    assert gap <= 0.09


@pytest.mark.parametrize("together", [True, False])
def test_both_tests_hold_under_drift_over_position(together):
    """Accuracy climbs from .2 to .8 over one sweep; shifts start together, or anywhere."""
    rng = np.random.default_rng(12)
    n, residues = 48, 16

    def make():
        start = np.full(n, 32) if together else rng.integers(0, residues, n) + 32
        where = places(start, residues)
        rise = (where - where.min(axis=1, keepdims=True)) / residues
        return curve(answered(rng, 0.2 + 0.6 * rise), where)

    period, gap = alarms(make, 4, 150)
    assert period <= 0.09
    assert gap <= 0.09


@pytest.mark.parametrize("form", ["bent", "odd residues"])
def test_both_tests_hold_when_residues_differ_by_other_than_phase(form):
    """A curved drift, or a level of its own for every residue, in all samples alike."""
    rng = np.random.default_rng(13)
    n, residues = 24, 16
    where = places(np.full(n, 32), residues)
    bend = 0.3 * ((where - 39.5) / 8) ** 2

    def make():
        shared = bend if form == "bent" else rng.normal(0, 0.05, residues)
        return curve(0.5 + shared + rng.normal(0, 0.05, (n, residues)), where)

    period, gap = alarms(make, 4, 150)
    assert period <= 0.09
    assert gap <= 0.09


def test_period_holds_when_tokens_of_a_copy_share_its_fate():
    """Six digits of one copy lie at six residues: their shared noise is smooth, not periodic."""
    rng = np.random.default_rng(14)
    n, residues, tokens = 12, 16, 6
    where = places(np.full(n, 32), residues)

    def make():
        fate = rng.normal(0.7, 0.15, (n, residues))
        spread = [np.roll(fate, k, axis=1) + rng.normal(0, 0.03, fate.shape) for k in range(tokens)]
        at = [np.roll(where, k, axis=1) + k for k in range(tokens)]
        return Curve(np.stack(spread, axis=1), np.stack(at, axis=1), tuple(range(tokens)))

    made = [make() for _ in range(120)]
    honest = np.mean([detect(c, seed=k, draws=DRAWS).p <= 0.05 for k, c in enumerate(made)])
    assert honest <= 0.09


@pytest.mark.parametrize("form", ["shape", "phase"])
def test_gap_holds_when_every_sample_has_a_phase_of_its_own(form):
    """The gap's own null: strong periods in each sample, no phase that they share."""
    rng = np.random.default_rng(15)
    n, residues, stride = 24, 16, 4

    def make():
        if form == "shape":
            folds = rng.normal(0, 0.2, (n, stride))
            values = 0.5 + np.tile(folds, residues // stride) + rng.normal(0, 0.1, (n, residues))
        else:
            own = [hole(residues, stride, 0.5, phase=int(f)) for f in rng.integers(0, stride, n)]
            values = answered(rng, np.array(own))
        return curve(values, places(np.full(n, 32), residues))

    rate = np.mean(
        [rotation_test(make(), stride, seed=k, draws=DRAWS).p <= 0.05 for k in range(250)]
    )
    assert rate <= 0.085


# ---- power and planted periods


@pytest.mark.parametrize("stride", [4, 6, 8, 12])
def test_power_for_one_hole_of_ten_points(stride):
    """Accuracy .8 with one phase at .7, 256 samples, the default residues of each stride."""
    rng = np.random.default_rng(16)
    residues = 2 * stride
    chances = np.tile(hole(residues, stride, 0.1), (256, 1))
    where = places(np.full(256, 48), residues)
    found = [
        detect(curve(answered(rng, chances), where), seed=k, draws=DRAWS).p <= 0.05
        for k in range(50)
    ]
    assert np.mean(found) >= 0.85  # 90 % less the simulation's own error


@pytest.mark.parametrize("stride", [2, 3, 4, 6, 8, 12])
def test_neither_a_divisor_nor_a_multiple_is_reported(stride):
    """One hole, a saw-tooth and an arbitrary shape, under noise, all on one grid of 24 residues."""
    rng = np.random.default_rng(17)
    shapes = [np.arange(stride) == 0, np.arange(stride) / stride, rng.permutation(stride) / stride]
    where = places(np.full(96, 48), 24)
    found = []
    for k in range(9):
        level = 0.8 - 0.4 * np.tile(shapes[k % 3], 24 // stride)
        values = answered(rng, np.tile(level, (96, 1)))
        found.append(detect(curve(values, where), seed=k, draws=299).detected)
    assert found.count(stride) >= 8, found


def test_planted_period_survives_drift():
    rng = np.random.default_rng(18)
    where = places(np.full(96, 48), 24)
    values = answered(rng, np.clip(hole(24, 8, 0.4) - 0.3 + 0.5 * (where - 48) / 24, 0, 1))
    assert detect(curve(values, where)).detected == 8
    assert rotation_test(curve(values, where), 8).p < 0.001
