"""A memory's colour and symbol: the same on every picture of a page.

Pure: a place in the order of memories in, a mark out.  No Streamlit, no engine.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import NamedTuple

from app.figures.theme import LIGHT, Look

COLOURS = {
    "light": ("#0072B2", "#8A3A70", "#D55E00", "#389AD6", "#4A2C12"),
    "dark": ("#4FA8E0", "#E6A9CC", "#EE7B30", "#A9DBF7", "#F3ECB0"),
}
# Names at a line's end are text: each has 4.5 : 1 to the page.
TEXTS = {
    "light": ("#005E93", "#7A3263", "#A84A00", "#00679E", "#4A2C12"),
    "dark": ("#7CC0EC", "#E6A9CC", "#F39A5E", "#A9DBF7", "#F3ECB0"),
}
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x")
SHAPES = {
    "circle": '<circle cx="6" cy="6" r="4.6" {}/>',
    "diamond": '<path d="M6 .8 11.2 6 6 11.2 .8 6Z" {}/>',
    "square": '<rect x="1.8" y="1.8" width="8.4" height="8.4" {}/>',
    "triangle-up": '<path d="M6 1 11.3 10.6H.7Z" {}/>',
    "x": '<path d="M3.4 1.2 6 3.8 8.6 1.2 10.8 3.4 8.2 6 10.8 8.6 8.6 10.8 6 8.2 3.4 10.8 1.2 8.6 '
    '3.8 6 1.2 3.4Z" {}/>',
}


class Mark(NamedTuple):
    """How a memory is drawn."""

    colour: str
    text: str
    symbol: str


def mark(place: int | None, look: Look = LIGHT) -> Mark:
    """The mark of the memory at a place; None is the full cache, grey.

    Colours return after five places, with another symbol: 25 marks differ.
    """
    if place is None:
        return Mark(look.control, look.ink2, "circle")
    hue, turn = place % 5, place // 5
    return Mark(COLOURS[look.name][hue], TEXTS[look.name][hue], SYMBOLS[(hue + turn) % 5])


def swatch(drawn: Mark) -> str:
    """The mark as an SVG data address, for HTML beside a chart."""
    shape = SHAPES[drawn.symbol].format(f'fill="{drawn.colour}"')
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="12" height="12" viewBox="0 0 12 12">'
        f"{shape}</svg>"
    )
    return "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()


def recoloured(look: Look, drawn: Mark) -> Look:
    """The look with the answer's colour replaced, where colour says memory."""
    return replace(look, gold=drawn.colour, gold_text=drawn.text)
