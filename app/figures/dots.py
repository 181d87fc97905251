"""Dots: accuracy over depth or density, found over configured period, repaired beside unrepaired.

Pure: frames in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from app.figures.marks import Mark
from app.figures.theme import LIGHT, NAMED, PAIR, Look, placeholder, plain, probability_axis, start
from app.words import number, p_value


def cloud(
    points: pd.DataFrame,
    *,
    title: str,
    axis: str,
    rho: float | None,
    p: float | None,
    mark: Mark,
    look: Look = LIGHT,
) -> go.Figure:
    """points: x, accuracy, n: one dot a residue.  `rho`, `p`: the rank correlation."""
    told = f"Rank correlation {number(rho, 2)}, {p_value(p)}"
    if rho is None:
        told = "No rank correlation: one of the two does not vary"
    fig = start(look, title, told, height=PAIR, left=NAMED)
    if len(points):
        fig.add_scatter(
            x=points["x"],
            y=points["accuracy"],
            mode="markers",
            cliponaxis=False,
            marker=dict(size=8, color=look.tint(mark.colour, 0.7), line=dict(width=0)),
            hovertemplate="%{y:.3f} at %{x:.4~g}<extra></extra>",
        )
    else:
        placeholder(fig, look, "–")
    fig.update_layout(hovermode="closest")
    probability_axis(fig, title="accuracy")
    fig.update_xaxes(title_text=axis)
    return fig


def followed(
    rows: pd.DataFrame,
    *,
    varied: str,
    title: str,
    subtitle: str,
    look: Look = LIGHT,
) -> go.Figure:
    """rows: label, x, detected (NaN: none), stride, line, colour, symbol.  `varied`: the x axis.

    The period at each x if it follows the stride is dashed: one line for rows of one `line`.
    """
    fig = start(look, title, subtitle, height=PAIR, left=NAMED)
    values = sorted({float(x) for x in rows["x"]})
    for _, held in rows.sort_values("x").groupby("line", sort=False):
        fig.add_scatter(
            x=held["x"],
            y=held["stride"],
            mode="lines",
            line=dict(color=look.ink3, width=1.25, dash="2px,3px"),
            name="the stride",
            hoverinfo="skip",
        )
    ticks = sorted({*rows["detected"].dropna(), *rows["stride"]})
    top = max([*ticks, 8.0]) * 1.18
    wide = (values[-1] - values[0]) or 4
    low: set[tuple] = set()  # names that stand under their dot, where a neighbour's is above
    for row in rows.sort_values("x").to_dict("records"):
        known = pd.notna(row["detected"])
        y = row["detected"] if known else 0
        close = [x for x in values if 0 < row["x"] - x < wide / 5]
        near = rows[rows["x"].isin(close) & (rows["detected"].fillna(0) == y)]
        if len(near) and not low & {(x, y) for x in near["x"]}:
            low.add((row["x"], y))
        under = (row["x"], y) in low
        fig.add_scatter(
            x=[row["x"]],
            y=[y],
            mode="markers",
            cliponaxis=False,
            marker=dict(
                size=11,
                symbol=row["symbol"] if known else f"{row['symbol']}-open",
                color=row["colour"],
                line=dict(color=row["colour"], width=1.75),
            ),
            name=plain(row["label"]),
            hovertemplate=(
                f"{plain(row['label'])}: "
                + (f"period {row['detected']:g}" if known else "none resolved")
                + "<extra></extra>"
            ),
        )
        fig.add_annotation(
            x=row["x"],
            y=y,
            text=plain(row["label"]) + ("" if known else ": none"),
            showarrow=False,
            yanchor="top" if under else "bottom",
            yshift=-9 if under else 9,
            font=dict(size=12.5, color=look.ink2),
        )
    fig.update_layout(hovermode="closest")
    fig.update_yaxes(
        range=[-0.13 * top, top],
        tickvals=[0, *ticks],
        ticktext=["none", *[f"{t:g}" for t in ticks]],
        title_text="period found",
    )
    fig.update_xaxes(
        layer="below traces",
        range=[values[0] - 0.25 * wide, values[-1] + 0.25 * wide],
        tickvals=values,
        title_text=varied,
    )
    return fig


def paired(rows: pd.DataFrame, *, title: str, subtitle: str, look: Look = LIGHT) -> go.Figure:
    """rows: group, seed, before, before_low, before_high, after, after_low, after_high, colour,
    symbol.  Hollow grey: the variant without the repair; solid: with it; one pair a seed.
    """
    fig = start(look, title, subtitle, height=PAIR, left=NAMED)
    places, names, x = [], [], 0.0
    for group, members in rows.groupby("group", sort=False):
        first = x
        for row in members.to_dict("records"):
            _pair(fig, look, row, x)
            places.append(x)
            names.append(f"{row['seed']:g}")
            x += 1
        fig.add_annotation(
            x=(first + x - 1) / 2,
            y=1.0,
            yref="paper",
            yanchor="bottom",
            text=plain(str(group)),
            showarrow=False,
            font=dict(size=12.5, color=look.ink),
        )
        x += 0.9
    if not len(rows):
        placeholder(fig, look, "not run yet")
    fig.update_layout(hovermode="closest", margin=dict(t=76))
    probability_axis(fig, title="accuracy")
    fig.update_xaxes(
        layer="below traces",
        range=[-0.7, max(x - 1.2, 0.7)],
        tickvals=places,
        ticktext=names,
        title_text="seed",
    )
    return fig


def _pair(fig: go.Figure, look: Look, row: dict, x: float) -> None:
    ends = [row["before"], row["after"]]
    fig.add_scatter(
        x=[x, x],
        y=ends,
        mode="lines",
        line=dict(color=look.tint(row["colour"], 0.45), width=2),
        hoverinfo="skip",
    )
    for name, colour, symbol in (
        ("before", look.control, "circle-open"),
        ("after", row["colour"], row["symbol"]),
    ):
        low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
        told = f", {number(low, 2)} to {number(high, 2)}" if pd.notna(low) else ""
        words = "without" if name == "before" else "with"
        fig.add_scatter(
            x=[x],
            y=[row[name]],
            mode="markers",
            cliponaxis=False,
            marker=dict(size=10, symbol=symbol, color=colour, line=dict(width=2, color=colour)),
            hovertemplate=f"{words} the repair %{{y:.3f}}{told}<extra></extra>",
        )
