"""Attention maps as side files: a float16 array and its labels, read through a memory map.

Knows files and how a large map is shown in few cells.  A database would be a hundred times slower
for arrays of this size.  Knows no SQL and no model.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import os
import uuid
from pathlib import Path

import numpy as np

MAX_CELLS = 512  # per axis


class MapFiles:
    """NAME.npy [queries, keys] float16 and NAME.json with the labels."""

    def __init__(self, folder: Path):
        self.folder = folder

    def save(self, weights: np.ndarray, labels: dict) -> str:
        """Write one map; the name is returned once both files are whole."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        name = uuid.uuid4().hex
        with open(self.folder / f"{name}.npy.part", "wb") as file:
            np.save(file, np.asarray(weights, np.float16))
        (self.folder / f"{name}.json").write_text(json.dumps(labels))
        os.replace(self.folder / f"{name}.npy.part", self.folder / f"{name}.npy")
        return name

    def load(self, name: str) -> tuple[np.ndarray, dict] | None:
        """(weights, labels), or None where a file is gone."""
        try:
            weights = np.load(self.folder / f"{name}.npy", mmap_mode="r")
            return weights, json.loads((self.folder / f"{name}.json").read_text())
        except (OSError, ValueError):
            return None

    def remove(self, name: str) -> None:
        for ending in (".npy", ".json"):
            (self.folder / f"{name}{ending}").unlink(missing_ok=True)


def ranges(start: int, stop: int, most: int) -> list[tuple[int, int]]:
    """[start, stop) cut into at most `most` nearly equal runs."""
    count = max(1, min(most, stop - start))
    edges = [start + (stop - start) * i // count for i in range(count + 1)]
    return list(itertools.pairwise(edges))


def cells(
    weights: np.ndarray,
    labels: dict,
    queries: tuple[int, int] | None = None,
    keys: tuple[int, int] | None = None,
    most: int = MAX_CELLS,
) -> dict | None:
    """A part of a map in at most `most` x `most` cells, each the maximum of what it covers.

    `queries` and `keys` are [start, stop) of token positions; a key is in when it holds one of
    them.  A cell never mixes entries with exact tokens.  None when nothing lies in the range.
    """
    positions = np.asarray(labels["query_positions"])
    starts, stops = np.asarray(labels["key_start"]), np.asarray(labels["key_stop"])
    low, high = queries or (0, math.inf)
    rows = np.flatnonzero((positions >= low) & (positions < high))
    low, high = keys or (0, math.inf)
    columns = np.flatnonzero((starts < high) & (stops > low))
    if not len(rows) or not len(columns):
        return None
    part = np.asarray(weights[rows], np.float32)[:, columns]
    kinds = [labels["key_kind"][c] for c in columns]
    starts, stops, positions = starts[columns], stops[columns], positions[rows]
    down, across = ranges(0, len(rows), most), _by_kind(kinds, most)
    small = np.maximum.reduceat(part, [a for a, _ in down], axis=0)
    small = np.maximum.reduceat(small, [a for a, _ in across], axis=1)
    return {
        "cells": base64.b64encode(np.ascontiguousarray(small, "<f4").tobytes()).decode(),
        "shape": list(small.shape),
        "query_ranges": [[int(positions[a]), int(positions[b - 1]) + 1] for a, b in down],
        "key_labels": [
            {"kind": kinds[a], "start": int(starts[a:b].min()), "stop": int(stops[a:b].max())}
            for a, b in across
        ],
        "map_shape": list(weights.shape),
        "max": small.size < part.size,
    }


def _by_kind(kinds: list[str], most: int) -> list[tuple[int, int]]:
    """Runs of columns, none across a change of kind; each stretch gets its share of `most`."""
    edges = [0, *(i for i in range(1, len(kinds)) if kinds[i] != kinds[i - 1]), len(kinds)]
    stretches = list(itertools.pairwise(edges))
    if len(kinds) <= most or len(stretches) > most:
        return ranges(0, len(kinds), most)
    spare = most - len(stretches)
    found = []
    for a, b in stretches:
        share = 1 + spare * (b - a) // len(kinds)
        found += [(a + x, a + y) for x, y in ranges(0, b - a, share)]
    return found
