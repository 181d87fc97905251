"""What is shown of an imported evaluation: its mean score, its tasks, and what can be doubted.

Knows stored predictions and the metrics told with them.  Knows nothing of files or HTTP.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from engine.analysis.words import number
from engine.store import Run, Store

# Its keys are a sweep's where both have them, so that lists read either.
NOTHING: dict[str, Any] = {
    **dict.fromkeys(("finding", "doubt", "mean", "mean_low", "mean_high", "worst", "gap")),
    **dict.fromkeys(("measure", "metric", "metrics", "worst_task")),
    "tasks": [], "warnings": [], "n_samples": 0, "period": {"detected": None},
}  # fmt: skip
RESAMPLED = 1000  # rows up to which the mean's interval is a bootstrap's
FEW = 20  # rows below which a task's mean is hardly known


def compute(store: Store, run: Run, spec: Any) -> dict:
    """The `show` object's numbers."""
    frame = store.predictions(run.id).to_pandas()
    if frame.empty:
        return NOTHING
    values, made = spec.to_dict(), run.provenance
    scored = bool(frame["score"].notna().all())
    tasks = _tasks(frame, values["seed"]) if scored else []
    known = [task["score"] for task in tasks]
    mean = float(frame["score"].mean()) if scored else made.get("overall")
    low, high = _interval(frame["score"].to_numpy(), values["seed"]) if scored else (None, None)
    least = tasks[int(np.argmin(known))]["task"] if len(tasks) > 1 else None
    numbers = {
        "mean": mean,
        "mean_low": low,
        "mean_high": high,
        "measure": "score",
        "metric": "score by row" if scored else made.get("metric"),
        "metrics": made.get("metrics"),
        "tasks": tasks,
        "worst_task": least,
        "n_samples": len(frame),
        "warnings": _warnings(values, made, tasks),
    }
    return NOTHING | numbers | _words(values, spec.phrase(), numbers)


def _tasks(frame: pd.DataFrame, seed: int) -> list[dict]:
    found = []
    for task, own in frame.groupby("task", sort=True):
        low, high = _interval(own["score"].to_numpy(), seed)
        score = float(own["score"].mean())
        found.append({"task": task, "n": len(own), "score": score, "low": low, "high": high})
    return found


def _interval(scores: np.ndarray, seed: int) -> tuple[float | None, float | None]:
    """95 % of the mean: rows resampled, or by Student's t where there are very many."""
    from engine.analysis.intervals import percentile, reach, resample, resampled_means

    if len(scores) < 2:
        return None, None
    if len(scores) > RESAMPLED:
        half = reach(len(scores)) * scores.std() / np.sqrt(len(scores))
        return max(0.0, float(scores.mean() - half)), min(1.0, float(scores.mean() + half))
    draws = resampled_means(scores[:, None], resample(len(scores), seed))
    ends = percentile(draws, len(scores))
    return float(ends.low[0]), float(ends.high[0])


def _words(values: dict, phrase: str, numbers: dict) -> dict[str, str | None]:
    task = values["task"]
    place = f"{task['kind']} {task['data_dir']}".strip()
    count = f"{numbers['n_samples']:,} questions"
    if numbers["mean"] is None:
        return {"finding": f"{phrase}: {count} of {place}, without a mean score.", "doubt": None}
    low, high = numbers["mean_low"], numbers["mean_high"]
    span = f" [{number(low)}, {number(high)}]" if low is not None else ""
    finding = f"{phrase} scores {number(numbers['mean'])}{span} on {count} of {place}."
    least = next((t for t in numbers["tasks"] if t["task"] == numbers["worst_task"]), None)
    doubt = "Computed by kvpress elsewhere: no phases were swept, so a hole at one phase is hidden."
    if least:
        doubt = f"Least on {least['task']}: {number(least['score'])}. {doubt}"
    return {"finding": finding, "doubt": doubt}


def _warnings(values: dict, made: dict, tasks: list[dict]) -> list[str]:
    told = []
    if made.get("unscored"):
        told.append(f"Rows have no scores: {made['unscored']}.")
    if values["task"]["fraction"] < 1:
        told.append(f"Only {100 * values['task']['fraction']:g} % of the dataset was evaluated.")
    few = [task["task"] for task in tasks if task["n"] < FEW]
    if few:
        told.append(f"Fewer than {FEW} rows: {', '.join(few[:5])}{' …' if len(few) > 5 else ''}.")
    return told
