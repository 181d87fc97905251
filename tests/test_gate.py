"""The gate's rules, its intervals against other ways to the same number, and how often it errs.

`pytest -s` prints the simulated rates; LOG.md has those of larger runs.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import answered, correlated, rows
from scipy import stats

from engine.analysis.gap import gap_interval
from engine.analysis.gate import Limits, Unjudged, bounds, gap_bounds, judge, weight
from engine.analysis.gate_words import apart
from engine.analysis.intervals import resample, wilson

ALPHA = 0.05


def table(values: np.ndarray):
    """Rows of right (1) and wrong (0) answers [n, R]."""
    return rows(np.where(np.asarray(values) > 0.5, 0.9, 0.1))


def planned(shares: list[float], n: int, copies: int = 1) -> np.ndarray:
    """[n, S · copies] answers of which each phase gets its share right, all copies of a prompt
    alike; phases fail in different prompts."""
    right = np.ones((n, len(shares)))
    for phase, share in enumerate(shares):
        failing = round(n * (1 - share))
        right[(phase * failing + np.arange(failing)) % n, phase] = 0
    return np.tile(right, copies)


def gate(values: np.ndarray, stride: int | None = None, **limits) -> dict:
    size = values.shape[1]
    return judge(table(values), Limits(**limits), modulus=size, stride=stride, measure="accuracy")


def only(values: np.ndarray, stride: int | None = None, **limits) -> dict:
    (condition,) = gate(values, stride, **limits)["conditions"]
    return condition


# ---- rules


@pytest.mark.parametrize(
    ("limit", "state"),
    [(0.0, "met"), (0.79, "met"), (0.81, "undecided"), (0.9, "undecided"), (0.95, "not met")],
)
def test_the_interval_decides_about_the_worst_phase_not_the_point(limit, state):
    values = planned([0.95, 0.95, 0.86, 0.95], 200)
    found = only(values, worst=limit)
    assert (found["phase"], found["state"]) == (2, state)
    assert found["value"] == pytest.approx(0.86)
    assert found["low"] < 0.86 < found["high"]


@pytest.mark.parametrize(("limit", "state"), [(0.01, "not met"), (0.1, "undecided"), (0.3, "met")])
def test_the_gap_is_judged_less_what_chance_shows(limit, state):
    values = planned([0.95, 0.95, 0.86, 0.95], 200, 2)
    found = only(values, 4, gap=limit)
    assert found["state"] == state
    assert found["value"] == pytest.approx(found["folded_gap"] - found["gap_null"])
    assert found["gap_null"] > 0
    assert found["low"] <= found["value"] <= found["high"]


@pytest.mark.parametrize(("limit", "state"), [(0.8, "met"), (0.9, "undecided"), (0.99, "not met")])
def test_the_mean_is_of_all_residues(limit, state):
    values = planned([0.9, 0.95, 0.86, 0.95], 200)
    found = only(values, mean=limit)
    assert found["state"] == state
    assert found["value"] == pytest.approx(values.mean())
    assert found["n"] == values.size


def test_every_condition_must_be_met():
    values = planned([0.98] * 4, 400)
    assert gate(values, worst=0.9, mean=0.9)["state"] == "met"
    assert gate(values, worst=0.97, mean=0.9)["state"] == "undecided"
    assert gate(values, worst=0.97, mean=0.999)["state"] == "not met"
    assert [c["name"] for c in gate(values, worst=0, gap=1, mean=0)["conditions"]] == [
        "worst",
        "gap",
        "mean",
    ]


def test_few_prompts_that_all_succeed_prove_little():
    """Twelve of twelve: the bootstrap sees no noise and would call anything shown."""
    values = np.ones((12, 8))
    made = gate(values, 4, worst=0.8, gap=0.1, mean=0.8)
    assert [c["state"] for c in made["conditions"]] == ["undecided"] * 3
    exact = 0.025 ** (1 / 12)
    assert made["conditions"][0]["low"] == pytest.approx(exact)
    assert made["conditions"][1]["high"] == pytest.approx(1 - exact)


def test_one_prompt_proves_nothing():
    made = gate(np.ones((1, 8)), 4, worst=0.1, gap=0.9)
    assert made["state"] == "undecided"
    assert [made["conditions"][1][end] for end in ("low", "high")] == [0, 1]
    assert any("One prompt" in note for note in made["notes"])


def test_phases_are_folded_only_where_they_can_be():
    values = planned([0.9] * 8, 60)
    assert [gate(values, s, worst=0)["by"] for s in (4, 8, None, 1, 3, 16)] == [
        *("phase", "phase"),
        *("residue",) * 4,
    ]
    made = gate(values, 4, worst=0)
    assert [(p["phase"], p["n"]) for p in made["phases"]] == [(f, 120) for f in range(4)]
    assert "no multiple of the stride 3" in gate(values, 3, worst=0)["notes"][0]


def test_what_would_settle_it_is_told_and_does():
    shares = [0.9] * 4
    for limits in ({"worst": 0.85}, {"mean": 0.88}):
        found = only(planned(shares, 100, 2), 4, **limits)
        assert found["state"] == "undecided"
        more = found["needed"]
        assert 100 < more < 2000
        assert f"about {more} would show it" in found["text"]
        assert only(planned(shares, more + more // 5, 2), 4, **limits)["state"] == "met"
    found = only(planned(shares, 100), worst=0.92)
    assert found["needed"] is None
    assert "wrong side" in found["text"]
    assert "any number" in only(np.ones((50, 4)), worst=1.0)["text"]


def test_the_sentence_has_every_number():
    text = only(planned([0.95, 0.95, 0.5, 0.95], 200, 2), 4, worst=0.8)["text"]
    assert text.startswith("The worst phase, 2, has .500 (95 % interval .")
    assert text.endswith("asked for at least .80: not met.")
    assert "99.9 % interval" in only(planned([0.9] * 4, 50), mean=0.5, alpha=0.001)["text"]


def test_only_a_gap_is_told_to_be_blind_to_failure():
    made = gate(np.zeros((200, 8)), 4, gap=0.1)
    assert made["state"] == "met"
    assert "never succeeds" in made["notes"][-1]


def test_rounded_numbers_stay_on_their_side_of_the_limit():
    assert apart(0.79996, 0.8) == ".79996"
    assert apart(0.80004, 0.8) == ".80004"
    assert apart(0.803, 0.8) == ".803"
    assert apart(0.8, 0.8) == ".800"


def test_what_cannot_be_judged_is_told():
    some = table(np.ones((4, 8)))
    options = {"modulus": 8, "stride": 4, "measure": "accuracy"}
    with pytest.raises(Unjudged, match="no answers"):
        judge(some.iloc[:0], Limits(worst=0.5), **options)
    with pytest.raises(Unjudged, match="1 of 4 prompts"):
        judge(some.iloc[1:], Limits(worst=0.5), **options)


# ---- intervals


def test_one_answer_a_prompt_gives_clopper_and_pearsons_interval():
    values = planned([0.9, 0.5], 40)
    low, high = bounds(values, 1, 0.025, 0.025)
    for k in range(2):
        exact = stats.binomtest(int(values[:, k].sum()), 40).proportion_ci(0.95, "exact")
        assert (low[k], high[k]) == pytest.approx((exact.low, exact.high))


def test_at_95_percent_the_gaps_interval_is_the_reports():
    rng = np.random.default_rng(5)
    for top in (0.6, 0.7):
        values = answered(rng, correlated(rng, np.array([top, 0.4, top, top]), 90))
        low, high = gap_interval(values, 4, resample(90, 3))
        ours = gap_bounds(values, 1, 3, 0.025)
        assert ours[0] == low
        assert ours[1] == pytest.approx(high) or ours[1] > high
        assert gap_bounds(values, 1, 3, 0.0005)[1] > ours[1]


def test_copies_of_one_fate_count_once():
    """Eight copies that fail together are one answer; eight independent ones are nearly eight."""
    rng = np.random.default_rng(1)
    fate = answered(rng, np.full((400, 1), 0.8))
    assert weight(fate, 8)[0] == pytest.approx(400, rel=0.01)
    free = answered(rng, np.full((400, 8), 0.8)).mean(axis=1, keepdims=True)
    assert 400 * 6 < weight(free, 8)[0] <= 400 * 8


@given(
    st.integers(1, 60),
    st.integers(1, 4),
    st.integers(1, 4),
    st.floats(0.001, 0.9),
    st.integers(0, 2**31),
)
def test_intervals_hold_their_value_and_grow_with_their_level(n, size, copies, alpha, seed):
    rng = np.random.default_rng(seed)
    phases = answered(rng, rng.random(size) * np.ones((copies, n, size))).mean(axis=0)
    mean = phases.mean(axis=0)
    low, high = bounds(phases, copies, alpha / 2, alpha / 2)
    wider = bounds(phases, copies, alpha / 20, alpha / 20)
    assert np.all((low >= 0) & (low <= mean + 1e-12) & (mean <= high + 1e-12) & (high <= 1))
    assert np.all((wider.low <= low + 1e-12) & (wider.high >= high - 1e-12))
    worth = weight(phases, copies)
    assert np.all((worth >= n) & (worth <= n * copies))


@settings(max_examples=20)
@given(st.integers(2, 40), st.integers(1, 3), st.floats(0, 1), st.floats(0, 1), st.integers(0, 99))
def test_a_stricter_limit_is_never_easier(n, copies, one, other, seed):
    rng = np.random.default_rng(seed)
    values = answered(rng, np.tile(rng.random((1, 4)), (n, copies)))
    easy, hard = sorted((one, other))
    order = ("not met", "undecided", "met")
    for name in ("worst", "mean"):
        states = [only(values, 4, **{name: limit})["state"] for limit in (hard, easy)]
        assert order.index(states[0]) <= order.index(states[1])
    states = [only(values, 4, gap=limit)["state"] for limit in (easy, hard)]
    assert order.index(states[0]) <= order.index(states[1])


# ---- how often it errs


def draw(
    rng: np.random.Generator, shares: np.ndarray, n: int, copies: int, runs: int = 1
) -> np.ndarray:
    """[n, runs · S] means of prompts over copies that share a prompt's difficulty at its phase."""
    shares = np.tile(shares, runs)
    shifted = stats.norm.ppf(shares) * np.sqrt(2) + rng.normal(0, 1, (n, len(shares)))
    chances = stats.norm.cdf(shifted)
    return sum(answered(rng, chances) for _ in range(copies)) / copies


