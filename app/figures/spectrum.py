"""Share of variance by period: configured and detected period marked, chance level dotted.

Pure: frame in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from app.figures.theme import LIGHT, Look, placeholder, probability_axis, start
from app.words import number

MOST_BARS = 24
EMPTY = "Known once a run has ended"


def spectrum(
    frame: pd.DataFrame,
    *,
    configured: int | None,
    detected: int | None,
    chance: float | None,
    look: Look = LIGHT,
) -> go.Figure:
    """frame: period (tokens), share (of variance, 0 … 1), longest period first.

    `chance`: the mean share of one bar when no period is there.  With more than `MOST_BARS` bars
    only the largest shares and the configured period are drawn.
    """
    fig = start(look, "Power by period", "Share of variance")
    frame = frame.sort_values("period", ascending=False, ignore_index=True)
    if len(frame) > MOST_BARS:
        marked = frame["period"].isin([p for p in (configured, detected) if p])
        keep = frame[marked].index.union(frame["share"].nlargest(MOST_BARS).index)
        frame = frame.loc[keep].sort_values("period", ascending=False, ignore_index=True)
    names = [period_name(p) for p in frame["period"]]
    marked = [bool(p in (configured, detected)) for p in frame["period"]]
    if len(frame):
        fig.add_bar(
            x=list(range(len(frame))),
            y=frame["share"],
            width=0.5,
            marker=dict(
                color=[look.memory if m else look.tint(look.ink3, 0.45) for m in marked],
                cornerradius=3,
                line_width=0,
            ),
            text=[f"period {n} tokens" for n in names],
            textposition="none",
            hovertemplate="%{y:.3f} of the variance<br>%{text}<extra></extra>",
        )
        for i, period in enumerate(frame["period"]):
            label = _mark(period, configured, detected)
            if label:
                fig.add_annotation(
                    x=i,
                    y=float(frame["share"].iloc[i]),
                    text=f"<b>{label}</b>",
                    showarrow=False,
                    yanchor="bottom",
                    font=dict(size=12.5, color=look.memory_text),
                )
    else:
        placeholder(fig, look, EMPTY)
    if chance is not None and len(frame):
        fig.add_shape(
            type="line",
            x0=-0.6,
            x1=len(frame) - 0.4,
            y0=chance,
            y1=chance,
            line=dict(color=look.ink3, width=1, dash="dot"),
        )
        ends = frame["share"].tail(3).max() <= chance
        fig.add_annotation(
            x=len(frame) - 0.45 if ends else -0.55,
            y=chance,
            text="no period",
            showarrow=False,
            xanchor="right" if ends else "left",
            yanchor="bottom",
            font=dict(size=12, color=look.ink2),
        )
    probability_axis(fig)
    step = max(1, -(-len(names) // 8))
    fig.update_xaxes(
        range=[-0.7, max(len(frame), 1) - 0.3],
        tickvals=list(range(0, len(names), step)),
        ticktext=names[::step],
        tickangle=0,
        title_text="period, tokens",
    )
    return fig


def autocorrelation(
    frame: pd.DataFrame, *, configured: int | None, look: Look = LIGHT
) -> go.Figure:
    """frame: lag (tokens), correlation (−1 … 1).  Lags that are multiples of S are marked."""
    fig = start(look, "Autocorrelation", "Of the mean curve, circular")
    if len(frame):
        marked = [bool(configured and lag and lag % configured == 0) for lag in frame["lag"]]
        fig.add_bar(
            x=frame["lag"],
            y=frame["correlation"],
            width=0.5,
            marker=dict(
                color=[look.memory if m else look.tint(look.ink3, 0.45) for m in marked],
                cornerradius=3,
                line_width=0,
            ),
            hovertemplate="%{y:.3f}<br>lag %{x} tokens<extra></extra>",
        )
    else:
        placeholder(fig, look, EMPTY)
    fig.update_yaxes(range=[-1.02, 1.02], tickvals=[-1, 0, 1], ticktext=["−1", "0", "1"])
    step = configured if configured and configured > 1 else max(1, len(frame) // 8)
    fig.update_xaxes(tickvals=list(range(0, max(len(frame), 1), step)), title_text="lag, tokens")
    return fig


def period_name(period: float) -> str:
    """`4`, `3.2`."""
    return number(float(period), 1)


def _mark(period: float, configured: int | None, detected: int | None) -> str:
    if period == configured:
        return f"S = {configured}"
    return f"found {detected}" if period == detected else ""
