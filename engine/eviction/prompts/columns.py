"""Lines of a JSONL of problems and answers: columns by the names that data sets give them.

`prompt` may be called problem, question or input; `answer` may be correct_answer (GPQA), solution,
target or output, and hold a whole solution that ends in "#### 42" (GSM8K) or \\boxed{42} (MATH);
`continuation` may be generation or response.  "Correct Answer" is correct_answer: case does not
count, and a blank is an underscore.  Columns of other names are left out.  Knows text, not tokens.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from typing import Any, NamedTuple

from engine.registry import FieldError, shown
from engine.tasks.custom import HUGE, MAX_JSONL
from engine.tasks.text import refusal

COLUMNS = {
    "prompt": ("prompt", "problem", "question", "input"),
    "answer": (
        *("answer", "correct_answer", "final_answer", "ground_truth_answer"),
        *("solution", "ground_truth_solution", "target", "output"),
    ),
    "continuation": ("continuation", "generation", "response"),
    "marks": ("marks",),
}
LONGEST_ANSWER = 200  # characters; more is a solution, which no model repeats word for word
LONGEST_NAME = 60
MARK = re.compile(r"\{\{\s*(?:mark:\s*([^{}]*?)|(/mark))\s*\}\}")
BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")
Span = tuple[str, int, int]


class Line(NamedTuple):
    """One problem: text without marks, the final answer, spans in characters of `prompt`."""

    prompt: str
    answer: str
    continuation: str
    marks: tuple[Span, ...]


class Problem(ValueError):
    """What is wrong with a line: "answer is missing"."""


def read_jsonl(data: bytes | str) -> tuple[dict, ...]:
    """The `prompts` of a JSONL, one object a line; blank lines are skipped.

    SpecError at task.prompts names the line and the column.
    """
    if len(data) > MAX_JSONL:
        told = f"the file has {len(data) / 1e6:.0f} MB; the cap is {MAX_JSONL / 1e6:.0f} MB"
        raise refusal("task.prompts", told)
    if isinstance(data, bytes):
        try:
            data = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            told = f"line {line}: is not UTF-8; save the file as UTF-8"
            raise refusal("task.prompts", told) from None
    tables = []
    for number, text in enumerate(data.removeprefix("\ufeff").split("\n"), 1):
        if not text.strip():
            continue
        try:
            table = columns(text)
            read(table)
        except Problem as error:
            raise refusal("task.prompts", f"line {number}: {error}") from None
        tables.append(table)
    if not tables:
        raise refusal("task.prompts", "the file holds no prompt; one JSON object a line is read")
    return tuple(tables)


def columns(raw: Any) -> dict:
    """The table of a line, or of its JSON, under our own names and with the final answer alone.

    What is already such a table stays as it is.  Raises Problem.
    """
    raw = _parsed(raw) if isinstance(raw, str) else raw
    if not isinstance(raw, dict):
        raise Problem(f"must be a table with prompt and answer, not {shown(raw)}")
    table, held = {}, _held(raw)
    for name, aliases in COLUMNS.items():
        found = [held[alias] for alias in aliases if alias in held]
        value = raw[found[0]] if found else ([] if name == "marks" else "")
        if name == "answer" and type(value) in (int, float):
            value = _number(found[0], value)
        table[name] = value if name == "marks" else _text(found[0] if found else name, value)
        if name in ("prompt", "answer") and not table[name].strip():
            raise Problem(_missing(name, found, raw))
    _refuse_near_misses(raw)
    table["answer"] = final_answer(table["answer"])
    if not isinstance(table["marks"], list | tuple):
        raise Problem(f"marks must be a list of [name, start, stop], not {shown(table['marks'])}")
    table["marks"] = [list(m) if isinstance(m, list | tuple) else m for m in table["marks"]]
    return table


def read(table: dict) -> Line:
    """The line of a table made by `columns`; raises Problem where its marks make no sense."""
    text, inline = _inline(table["prompt"])
    if not text.strip():
        raise Problem("prompt holds only marks; write the problem between them")
    if inline and table["marks"]:
        raise Problem("marks are given as offsets, and prompt holds {{mark:…}}: use one of the two")
    spans = inline or [_offsets(mark, len(text)) for mark in table["marks"]]
    for name, start, stop in spans:
        if not text[start:stop].strip():
            raise Problem(f"marks: {name!r} is empty or holds only white space")
    names = [name for name, _, _ in spans]
    if double := next((n for n in names if names.count(n) > 1), None):
        raise Problem(f"marks: {double!r} is the name of two spans; give each its own")
    return Line(text, table["answer"], table["continuation"], tuple(spans))


def final_answer(text: str) -> str:
    """What follows "####", what the last \\boxed{…} holds, or the text itself.

    Raises Problem if that is empty or no short answer.
    """
    text = text.strip()
    if "####" in text:
        text = (text.rsplit("####", 1)[1].strip().splitlines() or [""])[0].strip()
    elif found := [*BOXED.finditer(text)]:
        text = _braced(text, found[-1].end()).strip()
    if not text:
        raise Problem("answer is empty behind its #### or within its \\boxed{}")
    if len(text) > LONGEST_ANSWER:
        raise Problem(
            f"answer has {len(text):,} characters and no #### or \\boxed{{}} that tells where the "
            f"final answer is; give the final answer alone, at most {LONGEST_ANSWER} characters"
        )
    return text


def _braced(text: str, start: int) -> str:
    depth = 1
    for i in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if not depth:
            return text[start:i]
    raise Problem("answer holds a \\boxed{ that is never closed")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except Problem:
        raise
    except json.JSONDecodeError as error:
        raise Problem(f"is no JSON object: {error.msg}") from None
    except RecursionError:
        raise Problem("is no JSON object: nested too deeply") from None
    except ValueError:  # Python reads no integer of more than some thousand digits
        raise Problem("holds a whole number of thousands of digits") from None


def _no_constant(name: str) -> None:
    raise Problem(f"is no JSON object: {name} is no JSON; leave the value out, or write null")


def _plain(name: Any) -> str:
    """ "Correct Answer" as correct_answer."""
    return "_".join(str(name).lower().split())


def _held(raw: dict) -> dict[str, str]:
    """Plain name → the line's own, of columns that hold something; our own spelling comes first."""
    names = sorted((n for n in raw if raw[n] is not None), key=lambda name: _plain(name) == name)
    return {_plain(name): name for name in names}


