"""Section headings that are findings: from the service's numbers, by fixed rules.

Pure.  A heading never says more than the adjusted tests and intervals allow.
"""

from __future__ import annotations

from app.compare.subject import Subject, moving
from app.words import count, joined, sentence

PLAIN = {
    "curves": "The same curve of each run, on one scale",
    "residues": "Folded to each run's own stride",
    "spectra": "Power by period",
    "tokens": "Where the tokens are likelier than in the baseline",
    "attention": "One layer and head, run by run",
    "timelines": "What each cache held",
}
NOTES = {
    "curves": "The measure by target position, one scale. Grey: {base}. Bands: one stride. "
    "Ribbon: 95 %. Drag to zoom all panels, double-click to return.",
    "residues": "Mean of each phase of the run's own stride, 95 % by prompt. Grey: {base}, where "
    "it has as many phases. Drag to zoom all panels, double-click to return.",
    "spectra": "Share of the mean curve's variance by period; the configured stride in colour. "
    "Drag to zoom all panels, double-click to return.",
    "tokens": "Log-probability of each token less the baseline's, at one copy. Blue: likelier "
    "than in {base}; orange: less likely.",
    "attention": "Weights by query and key position, one colour scale. A pooled entry spans its "
    "window. Drag to zoom all panels, double-click to return.",
    "timelines": "One row a position, from left to right as tokens are read. Drag to zoom all "
    "panels, double-click to return.",
}


def charts(subject: Subject, chart: str) -> str:
    """What the row of panels shows, in one sentence."""
    if chart not in ("curves", "residues") or any(moving(run) for run in subject.runs):
        return PLAIN[chart]
    found, flat, open_ = [], [], []
    for run in subject.others:
        told = run["numbers"]
        if told.get("period_p") is None:
            continue
        if told.get("period") and told["period_p"] < 0.05:
            found.append((run["name"], int(told["period"]), run.get("stride")))
        else:
            (flat if told.get("gap_p") is not None and told["gap_p"] >= 0.05 else open_).append(
                run["name"]
            )
    if not found and not flat:
        return PLAIN[chart]
    own = [name for name, period, stride in found if period == stride]
    if len(own) == len(subject.others) and len(own) > 1:
        return f"{_all(len(own))} repeat with their stride"
    if own and len(found) == len(own):
        verb = "repeats with its stride" if len(own) == 1 else "repeat with their stride"
        rest = flat + open_
        told = f"; no period is resolved in {_few(rest)}" if rest else ""
        return sentence(f"{_few(own)} {verb}{told}")
    if found:
        told = joined([f"{name} ({period})" for name, period, _ in found[:4]])
        return sentence(f"periods found: {told}")
    return f"No period is resolved in {_few(flat + open_)}"


def alone(subject: Subject) -> str:
    """The heading where no run shares the chart with the baseline."""
    return f"No run has this chart in common with {base_name(subject)}"


def _few(names: list[str]) -> str:
    return joined(names) if len(names) <= 3 else count(len(names), "run")


def _all(n: int) -> str:
    return {2: "Both", 3: "All three"}.get(n, f"All {n}")


def note(subject: Subject, chart: str) -> str:
    name = subject.base["name"]
    if name == "Full cache":
        differ = {row["field"].split(".")[0] for row in subject.told["fields"] if row["differs"]}
        same = not differ & {"task", "seed", "protocol"}
        plain = "full cache on the same copies" if same else "full cache, of other copies than some"
        name = "the full cache" if chart == "tokens" else plain
    return NOTES[chart].format(base=name)


def differences(subject: Subject) -> str:
    """`2 of 3 fall short in the mean, all 3 in the worst phase`, by adjusted p."""
    told = []
    for measure in subject.told["measures"]:
        rows = [row for row in measure["rows"] if row.get("p_adjusted") is not None]
        if measure["name"] not in ("mean", "worst", "recall") or not rows:
            continue
        short = [row for row in rows if row["p_adjusted"] < 0.05 and row["diff"] < 0]
        above = [row for row in rows if row["p_adjusted"] < 0.05 and row["diff"] > 0]
        noun = {"mean": "mean", "worst": "worst phase", "recall": "recall"}[measure["name"]]
        if short and above:
            told.append(f"{len(short)} below and {len(above)} above in the {noun}")
        elif short:
            told.append(f"{_of(len(short), len(rows))} below in the {noun}")
        elif above:
            told.append(f"{_of(len(above), len(rows))} above in the {noun}")
        else:
            told.append(f"none told apart in the {noun}")
    if not told:
        return "Nothing is paired with the baseline"
    return f"Against {base_name(subject)}: {', '.join(told)}"


def folding(subject: Subject) -> str:
    """Why paired differences are not those of the table's columns; "" where they are."""
    numbers = {run["key"]: run["numbers"] for run in subject.runs}
    base = subject.base["numbers"]
    moved = {
        measure["name"]
        for measure in subject.told["measures"]
        for row in measure["rows"]
        if measure["name"] in ("mean", "worst", "gap") and row.get("base_value") is not None
        if not _same(row["base_value"], base.get(measure["name"]))
        or not _same(row["value"], numbers[row["key"]].get(measure["name"]))
    }
    if "mean" in moved:
        return "Over the prompts that both runs have; the table's numbers are of all that each has."
    if not moved:
        return ""
    return (
        f"Worst phase and gap: here {base_name(subject)} is folded to the stride of the run beside "
        "it, in the table it is read by residue. So these are not the differences of the columns."
    )


def _same(one: float | None, other: float | None) -> bool:
    return one is None or other is None or abs(one - other) < 5e-4


def base_name(subject: Subject) -> str:
    """The baseline in the middle of a sentence."""
    name = subject.base["name"]
    return "the full cache" if name == "Full cache" else name


def _of(k: int, n: int) -> str:
    return ("it is" if n == 1 else "both" if n == 2 else f"all {n}") if k == n else f"{k} of {n}"
