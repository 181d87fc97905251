"""Vary: one run, one field, some values; the grid is shown with its cost before it is queued."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import streamlit as st

from app import services, services_compare, services_eviction, state
from app.compare import address
from app.compare.subject import FOREIGN, Subject
from app.eviction.recipe import FULL
from app.services_compare import MOST
from app.style import text
from app.words import NOTHING, count, seconds, sentence, size

LONGEST = 400  # characters of the values' field
OTHER = "other"
FEW = 4  # values to begin with
# Field → (name, values to begin with, of which a run is offered those that it takes).
SWEEP = {
    "memory.window": ("Window W", (4, 8, 12)),
    "memory.stride": ("Stride S", (2, 4, 8)),
    "memory.gate": ("Gate", ("mean", "onehot", "hand")),
    "memory.offset": ("Offset of the gate", (0, 1, 2, 3)),
    "memory.local": ("Exact recent tokens", (0, 16, 32)),
    "memory.budget": ("Budget", (96, 128, 256)),
    "memory.kind": ("Method", ()),  # of a memory that evicts: the service's own list
    "model.id": ("Model", ()),
    "samples": ("Prompts", (12, 24)),
    "seed": ("Seed", (0, 1, 2)),
}
DECODE = {
    "budget": ("Budget", (96, 128, 256)),
    "method": ("Method", ()),
    "model.id": ("Model", ()),
    "steps": ("Decoded tokens", (100, 200)),
    "seed": ("Seed", (0, 1, 2)),
}
LISTS = {"budget": "budgets", "method": "methods"}  # in a decode spec: one value makes one run


def own(subject: Subject) -> dict[str, str]:
    """key → name of the runs whose fields may be varied; one that stands alone too."""
    runs = [run for run in subject.runs if not run.get("is_control")]
    if subject.told is None:
        found = map(services.run, subject.asked.keys)
        runs = [run | {"name": run["title"]} for run in found if run]
    return {run["key"]: run["name"] for run in runs if run.get("kind") != FOREIGN}


def vary(subject: Subject) -> None:
    """The form of the popover."""
    runs = own(subject)
    key = st.selectbox("Run", list(runs), format_func=runs.get, key="c:vary-run", width=340)
    spec = services.spec(key) or {}
    offered = fields(spec)
    field = st.selectbox(
        "Field",
        [*offered, OTHER],
        format_func=lambda f: offered[f][0] if f in offered else "Another field",
        key="c:vary-field",
        width=340,
    )
    place = f"c:vary-values-{key}-{field}"
    if field == OTHER:
        field = st.text_input(
            "Dotted name", key="c:vary-name", max_chars=60, placeholder="task.records", width=340
        ).strip()
    elif place not in st.session_state:
        state.put(place, ", ".join(map(str, first(spec, field, offered[field][1]))))
    given = st.text_input("Values, with commas between", key=place, max_chars=LONGEST, width=340)
    values = parse(given)
    if not field or not values:
        text("note", "Name a field and its values: each makes a run of its own.")
        return
    if len(values) > MOST:
        text("error", f"{len(values)} values: at most {MOST} runs stand side by side.")
        return
    spec, answer = grid(spec, field, values)
    for told in answer.get("errors") or ():
        text("error", told)
    rows = answer["specs"]
    if not rows:
        return
    _preview(rows, values, field)
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
        both = list(dict.fromkeys([key, *made]))
        address.write(both if len(both) <= MOST else made)  # all that was run, before its origin
        st.rerun()


def fields(spec: dict) -> dict[str, tuple[str, tuple]]:
    """What is offered for a spec: the fields that it has, a method where it evicts."""
    if services_eviction.is_decode(spec):
        return {name: about for name, about in DECODE.items() if held(spec, LISTS.get(name, name))}
    own = {name: about for name, about in SWEEP.items() if held(spec, name)}
    return own if "memory.budget" in own else {n: a for n, a in own.items() if n != "memory.kind"}


def held(spec: dict, field: str) -> bool:
    """Whether a spec has a field of that name."""
    return value_of(spec, field) is not None


def value_of(spec: dict, field: str) -> Any:
    """What stands at a dotted field; None where there is nothing."""
    place: Any = spec
    for name in field.split("."):
        place = place.get(name) if isinstance(place, dict) else None
    return place


def first(spec: dict, field: str, known: tuple) -> list[Any]:
    """A few values to begin with: the run's own, and what it takes of the usual ones."""
    if field in LISTS:
        own = value_of(spec, LISTS[field])
        own = [m["kind"] for m in own if m["kind"] != FULL] if field == "method" else own
    else:
        own = [value_of(spec, field)]
    if field == "method":
        known = tuple(services_eviction.schema()["methods"])
    elif field == "memory.kind":
        memories = services.schema()["memories"]
        known = tuple(
            k for k in memories if any(f["name"] == "budget" for f in memories[k]["fields"])
        )
    wanted = list(dict.fromkeys([*own, *known]))[:MOST]
    _, answer = grid(spec, field, wanted)
    rows = zip(wanted, answer["specs"], strict=False)
    fit = [value for value, row in rows if not row["errors"]][:FEW]
    return sorted(fit) if all(isinstance(value, int | float) for value in fit) else fit


