"""One prediction's score, 0 to 1, by its dataset's rule, where the rule needs no other library.

A rule is kept only where the scores it gives add up to the metrics that kvpress wrote: versions of
kvpress differ, and a score that does not add up is none.  Knows rows as text; knows no file.
"""

from __future__ import annotations

import ast
import math
import re
import string
from collections import Counter
from collections.abc import Callable
from typing import Any

Rows = list[dict[str, str]]
QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
CONTROLS = re.compile(r"[\x00-\x1f]")
ARTICLES = re.compile(r"\b(a|an|the)\b")
F1_TASKS = {
    *("narrativeqa", "qasper", "multifieldqa_en", "hotpotqa", "2wikimqa", "musique", "triviaqa"),
}
LEAST_DIGITS = 5e-3  # of a metric that is rounded to two digits, on its own scale


def texts(cell: str) -> list[str]:
    """The gold answers in a cell: a list as Python or numpy prints it, or the text itself."""
    body = cell.strip()
    if not (body.startswith("[") and body.endswith("]")):
        return [cell]
    found = []
    for quoted in QUOTED.findall(body):
        try:
            found.append(str(ast.literal_eval(quoted)))
        except (ValueError, SyntaxError):
            return [cell]
    return found or [cell]


# ---- rules: a row → its score, or None where the rule has nothing to say of it


def ruler(row: dict) -> float:
    """Gold strings that stand in the answer, letters' case apart: the share, or any in QA."""
    given = CONTROLS.sub("", row["predicted_answer"].strip()).strip().lower()
    hits = [gold.lower() in given for gold in texts(row["answer"])]
    return float(any(hits)) if row["task"].split("_")[0] == "qa" else sum(hits) / len(hits)


def longbench(row: dict) -> float | None:
    task, given = row["task"].removesuffix("_e").removesuffix("-e"), row["predicted_answer"]
    if task == "triviaqa":
        given = (given.lstrip().split("\n") or [""])[0]
    rule = _retrieved if task == "passage_retrieval_en" else None
    rule = _counted if task == "passage_count" else _f1 if task in F1_TASKS else rule
    return rule and max((rule(given, gold) for gold in texts(row["answers"])), default=0.0)


def _f1(given: str, gold: str) -> float:
    """Words in common, as the harmonic mean of precision and recall."""
    mine, theirs = _words(given), _words(gold)
    common = sum((Counter(mine) & Counter(theirs)).values())
    return 2 * common / (len(mine) + len(theirs)) if common else 0.0


def _words(text: str) -> list[str]:
    kept = "".join(c for c in text.lower() if c not in string.punctuation)
    return ARTICLES.sub(" ", kept).split()


def _counted(given: str, gold: str) -> float:
    numbers = re.findall(r"\d+", given)
    return numbers.count(gold.strip()) / len(numbers) if numbers else 0.0


def _retrieved(given: str, gold: str) -> float:
    wanted = re.search(r"Paragraph (\d+)", gold)
    return _counted(given, wanted[1]) if wanted else 0.0


def longbench_v2(row: dict) -> float:
    given, letter = row["predicted_answer"].replace("*", "").strip(), row["answer"]
    said = (f"The correct answer is ({letter})", f"The correct answer is {letter}")
    return float(given in said)


def infinitebench(row: dict) -> float | None:
    task, given, gold = row["task"], row["predicted_answer"], texts(row["answer"])
    if task.startswith("kv_retrieval"):
        return float(gold[0] in re.sub(r"[\n:\"'.,?!{}]", " ", given).split())
    if task in ("passkey", "number_string"):
        first = re.search(r"[0-9]+", given)
        return float(bool(first) and first[0] == gold[0])
    if task == "longdialogue_qa_eng":
        return float(any(name.upper() in given.strip().upper() for name in gold))
    return max(_f1(given, one) for one in gold) if task == "longbook_qa_eng" else None


def boxed_first(row: dict) -> float:
    """Up to the first closing brace behind the first box, as older versions read it."""
    _, mark, rest = row["predicted_answer"].partition("boxed{")
    return float(bool(mark) and rest.split("}")[0] == row["answer"])


def boxed_whole(row: dict) -> float:
    return float(_boxed(row["predicted_answer"], str.find) == row["answer"])


def boxed_last(row: dict) -> float:
    return float(_boxed(row["predicted_answer"], str.rfind) == row["answer"])


