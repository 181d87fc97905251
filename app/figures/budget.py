"""Quality against memory: by mean resident tokens, by bytes, and differences in pairs.

Pure: frames in, figures out.  No Streamlit, no engine.
"""

from __future__ import annotations

import math
from itertools import pairwise

import pandas as pd
import plotly.graph_objects as go

from app.figures.theme import (
    LIGHT,
    NAMED,
    OPENED,
    PANEL,
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
from app.words import cache_size, count, number

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
    edge = max(0.06 * (top - left), 0.03 * top)
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
        **budget_ticks(frame, left - edge, top + edge, 7),
    )
    return fig


def budget_panel(
    frame: pd.DataFrame,
    every: pd.DataFrame,
    full: dict | None,
    *,
    measure: str,
    look: Look = LIGHT,
) -> go.Figure:
    """One method of many, as `against_budget`; `every`: all methods' rows, for the shared scale."""
    fig = start(look, "", "", height=PANEL + 34, left=NAMED)
    fig.update_layout(margin_t=20)  # the menu's place
    left, right = float(every["resident"].min()), float(every["resident"].max())
    edge = max(0.06 * (right - left), 0.03 * right)
    if full and full.get("value") is not None:
        fig.add_scatter(
            x=[left - edge, right + edge],
            y=[full["value"]] * 2,
            mode="lines",
            line=dict(color=look.tint(look.control, 0.75), width=1.5),
            name="full cache",
            hovertemplate="%{y:.3f}",
        )
    held = frame.sort_values("resident")
    first, sure = held.iloc[0], held.dropna(subset=["low", "high"])
    if len(sure) > 1:
        x, low, high = (sure[name].tolist() for name in ("resident", "low", "high"))
        ribbon(fig, look, x, low, high, first["colour"])
    fig.add_scatter(
        x=held["resident"],
        y=held["value"],
        mode="lines+markers",
        cliponaxis=False,
        line=dict(color=first["colour"], width=1.75),
        marker=dict(size=7, symbol=first["symbol"], color=first["colour"], line_width=0),
        name=name_label(first["label"]),
        text=[hover(row) for row in held.to_dict("records")],
        hovertemplate="%{y:.3f}<br>%{text}",
    )
    if measure == "recall":
        probability_axis(fig, small=True, title="recall")
    else:
        known = [*every["low"], *every["high"], *every["value"]]
        known += [full["value"]] if full and full.get("value") is not None else []
        low, high = min(v for v in known if pd.notna(v)), max(v for v in known if pd.notna(v))
        room = 0.1 * (high - low) or 0.05  # a line on the axis would be read as the axis
        span = [low - room, high + room]
        ticks = round_ticks(*span, 4)
        if len(ticks["tickvals"]) < 3:
            ticks = round_ticks(*span, 7)
        fig.update_yaxes(range=span, title_text="nats", **ticks)
    fig.update_xaxes(
        range=[left - edge, right + edge],
        title_text="mean tokens a head",
        layer="below traces",
        **budget_ticks(every, left - edge, right + edge),
    )
    return fig


def budget_ticks(frame: pd.DataFrame, low: float, high: float, most: int = 4) -> dict:
    """Ticks at the budgets that were asked, where these are few and on the axis; else round."""
    asked = sorted({int(b) for b in frame["budget"]})
    apart = min((b - a for a, b in pairwise(asked)), default=high - low)
    if len(asked) < 2 or asked[0] < low or asked[-1] > high or apart * 3 * most < high - low:
        return round_ticks(low, high, most)
    return dict(tickvals=asked, ticktext=[str(b) for b in asked])


def end_name(label: str, look: Look) -> str:
    """A method's name at its line's end, its options on a line of their own."""
    name, comma, options = label.partition(", ")
    if not comma:
        return name_label(name, LONGEST)
    small = f'<span style="font-size:11px;color:{look.ink2}">{name_label(options, LONGEST)}</span>'
    return f"{name_label(name, LONGEST)}<br>{small}"


def hover(row: dict) -> str:
    """Budget, its shares, interval, peak and bytes, each on its own line."""
    parts = [f"{plain(str(row['label']))}, budget {count(int(row['budget']), 'token')}"]
    if pd.notna(row.get("kept_share")) and pd.notna(row.get("removed_share")):
        kept, removed = (f"{100 * row[name]:.1f} %" for name in ("kept_share", "removed_share"))
        parts.append(f"{kept} kept, {removed} removed")
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
