"""What the events cost afterwards: regret, marks over time, answers put back; global queries."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import export, state
from app.benchmark.below import html_table
from app.eviction import claims, frames, waiting
from app.eviction.pick import Pick
from app.eviction.subject import Subject
from app.figures.observed import distances as distance_figure
from app.figures.overtime import NOTHING, regret, restored, retention
from app.figures.theme import Look, look_of
from app.style import text
from app.words import count, fixed, number

MEAN = "Mean over layers and KV heads, after each event"
SLOTS = "Not measured: positions are those inside this cache, and would all move"
TOP, FAR = 150, 200  # keys of a query, and the mean distance above which it is global (BKV App. B)


def after(
    trace: dict, marks: pd.DataFrame, events: list[int], place: int | None, look: Look
) -> None:
    lost = frames.series(trace, "regret", ("mass",))
    st.space("small")
    text("section", claims.lost(marks, lost), tag="h2")
    left, right = st.columns(2, gap="medium")
    with left:
        told = "Of the full run, to entries evicted here by then"
        fig = regret(lost, subtitle=told, events=events, chosen=place, look=look)
        alt = "Line: attention of the full run to entries that this run has evicted"
        export.chart(fig, lost, "regret", look, alt=alt, width=620)
    with right:
        fig = retention(marks, subtitle=MEAN, events=events, chosen=place, look=look)
        alt = "Steps: share of each marked span that is still in the cache"
        export.chart(fig, marks, "retention", look, alt=alt, width=620)


def answers(trace: dict, asked: pd.DataFrame, look: Look) -> None:
    """The questions behind the continuation: answered or not, and what putting back would do."""
    frame = pd.DataFrame(
        trace.get("restored") or [], columns=["mark", "question", "before", "after", "full"]
    )
    if not len(frame) and not len(asked):
        return
    st.space("small")
    text("section", claims.answers(asked, frame), tag="h2")
    left, right = st.columns([11, 7], gap="medium")
    with left:
        fig = restored(frame, nothing=SLOTS if trace.get("slots") else NOTHING, look=look)
        alt = "Dots: log-probability of each answer, before and after its span was put back"
        export.chart(fig, frame, "restored", look, alt=alt)
    with right:
        questions(asked)


def questions(asked: pd.DataFrame) -> None:
    """What was asked at the end of the run, and whether it was answered."""
    text("chart-title", "Questions at the end", tag="div")
    rows = [
        [
            str(row["mark"]),
            "yes" if row["correct"] else "no",
            fixed(row["retained"], 2),
            fixed(row["logprob"], 2),
        ]
        for row in asked.to_dict("records")
    ]
    if rows:
        html_table(("About", "Right", "Retained", "Log-prob."), rows, words=2)
        text("note", "Right: every token of the answer is the first choice.")
    else:
        text("note", "This sample asks none.")


def distances(subject: Subject, chosen: Pick, trace: dict) -> None:
    """Local and global queries by layer and head; both thresholds can be moved."""
    look = look_of(state.theme())
    st.space("small")
    text("section", claims.far(frames.distances(trace)), tag="h2")
    text(
        "note",
        "A query is global if the keys that it weighs most lie further away, on average, than the "
        "threshold (BeaconKV, appendix B: 150 keys, 200 tokens). Of the full run.",
    )
    left, right = st.columns([3, 13], gap="medium")
    with left:
        for name, first in (("top", TOP), ("far", FAR)):
            state.whole(name)
            if not isinstance(state.value(name, first), int):
                state.drop(name)
        top = st.number_input(
            "Keys k", 1, 4096, TOP, key="top", bind="query-params", help="Top-k keys of a query."
        )
        far = st.number_input(
            "Far from, tokens",
            1,
            100_000,
            FAR,
            key="far",
            bind="query-params",
            help="Mean distance above which a query is global.",
        )
    with right:
        _heat(subject, chosen, trace, int(top), int(far), look)


def _heat(subject: Subject, chosen: Pick, trace: dict, top: int, far: int, look: Look) -> None:
    if (top, far) != (TOP, FAR):
        asked = chosen.asked | {"top": top, "far": far}
        trace = waiting.traced(subject.key, asked)
        if trace is None:
            return
    frame = frames.distances(trace)
    group = (subject.model.get("q_heads") or 1) // (subject.model.get("kv_heads") or 1) or 1
    share = number(float(frame["share"].mean()), 2) if len(frame) else ""
    told = f"Share of queries; mean {share}. Outlined: the chosen KV head" if len(frame) else ""
    fig = distance_figure(
        frame,
        subtitle=told,
        layer=chosen.layer,
        heads=(chosen.head * group, chosen.head * group + group - 1),
        look=look,
    )
    alt = f"Heatmap: share of global queries, {count(len(frame), 'head')}"
    export.chart(fig, frame, "distances", look, alt=alt)
