"""Rows of answers → matrices [samples, residues] of what is measured (SCIENCE §2, §3).

Curves are aligned by the target's own residue before samples are averaged, never by the pad count.
Each token of a longer answer has a residue of its own.  What no row tells is NaN.
Knows the columns of `rows.ANSWERS`; knows nothing about statistics.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from engine.analysis.period import Curve


class Curves(NamedTuple):
    """Matrices are [n, R] by residue, except `shift_*` [n, number of shifts]; NaN is missing."""

    samples: np.ndarray  # [n] sample numbers
    shifts: np.ndarray  # shift numbers, ascending
    correct: np.ndarray  # 0 or 1: every answer token was the first choice
    joint: np.ndarray  # probability of the whole answer
    logprob: np.ndarray  # its natural log
    tokens: tuple[np.ndarray, ...]  # probability of each answer token, by that token's own residue
    value: np.ndarray  # the measure
    parts: Curve  # what the tests read: the measure, or each token for the token measure
    complete: np.ndarray  # [n] samples with a copy at every residue, each measured
    shift_value: np.ndarray  # the measure of the copy at each shift
    shift_joint: np.ndarray
    shift_rivals: np.ndarray  # [rivals, number of shifts], mean over samples


class _Tokens(NamedTuple):
    """Answer tokens of all rows, flat: which row, which place in the answer, what was measured."""

    row: np.ndarray
    place: np.ndarray
    prob: np.ndarray
    residue: np.ndarray


def plain(answers: pd.DataFrame) -> pd.DataFrame:
    """The rows of an ordinary sweep: a layer scan's rows are another question."""
    return answers[answers["layer"] == -1] if "layer" in answers else answers


def curves(answers: pd.DataFrame, modulus: int, measure: str) -> Curves:
    """Align the rows of one run.

    `measure`: "accuracy", "joint" or "token" (mean over answer tokens, each by its own residue).
    """
    answers = plain(answers).sort_values(["sample", "shift"], kind="stable")
    samples, row = np.unique(answers["sample"].to_numpy(int), return_inverse=True)
    shifts, at_shift = np.unique(answers["shift"].to_numpy(int), return_inverse=True)
    residue = answers["residue"].to_numpy(int) % modulus
    logprob = answers["logprob"].to_numpy(float, na_value=np.nan)
    correct = answers["correct"].to_numpy(float, na_value=np.nan)
    position = answers["target_position"].to_numpy(float, na_value=np.nan)
    joint = np.exp(logprob)
    by_residue, by_shift = (len(samples), modulus), (len(samples), len(shifts))
    correct_cells = _spread(correct, row, residue, by_residue)
    joint_cells = _spread(joint, row, residue, by_residue)
    flat = _flatten(answers, residue, modulus)
    tokens = tuple(
        _spread(flat.prob[pick], row[flat.row[pick]], flat.residue[pick], by_residue)
        for pick in (flat.place == k for k in range(flat.place.max(initial=-1) + 1))
    )
    if measure == "token":
        value = _spread(flat.prob, row[flat.row], flat.residue, by_residue)
        of_copy = _spread(flat.prob, row[flat.row], at_shift[flat.row], by_shift)
        ahead = (flat.residue - residue[flat.row]) % modulus
        offsets = [np.unique(ahead[flat.place == k]) for k in range(len(tokens))]
    else:
        value = correct_cells if measure == "accuracy" else joint_cells
        of_copy = _spread(correct if measure == "accuracy" else joint, row, at_shift, by_shift)
        offsets = []
    # A residue that only some tokens of an answer have reached is not yet measured.
    complete = (np.isfinite(value) & np.isfinite(joint_cells)).all(axis=1)
    return Curves(
        samples,
        shifts,
        correct_cells,
        joint_cells,
        _spread(logprob, row, residue, by_residue),
        tokens,
        value,
        _parts(value, _spread(position, row, residue, by_residue), tokens, offsets, complete),
        complete,
        of_copy,
        _spread(joint, row, at_shift, by_shift),
        _rivals(answers, at_shift, len(shifts)),
    )


