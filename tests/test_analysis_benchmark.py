"""What a benchmark page tells beside its curves: two phases for one answer, depth and density."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from planted import hole, rows
from scipy import stats

from engine.analysis.benchmark import combined, density_and_depth, rank_correlation
from engine.analysis.intervals import wilson

RULES = ["one run", "mean log-probability", "agreement", "random jitter once"]


def made(gold: np.ndarray, rivals: np.ndarray) -> pd.DataFrame:
    """Rows with these log-probabilities: gold [n, R], rivals [n, R, k], in any order."""
    table = rows(np.exp(gold))
    cells = [list(rivals[s, r]) for s, r in zip(table["sample"], table["residue"], strict=True)]
    return table.assign(rival_logprobs=cells).sample(frac=1, random_state=0)


def noisy(n: int = 20, residues: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(-1, 0.7, (n, residues)), rng.normal(-1.8, 0.7, (n, residues, 3))


def by_rule(table: list[dict]) -> dict[str, dict]:
    assert [row["rule"] for row in table] == RULES
    return {row["rule"]: row for row in table}


@pytest.mark.parametrize(("stride", "away"), [(4, 2), (6, 3), (3, 2), (2, 1)])
def test_rules_by_a_loop(stride, away):
    gold, rivals = noisy()
    n, size = gold.shape
    told = by_rule(combined(made(gold, rivals), stride))
    assert {row["chance"] for row in told.values()} == {1 / 4}
    curves = np.zeros((3, n, size))
    for s in range(n):
        for r in range(size):
            q = (r + away) % size
            one = gold[s, r] > max(rivals[s, r])
            two = gold[s, q] > max(rivals[s, q])
            means = [(rivals[s, r, k] + rivals[s, q, k]) / 2 for k in range(3)]
            curves[:, s, r] = one, (gold[s, r] + gold[s, q]) / 2 > max(means), one and two
    for rule, curve in zip(RULES, curves, strict=False):
        row = told[rule]
        assert row["mean"] == pytest.approx(curve.mean())
        assert row["worst"] == pytest.approx(curve.mean(axis=0).min())
        assert row["gap"] == pytest.approx(np.ptp(curve.mean(axis=0)))
        assert row["worst_case"] == pytest.approx(np.mean(curve.min(axis=1)))
        assert row["mean_low"] < row["mean"] < row["mean_high"]
        hits = curve.sum(axis=0).min()
        assert (row["worst_low"], row["worst_high"]) == pytest.approx(
            tuple(map(float, wilson(hits, n)))
        )
    assert [told[rule]["forwards"] for rule in RULES] == [1, 2, 2, 1]
    json.dumps(list(told.values()), allow_nan=False)


def test_random_jitter_has_the_same_mean_and_no_better_worst_case():
    gold, rivals = noisy()
    told = by_rule(combined(made(gold, rivals), 4))
    one, jitter = told["one run"], told["random jitter once"]
    for name in ("mean", "mean_low", "mean_high", "worst_case", "worst_case_low"):
        assert jitter[name] == pytest.approx(one[name])
    assert jitter["worst"] == pytest.approx(one["mean"])
    assert jitter["gap"] == pytest.approx(0)


def test_two_phases_fill_a_hole_that_jitter_only_spreads():
    """At phase 0 gold loses narrowly; half a stride further it wins clearly."""
    rng = np.random.default_rng(1)
    lead = np.tile(np.where(hole(12, 4, 1.0, top=1.0) > 0, 2.0, -0.5), (40, 1))
    rivals = rng.normal(-2, 0.1, (40, 12, 3))
    told = by_rule(combined(made(rivals.max(axis=2) + lead, rivals), 4))
    assert told["one run"]["worst"] == 0
    assert told["one run"]["worst_high"] > 0.05  # no row of zeros is certain
    assert told["mean log-probability"]["worst"] == 1
    assert told["agreement"]["worst"] == 0
    assert told["agreement"]["answered"] == pytest.approx(0.5)
    assert told["random jitter once"]["worst"] == pytest.approx(0.75)
    assert told["random jitter once"]["worst_case"] == told["one run"]["worst_case"] == 0


def test_the_second_reading_may_come_from_another_run():
    gold, rivals = noisy()
    answers, other = made(gold, rivals), made(np.roll(gold, 2, axis=1), np.roll(rivals, 2, axis=1))
    same = by_rule(combined(answers, 4, other))
    one = by_rule(combined(answers, 4))
    # The other run at r + 2 is the first at r: combining changes nothing.
    assert same["mean log-probability"]["mean"] == one["one run"]["mean"]
    assert combined(answers, 4, answers) == combined(answers, 4)


def test_answers_of_several_tokens_are_chosen_at_the_first():
    gold, rivals = noisy()
    answers = made(gold, rivals)
    longer = answers.assign(
        logprob=answers["logprob"] - 5, token_logprobs=[[x, -5.0] for x in answers["logprob"]]
    )
    assert combined(longer, 4) == combined(answers, 4)


def test_what_cannot_be_combined_is_left_out():
    gold, rivals = noisy()
    answers = made(gold, rivals).sort_values(["sample", "residue"])
    assert combined(answers.iloc[:-1], 4)[0]["n_samples"] == 19
    scanned = pd.concat([answers, answers.assign(layer=3)])
    assert combined(scanned, 4) == combined(answers, 4)
    assert combined(answers.iloc[:5], 4, modulus=12) == []
    assert combined(answers.assign(rival_logprobs=None), 4) == []
    assert combined(answers, 5) == []
    assert combined(answers.iloc[:0], 4) == []


# ---- density and depth


def placed(accuracy: np.ndarray, distance: np.ndarray, pairs: np.ndarray) -> pd.DataFrame:
    """One row for each (sample, residue)."""
    n, size = accuracy.shape
    return pd.DataFrame(
        {
            "sample": np.repeat(np.arange(n), size),
            "residue": np.tile(np.arange(size), n),
            "correct": accuracy.ravel().astype(bool),
            "target_position": 1000 - distance.ravel(),
            "query_position": 1000,
            "pairs": pairs.ravel(),
        }
    )


def test_rank_correlation_agrees_with_scipy():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 9, 20), rng.normal(size=20)
    rho, p = rank_correlation(x, y)
    told = stats.spearmanr(x, y)
    assert rho == pytest.approx(told.statistic)
    assert p == pytest.approx(told.pvalue, abs=0.02)
    assert rank_correlation([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]) == (None, None)


def test_accuracy_that_goes_with_density_is_told_from_depth():
    rng = np.random.default_rng(2)
    n, size = 200, 24
    distance = rng.integers(100, 200, (n, size))
    pairs = np.tile(np.arange(size) % 5, (n, 1))
    table = placed(rng.random((n, size)) < 0.9 - 0.15 * pairs, distance, pairs)
    told = density_and_depth(table)
    assert told["pairs"]["rho"] < -0.8
    assert told["pairs"]["p"] < 0.001
    assert abs(told["distance"]["rho"]) < 0.5
    assert told["distance"]["p"] > 0.05
    for block in told.values():
        assert len(block["points"]) == size
        assert sum(point["n"] for point in block["points"]) == n * size
        assert sum(point["n"] for point in block["bins"]) == n * size
    assert [point["x"] for point in told["pairs"]["bins"]] == [0, 1, 2, 3, 4]
    assert [point["accuracy"] for point in told["pairs"]["bins"]] == pytest.approx(
        [table.loc[table["pairs"] == k, "correct"].mean() for k in range(5)]
    )
    assert len(told["distance"]["bins"]) == 12
    first = table[table["residue"] == 3]
    assert told["distance"]["points"][3] == {
        "x": pytest.approx((1000 - first["target_position"]).mean()),
        "accuracy": pytest.approx(first["correct"].mean()),
        "n": n,
    }
    given = density_and_depth(table.drop(columns="pairs"), table["pairs"].to_numpy())
    assert given == told
    json.dumps(told, allow_nan=False)


def test_false_alarms_of_the_rank_correlation():
    """A hole at one phase, target and records placed by chance: neither explains it."""
    rng = np.random.default_rng(3)
    alarms = np.zeros(2)
    runs = 300
    for k in range(runs):
        right = rng.random((12, 24)) < hole(24, 8, 0.6)
        distance, pairs = rng.integers(100, 900, (12, 24)), rng.integers(0, 4, (12, 24))
        table = density_and_depth(placed(right, distance, pairs), seed=k, draws=99)
        alarms += [table[name]["p"] <= 0.05 for name in ("distance", "pairs")]
    print("rank correlation, false alarms:", alarms / runs)
    assert (alarms / runs).max() <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / runs)


def test_design_without_any_spread_has_no_correlation():
    table = placed(np.ones((3, 8)), np.full((3, 8), 50), np.full((3, 8), 2))
    told = density_and_depth(table)
    assert told["pairs"]["rho"] is told["distance"]["p"] is None
    with pytest.raises(ValueError, match="5 counts of pairs for 24 rows"):
        density_and_depth(table, [1] * 5)
    assert density_and_depth(table.iloc[:0])["pairs"]["points"] == []
