"""The fold of W = S in two parts: offsets inside one window, and the boundary.

Pure: frames in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from app.figures.marks import Mark
from app.figures.theme import LIGHT, OPENED, Look, end_labels, plain, probability_axis, start
from app.words import number


def within(
    folded: pd.DataFrame,
    *,
    stride: int,
    mark: Mark,
    windows: int,
    boundary: bool = True,
    control: pd.DataFrame | None = None,
    height: int = OPENED,
    title: str = "Within the window, and across it",
    look: Look = LIGHT,
) -> go.Figure:
    """folded: phase, value, low, high.  The last phase is the boundary: key and value split.

    `boundary`: False leaves it out, so that the picture is of the window's inside alone.
    control: phase, value.
    """
    inner = folded[folded["phase"] < stride - 1]
    last = folded[folded["phase"] == stride - 1]
    noun = "one stride" if windows == 1 else f"{windows} strides"
    told = f"Mean of {noun} an offset, 95 %"
    fig = start(look, title, told, height=height, right=104)
    if control is not None and len(control):
        shown = control if boundary else control[control["phase"] < stride - 1]
        fig.add_scatter(
            x=shown["phase"],
            y=shown["value"],
            mode="lines",
            line=dict(color=look.control, width=2),
            name="full cache",
            hovertemplate="%{y:.3f}",
        )
    names = []
    if len(inner):
        low, high = float(inner["value"].min()), float(inner["value"].max())
        fig.add_shape(
            type="rect",
            x0=-0.5,
            x1=stride - 1.5,
            y0=low,
            y1=high,
            line_width=0,
            fillcolor=look.tint(mark.colour, 0.12),
            layer="below",
        )
        _points(fig, look, inner, mark, hollow=False)
        names.append(((low + high) / 2, f"<b>within {number(high - low, 2)}</b>", mark.text))
    if len(last) and boundary:
        _points(fig, look, last, mark, hollow=True)
        value = float(last["value"].iloc[0])
        names.append((value, f"<b>boundary {number(value, 2)}</b>", mark.text))
    probability_axis(fig)
    step = max(1, stride // 8)
    count = stride if boundary else stride - 1
    fig.update_xaxes(
        layer="below traces",
        range=[-0.5, count - 0.5],
        tickvals=list(range(0, count, step)),
        title_text="offset of the key in its window",
    )
    end_labels(fig, count - 0.6, names, least=0.1)
    return fig


def _points(fig: go.Figure, look: Look, rows: pd.DataFrame, mark: Mark, *, hollow: bool) -> None:
    bars = {}
    if {"low", "high"} <= set(rows.columns) and rows["low"].notna().all():
        bars["error_y"] = dict(
            type="data",
            symmetric=False,
            array=(rows["high"] - rows["value"]).clip(lower=0),
            arrayminus=(rows["value"] - rows["low"]).clip(lower=0),
            width=0,
            thickness=1.75,
            color=mark.colour,
        )
    fig.add_scatter(
        x=rows["phase"],
        y=rows["value"],
        mode="markers",
        cliponaxis=False,
        marker=dict(
            size=9,
            symbol="circle",
            color=look.page if hollow else mark.colour,
            line=dict(color=mark.colour if hollow else look.page, width=2 if hollow else 1),
        ),
        name=plain("boundary" if hollow else "within the window"),
        hovertemplate="%{y:.3f}",
        **bars,
    )
