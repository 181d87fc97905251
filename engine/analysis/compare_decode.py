"""How much two decode runs differ, method by method: NLL and recall on the same prompts (§6.3).

Each method of one run stands against its like in the other: the same method at the same budget,
else the only one of that budget, else the full cache.  The tests are those between methods of one
run.  Knows rows and arms; knows nothing of specs or storage.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from engine.analysis.eviction_pairs import MEASURES, SPAN, Cells, nll_cells, paired, recall_cells

CELLS = {"nll": nll_cells, "recall": recall_cells}
SAME = "the same answers in both runs, prompt by prompt"
WHY = {
    "nll": "no prompt in which both scored the same tokens",
    "recall": "no prompt in which both answered the same questions",
}


class Rows(NamedTuple):
    """A decode run's rows and arms; `free`: each method wrote a text of its own."""

    steps: pd.DataFrame
    answers: pd.DataFrame
    arms: list[dict]
    seed: int
    free: bool

    @property
    def full(self) -> dict | None:
        return next((arm for arm in self.arms if arm["budget"] is None), None)


def name(arm: dict) -> str:
    """ "beacon 96"; the full cache has no budget."""
    return arm["label"] if arm["budget"] is None else f"{arm['label']} {arm['budget']:g}"


def like(arm: dict, arms: list[dict]) -> dict | None:
    """The arm of another run that one is to stand against."""
    same = [a for a in arms if (a["label"], a["budget"]) == (arm["label"], arm["budget"])]
    budget = [a for a in arms if a["budget"] is not None and a["budget"] == arm["budget"]]
    full = [a for a in arms if a["budget"] is None]
    for found in (same, budget, full):
        if len(found) == 1:
            return found[0]
    return None


def differences(run: Rows, base: Rows | None) -> dict[str, list[dict]]:
    """{nll, recall} → [{arm, base_arm, label, base_label, diff, low, high, p, n, reason, …}].

    `base` None: each method against the full cache of its own run.
    """
    found: dict[str, list[dict]] = {measure: [] for measure in MEASURES}
    other = base or run
    pairs = []
    for arm in run.arms:
        against = run.full if base is None else like(arm, other.arms)
        if against is not None and (base is not None or arm is not against):
            pairs.append((arm, against))
    order = [(0, arm["index"]) for arm in run.arms] + [(1, arm["index"]) for arm in other.arms]
    number = {place: k for k, place in enumerate(order)}
    for measure in MEASURES:
        free = measure == "nll" and (run.free or other.free)
        frames = [_numbered(r, measure, side, number) for side, r in enumerate((run, other))]
        cells = None if free else CELLS[measure](pd.concat(frames), range(len(order)))
        for arm, against in pairs:
            places = number[0, arm["index"]], number[1, against["index"]]
            test = None if cells is None else paired(cells, *places, SPAN[measure], run.seed)
            why = "each method wrote a text of its own" if free else "" if test else WHY[measure]
            if test and base is not None and _alike(cells, *places):
                test, why = None, SAME
            found[measure].append(_row(arm, against, test, why))
    return found


def _alike(cells: Cells, a: int, b: int) -> bool:
    """Whether two arms are one and the same computation: no comparison is made of it."""
    return bool(np.array_equal(cells.values[a], cells.values[b], equal_nan=True))


def _numbered(rows: Rows, measure: str, side: int, number: dict) -> pd.DataFrame:
    """Rows of one run under numbers that no arm of the other has."""
    frame = rows.steps if measure == "nll" else rows.answers
    own = {index: k for (place, index), k in number.items() if place == side}
    return frame[frame["arm"].isin(own)].assign(arm=lambda f: f["arm"].map(own).astype(int))


def _row(arm: dict, against: dict, test: dict | None, why: str) -> dict[str, Any]:
    row = {"arm": arm["index"], "base_arm": against["index"]}
    row |= {"label": name(arm), "base_label": name(against)}
    row |= dict.fromkeys(("diff", "low", "high", "p", "value", "base_value", "corrected"))
    if test:
        row |= {n: test[n] for n in ("diff", "low", "high", "p")}
        row |= {"value": test["value_a"], "base_value": test["value_b"]}
        row["corrected"] = test["diff"]
    return row | {"n": test["n"] if test else 0, "reason": why}
