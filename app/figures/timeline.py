"""What the cache held while tokens were read: one row a position, one line an event.

Pure: frame in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from app.figures.theme import LIGHT, NAMED, Look, name_label, placeholder, put, start, token_label

HEIGHT = 372
MOST_EVENTS = 32
MOST_ROWS = 900  # positions drawn; of more, every k-th
# State → what it is called, and its place on the scale from the page's colour to the deepest.
STATES = {
    "evicted": "evicted",
    "written": "new since the last event",
    "present": "in the cache",
    "protected": "protected at the next event",
}

SHORT = {"written": "new", "present": "held", "protected": "protected", "evicted": "evicted"}


def colours(look: Look) -> dict[str, str]:
    """State → colour: one hue, told apart by lightness alone."""
    scale = look.sequential
    return {
        "evicted": look.hair,
        "written": scale[2],
        "present": scale[5],
        "protected": scale[8],
    }


def timeline(
    segments: pd.DataFrame,
    *,
    events: Sequence[int],
    chosen: int | None,
    marks: Sequence[tuple[str, int, int]] = (),
    look: Look = LIGHT,
) -> go.Figure:
    """segments: position, text, state, start, stop (tokens read): one row a state of a position.

    `events`: tokens read at each event; `chosen`: place in it.  `marks`: (name, first, last).
    """
    total = int(segments["position"].max()) + 1 if len(segments) else 0
    step = -(-total // MOST_ROWS) or 1
    shade = colours(look)
    told = f"One row a token{f', every {step}th' if step > 1 else ''}: " + " ".join(
        f'<span style="color:{shade[state]}">\u25a0</span> {words}'
        for state, words in SHORT.items()
    )
    right = 112 if marks else 12
    title = "What the cache held, as tokens were read"
    fig = start(look, title, told, height=HEIGHT, left=NAMED, right=right)
    if not total:
        placeholder(fig, look, "No tokens yet")
        return fig
    drawn = segments[segments["position"] % step == 0]
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
        )
    low, high = float(segments["start"].min()), float(segments["stop"].max())
    shapes, labels = _marks(look, marks, total)
    for place, seen in shown_events(events, chosen):
        hit = place == chosen
        line = dict(color=look.ink if hit else look.ink3, width=1.75 if hit else 0.75)
        line |= {} if hit else {"dash": "1px,3px"}
        shapes.append(dict(type="line", x0=seen, x1=seen, y0=0, y1=1, yref="paper", line=line))
    if chosen is not None and 0 <= chosen < len(events):
        near = (events[chosen] - low) / max(high - low, 1)
        labels.append(
            dict(
                x=events[chosen],
                y=1,
                yref="paper",
                yanchor="bottom",
                xanchor="left" if near < 0.1 else "right" if near > 0.9 else "center",
                text=f"event {chosen + 1}",
                font=dict(size=12, color=look.ink),
            )
        )
    put(fig, shapes=shapes, labels=labels)
    fig.update_layout(hovermode="closest", bargap=0, barmode="overlay")
    fig.update_yaxes(
        range=[total - 0.5, -0.5], title_text="position", showgrid=False, title_standoff=10
    )
    fig.update_xaxes(range=[low, high], title_text="tokens read", layer="below traces")
    return fig


def shown_events(events: Sequence[int], chosen: int | None) -> list[tuple[int, int]]:
    """(place, tokens read) of the events that get a line: of very many, the chosen one alone."""
    return [(i, seen) for i, seen in enumerate(events) if len(events) <= MOST_EVENTS or i == chosen]


def _marks(
    look: Look, marks: Sequence[tuple[str, int, int]], total: int
) -> tuple[list[dict], list[dict]]:
    """A bracket at the right of each marked span, and its name where there is room for it."""
    room, before = 15 / (HEIGHT - 110) * total, -1e9
    shapes, labels = [], []
    for name, first, last in marks:
        box = dict(type="rect", x0=1.006, x1=1.014, xref="paper", y0=first - 0.5, y1=last + 0.5)
        shapes.append(box | dict(line_width=0, fillcolor=look.gold))
        middle = (first + last) / 2
        place = max(middle, before + room)
        if place - middle > 1.5 * room:
            continue
        before = place
        labels.append(
            dict(
                x=1.014,
                xref="paper",
                y=place,
                text=name_label(name, 17),
                xanchor="left",
                xshift=5,
                font=dict(size=12, color=look.gold_text),
            )
        )
    return shapes, labels
