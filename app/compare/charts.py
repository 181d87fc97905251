"""The same chart of each run on the same axes; which one is part of the link."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from app import export, state
from app.compare import address, claims, frames, maps, strips
from app.compare.subject import FOREIGN, Subject
from app.figures import compare as figures
from app.figures.theme import look_of
from app.style import text

CHARTS = {
    "curves": "Curves",
    "residues": "Phases",
    "spectra": "Spectra",
    "tokens": "Tokens",
    "attention": "Attention",
    "timelines": "Timelines",
}
AXES = {
    "curves": "curve",
    "residues": "residues",
    "spectra": "spectrum",
    "tokens": "tokens",
    "attention": "attention",
    "timelines": "timeline",
}


def choice(subject: Subject) -> str:
    """Section's sentence at the left, which chart at the right; "" where no run has a chart."""
    if subject.foreign:
        text("section", "No charts of these runs", tag="h2")
        text("note", subject.plain(subject.apart("curve")))
        return ""
    notes = st.session_state["compare-notes"]
    kinds = {run["kind"] for run in subject.runs} - {FOREIGN}
    decode = kinds == {"decode"}
    options = list(CHARTS)
    if decode:
        options = ["timelines"]
    elif "decode" not in kinds:
        options.remove("timelines")
    chosen = address.choice("chart", options, notes)
    widget = address.shown("chart", chosen)
    left, right = st.columns([1.15, 1], vertical_alignment="bottom")
    with left:
        told = claims.charts(subject, chosen) if shared(subject, chosen) else claims.alone(subject)
        text("section", told, tag="h2")
    if len(options) < 2:
        return chosen
    with right, st.container(horizontal=True, horizontal_alignment="right"):
        picked = st.segmented_control(
            "Chart",
            options,
            format_func=CHARTS.get,
            key=widget,
            required=True,
            label_visibility="collapsed",
            on_change=address.writes("chart", widget),
        )
    return picked or options[0]


def shared(subject: Subject, chart: str) -> bool:
    """Whether a run stands in that chart beside the baseline; else there is nothing to draw."""
    if chart not in ("curves", "residues", "spectra") or subject.single:
        return True
    return any(run in subject.others for run in subject.on(AXES[chart]))


def draw(subject: Subject, chart: str) -> None:
    """One chart of all runs; where some do not compare, which and why, and the rest."""
    if apart := subject.apart(AXES[chart]):
        text("note", apart)
    if shared(subject, chart):
        DRAW[chart](subject)


def _curves(subject: Subject) -> None:
    look = look_of(state.theme())
    panels = frames.panels(subject, "residues", look)
    sizes = {panel.size for panel in panels if len(panel.frame)}
    control = frames.rows(subject.base, "residues")
    same = {int(subject.base.get("modulus") or 0)} >= sizes
    fig = figures.curves(
        panels,
        control=control if same else None,
        chance=frames.chance(subject),
        look=look,
    )
    _chart(subject, fig, "residues", "curves", "Lines: the measure by residue. ")


def _folds(subject: Subject) -> None:
    look = look_of(state.theme())
    fig = figures.folds(
        frames.panels(subject, "folded", look),
        control=frames.rows(subject.base, "folded"),
        look=look,
    )
    _chart(subject, fig, "folded", "phases", "Points: the measure by phase. ")


def _spectra(subject: Subject) -> None:
    look = look_of(state.theme())
    fig = figures.spectra(frames.panels(subject, "spectrum", look), look=look)
    _chart(subject, fig, "spectrum", "spectra", "Stems: share of variance by period. ")


def _chart(subject: Subject, fig, part: str, name: str, alt: str) -> None:
    look = look_of(state.theme())
    export.chart(
        fig,
        lambda: frames.long(subject, part),
        f"compare-{name}",
        look,
        alt=alt + frames.described(subject),
        width=1200,
    )


DRAW: dict[str, Callable[[Subject], None]] = {
    "curves": _curves,
    "residues": _folds,
    "spectra": _spectra,
    "tokens": strips.strips,
    "attention": maps.attention,
    "timelines": maps.timelines,
}
