"""The three charts: curve over shifts or residues, fold, spectrum."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import export, frames, services, state
from app.explore import tables
from app.explore.subject import Subject
from app.figures.curve import phase_curve
from app.figures.folded import by_residue, folded
from app.figures.spectrum import autocorrelation, spectrum
from app.figures.theme import Look, look_of

TITLES = {"joint": "answer", "token": "answer tokens", "accuracy": "first choice being right"}


def charts(subject: Subject) -> None:
    look = look_of(state.theme())
    settled = not subject.active
    started = subject.run is not None
    answers = (
        frames.usable(services.answers(subject.key, settled=settled)) if started else pd.DataFrame()
    )
    control = pd.DataFrame()
    if started and (subject.active or (subject.report or {}).get("control")):
        control = frames.usable(services.answers(subject.key, control=True, settled=settled))
    shares = [1, 1] if subject.protocol == "pair" else [11.6, 5.4, 5.4]
    left, middle, *rest = st.columns(shares, gap="medium")
    with left:
        _curve(subject, answers, control, look)
    if subject.protocol == "pair":
        with middle:
            tables.answer_tokens(subject, answers, control)
        return
    with middle:
        _fold(subject, answers, control, look)
    with rest[0]:
        _spectrum(subject, look)


def _curve(subject: Subject, answers: pd.DataFrame, control: pd.DataFrame, look: Look) -> None:
    natural = frames.natural_axis(answers, subject.protocol, (subject.plan or {}).get("design"))
    options = ["document"] if natural == "document" else ["shift", "residue"]
    state.within("x", options)
    axis = state.value("x", natural) or natural
    stride, measure = subject.stride, subject.measure
    origin = int(subject.spec["memory"].get("origin") or 0)
    gold = frames.curve(answers, axis, measure, stride)
    if subject.report and not subject.active:
        gold = frames.with_intervals(gold, subject.report, axis)
    flat = frames.curve(control, axis, measure, stride)
    if not len(flat) and (subject.report or {}).get("control"):
        flat = frames.with_intervals(flat, subject.report["control"], axis)
    others = frames.rivals(answers, subject.rivals, axis)
    first = frames.first_tokens(answers, (subject.plan or {}).get("rivals") or [])
    fig = phase_curve(
        gold,
        axis=axis,
        count=subject.modulus,
        stride=stride,
        first=frames.first_boundary(
            answers, (subject.plan or {}).get("strip"), stride, axis, origin
        ),
        control=flat,
        rivals=others,
        answer=subject.answer if subject.one_answer else "",
        answers=TITLES.get(measure, "answer"),
        samples=int(answers["sample"].nunique()) if len(answers) else None,
        running=subject.active,
        first_token=first,
        look=look,
    )

    def axis_choice() -> None:
        if len(options) > 1:
            st.segmented_control(
                "Over",
                options,
                default=natural,
                format_func=str.capitalize,
                key="x",
                bind="query-params",
                required=True,
                help="Shift: tokens put in front of the target. Residue: the target's own "
                "position mod R, "
                "by which samples are aligned.",
            )

    table = gold.rename(columns={"value": "gold"})
    alone = ", first token" if first else ""
    if len(flat):
        table = table.merge(
            flat[["x", "value"]].rename(columns={"value": "full_cache"}), on="x", how="left"
        )
    for name, line in others.groupby("name", sort=False):
        table = table.merge(
            line[["x", "value"]].rename(columns={"value": f"rival {name}{alone}"}),
            on="x",
            how="left",
        )
    table = table.rename(columns={"x": axis})
    export.chart(fig, table, "curve", look, alt=_spoken(gold, axis), extra=axis_choice)


def _spoken(gold: pd.DataFrame, axis: str) -> str:
    if not len(gold):
        return "Empty chart: probability of the answer, not measured yet"
    low, high = gold["value"].min(), gold["value"].max()
    return f"Line chart: probability of the answer by {axis}, from {low:.2f} to {high:.2f}"


def _fold(subject: Subject, answers: pd.DataFrame, control: pd.DataFrame, look: Look) -> None:
    stride, measure = subject.stride, subject.measure
    if not stride and subject.report:
        columns = ["residue", "accuracy", "low", "high", "n"]
        table = pd.DataFrame(subject.report["residues"])[columns].astype(float)
        fig = by_residue(
            table, modulus=subject.modulus, stride=None, look=look, height=284, most_ticks=8
        )
        export.chart(fig, table, "folded", look, alt="Points: accuracy by residue", width=420)
        return
    fold = stride or min(subject.modulus, 16)
    frame = frames.folded(subject.report) if subject.report else pd.DataFrame()
    if not len(frame):
        frame = frames.fold(answers, fold, measure)
    flat = frames.folded((subject.report or {}).get("control"))
    if not len(flat):
        flat = frames.fold(control, fold, measure)
    fig = folded(
        frame,
        stride=fold,
        dots=frames.residue_dots(answers, fold, measure),
        control=flat,
        look=look,
    )
    export.chart(fig, frame, "folded", look, alt="Points: the measure at each phase", width=420)


def _spectrum(subject: Subject, look: Look) -> None:
    """DFT or autocorrelation of the mean curve; which one is part of the link."""
    report = subject.report if not subject.active else None
    period = (report or {}).get("period") or {}
    configured = period.get("configured") or subject.stride
    views = ["Power", "Autocorrelation"]
    state.within("bars", views)
    view = state.value("bars", views[0]) or views[0]
    if view == "Power":
        frame = frames.spectrum(report)
        fig = spectrum(
            frame,
            configured=configured,
            detected=period.get("detected"),
            chance=frames.bar_chance(subject.modulus),
            look=look,
        )
    else:
        frame = frames.autocorrelation(report)
        fig = autocorrelation(frame, configured=configured, look=look)

    def choice() -> None:
        st.segmented_control(
            "Show", views, default=views[0], key="bars", bind="query-params", required=True
        )

    alt = f"Bars: {view.lower()} of the mean curve"
    export.chart(fig, frame, "spectrum", look, alt=alt, width=420, extra=choice)
