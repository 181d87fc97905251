"""`phasescope gate`: exit codes that CI can trust, files that CI reads, refusals in sentences."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sys
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import decode_runs
import live
import made_rows
import numpy as np
import pyarrow as pa
import pytest
from planted import rows
from test_cli import toml

from engine import cli
from engine.commands import gate as command
from engine.commands import gate_files
from engine.kinds import read_spec
from engine.registry import SpecError
from engine.rows import ANSWERS
from engine.specs import SweepSpec
from engine.store import Store
from engine.version import run_version

README = (Path(__file__).resolve().parent.parent / "README.md").read_text()
TITLE = "A & B <i>|`x`</i> ]]> \x1b[31m\ud7ff"
N = 96


def spec(**changes) -> SweepSpec:
    return SweepSpec.from_dict(made_rows.SPEC | {"samples": N, "measure": "accuracy"} | changes)


def store_run(store: Store, made: SweepSpec, worst: float, **changes) -> str:
    """A finished run of N prompts at eight residues; phase 1 of 4 is right in a share of them."""
    probs = np.full((N, 8), 0.9)
    probs[: round(N * (1 - worst)), 1::4] = 0.1
    frame = rows(probs)
    store.remember(made)
    code = changes.pop("code", run_version(made.model))
    run = store.open_run(made.key, code, asked=True, title=TITLE)
    store.add(run.id, pa.Table.from_pandas(frame, ANSWERS, preserve_index=False), None)
    values = {"status": "done", "copies": 8 * N, "answers_expected": 8 * N, "tokens_expected": 0}
    store.change(run.id, **values | {"noise_floor": 0.0, "provenance": {}} | changes)
    return made.key


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("gate-home")


@pytest.fixture(scope="module")
def keys(home):
    """Names → keys of stored runs."""
    store = Store(home)
    try:
        found = {
            "good": store_run(store, spec(), 1.0),
            "bad": store_run(store, spec(seed=1), 0.4),
            "close": store_run(store, spec(seed=2), 0.85),
            "old": store_run(store, spec(seed=3), 1.0, code="0123456789ab"),
            "half": store_run(store, spec(seed=4), 1.0, status="cancelled", reason="by you"),
            "shipped": store_run(store, spec(seed=5), 1.0),
            "brought": store_run(store, spec(seed=6), 1.0, origin={"file": "theirs.zip"}),
        }
        for name, source in (("shipped", "preset"), ("brought", "import")):
            run = store.runs_of(found[name])[0].id
            with store.writing() as cursor:
                cursor.execute("update runs set source = ? where id = ?", [source, run])
        decode = decode_runs.make()
        store.remember(decode)
        run = store.open_run(decode.key, "0123456789ab", asked=True, kind="decode")
        store.change(run.id, status="done", answers_expected=1)
        pair = spec(task={"kind": "document_pair"}, protocol="pair", samples=2, modulus=2)
        store.remember(pair)
        store.open_run(pair.key, "0123456789ab", asked=True)
        found |= {"decode": decode.key, "pair": pair.key}
    finally:
        store.close()
    return found


@pytest.fixture(scope="module")
def service(home, keys):
    started = live.Live(home).start()
    yield started
    started.client.close()
    started.stop()


@pytest.fixture
def call(service, monkeypatch, capsys):
    """The command line in this process against that service: (exit code, stdout, stderr)."""
    before = signal.getsignal(signal.SIGTERM)

    def run(*args: str) -> tuple[int, str, str]:
        monkeypatch.setenv("PHASESCOPE_HOME", str(service.home))
        monkeypatch.setattr(sys, "argv", ["phasescope", "gate", *map(str, args)])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    yield run
    signal.signal(signal.SIGTERM, before)


# ---- verdicts


@pytest.mark.parametrize(
    ("name", "args", "code", "states"),
    [
        ("good", ["--worst", "0.9"], 0, ["met"]),
        ("good", ["--worst", "0.9", "--gap", "0.1", "--mean", "0.95"], 0, ["met"] * 3),
        ("bad", ["--worst", "0.9", "--gap", "0.1"], 1, ["not met"] * 2),
        ("bad", ["--mean", "0.7", "--worst", "0.9"], 1, ["not met", "met"]),
        ("bad", ["--mean", "0.7", "--worst", "0.9", "--lenient"], 1, ["not met", "met"]),
        ("close", ["--worst", "0.82"], 1, ["undecided"]),
        ("close", ["--worst", "0.82", "--lenient"], 0, ["undecided"]),
        ("close", ["--worst", "0.82", "--alpha", "0.6"], 0, ["met"]),
        ("close", ["--gap", "1", "--worst", "0", "--mean", "0"], 0, ["met"] * 3),
    ],
)
def test_exit_codes_follow_the_intervals(call, keys, name, args, code, states):
    found, out, err = call(keys[name], *args, "--json")
    assert found == code, err
    assert out.count("\n") == 1
    made = json.loads(out)
    assert [condition["state"] for condition in made["conditions"]] == states
    assert made["passed"] == (code == 0)
    assert (made["key"], made["n_samples"], made["by"]) == (keys[name], N, "phase")
    assert [phase["n"] for phase in made["phases"]] == [2 * N] * 4


def test_the_table_has_the_numbers_and_stays_literal(call, keys):
    code, out, _ = call(keys["bad"], "--worst", "0.8", "--gap", "0.05", "--mean", "0.8")
    text = " ".join(out.split())
    assert code == 1
    assert "\x1b" not in out
    for word in ("worst phase (1)", "gap less chance", "at least .80", "not met", "192", ".396"):
        assert word in text
    assert text.endswith("gate: not met")
    code, out, _ = call(keys["close"], "--worst", "0.82")
    assert "would show it" in " ".join(out.split())
    assert "taken as not met" in out


def test_the_service_and_its_client_answer_alike(service, keys):
    made = service.client.gate(keys["bad"], worst=0.8, gap=0.05, alpha=0.01)
    assert (made["state"], made["alpha"]) == ("not met", 0.01)
    assert made["source"] == "own"
    assert not made["stale"]
    assert (
        service.client.gate(keys["bad"], worst=0.8)["conditions"][0]["high"]
        < (made["conditions"][0]["high"])
    )
    assert service.client.gate(keys["old"], worst=0.8)["stale"]


def test_an_imported_run_is_evidence_only_where_that_is_said(call, keys):
    code, out, err = call(keys["brought"], "--worst", "0.9")
    assert (code, out) == (2, "")
    assert "was imported from theirs.zip" in " ".join(err.split())
    assert "--imported accepts it" in " ".join(err.split())
    code, out, err = call(keys["brought"], "--worst", "0.9", "--imported", "--json")
    assert code == 0, err
    assert "imported from theirs.zip" in json.loads(out)["notes"][-1]
    assert call(keys["shipped"], "--worst", "0.9", "--imported")[0] == 2


# ---- refusals


@pytest.mark.parametrize(
    ("args", "field"),
    [
        (["--worst", "1.2"], "worst"),
        (["--gap", "-0.1"], "gap"),
        (["--mean", "nan"], "mean"),
        (["--worst", "0.8", "--alpha", "0"], "alpha"),
        (["--worst", "0.8", "--alpha", "1"], "alpha"),
        ([], "gate"),
        (["--worst", "0.8", "--set", "samples=4"], "set"),
        (["--worst", "0.8", "--junit", "/nowhere/gate.xml"], "junit"),
        (["--worst", "0.8", "--markdown", "/"], "markdown"),
    ],
    ids=" ".join,
)
def test_bad_input_exits_2_with_a_sentence(call, keys, args, field):
    code, out, err = call(keys["good"], *args)
    assert (code, out) == (2, "")
    assert err.startswith(f"{field}: "), err


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("half", "cancelled (by you)"),
        ("old", "other code or weights"),
        ("shipped", "came with a preset"),
        ("decode", "not defined yet"),
        ("pair", "no phases"),
    ],
)
def test_a_stored_run_that_is_no_evidence_is_refused(call, keys, tmp_path, name, told):
    file = tmp_path / "gate.xml"
    code, out, err = call(keys[name], "--worst", "0.8", "--junit", file, "--json")
    assert (code, out) == (2, "")
    assert told in " ".join(err.split())
    assert not file.exists()


@pytest.mark.parametrize("source", ["000000000000", "/nowhere.toml", "preset:nothing", "nonsense"])
def test_what_is_not_there_exits_2(call, source):
    code, out, err = call(source, "--worst", "0.8")
    assert (code, out) == (2, "")
    assert err.strip()
    assert "Traceback" not in err


def test_the_service_refuses_in_the_same_words(service, keys):
    for options, field in (
        ({}, "gate"),
        ({"worst": 7}, "worst"),
        ({"gap": 1, "alpha": 2}, "alpha"),
    ):
        with pytest.raises(SpecError) as refused:
            service.client.gate(keys["good"], **options)
        assert refused.value.errors[0].field == field


def test_specs_without_phases_are_refused_before_they_run(call, service, tmp_path):
    before = service.client.jobs()
    file = tmp_path / "decode.toml"
    values = {name: value for name, value in decode_runs.SPEC.items() if name != "methods"}
    file.write_text(toml(values) + '\n[[methods]]\nkind = "beacon"\n')
    assert read_spec(tomllib.loads(file.read_text())).kind == "decode"
    for source, told in ((str(file), "not defined yet"), ("preset:document-pair", "no phases")):
        code, out, err = call(source, "--worst", "0.8")
        assert (code, out) == (2, "")
        assert told in " ".join(err.split())
    assert service.client.jobs() == before


# ---- a run


def test_a_spec_is_run_then_judged_and_its_rows_are_reused(call, service, tmp_path):
    file = tmp_path / "spec.toml"
    file.write_text(toml(live.spec(samples=2, first=400)))
    code, out, err = call(str(file), "--worst", "0.99", "--set", "seed=3", "--json")
    made = json.loads(out)
    assert code == 1, err
    assert (made["source"], made["stale"], made["n_samples"]) == ("own", False, 2)
    code, out, err = call(str(file), "--mean", "0", "--set", "seed=3", "--json")
    assert code == 0
    again = json.loads(out)
    assert again["phases"] == made["phases"]
    code, out, _ = call(made["key"], "--mean", "0", "--json")
    assert (code, json.loads(out)) == (0, again)


class Failing:
    """A service whose run fails."""

    def submit(self, spec, title):
        return {"key": "abcdefabcdef", "job": 1}

    def job(self, id):
        return {"state": "failed", "progress": {"done": 0, "total": 0, "seconds_left": None}}

    def run(self, key):
        return {"key": key, "title": TITLE, "status": "failed", "reason": "no <memory>", "n": 3}


def test_a_run_that_fails_exits_3_and_leaves_no_old_verdict(call, monkeypatch, tmp_path):
    monkeypatch.setattr(command, "ask", lambda: contextlib.nullcontext(Failing()))
    monkeypatch.setattr(command, "fetch_missing", lambda spec: None)
    xml, page = tmp_path / "gate.xml", tmp_path / "gate.md"
    xml.write_text("<testsuites/>")
    files = ["--junit", xml, "--markdown", page]
    code, out, err = call("preset:controlled-w8s8", "--worst", "0.8", *files, "--json")
    assert code == 3
    assert "abcdefabcdef is failed: no <memory>" in err
    made = json.loads(out)
    assert (made["status"], made["passed"]) == ("failed", False)
    suite = check_junit(xml.read_text())
    assert suite.attrib["errors"] == "1"
    assert "no <memory>" in suite.find("testcase/error").attrib["message"]
    assert "the run failed" in page.read_text()
    assert call("preset:controlled-w8s8", "--worst", "0.8")[:2] == (3, "")


# ---- files


def check_junit(text: str) -> ET.Element:
    """The one suite, if elements and attributes are those of Ant's schema in its order."""
    root = ET.fromstring(text)
    assert (root.tag, root.attrib) == ("testsuites", {})
    (suite,) = root
    counts = {"tests", "failures", "errors", "skipped"}
    named = {"name", "package", "id", "timestamp", "hostname", "time"}
    assert set(suite.attrib) == counts | named
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
    assert float(suite.attrib["time"]) >= 0
    cases = suite.findall("testcase")
    tags = ["properties", *["testcase"] * len(cases), "system-out", "system-err"]
    assert [child.tag for child in suite] == tags
    for one in suite.find("properties"):
        assert (one.tag, set(one.attrib)) == ("property", {"name", "value"})
    for case in cases:
        assert set(case.attrib) == {"name", "classname", "time"}
        assert len(case) <= 1
        for child in case:
            assert child.tag in ("failure", "error", "skipped")
            allowed = {"message"} if child.tag == "skipped" else {"message", "type"}
            assert set(child.attrib) == allowed
    found = {
        "tests": len(cases),
        **{f"{tag}s": len(suite.findall(f"testcase/{tag}")) for tag in ("failure", "error")},
        "skipped": len(suite.findall("testcase/skipped")),
    }
    assert {name: int(suite.attrib[name]) for name in counts} == found
    return suite


