"""What a decode run's report says of the texts that are stored with it."""

from __future__ import annotations

import decode_runs
import pytest

from engine.analysis.eviction_warnings import unfinished
from engine.eviction.prompts.reasoning import Reasoning
from engine.results import Results
from engine.store import Store

LINE = {"prompt": "How many legs have two dogs?", "answer": "8"}
GIVEN = LINE | {"continuation": "Four each."}


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path)
    yield opened
    opened.close()


def told(store, *prompts, ended=("cap", "cap", "cap"), **changes):
    """The warnings on texts of a run, whose full cache's ended so."""
    task = {"task": {"kind": "reasoning", "prompts": list(prompts)}} if prompts else {}
    run = decode_runs.fill(store, decode_runs.make(**task, **changes))
    for sample, end in enumerate(ended):
        store._connection.execute(
            "update decode_texts set ended = ? where run = ? and sample = ?", [end, run, sample]
        )
    warnings = Results(store).report(store.run(run))["warnings"]
    return [text for text in warnings if "still going on" in text]


@pytest.mark.parametrize(
    ("ended", "says"),
    [
        (("cap", "stop", "cap"), ["2 of 3 texts were still going on at the cap of 6 tokens"]),
        (("stop", "stop", "cap"), ["1 of 3 texts was still going on at the cap of 6 tokens"]),
        (("stop", "stop", "stop"), []),
    ],
)
def test_texts_that_were_cut_off_are_counted(store, monkeypatch, ended, says):
    monkeypatch.setattr(Reasoning, "stops", True, raising=False)
    found = told(store, LINE, LINE, LINE, ended=ended)
    assert [text.split(";")[0] for text in found] == says


def test_a_text_that_cannot_end_or_was_given_is_not_counted(store, monkeypatch):
    monkeypatch.setattr(Reasoning, "stops", True, raising=False)
    assert told(store) == []  # made-up prompts have as many tokens as the run has steps
    (found,) = told(store, GIVEN, LINE, GIVEN)
    assert found.startswith("1 of 1 texts")
    assert told(store, GIVEN, GIVEN, GIVEN) == []


TASK = decode_runs.SPEC["task"] | {"given": True, "continuation": 16, "repeated": "all"}


def own(*prompts):
    return {"kind": "reasoning", "prompts": list(prompts)}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, None),
        ({"task": own(LINE, LINE)}, None),
        ({"task": TASK}, "The continuation is the task's own, not the full cache's."),
        (
            {"task": own(GIVEN, GIVEN, GIVEN)},
            "The continuation is the user's own, not the full cache's.",
        ),
        (
            {"task": own(GIVEN, LINE, GIVEN)},
            "In 2 of 3 prompts the continuation is the user's own, not the full cache's.",
        ),
        (
            {"task": TASK, "mode": "free"},
            "The full cache read the task's own continuation and wrote none.",
        ),
    ],
)
def test_a_continuation_that_the_full_cache_did_not_write_is_told_last(store, changes, says):
    run = decode_runs.fill(store, decode_runs.make(**changes))
    doubt = Results(store).report(store.run(run))["doubt"]
    assert "Scores are of 3 prompts" in doubt or "Scores are of 2 prompts" in doubt
    if says is None:
        assert "continuation" not in doubt
    else:
        assert doubt.endswith(f" {says}")
        assert doubt.count(". ") >= 2  # behind the two sentences that a page shows


def test_no_text_is_no_warning():
    import pandas as pd

    assert unfinished(pd.DataFrame({"ended": []}), 6) == []
