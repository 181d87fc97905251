"""The differences as a table: settings, then numbers, the baseline grey at the left.

Pure: the service's answer in, escaped HTML out.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from app.compare.subject import FOREIGN, Subject, moving
from app.figures.marks import swatch
from app.figures.theme import Look
from app.words import NOTHING, cache_size, count, number, p_value, seconds, sentence

MEASURES = {
    "mean": "Mean accuracy",
    "worst": "Worst phase",
    "gap": "Gap",
    "gap_null": "Gap by chance",
    "recall": "Recall",
    "nll": "NLL, nats",
}
SCORE = "score"  # what an imported evaluation's mean is of
# Fields whose values are names of choices, and those names that a reader knows by other words.
CHOSEN = frozenset(("protocol", "gate", "v_gate", "kind", "measure", "rows", "when", "anchor"))
SPOKEN = {
    "onehot": "one-hot",
    "grid_origin": "grid",
    "joint": "joint probability",
    "token": "token probability",
}
MOST_TASKS = 24  # parts of a dataset that stand in the table
MOST_ARMS = 12  # methods of decode runs that stand in the table
PROBABILITY = {"joint": "Mean probability", "token": "Mean probability"}


def table(subject: Subject, look: Look, *, every: bool, progress: dict[str, dict]) -> str:
    """The whole table.  `every`: all fields, not only those that differ.  progress: key → told."""
    runs = subject.runs
    told = [told_status(run, progress.get(run["key"])) for run in runs]
    heads = "".join(
        _head(subject, run, look, words if any(told) else None)
        for run, words in zip(runs, told, strict=True)
    )
    rows = [_settings(row) for row in subject.told["fields"] if every or row["differs"]]
    rows += [_row(label, runs, show, diff) for label, show, diff in measures(runs)]
    rows += arms(runs) if all(run["kind"] == "decode" for run in runs) else []
    rows += tasks(runs) if all(run["kind"] == FOREIGN for run in runs) else []
    return (
        '<div class="ps-compare-wrap"><table class="ps-compare">'
        f"<thead><tr><th></th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _head(subject: Subject, run: dict, look: Look, told: str | None) -> str:
    flags = '<span class="ps-flag">older code</span>' if run.get("stale") else ""
    under = "" if told is None else f"<small>{escape(told)}</small>"
    return (
        f'<th scope="col" title="{escape(run.get("title") or run["phrase"] or run["key"])}">'
        f'<img src="{swatch(subject.mark(run, look))}" alt=""><b>{escape(run["name"])}</b>{flags}'
        f"{under}</th>"
    )


def told_status(run: dict, progress: dict | None) -> str:
    """What stands under a run's name: its progress, or why it has no numbers; mostly nothing."""
    status = run.get("status")
    if status == "queued":
        return "waiting for the worker"
    if status == "running":
        if not progress or not progress.get("total"):
            return "measuring"
        told = f"{progress['done']} of {count(int(progress['total']), 'copy', 'copies')}"
        if progress.get("seconds_left") is not None:
            told += f", {seconds(progress['seconds_left'])} left"
        return told
    return "" if status in ("done", None) else f"the run is {status}"


def _settings(row: dict) -> str:
    chosen = row["field"].rpartition(".")[2] in CHOSEN
    shown = [value(choice(v) if chosen and isinstance(v, str) else v) for v in row["values"]]
    cells = "".join(f"<td><b>{escape(v)}</b><i></i></td>" for v in shown)
    label = sentence(row["label"] or row["field"])
    return f'<tr><th scope="row" title="{escape(row["field"])}">{escape(label)}</th>{cells}</tr>'


def choice(name: str) -> str:
    """The name of a choice as the form and the charts call it."""
    return SPOKEN.get(name) or name.replace("_", " ")


def value(told: Any) -> str:
    """A setting as a reader sees it."""
    if told is None or told == "":
        return NOTHING
    if isinstance(told, bool):
        return "yes" if told else "no"
    if isinstance(told, int):
        return str(told).replace("-", "−")
    if isinstance(told, float):
        shown = number(told, 4) if abs(told) < 1e4 else f"{told:g}"
        return shown.rstrip("0") if "." in shown else shown
    if isinstance(told, list):
        shown = ", ".join(value(v) for v in told[:6])
        return shown + (", …" if len(told) > 6 else "") if told else NOTHING
    if isinstance(told, dict):
        return ", ".join(f"{k} {value(v)}" for k, v in list(told.items())[:4]) or NOTHING
    text = str(told)
    return text if len(text) <= 40 else text[:39] + "…"


