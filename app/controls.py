"""One widget per spec field, from the service's schema.

Knows field types, `when`, and the order in which the sidebar shows fields.  Writes nothing of the
schema a second time: names, bounds, choices and help come from the service.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import streamlit as st

from app import state
from app.fields import (
    EDITED,
    ELSEWHERE,
    listed,
    part,
    protocols,
    sections,
    shown,
    widget_key,
    written,
)
from app.style import text
from app.words import prose, sentence

# Rows of the sidebar, by field name; a field that is in no row goes into its section's "more" menu.
ROWS = {
    "memory": (("window", "stride"), ("gate",), ("offset", "weights", "local", "sinks")),
    "settings": (("protocol",), ("modulus", "samples")),
}
# The field's short words where the schema has no label of its own.
WORDS = {
    "protocol": "Padding",
    "modulus": "Residues R",
    "samples": "Prompts n",
    "when": "Compressed",
}
CHOICES = {
    "onehot": "One-hot",
    "grid_origin": "Grid",
    "after_context": "After context",
    "access_code": "Access code",
}
MOST_SEGMENTS = 3


# ---- drawing


def form(schema: dict, draft: dict, errors: Iterable[tuple[str, str]]) -> None:
    """Model, memory, task, padding and counts, each error at its field."""
    told = Errors(errors)
    with st.container(key="form"):
        _model(schema, draft, told)
        st.divider()
        _memory(schema, draft, told)
        st.divider()
        _task(schema, draft, told)
        for error in told.rest():
            text("error", error)


class Errors:
    """The service's errors; each is told once, at the field that asks first."""

    def __init__(self, errors: Iterable[tuple[str, str]]):
        self.left = list(errors)

    def at(self, *fields: str) -> list[str]:
        """Take those of a dotted field or of anything below it."""
        taken = [
            (f, m)
            for f, m in self.left
            if any(f == w or f.startswith((w + ".", w + "[")) for w in fields)
        ]
        self.left = [e for e in self.left if e not in taken]
        return [sentence(m) for _, m in taken]

    def rest(self) -> list[str]:
        taken, self.left = self.left, []
        return [f"{f}: {m}" if f else sentence(m) for f, m in taken]


def _model(schema: dict, draft: dict, told: Errors) -> None:
    catalog = {m["name"]: m for m in schema["models"]}
    field = next(f for f in schema["model"] if f["name"] == "id")
    current = draft["model"]["id"]
    options = list(catalog) + ([] if current in catalog else [current])
    _more("model", schema["model"], draft, told)
    state.seed(f"{state.FORM}model", current)
    st.selectbox(
        field.get("label") or "Model",
        options,
        key=f"{state.FORM}model",
        format_func=lambda name: catalog.get(name, {}).get("label") or name,
        accept_new_options=True,
        help=help_text(field),
    )
    _tell(told.at("model"))


def _memory(schema: dict, draft: dict, told: Errors) -> None:
    _more("memory", sections(schema, draft)["memory"], draft, told)
    _kind("memory", "Memory", schema["memories"], draft)
    _tell(told.at("memory.kind"))
    _rows("memory", sections(schema, draft)["memory"], draft, told)
    _tell(told.at("memory"))


def _task(schema: dict, draft: dict, told: Errors) -> None:
    fields = sections(schema, draft)
    if not written(fields["task"]):
        _more("task", fields["task"], draft, told)
    _kind("task", "Prompt", schema["tasks"], draft)
    _tell(told.at("task.kind"))
    about = told.at("task")
    _tell([] if written(fields["task"]) else about)  # the editor tells its own
    allowed = protocols(schema, draft["task"])
    settings = [
        {**f, "choices": allowed} if f["name"] == "protocol" and allowed else f
        for f in fields["settings"]
    ]
    _more("settings", settings, draft, told)
    _rows("settings", settings, draft, told)


def _kind(section: str, label: str, known: dict, draft: dict) -> None:
    place = f"{state.FORM}{section}"
    current = draft[section]["kind"]
    options = list(known) + ([] if current in known else [current])
    state.seed(place, current)
    st.selectbox(
        label,
        options,
        key=place,
        format_func=lambda kind: kind_label(section, kind),
        help=prose(sentence(known.get(current, {}).get("help", ""))) or None,
    )


def kind_label(section: str, kind: str) -> str:
    if section == "memory":
        return {"full": "Full cache", "pooled": "Pooled windows"}.get(kind, choice_label(kind))
    return choice_label(kind)


def choice_label(choice: str) -> str:
    return CHOICES.get(choice) or sentence(str(choice).replace("_", " ")) or "Automatic"


