"""The Benchmark page through AppTest, with a client but no service."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
import streamlit as st
from fake_benchmark import FakeBenchmark
from streamlit.testing.v1 import AppTest

from app import services
from app.benchmark import family
from app.benchmark.opened import progress
from app.benchmark.subject import Opened
from app.words import NOTHING
from engine.registry import FieldError

MAIN = str(Path(__file__).parent.parent / "app" / "main.py")


@pytest.fixture
def client(monkeypatch):
    return use(monkeypatch, FakeBenchmark())


@pytest.fixture
def bare(monkeypatch):
    """Nothing was run."""
    return use(monkeypatch, FakeBenchmark(measured=False))


def use(monkeypatch, fake: FakeBenchmark) -> FakeBenchmark:
    st.cache_data.clear()
    st.cache_resource.clear()
    monkeypatch.setattr(services, "connect", lambda: fake)
    return fake


def page(**address: str) -> AppTest:
    at = AppTest.from_file(MAIN, default_timeout=120).run()
    for key, value in address.items():
        at.query_params[key] = value
    at.switch_page("app_pages/benchmark.py").run()
    assert not at.exception
    return at


def html(at: AppTest) -> str:
    bodies = [e.proto.body for e in at.get("html")]
    told = "\n".join(b for b in bodies if not b.startswith("<style>"))
    assert "could not be drawn" not in told
    return told.replace("\u00a0", " ")


def test_results_that_come_in_are_waited_for_under_the_title(monkeypatch):
    fake = FakeBenchmark()
    fake.coming = [{"done": 9, "total": 38}] * 2
    client = use(monkeypatch, fake)
    at = page()
    assert "Does the period follow the stride?" in html(at)
    assert at.get("progress")[0].proto.text.endswith(": 9 of 38")
    assert not charts(at)
    at.run()
    assert charts(at)
    asked = client.calls.count("benchmark")
    at.run()
    assert client.calls.count("benchmark") == asked  # kept while no run is at work


def charts(at: AppTest) -> list[str]:
    return [c.proto.id for c in at.get("plotly_chart")]


def keys(at: AppTest, kind: str = "button") -> set[str]:
    return {w.key for w in at.get(kind) if w.key}


def test_the_family_stands_on_one_scale_with_its_finding(client):
    at = page()
    body = html(at)
    assert "7 of 8 memories repeat with their stride, over M = 24, 32 and 40 records" in body
    assert body.count("<span>residue gap</span>") == 11
    assert "No period is resolved in W8 S4." in body
    assert "density 3.3 records a window" in body
    assert body.index("Full, M = 24") < body.index("W8 S8, M = 24")
    specs = [c.proto.spec for c in at.get("plotly_chart")]
    panels = [s for s in specs if '"height":164' in s or '"height":184' in s]
    assert len(panels) == 11
    assert all('"range":[0,1.02]' in s and '"range":[-0.5,23.5]' in s for s in panels)
    assert ".972" in body
    assert "8, p &lt; .001" in body
    assert "0.97" not in body


def test_each_section_below_has_its_sentence(client):
    body = html(page())
    for told in (
        "W8 S8, M = 24: the last offset is the hole, the rest is uneven too",
        "Depth and density do not explain it",
        "Two phases, one answer: the worst residue rises from .21 to .54",
        "Not the boundary alone",
        "Not RoPE: without it the period of 8 is there too",
        "Not the learned gate",
        "The width is not settled",
        "Training on one phase makes the gap; training on all closes it",
        "Staggered windows and W = S + 1 lift the worst residue in every seed",
        "Published (PWS Fig. 2), not measured here.",
    ):
        assert told in body, told


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("Gate", "The period is there without a learned gate too"),
        ("KV heads", "8 KV heads instead of 2 lift the mean"),
        ("Repairs", "2 of 3 repairs lift the worst residue"),
        ("Seeds", "12 of 15 trained seeds repeat with their stride"),
    ],
)
def test_a_section_is_part_of_the_link(client, section, told):
    at = page(section=section, measure="Gold probability")
    body = html(at)
    assert told in body
    assert at.session_state["section"] == section
    assert at.session_state["measure"] == "Gold probability"
    assert "ps-panel" in body


def test_a_member_opens_from_its_panel_and_from_a_link(client):
    at = page()
    at.button(key="open-0-w8s6").click().run()
    assert at.query_params["open"] in ("w8s6", ["w8s6"])
    assert "W8 S6: period 6 found, the configured stride" in html(at)
    labels = [m.label for m in at.metric]
    assert labels == ["Mean", "Worst residue", "Gap over phases", "Period", "Full cache"]
    assert all(m.proto.help for m in at.metric)
    assert at.metric[3].value == "6"
    assert "W4 S4: the last offset is the hole" in html(page(open="w4s4"))


def test_two_phases_show_their_cost_and_no_worst_residue_of_jitter(client):
    body = html(page(open="w8s8-dense"))
    table = next(t for t in body.split("<table") if "random jitter once" in t)
    rows = [line.split("</td>") for line in table.split("<tr>")[2:]]
    cells = [[re.sub("<.*?>", "", cell) for cell in row[:-1]] for row in rows]
    assert [row[2] for row in cells[:3]] == [".208 (.16 to .26)", ".542 (.49 to .59)", cells[2][2]]
    assert cells[3][2] == NOTHING
    assert cells[0][5:] == ["1", "97", "9.2 kB", "2.5 ms"]
    assert cells[1][5:] == ["2", "194", "18.4 kB", "4.9 ms"]
    assert "a guess is right .250 of the time" in body


def test_a_run_of_ones_own_tells_its_density(client):
    at = page()
    at.number_input(key="b:samples").set_value(8).run()
    at.button(key="b-run").click().run()
    (key,) = client.own
    client.finish(key)
    services.forget()
    assert "2 records a window, .250 records a place" in html(page(run=key))


def test_the_design_table_tells_variances_and_of_how_many_prompts_it_is(client):
    at = page(open="w8s6")
    at.session_state["design-table"] = True
    at.run()
    assert "variances 143.8" in html(at)
    assert "These are the first 170 of 192 prompts." in html(at)


@pytest.mark.parametrize("name", ["<b>", "w99s99", "../../etc"])
def test_an_unknown_name_is_told_and_the_page_stays(client, name):
    at = page(open=name)
    body = html(at)
    assert "No member and no run" in body
    assert "<b>" not in body.replace("<b>", "", body.count("<b>") - body.count("<b>&lt;b"))
    assert "7 of 8 memories" in body
    at.button(key="close-missing").click().run()
    assert "No member and no run" not in html(at)


@pytest.mark.parametrize("key", ["zzz", "0" * 12])
def test_an_unknown_run_is_told(client, key):
    assert "No member and no run" in html(page(run=key))


def test_nothing_measured_breaks_nothing_and_can_be_run(bare):
    at = page()
    body = html(at)
    assert "Nothing is measured here yet" in body
    assert body.count("Not run yet") >= 8
    at.button(key="panelrun-0-w8s6").click().run()
    assert bare.member("w8s6")["status"] == "running"
    assert "1\u202f200 of 4\u202f608 copies, about 2 min left" in html(at)
    again = page()  # a reload
    again.button(key="panelrun-0-w8s6").click().run()
    assert bare.member("w8s6")["status"] == "cancelled"
    assert "The run was cancelled" in html(again)


def test_a_member_that_was_never_trained_says_how(bare):
    bare.member("w8s6").update(status="missing", key=None)
    at = page(open="w8s6")
    assert "phasescope train w8s6" in html(at)
    assert "panelrun-0-w8s6" not in keys(at)


def test_a_running_member_opens_with_its_progress(client):
    client.start("w8s6")
    at = page(open="w8s6")
    assert "W8 S6: measuring" in html(at)
    assert "1\u202f200 of 4\u202f608 copies" in at.get("progress")[0].proto.text
    at.button(key="opened-cancel").click().run()
    assert client.member("w8s6")["status"] == "cancelled"


def test_what_is_the_same_for_every_residue_is_a_sentence(client, monkeypatch):
    shown = client.depth

    def one_distance(key):
        told = shown(key)
        for point in told["distance"]["points"]:
            point["x"] = 45.5
        return told

    before = len(charts(page(open="w8s6")))
    services.depth.clear()
    monkeypatch.setattr(client, "depth", one_distance)
    at = page(open="w8s6")
    assert "The same for every residue, 45.5 tokens" in html(at)
    assert len(charts(at)) == before - 1


def test_a_member_whose_model_loads_says_so():
    begun = {"done": 0, "total": 128, "seconds_left": None}
    told = progress({"status": "running", "progress": begun})
    assert told == (0.0, "Loading the model: 0 of 128 copies")


def test_a_form_of_ones_own_runs_and_its_link_survives(client):
    at = page()
    assert "576 copies and 576 of the control, about 12 s and 310 MB" in html(at)
    at.number_input(key="b:samples").set_value(8).run()
    at.button(key="b-run").click().run()
    (key,) = client.own
    assert at.query_params["run"] in (key, [key])
    assert client.own[key]["spec"]["memory"] == {"kind": "trained"}
    assert client.own[key]["spec"]["control"]["model"]["id"] == "full-sparse"
    assert at.button(key="b-run").disabled
    again = page(run=key)
    assert "60 of 4\u202f608 copies" in again.get("progress")[0].proto.text
    client.finish(key)
    services.forget()
    again.run()
    assert "the last offset is the hole" in html(again)


def test_the_services_refusal_stands_at_its_field(client):
    client.refusal = (FieldError("task.records", "needs at most 32 records"),)
    at = page()
    body = html(at)
    assert body.count("Needs at most 32 records") == 1
    assert at.button(key="b-run").disabled
    assert "7 of 8 memories" in body


def test_another_model_chooses_a_memory_and_a_task(client):
    at = page()
    at.selectbox(key="b:model").set_value("smollm2-135m").run()
    assert not at.exception
    html(at)
    assert at.selectbox(key="b:memory").value == "pooled"
    assert at.number_input(key="b:window").value == 4
    assert at.selectbox(key="b:task").value == "records"


def test_trainings_show_progress_and_stop(client):
    now = datetime.now(UTC).isoformat()
    lesson = {"name": "w8s8-local", "state": "running", "step": 900, "steps": 2500, "seed": 0}
    lesson |= {"curve": [[100, 4.1, 0.02], [900, 1.4, 0.62]], "cpu_seconds": 90.0, "reason": ""}
    client.lessons = [lesson | {"updated": now, "started": now}]
    client.lessons.append(lesson | {"name": "old", "state": "done", "updated": "2020-01-01"})
    at = page()
    body = html(at)
    assert "900 of 2500" in body
    assert "3 min" in body
    assert "old" not in {k.removeprefix("stop-") for k in keys(at)}
    client.refusal = (FieldError("", "this is a demo: nothing is stopped"),)
    at.button(key="stop-w8s8-local").click().run()
    assert "This is a demo: nothing is stopped" in html(at)
    assert not at.exception
    assert client.lessons[0]["state"] == "running"
    client.refusal = ()
    at.button(key="stop-w8s8-local").click().run()
    assert client.lessons[0]["state"] == "stopped"


def test_who_may_only_read_stops_no_training(client, monkeypatch):
    now = datetime.now(UTC).isoformat()
    lesson = {"name": "w8s8-local", "state": "running", "step": 9, "steps": 50, "updated": now}
    client.lessons = [lesson]
    monkeypatch.setattr(type(client), "health", lambda self: {"read_only": True})
    at = page()
    assert "9 of 50" in html(at)
    assert "stop-w8s8-local" not in keys(at)


def test_a_missing_service_is_told(client):
    client.down = True
    assert "The engine service is not running" in html(page())


@pytest.mark.parametrize(("measure", "noun"), [("joint", "Joint"), ("token", "Token")])
def test_a_run_of_another_measure_is_drawn_and_named_by_it(client, measure, noun):
    at = page()
    at.number_input(key="b:samples").set_value(8).run()
    at.button(key="b-run").click().run()
    (key,) = client.own
    client.finish(key)
    client.run = lambda key, plain=client.run: of_measure(plain(key), measure)
    services.forget()
    at = page(run=key)
    assert f"The measure is the {noun.lower()} probability, not accuracy." in html(at)
    mean = next(m for m in at.metric if m.label == "Mean")
    assert mean.proto.help.startswith(f"Mean {noun.lower()} probability over residues")
    assert not any("ccuracy" in m.proto.help or "Wilson" in m.proto.help for m in at.metric)
    spec = next(
        c.proto.spec for c in at.get("plotly_chart") if "plot-accuracy-by-residue" in c.proto.id
    )
    assert f"{noun} probability by residue" in spec
    assert "95 %, by prompt" in spec
    report = of_measure(client.member("w8s8-dense")["numbers"], measure)
    own = Opened(key, "", {}, report | {"control": report}, None)
    for frame in (family.curve(report, family.drawn(report)), own.control(family.drawn(report))):
        assert frame["value"].max() <= 0.5
    assert family.drawn(report, "Gold probability") == "Gold probability"


def of_measure(report: dict, measure: str) -> dict:
    """The report as if its measure were another, half of the accuracy."""
    for block in filter(None, (report, report.get("control"))):
        block["measure"] = measure
        for row in block.get("residues") or ():
            row |= {name: row[name] / 2 for name in ("value", "value_low", "value_high")}
    return report
