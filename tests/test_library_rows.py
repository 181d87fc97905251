"""Rows of the library, without a page: in order, narrowed, counted and named."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pandas as pd

from app.library import rows, table
from app.sharing import split
from engine.titles import titled


def line(**changes) -> dict:
    return {
        "key": "ab" * 8, "kind": "sweep", "title": "One", "phrase": "pooled W4 S4", "model": "m",
        "task": "access_code", "status": "done", "created": "2026-11-29T12:00:00Z",
        "stale": False, "source": "own", "stride": 4, "worst": 0.3, "gap": 0.4, "period": 4,
        "curve": [0.2, 0.8], "control_curve": [], "finding": "f", "tags": [], "note": "",
        "rows": 10, "views": 0,
    } | changes  # fmt: skip


def test_runs_without_a_number_stand_last_in_any_order():
    frame = rows.frame([line(title="b", gap=None), line(title="a", gap=0.1), line(title="c")])
    assert list(rows.ordered(frame, "Largest gap")["name"]) == ["c", "a", "b"]
    assert list(rows.ordered(frame, "Name")["name"]) == ["a", "b", "c"]
    assert len(rows.ordered(frame, "no such order")) == 3


def test_kinds_models_tags_and_dates_narrow():
    runs = [
        line(task="custom"),
        line(kind="decode", model="x", phrase="rkv and snapkv, 96 tokens"),
        line(tags=["t"], created="2026-11-01T12:00:00Z", status="incomplete"),
    ]
    assert len(rows.of_kind(runs, ["Custom", "Eviction"])) == 2
    assert len(rows.of_kind(runs, ["nonsense"])) == 3
    frame, now = rows.frame(runs), datetime(2026, 11, 30, tzinfo=UTC)
    open_ = dict.fromkeys((*rows.OF_A_RUN, "tag", "after", "before"), "") | {"since": "any time"}
    assert len(rows.narrowed(frame, open_)) == 3
    for name, value in {"model": "x", "memory": "rkv", "tag": "t", "status": "incomplete"}.items():
        assert len(rows.narrowed(frame, open_ | {name: value})) == 1
    day = date(2026, 11, 29)
    assert len(rows.narrowed(frame, open_ | {"after": day})) == 2
    assert len(rows.narrowed(frame, open_ | {"after": day, "before": day})) == 2
    assert len(rows.narrowed(frame, open_ | {"before": date(2026, 11, 28)})) == 1
    week = open_ | {"since": "7 days"}
    assert [rows.between(run["created"], week, now) for run in runs] == [True, True, False]


def test_the_sentence_counts_only_measured_runs():
    told = rows.finding(rows.frame([line(), line(worst=0.9), line(status="incomplete")]))
    assert told[0] == "1 of 2 measured runs loses a phase"
    assert "One is incomplete" in told[1]
    assert rows.finding(rows.frame([line(worst=0.9)]))[0] == "No run loses a phase"
    assert rows.finding(rows.frame([]))[0] == "No run here yet"


def test_two_thousand_runs_are_drawn_fifty_at_a_time():
    from app.figures.theme import LIGHT

    frame = rows.frame([line(key=f"{i:012x}", title=f"run {i}") for i in range(2000)])
    assert list(rows.search(frame, "RUN 1999")["name"]) == ["run 1999"]
    page = table.drawn(frame.iloc[: table.PAGE], LIGHT)
    assert len(page) == 50
    assert isinstance(page, pd.DataFrame)


def test_tags_are_split_at_commas():
    assert split(" a, b ,, c d ") == ["a", "b", "c d"]


def test_worst_and_gap_are_of_the_phases_where_a_stride_folds():
    phases = line(worst=0.3, worst_folded=0.6, gap=0.4, folded_gap=0.1)
    made = rows.frame([phases, line(worst_folded=None, folded_gap=None)])
    assert list(made["worst"]) == [0.6, 0.3]
    assert list(made["gap"]) == [0.1, 0.4]
    assert rows.finding(made)[0] == "1 of 2 measured runs loses a phase"


def test_own_prompts_are_told_apart_by_their_words():
    text = "{{pad}}My flight leaves from gate {{target}}47B{{/target}} on Tuesday."
    own = {"task": {"kind": "custom", "text": text, "answer": "47B"}}
    assert titled("Custom", own, "W4") == "Custom, 47B: My flight leaves from gate…"
    assert titled("", own, "W4") == titled("Custom", own, "W4")
    assert titled("Mine", own, "W4") == "Mine"
    table_of = {"task": {"kind": "custom", "prompts": [own["task"]]}}
    assert titled("Custom", table_of, "") == titled("Custom", own, "")
    assert titled("Custom", {"task": {"kind": "custom", "text": ""}}, "W4") == "Custom"
    assert titled("", {"task": {"kind": "access_code"}}, "W4") == "access code, W4"
    long = {"task": {"kind": "custom", "text": "x" * 99, "answer": ""}}
    assert titled("", long, "") == f"Custom: {'x' * 27}…"


def test_cells_name_models_as_the_form_and_memories_once():
    from app.figures.theme import LIGHT

    frame = rows.frame([line(title="access code, pooled W4 S4", model="small")])
    page = table.drawn(frame, LIGHT, {"small": "Small 135M (controlled)"})
    assert list(page["model"]) == ["Small 135M"]
    assert list(page["name"]) == ["access code"]
