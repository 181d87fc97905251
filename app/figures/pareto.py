"""Quality against bytes, one run a line: its mean, its worst phase, and the gap between them.

Pure: frame in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

import math

import pandas as pd
import plotly.graph_objects as go

from app.figures.budget import round_sizes
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

WIDE, LETTER, LONGEST = 430, 6.6, 24  # px of the axes and of a letter; letters of a name
MOST_NAMES = 9  # of more points the hover card tells which they are
LIFTS = (0, 15, -15, 30, -30)  # px above or below the point


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
        fig.update_xaxes(visible=False)
        fig.update_yaxes(visible=False)
        return fig
    sizes = frame["bytes"].astype(float)
    low, high = math.log10(sizes.min()), math.log10(sizes.max())
    spare = 0.14 * (high - low) or 0.3
    labels: list[dict] = []
    named = len(frame) <= MOST_NAMES
    for row in _apart(frame, low - spare, (high - low) + 2 * spare, height):
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
        if not named or not row["side"]:
            continue
        labels.append(
            dict(
                x=math.log10(row["bytes"]),
                y=anchor,
                text=name_label(row["name"], LONGEST),
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


def _apart(frame: pd.DataFrame, low: float, wide: float, height: int) -> list[dict]:
    """Rows with a side and a lift (px) for their names, so that none touches a name or a point.

    Judged for a chart of usual width; the first place that is free wins.
    """
    rows = frame.to_dict("records")
    tall = height - 110
    points, lines = [], []
    for row in rows:
        row["x"] = (math.log10(row["bytes"]) - low) / wide * WIDE
        known = [v for v in (row["worst"], row["mean"]) if pd.notna(v)]
        row["y"] = known[0] / 1.02 * tall
        points += [(row["x"], v / 1.02 * tall) for v in known]
        lines.append((row["x"], min(known) / 1.02 * tall, max(known) / 1.02 * tall))
    taken: list[tuple[float, float, float, float]] = []
    for row in sorted(rows, key=lambda row: (row["x"], row["y"])):
        text = LETTER * min(len(str(row["name"])), LONGEST)
        places = [(side, lift) for lift in LIFTS for side in (1, -1)]
        boxes = [_box(row, side, lift, text) for side, lift in places]
        free = [i for i, box in enumerate(boxes) if _free(box, tall, taken, points, lines)]
        row["side"] = 0  # no place is free: the hover card names it
        if not free:
            continue
        (row["side"], row["lift"]), box = places[free[0]], boxes[free[0]]
        taken.append(box)
    return rows


def _box(row: dict, side: int, lift: float, text: float) -> tuple[float, float, float, float]:
    left = row["x"] + 12 if side > 0 else row["x"] - 12 - text
    return left, left + text, row["y"] + lift - 8, row["y"] + lift + 8


def _free(
    box: tuple, tall: float, taken: list[tuple], points: list[tuple], lines: list[tuple]
) -> bool:
    left, right, low, high = box
    if left < 8 or right > WIDE + 20 or low < -4 or high > tall + 12:
        return False
    if any(left < b and a < right and low < d and c < high for a, b, c, d in taken):
        return False
    if any(left < x + 7 and x - 7 < right and low < y + 7 and y - 7 < high for x, y in points):
        return False
    return not any(left < x < right and low < d and c < high for x, c, d in lines)


def _size(value: float) -> str:
    return f"{number(value, 1)} bytes a token" if value < 1e4 else cache_size(value)


def _tick(value: float, ticks: list[float]) -> str:
    return f"{value:g}" if max(ticks) < 1e4 else cache_size(value)


def round_bytes(low: float, high: float) -> list[float]:
    """Powers of two between two small sizes, every k-th of many; of large ones 1, 2, 5 and tens."""
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    powers = [2.0**k for k in range(first, last + 1)] if high < 1e4 else []
    if not powers:
        return round_sizes(low, high)
    if len(powers) < 2:
        return round_sizes(low, high)
    return powers[:: -(-len(powers) // 8)]
