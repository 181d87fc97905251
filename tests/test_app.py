"""Pages through AppTest, with a client but no service: what stands where, what a press does."""

from __future__ import annotations

from pathlib import Path

import pytest
import streamlit as st
from fake_client import WILD, FakeClient
from streamlit.testing.v1 import AppTest

from app import services
from app.words import literal

MAIN = str(Path(__file__).parent.parent / "app" / "main.py")
DISK = ("database", "maps", "traces")
TABS = ("Attention", "Top tokens", "Token difference", "Design table", "Layers", "Run details")


@pytest.fixture
def client(monkeypatch):
    st.cache_data.clear()
    st.cache_resource.clear()
    fake = FakeClient(wild=True)
    monkeypatch.setattr(services, "connect", lambda: fake)
    yield fake
    st.cache_data.clear()
    st.cache_resource.clear()


def page(name: str, **address: str) -> AppTest:
    at = AppTest.from_file(MAIN, default_timeout=60).run()
    if name == "explore":
        for key, value in address.items():
            at.query_params[key] = value
        at.switch_page("app_pages/explore.py").run()
    assert not at.exception
    return at


def html(at: AppTest) -> str:
    """All HTML of the page, the style sheet left out."""
    bodies = [e.proto.body for e in at.get("html")]
    return "\n".join(b for b in bodies if not b.startswith("<style>"))


def preset(client: FakeClient, name: str = "smollm2-onehot") -> str:
    return next(spec.key for known, _, spec in client.presets if known == name)


def widget(at: AppTest, kind: str, ending: str):
    return next(w for w in at.get(kind) if (w.key or "").endswith(ending))


# ---- start


def test_start_shows_cards_gallery_and_recent_runs(client):
    client.submit({"task": {"kind": "access_code"}, "memory": {"kind": "pooled"}}, "My own")
    body = html(page("start"))
    assert "A compressed cache remembers some positions better than others" in body
    assert body.count("<img") == 2 + 3  # two cards with a curve, three presets
    assert "Every fourth token the answer fades" in body
    assert "Recent runs" in body


def test_start_without_any_stored_result_says_what_to_do(client, monkeypatch):
    whole = client.schema()
    bare = [p | {"stored": False, "curve": [], "finding": None} for p in whole["presets"]]
    monkeypatch.setattr(client, "schema", lambda: whole | {"presets": bare})
    body = html(page("start"))
    assert body.count("Not measured here yet: open it and press Run.") == 3
    assert "None yet" in body


@pytest.mark.parametrize("name", ["start", "explore"])
def test_a_missing_service_is_told_with_what_to_do(client, name):
    client.down = True
    at = page(name)
    assert "The engine service is not running" in html(at)
    assert "phasescope serve" in at.markdown[-1].value
    client.down = False
    at.button[0].click().run()
    assert "not running" not in html(at)


def test_an_error_inside_is_one_sentence_and_no_traceback(client, monkeypatch):
    monkeypatch.setattr(client, "schema", lambda: 1 / 0)
    at = page("explore")
    assert "This page could not be drawn" in html(at)
    assert "ZeroDivisionError" in html(at)
    assert "Traceback" not in html(at)


# ---- explore


def test_explore_shows_finding_doubt_and_five_numbers(client):
    at = page("explore", key=preset(client))
    body = html(at)
    shown = client.show(preset(client))
    assert shown["finding"] in body
    assert "full cache" in body
    labels = [m.label for m in at.metric]
    assert labels == ["Mean", "Worst phase", "Gap", "Period", "Full cache, gap"]
    assert all(m.proto.help for m in at.metric)
    assert at.metric[3].value == "4"
    assert at.metric[3].delta == "configured 4, p < .001"
    assert at.metric[1].delta.startswith("phase 0")
    assert len(at.get("plotly_chart")) == 3


def test_without_a_key_the_first_preset_opens(client):
    at = page("explore")
    assert at.session_state["key"] == preset(client)


def test_come_back_to_by_the_navigation_it_names_its_run_in_the_address_again(client):
    key = preset(client, "smollm2-mean")
    at = page("explore", key=key)
    at.query_params.clear()
    at.switch_page("app_pages/start.py").run()
    assert not at.query_params
    at.switch_page("app_pages/explore.py").run()
    assert "Uniform pooling" in html(at)
    assert at.query_params["key"] in (key, [key])


def test_a_preset_that_was_never_opened_here_opens(client):
    key = preset(client)
    del client.specs[key], client.jobs[key]
    whole = FakeClient().schema()
    client.schema = lambda: whole
    assert "not measured yet" in html(page("explore", key=key))


@pytest.mark.parametrize("key", ["zzz", "<b>", "0" * 12, "../../etc"])
def test_an_unknown_key_has_a_way_back(client, key):
    at = page("explore", key=key)
    assert "No such view here" in html(at)
    assert "<b>" not in html(at)
    at.button[0].click().run()
    assert not at.exception
    assert "No such view here" not in html(at)


