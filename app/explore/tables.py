"""Tabs that are tables: likeliest tokens by phase, and the design of the copies."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import export, frames, services, state
from app.explore.subject import Subject
from app.figures.folded import by_residue
from app.figures.likely import likely, width_of
from app.figures.theme import look_of
from app.style import text
from app.words import number, visible

ALL = "mean over copies"  # where no stride makes phases


def sample_choice(subject: Subject, where: str) -> int:
    """Which prompt is looked at; part of the link."""
    n = int(subject.spec.get("samples") or 1)
    if n < 2 or subject.protocol == "":
        return 0
    state.whole("sample")
    if not 1 <= state.value("sample", 1) <= n:
        state.put("sample", 1)
    return (
        int(
            st.number_input(
                f"Prompt, 1 to {n}", 1, n, key="sample", bind="query-params", help=where
            )
        )
        - 1
    )


def needs_run(subject: Subject, what: str) -> bool:
    """Say what to do where nothing was measured; True when the tab can go on."""
    if subject.run is None or (subject.status != "done" and not subject.report):
        text("note", f"{what} after a run. Press Run at the left.")
        return False
    return True


def top_tokens(subject: Subject) -> None:
    if not needs_run(subject, "The likeliest answers at each phase stand here"):
        return
    left, _ = st.columns([1, 4])
    with left:
        sample = sample_choice(subject, "Top tokens are of one prompt's copies")
    rows = services.tokens(subject.key, sample)
    names = services.names(subject.key, frames.likely_ids(rows))
    stride = subject.stride or (2 if subject.protocol == "pair" else None)
    frame = frames.top_tokens(rows, stride, names)
    if not len(frame):
        text("note", "No token rows were stored for this prompt.")
        return
    wide = frame.assign(cell=frame["token"] + "   " + frame["probability"].map(number))
    table = wide.pivot(index="place", columns="phase", values="cell")
    noun = "document" if subject.protocol == "pair" else "phase"
    groups = [(int(c), f"{noun} {c}" if stride else ALL) for c in table.columns]
    table.columns = [name for _, name in groups]
    title = f"Likeliest answers by {noun}" if stride else "Likeliest answers"
    look = look_of(state.theme())
    fig = likely(frame, groups, title=title, look=look)
    if not stride:  # one group of all copies
        frame = frame.drop(columns="phase")
    with st.container(key="chart-top-tokens"):
        text("chart-title", title, tag="div")
        st.dataframe(
            table.fillna("").reset_index(names="rank"),
            hide_index=True,
            width="stretch",
            key="top-tokens",
        )
        export.menu(fig, frame, "top-tokens", look, width=width_of(groups))
    if subject.protocol != "pair":
        rows = frames.usable(services.answers(subject.key, settled=not subject.active))
        if len(rows) and max(map(len, rows["token_logprobs"])) > 1:
            answer_tokens(subject, rows)


def answer_tokens(
    subject: Subject, answers: pd.DataFrame, control: pd.DataFrame | None = None
) -> None:
    """Per-token and joint probability by phase or document: a mean over digits hides the gap."""
    pair = subject.protocol == "pair"
    own = frames.answer_tokens(answers, subject.stride, pair)
    if not len(own):
        return
    wide = _by_group(own, "AB" if pair else None)
    if not pair and not subject.stride:
        wide.columns = [ALL]
    if pair and control is not None and len(control):
        flat = _by_group(frames.answer_tokens(control, None, pair), "AB")
        wide = wide.join(flat.rename(columns=lambda c: f"{c}, full cache"))
    texts = [
        visible(t["text"]) for t in ((subject.plan or {}).get("answer") or {}).get("tokens", [])
    ]
    names = [
        "all tokens"
        if k < 0
        else texts[k]
        if k < len(texts) and not _varies(subject)
        else f"token {k + 1}"
        for k in wide.index
    ]
    told = ", both documents" if pair else " by its own phase" if subject.stride else ""
    text("chart-title", f"Each answer token{told}", tag="div")
    st.dataframe(
        wide.map(number).assign(answer=names).set_index("answer").reset_index(),
        hide_index=True,
        width="stretch",
        key="answer-tokens",
    )


def _varies(subject: Subject) -> bool:
    """Whether prompts have answers of their own, so that no token text stands for all."""
    return int(subject.spec.get("samples") or 1) > 1


def _by_group(frame: pd.DataFrame, letters: str | None) -> pd.DataFrame:
    table = frame.pivot(index="token", columns="group", values="probability")
    order = [*[k for k in table.index if k >= 0], *[k for k in table.index if k < 0]]
    names = [f"document {letters[int(c) % 2]}" if letters else f"phase {c}" for c in table.columns]
    return table.loc[order].set_axis(names, axis=1)


def design(subject: Subject) -> None:
    """Where the targets stand in each residue group; with a run, accuracy by residue beside it."""
    plan = subject.plan
    if not plan:
        text("note", "The design appears when the form is valid.")
        return
    frame = pd.DataFrame(plan["design"])
    left, right = st.columns([1, 1], gap="medium")
    with left:
        shown, asked = plan.get("designed"), int(subject.spec.get("samples") or 0)
        part = f" Of the first {shown} of {asked} prompts." if shown and shown < asked else ""
        text(
            "note",
            "Targets must have equal mean and spread of position in every residue group; "
            f"residue is the target's position mod R.{part}",
        )
        st.dataframe(
            frame,
            hide_index=True,
            width="stretch",
            height=min(420, 36 * (len(frame) + 1) + 2),
            key="design",
            column_config={
                "residue": st.column_config.NumberColumn("Residue"),
                "n": st.column_config.NumberColumn("Copies"),
                "target_mean": st.column_config.NumberColumn("Target, mean", format="%.1f"),
                "target_sd": st.column_config.NumberColumn("Target, sd", format="%.2f"),
                "target_var": st.column_config.NumberColumn("Target, variance", format="%.1f"),
                "query_mean": st.column_config.NumberColumn("Query, mean", format="%.1f"),
                "length": st.column_config.NumberColumn("Length", format="%.1f"),
            },
        )
        st.download_button(
            "CSV",
            lambda: services.csv(frame),
            "phasescope-design.csv",
            "text/csv",
            on_click="ignore",
        )
    with right:
        report = subject.report
        if report and subject.protocol != "pair":
            table = pd.DataFrame(report["residues"])[["residue", "accuracy", "low", "high", "n"]]
            table = table.astype(float)
            look = look_of(state.theme())
            fig = by_residue(table, modulus=subject.modulus, stride=subject.stride, look=look)
            export.chart(
                fig,
                table,
                "accuracy",
                look,
                alt="Points: accuracy by residue with Wilson intervals",
            )