def help_text(field: dict) -> str:
    """The schema's help, with the bounds that it states."""
    low, high = field.get("low"), field.get("high")
    span = (
        f" From {low} to {high}."
        if low is not None and high is not None
        else f" At least {low}."
        if low is not None
        else f" At most {high}."
        if high is not None
        else ""
    )
    return prose(sentence(field.get("help") or "") + ("." if span else "") + span)


def label_of(field: dict) -> str:
    return (
        field.get("label") or WORDS.get(field["name"]) or sentence(field["name"].replace("_", " "))
    )


def _rows(section: str, fields: list[dict], draft: dict, told: Errors) -> None:
    known = {f["name"]: f for f in fields}
    values = part(draft, section)
    for row in ROWS.get(section, ()):
        present = [known[n] for n in row if n in known and shown(known[n], values)]
        if not present:
            continue
        if len(present) == 1:
            draw(section, present[0], draft)
        else:
            for column, field in zip(st.columns(len(present)), present, strict=True):
                with column:
                    draw(section, field, draft)
        for field in present:
            _tell(told.at(dotted(section, field["name"])))
            if field["name"] == "protocol":
                _changed_padding(values)


def _changed_padding(values: dict) -> None:
    """Tell a padding that the page put in place of the chosen one."""
    former, now = state.changed_padding()
    if former and values["protocol"] == now:
        why = "no padding is marked" if now == "grid_origin" else "its marks are not there"
        text("note", f"{choice_label(now)} in place of {choice_label(former)}: {why}.")


def _more(section: str, fields: list[dict], draft: dict, told: Errors) -> None:
    """The section's other fields, behind a quiet button at the right of its heading."""
    placed = {n for row in ROWS.get(section, ()) for n in row} | set(ELSEWHERE.get(section, ()))
    values = part(draft, section)
    rest = [f for f in fields if f["name"] not in (*placed, *EDITED) and shown(f, values)]
    if not rest:
        return
    with (
        st.container(key=f"more-{section}"),
        st.popover("More", icon=":material/tune:", help=f"More settings of the {_noun(section)}"),
    ):
        for field in rest:
            draw(section, field, draft)
            for message in [m for f, m in told.left if f == dotted(section, field["name"])]:
                text("error", sentence(message))


def _noun(section: str) -> str:
    return {"settings": "run", "task": "prompt"}.get(section, section)


def dotted(section: str, name: str) -> str:
    return name if section == "settings" else f"{section}.{name}"


def draw(section: str, field: dict, draft: dict, **options: Any) -> None:
    """One field's widget.  Bounds are in its help; the service says what is wrong with a value."""
    values = part(draft, section)
    kind = values.get("kind", "") if section in ("memory", "task") else ""
    place = widget_key(section, kind, field["name"])
    widget(field, place, values.get(field["name"], field["default"]), **options)


def widget(
    field: dict,
    place: str,
    value: Any,
    *,
    choice: Callable[[Any], str] | None = None,
    narrow: bool = False,
    **options: Any,
) -> None:
    """The widget of a field at a key; `value` where it holds nothing; `choice` names choices.

    `narrow`: the field shares its row, so that choices stand in a list.
    """
    choice = choice or choice_label
    common = {"label": label_of(field), "key": place, "help": help_text(field) or None} | options
    choices = [c for c in field.get("choices") or () if c != ""] or list(field.get("choices") or ())
    if choices:
        if value not in choices:
            choices = [value, *choices] if value != "" else choices
            value = value if value != "" else choices[0]
        state.seed(place, value)
        state.within(place, choices)
        state.seed(place, value)
        labels = [choice(c) for c in choices]
        if (
            not narrow
            and len(choices) <= MOST_SEGMENTS
            and max(map(len, labels)) <= 11
            and sum(map(len, labels)) < 27
        ):
            st.segmented_control(
                options=choices, format_func=choice, required=True, width="stretch", **common
            )
        else:
            st.selectbox(options=choices, format_func=choice, **common)
    elif field["type"] == "bool":
        state.seed(place, bool(value))
        st.toggle(**common)
    elif field["type"] == "int":
        state.seed(place, int(value))
        st.number_input(step=1, **common)
    elif field["type"] == "float":
        state.seed(place, float(value))
        st.number_input(step=0.1, **common)
    elif field["type"] == "tuple":
        state.seed(place, listed(value))
        st.text_input(placeholder="comma-separated", **common)
    elif field.get("long"):
        state.seed(place, str(value))
        st.text_area(**({"height": 160} | common))
    else:
        state.seed(place, str(value))
        st.text_input(**common)


def _tell(messages: list[str]) -> None:
    for message in messages:
        text("error", message)
