"""The sidebar's form: one benchmark run of any model, with its estimate before it runs."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app import services, state
from app.benchmark.recipe import TASKS, answers, model_of, name_of, recipe, task_fields
from app.controls import Errors, choice_label, help_text, kind_label
from app.explore.head import estimate
from app.style import html_of, text

FORM = state.measured.prefix
MEASURES = ("accuracy", "joint", "token")


@st.fragment
def form(schema: dict) -> None:
    """Draw the form; Run opens the run below the panels.  Typing redraws nothing else."""
    st.html('<h3 class="ps-sub">Run a benchmark</h3>')
    _restore(schema)
    with st.container(key="form"):
        slots: dict[str, Any] = {}
        asked = _model(schema, slots)
        _task(schema, asked, slots)
        _settings(schema, asked, slots)
    spec = recipe(schema, asked)
    answer = services.preview(spec)
    told = Errors(answer.errors)
    for field, place in slots.items():
        for message in told.at(*field.split("|")):
            place.html(html_of("error", message))
    for message in told.rest():
        text("error", message)
    if answer.plan:
        _keep(answer.plan)
        text("estimate", estimate(answer.plan))
    run = services.run(answer.plan["key"]) if answer.plan else None
    status = (run or {}).get("status")
    busy, done = status in services.ACTIVE, status == "done"
    left, right = st.columns([2, 1])
    label = "Show" if done else "Run again" if status and not busy else "Run"
    if left.button(
        label,
        key="b-run",
        type="primary",
        width="stretch",
        disabled=not answer.plan or busy or (state.read_only() and not done),
    ):
        _submit(spec, answer.plan["key"], done)
    if right.button("Cancel", key="b-cancel", disabled=not busy, width="stretch"):
        services.cancel(answer.plan["key"])
        st.rerun()


def _restore(schema: dict) -> None:
    """Fill the form from the key in the address, or the one left in this session."""
    form = state.measured
    key = form.key()
    if not key or (key == form.loaded() and f"{FORM}model" in st.session_state):
        return
    spec = services.spec(key) if state.well_formed(key) else None
    if not (spec or {}).get("memory"):  # a decode run, or an evaluation from elsewhere
        text(
            "error", f"The link's form {key[:24]!r} is none of this service; a fresh one is shown."
        )
        form.forget()
        return
    form.load(key, spec)
    for name, value in answers(schema, spec).items():
        state.put(f"{FORM}{name}", value)


def _keep(plan: dict) -> None:
    """Name what the form says in the address; a form that nobody has changed needs no name."""
    form, key = state.measured, plan["key"]
    untouched = form.loaded() in (None, key) and not form.key()
    form.remember(key, plan["spec"])
    if not untouched:
        form.point_at(key)


def _submit(spec: dict, key: str, done: bool) -> None:
    """Queue the spec, or show its finished run; either way it opens below."""
    if not done:
        answer = services.submit(spec, "")
        for _, message in answer.errors:
            text("error", message)
        if answer.errors:
            return
        key = answer.plan["key"]
    state.open_below(run=key)
    st.rerun()


def _slot(slots: dict[str, Any], *fields: str) -> None:
    """Where the service's errors at these fields are told once the form is whole."""
    slots["|".join(fields)] = st.empty()


def _model(schema: dict, slots: dict) -> dict[str, Any]:
    catalog = {name_of(m): m for m in schema["models"]}
    first = next((n for n, m in catalog.items() if m.get("controlled") and m.get("window")), None)
    state.seed(f"{FORM}model", first or next(iter(catalog), ""))
    chosen = st.selectbox(
        "Model",
        list(catalog),
        key=f"{FORM}model",
        format_func=lambda name: catalog.get(name, {}).get("label") or name,
        accept_new_options=True,
        help="A controlled model, one of the catalog, a Hugging Face id, or a local folder.",
    )
    _slot(slots, "model", "control.model")
    asked: dict[str, Any] = {"model": chosen or ""}
    if model_of(schema, asked["model"]).get("controlled"):
        return asked | {"memory": None}
    kinds = [k for k in schema["memories"] if k != "trained"]
    state.within(f"{FORM}memory", kinds)
    state.seed(f"{FORM}memory", "pooled" if "pooled" in kinds else kinds[0])
    kind = st.selectbox(
        "Memory", kinds, key=f"{FORM}memory", format_func=lambda k: kind_label("memory", k)
    )
    memory: dict[str, Any] = {"kind": kind}
    if kind == "pooled":
        for column, (name, label) in zip(
            st.columns(2), (("window", "Window W"), ("stride", "Stride S")), strict=True
        ):
            state.seed(f"{FORM}{name}", 4)
            memory[name] = int(column.number_input(label, key=f"{FORM}{name}", step=1))
    _slot(slots, "memory", "control.memory")
    return asked | {"memory": memory}


def _task(schema: dict, asked: dict, slots: dict) -> None:
    """The task's counts; a controlled model knows one task, its own."""
    controlled = model_of(schema, asked["model"])
    kinds = ["pairs"] if asked["memory"] is None else [k for k in TASKS if k in schema["tasks"]]
    kind = kinds[0] if kinds else "records"
    if len(kinds) > 1:
        state.within(f"{FORM}task", kinds)
        state.seed(f"{FORM}task", "records" if "records" in kinds else kinds[0])
        kind = st.selectbox(
            "Task", kinds, key=f"{FORM}task", format_func=lambda k: kind_label("task", k)
        )
    asked["task"] = {"kind": kind}
    fields = task_fields(schema, kind)
    for column, field in zip(st.columns(max(1, len(fields))), fields, strict=False):
        place = f"{FORM}{asked['model']}:{kind}.{field['name']}"
        state.seed(place, int(controlled.get(field["name"]) or field["default"]))
        asked["task"][field["name"]] = int(
            column.number_input(
                field.get("label") or field["name"].capitalize(),
                key=place,
                step=1,
                help=help_text(field) or None,
            )
        )
    _slot(slots, "task")


def _settings(schema: dict, asked: dict, slots: dict) -> None:
    known = {f["name"]: f for f in schema["settings"]}
    counts = (("modulus", "Residues R", 0), ("samples", "Prompts n", 24))
    for column, (name, label, first) in zip(st.columns(2), counts, strict=True):
        state.seed(f"{FORM}{name}", first)
        told = help_text(known[name]) if name in known else ""
        asked[name] = int(
            column.number_input(label, key=f"{FORM}{name}", step=1, help=told or None)
        )
    _slot(slots, "modulus", "samples", "batch")
    paddings = list((schema["tasks"].get(asked["task"]["kind"]) or {}).get("protocols") or ())
    paddings = [p for p in paddings if p] or ["in_sequence"]
    state.within(f"{FORM}protocol", paddings)
    state.seed(f"{FORM}protocol", "in_sequence" if "in_sequence" in paddings else paddings[0])
    asked["protocol"] = st.selectbox(
        "Padding", paddings, key=f"{FORM}protocol", format_func=choice_label
    )
    _slot(slots, "protocol")
    state.within(f"{FORM}measured", list(MEASURES))
    state.seed(f"{FORM}measured", "accuracy")
    asked["measure"] = st.selectbox(
        "Measure", MEASURES, key=f"{FORM}measured", format_func=choice_label
    )
    _slot(slots, "measure")
