"""Links to the Compare page that do not fit: told in a sentence, and the rest is drawn."""

from __future__ import annotations

import pytest
from test_compare_page import client, html, page, specs, two  # noqa: F401  (client: the fixture)

from app import services_compare

# ruff: noqa: F811  (the fixture's name as an argument)


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"runs": "<b>,../../etc"}, "is no key of a run"),
        ({"base": "<b>"}, "is no key of a run; the usual one is taken"),
        ({"base": "0" * 12}, "none of the compared runs"),
        ({"fields": "<b>"}, "There is no “&lt;b&gt;” for fields here"),
        ({"chart": "pie"}, "There is no “pie” for chart here; curves is shown"),
        ({"chart": "attention", "layer": "9" * 400}, "There is no layer"),
        ({"chart": "attention", "head": "-1"}, "There is no head “-1” here"),
        ({"chart": "tokens", "sample": "1e3"}, "There is no sample “1e3” here"),
        ({"chart": "tokens", "shift": "٣"}, "There is no shift “٣” here"),
        ({"a": "zzz"}, "There is no “zzz” for a here"),
        ({"nonsense": "x" * 5000}, ""),
    ],
)
def test_what_does_not_fit_is_told_and_the_rest_is_drawn(client, bad, told):
    keys = ",".join(two(client))
    if "runs" in bad:
        bad = bad | {"runs": f"{keys},{bad['runs']}"}
    body = html(page(**({"runs": keys} | bad)))
    assert told in body
    assert "<b>,." not in body
    assert body.count('<th scope="col"') == 3


def test_too_many_and_too_long_are_cut(client):
    keys = [*client.eight(), client.add_sweep(memory={"window": 30, "stride": 2})]
    body = html(page(runs=",".join(keys)))
    assert "At most 8 runs stand side by side" in body
    assert body.count('<th scope="col"') == 9
    body = html(page(runs=",".join(two(client)) + ",a" * 4000))
    assert "The link names more than fits" in body
    assert body.count('<th scope="col"') == 3


def test_one_run_alone_stands_beside_its_control(client):
    assert html(page(runs=two(client)[0])).count('<th scope="col"') == 2
    lone = client.presets[2][2].key  # the full cache has no control
    body = html(page(runs=lone))
    assert "Alone has no control" in body or "alone has no control" in body
    assert "Put memories side by side" in body


def test_runs_of_other_kinds_say_so_and_the_rest_is_drawn(client):
    keys = [*two(client), client.stored]
    at = page(runs=",".join(keys))
    body = html(at)
    assert "beacon 128: a decode run has no phases." in body
    assert "Not paired: beacon 128." in body
    assert len(specs(at)) == 3
    at = page(runs=",".join(keys), chart="timelines")
    assert sum('"orientation":"h"' in spec for spec in specs(at)) == 1
    assert "only decode runs keep a timeline" in html(at)


def test_a_deleted_run_is_named_and_left_out(client):
    keys = client.eight()[:3]
    at = page(runs=",".join(keys))
    assert html(at).count('<th scope="col"') == 4
    client.delete(keys[2])
    services_compare.forget()
    at.run()
    body = html(at)
    assert f"({keys[2]}) is not here any more and is left out." in body
    assert "W2 S2, mean (" in body
    assert body.count('<th scope="col"') == 3
    body = html(page(runs=f"{keys[0]},{keys[1]},{'0' * 12}"))
    assert f"Run {'0' * 12} is not here any more" in body
