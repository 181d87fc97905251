"""One event: the scores of what was in the cache, and which query won each kept entry.

Pure: frames in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.figures.theme import LIGHT, NAMED, PAIR, Look, placeholder, round_ticks, start, token_label

FATES = ("protected", "kept", "evicted")
ROW = 13  # px of an observer


def fate_mark(fate: str, look: Look) -> tuple[str, str, int]:
    """(symbol, colour, size): told apart by symbol as well as by colour."""
    return {
        "kept": ("circle", look.memory, 7),
        "evicted": ("x-thin", look.rival, 7),
        "protected": ("square", look.ink3, 6),
    }[fate]


def scores(frame: pd.DataFrame, *, subtitle: str, look: Look = LIGHT) -> go.Figure:
    """frame: position, text, score, fate (kept, evicted, protected); one row an entry.

    The dotted line is the lowest score that was kept by its rank.
    """
    fig = start(look, "Scores at this event", subtitle, height=PAIR + 20, left=NAMED + 8)
    known = frame[frame["score"].notna()] if len(frame) else frame
    if not len(known):
        placeholder(fig, look, "This method gives no scores")
        return fig
    log = bool((known["score"] > 0).all()) and known["score"].max() / known["score"].min() > 50
    for fate in FATES:
        rows = known[known["fate"] == fate]
        symbol, colour, size = fate_mark(fate, look)
        fig.add_scatter(
            x=rows["position"],
            y=rows["score"],
            mode="markers",
            cliponaxis=False,
            name=fate,
            marker=dict(
                symbol=symbol,
                size=size,
                color=colour,
                line=dict(width=1.75 if fate == "evicted" else 0, color=colour),
            ),
            text=[token_label(t) for t in rows["text"]],
            hovertemplate=f"%{{text}}<br>position %{{x}}, {fate}<br>score %{{y:.3~g}}"
            "<extra></extra>",
        )
    cut = known.loc[known["fate"] == "kept", "score"]
    if len(cut):
        fig.add_hline(
            y=float(cut.min()),
            line=dict(color=look.ink3, width=1.25, dash="1px,3px"),
            layer="below",
        )
    fig.update_layout(hovermode="closest")
    low, high = float(known["score"].min()), float(known["score"].max())
    axis = dict(type="log", dtick=1, exponentformat="power") if log else round_ticks(low, high, 4)
    fig.update_yaxes(title_text="score" + (", log scale" if log else ""), **axis)
    fig.update_xaxes(title_text="position", layer="below traces")
    return fig


def voters(frame: pd.DataFrame, observers: pd.DataFrame, *, look: Look = LIGHT) -> go.Figure:
    """frame: position, text, score, observer, head: kept entries and the query that won each.

    observers: observer (place), kind, position, in the order in which they are drawn.
    """
    rows = max(len(observers), 6)
    told = "One row a query, one dot an entry kept by its vote"
    fig = start(look, "Who voted", told, height=110 + ROW * rows, left=NAMED + 4, right=64)
    if not len(observers):
        placeholder(fig, look, "This method asks no queries")
        return fig
    place = {int(o): i for i, o in enumerate(observers["observer"])}
    kinds = observers["kind"].tolist()
    for kind in dict.fromkeys(kinds):
        symbol, colour = kind_mark(kind, look)
        held = frame[[kinds[place[int(o)]] == kind for o in frame["observer"]]]
        names = [observer_name(observers.iloc[place[int(o)]]) for o in held["observer"]]
        fig.add_scatter(
            x=held["position"],
            y=[place[int(o)] for o in held["observer"]],
            mode="markers",
            cliponaxis=False,
            name=kind,
            marker=dict(symbol=symbol, size=6.5, color=colour, line_width=0),
            customdata=list(
                zip(
                    [token_label(t) for t in held["text"]],
                    names,
                    held["head"],
                    held["score"],
                    strict=True,
                )
            ),
            hovertemplate="%{customdata[0]}<br>position %{x}, kept by %{customdata[1]}, "
            "head %{customdata[2]}<br>score %{customdata[3]:.3~g}<extra></extra>",
        )
    _groups(fig, look, kinds)
    step = 1 if len(observers) <= 40 else 2
    ticks = list(range(0, len(observers), step))
    fig.update_layout(hovermode="closest")
    fig.update_yaxes(
        range=[len(observers) - 0.4, -0.6],
        tickvals=ticks,
        ticktext=[tick(observers.iloc[i]) for i in ticks],
        tickfont=dict(size=10.5, color=look.ink2),
        title_text="query, position",
        title_standoff=10,
    )
    fig.update_xaxes(title_text="position of the kept entry", layer="below traces")
    return fig


def kind_mark(kind: str, look: Look) -> tuple[str, str]:
    """(symbol, colour): beacons stand out; any other query is a plain one."""
    return ("diamond", look.memory) if kind == "beacon" else ("circle", look.ink2)


def _groups(fig: go.Figure, look: Look, kinds: list[str]) -> None:
    """The kinds' names at the right, and a line where one ends."""
    for kind in dict.fromkeys(kinds):
        places = [i for i, k in enumerate(kinds) if k == kind]
        fig.add_annotation(
            x=1,
            xref="paper",
            y=float(np.mean(places)),
            text=kind + "s" * (kind == "beacon"),
            showarrow=False,
            xanchor="left",
            xshift=10,
            font=dict(size=12.5, color=look.memory_text if kind == "beacon" else look.ink2),
        )
        if places[-1] + 1 < len(kinds):
            fig.add_hline(y=places[-1] + 0.5, line=dict(color=look.ink3, width=1))


def observer_name(observer: pd.Series) -> str:
    """`beacon 133`, `recent 208`; a query whose position is not kept has its number."""
    if observer["position"] < 0:
        return f"{observer['kind']} no. {int(observer['observer']) + 1}"
    return f"{observer['kind']} {tick(observer)}"


def tick(observer: pd.Series) -> str:
    at = int(observer["position"])
    return str(at) if at >= 0 else f"{observer['kind'][:1]}{int(observer['observer']) + 1}"
