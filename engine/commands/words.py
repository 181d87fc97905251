"""From words on the command line to a spec: KIND:k=v,k=v, dotted --set, a file of prompts.

Knows spelling.  Checks no option: the spec does.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from engine.paths import read_capped
from engine.registry import FieldError, SpecError, shown


def value(text: str) -> Any:
    """A TOML value where the text is one (8, 0.5, true, [1, 2], "x"), else the text itself."""
    try:
        read = tomllib.loads(f"v = {text.strip()}")
        return read["v"] if len(read) == 1 else text.strip()  # not a second line's key
    except (tomllib.TOMLDecodeError, ValueError, RecursionError):
        return text.strip()


def as_text(spec: dict, typed: dict[str, str]) -> None:
    """Give text options back as text: `layers=8` and `answer=482915` look like numbers.

    `typed`: dotted key → how its value was typed on the command line.
    """
    from engine.registry import MEMORIES, TASKS
    from engine.specs import ModelSpec

    tasks = TASKS
    if spec.get("kind") == "decode":
        from engine.eviction.prompts.base import PROMPTS as tasks

    for path, text in typed.items():
        part, _, name = path.partition(".")
        table = spec.get(part)
        if not isinstance(table, dict) or name not in table:
            continue
        kinds = {"memory": MEMORIES, "task": tasks}.get(part, {})
        cls = ModelSpec if part == "model" else kinds.get(table.get("kind"))
        field = getattr(cls, "__dataclass_fields__", {}).get(name)
        if field and isinstance(field.default, str) and not isinstance(table[name], str):
            table[name] = text.strip()


def choice(text: str, field: str, typed: dict[str, str]) -> dict:
    """`pooled:window=8,stride=4,layers=all but 8,18` → {"kind": "pooled", "window": 8, …}."""
    kind, _, rest = text.partition(":")
    found, name = {"kind": kind.strip()}, None
    for part in _split(rest):
        before, equals, after = part.partition("=")
        if equals and before.strip().isidentifier():
            name = before.strip()
            found[name] = after
        elif name is not None:
            found[name] += f",{part}"  # a comma inside the value, as in layers=8,18
        elif part.strip():
            message = f"{shown(part.strip())} is no option; write {kind}:option=value,option=value"
            raise SpecError(FieldError(field, message))
    typed |= {f"{field}.{n}": v for n, v in found.items() if n != "kind"}
    return {n: v if n == "kind" else value(v) for n, v in found.items()}


def _split(text: str) -> list[str]:
    """At commas outside brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "[{":
            depth += 1
        elif char in "]}":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append("")
            continue
        parts[-1] += char
    return parts if text else []


def put(spec: dict, assignment: str, typed: dict[str, str]) -> None:
    """`memory.stride=8`: set one dotted key in place."""
    path, equals, text = assignment.partition("=")
    names = [name.strip() for name in path.split(".")]
    if not equals or not all(names):
        raise SpecError(
            FieldError("set", f"{shown(assignment)} is no KEY=VALUE, as in memory.stride=8")
        )
    place = spec
    for name in names[:-1]:
        inner = place.get(name)
        if inner is None:
            inner = {}
        elif not isinstance(inner, dict):
            raise SpecError(FieldError(path, f"{name} is a value, not a table"))
        place[name] = dict(inner)
        place = place[name]
    place[names[-1]] = value(text)
    typed[".".join(names)] = text


def prompts(path: Path) -> list[dict]:
    """The prompts of a JSONL file; SpecError names the line that is none."""
    from engine.tasks.custom import MAX_JSONL, read_jsonl

    return list(read_jsonl(_content(path, MAX_JSONL)))


def reasoning(path: Path) -> list[dict]:
    """The same of a decode run's own prompts."""
    from engine.eviction.prompts.reasoning import read_jsonl
    from engine.tasks.custom import MAX_JSONL

    return list(read_jsonl(_content(path, MAX_JSONL)))


def _content(path: Path, most: int) -> bytes:
    try:
        return read_capped(path, most)
    except ValueError as error:
        raise SpecError(FieldError("prompts", str(error))) from None
