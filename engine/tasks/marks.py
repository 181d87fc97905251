"""Marks in a user's text: pad slots, the target, the question, the model's own turn.

`{{pad}}` once or twice, `{{target}}…{{/target}}` around the fact that is asked, `{{question}}`
where the query begins, `{{reply}}` where the model's own turn begins in a chat.  Places may be
given as character offsets instead; then the text holds no marks.  Knows characters, not tokens.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import NamedTuple

from engine.registry import FieldError

NAMES = ("pad", "target", "/target", "question", "reply")
MARK = re.compile(r"\{\{\s*(pad|target|/target|question|reply)\s*\}\}")
NEARLY = re.compile(r"\{\{\s*(/?\w{1,12})\s*\}\}")


class Places(NamedTuple):
    """A text without its marks, and the offsets where they stood."""

    text: str
    pads: tuple[int, ...]
    target: tuple[int, int]
    question: int | None
    reply: int | None


def read_marks(
    text: str, slots: Sequence[int] = (), target: Sequence[int] = (), question: int = -1
) -> tuple[Places | None, list[FieldError]]:
    """(places, []) or (None, what is missing or wrong: fields text, slots, target, question)."""
    found: dict[str, list[int]] = {
        "pad": [],
        "target": [],
        "/target": [],
        "question": [],
        "reply": [],
    }
    bare, done = "", 0
    for mark in MARK.finditer(text):
        bare += text[done : mark.start()]
        done = mark.end()
        found[mark[1]].append(len(bare))
    bare += text[done:]
    if problem := _empty(text, bare) or ("" if slots or target else _misspelled(bare)):
        return None, [FieldError("text", problem)]
    errors = _merge(found, bare, slots, target, question) or _count(found)
    if errors:
        return None, errors
    span = (found["target"][0], found["/target"][0])
    return Places(
        bare, tuple(found["pad"]), span, _first(found["question"]), _first(found["reply"])
    ), (_order(found, span, bare))


def _first(offsets: list[int]) -> int | None:
    return offsets[0] if offsets else None


def _empty(text: str, bare: str) -> str:
    if bare.strip():
        return ""
    wanted = "the fact between {{target}} and {{/target}}, a {{pad}} in front of it, and a question"
    if not text:
        return f"is empty; write {wanted}"
    if not text.strip():
        return f"holds only white space; write {wanted}"
    return f"holds only marks; write {wanted}"


def _misspelled(bare: str) -> str:
    """What is nearly a mark would stay in the prompt as text, and its place would be missing."""
    for found in NEARLY.finditer(bare):
        word = found[1].lower()
        close = [name for name in NAMES if sorted(name) == sorted(word)]
        close = close or difflib.get_close_matches(word, NAMES, n=1, cutoff=0.7)
        if close:
            return (
                f"holds {found[0]}, which is no mark; did you mean {{{{{close[0]}}}}}? (to keep it "
                "as text, give the places as character offsets)"
            )
    return ""


def _merge(
    found: dict[str, list[int]],
    bare: str,
    slots: Sequence[int],
    target: Sequence[int],
    question: int,
) -> list[FieldError]:
    """Take places given as offsets into `found`; errors where they do not fit the text."""
    given = [
        ("slots", slots, "pad"),
        ("target", target, "target"),
        ("question", (question,), "question"),
    ]
    errors = []
    marked = [name for name, offsets in found.items() if offsets]
    for field, offsets, name in given:
        offsets = [o for o in offsets if not (field == "question" and o == -1)]
        if not offsets:
            continue
        whole = all(isinstance(o, int) and not isinstance(o, bool) for o in offsets)
        if not whole or not all(0 <= o <= len(bare) for o in offsets):
            errors.append(
                FieldError(
                    field, f"must be character offsets from 0 to {len(bare)}, not {_short(offsets)}"
                )
            )
        elif marked:
            errors.append(
                FieldError(
                    field, "is given as offsets, and the text holds marks: use one of the two"
                )
            )
        elif field == "target" and (len(offsets) != 2 or offsets[0] >= offsets[1]):
            errors.append(FieldError(field, "must be two offsets, start before end"))
        elif field == "target":
            found["target"], found["/target"] = [offsets[0]], [offsets[1]]
        else:
            found[name] = sorted(offsets)
    return errors


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 40 else text[:37] + "..."


def _count(found: dict[str, list[int]]) -> list[FieldError]:
    errors = []
    opened, closed = found["target"], found["/target"]
    if not opened and not closed:
        errors.append(
            FieldError(
                "text",
                "has no target; put {{target}} and {{/target}} around the fact that is asked",
            )
        )
    elif len(opened) != 1 or len(closed) != 1:
        errors.append(
            FieldError(
                "text",
                f"needs one {{{{target}}}} and one {{{{/target}}}} behind it; it has {len(opened)} "
                f"and {len(closed)}",
            )
        )
    for name, most in (("pad", 2), ("question", 1), ("reply", 1)):
        if len(found[name]) > most:
            errors.append(
                FieldError(
                    "slots" if name == "pad" else "text",
                    f"has {len(found[name])} {{{{{name}}}}} places; a prompt takes at most {most}",
                )
            )
    return errors


def _order(found: dict[str, list[int]], span: tuple[int, int], bare: str) -> list[FieldError]:
    start, stop = span
    errors = []

    def wrong(text: str) -> None:
        errors.append(FieldError("text", text))

    if start >= stop:
        wrong("the target is empty or ends before it begins; mark the characters of the fact")
    elif not bare[start:stop].strip():
        wrong("the target holds only white space; mark the characters of the fact")
    if found["pad"] and found["pad"][0] > start:
        wrong("the first {{pad}} stands behind the target's start, so padding could not move it")
    if len(found["pad"]) == 2 and found["pad"][1] < stop:
        wrong(
            "the second {{pad}} must stand behind the target, so that the question stays in place"
        )
    for name in ("question", "reply"):
        if found[name] and found[name][0] < stop:
            wrong(f"{{{{{name}}}}} must stand behind the target")
    if found["question"] and found["pad"][1:] and found["pad"][1] > found["question"][0]:
        wrong("the second {{pad}} must stand before {{question}}")
    if found["question"] and found["reply"] and found["reply"][0] < found["question"][0]:
        wrong("{{reply}} must stand behind {{question}}")
    return errors
