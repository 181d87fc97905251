"""Log-probability of every token at one phase minus the same token at another.

Pure: frame in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from app.figures.theme import LIGHT, NAMED, Look, placeholder, start, token_label

MOST_BARS = 2000


def token_difference(
    frame: pd.DataFrame, *, first: int, second: int, stride: int, look: Look = LIGHT
) -> go.Figure:
    """frame: index (token of the prompt without padding), text, role, phase, difference (nats).

    `first`, `second`: the two phases of the target.  Bars above zero: likelier at `first`.
    """
    fig = start(
        look,
        f"Log-probability at phase {first} minus phase {second}",
        f"Each token of the prompt, mean over the copies of a phase. Up: likelier at phase {first}",
        height=240,
        left=NAMED,
    )
    frame = frame.head(MOST_BARS)
    if len(frame):
        text = frame.apply(
            lambda row: (
                f"{token_label(row['text'])}<br>token {row['index']:g}, {row['role']}"
                + (
                    f", t mod {stride} = {row['phase']:g} at phase {first}"
                    if pd.notna(row.get("phase"))
                    else ""
                )
            ),
            axis=1,
        )
        gold = frame["role"].isin(["answer"])
        colours = [
            look.gold if g else look.memory if v >= 0 else look.rival
            for g, v in zip(gold, frame["difference"], strict=True)
        ]
        fig.add_bar(
            x=frame["index"],
            y=frame["difference"],
            marker=dict(color=colours, line_width=0),
            text=text,
            textposition="none",
            hovertemplate="%{y:.3f} nats<br>%{text}<extra></extra>",
        )
    else:
        placeholder(fig, look, "No token rows for these phases")
    fig.update_yaxes(title_text="difference, nats", zeroline=True, zerolinecolor=look.line)
    fig.update_xaxes(title_text="token of the prompt, padding left out")
    return fig
