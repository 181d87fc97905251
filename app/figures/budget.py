"""Quality against memory: by mean resident tokens, by bytes, and differences in pairs.

Pure: frames in, figures out.  No Streamlit, no engine.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.figures.theme import (
    LIGHT,
    NAMED,
    OPENED,
    Look,
    end_labels,
    name_label,
    placeholder,
    plain,
    probability_axis,
    ribbon,
    round_ticks,
    start,
)
from app.words import NOTHING, cache_size, count, number, p_value

MEASURES = {
    "nll": ("Negative log-likelihood", "nats a token", "lower is better"),
    "recall": ("Recall of the marked facts", "recall", "higher is better"),
}
LONGEST = 22  # characters of a method's name at the end of its line


def against_budget(
    frame: pd.DataFrame, full: dict | None, *, measure: str, look: Look = LIGHT
) -> go.Figure:
    """frame: label, resident, value, low, high, peak, bytes, budget, colour, text, symbol.

    full: value, low, high of the full cache, a grey line over all budgets.
    """
    title, unit, better = MEASURES[measure]
    names = {x: end_name(str(x), look) for x in frame["label"].unique()} if len(frame) else {}
    longest = max([10, *(len(part) for x in names for part in str(x).split(", ", 1))])
    right = min(LONGEST, longest) * 7 + 26
    told = f"Ribbon: 95 %, resampled by prompt; {better}"
    fig = start(look, title, told, height=OPENED, left=NAMED, right=right)
    if not len(frame):
        placeholder(fig, look, "No budget is measured yet")
        return fig
    left, top = float(frame["resident"].min()), float(frame["resident"].max())
    edge = 0.06 * (top - left) or 0.1 * top
    ends = []
    known = [*frame["low"], *frame["high"], *frame["value"]]
    if full and full.get("value") is not None:
        known.append(full["value"])
        if full.get("low") is not None:
            fig.add_shape(
                type="rect",
                x0=left - edge,
                x1=top + edge,
                y0=full["low"],
                y1=full["high"],
                line_width=0,
                fillcolor=look.tint(look.control, 0.14),
                layer="below",
            )
            known += [full["low"], full["high"]]
        fig.add_scatter(
            x=[left - edge, top + edge],
            y=[full["value"]] * 2,
            mode="lines",
            line=dict(color=look.control, width=2),
            name="full cache",
            hovertemplate="%{y:.3f}",
        )
        ends.append((float(full["value"]), "full cache", look.ink2))
    for label, held in frame.groupby("label", sort=False):
        held = held.sort_values("resident")
        first = held.iloc[0]
        sure = held.dropna(subset=["low", "high"])
        if len(sure) > 1:
            ribbon(
                fig,
                look,
                sure["resident"].tolist(),
                sure["low"].tolist(),
                sure["high"].tolist(),
                first["colour"],
            )
        fig.add_scatter(
            x=held["resident"],
            y=held["value"],
            mode="lines+markers",
            cliponaxis=False,
            line=dict(color=first["colour"], width=2),
            marker=dict(size=8, symbol=first["symbol"], color=first["colour"], line=dict(width=0)),
            name=name_label(label, LONGEST),
            text=[hover(row) for row in held.to_dict("records")],
            hovertemplate="%{y:.3f}<br>%{text}",
        )
        ends.append((float(held["value"].iloc[-1]), names[label], first["text"]))
    span = (0.0, 1.02)
    if measure == "recall":
        probability_axis(fig, title="recall")
    else:
        low, high = min(v for v in known if pd.notna(v)), max(v for v in known if pd.notna(v))
        room = 0.06 * (high - low) or 0.05
        span = (low - room, high + room)
        fig.update_yaxes(range=list(span), title_text=unit, **round_ticks(*span, 6))
    least = 0.14 if any("<br>" in name for name in names.values()) else 0.075
    end_labels(fig, top + edge * 0.6, ends, span=span, least=least)
    fig.update_layout(hovermode="closest")
    fig.update_xaxes(
        range=[left - edge, top + edge],
        title_text="mean resident tokens per KV head",
        layer="below traces",
        nticks=8,
    )
    return fig


def end_name(label: str, look: Look) -> str:
    """A method's name at its line's end, its options on a line of their own."""
    name, comma, options = label.partition(", ")
    if not comma:
        return name_label(name, LONGEST)
    small = f'<span style="font-size:11px;color:{look.ink2}">{name_label(options, LONGEST)}</span>'
    return f"{name_label(name, LONGEST)}<br>{small}"


def hover(row: dict) -> str:
    """Budget, interval, peak and bytes, each on its own line."""
    parts = [f"{plain(str(row['label']))}, budget {count(int(row['budget']), 'token')}"]
    if pd.notna(row.get("low")):
        parts.append(f"{number(row['low'], 2)} to {number(row['high'], 2)}")
    parts.append(f"mean {row['resident']:.0f} tokens, peak {row['peak']:.0f}")
    parts.append(f"{cache_size(row['bytes'])} mean, {cache_size(row['peak_bytes'])} peak")
    return "<br>".join(parts)


def pareto(
    frame: pd.DataFrame, full: dict | None, *, measure: str, look: Look = LIGHT
) -> go.Figure:
    """Quality against bytes, log scale.  frame as `against_budget`, with peak_bytes, front.

    Solid: mean bytes; hollow: peak.  The stepped line joins what no other point beats in both.
    """
    title, unit, _ = MEASURES[measure]
    fig = start(
        look,
        f"{title} against bytes",
        "Solid: mean bytes; hollow: peak. Dotted: beaten by none",
        height=OPENED,
        left=NAMED,
        right=30,
    )
    if not len(frame):
        placeholder(fig, look, "No budget is measured yet")
        return fig
    best = [(row["bytes"], row["value"]) for row in frame.to_dict("records") if row["front"]]
    if full and full.get("front"):
        best.append((full["bytes"], full["value"]))
    best.sort()
    fig.add_scatter(
        x=[x for x, _ in best],
        y=[y for _, y in best],
        mode="lines",
        line=dict(color=look.ink3, width=1.25, dash="2px,3px"),
        name="beaten by none",
        hoverinfo="skip",
    )
    for row in frame.to_dict("records"):
        fig.add_scatter(
            x=[row["bytes"], row["peak_bytes"]],
            y=[row["value"]] * 2,
            mode="lines+markers",
            cliponaxis=False,
            line=dict(color=look.tint(row["colour"], 0.4), width=1.5),
            marker=dict(
                size=9,
                symbol=[row["symbol"], f"{row['symbol']}-open"],
                color=row["colour"],
                line=dict(width=1.5, color=row["colour"]),
            ),
            name=name_label(row["label"], LONGEST),
            text=[hover(row)] * 2,
            hovertemplate="%{y:.3f}<br>%{text}<extra></extra>",
        )
    sizes = [*frame["bytes"], *frame["peak_bytes"]]
    if full and full.get("value") is not None and full.get("bytes"):
        sizes += [full["bytes"], full.get("peak_bytes") or full["bytes"]]
        fig.add_scatter(
            x=[full["bytes"], full.get("peak_bytes") or full["bytes"]],
            y=[full["value"]] * 2,
            mode="lines+markers",
            cliponaxis=False,
            line=dict(color=look.tint(look.control, 0.6), width=1.5),
            marker=dict(size=9, symbol=["circle", "circle-open"], color=look.control),
            name="full cache",
            hovertemplate="full cache: %{y:.3f}<extra></extra>",
        )
    fig.update_layout(hovermode="closest")
    if measure == "recall":
        probability_axis(fig, title="recall")
    else:
        values = [*frame["value"], *([full["value"]] if full else [])]
        room = 0.08 * (max(values) - min(values)) or 0.05
        span = (min(values) - room, max(values) + room)
        fig.update_yaxes(range=list(span), title_text=unit, **round_ticks(*span, 6))
    ticks = round_sizes(min(sizes), max(sizes))
    fig.update_xaxes(
        type="log",
        tickvals=ticks,
        ticktext=[cache_size(t) for t in ticks],
        range=[math.log10(min(sizes)) - 0.04, math.log10(max(sizes)) + 0.05],
        title_text="cache and method state, log scale",
        showgrid=True,
        layer="below traces",
    )
    return fig


def round_sizes(low: float, high: float) -> list[float]:
    """1, 2, 5 and their tens between two sizes; halves of the way too where few fit."""
    for steps in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        found = [m * 10.0**k for k in powers for m in steps if low <= m * 10.0**k <= high]
        if len(found) > 2:
            return found
    return found or [low, high]


def paired(frame: pd.DataFrame, *, measure: str, look: Look = LIGHT) -> go.Figure:
    """frame: budget, a, b, diff, low, high, p_corrected, resolved, colour, symbol.

    Solid: told from zero by the test; hollow: not.  Numbers in columns at the right.
    """
    title, unit, _ = MEASURES[measure]
    rows = len(frame) + frame["budget"].nunique() if len(frame) else 0
    fig = start(
        look,
        "Differences in pairs",
        f"{title}, first minus second. 95 %, by prompt; p after Holm. Solid: resolved",
        height=max(190, 112 + 24 * rows),
        left=8,
        right=236,
    )
    if not len(frame):
        placeholder(fig, look, "Two methods are needed for a difference")
        return fig
    names, place = [], 0
    for budget, held in frame.groupby("budget", sort=True):
        names.append((place, f"<b>{count(int(budget), 'token')}</b>"))
        place += 1
        for row in held.to_dict("records"):
            _pair(fig, look, row, place)
            names.append((place, f"{name_label(row['a'], 26)} − {name_label(row['b'], 26)}"))
            place += 1
    fig.add_vline(x=0, line=dict(color=look.ink3, width=1.25), layer="below")
    fig.update_layout(hovermode="closest")
    fig.update_yaxes(
        range=[place - 0.4, -0.6],
        tickvals=[p for p, _ in names],
        ticktext=[t for _, t in names],
        ticklabelstandoff=8,
        showgrid=False,
        title_text="",
    )
    known = frame[["diff", "low", "high"]].to_numpy(float)
    low, high = min(0.0, float(np.nanmin(known))), max(0.0, float(np.nanmax(known)))
    room = 0.04 * (high - low) or 0.05
    fig.update_xaxes(
        range=[low - room, high + room],
        title_text=f"difference, {unit}",
        showgrid=True,
        layer="below traces",
        **round_ticks(low - room, high + room),
    )
    return fig


def _pair(fig: go.Figure, look: Look, row: dict, place: int) -> None:
    known = pd.notna(row["low"]) and pd.notna(row["high"])
    span = f"{number(row['low'], 2)} to {number(row['high'], 2)}" if known else NOTHING
    if known:
        fig.add_scatter(
            x=[row["low"], row["high"]],
            y=[place, place],
            mode="lines",
            line=dict(color=row["colour"], width=2),
            hoverinfo="skip",
        )
    told = p_value(row.get("p_corrected"))
    fig.add_scatter(
        x=[row["diff"]],
        y=[place],
        mode="markers",
        cliponaxis=False,
        marker=dict(
            size=10,
            symbol=row["symbol"],
            color=row["colour"] if row["resolved"] else look.page,
            line=dict(width=2, color=row["colour"]),
        ),
        name=f"{name_label(row['a'], 26)} − {name_label(row['b'], 26)}",
        hovertemplate=f"%{{x:.3f}}, {span}, {told}",
    )
    cells = (
        (62, number(row["diff"]), look.ink),
        (156, span, look.ink2),
        (232, told, look.ink2),
    )
    for shift, text, colour in cells:
        fig.add_annotation(
            x=1,
            xref="paper",
            xshift=shift,
            y=place,
            text=text,
            showarrow=False,
            xanchor="right",
            font=dict(size=12.5, color=colour),
        )
