"""The look of every chart: two templates, light and dark, from one table of roles.

Knows colours, sizes and how a label is placed.  Knows nothing about data, pages or the service.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

import plotly.graph_objects as go

from app.words import number, visible

SANS = (
    "'Source Sans', 'Source Sans 3', 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', "
    "sans-serif"
)
HEIGHT, PANEL, OPENED, PAIR = 284, 164, 300, 240
NAMED = 42  # left margin of a chart whose y axis has a name


@dataclass(frozen=True)
class Look:
    """Colours by role; hex, or a share of one where a tint is asked for."""

    name: str
    page: str
    raised: str
    line: str
    hair: str
    ink: str
    ink2: str
    ink3: str
    control: str
    gold: str
    gold_text: str
    rival: str
    rival_text: str
    memory: str
    memory_text: str
    band: float  # share of the memory's colour in a stride band
    neutral: float
    sequential: tuple[str, ...] = field(repr=False)
    template: go.layout.Template = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        object.__setattr__(self, "template", _template(self))

    def tint(self, colour: str, share: float) -> str:
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        return f"rgba({red},{green},{blue},{share:g})"


def _template(look: Look) -> go.layout.Template:
    axis = dict(
        gridcolor=look.hair,
        linecolor=look.line,
        zeroline=False,
        ticks="",
        fixedrange=True,
        automargin=True,
        tickfont=dict(size=12, color=look.ink2),
        title=dict(font=dict(size=12.5, color=look.ink2), standoff=6),
    )
    return go.layout.Template(
        layout=dict(
            font=dict(family=SANS, size=12.5, color=look.ink2),
            paper_bgcolor="rgba(0,0,0,0)",
            plot_bgcolor="rgba(0,0,0,0)",
            margin=dict(l=0, r=8, t=54, b=0, autoexpand=True),
            xaxis={**axis, "showgrid": False, "showline": True},
            yaxis={**axis, "showgrid": True, "showline": False},
            showlegend=False,
            hovermode="x",
            dragmode=False,
            hoverlabel=dict(
                bgcolor=look.raised,
                bordercolor=look.line,
                font=dict(family=SANS, size=12.5, color=look.ink),
            ),
            title=dict(x=0, y=1, xref="container", yref="container", xanchor="left", yanchor="top"),
        )
    )


LIGHT = Look(
    "light",
    page="#FFFFFF",
    raised="#FAFAF8",
    line="#E3E3DF",
    hair="#ECECE8",
    ink="#1D2025",
    ink2="#565C66",
    ink3="#6B717B",
    control="#8B9099",
    gold="#00805D",
    gold_text="#00785A",
    rival="#C98600",
    rival_text="#8F5A00",
    memory="#0072B2",
    memory_text="#005E93",
    band=0.055,
    neutral=0.035,
    sequential=(
        "#F2F7FB",
        "#DCEAF5",
        "#C0DAEC",
        "#9FC7E2",
        "#7AB2D7",
        "#529CCB",
        "#2A86BE",
        "#0072B2",
        "#005585",
        "#003A5C",
    ),
)
DARK = Look(
    "dark",
    page="#14161A",
    raised="#191C21",
    line="#2D3138",
    hair="#262A31",
    ink="#E9EAEC",
    ink2="#A9AFB8",
    ink3="#8D939D",
    control="#7F858F",
    gold="#35C79A",
    gold_text="#4FCBA3",
    rival="#E69F00",
    rival_text="#F0B43C",
    memory="#4FA8E0",
    memory_text="#7CC0EC",
    band=0.075,
    neutral=0.045,
    sequential=(
        "#17222B",
        "#183040",
        "#1A4159",
        "#1D5475",
        "#246A94",
        "#3183B5",
        "#4FA8E0",
        "#7CC0EC",
        "#AED9F5",
        "#DDF0FC",
    ),
)


def look_of(name: str | None) -> Look:
    return DARK if name == "dark" else LIGHT


def start(
    look: Look,
    title: str,
    subtitle: str,
    *,
    height: int = HEIGHT,
    right: int = 8,
    left: int = 0,
) -> go.Figure:
    """An empty figure with title, subtitle and size set.

    `left`: room for the name of a y axis, which automatic margins do not make.
    """
    text = f"<b>{title}</b>" + (
        f'<br><span style="font-size:12.5px;color:{look.ink2}">{subtitle}</span>'
        if subtitle
        else ""
    )
    fig = go.Figure()
    fig.update_layout(
        template=look.template, height=height, margin=dict(l=left, r=right, t=54 if title else 6)
    )
    if title:
        fig.update_layout(title=dict(text=text, pad=dict(t=17), font=dict(size=14, color=look.ink)))
    return fig


def probability_axis(fig: go.Figure, *, small: bool = False, title: str = "") -> None:
    ticks = [0, 0.5, 1] if small else [0, 0.25, 0.5, 0.75, 1]
    names = ["0", ".50", "1"] if small else ["0", ".25", ".50", ".75", "1"]
    fig.update_yaxes(range=[0, 1.02], tickvals=ticks, ticktext=names, title_text=title)


def round_ticks(low: float, high: float, most: int = 7) -> dict:
    """Tick values and texts of an axis from `low` to `high`: round steps, no leading zero."""
    rough = (high - low) / most or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    values = [k * step for k in range(first, last + 1)]
    digits = max(0, -math.floor(math.log10(step))) + (step / power == 2.5)
    return dict(tickvals=values, ticktext=[number(v, digits) for v in values])


def bands(
    fig: go.Figure,
    look: Look,
    stride: int | None,
    low: float,
    high: float,
    *,
    first: int = 0,
    tint: bool = True,
) -> None:
    """A soft band over every second stride.  `first`: an x where a stride begins."""
    if not stride or stride < 2:
        return
    colour = look.tint(look.memory, look.band) if tint else look.tint(look.ink, look.neutral)
    edge, index = first - stride * (int((first - low) // stride) + 1), 0
    while edge < high:
        index = (edge - first) // stride
        left, right = max(low - 0.5, edge - 0.5), min(high + 0.5, edge + stride - 0.5)
        if index % 2 == 0 and right > left:
            fig.add_shape(
                type="rect",
                x0=left,
                x1=right,
                y0=0,
                y1=1,
                yref="paper",
                line_width=0,
                fillcolor=colour,
                layer="below",
            )
        edge += stride


def ribbon(
    fig: go.Figure, look: Look, x: Sequence, low: Sequence, high: Sequence, colour: str
) -> None:
    """An interval as a band of the series' colour, without an outline."""
    fig.add_scatter(
        x=[*x, *reversed(list(x))],
        y=[*high, *reversed(list(low))],
        fill="toself",
        fillcolor=look.tint(colour, 0.15),
        line=dict(width=0),
        mode="lines",
        hoverinfo="skip",
        name="95 %",
    )


