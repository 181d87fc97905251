"""One run over its positions against the full cache: likelihood, bytes, regret, marks, restored.

Pure: frames in, figures out.  No Streamlit, no engine.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from app.figures.theme import (
    LIGHT,
    NAMED,
    Look,
    end_labels,
    name_label,
    number_cell,
    placeholder,
    plain,
    probability_axis,
    put,
    round_ticks,
    start,
    token_label,
)
from app.figures.timeline import shown_events
from app.words import fixed

SMALL, WIDE = 182, 250
SMOOTH = 16  # tokens of the moving mean
NOTHING = "No questions, or nothing to put back"
# A mark's line, and the same as letters before its name.
DASHES = {
    "solid": "──",
    "6px,4px": "╌╌",
    "2px,3px": "∙∙∙",
    "10px,3px,2px,3px": "─∙─",
    "16px,5px": "─ ─",
}


def event_lines(fig: go.Figure, look: Look, events: Sequence[int], chosen: int | None) -> None:
    """A faint line at each event; the chosen one in ink."""
    shapes = []
    for place, seen in shown_events(events, chosen):
        hit = place == chosen
        line = dict(color=look.ink if hit else look.line, width=1.25 if hit else 1)
        shape = dict(type="line", x0=seen, x1=seen, y0=0, y1=1, yref="paper", layer="below")
        shapes.append(shape | {"line": line})
    put(fig, shapes=shapes)


def likelihood(
    frame: pd.DataFrame,
    *,
    label: str,
    events: Sequence[int] = (),
    chosen: int | None = None,
    look: Look = LIGHT,
) -> go.Figure:
    """frame: position, text, nll, full: nats of each token of the continuation, both caches."""
    told = f"Nats a token, mean of {SMOOTH}. Lines: events"
    fig = start(look, "Negative log-likelihood", told, height=SMALL, left=NAMED, right=78)
    if not len(frame):
        placeholder(fig, look, "No token is scored")
        return fig
    event_lines(fig, look, events, chosen)
    smooth = frame[["nll", "full"]].rolling(SMOOTH, min_periods=1).mean()
    tokens = [token_label(t) for t in frame["text"]]
    for name, words, colour, width in (
        ("full", "full cache", look.control, 2),
        ("nll", plain(label), look.memory, 1.75),
    ):
        fig.add_scatter(
            x=frame["position"],
            y=smooth[name],
            mode="lines",
            line=dict(color=colour, width=width),
            name=words,
            customdata=list(zip(tokens, frame[name], strict=True)),
            hovertemplate="%{customdata[0]}: %{customdata[1]:.2f}, mean %{y:.2f}",
        )
    high = float(smooth.max().max()) * 1.08 or 1.0
    ends = [(float(smooth[n].iloc[-1]), w, c) for n, w, c in _named(label, look)]
    end_labels(fig, float(frame["position"].iloc[-1]), ends, span=(0, high), least=0.16)
    fig.update_yaxes(range=[0, high], title_text="nats", **round_ticks(0, high, 4))
    fig.update_xaxes(range=ends_of(frame["position"]), layer="below traces")
    return fig


def ends_of(values: pd.Series) -> list[float]:
    """First and last value: names at a line's end must not stretch the axis."""
    return [float(values.min()), float(max(values.max(), values.min() + 1))]


def _named(label: str, look: Look) -> tuple[tuple[str, str, str], ...]:
    return (
        ("full", "full cache", look.ink2),
        ("nll", f"<b>{name_label(label, 11)}</b>", look.memory_text),
    )


def held_bytes(
    frame: pd.DataFrame,
    *,
    label: str,
    events: Sequence[int] = (),
    chosen: int | None = None,
    look: Look = LIGHT,
) -> go.Figure:
    """frame: position, bytes, full: the cache after each token, all layers, one row."""
    unit, each = byte_unit(float(frame["full"].max()) if len(frame) else 0)
    fig = start(
        look, "Cache", f"{unit}, all layers, one prompt", height=SMALL, left=NAMED, right=78
    )
    if not len(frame):
        placeholder(fig, look, "No bytes are known")
        return fig
    event_lines(fig, look, events, chosen)
    for name, words, colour, width in (
        ("full", "full cache", look.control, 2),
        ("bytes", plain(label), look.memory, 1.75),
    ):
        fig.add_scatter(
            x=frame["position"],
            y=frame[name] / each,
            mode="lines",
            line=dict(color=colour, width=width, shape="hv"),
            name=words,
            hovertemplate=f"%{{y:.3~g}} {unit}",
        )
    high = float(frame["full"].max()) / each * 1.08
    ends = [
        (float(frame["full"].iloc[-1]) / each, "full cache", look.ink2),
        (
            float(frame["bytes"].iloc[-1]) / each,
            f"<b>{name_label(label, 11)}</b>",
            look.memory_text,
        ),
    ]
    end_labels(fig, float(frame["position"].iloc[-1]), ends, span=(0, high), least=0.16)
    fig.update_yaxes(range=[0, high], title_text=unit, nticks=4)
    fig.update_xaxes(range=ends_of(frame["position"]), title_text="position", layer="below traces")
    return fig


