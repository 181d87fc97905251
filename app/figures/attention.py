"""Attention of one layer and head over exact tokens and pooled entries.

Pure: array and labels in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import plotly.graph_objects as go

from app.figures.theme import LIGHT, Look, plain, start
from app.words import number

MOST_CELLS = 512
MOST_TOLD = 20_000  # cells whose weight is written out for hover


def attention(
    cells: np.ndarray,
    queries: list[str],
    keys: list[str],
    *,
    title: str,
    subtitle: str,
    chosen: tuple[int, int] | None = None,
    names: tuple[list[str], list[str]] | None = None,
    look: Look = LIGHT,
    height: int = 460,
) -> go.Figure:
    """cells: float32 [m queries, n keys], at most 512 × 512; labels of rows and columns.

    `names`: of all rows and columns for hover, where labels are too short to tell them apart.
    `chosen`: (row, column) to outline.  Colour runs with the square root of the weight, so that the
    small weights of a long prompt can be told from none.
    """
    if max(cells.shape, default=0) > MOST_CELLS:
        raise ValueError(f"at most {MOST_CELLS} × {MOST_CELLS} cells, not {cells.shape}")
    fig = start(look, title, subtitle, height=height, left=92)
    top = float(np.nanmax(cells)) if cells.size else 1.0
    whole_queries, whole_keys = (_apart(told) for told in names or (queries, keys))
    weights = (
        [[weight(float(w)) for w in row] for row in cells] if cells.size <= MOST_TOLD else None
    )
    last = len(look.sequential) - 1
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0]
    fig.add_heatmap(
        z=cells.astype(np.float32),
        zmin=0,
        zmax=max(top, 1e-6),
        colorscale=[[(i / last) ** 2, c] for i, c in enumerate(look.sequential)],
        x=whole_keys,
        y=whole_queries,
        text=weights,
        hovertemplate="query %{y}, key %{x}<br>weight "
        + ("%{z:.3f}" if weights is None else "%{text}")
        + "<extra></extra>",
        colorbar=dict(
            thickness=8,
            outlinewidth=0,
            len=0.6,
            tickvals=[t * top for t in ticks],
            ticktext=[number(t * top, 2 if top > 0.1 else 4) for t in ticks],
            title=dict(text="weight", side="top", font=dict(size=12)),
            tickfont=dict(size=11),
        ),
        xgap=1 if cells.shape[1] <= 96 else 0,
        ygap=1 if cells.shape[0] <= 96 else 0,
    )
    if chosen is not None and chosen[0] < cells.shape[0] and chosen[1] < cells.shape[1]:
        row, column = chosen
        hair = dict(color=look.rival, width=0.75, dash="dot")
        rows, columns = cells.shape
        fig.add_shape(type="line", x0=-0.5, x1=columns - 0.5, y0=row, y1=row, line=hair)
        fig.add_shape(type="line", x0=column, x1=column, y0=-0.5, y1=rows - 0.5, line=hair)
        fig.add_shape(
            type="rect",
            x0=column - 0.5,
            x1=column + 0.5,
            y0=row - 0.5,
            y1=row + 0.5,
            line=dict(color=look.rival, width=2),
        )
    fig.update_layout(hovermode="closest")
    fig.update_yaxes(
        autorange="reversed",
        type="category",
        showgrid=False,
        title_text="query token",
        title_standoff=14,
        **_ticks(queries, 26),
        constrain="domain",
    )
    fig.update_xaxes(
        title_text="key: exact token or pooled window",
        type="category",
        showline=False,
        **_ticks(keys, 30),
    )
    return fig


def weight(value: float) -> str:
    """`.133`, `.0042`: a small weight keeps a digit more."""
    return number(value, 3 if value >= 0.01 else 4)


def _apart(names: list[str]) -> list[str]:
    """Names as categories of an axis: those that stand there twice get their place."""
    told = [plain(name) for name in names]
    seen = Counter(told)
    return [f"{name}, number {i}" if seen[name] > 1 else name for i, name in enumerate(told)]


def _ticks(names: list[str], most: int) -> dict:
    """Names where they fit, every k-th otherwise."""
    step = max(1, -(-len(names) // most))
    return dict(
        tickvals=list(range(0, len(names), step)),
        ticktext=names[::step],
        tickangle=-90 if most == 30 else 0,
    )