def test_junit_has_one_case_a_condition_with_its_numbers(call, keys, tmp_path):
    file = tmp_path / "gate.xml"
    code, _, _ = call(
        keys["bad"], "--worst", "0.8", "--gap", "0.05", "--mean", "0.7", "--junit", file
    )
    assert code == 1
    suite = check_junit(file.read_text())
    assert [case.attrib["name"] for case in suite.findall("testcase")] == ["worst", "gap", "mean"]
    worst, gap, mean = suite.findall("testcase")
    failure = worst.find("failure")
    assert failure.attrib["type"] == "not met"
    assert failure.text == failure.attrib["message"]
    for number in (".396", "at least .80", "95 % interval ."):
        assert number in failure.text
    assert gap.find("failure") is not None
    assert len(mean) == 0
    properties = {p.attrib["name"]: p.attrib["value"] for p in suite.find("properties")}
    assert properties["title"] == TITLE.replace("\x1b", "\ufffd")
    assert properties["n_samples"] == str(N)
    assert "phase 1: .396" in suite.find("system-out").text


@pytest.mark.parametrize(("lenient", "tag"), [([], "failure"), (["--lenient"], "skipped")])
def test_an_undecided_condition_fails_unless_that_is_waived(call, keys, tmp_path, lenient, tag):
    file = tmp_path / "gate.xml"
    call(keys["close"], "--worst", "0.82", "--junit", file, *lenient)
    (case,) = check_junit(file.read_text()).findall("testcase")
    (told,) = case
    assert told.tag == tag
    assert "undecided with 96 prompts, about" in told.attrib["message"]


def test_markdown_is_a_table_that_obeys_no_title(call, keys, tmp_path, monkeypatch):
    file = tmp_path / "gate.md"
    for _ in range(2):
        call(keys["bad"], "--worst", "0.8", "--mean", "0.7", "--markdown", file)
    text = file.read_text()
    assert text.count("## Phasescope gate: not met") == 1
    assert "<i>" not in text
    assert r"A & B" not in text
    assert r"A &amp; B &lt;i&gt;\|\`x\`&lt;/i&gt; \]\]&gt;" in text
    cells = [line.split(" | ") for line in text.splitlines() if line.startswith("| worst")]
    assert [len(line) for line in cells] == [len(gate_files.COLUMNS)]
    assert "**not met**" in cells[0][-1]
    assert "**met**" in text
    assert len([line for line in text.splitlines() if re.match(r"\| \d \| 192 \|", line)]) == 4
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    call(keys["good"], "--worst", "0.8", "--markdown", file)
    assert file.read_text().startswith(text)
    assert "## Phasescope gate: met" in file.read_text()
