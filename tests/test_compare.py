"""Paired differences of two sweeps against a slow loop, and how often their intervals miss.

The simulation is short; larger ones (150 comparisons of 40 and 192 prompts, eight shapes) missed
the true worst phase in at most 8 % and the true gap in at most 4 %.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted import answered, correlated, hole, rows

from engine.analysis import compare
from engine.analysis.compare import Sheet, adjust, common, differences, folded_numbers, grids, sheet
from engine.analysis.gap import folded_gap, rotation_test
from engine.analysis.intervals import resample
from engine.analysis.period import Curve

SIZE = 24


def made(values: np.ndarray, stride: int | None = None, samples: np.ndarray | None = None) -> Sheet:
    values = np.asarray(values, float)
    samples = np.arange(len(values)) if samples is None else samples
    places = np.tile(np.arange(values.shape[1]), (len(values), 1))
    return Sheet(samples, values, places, stride, Curve.of(values))


def fold(row: np.ndarray, stride: int) -> list[float]:
    """One curve's mean at each phase, by a loop."""
    return [
        float(np.mean([row[r] for r in range(len(row)) if r % stride == f])) for f in range(stride)
    ]


def slow(values: np.ndarray, stride: int) -> tuple[float, float, float]:
    """Mean, minimum over phases and gap of [n, R], by loops."""
    phases = [fold(row, stride) for row in values]
    means = [sum(p[f] for p in phases) / len(phases) for f in range(stride)]
    return float(np.mean(values)), min(means), max(means) - min(means)


@st.composite
def pairs(draw):
    """Two runs' values on some samples of their own, with strides that divide 12."""
    n, extra = draw(st.integers(2, 7)), draw(st.integers(0, 3))
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    strides = st.sampled_from([None, 2, 3, 4, 6])
    first, second = rng.random((n + extra, 12)), rng.random((n, 12))
    return first, second, draw(strides), draw(strides), seed


# ---- the numbers


@given(pairs())
def test_values_and_differences_are_those_of_a_loop(drawn):
    first, second, a, b, _ = drawn
    found = differences(made(first, a), made(second, b))
    own, other = a or b or 12, b or a or 12
    shared = first[: len(second)]
    for name, one, two in zip(
        ("mean", "worst", "gap"), slow(shared, own), slow(second, other), strict=True
    ):
        row = found[name]
        assert row["n"] == len(second)
        assert row["value"] == pytest.approx(one)
        assert row["base_value"] == pytest.approx(two)
        assert row["diff"] == pytest.approx(one - two)
        assert row["low"] <= row["diff"] <= row["high"]
        assert -1 <= row["low"] <= row["high"] <= 1
        assert 0 < row["p"] <= 1


@given(pairs())
def test_the_exact_p_is_that_of_all_exchanges_by_a_loop(drawn):
    """Each prompt's two curves change sides or not; the folds stay with the sides."""
    first, second, a, b, seed = drawn
    second, first = second[:5], first[: len(second)][:5]
    own, other = grids(made(first, a), made(second, b))
    swapped = compare._Swapped.of(first, second, own, other, seed)
    for place, statistic in ((1, compare._worst), (2, compare._gap)):
        shown = []
        for signs in itertools.product((0, 1), repeat=len(first)):
            left = np.array([(y if s else x) for x, y, s in zip(first, second, signs, strict=True)])
            right = np.array(
                [(x if s else y) for x, y, s in zip(first, second, signs, strict=True)]
            )
            shown.append(slow(left, own)[place] - slow(right, other)[place])
        centre = np.mean(shown)
        beaten = [abs(d - centre) >= abs(shown[0] - centre) - 1e-9 for d in shown]
        assert swapped.p(statistic, shown[0]) == pytest.approx(np.mean(beaten))


def test_both_runs_are_resampled_by_the_same_draws():
    """What prompts have in common in both runs is no noise of their difference."""
    rng = np.random.default_rng(0)
    values = 0.5 * rng.random((40, 1)) + np.linspace(0, 0.2, SIZE)
    found = differences(made(values + rng.normal(0.2, 0.01, (40, SIZE)), 6), made(values, 6))
    for name, change, most in (("mean", 0.2, 0.01), ("worst", 0.2, 0.03), ("gap", 0.0, 0.03)):
        assert found[name]["diff"] == pytest.approx(change, abs=0.01)
        assert found[name]["high"] - found[name]["low"] < most, name  # the prompts spread by .5
    folds = compare._Folded.of(values, (resample(40, 0) @ values / 40).T)
    assert np.allclose(folds.noise[:, 3], resample(40, 0)[3] @ values / 40 - values.mean(axis=0))


