"""What the command line refuses only when it has looked: exit code 2 and one sentence."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import live
import pytest
import tiny

import engine.tasks  # noqa: F401  (fills the registry)
from engine.commands import sweeps, words
from engine.registry import TASKS, SpecError


@pytest.fixture(scope="module")
def shared():
    return live.shared()


@pytest.mark.parametrize(("config", "queued"), [("Gemma2Config", 0), ("GlmConfig", 1)])
def test_a_model_that_cannot_be_read_exits_2(shared, tmp_path, config, queued):
    """By its config alone nothing is queued; what only the weights tell ends the job at once."""
    tiny.make_other(tmp_path / "model", config)
    spec = live.spec(first=230, model={"id": str(tmp_path / "model")})
    before = len(shared.client.jobs())
    done = shared.cli("run", _written(tmp_path, spec))
    assert (done.returncode, len(shared.client.jobs()) - before) == (2, queued)
    assert "model.id: " in done.stderr
    assert "cannot be measured: " in done.stderr.replace("\n", " ")


def test_tokens_of_a_copy_that_is_not_there_exit_2(shared, tmp_path):
    done = shared.cli("run", _written(tmp_path, live.spec(first=240)), "--json")
    key = json.loads(done.stdout)["key"]
    for option, value, last in (("sample", 2, 1), ("sample", -1, 1), ("shift", 8, 7)):
        found = shared.cli("tokens", key, f"--{option}={value}")
        assert (found.returncode, found.stdout) == (2, "")
        assert found.stderr.strip() == f"{option}: must be from 0 to {last}, not {value}"
    assert shared.cli("tokens", key, "--sample=1", "--shift=7").returncode == 0


def test_prompts_and_another_task_are_not_both_read(tmp_path):
    """One of the two would be dropped without a word."""
    path = tmp_path / "own.jsonl"
    path.write_text('{"text": "{{pad}} It is {{target}}4{{/target}}. It is ", "answer": "4"}')
    with pytest.raises(SpecError, match="is banner, but --prompts are read by custom"):
        sweeps.make_spec("", [], "", "", "banner:base=16", path)
    found = sweeps.make_spec("", [], "", "", "custom:chat=true", path)["task"]
    assert (found["kind"], len(found["prompts"])) == ("custom", 1)


def test_the_task_in_the_help_is_one():
    text = inspect.getsource(sweeps.run)
    task = re.search(r"access_code, or ([a-z]+:[a-z]+=[0-9]+)", text)[1]
    assert TASKS.build(words.choice(task, "task", {})).base == 16


def _written(folder: Path, spec: dict) -> str:
    """The spec as TOML, by way of JSON, whose strings, numbers and lists TOML reads alike."""
    prompts = [
        "{" + ", ".join(f"{k} = {json.dumps(v)}" for k, v in p.items()) + "}"
        for p in spec["task"].pop("prompts")
    ]
    lines = [f"{k} = {json.dumps(v)}" for k, v in spec.items() if not isinstance(v, dict)]
    for name in ("model", "memory", "task"):
        lines += [f"[{name}]", *(f"{k} = {json.dumps(v)}" for k, v in spec[name].items())]
    path = folder / "spec.toml"
    path.write_text("\n".join([*lines, f"prompts = [{', '.join(prompts)}]"]))
    return str(path)