def _parts(
    value: np.ndarray,
    targets: np.ndarray,
    tokens: tuple[np.ndarray, ...],
    offsets: list[np.ndarray],
    whole: np.ndarray,
) -> Curve:
    """The measure of complete samples for the tests, by token where tokens keep one distance.

    Positions are dropped where one is unknown.  Tokens of a copy that lie at no fixed distance from
    its target, or that some samples lack, are tested by their mean alone.
    """
    values, places = value[whole][:, None, :], targets[whole][:, None, :]
    shared = len(offsets) > 1 and all(len(o) == 1 for o in offsets)
    if shared and all(np.isfinite(token[whole]).all() for token in tokens):
        values = np.stack([token[whole] for token in tokens], axis=1)
        steps = tuple(int(o[0]) for o in offsets)
        # Token k at residue r belongs to the copy at r - step and lies step behind its target.
        places = np.stack([np.roll(targets[whole], k, axis=1) + k for k in steps], axis=1)
    else:
        steps = (0,)
    return Curve(values, places if np.isfinite(places).all() else None, steps)


def mean_of(values: np.ndarray, axis: int = 0) -> np.ndarray:
    """Mean along an axis, leaving out what is missing; NaN where all is."""
    known = np.isfinite(values)
    count = known.sum(axis=axis)
    total = np.where(known, values, 0.0).sum(axis=axis)
    return np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)


def fold(values: np.ndarray, stride: int) -> np.ndarray:
    """[n, R] → [n, S]: each sample's mean over the residues of one phase (residue mod S)."""
    return mean_of(values.reshape(len(values), values.shape[1] // stride, stride), axis=1)


def _spread(
    numbers: np.ndarray, row: np.ndarray, column: np.ndarray, shape: tuple[int, int]
) -> np.ndarray:
    """Mean of the numbers that fall in each cell; NaN where none does."""
    known = np.isfinite(numbers)
    where = row[known] * shape[1] + column[known]
    cells = shape[0] * shape[1]
    count = np.bincount(where, minlength=cells)
    total = np.bincount(where, weights=numbers[known], minlength=cells)
    return np.divide(total, count, out=np.full(cells, np.nan), where=count > 0).reshape(shape)


def _lists(answers: pd.DataFrame, column: str) -> list[np.ndarray]:
    """A list column as arrays; rows without a list are empty."""
    if column not in answers:
        return [np.empty(0)] * len(answers)
    nothing, listed = np.empty(0), (np.ndarray, list, tuple)
    return [
        np.asarray(cell, float) if isinstance(cell, listed) else nothing
        for cell in answers[column].tolist()
    ]


def _flatten(answers: pd.DataFrame, residue: np.ndarray, modulus: int) -> _Tokens:
    """Answer tokens of all rows.  A row that lacks its tokens' residues lends them its own."""
    logprobs = _lists(answers, "token_logprobs")
    owners = _lists(answers, "token_residues")
    sizes = np.array([len(x) for x in logprobs], int)
    row = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    own = [
        o if len(o) == len(x) else np.full(len(x), r)
        for x, o, r in zip(logprobs, owners, residue, strict=True)
    ]
    join = np.concatenate if len(sizes) else lambda _: np.empty(0)
    return _Tokens(row, place, np.exp(join(logprobs)), join(own).astype(int) % modulus)


def _rivals(answers: pd.DataFrame, at_shift: np.ndarray, shifts: int) -> np.ndarray:
    """[rivals, shifts] mean probability of each rival at the first answer position."""
    lists = _lists(answers, "rival_logprobs")
    sizes = np.array([len(x) for x in lists], int)
    count = sizes.max(initial=0)
    table = np.full((len(lists), count), np.nan)
    if count:
        table[np.arange(count) < sizes[:, None]] = np.exp(np.concatenate(lists))
    zeros = np.zeros(len(lists), int)
    return np.array(
        [_spread(column, zeros, at_shift, (1, shifts))[0] for column in table.T]
    ).reshape(count, shifts)
