"""The measure folded to the phases of one stride, and accuracy by residue.

Pure: frames in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from app.figures.theme import LIGHT, NAMED, Look, bands, placeholder, probability_axis, start
from app.words import count, number


def folded(
    frame: pd.DataFrame,
    *,
    stride: int,
    dots: pd.DataFrame | None = None,
    control: pd.DataFrame | None = None,
    look: Look = LIGHT,
) -> go.Figure:
    """frame: phase, value, low, high.  dots: phase, value (one a residue).  control: as dots."""
    known = {"low", "high"} <= set(frame.columns) and bool(frame["low"].notna().any())
    fig = start(
        look,
        f"Folded to {stride} phases",
        "95 %, resampled by prompt" if known else "Mean of prompts",
    )
    if control is not None and len(control):
        fig.add_scatter(
            x=control["phase"],
            y=control["value"],
            mode="lines",
            line=dict(color=look.control, width=2),
            name="full cache",
            hovertemplate="%{y:.3f}",
        )
    if dots is not None and len(dots):
        fig.add_scatter(
            x=dots["phase"] + _jitter(dots["phase"]),
            y=dots["value"],
            mode="markers",
            cliponaxis=False,
            marker=dict(size=4.5, color=look.tint(look.gold, 0.4)),
            hoverinfo="skip",
            name="residues",
        )
    if len(frame):
        _points(fig, look, frame, "phase", f"t mod {stride}")
        worst, best = frame.loc[frame["value"].idxmin()], frame.loc[frame["value"].idxmax()]
        for row in [worst] if worst["phase"] == best["phase"] else [worst, best]:
            low = row["low"] if known and pd.notna(row["low"]) else row["value"]
            foot = min(low, row["value"]) - 0.02
            fig.add_annotation(
                x=row["phase"],
                y=foot if foot > 0.08 else row["value"] + 0.03,
                text=f"<b>{number(row['value'], 2)}</b>",
                showarrow=False,
                yanchor="top" if foot > 0.08 else "bottom",
                font=dict(size=13, color=look.gold_text),
            )
    else:
        placeholder(fig, look, "Not measured yet")
    probability_axis(fig)
    step = max(1, stride // 8)
    fig.update_xaxes(
        range=[-0.45, max(stride - 1, 1) + 0.6],
        tickvals=list(range(0, stride, step)),
        layer="below traces",
        title_text=f"phase, position mod {stride}",
    )
    return fig


def by_residue(
    frame: pd.DataFrame,
    *,
    modulus: int,
    stride: int | None,
    look: Look = LIGHT,
    height: int = 240,
    most_ticks: int = 16,
) -> go.Figure:
    """Prompts whose answer is the first choice.  frame: residue, accuracy, low, high, n."""
    each = int(frame["n"].max()) if len(frame) else 0
    fig = start(
        look,
        "Answered first, by residue",
        f"Wilson 95 %, {count(each, 'prompt')} a residue",
        height=height,
        left=NAMED,
    )
    bands(fig, look, stride, 0, modulus - 1)
    if len(frame):
        _points(
            fig,
            look,
            frame.rename(columns={"accuracy": "value"}),
            "residue",
            f"residue mod {modulus}",
        )
    probability_axis(fig, title="accuracy")
    step = 1
    while modulus / step > most_ticks:
        step *= 2
    fig.update_xaxes(
        range=[-0.5, modulus - 0.5],
        tickvals=list(range(0, modulus, step)),
        layer="below traces",
        title_text=f"target position mod {modulus}",
    )
    return fig


def _points(fig: go.Figure, look: Look, frame: pd.DataFrame, x: str, noun: str) -> None:
    interval = {}
    if {"low", "high"} <= set(frame.columns):
        interval["error_y"] = dict(
            type="data",
            symmetric=False,
            array=(frame["high"] - frame["value"]).clip(lower=0),
            arrayminus=(frame["value"] - frame["low"]).clip(lower=0),
            width=0,
            thickness=1.75,
            color=look.gold,
        )
    text = frame.apply(lambda row: f"{noun} = {row[x]:g}" + _span(row), axis=1)
    fig.add_scatter(
        x=frame[x],
        y=frame["value"],
        mode="markers",
        cliponaxis=False,
        marker=dict(size=9, color=look.gold, line=dict(color=look.page, width=1)),
        name="gold",
        text=text,
        hovertemplate="%{y:.3f}<br>%{text}",
        **interval,
    )


def _span(row: pd.Series) -> str:
    if pd.isna(row.get("low")) or pd.isna(row.get("high")):
        return ""
    return f", {number(row['low'], 2)} to {number(row['high'], 2)}"


def _jitter(phases: pd.Series) -> pd.Series:
    """Fixed sideways steps, so that dots of one phase stand apart and a redraw moves none."""
    place = phases.groupby(phases).cumcount()
    steps = (-0.2, 0.2, -0.12, 0.12, -0.28, 0.28)
    return place.map(lambda i: steps[i % len(steps)])
