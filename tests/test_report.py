"""The HTML report: whole without a network, and nothing in it is read as markup."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fake_compare import FakeCompare

from app import provenance
from app.report import document, report
from app.report import material as material_of
from app.report.__main__ import main
from engine import client as engine_client
from engine.client import NotFound, Refused

ROOT = Path(__file__).parent.parent
BROWSER = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
)
HOSTILE = '</script><script>document.title="owned"</script><img src=x onerror="owned()">$x$ ]]>'


class Hostile(FakeCompare):
    """Titles, names, sentences and provenance that try to be markup."""

    def run(self, key: str) -> dict:
        shown = super().run(key)
        shown |= {"title": HOSTILE, "phrase": HOSTILE, "finding": HOSTILE, "doubt": HOSTILE}
        shown |= {"warnings": [HOSTILE]}
        shown["provenance"] = {"model": HOSTILE, "nested": {HOSTILE: HOSTILE}}
        shown["spec"] = shown["spec"] | {"note": HOSTILE}
        return shown

    def compare(self, keys: list[str], base: str | None = None) -> dict:
        told = super().compare(keys, base)
        for run in told["runs"]:
            run |= {"name": f"{run['name']} {HOSTILE}", "subtitle": HOSTILE, "title": HOSTILE}
        told |= {"finding": HOSTILE, "doubt": HOSTILE, "warnings": [HOSTILE], "adjusted": HOSTILE}
        for row in told["fields"]:
            row |= {"label": HOSTILE, "values": [HOSTILE] * len(row["values"]), "differs": True}
        return told

    def view(self, id: str) -> dict:
        keys = ",".join(spec.key for _, _, spec in self.presets[:2])
        state = {"runs": keys, "chart": "curves"}
        return {"id": id, "page": "compare", "state": state, "name": HOSTILE, "note": HOSTILE}


class Reader(HTMLParser):
    """Tags of a file outside of its scripts and styles, and what they would fetch."""

    def __init__(self, whole: str):
        super().__init__()
        self.tags: list[str] = []
        self.sources: list[str] = []
        self.handlers: list[str] = []
        self.texts: list[str] = []
        self.inside = ""
        self.feed(whole)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.inside = tag if tag in ("script", "style") else ""
        for name, value in attributes:
            if name in ("src", "href", "srcset"):
                self.sources.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if not self.inside:
            self.texts.append(data)


@pytest.fixture(scope="module")
def client():
    return FakeCompare(wild=True)


@pytest.fixture(scope="module")
def hostile():
    return Hostile(wild=True)


def figures(whole: str) -> dict:
    held = re.search(r'<script type="application/json" id="charts">(.*?)</script>', whole, re.S)
    return json.loads(held.group(1))


def test_a_sweep_has_its_finding_numbers_and_three_charts(client):
    key = client.presets[0][2].key
    whole = report(client, [key])
    shown = client.run(key)
    assert shown["finding"] in whole
    assert "Worst phase" in whole
    assert "sha256:12ab" in whole
    assert "configured 4, p &lt; .001" in whole
    assert len(figures(whole)) == 3
    assert all(chart["layout"]["template"] for chart in figures(whole).values())


def test_provenance_has_labels_and_keeps_small_errors():
    made = provenance.facts(
        {
            "self_check": {"unrotated_keys": 1.0873e-06, "window_1_stride_1": 8.4e-06, "head": 0.0},
            "libraries": {"torch": "2.13.0"},
            "peak_memory_bytes": 1261662208,
            "wall_seconds": 101.98,
            "rows_expected": {"answers": 8, "tokens": 476},
            "rows_stored": {"parts": 1},
            "origin": None,
            "source": "own",
            "spec": {"kind": "x"},
        }
    )
    assert made == [
        ("Self-check, un-rotated keys", "1.087 × 10⁻⁶"),
        ("Self-check, W = S = 1", "8.4 × 10⁻⁶"),
        ("Self-check, output head", "0"),
        ("torch", "2.13.0"),
        ("Peak memory", "1.3\u00a0GB"),
        ("Computing time", "2 min"),
        ("Rows expected", "8 answers, 476 tokens"),
        ("Rows stored", "1 part"),
        ("Where from", "computed here"),
    ]


def test_a_report_shows_the_rival_and_the_prompt(client):
    key = client.presets[0][2].key
    client.preview(client.run(key)["spec"])
    curve = figures(report(client, [key]))["chart-0"]
    assert "rival 32" in [trace.get("name") for trace in curve["data"]] or "rival 1" in [
        trace.get("name") for trace in curve["data"]
    ]
    task = {"kind": "custom", "text": "{{pad}}Gate <b>4", "answer": "4", "rivals": ["5", "6"]}
    run = client.run(key) | {"spec": {"task": task}, "residues": []}
    whole = document.document(material_of.Material([run]))
    assert "<pre>{{pad}}Gate &lt;b&gt;4</pre>" in whole
    assert "Answer 4, rivals 5, 6" in whole


def test_a_comparison_has_its_table_and_five_charts(client):
    keys = client.eight()
    whole = report(client, keys)
    assert "Uniform pooling keeps the worst phase" in whole
    assert whole.count('<th scope="col"') == 9
    assert len(figures(whole)) == 5
    for key in keys:
        assert key in whole
    assert len(whole.encode()) < 8e6


def test_a_decode_run_has_its_methods(client):
    whole = report(client, [client.stored])
    assert "beacon" in whole
    assert "Mean tokens" in whole
    assert len(figures(whole)) == 6


def test_runs_that_are_not_compared_say_why(client):
    def refuse(keys, base=None):
        raise Refused(material_of.Wrong("keys", "these do not compare"))

    class Refusing(FakeCompare):
        compare = staticmethod(refuse)

    other = Refusing()
    whole = report(other, [spec.key for _, _, spec in other.presets[:2]])
    assert "These runs are not compared: these do not compare." in whole
    assert not figures(whole)


def test_a_run_that_was_not_measured_has_a_report_too(client):
    key = client.presets[0][2].key
    run = client.run(key) | {"residues": [], "finding": None, "status": "queued"}
    whole = document.document(material_of.Material([run]))
    assert "Not measured yet" in whole
    assert "queued" in whole


def test_nothing_in_it_is_markup(hostile):
    keys = [spec.key for _, _, spec in hostile.presets[:2]]
    clean = Reader(report(FakeCompare(), keys))
    for whole in (report(hostile, keys), report(hostile, [], view="abcdef1234")):
        read = Reader(whole)
        assert read.tags.count("script") == clean.tags.count("script") == 3
        assert "onerror" not in read.handlers
        assert not read.handlers
        assert any(HOSTILE in text for text in read.texts)
    single = Reader(report(hostile, keys[:1]))
    assert single.tags.count("script") == 3
    assert not single.handlers
    decode = Reader(report(hostile, [hostile.stored]))
    assert decode.tags.count("script") == 3


def test_nothing_comes_from_outside(client):
    whole = report(client, client.eight()[:2])
    read = Reader(whole)
    assert read.sources
    assert all(source.startswith("data:") for source in read.sources)
    style = re.search(r"<style>(.*?)</style></head>", whole, re.S).group(1)
    assert "://" not in style
    assert set(re.findall(r"url\((\w+):", style)) <= {"data"}
    assert "default-src 'none'" in whole
    assert not {"link", "iframe", "base", "object"} & set(read.tags)


def test_keys_that_are_wrong_are_refused(client):
    with pytest.raises(NotFound):
        report(client, ["0" * 12])
    with pytest.raises(Refused, match="at least one"):
        report(client, [])
    with pytest.raises(Refused, match="at most 8"):
        report(client, [f"{i:012x}" for i in range(9)])


def test_the_command_writes_the_file_or_says_why(client, tmp_path, monkeypatch, capsys):
    import contextlib

    monkeypatch.setattr(engine_client, "service", lambda say: contextlib.nullcontext(client))
    keys = ",".join(client.eight()[:2])
    file = tmp_path / "r.html"
    assert main([keys, "--to", str(file)]) == 0
    assert file.read_text("utf-8").startswith("<!doctype html>")
    assert main(["0" * 12, "--to", str(file)]) == 2
    assert main(["", "--to", str(file)]) == 2
    assert "at least one run" in capsys.readouterr().err
    assert main([keys, "--to", str(tmp_path / "no" / "r.html")]) == 2


def test_export_knows_the_form():
    done = subprocess.run(
        [sys.executable, "-m", "engine", "export", "abc", "--to", "x.pdf"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "200"},
    )
    assert done.returncode == 2
    assert ".html" in done.stderr


@pytest.mark.skipif(
    BROWSER is None and not os.environ.get("PHASESCOPE_BROWSER_REQUIRED"),
    reason="no Chromium or Chrome on this machine",
)
def test_it_opens_in_a_browser_without_a_network(hostile, tmp_path):
    from playwright.sync_api import sync_playwright

    keys = [spec.key for _, _, spec in hostile.presets[:2]]
    pages = {"one": keys[:1], "two": keys}
    expected = {"one": 3, "two": 5}
    with sync_playwright() as driver:
        flags = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = driver.chromium.launch(executable_path=BROWSER, args=flags)
        context = browser.new_context(color_scheme="dark", offline=True)
        for name, asked in pages.items():
            file = tmp_path / f"{name}.html"
            file.write_text(report(hostile, asked), "utf-8")
            page = context.new_page()
            errors, asked_for = [], []
            page.on("pageerror", lambda error, seen=errors: seen.append(str(error)))
            page.on("request", lambda request, seen=asked_for: seen.append(request.url))
            page.goto(file.as_uri())
            page.wait_for_function(
                "n => document.querySelectorAll('.chart[data-drawn=yes] .main-svg').length >= n",
                arg=expected[name],
            )
            assert page.locator(".chart[data-drawn=yes]").count() == expected[name]
            assert page.title() != "owned"
            assert page.locator("img[src=x]").count() == 0
            assert not errors
            outside = [u for u in asked_for if not u.startswith(("file:", "data:", "blob:"))]
            assert not outside
            dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert dark == "rgb(20, 22, 26)"
            page.close()
        browser.close()
