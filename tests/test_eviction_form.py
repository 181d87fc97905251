"""The Eviction page's form, links and states through AppTest, with a client but no service."""

from __future__ import annotations

import json

import pytest
from eviction_pages import MAIN, html, page, spec_of, specs, use
from fake_eviction import SPEC, FakeEviction
from streamlit.testing.v1 import AppTest

from app import services_eviction
from engine.client import NotFound
from engine.eviction.spec import decode_schema

QUALITY = "Quality against budget"


@pytest.fixture
def client(monkeypatch):
    return use(monkeypatch, FakeEviction())


# ---- the form


def test_a_valid_change_names_another_run_and_shows_its_budgets(client):
    at = page()
    body = html(at)
    assert all(f"<td>{n}</td>" in body for n in (96, 128, 256))
    assert "<td>.27</td><td>.73</td>" in body
    at.text_input(key="e:run.budgets").set_value("64").run()
    body = html(at)
    assert at.query_params["key"] not in (client.stored, [client.stored])
    assert "<td>64</td>" in body
    assert "not measured yet" in body
    assert "The first prompt" in body
    assert "3 methods × 1 budget and the full cache, about" in body


def test_shares_are_a_unit_too(client):
    at = page()
    at.text_input(key="e:run.budgets").set_value("0.25").run()
    at.selectbox(key="e:run.unit").set_value("removed").run()
    spec = spec_of(at, client)
    assert spec["budgets"] == [0.25]
    body = html(at)
    assert "<td>.75</td><td>.25</td>" in body
    said = body.split(">Removed</th>")[0].rsplit('title="', 1)[1]
    assert said.startswith("share of prompt and steps that goes; ")  # .25 of it, not of the prompt
    assert said.rstrip('"').endswith("compression_ratio is a share of the prompt alone")
    at.selectbox(key="e:run.fair").set_value("own").run()
    at.selectbox(key="e:run.evict").set_value("prompt").run()
    said = html(at).split(">Removed</th>")[0].rsplit('title="', 1)[1]
    assert said.startswith("share of the prompt that goes; ")  # kvpress's own number
    help = next(f["help"] for f in decode_schema()["settings"] if f["name"] == "unit")
    assert "share of prompt and steps" in help
    assert "of the prompt alone, as kvpress's compression_ratio" in help


def test_methods_are_added_left_out_and_set(client):
    at = page()
    at.selectbox(key="e:add").set_value("snapkv").run()
    assert ">snapkv<" in html(at)
    assert at.selectbox(key="e:add").value is None
    at.button(key="e:drop1").click().run()  # R-KV
    at.number_input(key="e:m0.n_beacon").set_value(0).run()
    assert "beacons 0" in html(at)
    spec = spec_of(at, client)
    assert [m["kind"] for m in spec["methods"]] == ["full", "beacon", "streaming", "snapkv"]
    assert spec["methods"][1]["n_beacon"] == 0
    at.selectbox(key="e:add").set_value("beacon").run()
    spec = spec_of(at, client)
    assert [m.get("n_beacon") for m in spec["methods"]] == [None, 0, None, None, 16]


def test_refusals_stand_at_their_fields_and_the_last_run_stays(client):
    at = page()
    at.text_input(key="e:run.budgets").set_value("12, x").run()
    body = html(at)
    assert "12 cannot hold a prefix of 4" in body
    assert "ust be above 0, not &#x27;x&#x27;" in body
    assert at.button(key="run").disabled
    assert "At 128 tokens beacon recalls" in body
    assert at.query_params["key"] in (client.stored, [client.stored])
    at.text_input(key="e:run.budgets").set_value("96").run()
    for number in (0, 1, 2):
        at.button(key=f"e:drop{number}").click().run()
    assert "Choose at least one method" in html(at)


