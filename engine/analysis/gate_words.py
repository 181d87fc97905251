"""What a gate says of each condition, and what must be known beside it.

Knows the gate's dict; computes no statistic.
"""

from __future__ import annotations

from engine.analysis.words import number, prompts

MET, NOT_MET, UNDECIDED = "met", "not met", "undecided"
ASKS = {"worst": "at least", "gap": "at most", "mean": "at least"}


def apart(value: float, limit: float) -> str:
    """A number with the least digits, three or more, that keep it on its side of the limit."""
    for digits in (3, 4, 5, 6):
        shown = round(value, digits)
        if (shown > limit) == (value > limit) and (shown < limit) == (value < limit):
            return number(value, digits)
    return number(value, 7)


def asked(condition: dict) -> str:
    """ "at least .80"."""
    limit = condition["threshold"]
    return f"{ASKS[condition['name']]} {number(limit, 2 if round(limit, 2) == limit else 4)}"


def interval(condition: dict) -> str:
    limit = condition["threshold"]
    return f"{apart(condition['low'], limit)} to {apart(condition['high'], limit)}"


def sentence(condition: dict, made: dict) -> str:
    """The numbers of a condition and what follows from them."""
    value = number(condition["value"], 3)
    if condition["name"] == "worst":
        told = f"The worst {made['by']}, {condition['phase']}, has {value}"
    elif condition["name"] == "mean":
        told = f"The mean is {value}"
    else:
        folded, null = number(condition["folded_gap"], 3), number(condition["gap_null"], 3)
        told = f"The gap less what chance shows, {folded} − {null}, is {value}"
    level = f"{100 * (1 - made['alpha']):.12g} %"
    told += f" ({level} interval {interval(condition)}); asked for {asked(condition)}"
    return f"{told}: {condition['state']}{_more(condition, made)}."


def _more(condition: dict, made: dict) -> str:
    """What would settle an undecided condition."""
    if condition["state"] != UNDECIDED:
        return ""
    have = prompts(made["n_samples"])
    if condition["needed"]:
        return f" with {have}, about {condition['needed']} would show it if the values stay"
    limit, value, name = condition["threshold"], condition["value"], condition["name"]
    if limit == (0 if name == "gap" else 1):
        return " with any number of prompts: no interval ends at the limit itself"
    wrong = value > limit if name == "gap" else value < limit
    return f" with {have}, and the value is on the wrong side" if wrong else f" with {have}"


def notes(made: dict, stride: int | None) -> list[str]:
    """What a reader must know before trusting the verdict, one sentence each."""
    told = []
    if made["by"] == "residue":
        size = made["modulus"]
        why = (
            f"{size} residues are no multiple of the stride {stride}"
            if stride and stride > 1
            else "This memory has no grid"
        )
        told.append(f"{why}: each of {size} residues is judged as a phase of its own.")
    if made["n_samples"] == 1:
        told.append("One prompt: how prompts differ is unknown.")
    if [condition["name"] for condition in made["conditions"]] == ["gap"]:
        told.append("Only the gap is judged: a model that never succeeds has none.")
    return told
