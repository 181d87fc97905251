"""The text at an event as escaped HTML: what is gone, what goes now, what is marked.

Knows tokens and the class names of the style sheet.  Token text goes through `words.literal`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby

from app.words import count, literal

BREAK = "<wbr>"
MOST = 2400  # tokens in full; of a longer text the end is shown


def breaks(token: dict) -> bool:
    """Whether a line may end before it: the dot that stands for a space holds words together."""
    return str(token.get("text") or "")[:1].isspace()


def chip(token: dict, fate: str = "") -> str:
    """One token.  `fate`: gone (evicted before), out (goes at this event), held, safe, or none."""
    title = f"position {token['position']}, {token.get('role') or 'prompt'}"
    title += {
        "gone": ", evicted before",
        "out": ", evicted at this event",
        "held": ", stays",
        "safe": ", protected",
    }.get(fate, "")
    if token.get("mark"):
        title += f", marked {token['mark']}"
    return (
        f'<bdi class="ps-t{f" ps-{fate}" if fate else ""}" dir="ltr" '
        f'data-position="{int(token["position"])}" title="{escape(title)}">'
        f"{literal(token.get('text'))}</bdi>"
    )


def text(tokens: Sequence[dict], fates: dict[int, str]) -> str:
    """Tokens read so far; marks outlined with their names.  `fates`: by position."""
    pieces = []
    if len(tokens) > MOST:
        pieces.append(f'<span class="ps-more">{count(len(tokens) - MOST, "token")} before</span>')
        tokens = tokens[-MOST:]
    role = tokens[0].get("role") if tokens else ""
    for (own, mark), members in groupby(tokens, key=lambda t: (t.get("role"), t.get("mark"))):
        if own != role:
            pieces.append('<span class="ps-from">written from here</span>')
            role = own
        inner = "".join(
            BREAK * breaks(t) + chip(t, fates.get(int(t["position"]), "")) for t in members
        )
        if mark:
            name = literal(str(mark)).replace("·", " ")
            inner = f'<span class="ps-mark"><i>{name}</i>{inner}</span>'
        pieces.append(inner)
    return f'<div class="ps-read" translate="no">{"".join(pieces)}</div>'


def listed(tokens: Iterable[dict]) -> str:
    """Tokens as text, neighbours joined, each run behind its positions."""
    runs: list[list[dict]] = []
    for token in tokens:
        if runs and int(runs[-1][-1]["position"]) == int(token["position"]) - 1:
            runs[-1].append(token)
        else:
            runs.append([token])
    body = ""
    for run in runs:
        inner = "".join(BREAK * (breaks(t) and t is not run[0]) + chip(t) for t in run)
        body += f'<span class="ps-run"><small>{_span(run)}</small>{inner}</span>'
    return f'<div class="ps-read ps-list" translate="no">{body}</div>'


def _span(run: list[dict]) -> str:
    low, high = int(run[0]["position"]), int(run[-1]["position"])
    return str(low) if low == high else f"{low}–{high}"


def legend(*, event: bool = True) -> str:
    items = ['<span class="ps-mark"><bdi class="ps-t">marked</bdi></span>']
    if event:
        items = [
            '<bdi class="ps-t ps-held">stays</bdi>',
            '<bdi class="ps-t ps-out">goes at this event</bdi>',
            '<bdi class="ps-t ps-gone">gone before</bdi>',
            '<bdi class="ps-t ps-safe">protected</bdi>',
            *items,
        ]
    body = "".join(f'<span class="ps-item">{item}</span>' for item in items)
    return f'<div class="ps-legend ps-reading">{body}</div>'
