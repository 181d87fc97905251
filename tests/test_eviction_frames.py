"""From a trace to the frames that the Eviction page draws, and the sentences over them."""

from __future__ import annotations

import made_trace
import numpy as np
import pandas as pd
import pytest

from app.eviction import claims, frames
from app.eviction.published import head
from app.eviction.quality import _shown
from app.eviction.recipe import words
from app.eviction.strip import text
from app.figures.theme import LIGHT
from app.words import fixed

STEPS = 120


@pytest.fixture(scope="module")
def trace() -> dict:
    return made_trace.trace(
        arm=1, method="beacon", budget=96, sample=0, layer=2, kv_head=1, steps=STEPS
    )


def test_every_token_is_in_one_state_at_a_time_from_its_birth_to_the_end(trace):
    table = frames.segments(trace)
    total, prompt = len(trace["tokens"]), frames.prompt_length(trace)
    for position, rows in table.groupby("position"):
        rows = rows.sort_values("start")
        assert rows["stop"].iloc[-1] == total
        assert all(a == b for a, b in zip(rows["stop"][:-1], rows["start"][1:], strict=True))
        if position >= prompt:
            assert rows["start"].iloc[0] == position
            assert rows["state"].iloc[0] == "written"
    first, second = trace["events"][:2]
    for place, event in enumerate((first, second)):
        held_then = set(event["present"])
        now = table[(table["start"] < event["seen"]) & (table["stop"] >= event["seen"])]
        shown = set(now.loc[now["state"] != "evicted", "position"])
        assert shown == held_then, place
    gone = set(first["present"]) - set(first["kept"])
    lost = table[(table["state"] == "evicted") & (table["start"] == first["seen"])]
    assert set(lost["position"]) == gone
    safe = table[(table["state"] == "protected") & (table["stop"] >= first["seen"])]
    assert set(first["protected"]) - set(range(prompt, total)) <= set(safe["position"])


def test_a_streamed_prompt_is_born_token_by_token():
    tokens = [
        {"position": i, "text": "a", "role": "prompt" if i < 6 else "written", "mark": None}
        for i in range(8)
    ]
    event = {"seen": 4, "present": [0, 1, 2, 3], "kept": [0, 3], "protected": [3]}
    table = frames.segments({"tokens": tokens, "events": [event]})
    born = table.groupby("position")["start"].min()
    assert born.tolist() == list(range(8))
    assert set(table.loc[table["state"] == "evicted", "position"]) == {1, 2}


def test_fates_and_votes_of_an_event(trace):
    frame = frames.event(trace, 0)
    told = trace["events"][0]
    assert set(frame.loc[frame["fate"] == "evicted", "position"]) == set(told["present"]) - set(
        told["kept"]
    )
    assert set(frame.loc[frame["fate"] == "protected", "position"]) == set(told["protected"])
    won = frames.voted(frame)
    assert (won["fate"] == "kept").all()
    assert (won["observer"] >= 0).all()
    observers = frames.observers(told, frames.texts(trace))
    assert observers["kind"].tolist() == ["beacon"] * 12 + ["recent"] * 12
    assert frames.cosine(told, observers).shape == (24, 24)


def test_a_method_without_queries_is_shown_with_the_latest():
    told = made_trace.trace(
        arm=3, method="streaming", budget=96, sample=0, layer=2, kv_head=1, steps=STEPS
    )["events"][0]
    assert not len(frames.observers(told, {}))
    watched = frames.watched(told, {})
    assert set(watched["kind"]) == {"latest"}
    assert watched["position"].iloc[-1] == told["seen"] - 1


def test_spans_of_marks(trace):
    names = [name for name, _, _ in frames.spans(trace)]
    assert names == ["premise", "plan", *made_trace.FACTS]
    assert all(last >= first for _, first, last in frames.spans(trace))


def test_unscored_tokens_are_left_out_and_likelihood_is_negated():
    told = {"nll": [[5, None, -1.0], [6, -2.0, -1.0]], "tokens": [{"position": 6, "text": "b"}]}
    frame = frames.likelihood(told)
    assert frame.to_dict("records") == [{"position": 6, "text": "b", "nll": 2.0, "full": 1.0}]


def test_bytes_of_an_arm_hold_the_methods_own_state():
    arm = {"arm": 1, "label": "a", "budget": 96, "recall": 0.5, "mean_resident": 90}
    arm |= {
        "kept_share": 0.75,
        "removed_share": 0.25,
        "mean_bytes": 1000,
        "peak_bytes": 1200,
        "state_bytes": 50,
        "pareto_recall": True,
    }
    row = frames.measured([arm], ["a"], "recall", LIGHT).iloc[0]
    assert (row["bytes"], row["peak_bytes"], row["front"]) == (1050, 1250, True)
    assert (row["kept_share"], row["removed_share"]) == (0.75, 0.25)
    assert not len(frames.measured([arm | {"recall": None}], ["a"], "recall", LIGHT))
    assert frames.control(None, "recall") is None


