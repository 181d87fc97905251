"""What a comparison of runs says in one sentence, and what may be doubted.

Only resolved differences are claimed: p corrected for all comparisons, and an interval without
zero.  Knows the comparison's dict; computes no statistic.
"""

from __future__ import annotations

from engine.analysis.compare import LEVEL
from engine.analysis.compare_decode import SAME
from engine.analysis.compare_fields import DIGEST
from engine.analysis.words import number, prompts, two

LABELS = {
    "mean": {
        "accuracy": "mean accuracy",
        "token": "mean token probability",
        "score": "mean score",
    },
    "worst": {},
    "gap": {},
    "nll": {},
    "recall": {},
}
USUAL = {
    "mean": "mean probability",
    "worst": "worst phase",
    "gap": "gap between phases",
    "nll": "negative log-likelihood",
    "recall": "recall",
}
SHARES = (  # how much more or less is kept, in words
    (1.9, "at twice the bytes or more"),
    (1.55, "at two thirds more bytes"),
    (1.4, "at half as many bytes again"),
    (1.28, "at a third more bytes"),
    (1.18, "at a quarter more bytes"),
    (1.03, "at slightly more bytes"),
    (0.97, "at as many bytes"),
)
FOREIGN = "kvpress"  # kind of run that was computed elsewhere
NO_PHASES = "No phases were swept: a hole at one of them does not show."


def label(name: str, measure: str) -> str:
    return LABELS[name].get(measure, USUAL[name])


def say(made: dict, between: dict | None = None) -> tuple[str, str]:
    """(finding, doubt).  `between`: the test of the run with the best worst phase less the one with
    the worst: {best, worst (keys), tests: {mean, worst}, alike}, p corrected for the choice.
    """
    runs = {run["key"]: run for run in made["runs"]}
    rows = {m["name"]: [r for r in m["rows"] if not r["reason"]] for m in made["measures"]}
    base = runs[made["base"]]
    if any(rows.get(name) for name in ("nll", "recall")):
        return _decoded(runs, base, rows)
    tested = [row["key"] for row in rows.get("mean", ())]
    if not tested:
        reasons = [r["reason"] for m in made["measures"] for r in m["rows"] if r["reason"]]
        if reasons and set(reasons) == {SAME}:
            return "These runs give the same answers", "Prompt by prompt, in all that both tried."
        told = reasons[0] if len(set(reasons)) == 1 else ""  # several: the warnings say whose
        return "These runs cannot be paired", _sentence(told)
    if between:
        finding, doubt = _between(runs, base, rows, between)
    elif len(tested) == 1:
        finding, doubt = _one(runs[tested[0]], base, rows)
    else:
        finding, doubt = _many(runs, base, rows)
    doubt += _limits(rows, runs, base)
    if _foreign(base):
        doubt += [*_besides(made, base, tested), NO_PHASES]
    return finding, " ".join(doubt)


def _one(run: dict, base: dict, rows: dict) -> tuple[str, list[str]]:
    """One run against the baseline."""
    mean, worst = rows["mean"][0], next(iter(rows.get("worst", ())), None)
    name, other = _name(run), the(base)
    lost = [row for row in (mean, worst) if row and row["resolved"]]
    if worst and worst["resolved"] and mean["resolved"]:
        if (worst["diff"] < 0) != (mean["diff"] < 0):
            up, down = ("mean", "worst phase") if mean["diff"] > 0 else ("worst phase", "mean")
            told = f"{name} gains in the {up} and loses in the {down}, against {other}"
        else:
            verb = "loses" if worst["diff"] < 0 else "gains"
            told = (
                f"{name} {verb} {_size(mean)} in the mean and {_size(worst)} in the worst phase "
                f"against {other}"
            )
        return told, []
    if worst and worst["resolved"]:
        verb = "loses" if worst["diff"] < 0 else "gains"
        told = f"{name} {verb} {_size(worst)} in the worst phase against {other}"
        return told, [f"The means differ by {_size(mean)}, {_apart(mean)}."]
    if lost:
        verb = "loses" if mean["diff"] < 0 else "gains"
        told = f"{name} {verb} {_size(mean)} in the {_mean(base)} against {other}"
        return told, [
            f"The worst phases differ by {_size(worst)}, {_apart(worst)}."
        ] if worst else []
    reach = [
        f"the {_mean(base) if row is mean else 'worst phase'} may differ by "
        f"{' to '.join(two(row['low'], row['high']))}"
        for row in (mean, worst)
        if row and row["low"] is not None
    ]
    told = f"{name} and {other} are not told apart by {_asked(mean['n'], base)}"
    return told, [_sentence(" and ".join(reach))] if reach else []


