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


def test_no_text_is_no_warning():
    import pandas as pd

    assert unfinished(pd.DataFrame({"ended": []}), 6) == []
