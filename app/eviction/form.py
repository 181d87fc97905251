"""The sidebar: model, task, methods, budgets, how they are compared, and what that would take."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import streamlit as st

from app import controls, services, services_eviction, state
from app.controls import Errors, choice_label
from app.eviction import prompts, recipe
from app.eviction.recipe import place
from app.eviction.subject import Subject
from app.figures.marks import mark, swatch
from app.figures.theme import look_of
from app.style import html_of, text
from app.words import NOTHING, cache_size, count, number, seconds, sentence, size

ROWS = (
    ("budgets", "unit"),
    ("fair", "evict"),
    ("prefill", "mode"),
    ("steps", "samples"),
    ("seed", "dtype"),
)
LABELS = {
    "budgets": "Budgets",
    "unit": "Unit",
    "fair": "Compared at",
    "prefill": "Prompt is read",
    "evict": "Entries drop in",
    "mode": "Continuation",
    "steps": "Steps",
    "samples": "Prompts n",
    "seed": "Seed",
    "dtype": "Dtype",
}
CHOICES = {
    "time_average": "Mean size",
    "own": "Own budget",
    "kept": "Kept share",
    "removed": "Removed share",
    "both": "Both",
    "prompt": "Prompt",
    "decode": "Decoding",
    "forced": "Shared",
    "free": "Own",
    "whole": "Whole",
    "lookback": "Look back",
}


def form(subject: Subject) -> None:
    """Draw every field, each error at its own; then budgets in all units, estimate, Run."""
    told, schema = Errors(subject.errors), subject.schema
    base = recipe.plain(state.decode.base())
    with st.container(key="form"):
        _model(schema, base, told)
        st.divider()
        _task(schema, base, told)
        st.divider()
        _methods(schema, base, told)
        st.divider()
        _settings(subject, base, told)
        for error in told.rest():
            text("error", error)
    with st.container(key="runbar"):
        _buttons(subject)


def _say(messages: list[str]) -> None:
    for message in messages:
        text("error", message)


def _choice(value: str) -> str:
    return CHOICES.get(value) or choice_label(value)


def _field(section: str, field: dict, value, **options) -> None:
    name = field["name"]
    label = {"label": LABELS[name]} if name in LABELS and section != "task" else {}
    controls.widget(field, place(section, name), value, choice=_choice, **label, **options)


def _model(schema: dict, base: dict, told: Errors) -> None:
    catalog = {m["name"]: m for m in schema["models"] if not m.get("controlled")}
    rest = [f for f in schema["model"] if f["name"] not in ("id", "dtype")]
    _more("model", "model", rest, base["model"], told)
    current = base["model"]["id"]
    state.seed(place("model", "id"), current)
    known = list(catalog) + ([] if current in catalog else [current])
    field = next(f for f in schema["model"] if f["name"] == "id")
    st.selectbox(
        "Model",
        known,
        key=place("model", "id"),
        format_func=lambda name: catalog.get(name, {}).get("label") or name,
        accept_new_options=True,
        help=controls.help_text(field),
    )
    _say(told.at("model.id"))


def _task(schema: dict, base: dict, told: Errors) -> None:
    kinds = list(schema["prompts"])
    where = place("task", "kind")
    kind = state.value(where, None) or base["task"]["kind"]
    known = (schema["prompts"].get(kind) or {}).get("fields") or []
    values = base["task"] if base["task"]["kind"] == kind else recipe.defaults(known)
    own = next((f for f in known if f["name"] == recipe.PROMPTS), None)
    _more(f"task:{kind}", "task", [f for f in known if f is not own], values, told)
    field = {
        "name": "kind",
        "type": "str",
        "choices": kinds,
        "help": (schema["prompts"].get(kind) or {}).get("help") or "",
    }
    controls.widget(field, where, base["task"]["kind"], choice=_choice, label="Task")
    if own:
        prompts.own(own, place(f"task:{kind}", own["name"]), values.get(own["name"]) or [])
    _say(told.at("task"))


def _methods(schema: dict, base: dict, told: Errors) -> None:
    """One line a method: its mark, its name, its options behind a button, and away with it."""
    look, held = look_of(state.theme()), recipe.rows(base)
    st.html('<p class="ps-label">Methods</p>')
    for number_of, row in enumerate(held):
        name = row["kind"]
        changed = recipe.changed(row, schema)
        with st.container(
            key=f"method-{row['id']}", horizontal=True, vertical_alignment="center", gap="xxsmall"
        ):
            more = f"<small>{escape(', '.join(changed))}</small>" if changed else ""
            st.html(
                f'<div class="ps-method"><img src="{swatch(mark(number_of, look))}" alt="">'
                f"<span>{escape(name)}{more}</span></div>",
                width="stretch",
            )
            _options(schema, row, name, told, number_of)
            st.button(
                "",
                icon=":material/close:",
                key=f"{recipe.FORM}drop{row['id']}",
                type="tertiary",
                help=f"Leave {name} out",
                on_click=recipe.remove,
                args=(row["id"],),
            )
        _say(told.at(f"methods[{number_of}]", f"methods.{number_of}"))
    where = f"{recipe.FORM}add"

    def add() -> None:
        kind = state.value(where, None)
        if kind:
            recipe.add(kind, schema["methods"][kind])
        state.put(where, None)

    st.selectbox(
        "Add a method",
        list(schema["methods"]),
        index=None,
        key=where,
        placeholder="Add a method",
        label_visibility="collapsed",
        on_change=add,
    )
    _say(told.at("methods"))


def _options(schema: dict, row: dict, name: str, told: Errors, place_of: int) -> None:
    known = (schema["methods"].get(row["kind"]) or {}).get("fields") or []
    if not known:
        return
    with st.popover("", icon=":material/tune:", help=f"Options of {name}"):
        now = recipe.options(row, schema)
        text("note", sentence(schema["methods"][row["kind"]].get("help") or ""))
        for field in known:
            where = recipe.option(row, field["name"])
            shown = controls.shown(field, now)
            if shown:
                controls.widget(field, where, now.get(field["name"], field["default"]))
                at = f"methods[{place_of}].{field['name']}"
                for message in [m for f, m in told.left if f == at]:
                    text("error", sentence(message))


def _settings(subject: Subject, base: dict, told: Errors) -> None:
    schema = subject.schema
    known = {f["name"]: ("run", f, base) for f in schema["settings"]}
    known |= {
        f["name"]: ("model", f, base["model"]) for f in schema["model"] if f["name"] == "dtype"
    }
    placed = {name for row in ROWS for name in row}
    rest = [f for f in schema["settings"] if f["name"] not in placed]
    _more("run", "run", rest, base, told)
    for row in ROWS:
        present = [known[name] for name in row if name in known]
        columns = st.columns(len(present)) if len(present) > 1 else [st.container()]
        for column, (section, field, values) in zip(columns, present, strict=True):
            with column:
                value = values.get(field["name"], field["default"])
                _field(section, field, value, narrow=len(present) > 1)
        for section, field, _ in present:
            prefix = "model." if section == "model" else ""
            _say(told.at(prefix + field["name"]))
        if "budgets" in row:
            _budgets(subject)


def _more(section: str, noun: str, rest: list[dict], values: dict, told: Errors) -> None:
    """Other fields, behind a quiet button at the right of the section's label."""
    shown = [f for f in rest if controls.shown(f, values)]
    if not shown:
        return
    with (
        st.container(key=f"more-e-{noun}"),
        st.popover("More", icon=":material/tune:", help=f"More settings of the {noun}"),
    ):
        for field in shown:
            controls.widget(
                field,
                place(section, field["name"]),
                values.get(field["name"], field["default"]),
                choice=_choice,
            )
            at = field["name"] if section == "run" else f"{noun}.{field['name']}"
            for message in [m for f, m in told.left if f == at or f.startswith(f"{at}[")]:
                text("error", sentence(message))


