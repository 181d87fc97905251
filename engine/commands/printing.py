"""How the command line speaks: one JSON object on standard output, or tables; the rest on stderr.

Knows terminals.  Text of models and users is shown literally: no markup, no control characters.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

out = Console(markup=False, highlight=False, emoji=False)
err = Console(stderr=True, markup=False, highlight=False, emoji=False)


def say(text: str) -> None:
    """A message beside the result."""
    err.print(Text(literal(text)))


def print_json(value: Any) -> None:
    """The one object on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")


def literal(text: Any) -> str:
    """Characters that a terminal would obey, or that change how others are read, become escapes."""
    return "".join(
        char
        if char == "\n" or unicodedata.category(char) not in ("Cc", "Cf", "Cs")
        else char.encode("unicode_escape").decode()
        for char in str(text)
    )


def print_text(text: str, style: str = "") -> None:
    out.print(Text(literal(text), style=style))


def print_table(columns: list[str], rows: list[list[Any]], title: str = "") -> None:
    """Numbers are set to the right; None is a hyphen.  A key stays on one line, to be copied."""
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    numeric = [
        all(isinstance(row[i], int | float | None) for row in rows) for i in range(len(columns))
    ]
    for name, right in zip(columns, numeric, strict=True):
        table.add_column(
            name, justify="right" if right else "left", overflow="fold", no_wrap=name == "key"
        )
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row))
    out.print(table)


def cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    return literal(value).replace("\n", "\\n")


def seconds(value: float) -> str:
    if value < 90:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 5400 else f"{value / 3600:.1f} h"


def size(value: float) -> str:
    return f"{value / 1e9:.1f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


def estimate(plan: dict) -> None:
    """What a plan will cost, and what should be known before."""
    cost = plan["estimate"]
    print_text(
        f"about {seconds(cost['seconds'])} and {size(cost['bytes'])} of memory "
        f"({'measured here' if cost['speed_source'] == 'measured here' else 'a guess'})"
    )
    for warning in plan["warnings"]:
        print_text(f"note: {warning}")
