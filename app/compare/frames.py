"""A comparison as the panels and frames that figures draw.

Pure: the service's answer in, frames out.  No Streamlit, no engine.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from app.compare.subject import Subject, moving
from app.compare.table import SCORE, arm_name, period
from app.figures.compare import Panel
from app.figures.marks import mark
from app.figures.theme import Look
from app.words import NOTHING, joined, number

MOST_CELLS = 144  # rows and columns of a map in a panel
TESTED = ("diff", "low", "high", "p", "p_adjusted", "n", "value", "base_value")
COLUMNS = {
    "residues": ["residue", "value", "low", "high", "n"],
    "folded": ["phase", "value", "low", "high", "n"],
    "spectrum": ["period", "power"],
}


def rows(run: dict, part: str) -> pd.DataFrame:
    """residues, folded or spectrum of a run as numbers; empty where it has none."""
    told = pd.DataFrame(run.get(part) or [])
    if part == "spectrum" and "power" in told:  # as shares of the variance, whatever came
        whole = float(told["power"].sum()) or 1.0
        told["power"] = told["share"] if "share" in told else told["power"] / whole
    told = told.reindex(columns=COLUMNS[part]).replace([np.inf, -np.inf], np.nan)
    return told.astype(float).dropna(subset=COLUMNS[part][:2]).reset_index(drop=True)


def numbers(run: dict) -> list[tuple[str, str]]:
    """The row of numbers over a panel."""
    told = run["numbers"]
    if run.get("kind") == "decode":
        return [("NLL", number(told.get("nll"))), ("recall", number(told.get("recall")))]
    found = told.get("period") if told.get("period_p") is not None else None
    noted = str(found) if found else NOTHING if told.get("period_p") is None else "none"
    held = [(name, number(told.get(name))) for name in ("mean", "worst", "gap")]
    return [*held, ("period", noted)]


def note(run: dict, part: str) -> str:
    """What an empty panel says."""
    if moving(run):
        return "waiting for the worker" if run["status"] == "queued" else "measuring"
    if run.get("kind") == "decode" and part != "timeline":
        return "a decode run has no phases"
    status = run.get("status")
    return f"the run is {status}" if status not in ("done", None) else "nothing measured"


def panels(subject: Subject, part: str, look: Look) -> list[Panel]:
    """A panel of each run that shares the picture, but the baseline, in the order of the page."""
    out = []
    axis = {"residues": "curve", "folded": "residues", "spectrum": "spectrum"}[part]
    for run in [run for run in subject.others if run in subject.on(axis)]:
        frame = rows(run, part)
        stride = int(run["stride"]) if run.get("stride") else None
        size = int(run.get("modulus") or 2)
        if part == "folded":
            size = len(frame) or stride or 2
        out.append(
            Panel(
                run["name"],
                run.get("subtitle") or "",
                subject.mark(run, look),
                numbers(run),
                frame,
                note(run, part),
                stride,
                size,
            )
        )
    return out


def long(subject: Subject, part: str) -> pd.DataFrame:
    """All runs' rows of a picture under their names, for its CSV."""
    held = [
        rows(run, part).assign(run=run["name"], key=run["key"])
        for run in subject.runs
        if run.get(part)
    ]
    return pd.concat(held, ignore_index=True) if held else pd.DataFrame(columns=["run", "key"])


def chance(subject: Subject) -> float | None:
    """The level of a guess where all runs share it."""
    told = {run["numbers"].get("chance") for run in subject.runs} - {None}
    return told.pop() if len(told) == 1 else None


def differences(subject: Subject, names: tuple[str, ...], look: Look) -> pd.DataFrame:
    """Rows of the dot plot for some of the measures; NaN where a run is not paired."""
    runs = {run["key"]: run for run in subject.runs}
    out = []
    for measure in subject.told["measures"]:
        if measure["name"] not in names:
            continue
        for row in measure["rows"]:
            run = runs.get(row["key"])
            if run is None:
                continue
            drawn = subject.mark(run, look)
            held = {name: row.get(name) for name in TESTED}
            if row.get("label") and row.get("arm") == row.get("base_arm") == 0:
                continue  # the full cache less the full cache
            out.append(
                {"measure": measure["label"], "key": row["key"], "name": _named(subject, run, row)}
                | held
                | {"colour": drawn.colour, "symbol": drawn.symbol, "reason": row.get("reason")}
            )
    frame = pd.DataFrame(
        out,
        columns=[
            *("measure", "key", "name", *TESTED),
            *("colour", "symbol", "reason"),
        ],
    )
    frame[[*TESTED]] = frame[[*TESTED]].astype(float)
    return frame


def _named(subject: Subject, run: dict, row: dict) -> str:
    """A run, or the method of a decode run that a difference is of."""
    if not row.get("label"):
        return run["name"]
    return row["label"] if len(subject.others) == 1 else f"{row['label']} ({run['name']})"


