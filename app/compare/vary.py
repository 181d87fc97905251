"""Vary: one run, one field, some values; the grid is shown with its cost before it is queued."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import streamlit as st

from app import services, services_compare
from app.compare import address
from app.compare.subject import FOREIGN, Subject
from app.services_compare import MOST
from app.style import text
from app.words import count, seconds, size

LONGEST = 400  # characters of the values' field
OTHER = "other"
# Field → (name, values to begin with).
SWEEP = {
    "memory.window": ("Window W", "4, 8, 12"),
    "memory.stride": ("Stride S", "2, 4, 8"),
    "memory.gate": ("Gate", "mean, onehot, gaussian"),
    "memory.offset": ("Offset of the gate", "0, 1, 2, 3"),
    "memory.local": ("Exact recent tokens", "0, 16, 32"),
    "model.id": ("Model", ""),
    "samples": ("Prompts", "12, 24"),
    "seed": ("Seed", "0, 1, 2"),
}
DECODE = {
    "budgets": ("Budget", "96, 128, 256"),
    "model.id": ("Model", ""),
    "steps": ("Decoded tokens", "100, 200"),
    "seed": ("Seed", "0, 1, 2"),
}


def vary(subject: Subject) -> None:
    """The form of the popover."""
    own = [run for run in subject.runs if run["kind"] != FOREIGN]
    runs = {run["key"]: run for run in own if not run.get("is_control")}
    key = st.selectbox(
        "Run", list(runs), format_func=lambda k: runs[k]["name"], key="c:vary-run", width=340
    )
    spec = services.spec(key) or {}
    known = DECODE if spec.get("kind") == "decode" else SWEEP
    offered = {name: about for name, about in known.items() if held(spec, name)}
    field = st.selectbox(
        "Field",
        [*offered, OTHER],
        format_func=lambda f: offered[f][0] if f in offered else "Another field",
        key="c:vary-field",
        width=340,
    )
    if field == OTHER:
        field = st.text_input(
            "Dotted name", key="c:vary-name", max_chars=60, placeholder="task.records", width=340
        ).strip()
    begin = offered[field][1] if field in offered else ""
    given = st.text_input(
        "Values, with commas between",
        value=begin,
        key=f"c:vary-values-{field}",
        max_chars=LONGEST,
        width=340,
    )
    values = parse(given)
    if not field or not values:
        text("note", "Name a field and its values: each makes a run of its own.")
        return
    if len(values) > MOST:
        text("error", f"{len(values)} values: at most {MOST} runs stand side by side.")
        return
    answer = services_compare.vary(spec, field, values)
    if any(refused(row, "modulus") for row in answer["specs"]):
        spec = spec | {"modulus": 0}  # the count of residues that fits every stride
        answer = services_compare.vary(spec, field, values)
    for told in answer.get("errors") or ():
        text("error", told)
    rows = answer["specs"]
    if not rows:
        return
    _preview(rows, values)
    fit = [row for row in rows if not row["errors"]]
    fresh = [row for row in fit if not row["stored"]]
    made = list(dict.fromkeys(row["key"] for row in fit))
    if not fit:
        return
    words = f"Run {count(len(fresh), 'run')} and compare" if fresh else "Compare them"
    if st.button(words, type="primary", key="c:vary-go"):
        if fresh:
            answer = services_compare.vary(spec, field, values, submit=True)
            for told in answer.get("errors") or ():
                text("error", told)
            if answer.get("errors"):
                return
        address.write(list(dict.fromkeys([key, *made]))[:MOST])
        st.rerun()


def held(spec: dict, field: str) -> bool:
    """Whether a spec has a field of that name."""
    place: Any = spec
    for name in field.split("."):
        if not isinstance(place, dict) or name not in place:
            return False
        place = place[name]
    return True


def parse(given: str) -> list[Any]:
    """`4, 8` as numbers, `true` as a claim, the rest as words; each once."""
    out: list[Any] = []
    for word in given.split(","):
        word = word.strip()
        if not word:
            continue
        try:
            value = json.loads(word)
        except ValueError:
            value = word
        if value not in out:
            out.append(value)
    return out


def _preview(rows: list[dict], values: list[Any]) -> None:
    """One line a value: what it makes, whether it is here, and what it would cost."""
    lines, cost, peak = [], 0.0, 0.0
    for value, row in zip(values, rows, strict=False):
        told = row.get("phrase") or ""
        if row["errors"]:
            told = " ".join(reason(error) for error in row["errors"])
        state = "refused" if row["errors"] else "here" if row["stored"] else "to run"
        estimate = row.get("estimate") or {}
        if state == "to run":
            cost += estimate.get("seconds") or 0.0
            peak = max(peak, estimate.get("bytes") or 0.0)
        lines.append({"value": str(value), "makes": told, "": state})
    frame = pd.DataFrame(lines)
    st.dataframe(frame, hide_index=True, width=460, height=min(320, 38 + 35 * len(frame)))
    waiting = sum(line[""] == "to run" for line in lines)
    if waiting and cost:
        text("estimate", f"About {seconds(cost)} in all, {size(peak)} at once.")


def refused(row: dict, field: str) -> bool:
    """Whether a spec was refused for that field."""
    named = [e.get("field") if isinstance(e, dict) else e[0] for e in row["errors"]]
    return field in named


def reason(error: Any) -> str:
    """A refusal as its sentence, whatever form it came in."""
    if isinstance(error, dict):
        return str(error.get("message") or error)
    return str(error[1]) if isinstance(error, list | tuple) and len(error) > 1 else str(error)
