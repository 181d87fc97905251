"""What a run is called where it has no title of its own.

Knows specs as dicts.  Knows no store.
"""

from __future__ import annotations

import re

MARKS = re.compile(r"\{\{/?\w+\}\}")  # what stands in a custom prompt for its slots and its target
WORDS, ANSWER = 28, 12  # characters
CUSTOM = "custom"


def title(values: dict, phrase: str) -> str:
    task = values.get("task", {}).get("kind", "run").replace("_", " ")
    return f"{task}, {phrase}" if phrase else task


def titled(given: str, values: dict, phrase: str) -> str:
    """A run's title in a list: own prompts are told apart by their answer and first words."""
    task = values.get("task") or {}
    if task.get("kind") != CUSTOM or given.casefold() not in ("", CUSTOM):
        return given or title(values, phrase)
    prompts = task.get("prompts") or [task]
    first = prompts[0] if isinstance(prompts[0], dict) else {}
    words = _short(MARKS.sub("", str(first.get("text") or "")), WORDS)
    answer = _short(str(first.get("answer") or ""), ANSWER)
    if not words:
        return given or title(values, phrase)
    return f"Custom, {answer}: {words}" if answer else f"Custom: {words}"


def _short(text: str, most: int) -> str:
    """Whole words where that leaves any."""
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    return f"{text[:most].rpartition(' ')[0] or text[: most - 1]}…"
