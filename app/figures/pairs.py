"""Differences between methods at one budget, with their intervals and numbers in columns.

Pure: frame in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.figures.budget import MEASURES
from app.figures.names import brief
from app.figures.spans import add_spans, span
from app.figures.theme import (
    LIGHT,
    Look,
    name_label,
    number_cell,
    placeholder,
    put,
    round_ticks,
    start,
)
from app.words import count, fixed, p_value

NAME = 34  # characters of a method's name


def paired(frame: pd.DataFrame, *, measure: str, look: Look = LIGHT) -> go.Figure:
    """frame: budget, a, b, diff, low, high, p_corrected, resolved, colour, symbol.

    Solid: told from zero by the test; hollow: not.  Numbers in columns at the right.
    """
    title, unit, _ = MEASURES[measure]
    rows = len(frame) + frame["budget"].nunique() if len(frame) else 0
    fig = start(
        look,
        "Differences in pairs",
        f"{title}, first minus second. 95 %, by prompt; p after Holm. Solid: resolved",
        height=max(190, 112 + 24 * rows),
        left=8,
        right=236,
    )
    if not len(frame):
        placeholder(fig, look, "Two methods are needed for a difference")
        return fig
    names, cells, dots, place = [], [], [], 0
    short = brief([*frame["a"], *frame["b"]])
    for budget, held in frame.groupby("budget", sort=True):
        names.append((place, f"<b>{count(int(budget), 'token')}</b>"))
        place += 1
        for row in held.to_dict("records"):
            name = f"{name_label(short[row['a']], NAME)} − {name_label(short[row['b']], NAME)}"
            cells += _numbers(look, row, place)
            told = f", {p_value(row.get('p_corrected'))}"
            dots.append(row | dict(y=place, solid=row["resolved"], told=told, name=name))
            names.append((place, name))
            place += 1
    put(fig, labels=cells)
    add_spans(fig, dots, digits=2, look=look)
    fig.add_vline(x=0, line=dict(color=look.ink3, width=1.25), layer="below")
    fig.update_layout(hovermode="closest")
    fig.update_yaxes(
        range=[place - 0.4, -0.6],
        tickvals=[p for p, _ in names],
        ticktext=[t for _, t in names],
        ticklabelstandoff=8,
        showgrid=False,
        title_text="",
    )
    known = frame[["diff", "low", "high"]].to_numpy(float)
    low, high = min(0.0, float(np.nanmin(known))), max(0.0, float(np.nanmax(known)))
    room = 0.04 * (high - low) or 0.05
    fig.update_xaxes(
        range=[low - room, high + room],
        title_text=f"difference, {unit}",
        showgrid=True,
        layer="below traces",
        **round_ticks(low - room, high + room),
    )
    return fig


def _numbers(look: Look, row: dict, place: int) -> list[dict]:
    """A difference, its interval and its p, in three columns."""
    return [
        number_cell(62, place, fixed(row["diff"], 3), look.ink),
        number_cell(156, place, span(row, 2), look.ink2),
        number_cell(232, place, p_value(row.get("p_corrected")), look.ink2),
    ]
