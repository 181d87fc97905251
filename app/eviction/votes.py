"""At the event: scores by position, which query won what, and what stayed and went as text."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import export
from app.benchmark.below import html_table
from app.eviction import claims, frames, strip
from app.figures.theme import Look
from app.figures.votes import observer_name, scores, voters
from app.style import text
from app.words import NOTHING, count, number, visible

SHOWN = 8  # rows of the short table


def votes(trace: dict, frame: pd.DataFrame, place: int, look: Look) -> None:
    told = trace["events"][place]
    observers = frames.observers(told, frames.texts(trace))
    won = frames.voted(frame)
    st.space("small")
    text("section", claims.votes(won, observers), tag="h2")
    text(
        "note",
        "A score is the method’s own. The winner of an entry is the query and head whose weight "
        "on it is largest; protected entries need no vote."
        if len(observers)
        else "Scores are the order of the method’s rule; no query is asked.",
    )
    _scores(frame, look)
    if len(observers):
        _voters(won, observers, look)
    _lists(frame)


def _voters(won: pd.DataFrame, observers: pd.DataFrame, look: Look) -> None:
    left, right = st.columns([11, 7], gap="medium")
    with left:
        fig = voters(won, observers, look=look)
        table = won.drop(columns=["fate"])
        alt = f"Dots: {count(len(won), 'kept entry', 'kept entries')} by the query that won each"
        export.chart(fig, table, "voters", look, alt=alt)
    with right:
        _table(won, observers)


def _scores(frame: pd.DataFrame, look: Look) -> None:
    counts = frame["fate"].value_counts()
    kept, gone = int(counts.get("kept", 0)), int(counts.get("evicted", 0))
    held = int(counts.get("protected", 0))
    told = f"Circle: {kept} kept by score; cross: {gone} evicted; square: {held} protected"
    fig = scores(frame, subtitle=told + ". Dotted: the last that stayed", look=look)
    export.chart(fig, frame, "scores", look, alt=f"Dots: score by position. {told}")


def _table(won: pd.DataFrame, observers: pd.DataFrame) -> None:
    """The queries that won most, with a word of each and its heads."""
    text("chart-title", "Queries that kept most", tag="div")
    if not len(won):
        text("note", "No vote at this event.")
        return
    named = observers.set_index("observer", drop=False)
    rows = []
    for who, held in won.groupby("observer"):
        told = named.loc[who]
        rows.append(
            [
                observer_name(told),
                visible(told["text"])[:14] if told["position"] >= 0 else NOTHING,
                ", ".join(str(h) for h in sorted(set(held["head"]))),
                str(len(held)),
                number(len(held) / len(won), 2),
            ]
        )
    rows.sort(key=lambda r: -int(r[3]))
    html_table(("Query", "Token", "Heads", "Entries", "Share"), rows[:SHOWN], words=3)
    if len(rows) > SHOWN:
        rest = sum(int(r[3]) for r in rows[SHOWN:])
        others = count(len(rows) - SHOWN, "query", "queries")
        text("note", f"{others} more kept {count(rest, 'entry', 'entries')}.")


def _lists(frame: pd.DataFrame) -> None:
    """What stayed and what went at this event, in the text's order."""
    left, right = st.columns(2, gap="large")
    for column, name, title in ((left, "evicted", "Evicted here"), (right, "kept", "Kept here")):
        gone = frame["fate"] == "evicted"
        rows = frame[gone if name == "evicted" else ~gone]
        with column:
            told = count(len(rows), "token")
            st.html(f'<div class="ps-chart-title">{title}<small>{told}</small></div>')
            with st.container(key=name):
                st.html(strip.listed(rows.to_dict("records")))