def at_most(rate: float, runs: int) -> float:
    return rate + 3 * np.sqrt(rate * (1 - rate) / runs)


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
@pytest.mark.parametrize(("size", "copies"), [(4, 6), (8, 3), (24, 1)])
def test_false_alarms_when_every_phase_is_exactly_at_the_limit(size, copies, share):
    """The weakest of S phases is chosen by chance, and is called not met in alpha / 2 of runs."""
    rng, runs = np.random.default_rng(size), 1000
    for n in (24, 192):
        phases = draw(rng, np.full(size, share), n, copies, runs)
        least = [
            bounds(phases, copies, ALPHA / 2, tail).high.reshape(runs, size).min(axis=1)
            for tail in (ALPHA / 2 / size, ALPHA / 2)
        ]
        low = bounds(phases, copies, ALPHA / 2, 0.01).low.reshape(runs, size).min(axis=1)
        alarms, naive = ((high < share).mean() for high in least)
        passes = (low >= share).mean()
        print(
            f"S={size} n={n} p={share}: not met {alarms:.3f}, uncorrected {naive:.3f}, "
            f"met {passes:.3f}"
        )
        assert max(alarms, passes) <= at_most(ALPHA / 2, runs)
    if size == 24:
        assert naive > 0.15


@pytest.mark.parametrize(("size", "copies"), [(4, 6), (8, 3), (24, 1)])
def test_false_passes_when_one_phase_is_at_the_limit_and_the_others_are_perfect(size, copies):
    """The lower end needs no correction: only the phase that is truly weakest can err."""
    rng, runs = np.random.default_rng(size), 1000
    for n in (24, 192):
        for share in (0.5, 0.8, 0.95):
            shares = np.full(size, 1 - 1e-12)
            shares[1] = share
            low = bounds(draw(rng, shares, n, copies, runs), copies, ALPHA / 2, 0.01).low
            passes = (low.reshape(runs, size).min(axis=1) >= share).mean()
            print(f"S={size} n={n} p={share}: met {passes:.3f}")
            assert passes <= at_most(ALPHA / 2, runs)