def measures(runs: list[dict]) -> list[tuple[str, Callable[[dict], str], str | None]]:
    """(label, text of a run, number whose difference stands beside it) of each row there is."""
    out: list[tuple[str, Callable[[dict], str], str | None]] = []
    if any(run.get("bytes_per_token") for run in runs):
        out.append(("Bytes per token", lambda run: bytes_per_token(run), None))
    if any(run.get("kv_bytes") for run in runs):
        out.append(("Cache", lambda run: cache_size(run.get("kv_bytes")), None))
    kinds = {run.get("measure") for run in runs if run.get("kind") != "decode"}
    for name, label in MEASURES.items():
        if any(run["numbers"].get(name) is not None for run in runs):
            if name == "mean" and len(kinds) > 1 and not kinds <= set(PROBABILITY):
                label = "Mean"
            elif name == "mean" and kinds and kinds <= set(PROBABILITY):
                label = "Mean probability"
            elif name == "mean" and kinds == {SCORE}:
                label = "Mean score"
            diff = None if name == "gap_null" else name
            out.append((label, lambda run, n=name: number(run["numbers"].get(n)), diff))
    if any(run["numbers"].get("period_p") is not None for run in runs):
        out.append(("Period, p", lambda run: period(run["numbers"]), None))
    return out


def arms(runs: list[dict]) -> list[str]:
    """Rows of decode runs: recall and likelihood of each method at its budget."""
    held = [{arm_name(arm): arm for arm in run.get("arms") or ()} for run in runs]
    names = list(dict.fromkeys(name for each in held for name in each))[:MOST_ARMS]
    rows = []
    for noun, measure in (("Recall", "recall"), ("NLL", "nll")):
        for name in names:
            values = [(each.get(name) or {}).get(measure) for each in held]
            if all(v is None for v in values):
                continue
            made = [run | {"numbers": {measure: v}} for run, v in zip(runs, values, strict=True)]
            label = f"{noun}, {name}"
            rows.append(_row(label, made, lambda r, m=measure: number(r["numbers"][m]), measure))
    return rows


def tasks(runs: list[dict]) -> list[str]:
    """Rows of imported evaluations: the score of each part of the dataset."""
    held = [{one["task"]: one["score"] for one in run.get("tasks") or ()} for run in runs]
    names = [name for name in dict.fromkeys(name for each in held for name in each) if name]
    rows = []
    for name in names[:MOST_TASKS]:
        made = [
            run | {"numbers": {"score": own.get(name)}} for run, own in zip(runs, held, strict=True)
        ]
        rows.append(_row(f"Score, {name}", made, lambda r: number(r["numbers"]["score"]), "score"))
    return rows


def arm_name(arm: dict) -> str:
    """`beacon 96`, `full`."""
    return arm["label"] + (f" {arm['budget']}" if arm.get("budget") is not None else "")


def bytes_per_token(run: dict) -> str:
    held = run.get("bytes_per_token")
    if held is None:
        return NOTHING
    return number(held, 0 if held >= 100 else 1) if held < 1e4 else cache_size(held)


def period(numbers: dict) -> str:
    """`8, < .001`; `none, .71`."""
    p = numbers.get("period_p")
    if p is None:
        return NOTHING
    return f"{numbers.get('period') or 'none'}, {p_value(p).removeprefix('p ').removeprefix('= ')}"


def _row(label: str, runs: list[dict], show: Callable[[dict], str], diff: str | None) -> str:
    base, cells = runs[0]["numbers"].get(diff) if diff else None, ""
    for i, run in enumerate(runs):
        own = run["numbers"].get(diff) if diff else None
        beside = ""
        alike = all(run.get(name) == runs[0].get(name) for name in ("kind", "measure"))
        if i and own is not None and base is not None and alike:
            shown = number(own - base)
            beside = shown if shown == "0" or own < base else f"+{shown}"
        told = "…" if moving(run) and show(run) == NOTHING else show(run)
        cells += f"<td><b>{escape(told)}</b><i>{escape(beside)}</i></td>"
    return f'<tr><th scope="row">{escape(label)}</th>{cells}</tr>'
