"""What a decode run reads: prompt, continuation, and questions asked behind them.

Knows token ids.  Knows nothing of tokenizers, models or caches.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """Tokens put behind prompt and continuation, and the tokens that should follow."""

    tokens: tuple[int, ...]
    answer: tuple[int, ...]
    mark: str  # name of the span of the prompt that answers it


@dataclass(frozen=True)
class DecodeSample:
    """One prompt of a decode run.  Each question is asked on a fork of the cache, as if alone."""

    index: int
    prompt: tuple[int, ...]
    continuation: tuple[int, ...]  # () is written by the full cache
    marks: tuple[tuple[str, int, int], ...]  # (name, start, stop) in prompt tokens, wide ones first
    questions: tuple[Question, ...]
    repeats: tuple[tuple[str, int, int], ...] = ()  # where the continuation says a mark again,
    # (name, start, stop) in continuation tokens
