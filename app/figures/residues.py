"""Accuracy by residue of one or a few memories, named at the lines' ends.

Pure: frames in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
import plotly.graph_objects as go

from app.figures.marks import Mark
from app.figures.panels import chance_line, hover, residue_axis
from app.figures.theme import (
    LIGHT,
    NAMED,
    OPENED,
    Look,
    bands,
    end_labels,
    placeholder,
    plain,
    probability_axis,
    ribbon,
    start,
)


class Line(NamedTuple):
    """One memory's curve: residue, value, low, high."""

    name: str
    frame: pd.DataFrame
    mark: Mark


def by_residue(
    lines: Sequence[Line],
    *,
    title: str,
    subtitle: str,
    modulus: int,
    stride: int | None,
    control: pd.DataFrame | None = None,
    chance: float | None = None,
    boundary: bool = False,
    measure: str = "accuracy",
    height: int = OPENED,
    named: bool = True,
    look: Look = LIGHT,
) -> go.Figure:
    """control: residue, value, in grey.  `boundary`: label the last phase of a stride, where key
    and value fall into two windows.  `named`: names at the lines' ends.
    """
    longest = max((len(line.name) for line in lines), default=0)
    room = max(78, 16 + 7 * max(longest, 10)) if named else 8
    fig = start(look, plain(title), plain(subtitle), height=height, left=NAMED, right=room)
    bands(fig, look, stride, 0, modulus - 1, tint=False)
    if chance is not None:
        chance_line(fig, look, chance, modulus)
    ends = []
    if control is not None and len(control):
        fig.add_scatter(
            x=control["residue"],
            y=control["value"],
            mode="lines",
            line=dict(color=look.control, width=2),
            name="full cache",
            hovertemplate="%{y:.3f}",
        )
        ends.append((float(control["value"].iloc[-1]), "full cache", look.ink2))
    for line in lines:
        if len(line.frame):
            _draw(fig, look, line, modulus, stride)
            last = float(line.frame["value"].iloc[-1])
            ends.append((last, plain(line.name), line.mark.text))
    if not any(len(line.frame) for line in lines):
        placeholder(fig, look, "not run yet")
        fig.layout.annotations[-1].y = 0.61  # between two gridlines
    if boundary and lines and len(lines[0].frame) and stride:
        _name_boundary(fig, lines[0], stride)
    probability_axis(fig, title=measure)
    step = stride if stride and stride > 2 and modulus % stride == 0 else 4
    residue_axis(fig, modulus, step=step, title=f"target position mod {modulus}")
    if named:
        end_labels(fig, modulus - 1, ends, least=0.085 if height >= OPENED else 0.13)
    return fig


def _draw(fig: go.Figure, look: Look, line: Line, modulus: int, stride: int | None) -> None:
    known = line.frame.dropna(subset=["low", "high"])
    if len(known):
        places, low, high = (known[c].tolist() for c in ("residue", "low", "high"))
        ribbon(fig, look, places, low, high, line.mark.colour)
    fig.add_scatter(
        x=line.frame["residue"],
        y=line.frame["value"],
        mode="lines+markers",
        cliponaxis=False,
        line=dict(color=line.mark.colour, width=2),
        marker=dict(
            size=7,
            color=line.mark.colour,
            symbol=line.mark.symbol,
            line=dict(color=look.page, width=1),
        ),
        name=plain(line.name),
        text=hover(line.frame, modulus, stride),
        hovertemplate="%{y:.3f}<br>%{text}",
    )


def _name_boundary(fig: go.Figure, line: Line, stride: int) -> None:
    """Under the first boundary residue, or above it where there is no room below."""
    row = line.frame[line.frame["residue"] == stride - 1]
    if not len(row):
        return
    value = float(row["value"].iloc[0])
    below = value > 0.12
    fig.add_annotation(
        x=stride - 1,
        y=value - 0.03 if below else value,
        text="boundary",
        showarrow=False,
        yanchor="top" if below else "bottom",
        xanchor="center" if below else "right",
        xshift=0 if below else -8,
        yshift=0 if below else 2,
        font=dict(size=12.5, color=line.mark.text),
    )
