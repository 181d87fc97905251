"""Saved views on the command line: out as a bundle or a report, and in again with their ids."""

from __future__ import annotations

import contextlib
import json
import sys
from types import SimpleNamespace

import inprocess
import pytest
from rich.console import Console
from test_views import add_run

from app.report.__main__ import main as report
from engine import cli
from engine import client as service
from engine.commands import look, printing, shown
from engine.store.bundles import read_bundle


@pytest.fixture
def call(monkeypatch, capsys):
    """The command line over a service in this process: (exit code, stdout, stderr)."""

    def run(client, *args: str) -> tuple[int, str, str]:
        given = lambda say=None: contextlib.nullcontext(client)  # noqa: E731
        monkeypatch.setattr(look, "ask", given)
        monkeypatch.setattr(service, "service", given)
        monkeypatch.setattr(look.subprocess, "run", in_process)
        monkeypatch.setattr(sys, "argv", ["phasescope", *map(str, args)])
        monkeypatch.setattr(cli.signal, "signal", lambda *of: None)
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    return run


def in_process(command: list[str], **options) -> SimpleNamespace:
    code = report(command[command.index("app.report") + 1 :])
    return SimpleNamespace(returncode=code, stderr="told elsewhere")


@pytest.fixture
def here(tmp_path):
    (tmp_path / "here").mkdir()
    with inprocess.owner(tmp_path / "here") as engine:
        yield inprocess.InProcess(engine), engine


def saved(client, *keys: str) -> str:
    words = {"note": "Mind the <second> phase", "tags": ["stride"]}
    return client.save_view("compare", {"runs": ",".join(keys)}, "Two strides", **words)["id"]


def test_a_view_goes_out_with_its_runs_and_comes_in_with_its_id(call, here, tmp_path):
    client, engine = here
    keys, file = [add_run(engine), add_run(engine, seed=1)], tmp_path / "v.zip"
    gone = "0" * 12
    id = saved(client, keys[0], gone, keys[1])
    code, out, err = call(client, "export", id, "--to", file)
    assert (code, str(file) in out.replace("\n", "")) == (0, True), err
    assert "without 1 of its runs" in err
    found = read_bundle(file.read_bytes())
    assert [found.parts[own].about["key"] for own, _ in found.runs] == keys
    assert (found.view["name"], found.view["tags"]) == ("Two strides", ["stride"])
    (tmp_path / "there").mkdir()
    with inprocess.owner(tmp_path / "there") as other:
        there = inprocess.InProcess(other)
        code, out, err = call(there, "import", file)
        assert code == 0, err
        assert f"view {id}: Two strides, of compare" in out
        assert there.view(id)["note"] == "Mind the <second> phase"
        code, out, _ = call(there, "import", file, "--json")
        assert json.loads(out)["view"]["id"] == id


def test_a_view_s_report_has_its_name_and_note(call, here, tmp_path):
    client, engine = here
    id, file = saved(client, add_run(engine)), tmp_path / "v.html"
    code, _, err = call(client, "export", id, "--to", file)
    assert code == 0, err
    page = file.read_text("utf-8")
    assert "Two strides" in page
    assert "Mind the &lt;second&gt; phase" in page


def test_a_view_is_no_run(call, here, tmp_path):
    client, _ = here
    id = saved(client, "0" * 12)
    for view, name, why in (
        (id, "v.csv", "must end in .zip or .html"),
        (id, "v.zip", "shows no run"),
        ("0" * 10, "v.zip", "no view"),
    ):
        code, out, err = call(client, "export", view, "--to", tmp_path / name)
        assert (code, out) == (2, "")
        assert why in " ".join(err.split())


def test_the_list_of_runs_keeps_keys_whole_and_tells_folded_numbers(monkeypatch, capsys):
    monkeypatch.setattr(printing, "out", Console(width=80))
    monkeypatch.setattr(shown, "print_table", printing.print_table)
    words = "pooled W4 S4, one-hot 0, streamed"
    run = {"key": "d5ca20c9eb85", "title": f"access code, {words}", "phrase": words}
    run |= {"model": "smollm2-135m", "task": "access_code", "status": "done", "stale": False}
    run |= {"preset": False, "mean": 0.5, "worst": 0.005, "gap": 0.057, "period": 4}
    shown.lines([run | {"worst_folded": 0.009, "folded_gap": 0.043}])
    told = capsys.readouterr().out
    assert "d5ca20c9eb85" in told
    assert "0.009" in told
    assert "0.043" in told
    assert "0.057" not in told
    shown.lines([run | {"worst_folded": None}])
    assert "0.005" in capsys.readouterr().out
