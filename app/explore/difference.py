"""Which tokens are likelier at one phase of the target than at another."""

from __future__ import annotations

import streamlit as st

from app import export, frames, services, state, tokens
from app.explore.subject import Subject
from app.explore.tables import needs_run, sample_choice
from app.figures.difference import token_difference
from app.figures.theme import look_of
from app.style import text
from app.words import number


def difference(subject: Subject) -> None:
    if not needs_run(subject, "Differences between two phases stand here"):
        return
    stride = subject.stride or (2 if subject.protocol == "pair" else min(subject.modulus, 16))
    phases = list(range(stride))
    best, worst = _defaults(subject, stride)
    noun = "Document" if subject.protocol == "pair" else "Phase"
    first, second, third, _ = st.columns([1, 1, 1, 3])
    state.within("a", phases)
    state.within("b", phases)
    with first:
        a = st.selectbox(noun, phases, index=best, key="a", bind="query-params")
    with second:
        b = st.selectbox("Minus", phases, index=worst, key="b", bind="query-params")
    with third:
        sample = sample_choice(subject, "Token rows are of one prompt's copies")
    rows = services.tokens(subject.key, sample)
    frame = frames.difference(rows, stride, a, b, subject.protocol, subject.opens_with_padding)
    if not len(frame):
        text("note", "No token rows are stored for these two phases of this prompt.")
        return
    look = look_of(state.theme())
    widest = float(frame["difference"].abs().max()) or 1.0
    origin = int(subject.spec["memory"].get("origin") or 0)
    rows = [
        {
            "position": int(r.position),
            "text": r.text,
            "role": r.role,
            "phase": int(r.phase),
            "window": (int(r.position) - origin - int(r.origin) % stride) // stride,
            "target": r.role == "target",
        }
        for r in frame.sort_values("position").itertuples()
    ]
    shades = {
        int(p): d / widest for p, d in zip(frame["position"], frame["difference"], strict=True)
    }
    notes = {
        int(p): f"difference {number(d)} nats"
        for p, d in zip(frame["position"], frame["difference"], strict=True)
    }
    st.html(
        tokens.strip(
            {"tokens": rows, "stride": stride}, limit=96, scored=False, shades=shades, notes=notes
        )
    )
    st.html(
        '<div class="ps-legend"><span class="ps-item"><bdi class="ps-tok ps-up" '
        'style="--s:1">a</bdi> likelier at '
        f'phase {a}</span><span class="ps-item"><bdi class="ps-tok ps-down" '
        f'style="--s:1">a</bdi> likelier at phase '
        f"{b}</span></div>"
    )
    fig = token_difference(frame, first=a, second=b, stride=stride, look=look)
    export.chart(
        fig,
        frame,
        "difference",
        look,
        alt="Bars: log-probability difference of each token",
        width=1200,
    )


def _defaults(subject: Subject, stride: int) -> tuple[int, int]:
    report = subject.report or {}
    best, worst = report.get("best_phase"), report.get("worst_phase")
    if best is None or worst is None or best == worst:
        return 0, min(1, stride - 1)
    return int(best), int(worst)
