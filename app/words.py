"""Numbers and token text as a reader sees them.

Knows the typographic rules (no leading zero, true minus, invisible characters made visible).
Knows nothing about pages, charts or the service.
"""

from __future__ import annotations

import html
import math
import unicodedata
from datetime import UTC, datetime

NOTHING = "–"
MARKS = {
    " ": "·",
    "\n": "↵",
    "\r": "␍",
    "\t": "⇥",
    "\u00a0": "⍽",
    "\u200d": "⟨ZWJ⟩",
    "\u200c": "⟨ZWNJ⟩",
}
MARKS |= {
    "\u200b": "⟨ZWSP⟩",
    "\u200e": "⟨LRM⟩",
    "\u200f": "⟨RLM⟩",
    "\u2028": "⟨LS⟩",
    "\ufeff": "⟨BOM⟩",
}
# Letters, signs and marks that are drawn as nothing, though Unicode counts them as visible.
BLANK = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0x16FE4, 0x1D159}
BLANK |= {0x180B, 0x180C, 0x180D, 0x180E, 0x180F}
MARKS |= {chr(code): f"⟨U+{code:04X}⟩" for code in BLANK}
MARKS |= {
    "\u202a": "⟨LRE⟩",
    "\u202b": "⟨RLE⟩",
    "\u202c": "⟨PDF⟩",
    "\u202d": "⟨LRO⟩",
    "\u202e": "⟨RLO⟩",
}


def number(value: float | None, digits: int = 3) -> str:
    """`.301`, `−.05`, `1`, `12.5`: no leading zero, true minus, at most `digits` decimals."""
    if value is None or not math.isfinite(value):
        return NOTHING
    text = f"{abs(value):.{digits}f}"
    if text.startswith("0."):
        text = text[1:]
    elif "." in text:
        text = text.rstrip("0").rstrip(".")
    if not text.strip(".0"):
        return "0"
    return ("−" if value < 0 else "") + text


def fixed(value: float | None, digits: int) -> str:
    """`−3.00`, `.50`, `0`: as `number`, with the same decimals in every cell of a column."""
    if value is None or not math.isfinite(value):
        return NOTHING
    text = f"{abs(value):.{digits}f}"
    if not text.strip(".0"):
        return "0"
    text = text[1:] if text.startswith("0.") else text
    return ("−" if value < 0 else "") + text


def p_value(p: float | None) -> str:
    """`p < .001`, `p = .048`, `p = .64`, as sentences have it; a dash where there is none."""
    if p is None or not math.isfinite(p):
        return f"p {NOTHING}"
    if p < 0.001:
        return "p < .001"
    return f"p = {number(p, 3 if p < 0.0995 else 2)}"


def between(low: float | None, high: float | None) -> str:
    """`.49 to .58`, or nothing."""
    return "" if low is None or high is None else f"{number(low, 2)} to {number(high, 2)}"


def seconds(value: float | None) -> str:
    """`40 s`, `3 min`, `2 h`."""
    if value is None or not math.isfinite(value):
        return "unknown"
    if value < 90:
        return f"{max(1, round(value))}\u00a0s"
    return (
        f"{round(value / 60)} min"
        if value < 5400
        else f"{value / 3600:.1f} h".replace(".0 h", " h")
    )


def size(value: float | None) -> str:
    """Bytes as `700 MB`, `1.4 GB`."""
    if value is None or not math.isfinite(value):
        return "unknown"
    if value < 1e9:
        return f"{max(1, round(value / 1e6))}\u00a0MB"
    return f"{value / 1e9:.1f}\u00a0GB".replace(".0", "")


def cache_size(value: float | None) -> str:
    """Bytes of a cache, small ones too: `9.2 kB`, `1.4 MB`."""
    if value is None or not math.isfinite(value):
        return NOTHING
    for unit, each in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= each:
            shown = value / each
            return f"{number(shown, 0 if shown >= 100 else 1)}\u00a0{unit}"
    return f"{value:.0f}\u00a0B"


def count(value: int, noun: str, plural: str = "") -> str:
    """`1 token`, `1 024 tokens`."""
    return f"{value:,}".replace(",", "\u202f") + f" {noun if value == 1 else plural or noun + 's'}"


def ago(moment: str | float | datetime | None, now: datetime | None = None) -> str:
    """How long since an ISO time or a Unix time: `12 min`, `3 h`, `1 d`; empty where unreadable."""
    try:
        if isinstance(moment, int | float):
            moment = datetime.fromtimestamp(moment, UTC)
        elif isinstance(moment, str):
            moment = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    except (ValueError, OverflowError, OSError):
        return ""
    if moment is None:
        return ""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    past = max(0.0, ((now or datetime.now(UTC)) - moment).total_seconds())
    if past < 60:
        return "now"
    if past < 3600:
        return f"{int(past / 60)} min"
    return f"{int(past / 3600)} h" if past < 86400 else f"{int(past / 86400)} d"


def joined(words: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def sentence(text: str) -> str:
    """First letter upper, the rest as it is."""
    return text[:1].upper() + text[1:]


def visible(text: str | None) -> str:
    """Token text with every invisible character shown as a mark; still plain text, not HTML.

    Spaces become `·`, line ends `↵`; control, format and unassigned characters `⟨U+XXXX⟩`; a
    combining mark at the start stands on a dotted circle, so that it cannot sit on its neighbour.
    """
    if not text:
        return "∅"
    out = []
    for place, char in enumerate(text):
        category = unicodedata.category(char)
        if char in MARKS:
            out.append(MARKS[char])
        elif category in ("Cc", "Cf", "Cn", "Cs", "Co", "Zl", "Zp", "Zs"):
            out.append(f"⟨U+{ord(char):04X}⟩")
        elif category.startswith("M") and place == 0:
            out.append("◌" + char)
        else:
            out.append(char)
    return "".join(out)


def literal(text: str | None) -> str:
    """`visible` text as HTML that no mark-up, no Markdown and no formula can come out of."""
    return html.escape(visible(text), quote=True).replace("$", "&#36;")


def prose(text: str) -> str:
    """Plain text inside a Streamlit Markdown string (help, captions): nothing in it is mark-up."""
    special = "\\`*_{}[]()<>#+-.!|~$:^="
    return "".join("\\" + c if c in special else c for c in text)
