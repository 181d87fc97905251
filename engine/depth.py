"""Do depth or density explain a benchmark's curve: where its targets stand, from its own copies."""

from __future__ import annotations

from typing import Any

import pandas as pd

from engine.analysis.benchmark import density_and_depth
from engine.copies import Copy


def depth(spec: Any, answers: pd.DataFrame) -> dict | None:
    """{distance, pairs} as in `density_and_depth`; None for a memory without windows.

    The copies are made again from the spec: rows do not hold where the other records stand.
    """
    from engine.build import build
    from engine.models.loader import facts, load_tokenizer

    stride, window = spec.stride, getattr(spec.memory, "window", None)
    if not stride or not window or not getattr(spec.task, "adjacent_pairs", False):
        return None
    origin = getattr(spec.memory, "origin", 0)
    copies = build(spec, load_tokenizer(spec.model), facts(spec.model))
    held = {(c.sample, c.shift): neighbours(c, window, stride, origin) for c in copies}
    places = zip(answers["sample"], answers["shift"], strict=True)
    return density_and_depth(answers.assign(pairs=[held[place] for place in places]))


def neighbours(copy: Copy, window: int, stride: int, origin: int) -> int:
    """Records whose key stands in the target's window, itself included; the latest window to hold
    it.
    """
    start = origin + (copy.target[0] - origin) // stride * stride
    return sum(start <= at < start + window for at in record_starts(copy))


def record_starts(copy: Copy) -> list[int]:
    """Places of all keys: records are pairs of tokens, side by side in a run of them."""
    found, inside = [], 0
    for at, role in enumerate(copy.roles):
        if role not in ("record", "target"):
            inside = 0
            continue
        if inside % 2 == 0:
            found.append(at)
        inside += 1
    return found
