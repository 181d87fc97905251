"""Probability of the answer over shifts or residues, with control, interval, rivals and strides.

Pure: frames in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from app.figures.theme import (
    LIGHT,
    NAMED,
    Look,
    bands,
    end_labels,
    placeholder,
    probability_axis,
    ribbon,
    start,
    token_label,
)
from app.words import count as number_of
from app.words import number

SHOWN_RIVALS = 3


def phase_curve(
    gold: pd.DataFrame,
    *,
    axis: str,
    count: int,
    stride: int | None,
    first: int = 0,
    control: pd.DataFrame | None = None,
    rivals: pd.DataFrame | None = None,
    answer: str = "",
    answers: str = "answer",
    samples: int | None = None,
    running: bool = False,
    first_token: bool = False,
    look: Look = LIGHT,
    flat_label: str = "full cache",
    grid: bool = True,
) -> go.Figure:
    """gold: x, value, low, high, phase [, position].  control: x, value.  rivals: name, x, value.

    `axis`: "shift" (tokens in front of the target) or "residue" (its position mod R); `count`: R;
    `first`: an x where a stride begins.  low and high may be missing: then no interval is drawn.
    `running`: more prompts may come.  `first_token`: rivals are read by their first token alone,
    the answer whole.  `grid`: False for the control's own page, where the line is the control.
    """
    noun = {"shift": "shifts", "residue": "residues", "document": "documents"}[axis]
    interval = has_interval(gold)
    alone = ", first token" if first_token and rivals is not None and len(rivals) else ""
    parts = ["Bands: one stride of " + str(stride) + "."] if stride and stride > 1 else []
    if interval:
        told = "Ribbon: 95 %, by prompt." if alone else "Light ribbon: 95 %, resampled by prompt"
        parts.append(told)
    elif samples:
        stop = "." if alone else ""
        parts.append(number_of(samples, "prompt") + (" so far" if running else "") + stop)
    if alone:
        parts.append("Rivals: first token alone")
    fig = start(
        look,
        f"Probability of the {answers} over {count} {noun}",
        " ".join(parts),
        right=152 if alone else 90,
        left=NAMED,
    )
    top = max(count - 1, 1)
    bands(fig, look, stride, 0, top, first=first)
    if interval:
        known = gold.dropna(subset=["low", "high"])
        ribbon(
            fig, look, known["x"].tolist(), known["low"].tolist(), known["high"].tolist(), look.gold
        )
    names, named = [], token_label(answer) if answer else ""
    if control is not None and len(control):
        fig.add_scatter(
            x=control["x"],
            y=control["value"],
            mode="lines",
            line=dict(color=look.control, width=2),
            name=flat_label,
            hovertemplate="%{y:.3f}",
        )
        names.append((float(control["value"].iloc[-1]), flat_label, look.ink2))
    if rivals is not None and len(rivals):
        worst = rivals.groupby("name")["value"].max().sort_values(ascending=False, kind="stable")
        for name in worst.index[:SHOWN_RIVALS]:
            line = rivals[rivals["name"] == name].sort_values("x")
            label = token_label(name)
            fig.add_scatter(
                x=line["x"],
                y=line["value"],
                mode="lines",
                line=dict(color=look.rival, width=1.75, dash="4px,3px"),
                name=f"rival {label}{alone}",
                hovertemplate="%{y:.3f}",
            )
            ends = f"rival&nbsp; {label}{alone}"
            names.append((float(line["value"].iloc[-1]), ends, look.rival_text))
    if len(gold):
        hover = gold.apply(lambda row: _hover(row, axis, stride), axis=1)
        fig.add_scatter(
            x=gold["x"],
            y=gold["value"],
            mode="lines+markers",
            cliponaxis=False,
            line=dict(color=look.gold, width=2.25),
            marker=dict(size=8, color=look.gold, line=dict(color=look.page, width=1.25)),
            name=f"gold {named}".strip(),
            text=hover,
            hovertemplate="%{y:.3f}<br>%{text}",
        )
        names.append(
            (
                float(gold["value"].iloc[-1]),
                f"<b>gold</b>&nbsp; {named}" if named else "<b>gold</b>",
                look.gold_text,
            )
        )
    else:
        placeholder(fig, look, "No copies measured yet")
    probability_axis(fig, title="probability")
    step = _tick_step(count, stride)
    fig.update_xaxes(
        range=[-0.5, top + 0.5],
        tickvals=list(range(0, count, step)),
        title_text=_axis_title(axis, count),
        layer="below traces",
    )
    if axis == "document":
        fig.update_xaxes(tickvals=[0, 1], ticktext=["A", "B"])
    end_labels(fig, top + 0.15, names)
    return fig


def has_interval(frame: pd.DataFrame) -> bool:
    return {"low", "high"} <= set(frame.columns) and bool(frame["low"].notna().any())


def _hover(row: pd.Series, axis: str, stride: int | None) -> str:
    parts = [f"{axis} {row['x']:g}"]
    if stride and pd.notna(row.get("phase")):
        parts.append(f"t mod {stride} = {row['phase']:g}")
    if pd.notna(row.get("position")):
        parts.append(f"target at position {row['position']:g}")
    if pd.notna(row.get("low")):
        parts.append(f"{number(row['low'], 2)} to {number(row['high'], 2)}")
    return ", ".join(parts)


def _axis_title(axis: str, count: int) -> str:
    return {
        "shift": "shift, tokens",
        "residue": f"target position mod {count}",
        "document": "document",
    }[axis]


def _tick_step(count: int, stride: int | None) -> int:
    step = stride if stride and stride > 1 else 4 if count > 8 else 1
    while count / step > 12:
        step *= 2
    return step