def _budgets(subject: Subject) -> None:
    """Each budget in every unit that the field's tools use."""
    told: dict[int, dict] = {}
    for arm in (subject.plan or {}).get("arms") or ():
        if arm.get("budget") is not None:
            told.setdefault(int(arm["budget"]), arm)
    if not told or subject.errors:
        return
    body = ""
    for tokens, row in sorted(told.items()):
        cells = [
            str(tokens),
            number(row.get("kept_share"), 2),
            number(row.get("removed_share"), 2),
            cache_size(row.get("bytes")),
        ]
        body += "<tr>" + "".join(f"<td>{escape(c)}</td>" for c in cells) + "</tr>"
    spec = (subject.plan or {}).get("spec") or {}
    alone = spec.get("evict") == "prompt" and spec.get("fair") == "own"
    of = "the prompt" if alone else "prompt and steps"
    ratio = "compression_ratio is " + ("this share" if alone else "a share of the prompt alone")
    st.html(
        f'<table class="ps-table ps-budgets"><tr><th>Tokens</th><th title="share of {of} that '
        f'stays">Kept</th><th title="share of {of} that goes; kvpress’s {ratio}">Removed</th>'
        f"<th>Bytes</th></tr>{body}</table>"
    )


def _buttons(subject: Subject) -> None:
    """Estimate, Run, Cancel."""
    if subject.plan and not subject.errors:
        st.html(html_of("estimate", estimate(subject)))
    left, right = st.columns([2, 1])
    blocked = bool(subject.errors) or subject.plan is None or subject.active
    blocked = blocked or state.read_only()
    label = "Run again" if subject.status in ("failed", "cancelled", "incomplete") else "Run"
    if left.button(label, type="primary", key="run", disabled=blocked, width="stretch"):
        refused = services.submit(subject.spec, subject.title).errors
        for _, message in refused:
            text("error", sentence(message))
        if not refused:
            services_eviction.forget()
            st.rerun()
    if right.button("Cancel", key="cancel", disabled=not subject.active, width="stretch"):
        services.cancel(subject.key)
        st.rerun()


def estimate(subject: Subject) -> str:
    """`3 methods × 3 budgets and the full cache, about 95 s and 1.2 GB`; "perhaps" until one was
    timed here.
    """
    plan = subject.plan or {}
    told = plan.get("estimate") or {}
    about = "perhaps" if told.get("speed_source") == "guess" else "about"
    cost = f"{seconds(told.get('seconds'))} and {size(told.get('bytes'))}" if told else NOTHING
    return f"{_size_of(plan.get('arms') or ())}, {about} {cost}"


def _size_of(arms: Sequence[dict]) -> str:
    own = [arm for arm in arms if arm.get("budget") is not None]
    methods, budgets = ({arm[name] for arm in own} for name in ("label", "budget"))
    if not own or len(own) != len(methods) * len(budgets):  # a budget of a method's own
        return count(len(arms), "setting")
    told = f"{count(len(methods), 'method')} × {count(len(budgets), 'budget')}"
    return told + (" and the full cache" if len(arms) > len(own) else "")
