"""Where records of two tokens stand among fillers: one law for training and for evaluation.

Uniform over all layouts of M pairs in L places (stars and bars), the same law given that a record
stands at one place, and records at even distances.  Knows places; knows no tokens and no models.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np


def scatter(rng: np.random.Generator, rows: int, places: int, records: int) -> np.ndarray:
    """(rows, records) sorted first places of pairs, uniform over all layouts in `places` places."""
    slack = places - 2 * records
    if slack < 0:
        raise ValueError(f"{records} pairs need {2 * records} places; there are {places}")
    order = rng.random((rows, slack + records)).argsort(1)[:, :records]
    return np.sort(order, 1) + np.arange(records)


def scatter_at(
    rng: np.random.Generator, places: int, records: int, place: int
) -> tuple[np.ndarray, int]:
    """(records,) first places by the same law, given a pair at `place`, and that pair's number.

    The number before it is drawn with weight C(P−k, k)·C(L−P−2−(M−1−k), M−1−k), then both sides are
    scattered on their own.
    """
    before = int(np.searchsorted(_cumulated(places, records, place), rng.random(), side="right"))
    left = scatter(rng, 1, place, before)[0]
    right = scatter(rng, 1, places - place - 2, records - 1 - before)[0]
    return np.concatenate([left, [place], right + place + 2]), before


@lru_cache(maxsize=4096)
def _cumulated(places: int, records: int, place: int) -> np.ndarray:
    """Distribution of the number of pairs before `place`; ValueError where no layout has one."""
    after = places - place - 2
    weights = [
        math.comb(place - k, k) * math.comb(after - (records - 1 - k), records - 1 - k)
        if 2 * k <= place and 2 * (records - 1 - k) <= after
        else 0
        for k in range(records)
    ]
    total = sum(weights)
    if not total:
        raise ValueError(f"no layout of {records} pairs in {places} places has one at {place}")
    sums = np.cumsum([weight / total for weight in weights])
    return sums / sums[-1]  # rounded shares may sum to less than 1, and a draw lie above


def lattice(places: int, pitch: int, start: int) -> np.ndarray:
    """First places of a pair every `pitch`, from `start` (< pitch); as many for every start."""
    return start + pitch * np.arange((places - 1) // pitch)


def lay(fill: np.ndarray, starts: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Token ids (rows, N): a copy of `fill` with pairs at `starts` (rows, M)."""
    ids, rows = fill.copy(), np.arange(len(fill))[:, None]
    ids[rows, starts], ids[rows, starts + 1] = keys, values
    return ids


def draw(rng: np.random.Generator, rows: int, symbols: int, records: int) -> np.ndarray:
    """(rows, records) different symbols out of range(symbols), in random order."""
    return rng.random((rows, symbols)).argsort(1)[:, :records]
