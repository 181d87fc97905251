"""Formulas of the statistics, each a second way: by hand, by a slow loop, or as an identity."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from planted import curve, hole, places, rows
from scipy import stats

from engine.analysis import gap as gaps
from engine.analysis import period as periods
from engine.analysis import spectrum
from engine.analysis.curve import curves, fold
from engine.analysis.intervals import percentile, resample, resampled_means, wilson
from engine.analysis.layers import layer_scan
from engine.analysis.pair import pair_difference, sign_flip_p

REAL = st.floats(-1, 1, width=32)
FOLDS = st.sampled_from([(8, 2), (8, 4), (12, 3), (12, 6), (15, 5), (16, 4), (24, 8), (24, 12)])


# ---- intervals


def test_wilson_by_hand():
    # 8 of 10 (Newcombe 1998's method 3): .4902 to .9433
    low, high = wilson(np.array([8]), np.array([10]))
    assert (low[0], high[0]) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson(0, 10).low == 0
    assert wilson(10, 10).high == 1


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 400), st.data())
def test_wilson_ends_are_where_the_score_test_turns(n, data):
    hits = data.draw(st.integers(0, n))
    for edge in wilson(hits, n):
        if 0 < edge < 1:
            assert abs(hits / n - edge) == pytest.approx(
                1.959964 * math.sqrt(edge * (1 - edge) / n)
            )


def test_wilson_of_nothing_is_unknown():
    assert np.isnan(wilson(0, 0)).all()


def test_resampled_means_are_means_of_drawn_samples():
    values = np.random.default_rng(0).random((7, 3))
    values[2, 1] = np.nan
    counts = resample(7, seed=4, draws=5)
    for count, means in zip(counts, resampled_means(values, counts), strict=True):
        drawn = [i for i in range(7) for _ in range(int(count[i]))]
        assert len(drawn) == 7
        assert means == pytest.approx(np.nanmean(values[drawn], axis=0))


def test_resampling_is_the_same_for_the_same_seed():
    assert np.array_equal(resample(9, 3, 50), resample(9, 3, 50))
    assert not np.array_equal(resample(9, 3, 50), resample(9, 4, 50))


def test_interval_of_a_mean_agrees_with_students_t():
    values = np.random.default_rng(1).normal(size=(12, 1))
    low, high = percentile(resampled_means(values, resample(12, 0, 20000)), 12)
    t = stats.t.interval(0.95, 11, values.mean(), stats.sem(values))
    assert (low[0], high[0]) == pytest.approx((t[0][0], t[1][0]), abs=0.12)
    plain = np.quantile(resampled_means(values, resample(12, 0, 20000)), [0.025, 0.975])
    assert high[0] - low[0] > plain[1] - plain[0]


def test_one_sample_has_no_interval():
    assert np.isnan(percentile(np.ones((10, 2)), 1)).all()


# ---- spectrum


@settings(max_examples=40, deadline=None)
@given(arrays(float, st.integers(4, 24), elements=REAL))
def test_power_sums_to_the_variance(values):
    bins, _ = spectrum.power(values)
    assert bins.sum() == pytest.approx(np.sum((values - values.mean()) ** 2), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(FOLDS, st.data())
def test_comb_share_is_the_share_of_variance_between_phases(size_period, data):
    size, period = size_period
    values = data.draw(arrays(float, size, elements=REAL))
    total = np.sum((values - values.mean()) ** 2)
    share = spectrum.comb_share(values, period)
    if share is None:
        assert total < 1e-9
        return
    between = sum(
        size // period * (values[phase::period].mean() - values.mean()) ** 2
        for phase in range(period)
    )
    assert share == pytest.approx(between / total, abs=1e-6)


def test_nyquist_counts_once():
    alternating = np.array([1.0, -1, 1, -1, 1, -1])
    bins, shares = spectrum.power(alternating)
    assert bins == pytest.approx([0, 0, 6])
    assert shares == pytest.approx([0, 0, 1])
    assert [row["period"] for row in spectrum.spectrum(alternating)] == [6, 3, 2]


def test_comb_chance_is_the_mean_share_of_noise():
    rng = np.random.default_rng(0)
    shares = [spectrum.comb_share(rng.normal(size=24), 8) for _ in range(2000)]
    assert np.mean(shares) == pytest.approx(spectrum.comb_chance(24, 8), abs=0.01)


@settings(max_examples=40, deadline=None)
@given(arrays(float, st.integers(4, 16), elements=REAL))
def test_autocorrelation_by_a_loop(values):
    found = spectrum.autocorrelation(values)
    d, n = values - values.mean(), len(values)
    if found is None:
        assert np.sum(d * d) < 1e-9
        return
    for lag, r in enumerate(found):
        slow = sum(d[i] * d[(i + lag) % n] for i in range(n)) / sum(d * d)
        assert r == pytest.approx(slow, abs=1e-9)


def test_a_constant_curve_has_no_spectrum():
    flat = np.full(8, 0.3)
    assert spectrum.comb_share(flat, 4) is None
    assert spectrum.autocorrelation(flat) is None
    assert not spectrum.power(flat)[1].any()


# ---- period


def test_candidates_are_divisors_up_to_half():
    for size in range(2, 60):
        slow = [p for p in range(2, size) if size % p == 0 and 2 * p <= size]
        assert periods.candidates(size) == slow


def slow_statistic(values: np.ndarray, period: int) -> float:
    """SS_P / (noise √(2 df)) without drift, by loops over phases and samples."""
    n, size = values.shape
    rows_ = values - values.mean(axis=1, keepdims=True)
    mean = rows_.mean(axis=0)
    between = sum(size // period * mean[f::period].mean() ** 2 for f in range(period))
    noise = sum((rows_[i, r] - mean[r]) ** 2 for i in range(n) for r in range(size))
    noise /= (n - 1) * (size - 1) * n
    return between / (noise * math.sqrt(2 * (period - 1)))


def test_statistic_by_hand():
    values = np.random.default_rng(2).random((5, 12))
    test = periods.explained(curve(values), 1, [2, 3, 4, 6], draws=10)
    slow = [slow_statistic(values, p) for p in (2, 3, 4, 6)]
    assert test.statistics == pytest.approx(slow)


def test_p_is_the_rank_among_permutations():
    """All 24 orders of four residues in one sample, against the drawn ones."""
    values = np.array([[0.1, 0.9, 0.3, 0.8]])
    shares = []
    for order in itertools.permutations(range(4)):
        one = values[0, list(order)]
        shares.append((one[0::2].mean() - one[1::2].mean()) ** 2)
    exact = np.mean(np.array(shares) >= shares[0] - 1e-12)
    p = periods.explained(curve(values), 1, [2], draws=20000).p[0]
    assert p == pytest.approx(exact, abs=0.01)


def test_a_line_in_position_changes_nothing():
    """The fit takes any common slope out, exactly, in the statistic and in every permutation."""
    rng = np.random.default_rng(3)
    where = places(np.full(6, 40), 12)
    values = rng.random((6, 12))
    bent = values + 0.7 * where
    straight = periods.explained(curve(values, where), 1, [2, 3, 4, 6], draws=200)
    tilted = periods.explained(curve(bent, where), 1, [2, 3, 4, 6], draws=200)
    assert tilted.statistics == pytest.approx(straight.statistics)
    assert tilted.p == pytest.approx(straight.p)


def test_multiple_is_asked_only_for_what_it_adds():
    """A curve of period 4 exactly: 8 adds nothing, permuting within classes changes nothing."""
    shape = np.tile([0.1, 0.5, 0.7, 0.2], 4)
    values = shape + np.random.default_rng(0).normal(0, 0.3, (10, 1))
    more = periods.explained(curve(values), 4, [8], draws=100)
    assert more.statistics[0] == pytest.approx(0, abs=1e-9)
    assert more.p[0] == 1


def test_permutation_keeps_classes_and_sums():
    values = np.arange(24.0)[None, None] % 8 * 10
    line = np.zeros((1, 24))
    means, _ = periods._permuted(values, line, (0,), 8, 50, 0)
    assert np.array_equal(means, np.tile(values[0], (50, 1)))
    means, totals = periods._permuted(
        np.random.default_rng(0).random((3, 1, 24)), np.zeros((3, 24)), (0,), 1, 50, 0
    )
    assert means.sum(axis=1) == pytest.approx(np.full(50, means[0].sum()))
    assert totals == pytest.approx(np.full(50, totals[0]))
    assert len(np.unique(means.round(12), axis=0)) == 50


@pytest.mark.parametrize("size", [4, 8, 16, 24])
def test_constant_curves_have_no_period(size):
    values = np.full((5, size), 0.4) + 1e-12 * np.random.default_rng(0).normal(size=(5, size))
    found = periods.detect(curve(values))
    assert (found.detected, found.p) == (None, 1.0)
    assert all(row["p"] == 1 for row in found.candidates)


def test_tolerance_decides_what_constant_means():
    values = hole(16, 4, 1e-6) + np.zeros((5, 1))
    assert periods.detect(curve(values)).detected == 4
    assert periods.detect(curve(values), tolerance=1e-5).p == 1


def test_residues_without_divisors_have_no_p():
    assert periods.detect(curve(np.random.default_rng(0).random((4, 7)))) == (None, None, [])


def test_one_sample_shows_a_clear_period_of_its_own():
    values = hole(16, 4, 0.5)[None] + np.random.default_rng(0).normal(0, 0.03, (1, 16))
    found = periods.detect(curve(values))
    assert found.detected == 4
    assert found.p < 0.01


def test_residues_that_differ_by_other_than_phase_are_no_period():
    """The same odd residues in every sample: p against samples alone would be tiny."""
    odd = np.random.default_rng(5).normal(0, 0.05, 16)
    values = 0.5 + odd + np.random.default_rng(6).normal(0, 0.01, (12, 16))
    found = periods.detect(curve(values))
    assert found.detected is None
    assert found.p > 0.1


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6))
def test_same_seed_same_p(seed):
    values = np.random.default_rng(seed).random((3, 8))
    assert periods.detect(curve(values), seed=seed, draws=50) == periods.detect(
        curve(values), seed=seed, draws=50
    )


# ---- gap


def test_null_of_the_gap_by_all_rotations():
    """Two samples, four phases: all 16 pairs of rotations."""
    values = np.array([[0.9, 0.2, 0.5, 0.4], [0.8, 0.1, 0.6, 0.7]])
    slow = [
        np.ptp((np.roll(values[0], a) + np.roll(values[1], b)) / 2)
        for a in range(4)
        for b in range(4)
    ]
    observed = np.ptp(values.mean(axis=0))
    test = gaps.rotation_test(curve(values), 4, draws=20000)
    assert test.null == pytest.approx(np.mean(slow), abs=0.005)
    assert test.p == pytest.approx(np.mean(np.array(slow) >= observed - 1e-12), abs=0.01)


def test_one_prompt_never_has_a_weak_phase():
    assert gaps.rotation_test(curve(hole(16, 4, 0.7)[None]), 4).p == 1


def test_constant_samples_have_no_gap():
    assert gaps.rotation_test(curve(np.full((4, 8), 0.2)), 4) == (0.0, 1.0)


def test_drift_makes_no_weak_phase():
    """Folding a slope gives every sample the same saw-tooth: no phase is weak for it."""
    where = places(np.full(40, 32), 16)
    noise = np.random.default_rng(0).normal(0, 0.02, (40, 16))
    assert gaps.folded_gap(0.03 * where + noise, 4) > 0.08
    level = gaps.rotation_test(curve(noise, where), 4)
    tilted = gaps.rotation_test(curve(0.03 * where + noise, where), 4)
    assert tilted == pytest.approx(level)
    assert tilted.p > 0.05


def test_within_and_boundary():
    assert gaps.within_and_boundary(np.array([0.7, 0.6, 0.65, 0.1])) == pytest.approx((0.1, 0.1))
    assert gaps.within_and_boundary(np.array([0.7, 0.2])) == (None, 0.2)


def test_gap_interval_holds_the_gap_of_clear_data():
    values = hole(16, 4, 0.4) + np.random.default_rng(0).normal(0, 0.05, (30, 16))
    low, high = gaps.gap_interval(values, 4, resample(30, 0))
    assert low < 0.4 < high
    assert high - low < 0.1


# ---- curves from rows


@settings(max_examples=12, deadline=None)
@given(st.sampled_from([(8, 4), (12, 6)]), st.integers(1, 3), st.integers(0, 99))
def test_rows_come_back_by_residue_whatever_the_shift(size_stride, tokens, seed):
    size, stride = size_stride
    rng = np.random.default_rng(seed)
    probs = rng.uniform(0.05, 0.95, (3, size))
    made = rows(probs, bases=rng.integers(0, 100, 3), tokens=tokens)
    cells = curves(made.sample(frac=1, random_state=seed), size, "joint")
    assert cells.value == pytest.approx(probs)
    assert cells.correct == pytest.approx((probs > 0.5).astype(float))
    assert fold(cells.value, stride) == pytest.approx(
        np.stack([probs[:, f::stride].mean(axis=1) for f in range(stride)], axis=1)
    )
    for row in made.itertuples():
        assert cells.shift_value[row.sample, row.shift] == pytest.approx(math.exp(row.logprob))


def test_tokens_are_aligned_by_their_own_residue():
    """Each token of the answer at residue r comes from the copy whose target starts k before it."""
    probs = np.random.default_rng(0).uniform(0.1, 0.9, (2, 8))
    cells = curves(rows(probs, tokens=3), 8, "token")
    for k, token in enumerate(cells.tokens):
        for r in range(8):
            assert token[:, r] == pytest.approx(probs[:, (r - k) % 8] ** (1 / 3))
    assert cells.value == pytest.approx(np.mean(cells.tokens, axis=0))
    assert cells.parts.offsets == (0, 1, 2)
    assert cells.parts.aligned == pytest.approx(cells.value)
    assert cells.parts.positions[0, 2, 3] == 24 + 1 + 2


def test_missing_rows_are_missing_cells():
    made = rows(np.full((2, 8), 0.5)).iloc[:-3]
    cells = curves(made, 8, "accuracy")
    assert list(cells.complete) == [True, False]
    assert np.isnan(cells.value).sum() == 3
    assert len(cells.parts.values) == 1


def test_rows_of_a_layer_scan_are_another_question():
    both = pd.concat([rows(np.full((1, 4), 0.5)), rows(np.full((1, 4), 0.1), layer=3)])
    assert curves(both, 4, "joint").value == pytest.approx(np.full((1, 4), 0.5))


def test_rivals_are_means_by_shift():
    cells = curves(rows(np.full((3, 4), 0.5)), 4, "joint")
    assert cells.shift_rivals == pytest.approx(np.array([[0.1] * 4, [0.05] * 4]))


# ---- layers and pairs


def test_layer_scan_keeps_the_layers_that_cost():
    drop = {3: 0.5, 7: 0.3}
    made = pd.concat(
        [rows(np.full((2, 4), 0.9 - drop.get(i, 0.001 * i)), layer=i) for i in range(12)]
    )
    scan = layer_scan(made, rows(np.full((2, 4), 0.93)))
    assert scan["keep"] == [3, 7]
    assert scan["suggestion"] == "all but 3, 7"
    assert scan["control"]["gold_prob"] == pytest.approx(0.93)
    assert [row["layer"] for row in scan["layers"]] == list(range(12))
    assert scan["layers"][3]["gold_prob"] == pytest.approx(0.4)


def test_layer_scan_of_even_layers_keeps_none():
    made = pd.concat([rows(np.full((2, 4), 0.8 + 0.001 * i), layer=i) for i in range(8)])
    assert layer_scan(made)["suggestion"] == "all"
    assert layer_scan(rows(np.full((1, 4), 0.5)))["layers"] == []


def test_sign_flips_by_hand():
    assert sign_flip_p(np.array([0.1, 0.2, 0.3])) == pytest.approx(2 / 8)
    assert sign_flip_p(np.array([0.1, -0.2, 0.3])) == pytest.approx(6 / 8)
    many = np.random.default_rng(0).normal(0.3, 1, 40)
    assert sign_flip_p(many) == pytest.approx(stats.ttest_1samp(many, 0).pvalue, abs=0.02)


def test_pair_difference_is_paired():
    first, second = np.linspace(0.2, 0.8, 8), np.linspace(0.2, 0.8, 8) + 0.1
    pair = pair_difference(
        rows(np.stack([first, second], 1), bases=np.zeros(8, int)), None, "joint"
    )
    assert pair["difference"] == pytest.approx(0.1)
    assert (pair["low"], pair["high"]) == pytest.approx((0.1, 0.1))
    assert pair["p"] == pytest.approx(2 / 2**8)
