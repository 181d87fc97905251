"""A run's provenance as lines that a reader can read; the page and the report show the same.

Knows the names that the engine gives.  Knows no HTML and no pages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from app.words import NOTHING, count, seconds, size

LONGEST = 400  # characters of one value
LABELS = {
    "weights": "Weights, hash",
    "tokenizer": "Tokenizer, hash",
    "dtype": "Precision",
    "self_check": "Self-check",
    "self_check.unrotated_keys": "Self-check, un-rotated keys",
    "self_check.window_1_stride_1": "Self-check, W = S = 1",
    "self_check.head": "Self-check, output head",
    "code_version": "Code version",
    "peak_memory_bytes": "Peak memory",
    "prompt_tokens": "Prompt tokens",
    "tokens": "Tokens read",
    "wall_seconds": "Computing time",
    "tokens_per_second": "Tokens a second",
    "jobs": "Times computed",
    "source": "Where from",
    "origin": "Origin",
}
SOURCES = {"own": "computed here", "preset": "shipped with a preset", "import": "imported"}
ERRORS = "self_check"  # relative errors: shown with their power of ten


def facts(values: dict) -> list[tuple[str, str]]:
    """Nested provenance as (label, value); the spec itself stands elsewhere."""
    return list(_lines({n: v for n, v in values.items() if n != "spec"}, ""))


def _lines(values: dict, before: str) -> Iterable[tuple[str, str]]:
    for name, value in values.items():
        path = f"{before}.{name}" if before else str(name)
        if value in (None, "", [], {}):
            continue
        if before == "" and name in ("rows_expected", "rows_stored") and isinstance(value, dict):
            yield _plain(name), _rows(value)
        elif isinstance(value, dict):
            yield from _lines(value, path)
        else:
            yield _label(path), _value(path, value)[:LONGEST]


def _label(path: str) -> str:
    if path in LABELS:
        return LABELS[path]
    first, _, rest = path.partition(".")
    if first == "libraries" and rest:
        return rest
    return ", ".join([LABELS.get(first, _plain(first)), *(p for p in rest.split(".") if p)])


def _plain(name: str) -> str:
    told = name.replace("_", " ").strip()
    return told[:1].upper() + told[1:]


def _rows(value: dict) -> str:
    """`8 answers, 476 tokens`."""
    told = [count(n, unit.removesuffix("s")) for unit, n in value.items() if isinstance(n, int)]
    return ", ".join(told) or NOTHING


def _value(path: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return SOURCES.get(value, str(value)) if path == "source" else str(value)
    name = path.rpartition(".")[2]
    if "bytes" in name or "memory" in name:
        return size(value)
    if name in ("seconds", "wall_seconds", "wall_time"):
        return seconds(value)
    if isinstance(value, float):
        return _figure(value) if path.startswith(ERRORS) or abs(value) < 1e-3 else f"{value:.4g}"
    return str(value)


def _figure(value: float) -> str:
    """`1.1 × 10⁻⁶`: a small error keeps its size."""
    if not value or not math.isfinite(value):
        return f"{value:.4g}"
    power = math.floor(math.log10(abs(value)))
    raised = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{value / 10**power:.4g} × 10{raised}".replace("-", "−")
