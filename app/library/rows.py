"""The library's runs as a frame: filtered, searched, sorted.  Pure: no Streamlit, no service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pandas as pd

from app.words import sentence

LOSES = 0.5  # a worst phase below it is called lost
SORTS = {
    "Recent": ("created", False),
    "Largest gap": ("gap", False),
    "Worst phase": ("worst", True),
    "Mean": ("mean", False),
    "Period": ("period", True),
    "Stride": ("stride", True),
    "Most rows": ("rows", False),
    "Most views": ("views", False),
    "Name": ("name", True),
}
KINDS: dict[str, Callable[[dict], bool]] = {
    "Custom": lambda run: run["task"] == "custom",
    "Retrieval": lambda run: run["task"] in ("records", "access_code"),
    "Controlled": lambda run: run["task"] == "pairs",
    "Eviction": lambda run: run["kind"] == "decode",
    "kvpress": lambda run: run["kind"] == "kvpress",
}
OF_A_RUN = ("model", "memory", "task", "status")  # filters; a view fits by the runs that it shows
SINCE = {"any time": None, "today": 1, "7 days": 7, "30 days": 30}
WHO = {"own": "you", "import": "imported", "preset": "shipped"}
COLUMNS = (
    "key", "name", "model", "memory", "task", "kind", "curve", "control", "losses", "stride",
    "mean", "worst", "gap", "period", "created", "who", "tags", "status", "stale", "note", "rows",
    "views", "finding",
)  # fmt: skip


def frame(runs: Sequence[dict]) -> pd.DataFrame:
    """One row a run, columns COLUMNS; numbers are NaN where a run has none."""
    found = [
        {
            "key": run["key"],
            "name": run["title"],
            "model": run["model"],
            "memory": run["phrase"],
            "task": str(run["task"]).replace("_", " "),
            "kind": run.get("kind", "sweep"),
            "curve": run.get("curve") or [],
            "control": run.get("control_curve") or [],
            "losses": run.get("losses") or [],
            "stride": run.get("stride"),
            **{name: run.get(name) for name in ("mean", "period")},
            "worst": folded(run, "worst_folded", "worst"),
            "gap": folded(run, "folded_gap", "gap"),
            "created": run["created"],
            "who": WHO.get(run.get("source", ""), run.get("source", "")),
            "tags": list(run.get("tags") or []),
            "status": run["status"],
            "stale": bool(run.get("stale")),
            "note": run.get("note") or "",
            "rows": run.get("rows") or 0,
            "views": run.get("views") or 0,
            "finding": run.get("finding") or "",
        }
        for run in runs
    ]
    made = pd.DataFrame(found, columns=COLUMNS)
    for name in ("stride", "mean", "worst", "gap", "period", "rows", "views"):
        made[name] = pd.to_numeric(made[name], errors="coerce")
    return made


def folded(run: dict, name: str, by_residue: str) -> float | None:
    """By phase where the run has a stride that folds, as on its own page; else by residue."""
    return run.get(by_residue) if run.get(name) is None else run[name]


def of_kind(runs: Sequence[dict], kinds: Sequence[str]) -> list[dict]:
    """Runs of any of the kinds; all of them where none is named."""
    tests = [KINDS[kind] for kind in kinds if kind in KINDS]
    return [run for run in runs if not tests or any(test(run) for test in tests)]


def search(rows: pd.DataFrame, words: str) -> pd.DataFrame:
    """Rows in which every word occurs: in name, model, memory, task, tags, note or key."""
    wanted = words.casefold().split()
    if not wanted or rows.empty:
        return rows
    tags = rows["tags"].map(" ".join)
    text = rows[["name", "model", "memory", "task", "note", "key"]].agg(" ".join, axis=1)
    text = (text + " " + tags).str.casefold()
    keep = pd.Series(True, index=rows.index)
    for word in wanted:
        keep &= text.str.contains(word, regex=False)
    return rows[keep]


def narrowed(rows: pd.DataFrame, wanted: dict) -> pd.DataFrame:
    """Rows of that model, kind of memory, task, status and tag, and of these days."""
    rows = of_any_time(rows, wanted)
    if wanted["tag"]:
        rows = rows[rows["tags"].map(lambda tags: wanted["tag"] in tags)]
    return rows[rows["created"].map(lambda moment: between(moment, wanted)).astype(bool)]


def of_any_time(rows: pd.DataFrame, wanted: dict) -> pd.DataFrame:
    """Rows of that model, kind of memory, task and status."""
    for name in OF_A_RUN:
        if wanted[name]:
            told = rows[name].map(memory_kind) if name == "memory" else rows[name]
            rows = rows[told == wanted[name]]
    return rows


def between(moment: str, wanted: dict, now: datetime | None = None) -> bool:
    """Whether a moment lies within `since` and from the day `after` to the day `before`, in UTC."""
    when = datetime.fromisoformat(moment).astimezone(UTC)
    if (days := SINCE.get(wanted["since"])) and when < (now or datetime.now(UTC)) - timedelta(days):
        return False
    after, before = wanted["after"], wanted["before"]
    return not (after and when.date() < after) and not (before and when.date() > before)


def memory_kind(phrase: str) -> str:
    """The first word of a memory's phrase: `pooled`, `full`, `rkv`."""
    return phrase.split()[0].strip(",") if phrase else ""


def ordered(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    """Sorted; rows without the number stand last."""
    column, rising = SORTS.get(by, SORTS["Recent"])
    key = (lambda values: values.str.casefold()) if column == "name" else None
    return rows.sort_values(column, ascending=rising, na_position="last", kind="stable", key=key)


def finding(rows: pd.DataFrame) -> tuple[str, str]:
    """How many runs lose a phase, and what is to be doubted about that."""
    judged = rows[(rows["status"] == "done") & rows["worst"].notna()]
    if rows.empty:
        return "No run here yet", "Open a preset and press Run, or import a bundle."
    lost = int((judged["worst"] < LOSES).sum())
    noun, verb = "run" if len(judged) == 1 else "runs", "loses" if lost == 1 else "lose"
    line = f"{lost} of {len(judged)} measured {noun} {verb} a phase"
    line = line if lost else "No run loses a phase"
    told = [
        "Its worst phase falls below .50." if lost == 1 else "Their worst phase falls below .50."
    ]
    told = told if lost else [f"No worst phase of {len(judged)} measured runs falls below .50."]
    broken = int((rows["status"] == "incomplete").sum())
    if broken:
        verb = "is incomplete and says" if broken == 1 else "are incomplete and say"
        told.append(f"{sentence(_number(broken))} {verb} so wherever they appear.")
    stale = int(rows["stale"].sum())
    if stale:
        noun = "was" if stale == 1 else "were"
        told.append(f"{sentence(_number(stale))} {noun} made by another version of the code.")
    return line, " ".join(told)


def _number(n: int) -> str:
    words = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    return words[n] if n < len(words) else str(n)
