"""The first tab: what was forgotten, event by event, for one method, sample, layer and head."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import export, services_eviction, state
from app.eviction import after, claims, frames, observed, pick, strip, votes, waiting
from app.eviction.pick import Pick
from app.eviction.steps import steps
from app.eviction.subject import Subject
from app.figures.overtime import held_bytes, likelihood, retention
from app.figures.theme import Look, look_of
from app.figures.timeline import timeline
from app.style import text
from app.words import count


def forgotten(subject: Subject) -> None:
    chosen = pick.choose(subject)
    if chosen is None:
        return
    trace = waiting.traced(subject.key, chosen.asked)
    if trace is None:
        _known(subject, chosen)
        return
    _replay(subject, chosen, trace)
    after.distances(subject, chosen, trace)


def _known(subject: Subject, chosen: Pick) -> None:
    """What is stored without a trace: marks and questions; of the first sample, its prompt."""
    place = {"arm": int(chosen.arm["arm"]), "sample": chosen.sample}
    marks = services_eviction.table(subject.key, "marks", **place)
    asked = services_eviction.table(subject.key, "answers", **place)
    tokens = ((subject.plan or {}).get("sample") or {}).get("tokens") or []
    if tokens and not chosen.sample:
        text("section", "The prompt, with what is asked again at the end", tag="h2")
        with st.container(key="text"):
            st.html(strip.text(tokens, {}) + strip.legend(event=False))
    left, right = st.columns(2, gap="medium")
    if len(marks):
        look = look_of(state.theme())
        with left:
            fig = retention(marks, subtitle=after.MEAN, look=look)
            alt = "Steps: share of each marked span that is still in the cache"
            export.chart(fig, marks, "retention", look, alt=alt, width=620)
    if len(asked):
        with right:
            text("section", claims.answered(asked), tag="h2")
            after.questions(asked)


@st.fragment
def _replay(subject: Subject, chosen: Pick, trace: dict) -> None:
    """All that follows the chosen event: a step redraws this and nothing else."""
    look = look_of(state.theme())
    events = trace.get("events") or []
    place = {"arm": int(chosen.arm["arm"]), "sample": chosen.sample}
    marks = services_eviction.table(subject.key, "marks", **place)
    asked = services_eviction.table(subject.key, "answers", **place)
    if not events:
        _nothing_evicted(trace, chosen)
        after.answers(trace, asked, look)
        return
    place = steps(len(events)) - 1
    frame = frames.event(trace, place)
    _text(trace, frame, place)
    st.space("small")
    seen = [int(e["seen"]) for e in events]
    _over_time(chosen, trace, seen, place, look)
    votes.votes(trace, frame, place, look)
    observed.observed(trace, place, look)
    after.after(trace, marks, seen, place, look)
    after.answers(trace, asked, look)


def _nothing_evicted(trace: dict, chosen: Pick) -> None:
    tokens = trace.get("tokens") or []
    budget = int(chosen.arm.get("own_budget") or chosen.arm["budget"])
    text("section", "No event: nothing was forgotten", tag="h2")
    text("doubt", without_event(budget, len(tokens)))
    st.html(strip.text(tokens, {}) + strip.legend(event=False))


def without_event(budget: int, total: int) -> str:
    """Why: a budget below the text may still see no event, where these come in periods."""
    read = f"prompt and steps are {count(total, 'token')}"
    if total <= budget:
        return f"The budget of {count(budget, 'token')} holds all: {read}."
    return f"No event came: {read}, the budget is {count(budget, 'token')}."


def _text(trace: dict, frame: pd.DataFrame, place: int) -> None:
    """The text read so far, with what is gone and what goes now."""
    told = trace["events"][place]
    text("section", claims.event(frame, place, int(told["seen"])), tag="h2")
    fates = dict(zip(frame["position"], frame["fate"], strict=True))
    words = {"evicted": "out", "kept": "held", "protected": "safe"}
    tokens = [t for t in trace["tokens"] if int(t["position"]) < int(told["seen"])]
    shown = {int(t["position"]): "gone" for t in tokens}
    shown |= {int(p): words[fate] for p, fate in fates.items()}
    with st.container(key="text"):
        st.html(strip.text(tokens, shown) + strip.legend())


def _over_time(chosen: Pick, trace: dict, seen: list[int], place: int, look: Look) -> None:
    left, right = st.columns([11, 7], gap="medium")
    with left:
        table = frames.segments(trace)
        fig = timeline(table, events=seen, chosen=place, marks=frames.spans(trace), look=look)
        export.chart(
            fig,
            table,
            "timeline",
            look,
            alt=f"Rows of tokens over tokens read, with {count(len(seen), 'event')}",
        )
    label = chosen.arm["label"]
    with right:
        nll = frames.likelihood(trace)
        fig = likelihood(nll, label=label, events=seen, chosen=place, look=look)
        alt = "Lines: negative log-likelihood over position, this method and the full cache"
        export.chart(fig, nll, "likelihood", look, alt=alt, width=560)
        held = frames.series(trace, "bytes", ("bytes", "full"))
        fig = held_bytes(held, label=label, events=seen, chosen=place, look=look)
        alt = "Lines: bytes of the cache over position, this method and the full cache"
        export.chart(fig, held, "cache", look, alt=alt, width=560)
