"""Pages that meet an imported evaluation, through AppTest against a real store and service."""

from __future__ import annotations

import inprocess
import pandas as pd
import pytest
from comparing import curve, spec, store_run
from inprocess import html, opened
from test_compare_kvpress import ELSEWHERE, FOLDERS

from app import services
from app.library import chosen, foreign, rows
from app.library.table import period

WILD = "<img src=x onerror=alert(1)>"


@pytest.fixture
def engine(tmp_path):
    with inprocess.owner(tmp_path) as made:
        yield made


@pytest.fixture
def client(engine, monkeypatch):
    with inprocess.connected(engine, monkeypatch) as made:
        yield made


@pytest.fixture
def keys(client):
    return {n: client.import_kvpress(dict(f))["key"] for n, f in FOLDERS.items()}


def links(at) -> dict[str, str]:
    return {e.proto.label: e.proto.query_string or e.proto.page for e in at.get("page_link")}


def charts(at) -> int:
    return len(at.get("plotly_chart"))


# ---- the library


def test_the_library_shows_an_import_in_place(client, keys):
    at = opened("library", q=keys["knorm"])
    body = html(at)
    assert "niah_single_1" in body
    assert "Press: compression ratio" in body
    assert "SnapKVPress(compression_ratio=0.5" in body
    assert "niah_single_1, string_match" in body
    assert "No phases" in body or "no phases" in body
    assert ">.167<" in body  # two of twelve
    assert [label for label in links(at) if label.startswith("Compare with 3 runs")]
    assert "Open" not in links(at)
    assert not foreign.scores(services.run(keys["bare"]))[1:]


def test_a_chosen_import_has_no_link_to_a_page_of_phases(client, keys, monkeypatch):
    def picked(frame, order):
        return frame[frame["key"] == keys["knorm"]]

    monkeypatch.setattr("app.library.table.table", picked)
    at = opened("library")
    assert "Open" not in links(at)
    assert "niah_single_1" in html(at)
    frame = rows.frame(client.library()["runs"])
    assert {period(row) for row in frame.itertuples()} == {"–"}
    assert chosen.MOST == foreign.MOST


def test_numbers_of_an_import_are_text_and_no_markup():
    made = foreign.table(("A", "B"), [(WILD, ""), ("x", "1")])
    assert WILD not in made
    assert "&lt;img" in made
    assert foreign.metrics({"a": {"b": 50.0}, "c": None}) == [("a, b", "50"), ("c", "–")]
    assert foreign.metrics(0.25) == [("metric", ".25")]
    assert len(foreign.metrics({str(i): i for i in range(500)})) == foreign.LINES
    assert foreign.is_foreign(pd.Series({"kind": "kvpress"}))
    assert not foreign.is_foreign(None)


# ---- pages that cannot show it


@pytest.mark.parametrize("page", ["explore", "eviction"])
def test_a_page_of_phases_leads_to_the_library(client, keys, page):
    at = opened(page, key=keys["snapkv"])
    assert "computed by kvpress" in html(at)
    assert "Open it in the Library" in links(at)


def test_the_start_page_leads_to_the_library(client, keys):
    at = opened("start")
    found = [label for label in links(at) if "mean score" in label]
    assert len(found) == len(keys)
    assert not [label for label in links(at) if "worst –" in label]


# ---- compare


def test_imports_are_compared_without_charts(client, keys):
    names = ("knorm", "snapkv", "full")
    at = opened("compare", runs=",".join(keys[name] for name in names))
    body = html(at)
    assert "in the mean score against the full cache" in body
    assert "Mean score" in body
    assert "Score, niah_single_1" in body
    assert "Share removed" in body
    assert "48 questions" in body
    assert "No charts of these runs" in body
    assert ELSEWHERE.capitalize() in body
    assert "Bytes are not known" in body
    assert charts(at) == 1  # the paired differences
    assert "Token by token" not in body
    for chart in ("tokens", "attention", "timelines", "nonsense"):
        opened("compare", runs=",".join(keys[name] for name in names), chart=chart)
    alone = opened("compare", runs=keys["knorm"])
    assert "give a second run" in html(alone)


@pytest.mark.parametrize("chart", ["curves", "residues", "spectra", "tokens", "attention"])
def test_imports_among_sweeps_say_what_is_left_out(client, engine, keys, chart):
    control = store_run(engine.store, spec(0), curve(None, 0.9), asked=False, text="full")
    store_run(engine.store, spec(4, 4), curve(4, 0.2), control, text="w4s4")
    services.runs.clear()
    for base in ("", keys["knorm"]):
        runs = f"{spec(4, 4).key},{keys['knorm']}"
        at = opened("compare", runs=runs, chart=chart, base=base)
        body = html(at)
        assert "share no measure" in body
        assert "no phases" in body
        assert "Token by token" in body
        assert ">Mean<" in body


def test_a_report_of_imports_is_made(client, keys):
    from app.report import report

    one = report(client, [keys["knorm"]])
    assert "knorm" in one
    both = report(client, [keys["full"], keys["knorm"]])
    assert "in the mean score against the full cache" in both
