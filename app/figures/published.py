"""A paper's figures beside ours: two panels, each with its own axis, never on one scale.

Pure: frames in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.figures.marks import mark
from app.figures.theme import LIGHT, NAMED, Look, name_label, plain, round_ticks

HEIGHT = 276


@dataclass(frozen=True)
class Panel:
    """frame: x (a name), series, value, and low, high where known.  `note`: why it is empty."""

    frame: pd.DataFrame
    head: str
    unit: str
    axis: str
    note: str = ""
    ordered: bool = True  # a line joins points; names without an order have none


def beside(title: str, theirs: Panel, ours: Panel, *, look: Look = LIGHT) -> go.Figure:
    """Left, hollow: as published; right, solid: measured here."""
    fig = make_subplots(rows=1, cols=2, horizontal_spacing=0.16)
    fig.update_layout(
        template=look.template,
        height=HEIGHT,
        margin=dict(l=NAMED, r=12, t=74),
        hovermode="closest",
        title=dict(
            text=f"<b>{plain(title)}</b>", pad=dict(t=17), font=dict(size=14, color=look.ink)
        ),
    )
    series = list(dict.fromkeys([*theirs.frame["series"], *ours.frame["series"]]))
    for column, panel in ((1, theirs), (2, ours)):
        _panel(fig, look, panel, column, series)
    return fig


def _heading(panel: Panel, column: int, series: list[str], look: Look) -> str:
    """Whose figures, and the marks of two or more series in their colours."""
    if len(series) < 2:
        return panel.head
    signs = "\u25cb\u25c7\u25a1" if column == 1 else "\u25cf\u25c6\u25a0"
    held = set(panel.frame["series"])
    names = [
        f'<span style="color:{mark(i, look).text}">{signs[i % 3]} {name_label(name, 24)}</span>'
        for i, name in enumerate(series)
        if name in held
    ]
    return "&nbsp; ".join([panel.head, *names])


def _panel(fig: go.Figure, look: Look, panel: Panel, column: int, series: list[str]) -> None:
    place = dict(row=1, col=column)
    axis = "" if column == 1 else "2"
    fig.add_annotation(
        x=0,
        xref=f"x{axis} domain",
        y=1,
        yref=f"y{axis} domain",
        yshift=24,
        text=_heading(panel, column, series, look),
        showarrow=False,
        xanchor="left",
        font=dict(size=12.5, color=look.ink2),
    )
    names = list(dict.fromkeys(panel.frame["x"])) if len(panel.frame) else []
    if not names:
        fig.add_annotation(
            x=0.5,
            xref=f"x{axis} domain",
            y=0.5,
            yref=f"y{axis} domain",
            text=panel.note,
            showarrow=False,
            font=dict(size=12.5, color=look.ink3),
        )
        fig.update_xaxes(showticklabels=False, **place)
        fig.update_yaxes(showticklabels=False, range=[0, 1], **place)
        return
    spots = {name: i for i, name in enumerate(names)}
    for name, held in panel.frame.groupby("series", sort=False):
        drawn = mark(series.index(name), look)
        symbol = drawn.symbol if column == 2 else f"{drawn.symbol}-open"
        x = [spots[n] for n in held["x"]]
        known = {"low", "high"} <= set(held.columns) and held["low"].notna().all()
        fig.add_scatter(
            x=x,
            y=held["value"],
            mode="lines+markers" if panel.ordered else "markers",
            cliponaxis=False,
            line=dict(color=look.tint(drawn.colour, 0.6), width=1.75),
            marker=dict(
                size=9, symbol=symbol, color=drawn.colour, line=dict(width=1.75, color=drawn.colour)
            ),
            error_y=dict(
                type="data",
                symmetric=False,
                array=held["high"] - held["value"],
                arrayminus=held["value"] - held["low"],
                thickness=1.5,
                width=0,
                color=look.tint(drawn.colour, 0.6),
            )
            if known
            else None,
            name=name_label(str(name), 24),
            text=[name_label(str(n), 30) for n in held["x"]],
            hovertemplate=f"%{{text}}, {name_label(str(name), 24)}: %{{y:.3~g}}<extra></extra>",
            **place,
        )
    low, high = _span(panel.frame)
    fig.update_yaxes(range=[low, high], title_text=panel.unit, **round_ticks(low, high, 5), **place)
    fig.update_xaxes(
        range=[-0.4, len(names) - 0.6],
        tickvals=list(range(len(names))),
        ticktext=[stacked(str(n)) for n in names],
        tickangle=0,
        tickfont=dict(size=11, color=look.ink2),
        title_text=panel.axis,
        layer="below traces",
        **place,
    )


def stacked(name: str) -> str:
    """A tick's words one under the other, cut at commas."""
    return "<br>".join(name_label(part, 15) for part in name.split(", "))


def _span(frame: pd.DataFrame) -> tuple[float, float]:
    known = [*frame["value"]]
    for name in ("low", "high"):
        known += list(frame[name].dropna()) if name in frame else []
    low, high = min(known), max(known)
    room = 0.22 * (high - low) or 0.1 * abs(high) or 1
    return max(0.0, low - room) if low >= 0 else low - room, high + room
