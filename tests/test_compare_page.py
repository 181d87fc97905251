"""The Compare page through AppTest, with a client but no service."""

from __future__ import annotations

from pathlib import Path

import pytest
import streamlit as st
from fake_compare import FakeCompare
from streamlit.testing.v1 import AppTest

from app import services, services_compare, style
from app.compare import head
from app.news import news, opening
from engine.client import Refused
from engine.registry import FieldError

MAIN = str(Path(__file__).parent.parent / "app" / "main.py")


@pytest.fixture
def client(monkeypatch):
    fake = FakeCompare()
    st.cache_data.clear()
    st.cache_resource.clear()
    monkeypatch.setattr(services, "connect", lambda: fake)
    yield fake
    st.cache_data.clear()
    st.cache_resource.clear()


def page(**address: str) -> AppTest:
    at = AppTest.from_file(MAIN, default_timeout=60).run()
    for key, value in address.items():
        at.query_params[key] = value
    at.switch_page("app_pages/compare.py").run()
    assert not at.exception
    html(at)
    return at


def opened(drawer: str, **address: str) -> AppTest:
    """The page with one of its popovers open."""
    at = page(**address)
    at.session_state[f"c:open-{drawer}"] = True
    return at.run()


def html(at: AppTest) -> str:
    bodies = [e.proto.body for e in at.get("html")]
    told = "\n".join(b for b in bodies if not b.startswith("<style>"))
    assert "could not be drawn" not in told
    return told


def specs(at: AppTest) -> list[str]:
    return [c.proto.spec for c in at.get("plotly_chart")]


def address(at: AppTest, name: str) -> str:
    value = at.query_params.get(name, "")
    return value[0] if isinstance(value, list) and value else value or ""


def two(client: FakeCompare) -> list[str]:
    return [spec.key for _, _, spec in client.presets][:2]


@pytest.mark.parametrize("count", [2, 3, 8])
def test_runs_stand_side_by_side(client, count):
    keys = client.eight()[:count]
    at = page(runs=",".join(keys))
    body = html(at)
    assert "Uniform pooling keeps the worst phase: .57 against .25" in body
    assert "which 12 prompts do not separate" in body
    assert "baseline: full cache" in body
    assert body.count('<th scope="col"') == count + 1
    assert body.index("ps-finding") < body.index("ps-compare") < body.index("Token by token")
    assert len(specs(at)) == 3
    assert f'"xaxis{count}"' in specs(at)[0] or count == 1
    # Token rows are fetched when the strip is chosen, a grid once its popover is open.
    assert not {"tokens", "vary", "attention"} & set(client.calls)


def test_the_finding_stands_before_the_table_and_the_baseline_first(client):
    body = html(page(runs=",".join(two(client))))
    assert body.index("Full cache") < body.index("W4 S4, onehot") < body.index("W4 S4, mean")


def test_dark_has_the_other_colours(client, monkeypatch):
    from app import state

    monkeypatch.setattr(state, "theme", lambda: "dark")
    at = page(runs=",".join(two(client)))
    assert "#4FA8E0" in specs(at)[0]
    assert "#0072B2" not in "".join(specs(at))


@pytest.mark.parametrize("chart", ["curves", "residues", "spectra", "tokens", "attention"])
def test_which_chart_is_part_of_the_link(client, chart):
    at = page(runs=",".join(two(client)), chart=chart, fields="all")
    body = html(at)
    assert at.session_state["c:chart"] == chart
    assert "access code" in body  # a field that does not differ
    assert len(specs(at)) == (2 if chart == "tokens" else 3)
    if chart == "tokens":
        assert body.count("ps-strip-head") == 3
        assert "ps-down" in body
    if chart == "attention":
        assert sum('"heatmap"' in spec for spec in specs(at)) == 1


def test_layer_head_prompt_and_shift_are_part_of_the_link(client):
    where = {"layer": "7", "head": "2", "sample": "3", "shift": "5"}
    at = page(runs=",".join(two(client)), chart="attention", **where)
    for name, value in where.items():
        assert at.number_input(key=f"c:{name}").value == int(value)
    at.number_input(key="c:layer").set_value(9).run()
    assert address(at, "layer") == "9"


