"""Sentences over what the page counts: an event, its votes, its cover, what a run has lost.

Pure: frames in, text out.  Each says no more than what was counted for the chosen sample, layer
and head; comparisons of methods are the engine's sentences.
"""

from __future__ import annotations

import pandas as pd

from app.words import count, number


def event(frame: pd.DataFrame, place: int, seen: int) -> str:
    """`Event 3, after 212 tokens: 12 of 96 entries go, 2 of them marked`."""
    gone = frame[frame["fate"] == "evicted"]
    marked = int(gone["mark"].notna().sum())
    told = f"Event {place + 1}, after {count(seen, 'token')}: {len(gone)} of "
    told += f"{count(len(frame), 'entry', 'entries')} go"
    return told + (f", {marked} of them marked" if marked else ", none of them marked")


def votes(voted: pd.DataFrame, observers: pd.DataFrame) -> str:
    """Who chose: how many entries beacons won, and how many the recent queries."""
    if not len(observers):
        return "This method keeps by a rule, not by a vote"
    if not len(voted):
        return "Every entry that stayed was protected: no vote was needed"
    kinds = observers.set_index("observer")["kind"]
    won = voted["observer"].map(kinds).value_counts()
    total = count(len(voted), "entry", "entries")
    if "beacon" not in set(kinds):
        asked = count(len(observers), "recent query", "recent queries")
        return f"{asked} kept {total} by their votes"
    beacon = int(won.get("beacon", 0))
    return (
        f"Beacons kept {beacon} of {total} that a vote kept, recent queries {len(voted) - beacon}"
    )


def cover(frame: pd.DataFrame) -> str:
    """Which set is nearest to the queries that follow, on average, at this event alone."""
    if not len(frame):
        return "No query follows this event"
    means = frame.groupby("selector", sort=False)["cosine"].mean()
    following = count(int(frame["position"].nunique()), "query", "queries")
    best, low, high = means.idxmax(), number(means.min(), 2), number(means.max(), 2)
    if low == high:
        return f"To the {following} that follow all sets are equally near, {high} on average"
    return (
        f"Nearest to the {following} that follow, on average: {best}, {high}; "
        f"least near: {means.idxmin()}, {low}"
    )


def lost(frame: pd.DataFrame, regret: pd.DataFrame) -> str:
    """What the chosen run had lost by its end, as marks and as attention."""
    told = []
    if len(frame):
        last = frame.sort_values("seen").groupby("mark", sort=False)["retained"].last()
        name = str(last.idxmin())
        told.append(f"at the end {number(float(last.min()), 2)} of “{name}” was left")
    if len(regret):
        row = regret.loc[regret["mass"].idxmax()]
        share = number(float(row["mass"]), 2)
        told.append(f"one token’s attention to what is gone reached {share}")
    words = " and ".join(told) or "nothing was evicted"
    return words[:1].upper() + words[1:]


def answered(asked: pd.DataFrame) -> str:
    return f"{int(asked['correct'].sum())} of {count(len(asked), 'question')} answered"


def answers(asked: pd.DataFrame, restored: pd.DataFrame) -> str:
    """How many questions were answered, and how many gain by what is put back."""
    told = []
    if len(asked):
        told.append(answered(asked))
    if len(restored):
        gain = int((restored["after"] > restored["before"]).sum())
        told.append(f"putting the span back raises {gain} of {count(len(restored), 'answer')}")
    words = "; ".join(told) or "No questions"
    return words[:1].upper() + words[1:]


def far(frame: pd.DataFrame) -> str:
    """The share of global queries, and the head that has most of them."""
    if not len(frame):
        return "Where queries look far back"
    top = frame.loc[frame["share"].idxmax()]
    if not top["share"]:
        return "No query looks far back by these thresholds"
    return (
        f"{number(float(frame['share'].mean()), 2)} of the queries look far back; most in layer "
        f"{int(top['layer'])}, head {int(top['head'])}: {number(float(top['share']), 2)}"
    )


def pairs(frame: pd.DataFrame) -> str:
    """How many of the differences between methods the tests tell from zero."""
    if not len(frame):
        return "One method at each budget: nothing to compare in pairs"
    sure, total = int(frame["resolved"].sum()), count(len(frame), "difference")
    return f"{sure or 'None'} of {total} between methods {'is' if sure < 2 else 'are'} resolved"


def upkeep(arms: list[dict]) -> str:
    """The share of decoding that choosing takes, over all arms."""
    known = [a["upkeep_share"] for a in arms if a.get("upkeep_share") is not None]
    if not known:
        return "What it costs"
    low, high = number(100 * min(known), 1), number(100 * max(known), 1)
    span = low if low == high else f"{low} to {high}"
    return f"Observing and choosing take {span}\u00a0% of decoding"


def overall(lines: list[dict], measure: str) -> str:
    """All methods by their mean over the budgets, the best first; "" where there is one budget."""
    known = [line for line in lines if line.get(measure) is not None]
    if max((len(line["budgets"]) for line in known), default=0) < 2:
        return ""
    known.sort(key=lambda line: line[measure] if measure == "nll" else -line[measure])
    noun = {"nll": "NLL in nats", "recall": "recall"}[measure]
    told = ", ".join(f"{_called(line['label'])} {number(line[measure], 2)}" for line in known)
    return f"Over all budgets, {noun}, the best first: {told}. An order, not a test."


def _called(label: str) -> str:
    """`rkv (every 16)`: a name whose options are no further names of a list."""
    kind, _, options = label.partition(", ")
    return f"{kind} ({options})" if options else kind


def against_full(arms: list[dict], measure: str) -> str:
    """How many settings the paired tests tell from the full cache."""
    noun = {"nll": "likelihood", "recall": "recall"}[measure]
    tests = [(arm.get("against_full") or {}).get(measure) for arm in arms]
    known = [test for test in tests if test]
    if not known:
        return "Quality against budget"
    sure, total = sum(bool(t.get("resolved")) for t in known), count(len(known), "setting")
    verb = "is" if sure < 2 else "are"
    return f"In {noun} {sure or 'none'} of {total} {verb} told apart from the full cache"
