"""The Eviction page's two tabs through AppTest, with a client but no service."""

from __future__ import annotations

import made_trace
import pytest
from eviction_pages import html, listed, page, specs, text_of, trace_of, use
from fake_eviction import SPEC, FakeEviction

from app.eviction.forgotten import without_event
from app.words import literal
from engine.client import Refused
from engine.registry import FieldError

QUALITY = "Quality against budget"


@pytest.fixture
def client(monkeypatch):
    return use(monkeypatch, FakeEviction())


# ---- the first tab


def test_the_newest_run_opens_with_its_finding_and_its_first_event(client):
    at = page()
    body = html(at)
    assert "At 128 tokens beacon recalls .71" in body
    assert "equal mean memory" in body
    assert at.query_params["key"] in (client.stored, [client.stored])
    event = trace_of(client)["events"][0]
    gone = set(event["present"]) - set(event["kept"])
    assert f"Event 1, after {event['seen']} tokens: {len(gone)} of {len(event['present'])}" in body
    assert text_of(at, "out") == gone
    assert listed(at, "evicted") == sorted(gone)
    assert listed(at, "kept") == event["kept"]
    assert body.count('class="ps-mark"') >= 5
    told = specs(at)
    for title in (
        "What the cache held",
        "Negative log-likelihood",
        "Scores at this event",
        "Who voted",
        "How alike the queries are",
        "Where they lie",
        "Cover of the queries",
        "Attention to what is gone",
        "Marks still in the cache",
        "Put back what was evicted",
        "Global queries by layer and head",
    ):
        assert title in told, title


def test_a_stored_run_has_a_report_and_its_addresses(client):
    at = page(key=client.stored)
    assert "report" in {b.key for b in at.get("download_button")}
    told = " ".join(m.value for m in at.markdown)
    for address in (f"{client.stored}.json", f"{client.stored}/decode/answers.csv"):
        assert f"/runs/{address})" in told


def test_steps_go_from_event_to_event_by_button_slider_and_link(client):
    at = page(event="4")
    event = trace_of(client)["events"][3]
    assert f"Event 4, after {event['seen']} tokens" in html(at)
    before = set(range(event["seen"])) - set(event["present"])
    assert text_of(at, "gone") == before
    at.button(key="event-on").click().run()
    assert "Event 5, after" in html(at)
    assert at.slider(key="event").value == 5
    at.button(key="event-back").click().run()
    at.button(key="event-back").click().run()
    assert "Event 3, after" in html(at)
    at.slider(key="event").set_value(1).run()
    assert at.button(key="event-back").disabled
    at.slider(key="event").set_value(16).run()
    assert at.button(key="event-on").disabled


def test_what_is_looked_at_is_part_of_the_link(client):
    at = page(method="rkv", budget="128", sample="2", layer="1", head="2", event="2")
    asked = client.asked[-1]
    arm = next(
        m["arm"]
        for m in client.run(client.stored)["methods"]
        if m["method"] == "rkv" and m["budget"] == 128
    )
    assert asked == {"arm": arm, "sample": 2, "layer": 1, "kv_head": 2}
    assert [at.selectbox(key=k).value for k in ("method", "budget", "layer")] == ["rkv", 128, 1]
    assert "Event 2, after" in html(at)
    assert "recent queries kept" in html(at)
    assert "no method" not in html(at)


def test_what_a_link_names_and_is_not_there_falls_back_with_a_sentence(client):
    at = page(method="<b>nope", budget="7", layer="44", event="99", tab="zzz")
    body = html(at)
    assert "This run has no method “&lt;b&gt;nope”, no budget “7” and no layer “44”." in body
    assert "Shown: beacon at 96 tokens, sample 0, layer 3, head 0." in body
    assert "The link named an event that is not among the 16 here" in body
    assert "This page has no tab “zzz”" in body
    at.selectbox(key="method").set_value("rkv").run()
    assert "no method" not in html(at)


def test_a_method_without_votes_says_so(client):
    body = html(page(method="streaming"))
    assert "This method keeps by a rule, not by a vote" in body
    assert "the latest stand for what it saw" in body


def test_a_budget_that_holds_all_tells_that_nothing_was_forgotten(client):
    key = client.add(SPEC | {"budgets": [4000], "seed": 5}, "done")
    body = html(page(key=key))
    assert "No event: nothing was forgotten" in body
    assert "holds all: prompt and steps are" in body


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        (240, "The budget of 240 tokens holds all: prompt and steps are 240 tokens."),
        (128, "No event came: prompt and steps are 240 tokens, the budget is 128 tokens."),
    ],
)
def test_why_no_event_came(budget, says):
    assert without_event(budget, 240) == says