def _boxed(text: str, find: Callable) -> str | None:
    """What stands between a box's own pair of braces."""
    at, depth = find(text, "boxed{"), 1
    for i in range(at + 6, len(text) if at >= 0 else 0):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if not depth:
            return text[at + 6 : i]
    return None


RULES: dict[str, tuple[Callable, ...]] = {
    "ruler": (ruler,),
    "longbench": (longbench,),
    "longbench-e": (longbench,),
    "longbench-v2": (longbench_v2,),
    "infinitebench": (infinitebench,),
    "aime25": (boxed_last, boxed_first, boxed_whole),
    "math500": (boxed_first, boxed_whole, boxed_last),
}
NEEDS = {"longbench": ("task", "answers"), "longbench-e": ("task", "answers", "length")}
NEEDS |= {"ruler": ("task", "answer"), "infinitebench": ("task", "answer")}


# ---- a dataset's scores, and what kvpress says they add up to


def scores(dataset: str, rows: Rows, metrics: Any) -> tuple[list[float] | None, str]:
    """A score for each row, or None and why there is none."""
    if dataset not in RULES:
        return None, f"the metric of {dataset} is not computed row by row here"
    needs = NEEDS.get(dataset, ("answer",))
    if missing := [name for name in needs if rows and name not in rows[0]]:
        return None, f"predictions.csv has no column {missing[0]}, so no row can be scored"
    for rule in RULES[dataset]:
        found = [rule(row) for row in rows]
        if any(score is None for score in found):
            task = next(row["task"] for row, s in zip(rows, found, strict=True) if s is None)
            return None, f"the metric of {dataset}, {task[:60]}, is not computed row by row here"
        if _add_up(dataset, rows, found, metrics):
            return found, ""
    return None, "scores computed row by row do not add up to metrics.json, so none are kept"


def _add_up(dataset: str, rows: Rows, found: list[float], metrics: Any) -> bool:
    if dataset == "ruler":
        told = {t: m.get("string_match") for t, m in metrics.items() if isinstance(m, dict)}
        return _near(_means(found, [row["task"] for row in rows]), told)
    if dataset == "longbench-e":
        lengths = [float(row["length"] or "nan") for row in rows]
        groups = ["0-4k" if n < 4000 else "4-8k" if n < 8000 else "8k+" for n in lengths]
        told = {name: value for name, value in metrics.items() if value is not None}
        return _near(_means(found, groups), told)
    mean = sum(found) / len(found) if found else math.nan
    if isinstance(metrics, dict):  # aime25, math500
        return metrics.get("correct") == sum(found) and metrics.get("total") == len(found)
    scale = 100 if dataset == "longbench" else 1
    return _near({"": scale * mean}, {"": metrics})


def _means(found: list[float], groups: list[str]) -> dict[str, float]:
    """Group → mean in per cent."""
    held: dict[str, list[float]] = {}
    for score, group in zip(found, groups, strict=True):
        held.setdefault(group, []).append(score)
    return {group: 100 * sum(own) / len(own) for group, own in held.items()}


def _near(own: dict[str, float], told: dict[str, Any]) -> bool:
    return set(own) == set(told) and all(
        isinstance(told[name], int | float) and abs(own[name] - told[name]) <= LEAST_DIGITS + 1e-9
        for name in own
    )


def overall(dataset: str, metrics: Any) -> tuple[str, float | None]:
    """The metrics' one number, 0 to 1, and what it is called; None where there is no one number."""
    number = isinstance(metrics, int | float) and not isinstance(metrics, bool)
    if dataset == "ruler" and isinstance(metrics, dict):
        own = [m.get("string_match") for m in metrics.values() if isinstance(m, dict)]
        own = [value for value in own if isinstance(value, int | float)]
        return "string match, mean over tasks", sum(own) / len(own) / 100 if own else None
    if dataset == "longbench" and number:
        return "LongBench score", metrics / 100
    if dataset in ("longbench-v2", "infinitebench") and number:
        return "accuracy" if dataset == "longbench-v2" else "InfiniteBench score", float(metrics)
    if dataset in ("aime25", "math500") and isinstance(metrics, dict):
        value = metrics.get("accuracy")
        return "accuracy", float(value) if isinstance(value, int | float) else None
    if dataset == "needle_in_haystack" and isinstance(metrics, dict):
        value = metrics.get("rouge1")
        return "ROUGE-1", value / 10 if isinstance(value, int | float) else None
    return "", None
