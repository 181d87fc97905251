"""Phase copies: the same facts at every residue (SCIENCE §2).

Knows tokens and positions.  Knows nothing about models, memory or storage.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Slot:
    """A place before token `at` of a sample where fillers may stand.

    `name`: "front" and "back" (outer), "before" and "after" the target (in_sequence), "pad" (lengthen).
    """

    name: str
    at: int


@dataclass(frozen=True)
class LogicalSample:
    """One question with its facts, on token ids, without any filler."""

    index: int
    tokens: tuple[int, ...]
    roles: tuple[str, ...]  # one of rows.ROLES per token
    target: tuple[int, int]  # [start, stop) of the fact's tokens
    answer: tuple[int, ...]  # gold continuation after the last token
    rivals: tuple[int, ...]  # first tokens of wrong continuations
    rival_texts: tuple[str, ...]
    answer_text: str
    slots: tuple[Slot, ...]
    filler: int  # token id that a slot takes any number of times
    context_end: int  # tokens before it are context, from it on the query (after_context memory)
    shifted: LogicalSample | None = None  # the other document of a pair


@dataclass(frozen=True)
class Copy:
    """A sample at one residue.  `tokens` is the prompt; `answer` follows it when scored."""

    sample: int
    shift: int
    residue: int
    tokens: tuple[int, ...]
    roles: tuple[str, ...]
    target: tuple[int, int]
    answer: tuple[int, ...]
    rivals: tuple[int, ...]
    context_end: int
    origin: int = 0

    @property
    def query_position(self) -> int:
        return len(self.tokens) - 1
