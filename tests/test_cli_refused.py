"""What the command line refuses only when it has looked: exit code 2 and one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import live
import pytest
import tiny


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
