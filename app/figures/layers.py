"""Layer sensitivity: probability of the answer with one layer compressed at a time.

Pure: frame in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from app.figures.theme import LIGHT, NAMED, Look, probability_axis, start


def layer_scan(
    frame: pd.DataFrame,
    *,
    control: float | None,
    keep: list[int],
    look: Look = LIGHT,
    height: int = 240,
) -> go.Figure:
    """frame: layer, value, low, high.  control: the same with nothing compressed.

    `keep`: layers whose compression costs most; they are drawn full, the others pale.
    """
    fig = start(
        look,
        "Probability of the answer, one layer compressed at a time",
        "Filled: layers that cost most. 95 %, resampled by prompt",
        height=height,
        right=90,
        left=NAMED,
    )
    if control is not None:
        fig.add_hline(y=control, line=dict(color=look.control, width=2))
        fig.add_annotation(
            x=1,
            xref="paper",
            y=control,
            text="full cache",
            showarrow=False,
            xanchor="left",
            xshift=8,
            font=dict(size=13, color=look.ink2),
        )
    fig.add_scatter(
        x=frame["layer"],
        y=frame["value"],
        mode="markers",
        cliponaxis=False,
        marker=dict(
            size=9,
            color=[look.memory if int(i) in keep else look.page for i in frame["layer"]],
            line=dict(color=look.memory, width=1.75),
        ),
        error_y=dict(
            type="data",
            symmetric=False,
            array=(frame["high"] - frame["value"]).clip(lower=0),
            arrayminus=(frame["value"] - frame["low"]).clip(lower=0),
            width=0,
            thickness=1.5,
            color=look.memory,
        ),
        text=[f"layer {i}" for i in frame["layer"]],
        hovertemplate="%{y:.3f}<br>%{text} compressed<extra></extra>",
        name="gold",
    )
    probability_axis(fig, title="probability")
    last = int(frame["layer"].max()) if len(frame) else 1
    step = max(1, -(-(last + 1) // 16))
    fig.update_xaxes(
        range=[-0.6, last + 0.6],
        tickvals=list(range(0, last + 1, step)),
        title_text="compressed layer",
    )
    return fig
