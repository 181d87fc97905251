"""Two prompts or two outputs as tokens, and the edits that turn one into the other.

Knows lists of tokens.  Knows nothing of models.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher

MOST = 20_000  # tokens of one side that are told
HARDEST = 4_000_000  # pairs of tokens that are looked at, where the two differ
WORD = re.compile(r"\s*[\u2e80-\u9fff\uac00-\ud7af]|\s*[^\s\u2e80-\u9fff\uac00-\ud7af]+|\s+")


def words(text: str) -> list[str]:
    """Words, each with the space in front of it; joined they are the text again."""
    return WORD.findall(text)


def diff(
    a: list[str],
    b: list[str],
    by: tuple[Sequence[Hashable], Sequence[Hashable]] | None = None,
) -> dict:
    """{a, b, ops, reason}; op k turns a[i:j] into b[i:j].  `by`: what is compared (token ids), if
    not the text itself.

    What both begin and end with is set apart first, so that only the differing middle is searched;
    a middle too large to search is one replacement, and the reason says so.
    """
    if max(len(a), len(b)) > MOST:
        told = f"{max(len(a), len(b)):,} tokens; at most {MOST:,} are set side by side"
        return {"a": [], "b": [], "ops": [], "reason": told}
    first, second = by or (a, b)
    head = _shared(first, second)
    tail = _shared(first[head:][::-1], second[head:][::-1])
    ends = len(a) - tail, len(b) - tail
    ops = [_op("equal", 0, head, 0, head)] if head else []
    reason = ""
    if (ends[0] - head) * (ends[1] - head) > HARDEST:
        ops.append(_op("replace", head, ends[0], head, ends[1]))
        reason = "The two differ in too much to be matched token by token."
    else:
        middle = SequenceMatcher(None, first[head : ends[0]], second[head : ends[1]], False)
        ops += [_op(name, *(at + head for at in places)) for name, *places in middle.get_opcodes()]
    if tail:
        ops.append(_op("equal", ends[0], len(a), ends[1], len(b)))
    return {"a": a, "b": b, "ops": ops, "reason": reason}


def _shared(first: Sequence, second: Sequence) -> int:
    """How many places both begin with alike."""
    for at, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return at
    return min(len(first), len(second))


def _op(name: str, i: int, j: int, k: int, m: int) -> dict:
    return {"op": name, "a": [i, j], "b": [k, m]}
