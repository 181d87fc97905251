"""Differences of runs from a baseline: one dot a run and measure, the numbers in two columns.

Pure: frame in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from app.figures.spans import add_spans, span
from app.figures.theme import (
    LIGHT,
    Look,
    name_label,
    number_cell,
    placeholder,
    plain,
    put,
    round_ticks,
    start,
)
from app.words import NOTHING, number, p_value

ROW, LEAST = 27, 230  # px a row; least height
LONGEST = 38  # letters of a name


def differences(
    frame: pd.DataFrame,
    *,
    title: str,
    subtitle: str,
    unit: str,
    look: Look = LIGHT,
) -> go.Figure:
    """frame: measure, name, diff, low, high, p, p_adjusted, n, colour, symbol[, value, base_value].

    Rows in the frame's order under the names of their measures.  Solid: p below .05 once adjusted;
    hollow: not told from zero.  NaN: not paired.
    """
    rows = len(frame) + frame["measure"].nunique() if len(frame) else 0
    height = max(LEAST, 112 + ROW * rows)
    fig = start(look, plain(title), subtitle, height=height, left=8, right=176)
    if not len(frame):
        placeholder(fig, look, "No run shares prompts with the baseline yet")
        fig.update_xaxes(visible=False)
        fig.update_yaxes(visible=False)
        return fig
    names, cells, dots, place = [], [], [], 0.0
    for measure, held in frame.groupby("measure", sort=False):
        names.append((place, f"<b>{plain(str(measure))}</b>"))
        place += 1
        for row in held.to_dict("records"):
            cells += _numbers(look, row, place)
            if pd.notna(row["diff"]):
                dots.append(_dot(row, place))
            names.append((place, name_label(row["name"], LONGEST)))
            place += 1
        place += 0.35
    put(fig, labels=cells)
    if dots:
        add_spans(fig, dots, look=look)
    fig.add_vline(x=0, line=dict(color=look.ink3, width=1.25), layer="below")
    fig.update_layout(hovermode="closest")
    left = dict(xref="paper", x=0, xanchor="left", yref="y")
    fig.update_yaxes(range=[place - 0.6, -0.6], showgrid=False, showticklabels=False)
    longest = max(len(text) - 7 * text.startswith("<b>") for _, text in names)
    room = min(270, 24 + 6.6 * longest)
    fig.update_layout(margin_l=room)
    put(
        fig,
        labels=[
            left | dict(y=at, text=text, xshift=-room, font=dict(size=12.5, color=_ink(text, look)))
            for at, text in names
        ],
    )
    known = frame[["diff", "low", "high"]].stack()
    low, high = min(0.0, known.min()), max(0.0, known.max())
    spare = 0.05 * (high - low) or 0.05
    fig.update_xaxes(
        range=[low - spare, high + spare],
        title_text=unit,
        showgrid=True,
        layer="below traces",
        **round_ticks(low - spare, high + spare, 5),
    )
    return fig


def _ink(text: str, look: Look) -> str:
    return look.ink if text.startswith("<b>") else look.ink2


def _dot(row: dict, place: float) -> dict:
    adjusted = row.get("p_adjusted")
    told = f"<br>{p_value(row.get('p'))}, {p_value(adjusted)} adjusted"
    if pd.notna(row.get("n")):
        told += f", {row['n']:g} prompts"
    if pd.notna(row.get("value")) and pd.notna(row.get("base_value")):
        told += f"<br>{number(row['value'])} less {number(row['base_value'])}, folded alike"
    solid = pd.notna(adjusted) and adjusted < 0.05
    return row | dict(y=place, solid=solid, told=told, name=name_label(row["name"], 26))


def _numbers(look: Look, row: dict, place: float) -> list[dict]:
    """A difference and its interval, in two columns."""
    if pd.isna(row["diff"]):
        return [number_cell(62, place, NOTHING, look.ink2)]
    return [
        number_cell(58, place, number(row["diff"]), look.ink),
        number_cell(172, place, span(row), look.ink2),
    ]
