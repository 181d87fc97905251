"""Quality against bytes, one run a line: its mean, its worst phase, and the gap between them.

Pure: frame in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

import math

import pandas as pd
import plotly.graph_objects as go

from app.figures.theme import (
    LIGHT,
    NAMED,
    Look,
    name_label,
    placeholder,
    probability_axis,
    put,
    start,
)
from app.words import cache_size, number


def against_bytes(
    frame: pd.DataFrame,
    *,
    title: str = "Quality against bytes",
    subtitle: str = "Solid: worst phase. Hollow: mean. The line between them is the phase gap",
    axis: str = "cache, bytes per token, log scale",
    quality: str = "accuracy",
    height: int = 340,
    look: Look = LIGHT,
) -> go.Figure:
    """frame: key, name, bytes, mean, worst (NaN: none), colour, text, symbol.  A point is a link:
    `customdata` holds the run's key.  Runs without bytes are left out by the caller.
    """
    fig = start(look, title, subtitle, height=height, left=NAMED, right=24)
    if not len(frame):
        placeholder(fig, look, "No run has a size yet")
        return fig
    sizes = frame["bytes"].astype(float)
    low, high = math.log10(sizes.min()), math.log10(sizes.max())
    spare = 0.14 * (high - low) or 0.3
    labels = []
    for row in _apart(frame, (high - low) + 2 * spare):
        known = [v for v in (row["mean"], row["worst"]) if pd.notna(v)]
        if len(known) == 2:
            fig.add_scatter(
                x=[row["bytes"]] * 2,
                y=known,
                mode="lines",
                line=dict(color=look.tint(row["colour"], 0.5), width=3),
                hoverinfo="skip",
            )
        for noun, hollow in (("mean", True), ("worst", False)):
            if pd.isna(row[noun]):
                continue
            fig.add_scatter(
                x=[row["bytes"]],
                y=[row[noun]],
                mode="markers",
                cliponaxis=False,
                marker=dict(
                    size=10,
                    symbol=row["symbol"],
                    color=look.page if hollow else row["colour"],
                    line=dict(width=2, color=row["colour"]),
                ),
                customdata=[[row["key"]]],
                name=name_label(row["name"], 40),
                hovertemplate=f"{name_label(row['name'], 60)}<br>{noun} %{{y:.3f}} at "
                f"{_size(row['bytes'])}<extra></extra>",
            )
        anchor = row["worst"] if pd.notna(row["worst"]) else row["mean"]
        side = "right" if row["side"] < 0 else "left"
        labels.append(
            dict(
                x=math.log10(row["bytes"]),
                y=anchor,
                text=name_label(row["name"], 24),
                xanchor=side,
                xshift=12 * row["side"],
                yshift=row["lift"],
                font=dict(size=12.5, color=row["text"]),
            )
        )
    put(fig, labels=labels)
    fig.update_layout(hovermode="closest", clickmode="event+select")
    probability_axis(fig, title=quality)
    ticks = round_bytes(sizes.min() / 10**spare, sizes.max() * 10**spare)
    fig.update_xaxes(
        type="log",
        range=[low - spare, high + spare],
        tickvals=ticks,
        ticktext=[_tick(t, ticks) for t in ticks],
        title_text=axis,
        showgrid=True,
        layer="below traces",
    )
    return fig


def _apart(frame: pd.DataFrame, wide: float) -> list[dict]:
    """Rows with a side for their names, and a lift where two names would touch."""
    rows = frame.to_dict("records")
    right = max(frame["bytes"])
    placed: list[tuple[float, float, int]] = []
    for row in rows:
        x = math.log10(row["bytes"])
        y = row["worst"] if pd.notna(row["worst"]) else row["mean"]
        row["side"] = -1 if row["bytes"] >= right and len(rows) > 1 else 1
        near = [p for p in placed if abs(p[0] - x) < 0.25 * wide and abs(p[1] - y) < 0.06]
        if any(p[2] == row["side"] for p in near):
            row["side"] = -row["side"]
        row["lift"] = 14 if sum(p[2] == row["side"] for p in near) else 0
        placed.append((x, y, row["side"]))
    return rows


def _size(value: float) -> str:
    return f"{number(value, 1)} bytes a token" if value < 1e4 else cache_size(value)


def _tick(value: float, ticks: list[float]) -> str:
    return f"{value:g}" if max(ticks) < 1e4 else cache_size(value)


def round_bytes(low: float, high: float) -> list[float]:
    """Powers of two between two sizes, every k-th where there are many; else 1, 2, 5 and tens."""
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    powers = [2.0**k for k in range(first, last + 1)]
    if len(powers) < 2:
        lead = 10.0 ** math.floor(math.log10(low))
        return [v for v in (lead * m for m in (1, 1.5, 2, 3, 4, 5, 6, 8, 10)) if low <= v <= high]
    return powers[:: -(-len(powers) // 8)]