def _number(column: str, value: float) -> str:
    if not math.isfinite(value):
        raise Problem(f"{column} is {value}, which is no answer; leave the line out")
    return str(value)


def _text(column: str, value: Any) -> str:
    if not isinstance(value, str):
        raise Problem(f"{column} must be text, not {type(value).__name__}")
    if len(value) > HUGE:
        raise Problem(f"{column} has {len(value):,} characters; at most {HUGE:,} are read")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        told = f"is no valid Unicode at character {error.start}: half a surrogate pair"
        raise Problem(f"{column} {told}") from None
    return value


def _missing(name: str, found: list[str], raw: dict) -> str:
    if found:
        return f"{found[0]} is empty"
    *firsts, last = COLUMNS[name]
    held = ", ".join(shown(str(key)) for key in list(raw)[:8]) or "nothing"
    close = [c for key in raw if (c := _close(key, COLUMNS[name]))]
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{name} is missing (or {', '.join(firsts[1:])} or {last}); the line holds {held}{hint}"


def _refuse_near_misses(raw: dict) -> None:
    """A mistyped optional column would be left out without a word."""
    for key in raw:
        for name in ("continuation", "marks"):
            if _plain(key) not in COLUMNS[name] and (close := _close(key, (name,))):
                raise Problem(f"{shown(str(key))} is no column here; did you mean {close!r}?")


def _close(key: Any, names: tuple[str, ...]) -> str:
    found = difflib.get_close_matches(_plain(key)[:LONGEST_NAME], names, n=1, cutoff=0.85)
    return next(iter(found), "")


def _inline(text: str) -> tuple[str, list[Span]]:
    """The text without {{mark:name}} and {{/mark}}, and the spans that they bound."""
    bare, done, spans = "", 0, []
    opened: list[tuple[str, int]] = []
    for found in MARK.finditer(text):
        bare += text[done : found.start()]
        done = found.end()
        if found[2] is None:
            opened.append((_name(found[1]), len(bare)))
        elif opened:
            name, start = opened.pop()
            spans.append((name, start, len(bare)))
        else:
            raise Problem("prompt holds a {{/mark}} without a {{mark:name}} before it")
    if opened:
        raise Problem(
            f"prompt holds {{{{mark:{opened[-1][0]}}}}} without a {{{{/mark}}}} behind it"
        )
    return bare + text[done:], sorted(spans, key=lambda span: (span[1], -span[2]))


def _offsets(mark: Any, length: int) -> Span:
    fits = isinstance(mark, list) and len(mark) == 3 and isinstance(mark[0], str)
    if not fits or not all(type(offset) is int for offset in mark[1:]):
        raise Problem(f"marks: {shown(mark)} is no [name, start, stop]")
    name, start, stop = _name(mark[0]), mark[1], mark[2]
    if not 0 <= start < stop <= length:
        told = f"must run from start to stop within 0 to {length}, not {shown(mark[1:])}"
        raise Problem(f"marks: {name!r} {told}")
    return name, start, stop


def _name(name: str) -> str:
    if not name.strip() or len(name) > LONGEST_NAME:
        told = f"a mark's name has 1 to {LONGEST_NAME} characters, not {shown(name)}"
        raise Problem(f"marks: {told}")
    return _text("marks", name.strip())


def problem_of(raw: Any) -> FieldError | None:
    """What is wrong with one of a spec's prompts."""
    try:
        read(columns(raw))
    except Problem as error:
        return FieldError("prompts", str(error))
    return None
