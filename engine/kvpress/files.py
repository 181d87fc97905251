"""A kvpress results folder as a run: config.yaml, metrics.json and predictions.csv, all doubted.

YAML is read as plain values: nothing in it is ever built or run.  Knows the three files; keeps
nothing.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import yaml

from engine.kvpress.scores import overall, scores
from engine.kvpress.spec import NO_PRESS, SHAPE, KVPressSpec
from engine.registry import FieldError, SpecError, shown
from engine.store.predictions import MOST, PREDICTIONS

CONFIG, METRICS, CSV = "config.yaml", "metrics.json", "predictions.csv"
FILES = (CONFIG, METRICS, CSV)
MAX_CONFIG, MAX_METRICS = 256 << 10, 4 << 20  # bytes
DEPTH = 8
# kvpress's own defaults, for configurations of versions that did not write a key.
DEFAULTS = {"fraction": 1.0, "query_aware": False, "seed": 42, "fp8": False, "data_dir": ""}
MADE = ("press_init_command", "model_kwargs", "device")  # told with a run, no part of its key


class Evaluation(NamedTuple):
    """rows: columns of PREDICTIONS; about: what is told with the run."""

    spec: KVPressSpec
    rows: pa.Table
    about: dict[str, Any]


def refuse(file: str, message: str) -> SpecError:
    return SpecError(FieldError(file, f"{message}; nothing was imported"))


def read_folder(texts: dict[str, str]) -> Evaluation:
    """The three files' texts by name → a run; SpecError naming the file that is wrong."""
    for name in FILES:
        if not isinstance(texts.get(name), str):
            told = f"is missing; kvpress writes {', '.join(FILES)} into one folder"
            raise refuse(name, told)
    config, metrics = read_config(texts[CONFIG]), read_metrics(texts[METRICS])
    frame = read_predictions(texts[CSV])
    digest = hashlib.sha256(texts[METRICS].encode() + b"\0" + texts[CSV].encode()).hexdigest()
    spec = _spec(config, digest[:16])
    dataset = spec.to_dict()["task"]["kind"]
    records = frame.to_dict("records")
    found, why = scores(dataset, records, metrics)
    name, mean = overall(dataset, metrics)
    about = {n: config[n] for n in MADE if config.get(n) not in (None, {}, "")}
    about |= {"metrics": metrics, "metric": name, "unscored": why, "overall": mean}
    return Evaluation(spec, _rows(frame, found, config), about)


# ---- config.yaml


def read_config(text: str) -> dict[str, Any]:
    """The configuration as plain values."""
    if len(text) > MAX_CONFIG:
        raise refuse(CONFIG, f"is larger than {MAX_CONFIG >> 10} kB")
    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):  # a few of them can stand for gigabytes
                raise refuse(CONFIG, f"uses an alias in line {event.start_mark.line + 1}")
            # Each bracket costs as much again as all that are open: thousands cost minutes.
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > 2 * DEPTH:
                raise refuse(CONFIG, f"is nested more than {DEPTH} deep")
        found = yaml.safe_load(text)
    except SpecError:
        raise
    except yaml.constructor.ConstructorError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        told = f"holds an object of Python in line {line}, which is not built; plain values are"
        raise refuse(CONFIG, f"{told} read") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        raise refuse(CONFIG, f"is no YAML{where}") from None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise refuse(CONFIG, "is no table of options")
    for name in ("dataset", "model", "press_name"):
        if not isinstance(found.get(name), str):
            raise refuse(CONFIG, f"has no {name}; is it kvpress's?")
    _plain(CONFIG, found)
    return found


def _plain(file: str, value: Any, depth: int = 0) -> None:
    """Refuse what JSON could not hold: dates, endless numbers, half characters, depths."""
    if depth > DEPTH:
        raise refuse(file, f"is nested more than {DEPTH} deep")
    if isinstance(value, dict | list):
        names = list(value) if isinstance(value, dict) else []
        for item in [*names, *(value.values() if isinstance(value, dict) else value)]:
            _plain(file, item, depth + 1)
        return
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError):
        raise refuse(file, f"holds {shown(value)}, which is no plain value") from None


def _spec(config: dict, results: str) -> KVPressSpec:
    known = DEFAULTS | {name: value for name, value in config.items() if value is not None}
    known["query_aware"] = known.get("compress_questions", known["query_aware"])  # its older name
    if known["press_name"] == NO_PRESS:
        known["compression_ratio"] = 0.0
    values: dict[str, Any] = {"kind": KVPressSpec.kind, "model": {"id": known["model"]}}
    names = {"kind": "dataset", "name": "press_name"}
    for table in ("task", "press"):
        values[table] = {f: known.get(names.get(f, f)) for f in SHAPE[table]}
    values["task"]["data_dir"] = str(values["task"]["data_dir"])
    for table, name in (("task", "fraction"), ("press", "compression_ratio")):
        if type(values[table][name]) is int:
            values[table][name] = float(values[table][name])
    values |= {"seed": known["seed"], "fp8": known["fp8"], "results": results}
    try:
        return KVPressSpec.from_dict(values)
    except SpecError as error:
        names = {f"{t}.{f}": names.get(f, f) for t in ("task", "press") for f in SHAPE[t]}
        names["model.id"] = "model"
        told = "; ".join(f"{names.get(e.field, e.field)} {e.message}" for e in error.errors)
        raise refuse(CONFIG, told) from None


# ---- metrics.json


def read_metrics(text: str) -> Any:
    """The metrics; NaN, which kvpress writes for an empty part, as None."""
    if len(text) > MAX_METRICS:
        raise refuse(METRICS, f"is larger than {MAX_METRICS >> 20} MB")
    try:
        found = json.loads(text, parse_constant=lambda name: None)
    except (ValueError, RecursionError):
        raise refuse(METRICS, "is no JSON") from None
    if not isinstance(found, dict | list | int | float) or isinstance(found, bool):
        raise refuse(METRICS, f"holds {shown(found)}, which is no metric")
    _plain(METRICS, found)
    return found


# ---- predictions.csv


def read_predictions(text: str) -> pd.DataFrame:
    """All cells as text, as they stand."""
    try:
        header = next(csv.reader(io.StringIO(text)), [])
        if len(set(header)) != len(header):
            raise refuse(CSV, "has a column twice")
        frame = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    except SpecError:
        raise
    except Exception as error:
        # A reader of CSV breaks in several ways on what is none; all of them mean the same.
        told = str(error).strip().split("\n")[-1][:200]
        raise refuse(CSV, f"is no CSV that can be read ({told})") from None
    if "predicted_answer" not in frame:
        raise refuse(CSV, "has no column predicted_answer; is it kvpress's?")
    if not 0 < len(frame) <= MOST:
        raise refuse(CSV, f"must have 1 to {MOST:,} rows, not {len(frame):,}")
    return frame.fillna("")


def _rows(frame: pd.DataFrame, found: list[float] | None, config: dict) -> pa.Table:
    blank = [""] * len(frame)
    gold = next((name for name in ("answer", "answers", "needle") if name in frame), None)
    columns = {
        "row": range(len(frame)),
        "task": frame.get("task", blank),
        "question": frame.get("question", blank),
        "answer": frame[gold] if gold else blank,
        "predicted": frame["predicted_answer"],
        "score": found or [None] * len(frame),
        "removed": [_share(v) for v in frame.get("compression_ratio", blank)],
    }
    arrays = [pa.array(list(columns[f.name]), f.type) for f in PREDICTIONS]
    return pa.Table.from_arrays(arrays, schema=PREDICTIONS)


def _share(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value <= 1 else None
