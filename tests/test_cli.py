"""The command line: one JSON object, sentences on stderr, exit codes that a script can trust."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import httpx
import live
import pytest

from engine import cli
from engine.client import Unavailable, expand, service
from engine.commands import words
from engine.commands.printing import literal
from engine.registry import SpecError
from engine.store import StoreLocked


@pytest.fixture(scope="module")
def shared():
    return live.shared()


@pytest.fixture
def call(shared, monkeypatch, capsys):
    """The command line in this process against the shared service: (exit code, stdout, stderr)."""
    before = signal.getsignal(signal.SIGTERM)

    def run(*args: str, home=shared.home) -> tuple[int, str, str]:
        monkeypatch.setenv("PHASESCOPE_HOME", str(home))
        monkeypatch.setattr(sys, "argv", ["phasescope", *args])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    yield run
    signal.signal(signal.SIGTERM, before)


def toml(spec: dict) -> str:
    """A spec as TOML, by way of JSON strings, which TOML reads alike."""
    lines = [f"{k} = {_value(v)}" for k, v in spec.items() if not isinstance(v, dict)]
    for name, table in spec.items():
        if isinstance(table, dict):
            lines.append(f"[{name}]")
            lines += [f"{k} = {_value(v)}" for k, v in table.items()]
    return "\n".join(lines)


def _value(value) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {_value(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


@pytest.fixture
def spec_file(tmp_path):
    def write(**changes) -> str:
        path = tmp_path / "spec.toml"
        path.write_text(toml(live.spec(**changes)))
        return str(path)

    return write


# ---- words


def test_help_imports_nothing_heavy():
    code = (
        "import sys, engine.cli\n"
        "heavy = {'torch', 'transformers', 'duckdb', 'pandas', 'pyarrow', 'fastapi', 'httpx'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_choice_is_a_kind_and_its_options():
    typed = {}
    found = words.choice("pooled:window=8,stride=4,layers=0-7, 9,gate=mean,beside=true", "m", typed)
    assert found == {
        "kind": "pooled",
        "window": 8,
        "stride": 4,
        "layers": "0-7, 9",
        "gate": "mean",
        "beside": True,
    }
    assert words.choice("full", "m", {}) == {"kind": "full"}
    found = words.choice('pooled:weights=[0.5, 0.5],layers="all but 1"', "m", {})
    assert found == {"kind": "pooled", "weights": [0.5, 0.5], "layers": "all but 1"}
    with pytest.raises(SpecError, match="is no option"):
        words.choice("pooled:8", "m", {})


def test_numbers_given_to_text_options_stay_text():
    typed, spec = {}, {}
    spec["memory"] = words.choice("pooled:layers=8,window=8", "memory", typed)
    words.put(spec, "task.kind=custom", typed)
    words.put(spec, "task.answer=0482", typed)
    words.put(spec, "samples=3", typed)
    words.as_text(spec, typed)
    assert spec["memory"] == {"kind": "pooled", "layers": "8", "window": 8}
    assert spec["task"] == {"kind": "custom", "answer": "0482"}
    assert spec["samples"] == 3


def test_terminal_text_is_literal():
    assert literal("a\x1b[31mb\u202ec\u200dd\x07") == "a\\x1b[31mb\\u202ec\\u200dd\\x07"
    assert literal("[bold]é中\n") == "[bold]é中\n"


@pytest.mark.parametrize("name", ["nothing", "../x", ""])
def test_an_unknown_preset_is_told(name):
    with pytest.raises(SpecError, match="no preset"):
        expand(f"preset:{name}")


# ---- bad input


BAD = [
    (["--set", "memory.stride=0"], "memory.stride"),
    (["--set", "memory.stride=four"], "memory.stride"),
    (["--set", "memory.stride=8"], "memory.stride"),
    (["--set", "modulus=10"], "modulus"),
    (["--set", "seed=inf"], "seed"),
    (["--set", "seed=1979-05-27"], "seed"),
    (["--set", "nonsense"], "set"),
    (["--set", "samples.x=1"], "samples.x"),
    (["--memory", "pooled:8"], "memory"),
    (["--memory", "poled"], "memory.kind"),
    (["--memory", "SnapKV.Original:bugdet=64"], "memory.bugdet"),
    (["--model", "/nowhere"], "model.id"),
    (["--model", "smolm2-135m"], "model.id"),
    (["--prompts", "/nowhere.jsonl"], "prompts"),
]


@pytest.mark.parametrize(("args", "field"), BAD, ids=[" ".join(a) for a, _ in BAD])
def test_bad_input_exits_2_with_a_sentence_and_keeps_nothing(call, shared, spec_file, args, field):
    before = shared.client.runs(), shared.client.jobs()
    for extra in ([], ["--json"], ["--dry"]):
        code, out, err = call("run", spec_file(), *args, *extra)
        assert (code, out) == (2, "")
        assert err.startswith(f"{field}: "), err
        assert "Traceback" not in err
    assert (shared.client.runs(), shared.client.jobs()) == before


@pytest.mark.parametrize(
    "args",
    [
        ["run", "/nowhere.toml"],
        ["run", "preset:nothing"],
        ["show", "000000000000"],
        ["show", "../../etc/passwd"],
        ["tokens", "nothing"],
        ["cancel", "nothing"],
        ["delete", "nothing"],
        ["export", "nothing", "--to", "x.docx"],
        ["export", "nothing", "--to", "/nowhere/x.zip"],
        ["import", "/nowhere.zip"],
        ["pull", "nothing"],
        ["run", "--nonsense"],
        ["frobnicate"],
    ],
    ids=" ".join,
)
def test_what_is_not_there_exits_2(call, args):
    code, out, err = call(*args)
    assert (code, out) == (2, "")
    assert err.strip()
    assert "Traceback" not in err


def test_a_file_that_is_no_toml_names_the_line(call, tmp_path):
    path = tmp_path / "x.toml"
    path.write_text("samples = 3\nmodulus = = 8\n")
    code, _, err = call("run", str(path))
    assert code == 2
    assert "line 2" in err.replace("\n", " ")


# ---- a run


def test_a_dry_run_shows_the_plan_and_runs_nothing(call, shared, spec_file):
    before = shared.client.jobs()
    code, out, _ = call("run", spec_file(first=200), "--dry", "--json")
    plan = json.loads(out)
    assert (code, plan["copies"], plan["strip"]["stride"]) == (0, 16, 4)
    code, out, _ = call("run", spec_file(first=200), "--dry")
    assert code == 0
    assert "«" in out
    assert "target_mean" in out
    assert shared.client.jobs() == before


def test_run_prints_what_show_prints(call, shared, spec_file):
    code, out, err = call("run", spec_file(first=210), "--json", "--title", "from a terminal")
    assert code == 0, err
    result = json.loads(out)
    assert out.count("\n") == 1
    assert result["status"] == "done"
    assert "done" in err
    code, out, _ = call("show", result["key"], "--json")
    assert json.loads(out) == result
    code, out, _ = call("show", result["key"])
    assert code == 0
    assert "from a terminal" in out
    assert result["finding"].split()[0] in out
    code, out, _ = call("runs", "--json")
    assert result["key"] in [run["key"] for run in json.loads(out)["runs"]]
    code, out, _ = call("tokens", result["key"], "--json", "--shift", "2")
    assert [row["position"] for row in json.loads(out)["tokens"]][:2] == [1, 2]


def test_prompts_from_a_file_are_the_samples(call, tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(json.dumps(p) for p in live.spec(3)["task"]["prompts"]) + "\n")
    model = ["--model", str(live.model_folder())]
    code, out, err = call("run", *model, "--prompts", str(path), "--dry", "--json")
    assert code == 0, err
    plan = json.loads(out)
    assert plan["spec"]["samples"] == 3
    assert plan["copies"] == 3 * plan["spec"]["modulus"]


def test_lists_of_what_there_is(call):
    for command, known in (("models", "smollm2-135m"), ("memories", "pooled"), ("tasks", "banner")):
        code, out, _ = call(command, "--json")
        assert code == 0
        assert known in json.dumps(json.loads(out)[command])
        code, out, _ = call(command)
        assert code == 0
        assert known in out


def test_ctrl_c_cancels_the_job_and_keeps_its_rows(shared, tmp_path):
    path = tmp_path / "slow.toml"
    path.write_text(toml(live.spec(samples=40, first=300, batch=1)))
    command = [sys.executable, "-m", "engine", "run", str(path), "--json"]
    process = subprocess.Popen(
        command,
        cwd=live.ROOT,
        env=shared.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=live.heed_interrupts,
    )
    key = None
    deadline = time.monotonic() + 120
    while key is None and time.monotonic() < deadline:
        time.sleep(0.05)
        running = [job["key"] for job in shared.client.jobs() if job["state"] == "running"]
        key = running[0] if running else None
    shared.wait_for_rows(key)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert json.loads(out)["status"] == "cancelled"
    assert b"Traceback" not in err
    assert 0 < len(shared.client.answers(key)) < 320
    shared.client.delete(key)


def test_without_a_service_the_command_computes_alone_and_the_same_bytes(
    call, shared, spec_file, tmp_path
):
    """A fresh home and a fresh process give the bytes that the warm service gave."""
    alone = live.Live(tmp_path / "home")
    spec = spec_file(first=220)
    done = alone.cli("run", spec, "--json")
    assert done.returncode == 0, done.stderr
    key = json.loads(done.stdout)["key"]
    assert call("run", spec, "--json")[0] == 0
    for table in ("answers", "tokens"):
        here, there = tmp_path / f"here-{table}.parquet", tmp_path / f"there-{table}.parquet"
        code, _, err = call("export", key, "--to", str(here), "--table", table)
        assert code == 0, err
        code, _, err = call("export", key, "--to", str(there), "--table", table, home=alone.home)
        assert code == 0, err
        assert here.read_bytes() == there.read_bytes()


def test_a_bundle_goes_from_one_home_to_another(call, shared, spec_file, tmp_path):
    key = json.loads(call("run", spec_file(first=210), "--json")[1])["key"]
    bundle = tmp_path / "run.zip"
    assert call("export", key, "--to", str(bundle))[0] == 0
    other = tmp_path / "home"
    for added in (True, False):
        code, out, err = call("import", str(bundle), "--json", home=other)
        assert json.loads(out) == {"key": key, "added": added}, err
    here = json.loads(call("show", key, "--json")[1])
    there = json.loads(call("show", key, "--json", home=other)[1])
    same = set(here) - {"provenance", "created", "stale"}
    assert {n: here[n] for n in same} == {n: there[n] for n in same}
    assert there["provenance"]["source"] == "import"
    bundle.write_bytes(bundle.read_bytes().replace(b"run.json", b"ran.json"))
    code, out, err = call("import", str(bundle))
    assert (code, out) == (2, "")
    assert "nothing was imported" in err.replace("\n", " ")


def test_data_that_another_process_holds_is_waited_for_then_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PHASESCOPE_HOME", str(tmp_path))
    code = (
        "import sys; from engine.store import Store\n"
        "store = Store(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=live.ROOT,
    )
    try:
        assert holder.stdout.readline() == b"open\n"
        said = []
        with pytest.raises(StoreLocked) as locked, service(said.append, patience=0.5):
            pass
        assert len(said) == 1
        assert "waiting" in said[0]
        assert cli.tell(locked.value) == 3
        assert cli.tell(Unavailable("gone")) == 3
    finally:
        holder.communicate(b"")
    with service(said.append, patience=0.5) as client:
        assert all(run["preset"] for run in client.runs())


@pytest.mark.slow
def test_dash_serves_both_and_stops_both(tmp_path):
    """The usual port may be taken, as here: the address that is printed is the one that works."""
    taken = socket.socket()
    try:
        taken.bind(("127.0.0.1", 8501))
        taken.listen()
    except OSError:
        taken.close()  # somebody else has it: as good
    alone = live.Live(tmp_path / "home")
    process = subprocess.Popen(
        [sys.executable, "-m", "engine", "dash"],
        cwd=live.ROOT,
        env=alone.env,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=live.heed_interrupts,
    )
    try:
        said = (re.search(r"Phasescope is at (http://127\.0\.0\.1:\d+)", t) for t in process.stderr)
        url = next(found[1] for found in said if found)
        assert not url.endswith(":8501")
        assert httpx.get(url, trust_env=False).status_code == 200
        address = alone.address()
        health = httpx.get(
            f"{address.url}/health",
            headers={"authorization": f"Bearer {address.token}"},
            trust_env=False,
        )
        assert health.status_code == 200
        process.send_signal(signal.SIGINT)
        process.stderr.read()
        assert process.wait(timeout=60) == 0
        assert alone.address() is None
        assert not os.path.exists(f"/proc/{address.pid}")
        with pytest.raises(httpx.TransportError):
            httpx.get(url, trust_env=False)
    finally:
        process.kill()
        taken.close()
