"""Nothing chosen yet: what the page does, how to begin, and three comparisons to begin with."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

import streamlit as st

from app import services, state
from app.compare import address, head, vary
from app.compare.subject import Subject
from app.figures.theme import look_of
from app.figures.thumbnails import sparkline
from app.style import text


class Suggestion(NamedTuple):
    """Presets that answer a question together."""

    title: str
    words: str
    names: tuple[str, ...]


SUGGESTIONS = (
    Suggestion(
        "One token kept, or all averaged",
        "SmolLM2 on one prompt: a window keeps one token, or the mean of four.",
        ("smollm2-onehot", "smollm2-mean"),
    ),
    Suggestion(
        "Three windows and strides",
        "Controlled retrieval: W8 S8, W8 S6 and W4 S4 against the full cache.",
        ("w8s8-sparse", "w8s6", "w4s4-sparse"),
    ),
    Suggestion(
        "What the training saw",
        "One memory trained on all phases, on one phase, and too briefly.",
        ("coverage-all-phases", "coverage-phase-zero", "coverage-under-trained"),
    ),
)


def keys_of(names: tuple[str, ...]) -> list[dict]:
    """{key, curve, control} of those presets and controlled runs that are stored here."""
    known = {p["name"]: p for p in services.schema()["presets"] if p.get("stored")}
    family = {m["name"]: m for m in services.benchmark()["members"] if m.get("numbers")}
    out = []
    for name in names:
        if name in known:
            preset = known[name]
            drawn = {"curve": preset.get("curve"), "control": preset.get("control_curve")}
            out.append({"key": preset["key"]} | drawn)
        elif (member := family.get(name)) and member.get("key"):
            curve = [r["value"] for r in (member["numbers"].get("residues") or ())]
            control = [r["value"] for r in (member.get("control_residues") or ())]
            out.append({"key": member["key"], "curve": curve, "control": control})
    return out


def empty(subject: Subject) -> None:
    head.notes(subject.notes)
    text("finding", "Put memories side by side", tag="div")
    text(
        "doubt",
        "Two to eight runs: what differs between them, the same chart on one scale, and "
        "differences paired by prompt. Add runs, or begin with one of these.",
    )
    with st.container(key="compare-chips", horizontal=True, vertical_alignment="center"):
        if subject.asked.keys:
            head.chosen(subject)
        head.drawer("Add a run", "add", head.add, subject, "secondary")
        if subject.asked.keys and not state.read_only() and vary.own(subject):
            head.drawer("Vary", "tune", vary.vary, subject)
    st.space("small")
    suggestions()


def suggestions() -> None:
    """Three cards; one whose runs are not here says so."""
    look = look_of(state.theme())
    for i, (column, offer) in enumerate(
        zip(st.columns(len(SUGGESTIONS), gap="medium"), SUGGESTIONS, strict=True)
    ):
        found = keys_of(offer.names)
        with column, st.container(border=True, key=f"compare-card-{i}", height="stretch"):
            picture = ""
            if found and found[0]["curve"]:
                other = found[1]["curve"] if len(found) > 1 else ()
                drawn = sparkline(
                    found[0]["curve"],
                    found[0]["control"] or (),
                    other=other or (),
                    colour=look.memory,
                    look=look,
                )
                picture = f'<img src="{drawn}" alt="curves">'
            st.html(
                f'<div class="ps-card"><div class="ps-picture">{picture}</div>'
                f"<h3>{escape(offer.title)}</h3><p>{escape(offer.words)}</p></div>"
            )
            if len(found) == len(offer.names):
                st.button(
                    "Compare these",
                    key=f"compare-suggest-{i}",
                    icon=":material/arrow_forward:",
                    icon_position="right",
                    type="tertiary",
                    on_click=address.write,
                    args=([each["key"] for each in found], ""),
                )
            else:
                text("note", "Not measured on this machine yet.")
