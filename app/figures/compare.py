"""The same picture of each run, side by side on one scale: curves, folds, spectra.

All panels are axes of one figure: a zoom of one is a zoom of all, and the picture saves whole.
Pure: frames in, figure out.  No Streamlit, no engine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
import plotly.graph_objects as go

from app.figures.marks import Mark
from app.figures.panels import hover
from app.figures.theme import LIGHT, Look, name_label, put
from app.words import number

ACROSS = 3  # panels in a row
HEAD, PLOT, FOOT, SPACE = 76, 150, 46, 18  # px: head of a panel, its axes, their labels, between
SMALL_FOOT = 24  # px: under a panel whose x labels stand below a lower one
NAME = 34  # px: a head without numbers
LEFT, GAP = 32, 0.055  # px left of the axes, for their labels; share of the width between two
SIGNS = {  # symbol → its letter, and the px at which all look equally large
    "circle": ("●", 17),
    "diamond": ("◆", 15),
    "square": ("■", 15),
    "triangle-up": ("▲", 14),
    "x": ("✖", 13),
}


class Panel(NamedTuple):
    """One run: `frame`'s columns are those of the picture; `numbers`: (label, text) under its name.

    `note`: what an empty panel says.  `stride`: of its bands; `size`: places on the x axis.
    """

    name: str
    subtitle: str
    mark: Mark
    numbers: Sequence[tuple[str, str]]
    frame: pd.DataFrame
    note: str = ""
    stride: int | None = None
    size: int = 0


def grid(
    panels: Sequence[Panel],
    look: Look,
    *,
    x_title: str,
    plot: int = PLOT,
    across: int = ACROSS,
    left: int = LEFT,
) -> go.Figure:
    """Axes and heads of the panels, empty: axes `x`, `x2`, … zoom together.

    Of several rows the lowest panel of a column has the x labels, the first of a row the y labels:
    labels are what a browser takes longest to place.
    """
    across = max(2, min(across, len(panels)))
    rows = max(1, math.ceil(len(panels) / across))
    above = HEAD if any(panel.numbers for panel in panels) else NAME
    block = above + plot + (SMALL_FOOT if rows > 1 else FOOT) + SPACE
    inner = (rows - 1) * block + above + plot + FOOT
    fig = go.Figure()
    fig.update_layout(
        template=look.template,
        height=inner,
        margin=dict(l=left, r=8, t=0, b=0, autoexpand=False),
        dragmode="zoom",
        uirevision="compare",
        hovermode="x",
    )
    wide = (1 - (across - 1) * GAP) / across
    labels: list[dict] = []
    for i, panel in enumerate(panels):
        row, column = divmod(i, across)
        top = 1 - (row * block + above) / inner
        lowest = len(panels) - i <= across
        name = suffix(i)
        linked = {"matches": "x"} if i else {}
        fig.layout[f"xaxis{name}"] = dict(
            anchor=f"y{name}",
            domain=[column * (wide + GAP), column * (wide + GAP) + wide],
            fixedrange=False,
            automargin=False,
            layer="below traces",
            title_text=x_title if lowest else "",
            showticklabels=lowest,
            ticklabeloverflow="allow",
            **linked,
        )
        fig.layout[f"yaxis{name}"] = dict(
            anchor=f"x{name}",
            domain=[top - plot / inner, top],
            automargin=False,
            showticklabels=rows == 1 or column == 0,
            ticklabeloverflow="allow",
            **({"matches": "y"} if i else {}),
        )
        labels += _head(panel, look, name, left, above)
        if not len(panel.frame) and panel.note:
            middle = dict(x=0.5, y=0.5, xref=f"x{name} domain", yref=f"y{name} domain")
            font = dict(size=13, color=look.ink3)
            labels.append(middle | dict(text=name_label(panel.note, 60), font=font))
            fig.add_scatter(x=[None], y=[None], xaxis=f"x{name}", yaxis=f"y{name}")
    put(fig, labels=labels)
    return fig


def suffix(i: int) -> str:
    return "" if i == 0 else str(i + 1)


def _head(panel: Panel, look: Look, name: str, left: int, above: int) -> list[dict]:
    """Sign, name and subtitle; under them the numbers in columns."""
    place = dict(
        x=0, y=1, xref=f"x{name} domain", yref=f"y{name} domain", xanchor="left", yanchor="top"
    )
    letter, large = SIGNS[panel.mark.symbol]
    sign = f'<span style="color:{panel.mark.colour};font-size:{large}px">{letter}</span>'
    told = f"{sign}&nbsp; <b>{name_label(panel.name, 30)}</b>"
    if panel.subtitle:
        words = name_label(panel.subtitle, 26)
        told += f'&nbsp; <span style="color:{look.ink3};font-size:13px">{words}</span>'
    labels = [
        place | dict(text=told, xshift=-left, yshift=above, font_size=14, font_color=look.ink)
    ]
    for k, (label, value) in enumerate(panel.numbers):
        quiet = f'<span style="font-size:12px;color:{look.ink2}">{label}</span>'
        at = place | dict(xshift=-left + 52 * k, yshift=above - 23, align="left")
        labels.append(at | dict(text=f"{quiet}<br>{value}", font_size=14, font_color=look.ink))
    return labels


def curves(
    panels: Sequence[Panel],
    *,
    control: pd.DataFrame | None = None,
    chance: float | None = None,
    measure: str = "accuracy",
    look: Look = LIGHT,
) -> go.Figure:
    """frame: residue, value, low, high.  control: residue, value: the baseline, behind each."""
    size = max((panel.size for panel in panels), default=2)
    sizes = {panel.size for panel in panels}
    title = f"target position mod {size}" if len(sizes) == 1 else "target position mod R"
    fig = grid(panels, look, x_title=title)
    shapes: list[dict] = []
    for i, panel in enumerate(panels):
        axes = dict(xaxis=f"x{suffix(i)}", yaxis=f"y{suffix(i)}")
        shapes += _bands(look, panel, i)
        if chance is not None:
            shapes.append(_level(look, chance, i))
        if not len(panel.frame):
            continue
        if control is not None and len(control):
            _line(fig, control["residue"], control["value"], look.tint(look.control, 0.75), axes)
        _interval(fig, look, panel, "residue", axes)
        fig.add_scatter(
            x=panel.frame["residue"],
            y=panel.frame["value"],
            mode="lines+markers",
            line=dict(color=panel.mark.colour, width=1.75),
            marker=dict(size=5, color=panel.mark.colour, symbol=panel.mark.symbol),
            name=name_label(panel.name),
            text=hover(panel.frame, panel.size, panel.stride),
            hovertemplate="%{y:.3f}<br>%{text}<extra></extra>",
            **axes,
        )
    put(fig, shapes=shapes)
    _share_axis(fig)
    step = 6 if size > 12 else 4 if size > 8 else 1
    ticks = [r for r in range(0, size, step) if r <= size - 1 - step / 2]
    fig.update_xaxes(range=[-0.5, size - 0.5], tickvals=[*ticks, size - 1])
    return fig


def folds(
    panels: Sequence[Panel], *, control: pd.DataFrame | None = None, look: Look = LIGHT
) -> go.Figure:
    """frame: phase, value, low, high.  control: as frame, drawn where its phases are the panel's.

    `size`: the stride.  Panels share the axis of the longest stride.
    """
    size = max((panel.size for panel in panels), default=2)
    fig = grid(panels, look, x_title="phase, position mod S")
    for i, panel in enumerate(panels):
        axes = dict(xaxis=f"x{suffix(i)}", yaxis=f"y{suffix(i)}")
        if not len(panel.frame):
            continue
        if control is not None and len(control) == len(panel.frame):
            _line(fig, control["phase"], control["value"], look.tint(look.control, 0.75), axes)
        known = panel.frame.dropna(subset=["low", "high"])
        fig.add_scatter(
            x=[v for phase in known["phase"] for v in (phase, phase, None)],
            y=[
                v
                for low, high in zip(known["low"], known["high"], strict=True)
                for v in (low, high, None)
            ],
            mode="lines",
            line=dict(color=panel.mark.colour, width=1.75),
            hoverinfo="skip",
            **axes,
        )
        told = panel.frame.assign(residue=panel.frame["phase"])
        fig.add_scatter(
            x=panel.frame["phase"],
            y=panel.frame["value"],
            mode="markers",
            cliponaxis=False,
            marker=dict(
                size=9,
                color=panel.mark.colour,
                symbol=panel.mark.symbol,
                line=dict(color=look.page, width=1),
            ),
            name=name_label(panel.name),
            text=[t.replace("residue", "phase") for t in hover(told, panel.size, None)],
            hovertemplate="%{y:.3f}<br>%{text}<extra></extra>",
            **axes,
        )
    _share_axis(fig)
    step = max(1, size // 8)
    fig.update_xaxes(range=[-0.5, size - 0.5], tickvals=list(range(0, size, step)))
    return fig


def spectra(
    panels: Sequence[Panel], *, chance: float | None = None, look: Look = LIGHT
) -> go.Figure:
    """frame: period, power (share of variance).  The configured period is solid.

    Stems over the period itself, log scale: runs of other moduli stay on one axis.
    """
    fig = grid(panels, look, x_title="period, tokens, log scale")
    periods = [p for panel in panels if len(panel.frame) for p in panel.frame["period"] if p > 0]
    low, high = min(periods, default=2), max(periods, default=16)
    shapes: list[dict] = []
    for i, panel in enumerate(panels):
        axes = dict(xaxis=f"x{suffix(i)}", yaxis=f"y{suffix(i)}")
        if not len(panel.frame):
            continue
        if chance is not None:
            shapes.append(_level(look, chance, i))
        faint = look.tint(look.ink3, 0.55)
        for mine in (False, True):
            rows = panel.frame[(panel.frame["period"] == panel.stride) == mine]
            if not len(rows):
                continue
            colour = panel.mark.colour if mine else faint
            fig.add_scatter(
                x=[v for p in rows["period"] for v in (p, p, None)],
                y=[v for p in rows["power"] for v in (0, p, None)],
                mode="lines",
                line=dict(color=colour, width=3 if mine else 2),
                hoverinfo="skip",
                **axes,
            )
            fig.add_scatter(
                x=rows["period"],
                y=rows["power"],
                mode="markers",
                cliponaxis=False,
                marker=dict(size=8 if mine else 5, color=colour, symbol=panel.mark.symbol),
                name=name_label(panel.name),
                text=[f"period {number(p, 1)} tokens" for p in rows["period"]],
                hovertemplate="%{y:.3f} of the variance<br>%{text}<extra></extra>",
                **axes,
            )
    put(fig, shapes=shapes)
    _share_axis(fig)
    ticks = [t for t in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128) if low <= t <= high]
    fig.update_xaxes(
        type="log",
        range=[math.log10(low) - 0.06, math.log10(high) + 0.06],
        tickvals=ticks,
        ticktext=[str(t) for t in ticks],
    )
    fig.update_layout(hovermode="closest")
    return fig


def _share_axis(fig: go.Figure) -> None:
    fig.update_yaxes(range=[0, 1.02], tickvals=[0, 0.5, 1], ticktext=["0", ".5", "1"])


def _bands(look: Look, panel: Panel, i: int) -> list[dict]:
    stride, size = panel.stride, panel.size
    if not stride or stride < 2 or not len(panel.frame):
        return []
    name, colour = suffix(i), look.tint(look.ink, look.neutral)
    box = dict(type="rect", xref=f"x{name}", yref=f"y{name} domain", y0=0, y1=1, line_width=0)
    box |= dict(fillcolor=colour, layer="below")
    edges = range(0, size, 2 * stride)
    return [box | dict(x0=edge - 0.5, x1=min(edge + stride, size) - 0.5) for edge in edges]


def _level(look: Look, value: float, i: int) -> dict:
    """A dotted level over the whole panel."""
    name = suffix(i)
    line = dict(color=look.ink3, width=1.25, dash="1px,3px")
    ends = dict(x0=0, x1=1, xref=f"x{name} domain", y0=value, y1=value, yref=f"y{name}")
    return dict(type="line", line=line, layer="below") | ends


def _line(fig: go.Figure, x: Sequence, y: Sequence, colour: str, axes: dict) -> None:
    fig.add_scatter(
        x=x,
        y=y,
        mode="lines",
        line=dict(color=colour, width=1.25),
        name="baseline",
        hovertemplate="%{y:.3f}<extra>baseline</extra>",
        **axes,
    )


def _interval(fig: go.Figure, look: Look, panel: Panel, x: str, axes: dict) -> None:
    known = panel.frame.dropna(subset=["low", "high"])
    if len(known):
        fig.add_scatter(
            x=[*known[x], *reversed(known[x].tolist())],
            y=[*known["high"], *reversed(known["low"].tolist())],
            fill="toself",
            fillcolor=look.tint(panel.mark.colour, 0.15),
            line=dict(width=0),
            mode="lines",
            hoverinfo="skip",
            **axes,
        )