def _between(runs: dict, base: dict, rows: dict, between: dict) -> tuple[str, list[str]]:
    """The run with the best worst phase against the one with the worst."""
    best, poor = runs[between["best"]], runs[between["worst"]]
    worst, mean = between["tests"]["worst"], between["tests"]["mean"]
    high, low = two(worst["value"], worst["base_value"])
    doubt = []
    if worst["resolved"]:
        head = "Overlap buys the worst phase" if _overlap(best, poor, between) else ""
        head = head or f"{_name(best)} keeps more in the worst phase than {poor['name']}"
        told = f"{head}: {high} against {low}{_bytes(best, poor)}"
        pair = f"{_name(best)} and {poor['name']}"
        if mean["resolved"]:
            sign = "higher" if mean["diff"] > 0 else "lower"
            doubt.append(f"The mean of {best['name']} is {_size(mean)} {sign}.")
        else:
            doubt.append(f"{pair} differ in mean by {_size(mean)}, {_apart(mean)}.")
        if _overlap(best, poor, between) and best["model"] != poor["model"]:
            doubt.append("Each memory has a model of its own: one training each.")
    elif mean["resolved"]:
        first, second = (best, poor) if mean["diff"] > 0 else (poor, best)
        told = f"{_name(first)} has a better mean than {second['name']}, by {_size(mean)}"
        doubt.append(f"Their worst phases differ by {_size(worst)}, {_apart(worst)}.")
    else:
        return _many(runs, base, rows)
    return told, doubt + _reaches(base, rows)


def _many(runs: dict, base: dict, rows: dict) -> tuple[str, list[str]]:
    """Several runs that are told apart from the baseline at most."""
    known = rows.get("worst") or rows["mean"]
    where = "worst phase" if rows.get("worst") else _mean(base)
    below = [row for row in known if row["resolved"] and row["diff"] < 0]
    above = [row for row in known if row["resolved"] and row["diff"] > 0]
    other, count = the(base), len(known)
    if below and len(below) == count:
        deepest = min(below, key=lambda row: row["diff"])
        told = f"{_all(count)} lose in the {where} against {other}, {_size(deepest)} at most"
    elif above and len(above) == count:
        told = f"{_all(count)} gain in the {where} against {other}"
    elif below or above:
        some = _list([runs[row["key"]]["name"] for row in below or above])
        verb = "lose" if below else "gain"
        verb += "s" if len(below or above) == 1 else ""
        told = (
            f"{_upper(some)} {verb} in the {where} against {other}; of the others it is not shown"
        )
        if below and above:
            gained = _list([runs[row["key"]]["name"] for row in above])
            told = f"{_upper(some)} {verb} in the {where} against {other}"
            told += f", {gained} gain{'s' if len(above) == 1 else ''}"
    else:
        few = _asked(min(row["n"] for row in known), base)
        told = f"{few} tell none of these runs from {other}"
    return told, []


def _reaches(base: dict, rows: dict) -> list[str]:
    """Whether the runs fall short of the baseline in the worst phase."""
    known = rows.get("worst", ())
    if len(known) > 1 and all(row["resolved"] and row["diff"] < 0 for row in known):
        return [f"{'Neither' if len(known) == 2 else 'None'} reaches {the(base)}."]
    return []


def _limits(rows: dict, runs: dict, base: dict) -> list[str]:
    """What the number of prompts, and an unfinished run, keep from being known."""
    told = []
    tests = [row for name in ("mean", "worst", "gap") for row in rows.get(name, ())]
    few = min((row["n"] for row in tests), default=0)
    if few and 2.0 ** (1 - few) * len(tests) >= LEVEL and not any(r["resolved"] for r in tests):
        told.append(
            f"{_asked(few, base).capitalize()} cannot show a difference, whatever its size."
        )
    open_ = [run["name"] for run in runs.values() if run["status"] not in ("done", "")]
    if open_:
        told.append(f"Not finished: {_list(open_)}.")
    return told


