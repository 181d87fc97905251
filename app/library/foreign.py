"""An evaluation that kvpress computed elsewhere: its scores, metrics and settings, in the library.

It has no phases and so no page of its own; it can be compared with others of the same questions.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import pandas as pd
import streamlit as st

from app import services, state
from app.compare.table import value
from app.style import text
from app.words import NOTHING, between, count, number, sentence

KIND = "kvpress"
MOST = 8  # runs side by side
LINES = 80  # of a table
MADE = {"press_init_command": "Press, as made", "model_kwargs": "Model options", "device": "Device"}


def is_foreign(told: Mapping | pd.Series | None) -> bool:
    """Whether a run, a row of a list or a spec is such an evaluation."""
    return told is not None and told.get("kind") == KIND


def link(key: str) -> dict[str, str]:
    """The query of the library's address that shows it."""
    return {"q": key}


def asked() -> str | None:
    """The evaluation whose key is searched for: that is how links from other pages lead here."""
    key = st.query_params.get("q", "")
    if not state.well_formed(key):
        return None
    return key if any(row["key"] == key and is_foreign(row) for row in services.runs()) else None


def elsewhere(key: str) -> None:
    """What a page of phases says of such a run, and where it is shown."""
    text("finding", "This run was computed by kvpress and has no phases to show here", tag="div")
    st.page_link(
        state.library(),
        label="Open it in the Library",
        icon=":material/arrow_forward:",
        icon_position="right",
        query_params=link(key),
    )


def show(key: str) -> None:
    """Scores by task, metrics and settings of one evaluation, and a way to compare it."""
    run = services.run(key)
    if run is None:
        text("note", "This run was deleted elsewhere.")
        return
    _compare(run)
    text("section", run.get("finding") or "No scores", tag="h2")
    for told in (run.get("doubt"), *(run.get("warnings") or ())):
        if told:
            text("note", told)
    left, right = st.columns(2, gap="large")
    with left:
        text("label", "Scores")
        st.html(table(("Task", "Questions", "Score", "95 %"), scores(run)))
        told = metrics(run.get("metrics"))
        if told:
            text("label", "Metrics, as kvpress told them")
            st.html(table(("Metric", "Value"), told))
    with right:
        text("label", "Settings")
        st.html(table(("Setting", "Value"), settings(run)))


def _compare(run: dict) -> None:
    found = alike(run, services.runs())
    n = len(found)
    label = f"Compare with {count(n, 'run')} of the same dataset and model" if n else "Compare"
    st.page_link(
        state.compare(),
        label=label,
        icon=":material/arrow_forward:",
        icon_position="right",
        query_params={"runs": ",".join([run["key"], *found][:MOST])},
    )


def alike(run: dict, rows: list[dict]) -> list[str]:
    """Keys of the other evaluations of the same model and part of a dataset, as many as fit."""
    spec, found = run["spec"], []
    for row in rows:
        same = is_foreign(row) and row["key"] != run["key"]
        if not same or (row["model"], row["task"]) != (spec["model"]["id"], spec["task"]["kind"]):
            continue
        other = services.spec(row["key"]) or {}
        if (other.get("task") or {}).get("data_dir") == spec["task"]["data_dir"]:
            found.append(row["key"])
    return found[: MOST - 1]


def scores(run: dict) -> list[tuple[str, ...]]:
    """The mean and each task: name, questions, score, interval."""
    asked_, metric = run.get("n_samples") or 0, run.get("metric")
    name = f"Mean ({metric})" if metric else "Mean"
    span = between(run.get("mean_low"), run.get("mean_high"))
    found = [(name, str(asked_), number(run.get("mean")), span)]
    for task in (run.get("tasks") or ())[:LINES]:
        span = between(task.get("low"), task.get("high"))
        found.append((task["task"] or "all", str(task["n"]), number(task["score"]), span))
    return found if len(found) != 2 or found[1][0] != "all" else found[:1]


def metrics(told: Any) -> list[tuple[str, ...]]:
    """metrics.json as lines: `niah_single_1, string_match` and its value."""
    found = []
    for name, one in _flat(told, ""):
        found.append((name or "metric", value(one)))
    return found[:LINES]


def settings(run: dict) -> list[tuple[str, ...]]:
    """What was set, and what is told of how the evaluation came here; nothing that is empty."""
    spec, made = run["spec"], run.get("provenance") or {}
    told = [(_label(name), one) for name, one in _flat(spec, "") if name not in ("kind", "results")]
    told += [(label, made.get(name)) for name, label in MADE.items()]
    origin = made.get("origin") or {}
    told += [("Folder", origin.get("file")), ("Imported", origin.get("imported"))]
    return [(label, value(one)) for label, one in told if one not in (None, "", {})]


def _flat(told: Any, before: str) -> list[tuple[str, Any]]:
    if not isinstance(told, dict):
        return [(before, told)]
    found = []
    for name, one in told.items():
        found += _flat(one, f"{before}, {name}" if before else str(name))
    return found


def _label(name: str) -> str:
    """`press, compression_ratio` → `Press: compression ratio`."""
    part, _, rest = name.partition(", ")
    return sentence(f"{part}: {rest}" if rest else part).replace("_", " ")


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Escaped HTML; all columns but the first stand at the right."""
    top = "".join(f"<th{_side(i)}>{escape(head)}</th>" for i, head in enumerate(heads))
    body = ""
    for row in rows:
        cells = (f"<td{_side(i)}>{escape(cell or NOTHING)}</td>" for i, cell in enumerate(row))
        body += f"<tr>{''.join(cells)}</tr>"
    return f'<table class="ps-table"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'


def _side(place: int) -> str:
    return ' class="ps-right"' if place else ""


def line(row: dict) -> str:
    """What a list says of it, behind its name."""
    mean = row.get("mean")
    return f": mean score {number(mean)}" if mean is not None else ": no mean score"