def test_every_tab_draws(client):
    at = page("explore", key=preset(client))
    for tab in TABS:
        at.session_state["tab"] = tab
        at.run()
        assert not at.exception, tab
        assert "could not be drawn" not in html(at), tab


def test_token_text_is_shown_literally(client):
    at = page("explore", key=preset(client))
    body = html(at)
    for raw in WILD:
        assert f">{literal(raw)}</bdi>" in body
    assert "<img src=x" not in body
    assert "32\n&lt;b&gt;" in body  # what the model wrote


def test_the_form_is_drawn_from_the_schema(client):
    at = page("explore", key=preset(client))
    names = {
        w.key.split(".")[-1]
        for w in (*at.number_input, *at.selectbox, *at.text_input, *at.toggle)
        if w.key
    }
    memory = {f["name"] for f in client.schema()["memories"]["pooled"]["fields"] if not f["when"]}
    assert memory - {"gate"} <= names | {"v_gate", "when", "keys"}
    widget(at, "button_group", "pooled.gate")


@pytest.mark.parametrize(
    ("stride", "told"), [(0, "from 1"), (-4, "from 1"), (9, "windows would leave gaps")]
)
def test_a_bad_value_is_told_at_its_field_and_nothing_is_lost(client, stride, told):
    at = page("explore", key=preset(client))
    field = widget(at, "number_input", "pooled.stride")
    field.set_value(stride).run()
    errors = [b for b in html(at).split("<p ") if b.startswith('class="ps-error')]
    assert len(errors) == 1
    assert told in errors[0] or "stride" in errors[0].lower()
    assert widget(at, "number_input", "pooled.stride").value == stride
    assert at.button(key="run").disabled
    assert "submit" not in client.calls
    assert client.show(preset(client))["finding"] in html(at)  # the last valid state is still there


def test_a_new_stride_takes_fitting_residues_and_its_own_link(client):
    at = page("explore", key=preset(client))
    widget(at, "number_input", "pooled.window").set_value(6).run()
    widget(at, "number_input", "pooled.stride").set_value(6).run()
    assert widget(at, "number_input", "settings:.modulus").value == 12
    assert at.session_state["key"] != preset(client)
    assert "not measured yet" in html(at)
    assert "144 copies and 144 of the control, about 41\u00a0s and 1\u00a0GB" in html(at)


def test_residues_that_do_not_fit_are_told_with_a_number_that_works(client):
    at = page("explore", key=preset(client))
    widget(at, "number_input", "settings:.modulus").set_value(10).run()
    assert "must be a multiple of 4" in html(at)


def test_hidden_options_fall_back_so_that_equal_forms_have_one_key(client):
    at = page("explore", key=preset(client))
    widget(at, "button_group", "pooled.gate").set_value("mean").run()
    assert not at.exception
    assert at.session_state["key"] == preset(client, "smollm2-mean")
    assert at.metric[0].value != "–"


def test_run_shows_progress_and_the_curve_and_then_the_finding(client):
    at = page("explore", key=preset(client))
    widget(at, "number_input", "pooled.stride").set_value(2).run()
    at.button(key="run").click().run()
    key = at.session_state["key"]
    assert client.jobs[key]["status"] == "running"
    assert "Measuring" in html(at)
    assert "60 of 192 copies, about 24" in at.get("progress")[0].proto.text
    assert at.button(key="run").disabled
    assert not at.button(key="cancel").disabled
    assert '"gold"' in at.get("plotly_chart")[0].proto.spec
    client.finish(key)
    at.run()
    assert "Measuring" not in html(at)
    assert client.show(key)["finding"] in html(at)


def test_a_running_link_opens_elsewhere_and_can_be_cancelled(client):
    key = client.submit({"task": {"kind": "access_code"}, "memory": {"kind": "pooled"}}, "Mine")[
        "key"
    ]
    at = page("explore", key=key)
    assert "Measuring" in html(at)
    at.session_state[services.STOPPING] = key  # between the click and the run's end
    at.run()
    assert at.get("progress")[0].proto.text.startswith("Stopping behind its next step")
    at.button(key="cancel").click().run()
    assert client.jobs[key]["status"] == "cancelled"
    assert "cancelled after 60 of" in html(at)
    assert at.button(key="run").label == "Run again"


def test_a_failed_run_tells_its_reason(client):
    key = client.submit({"task": {"kind": "access_code"}, "memory": {"kind": "pooled"}}, "Mine")[
        "key"
    ]
    client.finish(key, "failed")
    assert "The worker was killed" in html(page("explore", key=key))


