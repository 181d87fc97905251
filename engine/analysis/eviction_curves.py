"""A decode run along its text: what is still held after each event, and what each method loses.

Each curve is a mean over prompts with the bootstrap's interval over prompts (SCIENCE §3, §6.3).
Knows rows of a decode run; knows nothing about methods.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.analysis.eviction_pairs import Cells, nll_cells
from engine.analysis.intervals import percentile, resample, resampled_means

POINTS = 200  # of one curve, at most
BLOCK = 8  # tokens in a block of the loss curve, at least
RETENTION = ("arm", "mark", "seen", "retained", "low", "high", "n")
LOSS = ("arm", "position", "loss", "low", "high", "n")


def retention_curve(
    marks: pd.DataFrame, *, by_mark: bool = True, seed: int = 0, points: int = POINTS
) -> pd.DataFrame:
    """Columns arm, mark, seen, retained, low, high, n: share of a mark's entries still held.

    `seen`: tokens read when an event ended, of any prompt.  What is dropped does not come back, so
    a prompt holds all before its first event and keeps between events what the last one left.
    `by_mark` false: the mean over a prompt's marks, mark None.  At most `points` a curve.
    """
    known = marks[np.isfinite(marks["retained"].to_numpy(float, na_value=np.nan))]
    known = known.sort_values(["arm", "mark", "sample", "seen"], kind="stable")
    if not by_mark:
        events = known.groupby(["arm", "sample", "seen"], as_index=False)
        known = events["retained"].mean().assign(mark=None)
    tables = []
    for (arm, mark), rows in known.groupby(["arm", "mark"], dropna=False, sort=True):
        grid = _thin(np.unique(rows["seen"].to_numpy(int)), points)
        held = np.array([_steps(one, grid) for _, one in rows.groupby("sample", sort=True)])
        low, high = _interval(held, seed)
        columns = (grid, held.mean(axis=0), low, high)
        table = pd.DataFrame(dict(zip(RETENTION[2:6], columns, strict=True)))
        name = None if mark is None or pd.isna(mark) else mark
        tables.append(table.assign(arm=int(arm), mark=name, n=len(held)))
    return _joined(tables, RETENTION)


def _steps(rows: pd.DataFrame, grid: np.ndarray) -> np.ndarray:
    """One prompt's share at each place of the grid."""
    last = np.searchsorted(rows["seen"].to_numpy(int), grid, side="right") - 1
    return np.where(last < 0, 1.0, rows["retained"].to_numpy(float)[last])


def loss_curve(
    steps: pd.DataFrame, *, full: int = 0, seed: int = 0, block: int = 0, points: int = POINTS
) -> pd.DataFrame:
    """Columns arm, position, loss, low, high, n: NLL less the full cache's, in nats per token.

    `position`: tokens since the prompt's end, the middle of a block of `block` tokens (0: at least
    8, and so many that `points` blocks suffice).  Only tokens that both scored, and only prompts in
    which both read the same text.
    """
    order = sorted(set(steps["arm"].unique()) | {full})
    return loss_from(nll_cells(steps, order), order, full, seed, block, points)


def loss_from(
    cells: Cells, order: list[int], full: int, seed: int = 0, block: int = 0, points: int = POINTS
) -> pd.DataFrame:
    """The loss curve of cells whose rows are the arms of `order`."""
    length = cells.values.shape[2]
    size = block or max(BLOCK, -(-length // points))
    starts = np.arange(0, length, size)
    base, tables = order.index(full), []
    for k, arm in enumerate(order):
        same = ~cells.other_tokens(k, base)
        if arm == full or not len(starts) or not same.any():
            continue
        loss = cells.values[k, same] - cells.values[base, same]
        loss = np.where(np.isfinite(loss), loss, np.nan)
        blocks = _block_means(loss, starts)
        low, high = _interval(blocks, seed)
        known = np.isfinite(blocks)
        n = known.sum(axis=0)
        mean = np.divide(
            np.where(known, blocks, 0.0).sum(axis=0), n, out=np.full(len(n), np.nan), where=n > 0
        )
        middle = (starts + np.minimum(starts + size, length) - 1) / 2
        table = pd.DataFrame({"position": middle, "loss": mean, "low": low, "high": high, "n": n})
        tables.append(table[n > 0].assign(arm=int(arm)))
    return _joined(tables, LOSS)


def _block_means(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """[n, K] → [n, blocks] mean of what is known."""
    known = np.isfinite(values)
    total = np.add.reduceat(np.where(known, values, 0.0), starts, axis=1)
    count = np.add.reduceat(known.astype(int), starts, axis=1)
    return np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)


def _interval(values: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Of the mean of each column of `values` [n, k]; NaN where fewer than two prompts are known."""
    n = len(values)
    low, high = percentile(resampled_means(values, resample(n, seed)), n)
    alone = np.isfinite(values).sum(axis=0) < 2
    return np.where(alone, np.nan, low), np.where(alone, np.nan, high)


def _thin(grid: np.ndarray, points: int) -> np.ndarray:
    """At most so many places, evenly by rank, the first and the last among them."""
    if len(grid) <= points:
        return grid
    return grid[np.unique(np.linspace(0, len(grid) - 1, points).round().astype(int))]


def _joined(tables: list[pd.DataFrame], columns: tuple[str, ...]) -> pd.DataFrame:
    if not tables:
        return pd.DataFrame({name: [] for name in columns})
    return pd.concat(tables, ignore_index=True)[list(columns)]


def listed(curve: pd.DataFrame, by: tuple[str, ...]) -> list[dict]:
    """One dict a curve, its columns as lists; five digits, None where undefined."""
    told = []
    for names, rows in curve.groupby(list(by), dropna=False, sort=False):
        head = {n: None if pd.isna(v) else v for n, v in zip(by, names, strict=True)}
        head = {n: int(v) if n == "arm" else v for n, v in head.items()}
        columns = [name for name in rows if name not in by]
        told.append(head | {name: _plain(rows[name].to_numpy()) for name in columns})
    return told


def _plain(column: np.ndarray) -> list:
    if np.issubdtype(column.dtype, np.integer):
        return [int(x) for x in column]
    return [round(float(x), 5) if np.isfinite(x) else None for x in column.astype(float)]