def test_a_run_beside_itself_is_not_told_apart():
    values = np.random.default_rng(1).random((30, SIZE))
    for row in differences(made(values, 4), made(values, 4)).values():
        assert (row["diff"], row["p"]) == (0, 1)
        assert row["low"] <= 0 <= row["high"]


def test_only_samples_that_both_have_whole_are_paired():
    values = np.random.default_rng(2).random((6, SIZE))
    run, base = made(values[:4], 4, np.array([0, 2, 5, 9])), made(values, 4, np.arange(4, 10))
    shared = common(run, base)
    assert len(shared.first) == 2
    assert np.array_equal(shared.first, values[[2, 3]])
    assert np.array_equal(shared.second, values[[1, 5]])
    assert differences(run, made(values, 4, np.arange(20, 26))) == {}


def test_prompts_at_other_places_are_counted():
    run, base = made(np.ones((3, 4))), made(np.ones((3, 4)))
    base.places[1, 2] += 1
    assert common(run, base).other == 1


def test_a_memory_without_a_grid_is_read_with_the_others():
    flat, four, six = (made(np.ones((2, 12)), s) for s in (None, 4, 6))
    assert grids(four, six) == (4, 6)
    assert grids(flat, four) == grids(four, flat) == (4, 4)
    assert grids(flat, flat) == (12, 12)


def test_rows_become_a_sheet_of_whole_samples():
    probs = np.random.default_rng(3).uniform(0.1, 0.9, (5, 8))
    frame = rows(probs)
    whole = sheet(frame, 8, "joint", 4)
    assert np.allclose(whole.values, probs)
    assert (whole.stride, whole.samples.tolist()) == (4, [0, 1, 2, 3, 4])
    broken = sheet(frame.drop(frame.index[11]), 8, "joint", 3)
    assert (broken.stride, broken.samples.tolist()) == (None, [0, 2, 3, 4])
    assert sheet(frame.iloc[:0], 8, "joint", 4).values.shape == (0, 8)


def test_numbers_by_another_grid_are_those_of_the_report():
    values = correlated(np.random.default_rng(4), hole(SIZE, 6, 0.4), 50)
    found = folded_numbers(made(values), 6, 0)
    mean, worst, gap = slow(values, 6)
    assert found["worst"] == pytest.approx(worst)
    assert found["gap"] == pytest.approx(gap) == folded_gap(values, 6)
    assert found["worst_phase"] == 0
    assert (found["gap_null"], found["gap_p"]) == rotation_test(Curve.of(values), 6)
    assert np.mean([row["value"] for row in found["folded"]]) == pytest.approx(mean)
    assert {row["n"] for row in found["folded"]} == {50 * 4}
    assert len(folded_numbers(made(values), None, 0)["folded"]) == SIZE
    assert folded_numbers(made(values[:0]), 6, 0)["worst"] is None


# ---- few prompts, and prompts that agree


def test_one_prompt_shows_nothing():
    found = differences(made(np.ones((1, 8)), 4), made(np.zeros((1, 8)), 4))
    for name in ("mean", "worst"):
        assert (found[name]["diff"], found[name]["low"], found[name]["p"]) == (1, None, 1)


def test_three_prompts_that_agree_are_no_proof():
    """Resampling sees no noise there; the exchanges know that there are but eight of them."""
    weak = np.tile(np.where(np.arange(8) % 4 == 1, 0.2, 0.8), (3, 1))
    found = differences(made(weak, 4), made(np.full((3, 8), 0.8), 4))
    for name in ("mean", "worst", "gap"):
        assert found[name]["p"] >= 0.25
        assert found[name]["low"] < found[name]["diff"] < found[name]["high"]
        assert found[name]["high"] - found[name]["low"] > 0.5


# ---- more than one comparison


