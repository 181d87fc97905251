"""Numbers and tests of a decode run: by loops, by enumeration, coverage by simulation."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_decode import BEACON, answers, arm, costs, full, nothing, steps, table
from scipy import stats

from engine.analysis.eviction import pareto, report
from engine.analysis.eviction_curves import loss_curve, retention_curve
from engine.analysis.eviction_pairs import (
    Cells,
    at_equal_budget,
    clustered,
    holm,
    least_p,
    nll_cells,
    sign_flip,
)

ARMS = [full(), arm(1, "beacon", 96, **BEACON), arm(2, "rkv", 96), arm(3, "rkv", 128)]


def noise(shape: tuple[int, ...], seed: int = 0, hole: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    made = rng.gamma(2, 1, shape)
    made[rng.random(shape) < hole] = np.nan
    return made


def coins(shape: tuple[int, ...], seed: int = 0, p: float = 0.6) -> np.ndarray:
    return (np.random.default_rng(seed).random(shape) < p).astype(float)


def run(nll=None, right=None, arms=ARMS, marks=None, cost=None, **more) -> dict:
    return report(
        nothing("steps") if nll is None else steps(nll),
        nothing("answers") if right is None else answers(right),
        nothing("marks") if marks is None else marks,
        costs(arms) if cost is None else cost,
        arms,
        **more,
    )


# ---- numbers of one method


def test_methods_by_a_loop():
    nll, right = noise((4, 9, 20), 1, hole=0.1), coins((4, 9, 5), 2)
    right[2, 3] = np.nan  # a prompt without questions
    told = run(nll, right)
    assert told["n_samples"] == 9
    for a, row in enumerate(told["methods"]):
        losses, shares = [], []
        for s in range(9):
            scored = [x for x in nll[a, s] if not np.isnan(x)]
            losses.append(sum(scored) / len(scored))
            asked = [x for x in right[a, s] if not np.isnan(x)]
            if asked:
                shares.append(sum(asked) / len(asked))
        assert row["nll"] == pytest.approx(sum(losses) / 9)
        assert row["recall"] == pytest.approx(sum(shares) / len(shares))
        assert row["nll_low"] < row["nll"] < row["nll_high"]
        assert row["recall_low"] < row["recall"] < row["recall_high"]
        assert (row["n"], row["retention"]) == (9, 0.5)
    # A prompt counts once, however many tokens of it are scored.
    few = np.full((1, 2, 10), np.nan)
    few[0, 0, 0], few[0, 1] = 4.0, 1.0
    assert run(few, arms=[full()])["methods"][0]["nll"] == 2.5


@pytest.mark.parametrize("n", [5, 12, 40])
def test_interval_by_another_bootstrap(n):
    values = noise((n,), n)
    rng, draws = np.random.default_rng(99), []
    for _ in range(4000):
        draws.append(np.mean([values[rng.integers(n)] for _ in range(n)]))
    out = np.sqrt(n / (n - 1)) * stats.t.ppf(0.975, n - 1)
    low, high = np.quantile(draws, [stats.norm.cdf(-out), stats.norm.cdf(out)])
    told = clustered(values)
    assert (told.mean, told.n) == (pytest.approx(values.mean()), n)
    wide = high - low
    assert told.low == pytest.approx(low, abs=0.12 * wide)
    assert told.high == pytest.approx(high, abs=0.12 * wide)


def test_over_all_budgets_prompts_are_averaged_first_and_the_best_stands_first():
    nll, right = noise((4, 9, 4)), coins((4, 9, 2))
    told = run(nll, right)
    assert [x["nll"] for x in told["overall"]] == sorted(x["nll"] for x in told["overall"])
    by_label: dict[str, list[int]] = {}
    for row, method in enumerate(told["methods"]):
        by_label.setdefault(method["label"], []).append(row)
    assert any(len(rows) > 1 for rows in by_label.values())
    for line in told["overall"]:
        rows = by_label[line["label"]]
        assert line["nll"] == pytest.approx(nll[rows].mean())
        assert line["recall"] == pytest.approx(right[rows].mean())
        assert line["nll_low"] < line["nll"] < line["nll_high"]
        assert line["budgets"] == [told["methods"][row]["budget"] for row in rows]


def test_retention_without_questions_is_of_the_last_event():
    marks = [
        {"arm": 1, "sample": s, "seen": seen, "mark": m, "retained": r}
        for s in (0, 1)
        for m, held in (("a", (0.9, 0.4)), ("b", (0.8, 0.2)))
        for seen, r in zip((100, 112), held, strict=True)
    ]
    row = run(noise((4, 2, 4)), marks=table("marks", marks))["methods"][1]
    assert row["retention"] == pytest.approx(0.3)


# ---- intervals and tests by simulation


def covered(made: list[np.ndarray], truth: float, span=None) -> float:
    spans = [clustered(values, span=span) for values in made]
    return float(np.mean([one.low <= truth <= one.high for one in spans]))


@pytest.mark.parametrize("n", [32, 64])
def test_intervals_cover(n):
    """NLL that is skewed over prompts; recall of four questions; the difference of two methods."""
    rng, runs = np.random.default_rng(n), 800
    losses = [2 + rng.gamma(4, 0.25, n) for _ in range(runs)]
    chance = rng.beta(3, 2, (runs, n))
    shares = list(rng.binomial(4, chance) / 4)
    other = [a - rng.binomial(4, c) / 4 for a, c in zip(shares, chance, strict=True)]
    for made, truth, span in (
        (losses, 3.0, None),
        (shares, 0.6, (0.0, 1.0)),
        (other, 0.0, (-1.0, 1.0)),
    ):
        share = covered(made, truth, span)
        print(f"n={n}, truth {truth}: {share:.4f}")
        assert 0.93 <= share <= 0.97


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_prompts_that_all_agree_leave_doubt(value):
    told = clustered(np.full(8, value), span=(0.0, 1.0))
    rest = stats.norm.ppf(0.975) ** 2 / (8 + stats.norm.ppf(0.975) ** 2)  # Wilson's end for 0 in 8
    assert told.low == pytest.approx(value - rest * value)
    assert told.high == pytest.approx(value + rest * (1 - value))
    assert np.isnan(clustered(np.full(1, value), span=(0.0, 1.0)).low)
    equal = clustered(np.zeros(8))  # not bounded: nothing can be said of a prompt unlike these
    assert (equal.low, equal.high) == (0, 0)


def by_enumeration(x: list[float]) -> float:
    sums = [abs(sum(s * v for s, v in zip(p, x, strict=True)))
            for p in itertools.product((1, -1), repeat=len(x))]  # fmt: skip
    return sum(s >= sums[0] * (1 - 1e-9) - 1e-12 for s in sums) / len(sums)


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=9), st.sampled_from([1e-6, 1.0, 1e4]))
def test_sign_flips_are_exact_for_few_prompts(whole, scale):
    x = np.array(whole, float)
    p = sign_flip(x * scale)
    assert p == pytest.approx(by_enumeration(whole))
    assert sign_flip(-x[::-1]) == p
    assert p >= least_p(len(x)) - 1e-12


def test_sign_flips_of_more_prompts_come_near_to_enumeration():
    x = np.random.default_rng(3).normal(0.4, 1, 14)
    signs = 1 - 2 * ((np.arange(2**14)[:, None] >> np.arange(14)) & 1)
    exact = np.mean(np.abs(signs @ x) >= abs(x.sum()) - 1e-12)
    assert sign_flip(x) == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 10_000))
    assert sign_flip(np.full(13, 1.0)) <= 1e-3


def test_p_is_uniform_without_a_difference():
    rng = np.random.default_rng(5)
    exact = np.array([sign_flip(x) for x in rng.standard_t(3, (2000, 9))]) * 2**8
    counts = np.bincount(np.round(exact).astype(int), minlength=257)[1:]
    assert exact == pytest.approx(np.round(exact))
    assert stats.chisquare(counts.reshape(16, 16).sum(axis=1)).pvalue > 0.001
    drawn = [sign_flip(x) for x in rng.standard_t(3, (500, 24))]
    assert stats.kstest(drawn, "uniform").pvalue > 0.001


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_by_its_definition(p):
    told = holm(p)
    ranked = sorted(p)
    for x, y in zip(p, told, strict=True):
        below = [k for k, q in enumerate(ranked) if q <= x]
        assert y == pytest.approx(min(1, max((len(p) - k) * ranked[k] for k in below)))
        assert y >= x
    assert holm([]).shape == (0,)


def test_nothing_is_resolved_where_methods_are_alike():
    """Four methods at two budgets, all the same: any resolved pair in at most 5 % of runs."""
    rng, runs = np.random.default_rng(8), 100
    arms = [arm(k, "random", 96 if k < 4 else 128) for k in range(8)]
    found = 0
    for _ in range(runs):
        made = rng.normal(0, 1, (12, 1)) + rng.normal(0, 1, (8, 12, 1))
        cells = Cells(np.arange(12), made, None)
        found += any(row["resolved"] for row in at_equal_budget({"nll": cells}, arms))
    assert found / runs <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / runs)


# ---- pairs


def pair(told: dict, measure: str, a: int, b: int) -> dict:
    rows = [p for p in told["pairs"] if (p["measure"], p["arm_a"], p["arm_b"]) == (measure, a, b)]
    return rows[0] if rows else {}


def test_pairs_are_of_one_budget_and_by_prompt():
    nll, right = noise((4, 7, 6), 4), coins((4, 7, 3), 5)
    told = run(nll, right)
    assert {(p["arm_a"], p["arm_b"]) for p in told["pairs"]} == {(1, 2)}
    change = nll[1].mean(axis=1) - nll[2].mean(axis=1)
    row = pair(told, "nll", 1, 2)
    assert row["diff"] == pytest.approx(change.mean())
    assert row["p"] == pytest.approx(by_enumeration(list(change)))
    assert row["low"] < row["diff"] < row["high"]
    assert pair(told, "recall", 1, 2)["n"] == 7
    against = told["methods"][3]["against_full"]["nll"]
    assert against["diff"] == pytest.approx((nll[3] - nll[0]).mean())
    assert told["methods"][0]["against_full"] == {"nll": None, "recall": None}


def test_a_prompt_is_compared_only_where_both_scored_the_same():
    nll, right = noise((4, 8, 6), 6), coins((4, 8, 3), 7)
    nll[1, 0, 2] = np.nan  # one token unscored
    nll[2, 1] = np.nan  # a prompt not reached yet
    nll[1:3, 2, 4] = np.nan  # unscored in both: still the same tokens
    nll[1, 3, 0] = np.inf  # an impossible token is no missing one
    right[2, 5, 1] = np.nan
    table_ = steps(nll)
    other = (table_["arm"] == 2) & (table_["sample"] == 4) & (table_["position"] == 213)
    table_.loc[other, "token_id"] = 7
    told = report(table_, answers(right), nothing("marks"), costs(ARMS), ARMS)
    row = pair(told, "nll", 1, 2)
    shared = [2, 5, 6, 7]
    mean = np.nanmean(nll[1, shared], axis=1) - np.nanmean(nll[2, shared], axis=1)
    assert (row["n"], row["diff"]) == (4, pytest.approx(mean.mean()))
    assert pair(told, "recall", 1, 2)["n"] == 7
    warned = " ".join(told["warnings"])
    assert "rkv at 96 tokens scored other tokens than the full cache in 2 prompts: NLL" in warned
    assert json.dumps(told, allow_nan=False)


def test_rows_and_arms_in_any_order():
    nll, right = noise((4, 6, 9), 8, hole=0.1), coins((4, 6, 3), 9)
    marks = table("marks", [
        {"arm": a, "sample": s, "seen": 200 + 8 * k, "mark": m, "retained": 1 - k / 9}
        for a in (1, 2, 3) for s in range(6) for k in range(5) for m in "ab"
    ])  # fmt: skip
    frames = [steps(nll), answers(right), marks, costs(ARMS)]
    mixed = [f.sample(frac=1, random_state=3).reset_index(drop=True) for f in frames]
    assert report(*frames, ARMS) == report(*mixed, ARMS[::-1])
    whole = noise((4, 6, 9))
    assert run(whole, seed=1)["pairs"] != run(whole)["pairs"]


def test_what_is_missing_is_null():
    for told in (run(), run(noise((4, 1, 3))), run(right=coins((4, 1, 2)), cost=nothing("costs"))):
        assert json.dumps(told, allow_nan=False)
        assert all(m["nll_low"] is None for m in told["methods"])
    assert run()["finding"] == "Nothing has been scored yet"
    assert run(arms=[])["methods"] == []
    alone = run(noise((4, 1, 3)))["pairs"][0]
    assert (alone["n"], alone["low"], alone["p"], alone["resolved"]) == (1, None, 1.0, False)


def test_texts_of_ones_own_have_no_comparable_nll():
    told = run(noise((4, 8, 6)), coins((4, 8, 3)), mode="free")
    assert {p["measure"] for p in told["pairs"]} == {"recall"}
    assert told["methods"][1]["against_full"]["nll"] is None
    assert told["curves"]["loss"] == []
    assert told["methods"][1]["nll"] is not None
    assert told["methods"][1]["pareto_nll"] is None


# ---- curves and the frontier


def test_retention_curve_by_a_loop():
    rng, rows = np.random.default_rng(10), []
    events = {0: (200, 212, 224), 1: (206, 218), 2: (200, 212, 224)}
    for s, seen in events.items():
        for m in ("a", "b"):
            held = np.sort(rng.random(len(seen)))[::-1]
            rows += [
                {"arm": 1, "sample": s, "seen": t, "mark": m, "retained": h}
                for t, h in zip(seen, held, strict=True)
            ]
    curve = retention_curve(table("marks", rows).sample(frac=1, random_state=1))

    def held_at(sample: int, mark: str, at: int) -> float:
        past = [r for r in rows if (r["sample"], r["mark"]) == (sample, mark) and r["seen"] <= at]
        return past[-1]["retained"] if past else 1.0

    assert len(curve) == 10
    for row in curve.itertuples():
        expected = np.mean([held_at(s, row.mark, row.seen) for s in events])
        assert row.retained == pytest.approx(expected)
        assert row.n == 3
        assert row.low <= row.retained <= row.high
    both = retention_curve(table("marks", rows), by_mark=False)
    halves = curve.groupby("seen")["retained"].mean()
    assert both["retained"].to_numpy() == pytest.approx(halves.to_numpy())
    assert both["mark"].isna().all()


def test_loss_curve_by_a_loop():
    nll = noise((3, 5, 43), 11, hole=0.05)
    curve = loss_curve(steps(nll))
    assert list(curve["arm"].unique()) == [1, 2]
    for row in curve.itertuples():
        start = int(row.position) // 8 * 8
        block = nll[row.arm, :, start : start + 8] - nll[0, :, start : start + 8]
        assert row.loss == pytest.approx(np.nanmean(np.nanmean(block, axis=1)))
        assert row.low < row.loss < row.high
    assert curve["position"].tolist()[:6] == [3.5, 11.5, 19.5, 27.5, 35.5, 41.0]
    short = loss_curve(steps(nll), block=1)
    assert short.groupby("arm").size().tolist() == [43, 43]


def test_curves_have_at_most_two_hundred_points():
    rows = [{"arm": 1, "sample": 0, "seen": k, "mark": "a", "retained": 1.0} for k in range(999)]
    curve = retention_curve(table("marks", rows))
    assert (len(curve), curve["seen"].min(), curve["seen"].max()) == (200, 0, 998)
    assert len(loss_curve(steps(noise((2, 1, 2000))))) == 200
    assert retention_curve(nothing("marks")).empty
    assert loss_curve(nothing("steps")).empty


NUMBERS = st.one_of(st.none(), st.integers(0, 4))


@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=7))
def test_the_frontier_by_its_definition(points):
    names = ("nll", "recall", "total_bytes")
    methods = [dict(zip(names, p, strict=True)) for p in points]
    for (nll, recall, size), flags in zip(points, pareto(methods), strict=True):
        for key, own, sign in (("nll", nll, 1), ("recall", recall, -1)):
            if own is None or size is None:
                assert flags[key] is None
                continue
            beaten = [
                m for m in methods
                if m[key] is not None and m["total_bytes"] is not None
                and sign * m[key] <= sign * own and m["total_bytes"] <= size
                and (m[key] != own or m["total_bytes"] != size)
            ]  # fmt: skip
            assert flags[key] is (not beaten)


def test_cells_count_places_from_the_prompts_end():
    cells = nll_cells(steps(noise((2, 4, 5)), start=77), [0, 1])
    assert cells.values.shape == (2, 4, 5)
    assert np.isfinite(cells.values).all()
