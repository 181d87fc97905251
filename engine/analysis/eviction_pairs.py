"""How much two decode methods differ, over prompts: intervals, sign flips, Holm (SCIENCE §3, §6.3).

Tokens and questions of one prompt are correlated, so the prompt is the unit: each is reduced to one
number, and prompts are resampled or their signs flipped.  Knows rows of a decode run by arm; knows
nothing about methods' options or sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd

from engine.analysis.intervals import percentile, resample, resampled_means, wilson

LEVEL = 0.05
POOLED, NEAR = "pooled", 0.02  # by how much of an asked budget a mean may miss it and be compared
EXACT = 12  # up to this many prompts all sign patterns are tried
DRAWS = 10_000
STEP = 2_000  # sign patterns that are held as floats at once
MEASURES = ("nll", "recall")
BETTER = {"nll": -1, "recall": 1}
SPAN = {"nll": None, "recall": (0.0, 1.0)}  # what the measure can be, where it is bounded


@dataclass(frozen=True)
class Cells:
    """What each arm (A) scored in each prompt (S), by token of its continuation or question (K)."""

    samples: np.ndarray  # [S] prompt numbers
    values: np.ndarray  # [A, S, K]; NaN where nothing was scored
    tokens: np.ndarray | None  # [A, S, K] the token scored, −1 where there is none

    @cached_property
    def known(self) -> np.ndarray:
        """An impossible token is known too: to leave it out would flatter the arm."""
        return ~np.isnan(self.values)

    @cached_property
    def by_prompt(self) -> np.ndarray:
        """[A, S] mean over what was scored; NaN where nothing was, or where it is infinite."""
        count = self.known.sum(axis=2)
        total = np.where(self.known, self.values, 0.0).sum(axis=2)
        mean = np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
        return np.where(np.isfinite(mean), mean, np.nan)

    def other_tokens(self, a: int, b: int) -> np.ndarray:
        """[S] prompts in which the two arms read different tokens at one place."""
        if self.tokens is None:
            return np.zeros(len(self.samples), bool)
        first, second = self.tokens[a], self.tokens[b]
        return ((first >= 0) & (second >= 0) & (first != second)).any(axis=1)

    def comparable(self, a: int, b: int) -> np.ndarray:
        """[S] prompts in which both arms scored the same tokens, or answered the same questions."""
        same = (self.known[a] == self.known[b]).all(axis=1) & ~self.other_tokens(a, b)
        return same & np.isfinite(self.by_prompt[[a, b]]).all(axis=0)


class Estimate(NamedTuple):
    """A mean over n prompts with its 95 % interval; NaN where undefined."""

    mean: float
    low: float
    high: float
    n: int


def nll_cells(steps: pd.DataFrame, order: Sequence[int]) -> Cells:
    """−log-probability of continuation tokens; `order` holds the arms' numbers.

    Places are counted from the prompt's first continuation token, whichever arm has it.
    """
    steps = steps[steps["arm"].isin(order)]
    position = steps["position"].to_numpy(int)
    start = steps.groupby("sample")["position"].transform("min").to_numpy(int)
    value = -steps["logprob"].to_numpy(float, na_value=np.nan)
    return _cells(steps, order, position - start, value, steps["token_id"].to_numpy(int))


def recall_cells(answers: pd.DataFrame, order: Sequence[int], column: str = "correct") -> Cells:
    """1 for a question whose whole answer was the first choice, else 0 (or another column)."""
    answers = answers[answers["arm"].isin(order)]
    value = answers[column].to_numpy(float, na_value=np.nan)
    return _cells(answers, order, answers["question"].to_numpy(int), value, None)


def _cells(
    rows: pd.DataFrame,
    order: Sequence[int],
    place: np.ndarray,
    value: np.ndarray,
    token: np.ndarray | None,
) -> Cells:
    samples, at = np.unique(rows["sample"].to_numpy(int), return_inverse=True)
    number = {arm: k for k, arm in enumerate(order)}
    arm = rows["arm"].map(number).to_numpy(int)
    shape = (len(order), len(samples), int(place.max(initial=-1)) + 1)
    values, tokens = np.full(shape, np.nan), None
    values[arm, at, place] = value
    if token is not None:
        tokens = np.full(shape, -1)
        tokens[arm, at, place] = token
    return Cells(samples, values, tokens)


def clustered(
    values: np.ndarray, seed: int = 0, span: tuple[float, float] | None = None
) -> Estimate:
    """Mean of one number a prompt, with the bootstrap's interval over prompts.

    Where n prompts all agree the bootstrap has no width.  For a measure bounded by `span` at most a
    share u of prompts may then differ, u being the upper end of Wilson's interval for none in n,
    and these by as much as the bounds let them.
    """
    values = values[np.isfinite(values)]
    n = len(values)
    if not n:
        return Estimate(np.nan, np.nan, np.nan, 0)
    mean = float(values.mean())
    if span and n > 1 and np.ptp(values) < 1e-12:
        rest = float(wilson(0, n).high)
        return Estimate(mean, mean - rest * (mean - span[0]), mean + rest * (span[1] - mean), n)
    low, high = percentile(resampled_means(values[:, None], resample(n, seed))[:, 0], n)
    return Estimate(mean, float(low), float(high), n)


# ---- tests


def sign_flip(differences: np.ndarray, seed: int = 0) -> float:
    """Two-sided p of mean zero when each prompt's difference is as likely to be its negative.

    Exact up to 12 prompts, and then never below 2^(1−n); else (1 + k)/(1 + N), N = 10 000.
    """
    observed = abs(differences.sum())
    least = observed - 1e-9 * np.abs(differences).sum()
    signs = _signs(len(differences), seed)
    beaten = sum(
        int(np.sum(np.abs(signs[k : k + STEP] @ differences) >= least))
        for k in range(0, len(signs), STEP)
    )
    if len(differences) <= EXACT:
        return beaten / len(signs)
    return (1 + beaten) / (1 + len(signs))


@lru_cache(maxsize=4)
def _signs(n: int, seed: int) -> np.ndarray:
    """[patterns, n] of −1 and 1; all 2^n where these are few."""
    if n <= EXACT:
        bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    else:
        bits = np.random.default_rng([seed, 8]).integers(0, 2, (DRAWS, n))
    signs = (1 - 2 * bits).astype(np.int8)
    signs.flags.writeable = False
    return signs


def holm(p: Sequence[float]) -> np.ndarray:
    """p corrected for as many tests, step down (Holm 1979): no smaller than that of any before."""
    p = np.asarray(p, float)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(steps, 1.0)
    return corrected


def least_p(n: int, tests: int = 1) -> float:
    """The smallest corrected p that n prompts can show when so many tests are made."""
    return tests * (2.0 ** (1 - n) if n <= EXACT else 1 / (1 + DRAWS))


# ---- arms against each other


def paired(
    cells: Cells, a: int, b: int, span: tuple[float, float] | None, seed: int = 0
) -> dict | None:
    """{value_a, value_b, diff, low, high, p, n} of arm a less arm b (rows of `cells`).

    None without a prompt in which both scored the same.
    """
    shared = cells.comparable(a, b)
    if not shared.any():
        return None
    first, second = cells.by_prompt[a, shared], cells.by_prompt[b, shared]
    change = first - second
    reach = span and (span[0] - span[1], span[1] - span[0])
    told = clustered(change, seed, reach)
    return {
        "value_a": float(first.mean()),
        "value_b": float(second.mean()),
        "diff": told.mean,
        "low": told.low if told.n > 1 else None,
        "high": told.high if told.n > 1 else None,
        "p": sign_flip(change, seed),
        "n": told.n,
    }


def corrected(rows: list[dict]) -> list[dict]:
    """The tests of one family with `p_corrected` and `resolved`: p and the interval both say so."""
    for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True):
        sure = row["low"] is not None and (row["low"] > 0 or row["high"] < 0)
        row |= {"p_corrected": float(p), "resolved": bool(sure and p < LEVEL)}
    return rows


def compared_at(arms: list[dict]) -> list[float | None]:
    """Arm by arm the budget at which it is compared: the one that was asked.

    A pooled memory's options alone decide what it holds: the asked budget next to it, within 2 %,
    else its own mean.
    """
    asked = {a["budget"] for a in arms if a.get("kind") != POOLED} - {None}
    found = []
    for arm in arms:
        budget = arm["budget"]
        if arm.get("kind") == POOLED and budget is not None:
            near = [b for b in asked if abs(budget - b) <= NEAR * b]
            budget = min(near, key=lambda b: (abs(budget - b), b), default=budget)
        found.append(budget)
    return found


def at_equal_budget(cells: dict[str, Cells], arms: list[dict], seed: int = 0) -> list[dict]:
    """All pairs of arms that are compared at one budget; Holm within each measure."""
    rows, at = [], compared_at(arms)
    for measure, table in cells.items():
        family = []
        for budget in sorted(set(at) - {None}):
            own = [k for k, where in enumerate(at) if where == budget]
            for a, b in combinations(own, 2):
                test = paired(table, a, b, SPAN[measure], seed)
                if test:
                    family.append(_names(budget, arms[a], arms[b], measure) | test)
        rows += corrected(family)
    return rows


def _names(budget: float, a: dict, b: dict, measure: str) -> dict:
    return {
        "budget": budget,
        "a": a["label"],
        "b": b["label"],
        "arm_a": a["index"],
        "arm_b": b["index"],
        "measure": measure,
    }


def against_full(cells: dict[str, Cells], arms: list[dict], seed: int = 0) -> dict[int, dict]:
    """Arm → {measure: the test of it less the full cache}; Holm over arms within each measure."""
    full = next((k for k, arm in enumerate(arms) if arm["budget"] is None), None)
    told: dict[int, dict] = {arm["index"]: dict.fromkeys(cells) for arm in arms}
    for measure, table in cells.items():
        family = {
            arm["index"]: test
            for k, arm in enumerate(arms)
            if full is not None and k != full
            if (test := paired(table, k, full, SPAN[measure], seed))
        }
        for index, test in zip(family, corrected(list(family.values())), strict=True):
            told[index][measure] = test
    return told
