"""What a reader must know before trusting a decode run's numbers (SCIENCE §6, §6.3).

Each warning is one sentence and is told only where it is true.  Knows the report's dict.
"""

from __future__ import annotations

import pandas as pd

from engine.analysis.eviction_pairs import LEVEL, MEASURES, POOLED, least_p
from engine.analysis.eviction_words import NAMED, called, names, tokens
from engine.analysis.words import p_value, prompts

MISSED = 0.03  # of the asked budget, beyond which mean resident tokens are told
HEAVIER = 1.1  # bytes at one budget, beyond which they are told
ENOUGH = 13  # prompts from which on p is drawn and any number of tests can be resolved


def warn(result: dict, mismatched: dict[int, int]) -> list[str]:
    """What a reader must know before trusting the numbers, one sentence each.

    `mismatched`: arm → prompts in which it scored other tokens than the full cache.
    """
    told = [*_too_few(result), *_incomplete(result)]
    for m in result["methods"]:
        if m["budget"] is None or not m["n"]:
            continue
        name = f"{called(m['label'])} at {tokens(m['budget'])}"
        mean = m["mean_resident"]
        if m["held_all"]:
            told.append(
                f"{name}: the budget holds all {m['length']:g} tokens, so nothing was evicted."
            )
        elif m["events"] == 0:
            told.append(f"{name}: no event came, so nothing was evicted.")
        elif result["fair"] == "time_average" and mean is not None:
            off = mean / m["budget"] - 1
            if abs(off) > MISSED:
                more = f"{100 * abs(off):.0f} % {'more' if off > 0 else 'less'}"
                told.append(f"{name} held {mean:.1f} tokens on average, {more} than asked.")
        if count := mismatched.get(m["arm"]):
            told.append(
                f"{name} scored other tokens than the full cache in {prompts(count)}: NLL is "
                "compared only where both scored the same."
            )
    return told + _unpaired(result) + _heavier(result)


def _unpaired(result: dict) -> list[str]:
    """A pooled memory that stands alone: no asked budget is near what its options make it hold."""
    asked = {m["budget"] for m in result["methods"] if m["method"] != POOLED} - {None}
    places = [m["compared_at"] for m in result["methods"]]
    return [
        f"{called(m['label'])} holds {tokens(m['budget'])} on average, near no budget that was "
        f"asked: it is paired with no other method; a budget of {m['budget']:g} would pair it."
        for m, at in zip(result["methods"], places, strict=True)
        if m["method"] == POOLED and asked and places.count(at) == 1
    ]


def unfinished(texts: pd.DataFrame, steps: int) -> list[str]:
    """Texts that could have ended by themselves, and were cut off at the run's steps."""
    going = int((texts["ended"] == "cap").sum())
    if not going:
        return []
    were = "was" if going == 1 else "were"
    told = f"{going} of {len(texts)} texts {were} still going on at the cap of {tokens(steps)}"
    return [f"{told}; more steps let them end."]


def _too_few(result: dict) -> list[str]:
    """Measures by which nothing can be resolved, however large a difference is."""
    told = []
    for measure in MEASURES:
        tests = [r for r in result["pairs"] if r["measure"] == measure]
        alone = [m["against_full"][measure] for m in result["methods"]]
        tests = tests or [test for test in alone if test]
        n = max((r["n"] for r in tests), default=0)
        if not tests or least_p(n, len(tests)) < LEVEL:
            continue
        least = p_value(min(1.0, least_p(n, len(tests)))).removeprefix("p = ")
        enough = next((k for k in range(n, ENOUGH + 1) if least_p(k, len(tests)) < LEVEL), None)
        count = len(tests)
        over = "" if count == 1 else f" corrected for {count} comparisons"
        need = f"; {enough} prompts could" if enough else ""
        told.append(
            f"With {prompts(n)} no p by {NAMED[measure]}{over} can fall below {least}, so no "
            f"difference can be resolved{need}."
        )
    return told


def _incomplete(result: dict) -> list[str]:
    n = result["n_samples"]
    short = [m for m in result["methods"] if m["n"] < n]
    if not short or not n:
        return []
    short_names = [f"{called(m['label'])}{_at(m['budget'])} {m['n']}" for m in short]
    return [f"Of {prompts(n)} not every method has all: {names(short_names)}."]


def _heavier(result: dict) -> list[str]:
    """Equal tokens, unequal bytes: stored queries, or sets kept per query head."""
    told = []
    for budget in sorted({m["compared_at"] for m in result["methods"]} - {None}):
        own = [m for m in result["methods"] if m["compared_at"] == budget and m["total_bytes"]]
        if len(own) < 2:
            continue
        light, heavy = (f(own, key=lambda m: m["total_bytes"]) for f in (min, max))
        ratio = heavy["total_bytes"] / light["total_bytes"]
        if ratio > HEAVIER:
            told.append(
                f"At {tokens(budget)} {called(heavy['label'])} takes {ratio:.1f} times the bytes "
                f"of {called(light['label'])}, its own state included."
            )
    return told


def _at(budget: float | None) -> str:
    return "" if budget is None else f" at {tokens(budget)}"