def byte_unit(most: float) -> tuple[str, float]:
    """The unit that gives a cache a few digits, and its bytes."""
    for unit, each in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if most >= each:
            return unit, each
    return "B", 1.0


def regret(
    frame: pd.DataFrame,
    *,
    subtitle: str,
    events: Sequence[int] = (),
    chosen: int | None = None,
    look: Look = LIGHT,
) -> go.Figure:
    """frame: position, text, mass: attention of the full run on entries evicted here by then."""
    fig = start(look, "Attention to what is gone", subtitle, height=WIDE, left=NAMED)
    if not len(frame):
        placeholder(fig, look, "Nothing was evicted")
        return fig
    event_lines(fig, look, events, chosen)
    fig.add_scatter(
        x=frame["position"],
        y=frame["mass"],
        mode="lines",
        line=dict(color=look.memory, width=1.5),
        fill="tozeroy",
        fillcolor=look.tint(look.memory, 0.12),
        text=[token_label(t) for t in frame["text"]],
        name="regret",
        hovertemplate="%{text}: %{y:.2f} of its attention",
    )
    probability_axis(fig, title="share of attention")
    fig.update_xaxes(range=ends_of(frame["position"]), title_text="position", layer="below traces")
    return fig


def retention(
    frame: pd.DataFrame,
    *,
    subtitle: str,
    events: Sequence[int] = (),
    chosen: int | None = None,
    look: Look = LIGHT,
) -> go.Figure:
    """frame: seen, mark, retained: share of each mark's entries that are still in the cache."""
    fig = start(look, "Marks still in the cache", subtitle, height=WIDE, left=NAMED, right=140)
    if not len(frame):
        placeholder(fig, look, "No marks, or no events")
        return fig
    event_lines(fig, look, events, chosen)
    ends, dashes = [], list(DASHES)
    for place, (name, held) in enumerate(frame.groupby("mark", sort=False)):
        dash = dashes[place % len(dashes)]
        wide = dash == "solid"
        fig.add_scatter(
            x=held["seen"],
            y=held["retained"],
            mode="lines",
            line=dict(color=look.gold, width=2.25 if wide else 1.75, shape="hv", dash=dash),
            name=name_label(name),
            hovertemplate="%{y:.2f}",
        )
        words = f"{DASHES[dash]} {name_label(name, 16)}"
        ends.append((float(held["retained"].iloc[-1]), words, look.gold_text))
    end_labels(fig, float(frame["seen"].max()), ends, least=0.1)
    probability_axis(fig, title="share of entries")
    fig.update_xaxes(range=ends_of(frame["seen"]), title_text="tokens read", layer="below traces")
    return fig


def restored(frame: pd.DataFrame, *, nothing: str = NOTHING, look: Look = LIGHT) -> go.Figure:
    """frame: mark, before, after, full: log-probability of the answer, in nats.

    Hollow: as the run had it; solid: with the mark's evicted entries put back; grey: full cache.
    """
    fig = start(
        look,
        "Put back what was evicted",
        "Log-probability. Hollow: as it was; solid: put back; grey: full cache",
        height=max(190, 104 + 34 * len(frame)),
        right=190,
        left=8,
    )
    if not len(frame):
        placeholder(fig, look, nothing)
        return fig
    for place, row in enumerate(frame.to_dict("records")):
        fig.add_scatter(
            x=[row["before"], row["after"]],
            y=[place, place],
            mode="lines",
            line=dict(color=look.tint(look.memory, 0.45), width=2),
            hoverinfo="skip",
        )
    hover = [name_label(m) for m in frame["mark"]]
    for name, words, colour, symbol in (
        ("full", "full cache", look.control, "circle"),
        ("before", "as it was", look.memory, "circle-open"),
        ("after", "put back", look.memory, "circle"),
    ):
        fig.add_scatter(
            x=frame[name],
            y=list(range(len(frame))),
            mode="markers",
            cliponaxis=False,
            marker=dict(size=10, symbol=symbol, color=colour, line=dict(width=2, color=colour)),
            name=words,
            text=hover,
            hovertemplate=f"%{{text}}, {words}: %{{x:.2f}}<extra></extra>",
        )
    columns = (("before", "as it was", 70), ("after", "put back", 132), ("full", "full", 184))
    labels = []
    for name, head, x in columns:
        labels.append(number_cell(x, -0.75, head, look.ink3))
        for place, value in enumerate(frame[name]):
            labels.append(number_cell(x, place, fixed(float(value), 2), look.ink))
    put(fig, labels=labels)
    fig.update_layout(hovermode="closest")
    fig.update_yaxes(
        range=[len(frame) - 0.4, -1.0],
        tickvals=list(range(len(frame))),
        ticktext=[name_label(m, 18) for m in frame["mark"]],
        ticklabelstandoff=8,
        showgrid=False,
    )
    known = frame[["before", "after", "full"]].to_numpy()
    low, high = float(known.min()), float(known.max())
    low, high = low - 0.06 * (high - low) - 0.02, min(high + 0.06 * (high - low) + 0.02, 0.0)
    fig.update_xaxes(
        range=[low, high],
        title_text="log-probability, nats",
        showgrid=True,
        layer="below traces",
        **round_ticks(low, high, 6),
    )
    return fig