def test_a_run_at_work_shows_progress_and_then_its_numbers(client):
    key = client.add_sweep(status="running", memory={"window": 10, "stride": 2})
    at = page(runs=f"{two(client)[0]},{key}")
    body = html(at)
    assert "60 of 192 copies" in body
    before = len(specs(at))
    client.finish(key)
    services_compare.forget()
    at.run()
    assert "60 of 192 copies" not in html(at)
    assert len(specs(at)) == before == 3


def test_nothing_chosen_says_what_to_do_and_a_suggestion_opens(client):
    at = page()
    body = html(at)
    assert "Put memories side by side" in body
    assert body.count("ps-card") == 3
    at.button(key="compare-suggest-0").click().run()
    assert address(at, "runs") == ",".join(two(client))
    assert html(at).count('<th scope="col"') == 3


def test_a_run_is_searched_added_and_taken_away(client):
    keys = client.eight()
    at = opened("add", runs=",".join(keys[:2]))
    at.text_input(key="c:search").set_value("W6 mean").run()
    found = [b.key for b in at.button if (b.key or "").startswith("c:add-")]
    assert found == [f"c:add-{keys[3]}"]
    at.button(key=found[0]).click().run()
    assert address(at, "runs").split(",") == [*keys[:2], keys[3]]
    at.get("button_group")[0].set_value([keys[0], keys[3]]).run()
    assert address(at, "runs").split(",") == [keys[0], keys[3]]
    assert html(at).count('<th scope="col"') == 3


def test_the_baseline_is_chosen(client):
    keys = two(client)
    at = opened("straighten", runs=",".join(keys))
    at.radio(key="c:base").set_value(keys[1]).run()
    assert address(at, "base") == keys[1]
    body = html(at)
    assert body.count('<th scope="col"') == 2
    assert body.index("W4 S4, mean") < body.index("W4 S4, onehot")
    at.radio(key="c:base").set_value("").run()
    assert address(at, "base") == ""


def test_a_field_is_varied_and_the_grid_compared(client):
    at = opened("tune", runs=",".join(two(client)))
    at.text_input(key=f"c:vary-values-{two(client)[0]}-memory.window").set_value("6, 10, -3").run()
    body = html(at)
    assert "About 82\u00a0s in all" in body
    at.button(key="c:vary-go").click().run()
    assert len(client.varied) == 2
    assert address(at, "runs").split(",") == [two(client)[0], *[r["key"] for r in client.varied]]
    assert "60 of 192 copies" in html(at)


def test_each_run_has_its_addresses_for_scripts(client):
    keys = two(client)
    told = " ".join(m.value for m in page(runs=",".join(keys)).markdown)
    for key in keys:
        for address in (f"{key}.json", f"{key}/answers.csv", f"{key}/tokens.parquet"):
            assert f"/runs/{address})" in told


def test_more_values_than_stand_side_by_side_are_refused(client):
    at = opened("tune", runs=",".join(two(client)))
    at.text_input(key=f"c:vary-values-{two(client)[0]}-memory.window").set_value(
        "4,5,6,7,8,9,10,11,12"
    ).run()
    assert "9 values: at most 8 runs" in html(at)


def test_all_that_was_run_stands_there_before_the_run_that_was_varied(client):
    at = opened("tune", runs=",".join(two(client)))
    field = at.text_input(key=f"c:vary-values-{two(client)[0]}-memory.window")
    field.set_value("5,6,7,8,9,10,11,12").run()
    at.button(key="c:vary-go").click().run()
    assert address(at, "runs").split(",") == [run["key"] for run in client.varied]
    assert len(client.varied) == 8


def test_two_texts_are_told_apart_literally(client):
    body = html(page(runs=",".join(two(client)), text="worst"))
    assert "3 places differ." in body
    assert "&lt;b&gt;32&lt;/b&gt;" in body
    assert "ps-cut" in body
    assert "ps-new" in body
    body = html(page(runs=",".join(two(client)), a=two(client)[1], b=two(client)[1]))
    assert "The same tokens." in body