def grid(spec: dict, field: str, values: list[Any]) -> tuple[dict, dict]:
    """(spec, answer): as the service tells it, with the count of residues that fits every stride
    where the spec's own does not."""
    answer = services_compare.vary(spec, field, values)
    if any(refused(row, "modulus") for row in answer["specs"]):
        spec = spec | {"modulus": 0}
        answer = services_compare.vary(spec, field, values)
    return spec, answer


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


def name_of(field: str) -> str:
    """A field as the form calls it: `Window W`; of another one its last name."""
    known = (SWEEP | DECODE).get(field)
    return known[0] if known else sentence(field.rpartition(".")[2].replace("_", " "))


def _preview(rows: list[dict], values: list[Any], varied: str) -> None:
    """One line a value: what it makes, whether it is here, and what it would cost."""
    lines, refusals, cost, peak = [], [], 0.0, 0.0
    name = name_of(varied)
    for value, row in zip(values, rows, strict=False):
        refusals += [f"{name} {value}: {reason(error, varied)}." for error in row["errors"]]
        status = "refused" if row["errors"] else "here" if row["stored"] else "to run"
        estimate = row.get("estimate") or {}
        if status == "to run":
            cost += estimate.get("seconds") or 0.0
            peak = max(peak, estimate.get("bytes") or 0.0)
        made = NOTHING if row["errors"] else row.get("phrase") or NOTHING
        lines.append({name: str(value), "Makes": made, "Status": status})
    frame = pd.DataFrame(lines)
    wide = {name: 110, "Makes": 270, "Status": 80}
    st.dataframe(
        frame,
        hide_index=True,
        width=460,
        height=min(320, 38 + 36 * len(frame)),
        column_config={n: st.column_config.TextColumn(n, width=w) for n, w in wide.items()},
    )
    for told in refusals:
        text("error", told)
    waiting = sum(line["Status"] == "to run" for line in lines)
    if waiting and cost:
        text("estimate", f"About {seconds(cost)} in all, {size(peak)} at once.")


def refused(row: dict, field: str) -> bool:
    """Whether a spec was refused for that field."""
    named = [e.get("field") if isinstance(e, dict) else e[0] for e in row["errors"]]
    return field in named


def reason(error: Any, varied: str) -> str:
    """A refusal, whatever form it came in, with its field's name where another one was varied."""
    if isinstance(error, dict):
        field, told = error.get("field") or "", error.get("message") or error
    else:
        whole = isinstance(error, list | tuple) and len(error) > 1
        field, told = error[:2] if whole else ("", error)
    told, own = str(told), str(field).rpartition(".")[2]
    if field in ("", varied) or told.startswith(f"{own} "):
        return told
    return f"{name_of(str(field))} {told}"
