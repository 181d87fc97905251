"""Attention maps and kept timelines of several runs, side by side on the axes of positions.

Pure: arrays and frames in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from app.figures.compare import NAME, Panel, grid, suffix
from app.figures.theme import LIGHT, Look, put, token_label
from app.figures.timeline import STATES, colours
from app.words import number

LEFT, TALL = 44, 240  # px: for positions beside a panel; its height
MOST_ROWS = 360  # positions drawn in a panel's timeline; of more, every k-th


class Cells(NamedTuple):
    """Weights [m, n] with the borders of rows and columns on the axis of positions."""

    weights: np.ndarray
    rows: np.ndarray  # [m + 1], rising
    columns: np.ndarray  # [n + 1], rising


def maps(
    panels: Sequence[Panel], cells: Sequence[Cells | None], *, look: Look = LIGHT
) -> go.Figure:
    """One layer and head of each run.  Colour runs with the square root of the weight."""
    fig = grid(panels, look, x_title="key position", plot=TALL, left=LEFT)
    known = [c for c in cells if c is not None and c.weights.size]
    top = max((float(np.nanmax(c.weights)) for c in known), default=1.0)
    last = len(look.sequential) - 1
    for i, held in enumerate(cells):
        if held is None:
            continue
        fig.add_heatmap(
            z=held.weights.astype(np.float32),
            x=held.columns.astype(np.float32),
            y=held.rows.astype(np.float32),
            coloraxis="coloraxis",
            hovertemplate="query %{y:.0f}, key %{x:.0f}<br>weight %{z:.4f}<extra></extra>",
            xaxis=f"x{suffix(i)}",
            yaxis=f"y{suffix(i)}",
        )
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0]
    fig.update_layout(
        hovermode="closest",
        margin_r=76,
        coloraxis=dict(
            cmin=0,
            cmax=max(top, 1e-6),
            colorscale=[[(i / last) ** 2, c] for i, c in enumerate(look.sequential)],
            colorbar=dict(
                thickness=8,
                outlinewidth=0,
                len=TALL * 0.75,
                lenmode="pixels",
                y=1 - NAME / fig.layout.height,  # under the chart's menu
                yanchor="top",
                ypad=0,
                tickvals=[t * top for t in ticks],
                ticktext=[number(t * top, 2 if top > 0.1 else 4) for t in ticks],
                title=dict(text="weight", side="top", font=dict(size=12)),
                tickfont=dict(size=11),
            ),
        ),
    )
    if not known:
        fig.update_xaxes(showticklabels=False)
        fig.update_yaxes(showticklabels=False, showgrid=False)
    if known:
        bottom = max(float(c.rows[-1]) for c in known)
        above = min(float(c.rows[0]) for c in known)
        right = max(float(c.columns[-1]) for c in known)
        fig.update_yaxes(range=[bottom, above], showgrid=False, fixedrange=False)
        fig.update_xaxes(range=[-0.5, right], showgrid=False)
    fig.layout.yaxis.title.text = "query position"
    fig.layout.yaxis.title.standoff = 4
    return fig


def timelines(
    panels: Sequence[Panel], events: Sequence[Sequence[int]], *, look: Look = LIGHT
) -> go.Figure:
    """frame: position, text, state, start, stop.  events: tokens read at each event of a run."""
    fig = grid(panels, look, x_title="tokens read", plot=TALL, left=LEFT)
    shade = colours(look)
    total, low, high = 1, 0.0, 1.0
    for panel in panels:
        if not len(panel.frame):
            continue
        frame = panel.frame
        total = max(total, int(frame["position"].max()) + 1)
        low, high = float(frame["start"].min()), max(high, float(frame["stop"].max()))
    step = -(-total // MOST_ROWS)
    for i, panel in enumerate(panels):
        if not len(panel.frame):
            continue
        axes = dict(xaxis=f"x{suffix(i)}", yaxis=f"y{suffix(i)}")
        drawn = panel.frame[panel.frame["position"] % step == 0]
        for state, words in STATES.items():
            rows = drawn[drawn["state"] == state]
            if not len(rows):
                continue
            labels = [token_label(t) for t in rows["text"]]
            fig.add_bar(
                orientation="h",
                y=rows["position"] + (step - 1) / 2,
                x=rows["stop"] - rows["start"],
                base=rows["start"],
                width=step,
                marker=dict(color=shade[state], line_width=0),
                name=words,
                customdata=list(zip(labels, rows["position"], rows["stop"], strict=True)),
                hovertemplate=f"%{{customdata[0]}}<br>position %{{customdata[1]}}, {words}, "
                "to token %{customdata[2]}<extra></extra>",
                **axes,
            )
        _events(fig, look, events[i], i)
    fig.update_layout(hovermode="closest", bargap=0, barmode="overlay")
    if not any(len(panel.frame) for panel in panels):
        fig.update_xaxes(showticklabels=False)
        fig.update_yaxes(showticklabels=False)
    fig.update_yaxes(range=[total - 0.5, -0.5], showgrid=False, fixedrange=False)
    fig.update_xaxes(range=[low, high])
    fig.layout.yaxis.title.text = "position"
    fig.layout.yaxis.title.standoff = 4
    return fig


def _events(fig: go.Figure, look: Look, seen: Sequence[int], i: int) -> None:
    """A dotted line an event, while there are few."""
    if len(seen) > 32:
        return
    name = suffix(i)
    line = dict(color=look.ink3, width=0.75, dash="1px,3px")
    box = dict(type="line", xref=f"x{name}", yref=f"y{name} domain", y0=0, y1=1, line=line)
    put(fig, shapes=[box | dict(x0=at, x1=at) for at in seen])