def test_decode_runs_compare_by_method(client):
    other = client.stored
    at = page(runs=f"{other},{two(client)[0]}", base=other, chart="timelines")
    assert "baseline: beacon 128" in html(at)
    assert at.selectbox(key="c:arm").value == "beacon 96"


def test_what_two_methods_wrote_stands_token_by_token(client):
    key = client.stored
    client.specs[key]["mode"] = "free"
    at = page(runs=key, chart="timelines", b=f"{key}.0")
    names = at.selectbox(key="c:a").options
    assert "beacon 96" in names
    assert at.selectbox(key="c:b").value == f"{key}.0"
    assert "ps-cut" in html(at)
    client.specs[key]["mode"] = "forced"
    st.cache_data.clear()
    assert not [box for box in page(runs=key, chart="timelines").selectbox if box.key == "c:a"]


def test_start_links_to_a_comparison(client):
    at = AppTest.from_file(MAIN, default_timeout=60).run()
    links = [e.proto for e in at.get("page_link")]
    (link,) = [p for p in links if p.label == "Compare them"]
    assert ",".join(two(client)) in link.query_string.replace("%2C", ",")


def test_a_missing_service_is_told(client):
    client.down = True
    assert "The engine service is not running" in html(page(runs=",".join(two(client))))


def test_a_chart_that_no_run_shares_says_so_and_draws_nothing(client, monkeypatch):
    def compare(keys, base=None, made=client.compare):
        told = made(keys, base)
        reason = "; ".join(f"{run['name']}: measured otherwise" for run in told["runs"][1:])
        told["axes"]["curve"] = {"ok": True, "reason": reason, "keys": [told["base"]]}
        return told

    monkeypatch.setattr(client, "compare", compare)
    at = page(runs=",".join(two(client)))
    body = html(at)
    assert "No run has this chart in common with the full cache" in body
    assert "measured otherwise." in body
    assert "Ribbon: 95" not in body
    assert len(specs(at)) == 2


def test_where_no_run_has_a_map_no_controls_and_no_frame_stand(client, monkeypatch):
    asked = []

    def refuse(*args, **options):
        asked.append(args)
        raise Refused(FieldError("model.id", "is a controlled model, whose attention is not here"))

    monkeypatch.setattr(client, "attention", refuse)
    at = page(runs=",".join(two(client)), chart="attention")
    body = html(at)
    assert "the model is a controlled model, whose attention is not here" in body
    assert "model.id" not in body
    assert "Layer" not in [field.label for field in at.number_input]
    assert len(specs(at)) == 2
    at.run()
    assert "the model is a controlled model" in html(at)
    assert len(asked) == 3


def test_what_is_compared_stands_there_before_it_is_compared(client, monkeypatch):
    seen = []
    monkeypatch.setattr(head, "coming", lambda keys: seen.append(keys))
    keys = two(client)
    at = page(runs=",".join(keys))
    at.run()
    assert seen == [tuple(keys)]


def test_a_view_without_a_name_is_told_at_the_name(client):
    at = page(runs=",".join(two(client)))
    at.button(key="view-save").click().run()
    at.button(key="view-save").click()  # a dialog is open while its button is pressed
    at.button(key="view-save-now").click().run()
    assert "Give the view a name." in html(at)
    assert "save_view" not in client.calls


def test_a_headline_keeps_the_names_of_memories_whole():
    told = style.html_of("finding", "W4 S4 beats W8 S8 (every 16), p = .04")
    assert "W4\u00a0S4 beats W8\u00a0S8 (every\u00a016), p\u00a0=\u00a0.04" in told
    assert "W8 S8" in style.html_of("note", "W8 S8")


def test_an_entry_of_what_is_new_ends_with_a_sentence():
    assert opening("One. Two: three. " + "x" * 300) == "One. Two: three."
    assert opening("y" * 300).endswith("…")
    assert all(not words.endswith("…") for _, words in news())
