"""The gate as the README shows it, and on the shipped results."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from engine import cli
from engine.kinds import read_spec
from engine.store import Store

README = (Path(__file__).resolve().parent.parent / "README.md").read_text()


def test_the_readmes_workflow_calls_the_command_as_it_is():
    import typer.main

    yaml = pytest.importorskip("yaml")
    section = README.split("## Gate a release")[1].split("\n## ")[0]
    workflow = yaml.safe_load(re.search(r"```yaml\n(.+?)```", section, re.DOTALL)[1])
    (job,) = workflow["jobs"].values()
    calls = [
        shlex.split(line)
        for step in job["steps"]
        for line in step.get("run", "").replace("\\\n", " ").splitlines()
        if "phasescope gate" in line
    ]
    assert calls
    root = typer.main.get_command(cli.app)
    for words in calls:
        made = root.commands["gate"].make_context("gate", words[2:], resilient_parsing=False)
        assert {"worst", "gap", "junit", "markdown"} <= set(made.params)
        assert made.params["junit"]


# ---- the shipped models


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "gap", "code"), [("controlled-w8s8", 0.05, 1), ("controlled-full", 0.1, 0)]
)
def test_the_shipped_results_pass_and_fail_as_they_should(preset, gap, code, tmp_path):
    """Their stored rows, which running the preset gives again."""
    from engine.analysis.gate import Limits, judge
    from engine.presets import find
    from engine.store.bundles import import_run

    about, store = find(preset), Store(tmp_path)
    try:
        made = read_spec(about.spec)
        import_run(store, about.bundle.read_bytes(), "preset")
        answers = store.answers(store.runs_of(made.key)[0].id)
    finally:
        store.close()
    options = {"modulus": 24, "stride": made.stride, "measure": "accuracy"}
    found = judge(answers, Limits(0.8, gap), **options)
    states = [condition["state"] for condition in found["conditions"]]
    assert states == (["met"] * 2 if code == 0 else ["not met"] * 2)
