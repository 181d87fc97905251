"""What is said of a decode run: each rule of headline, doubt and warnings; published figures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from made_decode import BEACON, PLAIN, answers, arm, costs, full, nothing, steps

from engine.analysis.eviction import report
from engine.analysis.eviction_arms import beacon_and_recent, published, role, split_of
from engine.analysis.eviction_arms import table as published_table
from engine.analysis.eviction_words import names

BEACONS, RECENT = arm(1, "beacon", 96, "beacon", **BEACON), arm(2, "beacon", 96, "recent", **PLAIN)
RKV, RANDOM = arm(3, "rkv", 96), arm(4, "random", 96)
FOUR = [full(), BEACONS, RECENT, RKV, RANDOM]


def losses(means: list[float], n: int = 12, sd: float = 0.01, seed: int = 0) -> np.ndarray:
    """[A, n, 4] NLL with exactly these means; prompts differ by 1, within one methods by `sd`."""
    rng = np.random.default_rng(seed)
    made = rng.normal(0, 1, (1, n, 1)) + rng.normal(0, sd, (len(means), n, 1))
    made += np.array(means)[:, None, None] - made.mean(axis=1, keepdims=True)
    return made + np.zeros((1, 1, 4))


def shares(right: list[int], n: int = 12, of: int = 6) -> np.ndarray:
    """[A, n, of] so many right answers in every prompt, one more in half of them."""
    rows = [
        [[q < r + s // (a + 1) % 2 for q in range(of)] for s in range(n)]
        for a, r in enumerate(right)
    ]
    return np.array(rows, float)


def told_of(nll=None, right=None, arms=FOUR, cost=None, **more) -> dict:
    return report(
        nothing("steps") if nll is None else steps(nll),
        nothing("answers") if right is None else answers(right),
        nothing("marks"),
        costs(arms) if cost is None else cost,
        arms,
        **more,
    )


def said(*values, **more) -> str:
    return told_of(*values, **more)["finding"]


def doubted(*values, **more) -> str:
    return told_of(*values, **more)["doubt"]


# ---- which method is best


def test_a_method_is_best_only_where_it_is_separated_from_every_other():
    assert said(losses([1, 2, 3, 2.5, 4])) == (
        "At 96 tokens beacon predicts best: NLL 2.00 against 2.50 for the next, rkv, with "
        "12 prompts"
    )
    assert doubted(losses([1, 2, 3, 2.5, 4])).startswith(
        "Beacon queries beat plain max over recent queries here (NLL difference −1.00, 95 % from "
        "−1.01 to −.99). "
    )


def test_by_recall_where_questions_are_answered_differently():
    finding = said(losses([1, 4, 3, 2.5, 2]), shares([5, 4, 2, 3, 0]))
    assert finding.startswith("At 96 tokens beacon keeps most: recall .75 against .56 for the next")


def test_recall_that_does_not_move_leaves_the_headline_to_nll():
    same = np.repeat(shares([4]), 5, axis=0)
    assert "predicts best: NLL" in said(losses([1, 2, 3, 2.5, 4]), same)
    assert said(None, same).startswith("No method is separated from beacon by recall at 96 tokens")


def test_no_method_is_separated():
    finding = said(losses([1, 2, 2, 2, 2], sd=0.5))
    assert finding.startswith("No method is separated from ")
    assert finding.endswith(" by NLL at 96 tokens with 12 prompts")


def test_a_leader_that_is_separated_from_some():
    nll = losses([1, 2, 2, 2, 4], sd=0.2)
    best = nll.mean(axis=(1, 2))[1:4].argmin()
    label = ("beacon", "recent", "rkv")[best]
    finding = said(nll)
    assert finding.startswith(f"At 96 tokens {label} has the best NLL, ")
    assert "but is not separated from " in finding
    assert "random" not in finding


def test_few_prompts_resolve_nothing_however_large_the_difference():
    result = told_of(losses([1, 2, 5, 8, 20], n=5))
    assert result["finding"].startswith("No method is separated from beacon by NLL")
    assert (
        "With 5 prompts no p by NLL corrected for 6 comparisons can fall below .38, so no "
        "difference can be resolved; 8 prompts could." in result["warnings"]
    )
    alone = told_of(losses([1, 2], n=5), arms=FOUR[:2])
    assert alone["warnings"] == [
        "With 5 prompts no p by NLL can fall below .062, so no difference can be resolved; "
        "6 prompts could."
    ]
    assert not told_of(losses([1, 2], n=6), arms=FOUR[:2])["warnings"]


def test_what_is_not_scored_yet_is_told():
    nll = losses([1, 2, 3, 2.5, 4])
    nll[4] = np.nan
    result = told_of(nll)
    assert "with 12 prompts, of the methods scored so far" in result["finding"]
    assert "Of 12 prompts not every method has all: random at 96 tokens 0." in result["warnings"]


def test_a_lead_that_comes_from_other_prompts_is_none():
    """random lacks the hard prompts: its mean is the lowest, yet it is worse wherever both are."""
    nll = losses([1, 2, 3], n=24)
    hard = nll[0, :, 0] > 1
    nll[:, hard] += 9
    nll[2, hard] = np.nan
    arms = [full(), RKV | {"index": 1}, RANDOM | {"index": 2}]
    result = told_of(nll, arms=arms)
    assert result["pairs"][0]["resolved"]
    assert result["finding"].startswith("No method is separated from random by NLL at 96 tokens")


def test_the_smallest_budget_speaks():
    arms = [full(), *(a | {"index": k} for k, a in enumerate(
        [RKV | {"budget": 128}, RANDOM | {"budget": 128}, RKV, RANDOM], 1))]  # fmt: skip
    finding = said(losses([1, 2, 3, 5, 4]), arms=arms)
    assert finding == (
        "At 96 tokens random predicts best: NLL 4.00 against 5.00 for the next, rkv, "
        "with 12 prompts"
    )


# ---- beacons against plain max over recent queries


def test_beacons_that_do_not_beat_recent_queries():
    told = doubted(losses([1, 2, 2, 3, 4], sd=0.05, seed=2))
    assert told.startswith("Beacon queries do not beat plain max over recent queries here (NLL d")
    behind = doubted(losses([1, 3, 2, 4, 5]))
    assert behind.startswith("Beacon queries fall behind plain max over recent queries here (NLL")


def test_an_interval_without_zero_that_is_no_difference_says_why():
    """p is corrected, the interval is not."""
    told = doubted(losses([1, 2, 2.4, 2.2, 2.2], sd=0.35))
    assert "do not beat plain max over recent queries here (NLL difference −.40, 95 % from" in told
    assert (
        " −.68 to −.10; lower NLL is better, but p is .08 after correction for 6 comparisons)."
    ) in told


def test_the_difference_is_of_beacons_less_recent_whatever_their_order():
    arms = [full(), RECENT | {"index": 1}, BEACONS | {"index": 2}, RKV, RANDOM]
    told = doubted(losses([1, 3, 2, 2.5, 4]), arms=arms)
    assert "Beacon queries beat plain max over recent queries here (NLL difference −1.0" in told


def test_beacons_at_other_budgets():
    more = [a | {"index": k, "budget": 128} for k, a in ((3, BEACONS), (4, RECENT))]
    result = told_of(losses([1, 2, 2, 2, 3], sd=0.02), arms=[*FOUR[:3], *more])
    assert "do not beat" in result["doubt"]
    assert "Beacon queries elsewhere, by NLL: ahead at 128 tokens (" in result["doubt"]
    only = [RKV | {"index": 1}, RANDOM | {"index": 2}, *more]
    assert "beat plain max over recent queries at 128 tokens (" in doubted(
        losses([1, 2, 3, 2, 3]), arms=[full(), *only]
    )


def test_the_pair_that_differs_least_is_compared():
    odd = arm(1, "beacon", 96, "odd", **BEACON | {"protect": 8})
    arms = [full(), odd, RECENT, BEACONS | {"index": 3}, RANDOM]
    result = told_of(losses([1, 1.5, 3, 2, 4]), arms=arms)
    assert "beat plain max over recent queries here (NLL difference −1.00" in result["doubt"]
    assert "differ in queries alone" not in result["doubt"]
    result = told_of(losses([1, 1.5, 3]), arms=arms[:3])
    assert "do not differ in queries alone: protect too." in result["doubt"]


def test_beacons_without_a_rival():
    line = "No method here votes by plain max over recent queries, so what beacons add"
    assert line in told_of(losses([1, 2, 3]), arms=[full(), BEACONS, RKV | {"index": 2}])["doubt"]
    assert line not in told_of(losses([1, 2, 3]), arms=FOUR[:3])["doubt"]


# ---- other headlines


def test_one_method_is_read_against_the_full_cache():
    assert said(losses([1, 2]), arms=FOUR[:2]) == (
        "At 96 tokens beacon has NLL 2.00, the full cache 1.00"
    )
    assert said(losses([1, 1], sd=0.5), arms=FOUR[:2]) == (
        "No difference between beacon at 96 tokens and the full cache is resolved by NLL with "
        "12 prompts"
    )
    right = said(None, shares([5, 2]), arms=FOUR[:2])
    assert right == "At 96 tokens beacon has recall .42, the full cache .92"


def test_headlines_without_a_comparison():
    assert said() == "Nothing has been scored yet"
    assert said(losses([1]), shares([3]), arms=[full()]) == (
        "Only the full cache has been scored: NLL 1.00, recall .58"
    )
    wide = [full(), RKV | {"index": 1, "budget": 256}]
    result = told_of(losses([1, 1], sd=0), arms=wide, cost=costs(wide, events=0))
    assert (
        result["finding"] == "Nothing was evicted: the smallest budget, 256 tokens, holds all 256"
    )
    assert result["warnings"] == [
        "rkv at 256 tokens: the budget holds all 256 tokens, so nothing was evicted."
    ]
    assert said(losses([1, 2, 3]), arms=FOUR[:3], mode="free") == (
        "Each method wrote its own text and no question was asked: nothing can be compared"
    )


# ---- the doubt


def test_the_doubt_says_what_the_numbers_are_of():
    about = {"model": "Tiny", "parameters": 1e8, "note": "A note."}
    doubt = told_of(losses([1, 2, 3, 2.5, 4]), shares([5, 4, 2, 3, 0]), **about)["doubt"]
    assert ". At 96 tokens beacon predicts best: NLL " in doubt
    assert (
        "Scores are of 12 prompts and one small model, Tiny. The full cache has NLL 1.00" in doubt
    )
    assert "p is corrected for up to 6 comparisons by one measure (Holm); intervals" in doubt
    assert "Budgets are the mean resident tokens that were asked." in doubt
    assert doubt.endswith("Published figures are of other models and tasks. A note.")
    large = told_of(losses([1, 2]), arms=FOUR[:2], model="Large", parameters=4e9)["doubt"]
    assert "one model, Large." in large
    assert "small" not in large + told_of(losses([1, 2]), arms=FOUR[:2])["doubt"]
    assert (
        "wrote its own text" in told_of(None, shares([3, 2]), arms=FOUR[:2], mode="free")["doubt"]
    )


def test_peaks_and_means_that_stand_apart():
    cost = costs(FOUR)
    cost.loc[cost["arm"] == 3, ["resident_peak", "resident_mean"]] = [130, 80.0]
    means = losses([1, 2, 3, 2.5, 4])
    fair = told_of(means, cost=cost)
    assert "were asked; at 96 tokens peaks run from 96 to 130." in fair["doubt"]
    assert fair["warnings"] == [
        "rkv at 96 tokens held 80.0 tokens on average, 17 % less than asked."
    ]
    own = told_of(means, cost=cost, fair="own")
    assert "methods' own, not equal memory; at 96 tokens means run from 80 to 96" in own["doubt"]
    assert own["warnings"] == []


# ---- warnings


def test_a_good_run_has_no_warnings():
    assert told_of(losses([1, 2, 3, 2.5, 4]), shares([5, 4, 2, 3, 0]))["warnings"] == []


def test_missed_budgets_start_at_three_per_cent():
    for mean, count in ((96 * 1.029, 0), (96 * 1.031, 1), (96 * 0.969, 1)):
        cost = pd.concat([costs(FOUR[:1]), costs(FOUR[1:], resident_mean=mean)])
        assert len(told_of(losses([1, 2, 3, 2.5, 4]), cost=cost)["warnings"]) == 4 * count


def test_no_event_and_more_bytes():
    cost = costs(FOUR)
    cost.loc[cost["arm"] == 1, "events"] = 0
    cost.loc[cost["arm"] == 2, "state_bytes"] = 2100
    assert told_of(losses([1, 2, 3, 2.5, 4]), cost=cost)["warnings"] == [
        "beacon at 96 tokens: no event came, so nothing was evicted.",
        "At 96 tokens recent takes 3.1 times the bytes of beacon, its own state included.",
    ]


def test_labels_with_options_stand_in_brackets():
    arms = [full(), RKV | {"index": 1, "label": "rkv, kernel 5, obs_window 16"}, RANDOM]
    result = told_of(losses([1, 2]), arms=arms[:2], cost=costs(arms[:2], resident_mean=200.0))
    assert result["finding"].startswith("At 96 tokens rkv (kernel 5, queries 16) has NLL 2.00")
    assert result["warnings"][0].startswith("rkv (kernel 5, queries 16) at 96 tokens held 200.0")


def test_names():
    assert [names(list("abcde")[:n]) for n in (1, 2, 3, 5)] == [
        "a", "a and b", "a, b and c", "a, b, c and 2 more"
    ]  # fmt: skip


# ---- published figures


def test_published_tables_and_their_sources():
    split = published_table("split")
    assert split[2] == {"recent_queries": 16, "beacon_queries": 16, "aime24_pct": 64.6,
                        "time_s": 4355.7, "source": "BKV Table 1"}  # fmt: skip
    assert split[1]["time_s"] is None
    assert [len(published_table(n)) for n in ("aggregation", "initial_recent", "system")] == [
        5,
        4,
        7,
    ]


def test_a_run_gets_the_tables_that_belong_to_it():
    beacon, plain = arm(1, "beacon", **BEACON), arm(2, "beacon", **PLAIN)
    assert published([full(), beacon]) == {}
    told = published([full(), beacon, plain])
    assert list(told) == ["split"]
    marked = {(r["recent_queries"], r["beacon_queries"]): r["arms"] for r in told["split"]}
    assert marked == {(32, 0): [2], (31, 1): [], (16, 16): [1], (4, 28): [], (1, 31): []}
    mean = arm(2, "beacon", **BEACON | {"over_queries": "mean", "over_heads": "mean"})
    assert list(published([beacon, mean])) == ["aggregation"]
    assert list(published([beacon, arm(2, "beacon", **BEACON | {"selector": "initial"})])) == [
        "initial_recent"
    ]
    told = published([full(), beacon, arm(2, "rpc", preset="fixed_budget")])
    assert list(told) == ["system"]
    assert {r["method"] for r in told["system"]} == {"full", "beaconkv", "rpc"}
    assert published([full(), arm(1, "rpc"), arm(2, "snapkv")]) == {}
    rows = told_of(losses([1, 2, 3]), arms=[full(), beacon, plain])["published"]
    assert {(r["table"], r["source"]) for r in rows} == {("split", "BKV Table 1")}


@pytest.mark.parametrize(
    ("kind", "options", "name"),
    [
        ("beacon", BEACON, "beacon"),
        ("beacon", PLAIN, "recent"),
        ("beacon", BEACON | {"selector": "recent"}, "recent"),
        ("beacon", PLAIN | {"over_heads": "mean"}, ""),
        ("beacon", BEACON | {"selector": "initial"}, "initial"),
        ("beacon", BEACON | {"selector": "random"}, "random"),
        ("rpc", {"preset": "fixed_budget", "over_queries": "max", "over_heads": "max"}, "recent"),
        ("rpc", {"preset": "fixed_budget", "over_queries": "max", "over_heads": "mean"}, ""),
        ("rpc", {"over_queries": "max", "over_heads": "all"}, ""),
        ("rpc", {"preset": "fixed_budget"}, ""),
        ("rpc", {"grows": True, "over_queries": "max", "over_heads": "max"}, ""),
        ("beacon", BEACON | {"selector": "centroids", "over_heads": "mean"}, "beacon"),
        ("rpc", {"preset": "paper", "over_queries": "max"}, ""),
        ("snapkv", {"over_queries": "max"}, ""),
    ],
)
def test_roles(kind, options, name):
    assert role(arm(1, kind, **options)) == name


def test_of_several_splits_the_even_one_stands_for_beacons():
    budget = 96
    arms = [
        arm(1, "beacon", budget, **(BEACON | {"n_beacon": 1, "n_recent": 31})),
        arm(2, "beacon", budget, **BEACON),
        arm(3, "beacon", budget, **(BEACON | {"n_beacon": 31, "n_recent": 1})),
        arm(4, "beacon", budget, **PLAIN),
    ]
    beacon, recent = beacon_and_recent(arms, budget)
    assert (beacon["index"], recent["index"]) == (2, 4)
    assert split_of(beacon) == "16 + 16"


@pytest.mark.parametrize(
    ("mean", "at"), [(95, 96), (97, 96), (126, 128), (100, None), (128, 128), (300, None)]
)
def test_a_pooled_memory_is_paired_with_the_asked_budget_next_to_it(mean, at):
    """Within 2 %; else it stands alone, and a sentence tells which budget would pair it."""
    arms = [full(), arm(1, "rkv", 96), arm(2, "rkv", 128), arm(3, "pooled", mean)]
    told = told_of(losses([1, 2, 3, 4]), arms=arms)
    assert [(p["budget"], p["arm_a"], p["arm_b"]) for p in told["pairs"]] == (
        [(at, {96: 1, 128: 2}[at], 3)] if at else []
    )
    alone = [text for text in told["warnings"] if text.startswith("pooled holds")]
    assert alone == (
        []
        if at
        else [
            f"pooled holds {mean} tokens on average, near no budget that was asked: it is paired "
            f"with no other method; a budget of {mean} would pair it."
        ]
    )


def test_pooled_memories_alone_are_told_nothing_about_budgets():
    arms = [full(), arm(1, "pooled", 90), arm(2, "pooled", 120)]
    told = told_of(losses([1, 2, 3]), arms=arms)
    assert not told["pairs"]
    assert not [text for text in told["warnings"] if "asked" in text]