def test_a_refused_model_keeps_the_stored_result_in_sight(client):
    at = page("explore", key=preset(client))
    from engine.client import Refused
    from engine.registry import FieldError

    def refuse(values):
        raise Refused(FieldError("model.id", "is not here; pull it first"))

    client.preview = refuse
    services._preview.clear()
    at.run()
    assert "Is not here; pull it first" in html(at)
    assert client.show(preset(client))["finding"] in html(at)
    assert at.button(key="run").disabled


# ---- tabs


def test_attention_names_query_key_and_weight_and_keeps_the_cell_in_the_link(client):
    at = page("explore", key=preset(client), cq="9", ck="6")
    at.session_state["tab"] = "Attention"
    at.run()
    cell = next(b for b in html(at).split("<p ") if "data-cell" in b)
    assert "Query 9 “" in cell
    assert "key window 12 to 15 “" in cell
    assert "with weight ." in cell
    at.selectbox(key="ck").set_value(1).run()
    assert at.query_params["ck"] in ("1", ["1"])


@pytest.mark.parametrize("tab", ["Attention", "Top tokens", "Token difference"])
def test_what_a_tab_chose_is_not_taken_for_another_pages_search(client, tab):
    """A widget's key is the session's: two pages that share one would read each other's value."""
    empty = {"views": [], "deleted": [], "disk": dict.fromkeys(DISK, 0), "retention_days": None}
    client.library = lambda: {"runs": client.runs(), **empty}
    at = page("explore", key=preset(client))
    at.session_state["tab"] = tab
    at.run()
    at.query_params.clear()
    at.switch_page("app_pages/library.py").run()
    assert "could not be drawn" not in html(at)
    assert at.text_input(key="q").value == ""
    at.text_input(key="q").set_value("smol").run()
    at.query_params.clear()
    at.query_params["key"] = preset(client)
    at.switch_page("app_pages/explore.py").run()
    at.session_state["tab"] = tab
    at.run()
    assert not at.exception
    assert "could not be drawn" not in html(at)


def test_a_cell_that_does_not_exist_is_dropped(client):
    at = page("explore", key=preset(client), cq="999999", ck="x")
    at.session_state["tab"] = "Attention"
    at.run()
    assert at.selectbox(key="cq").value is None
    assert "Click a cell" in html(at)


def test_layer_scan_runs_and_fills_the_choice(client):
    at = page("explore", key=preset(client))
    at.session_state["tab"] = "Layers"
    at.run()
    assert "192 copies" in html(at)
    at.button(key="scan").click().run()
    scan = next(k for k, job in client.jobs.items() if "layer scan" in job["title"])
    assert client.specs[scan]["scan"] is True
    client.finish(scan)
    services.forget()
    at.run()
    at.button(key="use-layers").click().run()
    assert not at.exception
    assert widget(at, "text_input", "pooled.layers").value == "all but 8, 18"
    assert client.specs[at.session_state["key"]]["memory"]["layers"] == "all but 8, 18"


def test_the_full_cache_has_its_own_page_without_a_grid(client):
    at = page("explore", key=preset(client, "smollm2-full"))
    assert not at.exception
    assert "could not be drawn" not in html(at)
    assert "There is no window" in html(at).replace("there is no", "There is no")
    assert "Answered first" in at.get("plotly_chart")[1].proto.spec


def test_the_spectrum_shows_the_autocorrelation_when_asked(client):
    at = page("explore", key=preset(client))
    at.session_state["bars"] = "Autocorrelation"
    at.run()
    assert "Autocorrelation" in at.get("plotly_chart")[2].proto.spec


def test_token_difference_colours_the_strip_by_two_chosen_phases(client):
    at = page("explore", key=preset(client), tab="Token difference", a="2", b="0")
    at.session_state["tab"] = "Token difference"
    at.run()
    assert "ps-up" in html(at)
    assert "minus phase 0" in at.get("plotly_chart")[-1].proto.spec


def test_own_prompts_open_with_an_example_and_tell_errors_in_the_editor(client):
    at = page("explore", new="custom")
    area = widget(at, "text_area", "custom.text")
    assert "{{target}}" in area.value
    assert "not measured yet" in html(at)
    area.set_value("   ").run()
    assert "holds only white space" in html(at).replace("Holds", "holds")
    assert html(at).count("white space") == 1
    assert widget(at, "text_area", "custom.text").value == "   "


def test_pages_stay_below_the_figure_budget(client):
    at = page("explore", key=preset(client))
    for tab in ("", *TABS):
        if tab:
            at.session_state["tab"] = tab
            at.run()
        assert all(len(c.proto.spec) < 3_000_000 for c in at.get("plotly_chart"))


def test_learned_gates_are_not_drawn_as_weights(client, monkeypatch):
    plan = FakeClient._plan

    def learned(self, spec):
        made = plan(self, spec)
        return made | {"strip": made["strip"] | {"shares": None}}

    monkeypatch.setattr(FakeClient, "_plan", learned)
    body = html(page("explore", key=preset(client)))
    assert "Its gates are learned" in body
