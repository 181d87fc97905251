"""The observation set: how alike its queries are, where they lie, and what they cover.

Pure: frames and arrays in, figures out.  No Streamlit, no engine.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.figures.theme import (
    LIGHT,
    NAMED,
    Look,
    number_cell,
    placeholder,
    plain,
    put,
    round_ticks,
    start,
)
from app.figures.votes import kind_mark, observer_name, tick
from app.words import number

HEIGHT = 300
SHARES = [0.0, 0.25, 0.5, 0.75, 1.0]


def scale(look: Look) -> list[list]:
    last = len(look.sequential) - 1
    return [[i / last, colour] for i, colour in enumerate(look.sequential)]


def bar(low: float, high: float, title: str) -> dict:
    """A thin colour bar with the house's numbers."""
    ticks = [low + share * (high - low) for share in SHARES[::2]]
    return dict(
        thickness=8,
        outlinewidth=0,
        len=0.7,
        tickvals=ticks,
        ticktext=[number(t, 2) for t in ticks],
        tickfont=dict(size=11),
        title=dict(text=title, side="top", font=dict(size=12)),
    )


def cosine(cells: np.ndarray, observers: pd.DataFrame, *, look: Look = LIGHT) -> go.Figure:
    """cells: float [m, m], cosine of every two queries before RoPE; observers: kind, position."""
    fig = start(
        look, "How alike the queries are", "Cosine before RoPE", height=HEIGHT, left=NAMED + 4
    )
    if not cells.size:
        placeholder(fig, look, "This method keeps no queries")
        return fig
    names = [observer_name(o) for _, o in observers.iterrows()]
    low = min(0.0, float(np.floor(cells.min() * 10) / 10))
    fig.add_heatmap(
        z=cells.astype(np.float32),
        zmin=low,
        zmax=1,
        colorscale=scale(look),
        colorbar=bar(low, 1, "cosine"),
        customdata=[[f"{a}, {b}" for b in names] for a in names],
        hovertemplate="%{customdata}<br>cosine %{z:.2f}<extra></extra>",
    )
    kinds = observers["kind"].tolist()
    edge = next((i for i in range(1, len(kinds)) if kinds[i] != kinds[i - 1]), None)
    if edge:
        line = dict(color=look.page, width=2)
        fig.add_hline(y=edge - 0.5, line=line)
        fig.add_vline(x=edge - 0.5, line=line)
    step = max(1, -(-len(kinds) // 8))
    ticks = list(range(0, len(kinds), step))
    words = [tick(observers.iloc[i]) for i in ticks]
    named = dict(
        tickvals=ticks,
        ticktext=words,
        tickangle=0,
        showgrid=False,
        showline=False,
        constrain="domain",
    )
    side = "beacons, then recent" if edge else str(kinds[0])
    fig.update_xaxes(title_text=f"query, position: {side}", **named)
    fig.update_xaxes(constraintoward="left")
    fig.update_yaxes(
        autorange="reversed",
        scaleanchor="x",
        constraintoward="top",
        title_text="query, position",
        **named,
    )
    fig.update_layout(hovermode="closest")
    return fig


def pca(points: pd.DataFrame, history: pd.DataFrame, *, look: Look = LIGHT) -> go.Figure:
    """points: x, y, kind, position; history: x, y, a sample of all queries so far."""
    fig = start(
        look,
        "Where they lie",
        "Blue: beacons; dark: others; pale: history",
        height=HEIGHT,
        left=12,
    )
    if not len(points):
        placeholder(fig, look, "This method keeps no queries")
        return fig
    fig.add_scatter(
        x=history["x"],
        y=history["y"],
        mode="markers",
        marker=dict(size=5, color=look.tint(look.ink3, 0.28), line_width=0),
        name="history",
        hoverinfo="skip",
    )
    for kind in sorted(set(points["kind"]), key="beacon".__eq__):  # beacons above all others
        held = points[points["kind"] == kind]
        symbol, colour = kind_mark(kind, look)
        size = 10 if kind == "beacon" else 7
        fig.add_scatter(
            x=held["x"],
            y=held["y"],
            mode="markers",
            cliponaxis=False,
            marker=dict(
                size=size, symbol=symbol, color=colour, line=dict(width=1, color=look.page)
            ),
            name=kind,
            text=[observer_name(o) for _, o in held.iterrows()],
            hovertemplate="%{text}<extra></extra>",
        )
    fig.update_layout(hovermode="closest")
    fig.update_xaxes(title_text="component 1", showticklabels=False)
    fig.update_yaxes(title_text="component 2", showticklabels=False, showgrid=False)
    return fig


def coverage(frame: pd.DataFrame, *, own: str, look: Look = LIGHT) -> go.Figure:
    """frame: selector, position, cosine: the highest cosine of each following query to a set.

    One row a selector, the best mean on top; `own`: the selector that this method uses.
    """
    names = []
    if len(frame):
        means = frame.groupby("selector", sort=False)["cosine"].mean()
        names = list(means.sort_values(ascending=False, kind="stable").index)
    fig = start(
        look,
        "Cover of the queries that follow",
        "Highest cosine to each set, until the next event. Line: mean",
        height=HEIGHT,
        left=8,
        right=40,
    )
    if not names:
        placeholder(fig, look, "No token follows this event")
        return fig
    shapes, labels = [], []
    for place, name in enumerate(names):
        held = frame[frame["selector"] == name]
        mine = name == own
        mean = float(held["cosine"].mean())
        fig.add_scatter(
            x=held["cosine"],
            y=[place] * len(held),
            mode="markers",
            cliponaxis=False,
            marker=dict(
                size=7,
                symbol="circle",
                color=look.tint(look.memory if mine else look.ink3, 0.5),
                line_width=0,
            ),
            name=plain(name),
            text=held["position"],
            hovertemplate="query %{text}: %{x:.2f}<extra></extra>",
        )
        line = dict(color=look.memory if mine else look.ink2, width=2.25)
        ends = dict(x0=mean, x1=mean, y0=place - 0.32, y1=place + 0.32)
        shapes.append(dict(type="line", line=line, **ends))
        colour = look.memory_text if mine else look.ink2
        labels.append(number_cell(34, place, number(mean, 2), colour))
    put(fig, shapes=shapes, labels=labels)
    fig.update_layout(hovermode="closest")
    fig.update_yaxes(
        range=[len(names) - 0.5, -0.5],
        tickvals=list(range(len(names))),
        ticktext=[f"<b>{plain(n)}</b>" if n == own else plain(n) for n in names],
        ticklabelstandoff=8,
        showgrid=False,
    )
    low, high = float(frame["cosine"].min()) - 0.03, min(1.0, float(frame["cosine"].max()) + 0.03)
    fig.update_xaxes(
        range=[low, high], title_text="cosine", showgrid=True, **round_ticks(low, high, 5)
    )
    return fig


def distances(
    frame: pd.DataFrame,
    *,
    subtitle: str,
    layer: int | None = None,
    heads: tuple[int, int] | None = None,
    look: Look = LIGHT,
) -> go.Figure:
    """frame: layer, head, share of global queries.  `layer`, `heads` (first, last): outlined."""
    rows = frame["layer"].nunique() if len(frame) else 0
    fig = start(
        look,
        "Global queries by layer and head",
        subtitle,
        height=min(420, max(220, 110 + 15 * rows)),
        left=NAMED,
    )
    if not rows:
        placeholder(fig, look, "Not computed for this run")
        return fig
    table = frame.pivot_table(index="layer", columns="head", values="share", sort=True)
    top = max(0.05, float(np.nanmax(table.to_numpy())))
    fig.add_heatmap(
        z=table.to_numpy(np.float32),
        x=table.columns.to_numpy(),
        y=table.index.to_numpy(),
        zmin=0,
        zmax=top,
        colorscale=scale(look),
        colorbar=bar(0, top, "share"),
        xgap=1,
        ygap=1,
        hovertemplate="layer %{y}, query head %{x}<br>%{z:.2f} of the queries are global"
        "<extra></extra>",
    )
    if layer is not None and heads is not None:
        fig.add_shape(
            type="rect",
            x0=heads[0] - 0.5,
            x1=heads[1] + 0.5,
            y0=layer - 0.5,
            y1=layer + 0.5,
            line=dict(color=look.rival, width=2),
        )
    fig.update_layout(hovermode="closest")
    step = max(1, -(-rows // 12))
    wide = max(1, -(-table.shape[1] // 24))
    fig.update_yaxes(
        autorange="reversed",
        showgrid=False,
        title_text="layer",
        tickvals=list(table.index[::step]),
        title_standoff=10,
    )
    fig.update_xaxes(title_text="query head", showline=False, tickvals=list(table.columns[::wide]))
    return fig
