"""What a method costs: bytes held, and the time of a step and of an event.

Pure: frames in, figures out.  No Streamlit, no engine.
"""

from __future__ import annotations

import math

import pandas as pd
import plotly.graph_objects as go

from app.figures.names import brief
from app.figures.overtime import byte_unit
from app.figures.theme import LIGHT, Look, name_label, number_cell, placeholder, put, start
from app.words import cache_size, number

ROW = 30
NAME = 34  # characters of a method's name


def _named(fig: go.Figure, frame: pd.DataFrame) -> None:
    fig.update_layout(hovermode="closest")
    fig.update_yaxes(
        range=[len(frame) - 0.4, -0.6],
        tickvals=list(range(len(frame))),
        ticktext=[name_label(x, NAME) for x in map(brief(frame["label"]).get, frame["label"])],
        ticklabelstandoff=8,
        showgrid=False,
    )


def held(frame: pd.DataFrame, *, look: Look = LIGHT) -> go.Figure:
    """frame: label, mean_bytes, state_bytes, peak_bytes, colour; one row a method, full first."""
    fig = start(
        look,
        "Bytes held, one prompt",
        "Bar: mean of the cache; dark end: the method's own state; line: peak of the cache",
        height=110 + ROW * max(len(frame), 3),
        left=8,
        right=72,
    )
    if not len(frame):
        placeholder(fig, look, "Not measured yet")
        return fig
    unit, each = byte_unit(float(frame["peak_bytes"].max()))
    places = list(range(len(frame)))
    for name, words, shades in (
        ("mean_bytes", "cache, mean", [look.tint(c, 0.55) for c in frame["colour"]]),
        ("state_bytes", "method's state", list(frame["colour"])),
    ):
        fig.add_bar(
            orientation="h",
            x=frame[name] / each,
            y=places,
            width=0.56,
            marker=dict(color=shades, line_width=0),
            name=words,
            text=[cache_size(v) for v in frame[name]],
            textposition="none",
            hovertemplate=f"{words} %{{text}}<extra></extra>",
        )
    shapes, labels = [], []
    for place, row in enumerate(frame.to_dict("records")):
        peak = row["peak_bytes"] / each
        ends = dict(x0=peak, x1=peak, y0=place - 0.4, y1=place + 0.4)
        shapes.append(dict(type="line", line=dict(color=look.ink, width=1.75), **ends))
        labels.append(number_cell(68, place, cache_size(row["peak_bytes"]), look.ink2))
    put(fig, shapes=shapes, labels=labels)
    fig.update_layout(barmode="stack")
    _named(fig, frame)
    fig.update_xaxes(title_text=unit, showgrid=True, rangemode="tozero", layer="below traces")
    return fig


def latency(frame: pd.DataFrame, *, look: Look = LIGHT) -> go.Figure:
    """frame: label, step_p50, step_p99, event_p50, event_p99 (ms; NaN without events), colour."""
    fig = start(
        look,
        "Time of a step, and of an event",
        "Solid: median; hollow: 99th percentile. Upper: step; lower, diamond: event",
        height=110 + ROW * max(len(frame), 3),
        left=8,
        right=20,
    )
    if not len(frame):
        placeholder(fig, look, "Not measured yet")
        return fig
    values: list[float] = []
    for place, row in enumerate(frame.to_dict("records")):
        for kind, shift, symbol in (("step", -0.17, "circle"), ("event", 0.2, "diamond")):
            ends = [row[f"{kind}_p50"], row[f"{kind}_p99"]]
            if any(e is None or pd.isna(e) or e <= 0 for e in ends):
                continue
            values += ends
            fig.add_scatter(
                x=ends,
                y=[place + shift] * 2,
                mode="lines+markers",
                cliponaxis=False,
                line=dict(color=look.tint(row["colour"], 0.45), width=1.75),
                marker=dict(
                    size=8,
                    symbol=[symbol, f"{symbol}-open"],
                    color=row["colour"],
                    line=dict(width=1.5, color=row["colour"]),
                ),
                name=kind,
                text=["median", "99th percentile"],
                hovertemplate=f"{kind}, %{{text}}: %{{x:.3~g}} ms<extra></extra>",
            )
    _named(fig, frame)
    low, high = (math.log10(min(values)), math.log10(max(values))) if values else (0, 1)
    ticks = [
        m * 10**k
        for k in range(math.floor(low), math.ceil(high) + 1)
        for m in (1, 2, 5)
        if low - 0.1 <= math.log10(m * 10**k) <= high + 0.1
    ]
    fig.update_xaxes(
        type="log",
        range=[low - 0.08, high + 0.08],
        tickvals=ticks,
        ticktext=[number(t, 2) for t in ticks],
        title_text="ms, log scale",
        showgrid=True,
        layer="below traces",
    )
    return fig