def test_reasoning_takes_pasted_prompts(client):
    at = page()
    at.button_group(key="e:task.kind").set_value("reasoning").run()
    assert "No prompts; upload or paste a JSONL" in html(at)
    area = at.text_area(key="e:task:reasoning.prompts-text")
    area.set_value('{"prompt": "a"}\n{"prompt": ').run()
    assert "Line 2 is no JSON object" in html(at)
    lines = [{"prompt": "How many?", "answer": "4"}, {"prompt": "<b>", "answer": "5"}]
    area = at.text_area(key="e:task:reasoning.prompts-text")
    area.set_value("\n".join(map(json.dumps, lines))).run()
    at.button(key="e:task:reasoning.prompts-use").click().run()
    assert spec_of(at, client)["task"]["prompts"] == lines
    assert "No prompts" not in html(at)


# ---- states


def test_a_run_that_loads_its_model_or_is_about_to_end_says_so(client, monkeypatch):
    at = page()
    at.number_input(key="e:run.seed").set_value(4).run()
    begun = {"done": 0, "total": 80, "seconds_left": None}
    shown = client.run
    monkeypatch.setattr(client, "run", lambda key: shown(key) | {"progress": begun})
    at.button(key="run").click().run()
    assert at.get("progress")[0].proto.text.startswith("Loading the model: 0 of 80 parts")
    monkeypatch.setattr(client, "cancel", lambda key: {"cancelled": True})  # it takes a while
    at.button(key="cancel").click().run()
    assert at.get("progress")[0].proto.text.startswith("Stopping behind its next step")
    monkeypatch.undo()


def test_a_run_shows_progress_ends_and_can_be_cancelled(client):
    at = page()
    at.number_input(key="e:run.seed").set_value(3).run()
    at.button(key="run").click().run()
    key = client.key(spec_of(at, client))
    assert client.jobs[key]["status"] == "running"
    assert "Decoding" in html(at)
    assert "40 of 80 parts" in at.get("progress")[0].proto.text
    assert at.button(key="run").disabled
    again = page(key=key)
    again.button(key="cancel").click().run()
    assert client.jobs[key]["status"] == "cancelled"
    assert "cancelled after 40 of 80 parts" in html(again)
    assert again.button(key="run").label == "Run again"
    client.finish(key)
    services_eviction.forget()
    again.run()
    assert "Event 1, after" in html(again)


def test_a_failed_run_tells_its_reason(client):
    key = client.add(SPEC | {"seed": 9}, "failed")
    assert "The worker was killed" in html(page(key=key))


@pytest.mark.parametrize("key", ["deadbeef0000", "<b>", "zzz"])
def test_an_unknown_key_has_a_way_on(client, key):
    at = page(key=key)
    assert "No such run here" in html(at)
    assert "<b>" not in html(at)
    at.button(key="afresh").click().run()
    assert "At 128 tokens beacon recalls" in html(at)


def test_a_sweep_and_a_decode_run_know_each_others_pages(client):
    sweep = next(k for k, spec in client.specs.items() if spec.get("kind") != "decode")
    assert "This is a phase sweep" in html(page(key=sweep))
    at = AppTest.from_file(MAIN, default_timeout=120).run()
    at.query_params["key"] = client.stored
    at.switch_page("app_pages/explore.py").run()
    assert "This is a decode run" in html(at)


def test_without_any_run_a_fresh_form_can_be_run(client):
    client.jobs.clear()
    client.presets.clear()
    at = page()
    assert "Beacon, rkv and streaming against the full cache, not measured yet" in html(at)
    at.button(key="run").click().run()
    assert "Decoding" in html(at)


def test_a_service_without_a_decode_lane_is_told(client, monkeypatch):
    whole = client.schema()
    whole.pop("decode")
    monkeypatch.setattr(client, "schema", lambda: whole)
    assert "This service decodes nothing" in html(page())


def test_a_missing_service_is_told(client):
    client.down = True
    assert "The engine service is not running" in html(page())


def test_tables_that_are_not_there_leave_their_charts_empty(client, monkeypatch):
    def nothing(*args, **options):
        raise NotFound("no such table")

    monkeypatch.setattr(client, "decode", nothing)
    at = page()
    assert "Event 1, after" in html(at)
    assert "No marks, or no events" in specs(at)


def test_figures_stay_small(client):
    for tab in ("What was forgotten", QUALITY):
        assert all(len(c.proto.spec) < 500_000 for c in page(tab=tab).get("plotly_chart"))
