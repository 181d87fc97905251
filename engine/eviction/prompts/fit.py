"""A text of exactly so many tokens: sentences of working out between what must be said.

Whole sentences first, a last one that is chosen by its length, then a filler of one token.  The
count is always that of the whole text.  Knows tokenizers and pieces; knows no story.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from engine.eviction.prompts.base import span
from engine.eviction.prompts.story import Piece
from engine.eviction.prompts.working import sentences
from engine.tasks.filler import CANDIDATES
from engine.tasks.text import encode, refusal

FILLERS = (" .", " so", *CANDIDATES)
LEAD = "so."  # what a sentence stands behind when it is counted alone
PARAGRAPH = 6  # sentences
TRIES = 400  # candidates for the last sentence
RECENT = 20  # sentences that the last one may not say again
REACH = 0.75  # share of the working out that has what is scattered among it
Span = tuple[str, int, int]


class TooShort(Exception):
    """The least number of tokens that would hold everything."""

    def __init__(self, least: int):
        super().__init__(least)
        self.least = least


class Fitted(NamedTuple):
    text: str
    tokens: tuple[int, ...]
    marks: tuple[Span, ...]


class Draft:
    """What must be said, and the working out around it.  `before`: a text that it continues."""

    def __init__(
        self,
        tokenizer: Any,
        opening: tuple[Piece, ...],
        scattered: tuple[Piece, ...],
        rng: random.Random,
        before: str = "",
    ):
        self.tokenizer, self.opening, self.scattered, self.before = (
            tokenizer,
            opening,
            scattered,
            before,
        )
        self.rng = rng
        self.lead = len(encode(tokenizer, LEAD, chat=True).ids)
        self.first = self._ids(before) if before else []

    def fit(self, length: int) -> Fitted:
        """The text with exactly `length` tokens of its own; TooShort where that cannot be."""
        working = self._working(length)
        m = len(working)
        while m > 1 and self._count(self._pieces(working[:m])) > length:
            m -= 1
        working = working[:m]
        counted = self._count(self._pieces(working))
        if counted > length:
            raise TooShort(counted)
        for kept in range(m, max(m - 3, 0), -1):
            found = self._closed(working[:kept], length)
            if found is not None:
                return self._fitted(found)
        for filler in dict.fromkeys(FILLERS):
            pieces = self._pieces(working, filler * (length - counted))
            if self._count(pieces) == length:
                return self._fitted(pieces)
        raise refusal(
            "task.length", f"no text of exactly {length} tokens was found with this tokenizer"
        )

    def _working(self, length: int) -> list[str]:
        """Sentences that fill the length, by their own token counts; at least one."""
        room = length - self._count(self._pieces([]))
        found: list[str] = []
        for text in sentences(self.rng):
            room -= self._cost(text)
            if room < 0 and found:
                return found
            found.append(text)
        raise AssertionError("sentences do not end")

    def _closed(self, working: list[str], length: int) -> list[Piece] | None:
        """The pieces with one more sentence that leaves nothing over, if one is found."""
        gap = length - self._count(self._pieces(working))
        if gap == 0:
            return self._pieces(working)
        tried = set(working[-RECENT:])
        for _, text in zip(range(TRIES), self._others(), strict=False):
            if text not in tried and self._cost(text) == gap:
                pieces = self._pieces([*working, text])
                if self._count(pieces) == length:
                    return pieces
            tried.add(text)
        return None

    def _others(self) -> Iterator[str]:
        return sentences(random.Random(f"last:{self.before}{self.opening}{self.scattered}"))

    def _pieces(self, working: list[str], filler: str = "") -> list[Piece]:
        """Opening, then the working out with the scattered pieces spread over its first part."""
        slots: dict[int, list[Piece]] = {}
        for k, piece in enumerate(self.scattered, 1):
            at = round(REACH * len(working) * k / len(self.scattered))
            slots.setdefault(at, []).append(piece)
        pieces = [*self.opening, *slots.get(0, [])]
        for i, text in enumerate(working):
            if filler and i == len(working) - 1:
                pieces.append(Piece(filler))
            pieces.append(Piece(("\n" if i % PARAGRAPH == 0 and i else " ") + text))
            pieces += slots.get(i + 1, [])
        return pieces

    def _ids(self, text: str) -> list[int]:
        return encode(self.tokenizer, text, chat=bool(self.before)).ids

    def _count(self, pieces: list[Piece]) -> int:
        text = self.before + "".join(p.text for p in pieces)
        return len(self._ids(text)) - len(self.first) if text else 0

    def _cost(self, text: str) -> int:
        return len(encode(self.tokenizer, f"{LEAD} {text}", chat=True).ids) - self.lead

    def _fitted(self, pieces: list[Piece]) -> Fitted:
        text = "".join(p.text for p in pieces)
        encoded = encode(self.tokenizer, self.before + text, chat=bool(self.before))
        skip = len(self.first)
        if encoded.ids[:skip] != self.first:
            raise refusal("task.continuation", "the continuation shares a token with the prompt")
        marks, at = [], len(self.before)
        for name, start, stop in places(pieces):
            first, last = span(encoded, at + start, at + stop)
            marks.append((name, first - skip, last - skip))
        return Fitted(text, tuple(encoded.ids[skip:]), tuple(marks))


def places(pieces: list[Piece]) -> list[Span]:
    """Characters of each group and each fact, without white space around; wide ones first."""
    groups: dict[str, tuple[int, int]] = {}
    facts: list[Span] = []
    at = 0
    for piece in pieces:
        start, stop = at + len(piece.text) - len(piece.text.lstrip()), at + len(piece.text)
        at = stop
        if piece.group:
            groups[piece.group] = (groups.get(piece.group, (start, 0))[0], stop)
        if piece.fact:
            facts.append((piece.fact.name, start, stop))
    return [(name, *ends) for name, ends in groups.items()] + facts
