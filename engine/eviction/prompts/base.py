"""The list of decode prompts, and the one way from their text to tokens.

Text is tokenised once and places are found by offsets; only what is asked later, behind a
continuation that nobody knows yet, is tokenised apart.  Knows tokenizers; knows no models.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any, ClassVar, Protocol

from engine.eviction.samples import DecodeSample, Question
from engine.registry import FieldError, Registry
from engine.tasks.text import Encoded, encode, refusal

PROMPTS = Registry("task")
ANCHORS = ("so", "done.", "\n")  # ends of a text that a question may stand behind


class Prompts(Protocol):
    """What a registered class offers."""

    stops: ClassVar[bool]  # an end token ends what is written; else texts have `steps` tokens

    def phrase(self) -> str:
        """A few words for lists: "ledger, 512 tokens, 6 facts"."""

    def check(self) -> list[FieldError]:
        """What of the options does not go together."""

    def samples(self, tokenizer: Any, n: int, seed: int) -> list[DecodeSample]:
        """n samples; sample i does not depend on n."""


def span(encoded: Encoded, start: int, stop: int) -> tuple[int, int]:
    """[first, last) of the tokens that hold any of the characters [start, stop)."""
    return bisect_right(encoded.ends, start), bisect_left(encoded.starts, stop)


def behind(tokenizer: Any, before: str, text: str) -> list[int] | None:
    """Ids of `text` as it stands behind `before`; None where the two share a token."""
    first = encode(tokenizer, before, chat=True).ids
    ids = encode(tokenizer, before + text, chat=True).ids
    return ids[len(first) :] if ids[: len(first)] == first and len(ids) > len(first) else None


def apart(tokenizer: Any, text: str) -> tuple[str, list[int]]:
    """Ids of a text that continues some other, and the end of a text that they were read behind.

    A newline behind a full stop is one token in some vocabularies, so several ends are tried.
    """
    for anchor in ANCHORS:
        if (ids := behind(tokenizer, anchor, text)) is not None:
            return anchor, ids
    return "", encode(tokenizer, text, chat=True).ids


def question(tokenizer: Any, ask: str, answer: str, mark: str) -> Question:
    """`ask`, then a space and the answer; the space stands on the side where its token ends.

    Vocabularies with single digits hold the space before a number as a token of its own: it
    belongs to the question there, so that the answer is the number alone.
    """
    for text, gold in ((ask + " ", answer), (ask, " " + answer)):
        anchor, ids = apart(tokenizer, text)
        if (found := behind(tokenizer, anchor + text, gold)) is not None:
            return Question(tuple(ids), tuple(found), mark)
    raise refusal("task", f"the answer {answer!r} shares a token with its question {ask!r}")
