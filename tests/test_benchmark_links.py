"""What the Benchmark page's link holds, and what can be taken away from it, through AppTest."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from test_benchmark_page import client, html, keys, page  # noqa: F401  (client: the fixture)

# ruff: noqa: F811  (the fixture's name as an argument)


def test_the_form_is_part_of_the_link_and_is_filled_from_it(client):
    at = page()
    assert "form" not in at.query_params  # nobody has changed it
    at.selectbox(key="b:model").set_value("smollm2-135m").run()
    at.number_input(key="b:window").set_value(8).run()
    at.number_input(key="b:samples").set_value(5).run()
    at.selectbox(key="b:measured").set_value("joint").run()
    form = "".join(at.query_params["form"])
    seen = [page(form=form)]
    at.query_params.clear()
    at.switch_page("app_pages/start.py").run()
    seen.append(at.switch_page("app_pages/benchmark.py").run())
    for again in seen:
        assert again.selectbox(key="b:model").value == "smollm2-135m"
        assert again.number_input(key="b:window").value == 8
        assert again.number_input(key="b:samples").value == 5
        assert again.selectbox(key="b:measured").value == "joint"
        assert "".join(again.query_params["form"]) == form


@pytest.mark.parametrize("form", ["zzz", "0" * 12])
def test_a_form_that_is_not_known_is_told_and_a_fresh_one_drawn(client, form):
    at = page(form=form)
    assert "is none of this service" in html(at)
    assert at.number_input(key="b:samples").value == 24


def test_an_opened_member_has_a_report_and_its_addresses(client):
    at = page(open="w8s6")
    assert "report" in keys(at, "download_button")
    key = client.member("w8s6")["key"]
    assert f"/runs/{key}/answers.csv)" in " ".join(m.value for m in at.markdown)


def test_every_panel_can_be_saved(client):
    saved = keys(page(), "download_button")
    assert {"png-panel-0-w8s6", "svg-panel-0-w8s6", "csv-panel-0-w8s6"} <= saved


def test_a_training_can_be_saved(client):
    now = datetime.now(UTC).isoformat()
    lesson = {"name": "w8s8-local", "state": "running", "step": 900, "steps": 2500, "seed": 0}
    lesson |= {"curve": [[100, 4.1, 0.02], [900, 1.4, 0.62]], "cpu_seconds": 90.0, "reason": ""}
    client.lessons = [lesson | {"updated": now, "started": now}]
    assert "png-training-w8s8-local" in keys(page(), "download_button")
