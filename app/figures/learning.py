"""Learning curves: training accuracy over steps.

Pure: frames in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
import plotly.graph_objects as go

from app.figures.marks import Mark
from app.figures.theme import (
    LIGHT,
    NAMED,
    PAIR,
    Look,
    end_labels,
    placeholder,
    plain,
    probability_axis,
    start,
)


class Lesson(NamedTuple):
    """One training: step, accuracy."""

    name: str
    frame: pd.DataFrame
    mark: Mark


def learning(
    lessons: Sequence[Lesson],
    *,
    title: str,
    subtitle: str,
    steps: int,
    height: int = PAIR,
    look: Look = LIGHT,
) -> go.Figure:
    """`steps`: the end of the x axis, so that a running curve does not rescale."""
    longest = max((len(lesson.name) for lesson in lessons), default=0)
    room = 16 + 7 * longest if longest else 8
    fig = start(look, plain(title), plain(subtitle), height=height, left=NAMED, right=room)
    ends, known = [], False
    for lesson in lessons:
        if not len(lesson.frame):
            continue
        known = True
        fig.add_scatter(
            x=lesson.frame["step"],
            y=lesson.frame["accuracy"],
            mode="lines+markers",
            cliponaxis=False,
            line=dict(color=lesson.mark.colour, width=2),
            marker=dict(size=5, color=lesson.mark.colour, symbol=lesson.mark.symbol),
            name=plain(lesson.name),
            hovertemplate="%{y:.3f} at step %{x}",
        )
        last = lesson.frame.iloc[-1]
        if lesson.name:
            early = last["step"] <= 0.7 * steps  # its line does not reach its name
            told = f"<br>to step {int(last['step'])}" if early else ""
            ends.append((float(last["accuracy"]), plain(lesson.name) + told, lesson.mark.text))
    if not known:
        placeholder(fig, look, "no steps yet")
    probability_axis(fig, title="accuracy in training")
    fig.update_xaxes(
        layer="below traces", range=[0, max(1, steps)], title_text="training steps", nticks=6
    )
    end_labels(fig, max(1, steps), ends, least=0.13)
    return fig
