"""Training coverage beside the toy study, and trainings that run now."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape

import pandas as pd
import streamlit as st

from app import export, services, state
from app.benchmark import claims, family
from app.benchmark.below import html_table
from app.benchmark.family import measured, numbers
from app.benchmark.panels import PICTURE
from app.figures.learning import Lesson, learning
from app.figures.marks import mark
from app.figures.residues import Line, by_residue
from app.figures.theme import PAIR, Look, look_of
from app.style import text
from app.words import NOTHING, ago, number, seconds, sentence

ROLES = {"zero": "phase 0 only", "all": "all phases", "under": "under-trained"}
# The toy study's figures, as published: gap and mean; it reports a recall of 0 where under-trained.
TOY = {"zero": (".500", NOTHING), "all": ("≈ 0", ".500"), "under": (NOTHING, "0")}
RECENT = 3600.0  # seconds for which an ended training is still shown


def coverage(members: list[dict]) -> None:
    """Accuracy by phase, learning curves, and means beside gaps."""
    roles = claims.coverage_roles(members)
    if not roles:
        return
    look = look_of(state.theme())
    text("section", claims.coverage(roles), tag="h2")
    text("doubt", claims.coverage_line(roles))
    if any(measured(m) or m.get("curve") for m in roles.values()):
        left, right = st.columns(2, gap="medium")
        with left:
            _by_phase(roles, look)
        with right:
            _learning(roles, look)
    rows = []
    for role, member in roles.items():
        report = numbers(member)
        gap, mean = TOY[role]
        rows.append(
            [
                ROLES[role],
                f"{member.get('steps') or NOTHING}",
                gap,
                number(claims.spread(report)),
                mean,
                number(report.get("mean")),
                number(report.get("chance")),
            ]
        )
    gaps = ("Gap over phases, toy study", "Gap over phases, here")
    heads = ("Trained on", "Steps", *gaps, "Mean, toy study", "Mean, here")
    html_table((*heads, "Chance, here"), rows)


def _by_phase(roles: dict[str, dict], look: Look) -> None:
    first = next(iter(roles.values()))
    lines = [
        Line(ROLES[role], family.curve(numbers(m)), mark(i, look))
        for i, (role, m) in enumerate(roles.items())
        if measured(m)
    ]
    fig = by_residue(
        lines,
        title="Accuracy by phase",
        subtitle=f"{family.geometry(first)}, one record every 8 tokens. Ribbon: Wilson 95 %",
        modulus=int(numbers(first).get("modulus") or 24),
        stride=first.get("stride"),
        chance=numbers(first).get("chance"),
        height=PAIR,
        look=look,
    )
    frames = [line.frame.assign(trained_on=line.name) for line in lines]
    table = pd.concat(frames) if frames else pd.DataFrame()
    export.chart(fig, table, "coverage", look, alt="Lines: accuracy by phase, by training")


def _learning(roles: dict[str, dict], look: Look) -> None:
    lessons = [
        Lesson(ROLES[role], curve_frame(m.get("curve")), mark(i, look))
        for i, (role, m) in enumerate(roles.items())
    ]
    steps = max((int(m.get("steps") or 0) for m in roles.values()), default=1)
    fig = learning(
        lessons,
        title="Learning curves",
        subtitle="Accuracy on the phases that each was trained on",
        steps=steps,
        look=look,
    )
    table = pd.concat([lesson.frame.assign(trained_on=lesson.name) for lesson in lessons])
    export.chart(fig, table, "coverage-learning", look, alt="Lines: training accuracy over steps")


def curve_frame(curve: list | None) -> pd.DataFrame:
    return pd.DataFrame(curve or [], columns=["step", "loss", "accuracy"]).astype(float)


def published(rows: list[dict]) -> None:
    """Published figures, in a table of their own: never in a chart with measured rows."""
    if not rows:
        return
    source = ", ".join(dict.fromkeys(str(r.get("source") or "") for r in rows))
    text("section", "Large native models, as published", tag="h2")
    text("doubt", f"Published ({source}), not measured here.")
    table = [
        [
            row.get("model"),
            number(row.get("mean")),
            number(row.get("gap")),
            str(row.get("period") or NOTHING),
            f"{row.get('samples') or 0:,}".replace(",", "\u202f"),
            f"{row.get('tokens') or 0:,}".replace(",", "\u202f"),
        ]
        for row in rows
    ]
    heads = ("Model", "Mean", "Gap", "Period", "Prompts a residue", "Tokens")
    html_table(heads, table)


# ---- trainings that run


def trainings() -> None:
    """Running and recent trainings, refreshed while one runs; nothing where there are none."""
    if not _shown():
        return
    st.space("medium")
    text("section", "Training", tag="h2")
    text("note", "Start one with phasescope train NAME; it goes on without the dashboard.")
    running = any(run.get("state") == "running" for run in _shown())

    @st.fragment(run_every="2s" if running else None)
    def now() -> None:
        runs = _shown()
        if running and not any(run.get("state") == "running" for run in runs):
            services.forget()
            st.rerun()
        look = look_of(state.theme())
        for row in (runs[i : i + 3] for i in range(0, len(runs), 3)):
            for column, run in zip(st.columns(3, gap="medium"), row, strict=False):
                with column, st.container(key=f"training-{run['name']}", gap="xsmall"):
                    _training(run, look)

    now()


def _shown() -> list[dict]:
    """Trainings that run, then those that ended within the hour."""
    runs = services.trainings().get("runs") or []
    live = [run for run in runs if run.get("state") == "running"]
    return live + [r for r in runs if r.get("state") != "running" and _age(r) < RECENT]


def _age(run: dict) -> float:
    try:
        then = datetime.fromisoformat(str(run.get("updated")).replace("Z", "+00:00"))
    except ValueError:
        return float("inf")
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return (datetime.now(UTC) - then).total_seconds()


def _training(run: dict, look: Look) -> None:
    name, steps = str(run["name"]), int(run.get("steps") or 1)
    frame = curve_frame(run.get("curve"))
    fig = learning(
        [Lesson("", frame, mark(0, look))],
        title="",
        subtitle="",
        steps=steps,
        height=164,
        look=look,
    )
    with st.container(
        horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"
    ):
        st.html(f'<div class="ps-panel"><b>{escape(name)}</b></div>', width="content")
        with st.container(
            horizontal=True, vertical_alignment="center", gap="xsmall", width="content"
        ):
            going = run.get("state") == "running"
            stops = going and not state.read_only()
            if stops and st.button("Stop", key=f"stop-{name}", type="tertiary"):
                if refusal := services.stop_training(name):
                    text("error", sentence(refusal))
                else:
                    text("note", "It stops at its next step and keeps what it learned.")
            if len(frame):
                told = f"{name}: accuracy in training"
                export.menu(fig, frame, f"training-{name}", look, width=PICTURE, title=told)
    last = frame.iloc[-1] if len(frame) else None
    items = [
        ("step", f"{run.get('step') or 0} of {steps}"),
        ("loss", number(None if last is None else last["loss"], 2)),
        ("accuracy", number(None if last is None else last["accuracy"])),
        ("time left", left(run)) if going else ("state", ended(run)),
    ]
    body = "".join(f"<div><span>{n}</span><b>{escape(v)}</b></div>" for n, v in items)
    st.html(f'<div class="ps-numbers">{body}</div>')
    st.plotly_chart(
        fig,
        theme=None,
        key=f"training-plot-{name}",
        config=export.CONFIG,
        alt=f"Line: accuracy of {name} over training steps",
        width="stretch",
    )


def left(run: dict) -> str:
    """The time left at the speed so far."""
    step, spent = int(run.get("step") or 0), float(run.get("cpu_seconds") or 0)
    if not step or not spent:
        return "unknown"
    return seconds(spent / step * max(0, int(run.get("steps") or 0) - step))


def ended(run: dict) -> str:
    told = str(run.get("state") or "")
    reason = f", {run['reason']}" if run.get("reason") else ""
    when = ago(run.get("updated"))
    return told + reason + (f", {when} ago" if when not in ("", "now") else "")
