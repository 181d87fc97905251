"""Paired differences with their intervals, and quality against bytes; a point opens its run."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import export, state
from app.compare import claims, frames
from app.compare.subject import FOREIGN, Subject
from app.figures.paired import differences
from app.figures.pareto import against_bytes
from app.figures.theme import Look, look_of
from app.style import text

FRACTIONS = ("mean", "worst", "gap", "recall")
CONTROLLED = "pairs"  # the task whose runs have the Benchmark page


def below(subject: Subject) -> None:
    look = look_of(state.theme())
    text("section", claims.differences(subject), tag="h2")
    whole = frames.differences(subject, FRACTIONS, look)
    held, why = frames.paired(whole), untold(subject, frames.unpaired(subject, whole))
    left, right = st.columns([1.28, 1], gap="large")
    paired = len(held) or subject.active or why
    if paired:
        with left:
            _pairs(subject, look, held, why)
    with right if paired else left:
        _pareto(subject, look)


def untold(subject: Subject, reasons: list[str]) -> list[str]:
    """The reasons that the head of the page does not give already."""
    said = f"{subject.told.get('doubt') or ''} {' '.join(subject.told.get('warnings') or ())}"
    said = said.casefold()
    return [why for why in reasons if why.partition(". ")[2].rstrip(".").casefold() not in said]


def _pairs(subject: Subject, look: Look, held: pd.DataFrame, why: list[str]) -> None:
    name = claims.base_name(subject)
    by = "question" if subject.base["kind"] == FOREIGN else "prompt"
    told = f"Paired by {by}, 95 %. Hollow: p ≥ .05 " + (
        f"after {subject.told['adjusted']}" if subject.told.get("adjusted") else ""
    )
    if len(held) or subject.active:
        fig = differences(
            held, title=f"Difference from {name}", subtitle=told, unit="difference", look=look
        )
        alt = "Dots: differences from the baseline with intervals, one a run and measure"
        export.chart(fig, held, "compare-pairs", look, alt=alt)
        if folding := claims.folding(subject):
            text("note", folding)
    likelihood = frames.paired(frames.differences(subject, ("nll",), look))
    if len(likelihood):
        fig = differences(
            likelihood,
            title="Negative log-likelihood",
            subtitle="Right of zero: the run is worse",
            unit="difference, nats",
            look=look,
        )
        alt = "Dots: differences in likelihood from the baseline, one a run"
        export.chart(fig, likelihood, "compare-nll", look, alt=alt)
    for reason in why:
        text("note", reason)


def _pareto(subject: Subject, look: Look) -> None:
    frame = frames.sizes(subject, look)
    if subject.foreign and not len(frame):
        text("note", "Bytes are not known of runs that were computed elsewhere.")
        return
    per_token = bool(len(frame)) and bool(frame["per_token"].iloc[0])
    decode = all(run["kind"] == "decode" for run in subject.runs)
    fig = against_bytes(
        frame,
        axis="cache, bytes per token, log scale" if per_token else "cache, bytes, log scale",
        quality=frames.quality(subject),
        subtitle="Mean recall of each method. Grey: full cache, and the baseline's"
        if decode
        else "Solid: worst phase. Hollow: mean. The line between is the phase gap",
        look=look,
    )
    with st.container(key="chart-compare-pareto"):
        chosen = st.plotly_chart(
            fig,
            theme=None,
            key=f"plot-compare-pareto-{st.session_state.get('compare-opened', 0)}",
            config=export.CONFIG,
            alt="Dots: worst phase and mean against bytes; a click opens the run",
            width="stretch",
            on_select="rerun",
            selection_mode="points",
        )
        export.menu(fig, frame, "compare-pareto", look)
    _open(subject, chosen)
    missing = [run["name"] for run in subject.runs if run["key"] not in set(frame["key"])]
    if missing and not subject.active:
        text("note", f"Without a size or a quality, and left out: {', '.join(missing)}.")


def _open(subject: Subject, chosen) -> None:
    """A click on a point opens that run on its own page."""
    points = (chosen or {}).get("selection", {}).get("points") or []
    found = points[0].get("customdata") if points else None
    key = found[0] if isinstance(found, list | tuple) and found else found
    run = next((run for run in subject.runs if run["key"] == key), None)
    if run is None:
        return
    st.session_state["compare-opened"] = st.session_state.get("compare-opened", 0) + 1
    key = run.get("of") or run["key"]
    if run["kind"] == "decode":
        st.switch_page(state.eviction(), query_params={"key": key})
    elif run["task"] == CONTROLLED:
        st.switch_page(state.benchmark(), query_params={"run": key})
    else:
        st.switch_page(state.explore(), query_params={"key": key})