def end_labels(
    fig: go.Figure,
    x: float,
    names: list[tuple[float, str, str]],
    *,
    least: float = 0.085,
    span: tuple[float, float] = (0.0, 1.0),
) -> None:
    """Names at the lines' ends: (y, HTML text, colour); moved apart where they would touch.

    `span`: bottom and top of the y axis; `least`: share of it between two names.
    """
    low, wide = span[0], (span[1] - span[0]) or 1.0
    order = sorted((i for i in range(len(names))), key=lambda i: names[i][0])
    places = [(names[i][0] - low) / wide for i in order]
    for k in range(1, len(places)):
        places[k] = max(places[k], places[k - 1] + least)
    over = places[-1] - 1.0 if places else 0
    if over > 0:
        places[-1] -= over
        for k in range(len(places) - 2, -1, -1):
            places[k] = min(places[k], places[k + 1] - least)
    for place, i in zip(places, order, strict=True):
        _, text, colour = names[i]
        fig.add_annotation(
            x=x,
            y=low + wide * place,
            text=text,
            showarrow=False,
            xanchor="left",
            xshift=12,
            align="left",
            font=dict(size=13, color=colour),
        )


def put(fig: go.Figure, *, shapes: Sequence[dict] = (), labels: Sequence[dict] = ()) -> None:
    """Many shapes and labels at once: one by one, Plotly copies all that are there each time."""
    if shapes:
        fig.layout.shapes = [*fig.layout.shapes, *shapes]
    if labels:
        told = [{"showarrow": False, **label} for label in labels]
        fig.layout.annotations = [*fig.layout.annotations, *told]


def number_cell(shift: int, place: float, text: str, colour: str) -> dict:
    """A label in a column at the right of a dot plot, `shift` px from the axis' end."""
    return dict(
        x=1,
        xref="paper",
        xshift=shift,
        y=place,
        text=text,
        xanchor="right",
        font=dict(size=12.5, color=colour),
    )


def token_label(text: str | None, longest: int = 14) -> str:
    """Token text for a chart: shown literally, cut with an ellipsis (Plotly reads HTML and $…$)."""
    text = text or ""
    return plain(visible(text if len(text) <= longest else text[: longest - 1] + "…"))


def name_label(text: str | None, longest: int = 22) -> str:
    """A name for a chart: as `token_label`, with its spaces as they are."""
    return token_label(text, longest).replace("·", " ")


def plain(text: str) -> str:
    """Text for a chart with nothing in it read as HTML or as a formula.

    Plotly knows few entities: quotes must stay as they are.
    """
    return escape(text, quote=False).replace("$", "&#36;")


def placeholder(fig: go.Figure, look: Look, text: str) -> None:
    """One line in the middle of an empty chart: what to do to fill it."""
    fig.add_annotation(
        text=text,
        x=0.5,
        y=0.5,
        xref="paper",
        yref="paper",
        showarrow=False,
        font=dict(size=13, color=look.ink3),
    )
