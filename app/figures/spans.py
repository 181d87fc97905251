"""Differences as dots with their intervals, solid where they are told from zero, else hollow.

Pure: frame in, traces out.  No Streamlit, no engine.
"""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from app.figures.theme import Look
from app.words import NOTHING, number


def span(row: dict, digits: int = 3) -> str:
    """The interval of a row in words; "–" where it has none."""
    if pd.isna(row["low"]) or pd.isna(row["high"]):
        return NOTHING
    return f"{number(row['low'], digits)} to {number(row['high'], digits)}"


def add_spans(fig: go.Figure, rows: list[dict], *, digits: int = 3, look: Look) -> None:
    """rows: y, diff, low, high (NaN: none), colour, symbol, solid, name, told (after the interval).

    One trace a colour: a browser draws a few long ones in a fraction of the time of many short.
    """
    for colour, held in pd.DataFrame(rows).groupby("colour", sort=False):
        fig.add_scatter(
            x=held["diff"],
            y=held["y"],
            error_x=dict(
                type="data",
                symmetric=False,
                array=held["high"] - held["diff"],
                arrayminus=held["diff"] - held["low"],
                color=colour,
                thickness=2,
                width=0,
            ),
            mode="markers",
            cliponaxis=False,
            marker=dict(
                size=10,
                symbol=held["symbol"],
                color=[colour if solid else look.page for solid in held["solid"]],
                line=dict(width=2, color=colour),
            ),
            text=held["name"],
            customdata=[f"{span(row, digits)}{row['told']}" for row in held.to_dict("records")],
            hovertemplate="%{x:.3f}, %{customdata}<extra>%{text}</extra>",
        )
