"""The likeliest answers by phase as a picture: rank by group, each cell a token and its mean.

Pure: frame in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from app.figures.theme import LIGHT, Look, placeholder, start, token_label
from app.words import number

COLUMN, ROW, HEAD = 132, 26, 92  # pixels
WIDEST = 4000


def likely(
    frame: pd.DataFrame, groups: Sequence[tuple[int, str]], *, title: str, look: Look = LIGHT
) -> go.Figure:
    """frame: phase, place (1 = likeliest), token, probability.  groups: phase and its name."""
    ranks = sorted(frame["place"].unique()) if len(frame) else []
    fig = start(look, title, "Mean over copies", height=HEAD + ROW * max(len(ranks), 2), left=42)
    if not len(frame):
        placeholder(fig, look, "No token rows")
        return fig
    order = [phase for phase, _ in groups]
    table = frame.pivot(index="place", columns="phase", values="probability")
    table = table.reindex(index=ranks, columns=order)
    words = frame.assign(
        cell=[
            f"{token_label(token, 10)}&nbsp; {number(value)}"
            for token, value in zip(frame["token"], frame["probability"], strict=True)
        ]
    ).pivot(index="place", columns="phase", values="cell")
    words = words.reindex(index=ranks, columns=order).fillna("")
    last = len(look.sequential) - 1
    half = [[i / last, colour] for i, colour in enumerate(look.sequential)]
    fig.add_heatmap(
        z=table.to_numpy(float),
        text=words.to_numpy(),
        zmin=0,
        zmax=2,  # the paler half of the scale, on which words can be read
        colorscale=half,
        texttemplate="%{text}",
        textfont=dict(size=12, color=look.ink),
        hovertemplate="%{text}<extra></extra>",
        showscale=False,
        xgap=2,
        ygap=2,
    )
    fig.update_xaxes(
        tickvals=list(range(len(groups))),
        ticktext=[name for _, name in groups],
        side="top",
        showline=False,
    )
    fig.update_yaxes(
        tickvals=list(range(len(ranks))),
        ticktext=[str(rank) for rank in ranks],
        title_text="rank",
        autorange="reversed",
        showgrid=False,
    )
    fig.update_layout(margin_t=76, hovermode="closest")
    return fig


def width_of(groups: Sequence[tuple[int, str]]) -> int:
    """Pixels of a picture in which every column has room for a token and its number."""
    return min(WIDEST, max(420, 80 + COLUMN * len(groups)))