def test_holm_is_the_step_down_by_a_loop():
    given_p = [0.01, 0.04, None, 0.03, 0.005, 0.9]
    table = [{"p": p, "low": 0.1, "high": 0.2} for p in given_p]
    adjust(table)
    known = sorted((p, i) for i, p in enumerate(given_p) if p is not None)
    top, expected = 0.0, {}
    for k, (p, i) in enumerate(known):
        top = max(top, min(1.0, p * (len(known) - k)))
        expected[i] = top
    assert [row["p_adjusted"] for row in table] == [
        pytest.approx(expected[i]) if i in expected else None for i in range(len(table))
    ]
    assert expected == {4: 0.025, 0: 0.04, 3: pytest.approx(0.09), 1: pytest.approx(0.09), 5: 0.9}
    assert [row["resolved"] for row in table] == [True, False, False, False, True, False]


def test_a_small_p_is_not_resolved_while_its_interval_holds_zero():
    row = {"p": 0.001, "low": -0.1, "high": 0.2}
    assert adjust([row])[0]["resolved"] is False
    assert adjust([]) == []


# ---- how often it errs

SHAPES = {
    "flat beside flat": (np.full(SIZE, 0.9), np.full(SIZE, 0.9), 8, None),
    "flat, noisier": (np.full(SIZE, 0.6), np.full(SIZE, 0.95), 8, None),
    "hole beside flat": (hole(SIZE, 8, 0.6, 0.9), np.full(SIZE, 0.9), 8, None),
    "holes of one depth": (hole(SIZE, 8, 0.6, 0.9, 7), hole(SIZE, 6, 0.6, 0.9, 3), 8, 6),
}


@pytest.mark.parametrize("name", SHAPES)
def test_intervals_hold_the_truth_and_p_keeps_its_level(name):
    """50 prompts whose copies share their fate, and so do the two runs; 30 comparisons each."""
    first, second, a, b = SHAPES[name]
    own, other = a or b, b or a
    truth = {
        "mean": first.mean() - second.mean(),
        "worst": min(fold(first, own)) - min(fold(second, other)),
        "gap": np.ptp(fold(first, own)) - np.ptp(fold(second, other)),
    }
    missed, claimed, times = dict.fromkeys(truth, 0), dict.fromkeys(truth, 0), 30
    for k in range(times):
        rng = np.random.default_rng([k, 11])
        easy = rng.normal(0, 1, (50, 1))
        chances = [correlated_with(easy, curve) for curve in (first, second)]
        found = differences(
            *(made(answered(rng, c), s) for c, s in zip(chances, (a, b), strict=True))
        )
        for measure, true in truth.items():
            row = found[measure]
            missed[measure] += not row["low"] - 1e-9 <= true <= row["high"] + 1e-9
            claimed[measure] += row["p"] <= 0.05
    for measure, true in truth.items():
        assert missed[measure] <= 5, (measure, missed)  # more than 5 of 30 at 5 %: p = .003
        if abs(true) < 1e-9:
            assert claimed[measure] <= 5, (measure, claimed)
        elif abs(true) > 0.3:
            assert claimed[measure] == times


def correlated_with(easy: np.ndarray, curve: np.ndarray) -> np.ndarray:
    """[n, R] chances with mean `curve` of prompts that are as easy in both runs."""
    from scipy import stats

    return stats.norm.cdf(stats.norm.ppf(curve) * np.sqrt(2) + easy)


def test_the_shown_gap_of_noise_is_taken_off():
    """A flat run with few right answers shows a gap; beside a flat run without noise it is bias."""
    shown, corrected = [], []
    for k in range(20):
        rng = np.random.default_rng([k, 12])
        noisy = answered(rng, np.full((60, SIZE), 0.5))
        row = differences(made(noisy, 8), made(np.ones((60, SIZE)), 8))["gap"]
        shown.append(row["diff"])
        corrected.append(row["corrected"])
    assert np.mean(shown) > 0.08
    assert np.mean(corrected) < 0.6 * np.mean(shown)


def test_a_hole_of_ninety_points_outlives_a_correction_for_all_pairs_of_eight_runs():
    """56 comparisons (28 pairs by two measures): the draws alone would end at .001."""
    rng = np.random.default_rng(0)
    flat = 0.98 + 0.01 * rng.standard_normal((192, 16))
    holed = flat.copy()
    holed[:, ::8] -= 0.9
    told = differences(made(holed, 8), made(flat, 8))["worst"]
    assert told["p"] < 0.05 / 56
    assert told["high"] < -0.8
