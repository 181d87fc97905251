"""What a controlled model is trained on: batches as a function of recipe and step alone.

So a stopped training goes on with the same bits.  Uses the layouts that evaluation uses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.models.controlled.config import Config, Recipe
from engine.tasks.layout import draw, lattice, lay, scatter

STAGES = (0.16, 0.32)  # shares of the steps after which more records come


class Lesson(NamedTuple):
    """ids (B, N) with keys asked at `queries`, each answered by the next token; `starts` (B, Q) of
    the records asked.
    """

    ids: np.ndarray
    queries: tuple[int, ...]
    starts: np.ndarray


class Stage(NamedTuple):
    """How many records in how many places, and how many are asked."""

    records: int
    places: int
    queries: int


def stage(recipe: Recipe, step: int) -> Stage:
    """Few records first, then half, then all: a model that starts with all of them learns none."""
    whole = Stage(recipe.records, recipe.places, recipe.queries)
    if recipe.phases != "random":
        return whole
    share, few = step / recipe.steps, recipe.first_records
    if share < STAGES[0]:
        return Stage(few, 6 * few, few)
    if share < STAGES[1]:
        return Stage(recipe.records // 2, recipe.places // 2, recipe.queries // 2)
    return whole


def lesson(config: Config, recipe: Recipe, step: int) -> Lesson:
    """The batch of one step; of early stages more rows, so that each has as many tokens."""
    now = stage(recipe, step)
    length = now.places + 2 * now.queries
    rows = max(1, recipe.batch * (recipe.places + 2 * recipe.queries) // length)
    rng = np.random.default_rng([recipe.seed, step])
    fill = rng.integers(1, 1 + config.fillers, (rows, length))
    starts = placed(rng, recipe, rows, now)
    records = starts.shape[1]
    symbols = 1 + config.fillers
    keys = draw(rng, rows, config.symbols, records) + symbols
    values = draw(rng, rows, config.symbols, records) + symbols
    ids = lay(fill, starts, keys, values)
    asked = draw(rng, rows, records, min(now.queries, records))
    count = asked.shape[1]
    at = now.places + 2 * np.arange(count)
    row = np.arange(rows)[:, None]
    ids[:, at], ids[:, at + 1] = keys[row, asked], values[row, asked]
    return Lesson(ids[:, : now.places + 2 * count], tuple(at.tolist()), starts[row, asked])


def placed(rng: np.random.Generator, recipe: Recipe, rows: int, now: Stage) -> np.ndarray:
    """(rows, M) first places of the records."""
    if recipe.phases == "random":
        return scatter(rng, rows, now.places, now.records)
    ones = np.zeros(rows, int) if recipe.phases == "zero" else rng.integers(0, recipe.pitch, rows)
    return lattice(now.places, recipe.pitch, 0) + ones[:, None]
