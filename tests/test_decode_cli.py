"""A decode run on the command line: the same keys, tables and exit codes as a sweep."""

from __future__ import annotations

import json

import decode_runs
import live
from test_cli import call, shared, toml  # noqa: F401  (fixtures)


def spec(**changes) -> dict:
    return decode_runs.SPEC | {"model": {"id": str(live.model_folder())}} | changes


def test_a_decode_run_on_the_command_line(call, tmp_path):  # noqa: F811
    path = tmp_path / "spec.toml"
    values = spec()
    path.write_text(toml(values))
    sets = ["--set", "budgets=[72]", "--set", "task.length=410", "--set", "samples=2"]
    code, out, err = call("run", str(path), *sets, "--dry", "--json")
    assert code == 0, err
    plan = json.loads(out)
    assert (plan["spec"]["budgets"], plan["length"], plan["copies"]) == ([72], [410, 410], 6)
    code, out, _ = call("run", str(path), *sets, "--dry")
    assert code == 0
    assert "6 parts" in out
    assert "streaming" in out
    code, out, err = call("run", str(path), *sets, "--json", "--title", "from here")
    assert code == 0, err
    result = json.loads(out)
    assert (result["key"], result["status"], result["title"]) == (plan["key"], "done", "from here")
    assert "copies" not in err
    code, out, _ = call("show", result["key"])
    assert code == 0
    for word in ("nll", "recall", "beacon", "events", "kB"):
        assert word in out
    lines = out.splitlines()
    head, full, beacon = next(lines[i : i + 3] for i, x in enumerate(lines) if "removed" in x)
    assert head.split()[:4] == ["method", "budget", "kept", "removed"]
    assert [row.split()[2:4] for row in (full, beacon)] == [["1.000", "0.000"], ["0.173", "0.827"]]
    code, out, _ = call("runs", "--json")
    assert result["key"] in [run["key"] for run in json.loads(out)["runs"]]
    table = tmp_path / "rows.csv"
    for name, expected in (("steps", 0), ("nothing", 2)):
        code, _, err = call("export", result["key"], "--to", str(table), "--table", name)
        assert code == expected, err
    assert table.read_text().startswith("arm,sample,position")
    code, out, err = call("run", str(path), "--set", "budgets=[1]")
    assert (code, out) == (2, "")
    assert err.startswith("budgets[0]: ")
    code, out, err = call("tokens", result["key"])
    assert (code, out) == (2, "")


def test_a_bundle_goes_from_one_home_to_another(call, tmp_path):  # noqa: F811
    client = live.shared().client
    done = live.shared().wait(client.submit(spec())["key"])
    home, file = tmp_path / "home", tmp_path / "run.zip"
    home.mkdir()
    code, _, err = call("export", done["key"], "--to", str(file))
    assert code == 0, err
    code, out, err = call("import", str(file), "--json", home=home)
    assert code == 0, err
    assert json.loads(out) == {"key": done["key"], "added": True}
    code, out, _ = call("show", done["key"], "--json", home=home)
    there = json.loads(out)
    assert there["methods"] == done["methods"]
    assert there["finding"] == done["finding"]


def test_memories_say_which_of_them_evict(call):  # noqa: F811
    code, out, _ = call("memories")
    assert code == 0
    assert "beacon (evicts): " in out
    assert "pooled (evicts)" not in out
    code, out, _ = call("tasks")
    assert "lookback (decode): " in out


def test_one_s_own_prompts_come_from_a_file(call, tmp_path):  # noqa: F811
    path, own = tmp_path / "spec.toml", tmp_path / "own.jsonl"
    path.write_text(toml(spec(budgets=[80])))
    lines = [{"prompt": "The code is 48. " * n, "answer": "48"} for n in (20, 24)]
    own.write_text("\n".join(map(json.dumps, lines)))
    asked = ["run", str(path), "--task", "reasoning", "--prompts", str(own), "--dry", "--json"]
    code, out, err = call(*asked)
    assert code == 0, err
    plan = json.loads(out)
    assert (plan["spec"]["task"]["kind"], plan["spec"]["samples"]) == ("reasoning", 2)
    assert plan["length"][0] < plan["length"][1]
    own.write_text('{"prompt": "x"')
    code, out, err = call(*asked)
    assert (code, out) == (2, "")
    assert "line 1" in err
