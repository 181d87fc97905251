"""Writing one's own prompt: what is shown meanwhile, and what the page changes of itself."""

from __future__ import annotations

import pytest
from fake_client import FakeClient
from test_app import client, html, page, preset, widget  # noqa: F401  (client is a fixture)

from app import fields

FACT = "My flight leaves from gate {{target}}47B{{/target}}. It leaves from gate "


def fresh(client: FakeClient):  # noqa: F811
    return page("explore", new="custom")


def write(at, text: str):
    return widget(at, "text_area", "custom.text").set_value(text).run()


def answer(at, text: str):
    return widget(at, "text_input", "custom.answer").set_value(text).run()


def padding(at) -> tuple[list[str], str]:
    """What can be chosen, and what is."""
    field = next(
        w for kind in ("selectbox", "button_group") for w in at.get(kind) if "protocol" in w.key
    )
    return sorted(field.options), field.value


def test_an_invalid_form_says_that_the_page_shows_the_last_valid_prompt(client):  # noqa: F811
    at = fresh(client)
    assert "last valid prompt" not in html(at).lower()
    write(at, "No marks at all, and not the example's answer")
    body = html(at)
    assert '<span class="ps-flag">last valid prompt</span>' in body
    assert "The last valid prompt; what the form says now cannot be drawn yet." in body
    assert "Run shows whether" not in body
    answer(write(at, FACT), "47B")
    assert "last valid prompt" not in html(at).lower()


def test_a_stored_run_under_a_bad_value_is_flagged_too(client):  # noqa: F811
    at = page("explore", key=preset(client))
    widget(at, "number_input", "pooled.stride").set_value(0).run()
    assert '<span class="ps-flag">last valid prompt</span>' in html(at)


def test_padding_that_the_page_changed_is_told_and_comes_back_with_its_slot(client):  # noqa: F811
    at = fresh(client)
    assert padding(at) == (["Grid", "Lengthen"], "lengthen")
    answer(write(at, FACT), "47B")
    assert padding(at)[1] == "grid_origin"
    assert "Grid in place of Lengthen: no padding is marked." in html(at)
    write(at, "{{pad}}" + FACT)
    assert padding(at) == (["Grid", "Lengthen"], "lengthen")
    assert "in place of" not in html(at)


def test_a_grid_that_the_reader_chose_stays(client):  # noqa: F811
    at = fresh(client)
    next(w for w in at.get("button_group") if "protocol" in w.key).set_value("grid_origin").run()
    answer(write(at, FACT), "47B")
    write(at, "{{pad}}" + FACT)
    assert padding(at)[1] == "grid_origin"
    assert "in place of" not in html(at)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        (FACT, {"grid_origin"}),
        ("{{pad}}" + FACT, {"lengthen", "grid_origin"}),
        ("{{pad}}" + FACT + "{{pad}}so", {"outer", "grid_origin"}),
        ("Now {{pad}}" + FACT + "{{pad}}so", {"in_sequence", "grid_origin"}),
    ],
)
def test_paddings_are_those_that_the_service_takes(client, text, allowed):  # noqa: F811
    from engine.tasks.custom import Custom

    task = {"kind": "custom", "text": text, "answer": "47B"}
    assert fields.paddings(task) == allowed
    assert set(Custom(text=text, answer="47B").protocols()) == allowed
    assert set(fields.protocols(client.schema(), task)) == allowed


def test_files_with_other_places_for_padding_move_the_grid_alone():
    prompts = [{"text": FACT, "slots": [0]}, {"text": FACT, "slots": []}]
    assert fields.paddings({"kind": "custom", "prompts": prompts}) == {"grid_origin"}
    assert "lengthen" in fields.paddings({"kind": "custom", "prompts": prompts[:1]})


def test_the_examples_answer_leaves_with_its_text_and_ones_own_stays(client):  # noqa: F811
    at = fresh(client)
    area = widget(at, "text_area", "custom.text")
    write(at, area.value.replace("AX31", "AX32"))
    assert widget(at, "text_input", "custom.answer").value == "482915"
    write(at, FACT)
    assert widget(at, "text_input", "custom.answer").value == ""
    assert widget(at, "text_input", "custom.rivals").value == ""
    assert "what the model should continue with" in html(at)
    answer(at, "482915")
    assert widget(at, "text_input", "custom.answer").value == "482915"


def test_copies_of_the_control_are_counted_with_the_others(client, monkeypatch):  # noqa: F811
    at = page("explore", key=preset(client))
    assert "192 copies and 192 of the control, about" in html(at)
    widget(at, "number_input", "pooled.sinks").set_value(2).run()
    at.button(key="run").click().run()
    run = FakeClient.run

    def both(self, key):
        told = run(self, key)
        return told | {"progress": told["progress"] | {"total": 384}}

    monkeypatch.setattr(FakeClient, "run", both)
    at.run()
    assert "60 of 384 copies with the control's" in at.get("progress")[0].proto.text