def test_a_trace_that_is_not_there_yet_is_waited_for(monkeypatch):
    client = use(monkeypatch, FakeEviction(slow=2))
    at = page()
    told = at.get("progress")[0].proto
    assert told.text.endswith("96 of 1\u202f200 tokens, 4\u00a0s")
    assert told.value == 8
    assert "Questions at the end" in html(at)  # what needs no trace is there
    assert "Event 1, after" not in html(at)
    at.run()
    assert "Event 1, after" in html(at)
    assert len(client.asked) == 3


def test_a_trace_that_is_cancelled_is_asked_again_by_a_button_alone(monkeypatch):
    client = use(monkeypatch, FakeEviction(slow=9))
    at = page()
    next(b for b in at.button if b.key == "trace-end").click().run()
    assert len(client.stopped) == 1
    asked = len(client.asked)
    at.run()
    assert len(client.asked) == asked
    assert "This trace was cancelled" in html(at)
    client.slow = 0
    next(b for b in at.button if b.key == "trace-on").click().run()
    assert "Event 1, after" in html(at)


def test_a_refused_trace_is_told(client, monkeypatch):
    def refuse(*args, **place):
        raise Refused(FieldError("layer", "layer 3 has a sliding window and evicts nothing"))

    monkeypatch.setattr(client, "trace", refuse)
    assert "layer 3 has a sliding window" in html(page())


def test_thresholds_of_global_queries_are_asked_for_apart(client):
    at = page()
    at.number_input(key="far").set_value(120).run()
    assert client.asked[-1]["far"] == 120
    assert "Global queries by layer and head" in specs(at)


def test_token_text_is_shown_and_never_read(monkeypatch):
    use(monkeypatch, FakeEviction(wild=True))
    at = page()
    body = html(at)
    for text in made_trace.WILD:
        assert literal(text) in body
    assert "<img src=x" not in body
    assert "<img src=x" not in specs(at)


# ---- the second tab


def test_quality_stands_beside_memory_with_pairs_costs_and_numbers(client):
    at = page(tab=QUALITY)
    body, told = html(at), specs(at)
    assert "settings are told apart from the full cache" in body
    assert "differences between methods are resolved" in body
    assert "Observing and choosing take 2.2 to 6.2" in body
    for title in (
        "Recall of the marked facts",
        "Negative log-likelihood against bytes",
        "Differences in pairs",
        "Bytes held, one prompt",
        "Time of a step, and of an event",
    ):
        assert title in told, title
    table = at.dataframe[0].value
    assert len(table) == 10
    assert {"Method", "Kept", "Removed", "Mean tokens", "Peak bytes", "NLL, nats"} <= set(table)
    assert "numbers-csv" in {b.key for b in at.get("download_button")}
    at.session_state["quality"] = "Likelihood"
    at.run()
    assert "difference, nats a token" in specs(at)


def test_published_figures_are_named_as_such(client):
    at = page(tab=QUALITY)
    assert "not measured here" in html(at)
    told = specs(at)
    for title in (
        "Recent against beacon queries",
        "Maximum against mean",
        "Initial and recent queries against beacons",
        "Speed of decoding",
    ):
        assert title in told, title
    assert told.count("Published, BKV Table") == 4
    assert told.count("Measured here") == 4


def test_a_text_of_ones_own_has_no_likelihood_to_compare(client):
    key = client.add(SPEC | {"mode": "free"}, "done")
    at = page(key=key, tab=QUALITY)
    assert "likelihoods are no comparison" in html(at)
    assert "Negative log-likelihood" not in specs(at)


def test_many_methods_stand_in_panels_and_their_pairs_at_one_budget(client):
    kinds = ["beacon", "rkv", "snapkv", "h2o", "streaming", "random"]
    key = client.add(SPEC | {"methods": [{"kind": k} for k in kinds]}, "done")
    at = page(key=key, tab=QUALITY)
    assert html(at).count("ps-panel-head") == 12
    assert "pairs_at" in {b.key for b in at.get("button_group")}


def test_the_table_of_votes_names_beacons_by_number(client):
    body = html(page())
    assert "<td>beacon no. 1" in body
    assert "<td>–</td>" in body


@pytest.mark.parametrize("given", ["inf", "1e999", "9" * 400])
def test_a_threshold_in_a_link_that_no_number_can_be_made_of_is_left_out(client, given):
    at = page(key=client.stored, top=given, far=given)
    assert "could not be drawn" not in html(at)
    assert [at.number_input(key=name).value for name in ("top", "far")] == [150, 200]
