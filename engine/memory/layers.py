"""Which layers a memory compresses, in words: "all", "0-7, 9", "all but 8, 18", "0-9:4,
10-29:8".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from engine.registry import shown

RANGE = re.compile(r"([0-9]{1,6})(?:\s*-\s*([0-9]{1,6}))?")
STRIDE = re.compile(r"\s*[0-9]{1,6}\s*")


def ranges(text: str) -> tuple[int, ...]:
    """ "0-2, 7" → (0, 1, 2, 7).  ValueError names the part that is no layer or range."""
    found: set[int] = set()
    for part in filter(None, (p.strip() for p in text.split(","))):
        match = RANGE.fullmatch(part)
        if not match:
            raise ValueError(f"{shown(part)} is no layer or range such as 0-7")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last > 10_000:
            raise ValueError(f"{part!r} is no range of layers")
        found |= set(range(first, last + 1))
    return tuple(sorted(found))


def listed(text: str) -> tuple[int, ...]:
    """The layers that the text names, whichever way it means them."""
    body = text.strip().removeprefix("all").strip().removeprefix("but").strip()
    return ranges(body)


def chosen(text: str, layer: int) -> bool:
    """Whether "all", "all but 8, 18" or "0-7, 9" takes in this layer."""
    if text.strip().startswith("all"):
        return layer not in listed(text)
    return layer in ranges(text)


def others(text: str, table: Iterable[int]) -> bool:
    """Whether layers are chosen that the table does not name; without an end, "all" always is."""
    return text.strip().startswith("all") or not set(ranges(text)) <= set(table)


def problem(text: str) -> str:
    """What is wrong with the text, or "" ."""
    words = text.strip()
    if words.startswith("all") and words != "all" and not words.startswith("all but"):
        return f'must be "all", "0-7, 9" or "all but 8, 18", not {shown(text)}'
    try:
        layers = listed(words)
    except ValueError as error:
        return str(error)
    if layers or words == "all":
        return ""
    return 'names no layer; write "all", "0-7, 9" or "all but 8, 18"'


def strides(text: str) -> dict[int, int]:
    """ "0-9:4, 10-29:8" → stride of each layer named.  ValueError names the part that is wrong."""
    table: dict[int, int] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        span, colon, stride = part.rpartition(":")
        if not (colon and span.strip() and STRIDE.fullmatch(stride)) or int(stride) < 1:
            raise ValueError(f"{shown(part)} is no LAYERS:STRIDE such as 0-9:4")
        for layer in ranges(span):
            if layer in table:
                raise ValueError(f"layer {layer} is given twice")
            table[layer] = int(stride)
    return table


def spelled(value: Any) -> Any:
    """A list of layers, or a table layer → stride, in the words above; anything else unchanged."""
    if isinstance(value, dict):
        return ", ".join(
            f"{layer}:{stride}" for layer, stride in sorted(value.items(), key=lambda p: str(p[0]))
        )
    if isinstance(value, list | tuple) and all(
        isinstance(v, int) and not isinstance(v, bool) for v in value
    ):
        return ", ".join(map(str, sorted(value)))
    return value