def test_wilsons_tail_is_why_it_is_not_used():
    """At alpha / 2S Wilson's upper ends err many times too often; the exact ones do not."""
    n, size, share = 24, 24, 0.98
    hits = np.arange(n + 1)
    chance = stats.binom.pmf(hits, n, share)
    wrong = chance[wilson(hits, n, 1 - ALPHA / size).high < share].sum()
    assert 1 - (1 - wrong) ** size > 0.2
    values = (np.arange(n)[:, None] < hits[None, :]).astype(float)
    high = bounds(values, 1, ALPHA / 2, ALPHA / 2 / size).high
    assert 1 - (1 - chance[high < share].sum()) ** size <= ALPHA / 2


@pytest.mark.slow
@pytest.mark.parametrize("hole", [0.1, 0.3])
def test_a_gap_at_the_limit_seldom_passes(hole):
    """One weak phase among perfect and among good ones, as deep as the limit allows."""
    rng, runs = np.random.default_rng(3), 100
    for n, top in ((64, 0.95), (64, 1 - 1e-12), (192, 0.95)):
        shares = np.full(8, top)
        shares[1] -= hole
        found = [gap_bounds(draw(rng, shares, n, 3), 3, 0, ALPHA / 2) for _ in range(runs)]
        passes = sum(high < hole for _, high in found) / runs
        alarms = sum(low > hole for low, _ in found) / runs
        print(f"hole {hole}, n={n}, top {top:.2f}: met {passes:.3f}, not met {alarms:.3f}")
        assert passes <= at_most(ALPHA, runs)
        assert alarms <= at_most(ALPHA, runs)
