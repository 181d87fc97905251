"""Numbers and counts as sentences write them.

No leading zero, true minus, two digits (STYLE of the pages).  Knows nothing about statistics.
"""

from __future__ import annotations

ORDINALS = (
    *("second", "third", "fourth", "fifth", "sixth", "seventh"),
    *("eighth", "ninth", "tenth", "eleventh", "twelfth"),
)


def number(x: float | None, digits: int = 2) -> str:
    """.30, 1.00, and .05 behind a true minus; "unknown" for None."""
    if x is None:
        return "unknown"
    text = f"{abs(x):.{digits}f}"
    sign = "\N{MINUS SIGN}" if x < 0 and float(text) else ""
    return sign + text.removeprefix("0")


def two(low: float, high: float) -> tuple[str, str]:
    """Two numbers with the least digits, two or more, that tell them apart (at most four)."""
    digits = next((d for d in (2, 3) if number(low, d) != number(high, d)), 4)
    return number(low, digits), number(high, digits)


def p_value(p: float | None) -> str:
    """ "p < .001", "p = .004", "p = .64"; below .1 with three digits, so that .048 is not .05."""
    if p is None:
        return "p unknown"
    if p < 0.001:
        return "p < .001"
    return f"p = {number(p, 3 if p < 0.0995 else 2)}"


def every(period: int) -> str:
    """ "Every fourth token", "Every 16th token", "Every 22nd token"."""
    if 2 <= period <= 12:
        return f"Every {ORDINALS[period - 2]} token"
    last = {1: "st", 2: "nd", 3: "rd"}.get(period % 10, "th")
    return f"Every {period}{'th' if period % 100 in (11, 12, 13) else last} token"


def prompts(n: int) -> str:
    return "1 prompt" if n == 1 else f"{n} prompts"
