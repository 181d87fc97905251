"""Small pictures of a curve as SVG data addresses, for cards, the gallery and tables.

Pure: numbers in, text out.  No Streamlit, no engine.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

from app.figures.theme import LIGHT, Look


def sparkline(
    curve: Sequence[float | None],
    control: Sequence[float | None] = (),
    *,
    other: Sequence[float | None] = (),
    stride: int | None = None,
    colour: str | None = None,
    width: int = 340,
    height: int = 84,
    look: Look = LIGHT,
) -> str:
    """`data:image/svg+xml;base64,…`: stride bands, grey control, the curve; 0 … 1 upward.

    `other`: a second memory's curve in the second colour.  Missing values break the line.
    """
    body = []
    places = max(len(curve), len(control), len(other), 2)

    def x(i: float) -> float:
        return 5 + (width - 10) * i / (places - 1)

    def y(value: float) -> float:
        return 5 + (height - 12) * (1 - min(1.0, max(0.0, value)))

    if stride and stride > 1:
        for edge in range(0, places, 2 * stride):
            left, right = x(max(edge - 0.5, -0.2)), x(min(edge + stride - 0.5, places - 0.8))
            body.append(
                f'<rect x="{left:.1f}" y="0" width="{right - left:.1f}" height="{height}" '
                f'fill="{look.ink}" '
                f'fill-opacity="{look.neutral}"/>'
            )
    lines = [
        (control, look.control, 1.6),
        (other, "#8A3A70" if look.name == "light" else "#E6A9CC", 1.6),
        (curve, colour or look.gold, 2.2),
    ]
    for values, paint, thick in lines:
        for run in _runs(values):
            points = " ".join(f"{x(i):.1f},{y(v):.1f}" for i, v in run)
            body.append(
                f'<polyline points="{points}" fill="none" stroke="{paint}" stroke-width="{thick}" '
                f'stroke-linejoin="round" stroke-linecap="round"/>'
            )
    return _address(body, width, height)


def dots(
    losses: Sequence[float],
    *,
    colour: str | None = None,
    width: int = 340,
    height: int = 84,
    look: Look = LIGHT,
) -> str:
    """The same, of a decode run: a dot a method, better ones at the left; a grey line marks the
    full cache, which comes first in `losses`.
    """
    full, *methods = losses
    low, high = min(losses), max(losses)

    def x(value: float) -> float:
        return 14 + (width - 28) * (value - low) / ((high - low) or 1.0)

    middle = height / 2
    body = [
        f'<line x1="{x(full):.1f}" x2="{x(full):.1f}" y1="8" y2="{height - 8}" '
        f'stroke="{look.control}" stroke-width="1.6"/>',
        f'<line x1="5" x2="{width - 5}" y1="{middle}" y2="{middle}" stroke="{look.hair}"/>',
    ]
    body += [
        f'<circle cx="{x(value):.1f}" cy="{middle}" r="5" fill="{colour or look.memory}" '
        f'fill-opacity=".75" stroke="{look.page}"/>'
        for value in methods
    ]
    return _address(body, width, height)


def _address(body: Sequence[str], width: int, height: int) -> str:
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">{"".join(body)}</svg>'
    )
    return "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    runs: list[list[tuple[int, float]]] = [[]]
    for i, value in enumerate(values):
        if value is None or value != value:
            runs.append([])
        else:
            runs[-1].append((i, float(value)))
    return [run for run in runs if len(run) > 1]