def test_pairs_take_the_names_of_their_arms_and_a_single_prompt_has_no_interval():
    row = {"budget": 96, "a": "beacon", "b": "rkv", "arm_a": 1, "arm_b": 4, "measure": "recall"}
    row |= {"diff": 0.1, "low": None, "high": None, "p": 1.0, "p_corrected": 1.0, "n": 1}
    names = {1: "BeaconKV", 4: "R-KV"}
    table = frames.pairs([row, row | {"measure": "nll"}], names, list(names.values()), "nll", LIGHT)
    assert table[["a", "b"]].values.tolist() == [["BeaconKV", "R-KV"]]
    assert np.isnan(table["low"].iloc[0])
    assert not table["resolved"].iloc[0]


# ---- sentences


def test_an_event_counts_what_goes_and_what_of_it_is_marked():
    frame = pd.DataFrame({"fate": ["evicted", "evicted", "kept"], "mark": [None, "plan", None]})
    assert claims.event(frame, 2, 212) == (
        "Event 3, after 212 tokens: 2 of 3 entries go, 1 of them marked"
    )


def test_votes_are_counted_by_kind():
    observers = pd.DataFrame({"observer": [0, 1], "kind": ["beacon", "recent"]})
    won = pd.DataFrame({"observer": [0, 0, 1]})
    assert claims.votes(won, observers) == (
        "Beacons kept 2 of 3 entries that a vote kept, recent queries 1"
    )
    assert "not by a vote" in claims.votes(won.head(0), observers.head(0))
    assert "no vote was needed" in claims.votes(won.head(0), observers)


def test_no_sentence_says_more_than_the_tests():
    test = {"resolved": True}
    arms = [{"against_full": {"recall": test}}, {"against_full": {"recall": {"resolved": False}}}]
    assert claims.against_full(arms, "recall") == (
        "In recall 1 of 2 settings is told apart from the full cache"
    )
    assert claims.against_full([{}], "nll") == "Quality against budget"
    table = pd.DataFrame({"resolved": [False, False]})
    assert claims.pairs(table) == "None of 2 differences between methods is resolved"


def test_what_was_lost_is_told_by_mark_and_by_attention():
    marks = pd.DataFrame({"seen": [5, 9, 9], "mark": ["a", "a", "b"], "retained": [0.9, 0.2, 0.5]})
    lost = pd.DataFrame({"position": [3, 4], "mass": [0.1, 0.62]})
    assert claims.lost(marks, lost) == (
        "At the end .20 of “a” was left and one token’s attention to what is gone reached .62"
    )
    assert claims.lost(marks.head(0), lost.head(0)) == "Nothing was evicted"


def test_the_order_over_all_budgets_needs_more_than_one():
    lines = [
        {"label": "random", "budgets": [96, 128], "nll": 2.854, "recall": 0.0},
        {"label": "full", "budgets": [None], "nll": 2.05, "recall": 0.97},
        {"label": "rkv, every 16", "budgets": [96, 128], "nll": None, "recall": 0.2},
    ]
    told = claims.overall(lines, "nll")
    assert told.startswith("Over all budgets, NLL in nats, the best first: full 2.05, random 2.85.")
    assert "full .97, rkv (every 16) .20, random 0" in claims.overall(lines, "recall")
    assert claims.overall([line | {"budgets": [96]} for line in lines], "nll") == ""


# ---- words


def test_published_tables_are_named_once():
    rows = [{"source": f"BKV Table {n}"} for n in ("4", "4 and 5", "5")]
    assert head(rows) == "Published, BKV Tables 4 and 5"
    assert head(rows[:1]) == "Published, BKV Table 4"
    assert head([*rows, {"source": "PWS Fig. 2"}]).endswith("BKV Table 5, PWS Fig. 2")


def test_options_are_named_as_the_form_names_them():
    fields = [{"name": "n_beacon", "label": "Beacons"}, {"name": "every"}]
    schema = {"methods": {"beacon": {"fields": fields}}}
    assert words("beacon, n_beacon 0, every 16", schema) == "beacon, beacons 0, every 16"
    assert words("pooled W8 S8, max", schema) == "pooled W8 S8, max"


def test_a_column_has_one_number_of_digits_and_no_none():
    rows = [{"label": "a", "budget": None, "kept_share": 1.0, "nll": 3.0, "peak_bytes": 20_736_000}]
    rows += [{"label": "b", "budget": 96, "kept_share": 0.25, "nll": None, "peak_bytes": 5_900_000}]
    told = _shown(pd.DataFrame(rows)).to_html()
    assert all(f">{cell}<" in told for cell in ("1.00", ".25", "3.000", "–", "20.7\u00a0MB", "96"))
    assert "None" not in told
    assert [fixed(x, 1) for x in (0.0, 4.0, -0.5, None)] == ["0", "4.0", "−.5", "–"]


def test_a_line_ends_before_a_word_not_within_one():
    told = [{"position": i, "text": t} for i, t in enumerate(["a", " b", "c", "\n"])]
    assert text(told, {}).count("<wbr>") == 2