def _besides(made: dict, base: dict, tested: list[str]) -> list[str]:
    """In what imports differ besides their press: a press is not to blame for that."""
    keys = [run["key"] for run in made["runs"]]
    places = [keys.index(base["key"]), *(keys.index(key) for key in tested)]
    differ = [
        _lower(field["label"])
        for field in made.get("fields", ())
        if not field["field"].startswith("press.")
        and field["field"] not in (DIGEST, "seed")
        and len({str(field["values"][place]) for place in places}) > 1
    ]
    return [f"Not the press alone differs: {_list(differ)} too."] if differ else []


def _decoded(runs: dict, base: dict, rows: dict) -> tuple[str, str]:
    """Decode runs: the largest resolved difference of each measure."""
    for name, words, unit in (
        ("nll", "negative log-likelihood", " nats"),
        ("recall", "recall", ""),
    ):
        sure = [row for row in rows.get(name, ()) if row["resolved"]]
        if not sure:
            continue
        row = max(sure, key=lambda r: abs(r["diff"]))
        worse = (row["diff"] > 0) == (name == "nll")
        first, second = row["label"], row["base_label"]
        verb = "loses" if worse else "gains"
        told = (
            f"{_upper(first)} {verb} {number(abs(row['diff']))}{unit} of {words} against {second}"
        )
        rest = sum(len(rows.get(m, ())) for m in ("nll", "recall")) - 1
        more = f"The largest of {rest + 1} differences." if rest else ""
        return told, more
    tests = [row for name in ("nll", "recall") for row in rows.get(name, ())]
    few = min(row["n"] for row in tests)
    return f"{_upper(prompts(few))} tell no method from its baseline", ""


def of_older_code(runs: list[dict]) -> list[str]:
    """One sentence on the runs that are stale, or none."""
    old = [run["name"] for run in runs if run["stale"]]
    if not old:
        return []
    who = f"{old[0]} is" if len(old) == 1 else f"{len(old)} of the {len(runs)} runs are"
    if 1 < len(old) == len(runs):
        who = f"{_all(len(runs))} runs are"
    return [f"{who} of other code or weights than the ones here."]


def not_paired(apart: dict[str, list[str]]) -> list[str]:
    """A sentence a reason on the runs, by name, that it keeps from the baseline."""
    return [
        f"{_list(names)} {'are' if names[1:] else 'is'} not paired: {why}."
        for why, names in apart.items()
    ]


# ---- words


def the(run: dict) -> str:
    return "the full cache" if run["name"].lower() == "full cache" else run["name"]


def _foreign(run: dict) -> bool:
    return run.get("kind") == FOREIGN


def _asked(n: int, base: dict) -> str:
    """ "192 prompts"; of an import from elsewhere "192 questions"."""
    return prompts(n).replace("prompt", "question") if _foreign(base) else prompts(n)


def _mean(base: dict) -> str:
    return "mean score" if _foreign(base) else "mean"


def _lower(label: str) -> str:
    """A label inside a sentence; one that begins with an acronym stays."""
    return label if label[1:2].isupper() else label[:1].lower() + label[1:]


def _name(run: dict) -> str:
    return _upper(the(run))


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _size(row: dict) -> str:
    return number(abs(row["diff"]), 2 if round(abs(row["diff"]), 2) else 3)


def _apart(row: dict) -> str:
    return f"which {prompts(row['n'])} do{'es' if row['n'] == 1 else ''} not separate"


def _overlap(best: dict, poor: dict, between: dict) -> bool:
    """Whether the two differ in nothing but that one's windows overlap; `alike`: in no other option
    of the memory, nor in what was asked."""
    words = best["subtitle"], poor["subtitle"]
    return (
        words == ("overlap", "no overlap") and best["window"] == poor["window"] and between["alike"]
    )


def _bytes(best: dict, poor: dict) -> str:
    a, b = best["bytes_per_token"], poor["bytes_per_token"]
    if not a or not b:
        return ""
    share = a / b
    if share < 0.97:
        return ", at fewer bytes"
    return ", " + next(words for least, words in SHARES if share >= least)


def _all(count: int) -> str:
    return "Both" if count == 2 else f"All {count}"


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _sentence(text: str) -> str:
    return f"{_upper(text)}." if text else ""
