"""Attention maps as side files: a float16 array and its labels, read through a memory map.

Knows files and how a large map is shown in few cells.  A database would be a hundred times slower
for arrays of this size.  Knows no SQL and no model.
"""

from __future__ import annotations

import base64
import json
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
    return list(zip(edges, edges[1:], strict=False))


def cells(
    weights: np.ndarray,
    labels: dict,
    queries: tuple[int, int] | None = None,
    keys: tuple[int, int] | None = None,
    most: int = MAX_CELLS,
) -> dict:
    """A rectangle of a map in at most `most` x `most` cells, each the maximum of what it covers.

    `queries` and `keys` are [start, stop) of rows and columns of the map; None is all of them.
    """
    rows = ranges(*(queries or (0, weights.shape[0])), most)
    columns = ranges(*(keys or (0, weights.shape[1])), most)
    part = np.asarray(weights[rows[0][0] : rows[-1][1], columns[0][0] : columns[-1][1]], np.float32)
    by_row = np.maximum.reduceat(part, [a - rows[0][0] for a, _ in rows], axis=0)
    small = np.maximum.reduceat(by_row, [a - columns[0][0] for a, _ in columns], axis=1)
    kinds, starts, stops = labels["key_kind"], labels["key_start"], labels["key_stop"]
    positions = labels["query_positions"]
    key_labels = [
        {
            "kind": kinds[a] if len(set(kinds[a:b])) == 1 else "mixed",
            "start": min(starts[a:b]),
            "stop": max(stops[a:b]),
        }
        for a, b in columns
    ]
    return {
        "cells": base64.b64encode(np.ascontiguousarray(small, "<f4").tobytes()).decode(),
        "shape": list(small.shape),
        "query_ranges": [[positions[a], positions[b - 1] + 1] for a, b in rows],
        "key_labels": key_labels,
        "rows": [rows[0][0], rows[-1][1]],
        "columns": [columns[0][0], columns[-1][1]],
        "map_shape": list(weights.shape),
        "max": len(rows) * len(columns) < part.size,
    }