def paired(frame: pd.DataFrame) -> pd.DataFrame:
    """Only rows that are paired: of the others a sentence says why."""
    return frame[frame["diff"].notna()].reset_index(drop=True)


def unpaired(subject: Subject, frame: pd.DataFrame) -> list[str]:
    """A sentence for each run that is not paired with the baseline: which, and why."""
    known = frame[frame["diff"].notna()]["measure"].unique()
    if len(known):
        frame = frame[frame["measure"].isin(known)]
    held = frame[frame["diff"].isna() & frame["reason"].fillna("").ne("")]
    told: dict[str, list[str]] = {}
    for row in held.to_dict("records"):
        names = told.setdefault(row["reason"], [])
        if row["name"] not in names:
            names.append(row["name"])
    return [f"Not paired: {joined(n)}. {subject.plain(why)}" for why, n in told.items()]


def sizes(subject: Subject, look: Look) -> pd.DataFrame:
    """key, name, bytes, mean, worst, colour, text, symbol of each run with a size and a quality.

    `bytes`: per token where every run has it, else of the whole cache.  Decode runs: recall.
    """
    each = all(run.get("bytes_per_token") for run in subject.runs if _quality(run) is not None)
    out = []
    for run in subject.runs:
        drawn = subject.mark(run, look)
        for arm in run.get("arms") or ():
            if arm.get("recall") is None or not arm.get("bytes_per_token"):
                continue
            full = arm.get("budget") is None
            shown = mark(None, look) if full else drawn
            out.append(
                {"key": run["key"], "name": f"{arm_name(arm)}, {run['name']}", "worst": None}
                | {"bytes": arm["bytes_per_token"], "mean": arm["recall"], "per_token": True}
                | {"colour": shown.colour, "text": shown.text, "symbol": shown.symbol}
            )
        held = run.get("bytes_per_token") if each else run.get("kv_bytes")
        mean = _quality(run)
        if not held or mean is None:
            continue
        out.append(
            {"key": run["key"], "name": run["name"], "bytes": held, "mean": mean}
            | {"worst": run["numbers"].get("worst"), "per_token": each}
            | {"colour": drawn.colour, "text": drawn.text, "symbol": drawn.symbol}
        )
    columns = ["key", "name", "bytes", "mean", "worst", "per_token", "colour", "text", "symbol"]
    frame = pd.DataFrame(out, columns=columns)
    told = ["bytes", "mean", "worst"]
    frame[told] = frame[told].astype(float)
    return frame


def quality(subject: Subject) -> str:
    """What the mean of these runs is a mean of."""
    if all(run["kind"] == "decode" for run in subject.runs):
        return "recall"
    kinds = {run.get("measure") for run in subject.runs if run["kind"] != "decode"}
    if len(kinds) == 1:
        return {"accuracy": "accuracy", SCORE: SCORE}.get(kinds.pop(), "probability")
    return "quality"


def _quality(run: dict) -> float | None:
    told = run["numbers"]
    return told.get("mean") if told.get("mean") is not None else told.get("recall")


def logprobs(rows: pd.DataFrame) -> dict[int, float]:
    """Position → log-probability of its token."""
    return dict(zip(rows["position"].astype(int), rows["logprob"].astype(float), strict=True))


def coarse(cells: np.ndarray, most: int = MOST_CELLS) -> tuple[np.ndarray, int, int]:
    """cells [m, n] as the largest weight of blocks, at most `most` a side; rows and columns each.

    A weight is never lost by it: a block shows the strongest of its cells.
    """
    down, across = (-(-n // most) for n in cells.shape)
    rows, columns = (-(-n // s) * s for n, s in zip(cells.shape, (down, across), strict=True))
    padded = np.zeros((rows, columns), np.float32)
    padded[: cells.shape[0], : cells.shape[1]] = cells
    blocks = padded.reshape(rows // down, down, columns // across, across)
    return blocks.max(axis=(1, 3)), down, across


def edges(ranges: list[tuple[int, int]], step: int) -> np.ndarray:
    """Borders of the cells on the axis of positions, of every `step`-th range; they always rise."""
    starts = np.array([low for low, _ in ranges[::step]], float)
    last = max((high for _, high in ranges), default=1)
    borders = np.append(starts, max(last, starts[-1] + 1 if len(starts) else 1)) - 0.5
    for i in range(1, len(borders)):  # overlapping windows may begin at one place
        borders[i] = max(borders[i], borders[i - 1] + 0.25)
    return borders


def described(subject: Subject) -> str:
    """`Worst phase .15 to .60, period 8, < .001` …: a picture in words, for those who hear it."""
    told = []
    for run in subject.runs:
        worst = run["numbers"].get("worst")
        told.append(f"{run['name']}: worst {number(worst)}, period {period(run['numbers'])}")
    return "; ".join(told)
