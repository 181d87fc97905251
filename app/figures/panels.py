"""One memory of many: accuracy by residue on the scale that all panels share.

Pure: frames in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from app.figures.marks import Mark
from app.figures.theme import LIGHT, PANEL, Look, bands, placeholder, probability_axis, ribbon
from app.words import number

NAMED_AXIS = 20  # more height where the x axis has its name


def panel(
    frame: pd.DataFrame,
    *,
    modulus: int,
    stride: int | None,
    mark: Mark,
    control: pd.DataFrame | None = None,
    chance: float | None = None,
    note: str = "",
    named: bool = False,
    look: Look = LIGHT,
) -> go.Figure:
    """frame: residue, value, low, high.  control: residue, value, drawn faintly behind.

    `note`: what an empty panel says.  `named`: whether the x axis is named (last row of panels).
    """
    fig = go.Figure()
    fig.update_layout(
        template=look.template,
        height=PANEL + NAMED_AXIS * named,
        margin=dict(l=0, r=8, t=6),
    )
    bands(fig, look, stride, 0, modulus - 1, tint=False)
    if chance is not None:
        chance_line(fig, look, chance, modulus)
    if control is not None and len(control):
        fig.add_scatter(
            x=control["residue"],
            y=control["value"],
            mode="lines",
            line=dict(color=look.tint(look.control, 0.75), width=1.25),
            name="full cache",
            hovertemplate="%{y:.3f}",
        )
    if len(frame):
        known = frame.dropna(subset=["low", "high"])
        if len(known):
            ribbon(
                fig,
                look,
                known["residue"].tolist(),
                known["low"].tolist(),
                known["high"].tolist(),
                mark.colour,
            )
        fig.add_scatter(
            x=frame["residue"],
            y=frame["value"],
            mode="lines+markers",
            cliponaxis=False,
            line=dict(color=mark.colour, width=1.75),
            marker=dict(size=5, color=mark.colour, symbol=mark.symbol),
            name="accuracy",
            text=hover(frame, modulus, stride),
            hovertemplate="%{y:.3f}<br>%{text}",
        )
    elif note:
        placeholder(fig, look, note)
        fig.layout.annotations[-1].y = 0.74  # between two gridlines
    probability_axis(fig, small=True)
    fig.update_yaxes(ticktext=["0", ".5", "1"])
    residue_axis(fig, modulus, step=6, title=f"target position mod {modulus}" if named else "")
    return fig


def chance_line(fig: go.Figure, look: Look, chance: float, modulus: int) -> None:
    """The level of a guess, dotted."""
    fig.add_shape(
        type="line",
        x0=-0.5,
        x1=modulus - 0.5,
        y0=chance,
        y1=chance,
        line=dict(color=look.ink3, width=1.25, dash="1px,3px"),
        layer="below",
    )


def residue_axis(fig: go.Figure, modulus: int, *, step: int, title: str = "") -> None:
    """Ticks every `step` residues and at the last one."""
    ticks = [r for r in range(0, modulus, step) if r <= modulus - 1 - step / 2]
    fig.update_xaxes(
        layer="below traces",
        range=[-0.5, modulus - 0.5],
        tickvals=[*ticks, modulus - 1],
        title_text=title,
    )


def hover(frame: pd.DataFrame, modulus: int, stride: int | None) -> list[str]:
    """`residue 7, t mod 8 = 7, .10 to .21` for each row."""
    out = []
    for row in frame.to_dict("records"):
        parts = [f"residue {row['residue']:g}"]
        if stride:
            parts.append(f"t mod {stride} = {row['residue'] % stride:g}")
        if pd.notna(row.get("low")) and pd.notna(row.get("high")):
            parts.append(f"{number(row['low'], 2)} to {number(row['high'], 2)}")
        out.append(", ".join(parts))
    return out
