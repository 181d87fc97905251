"""Fillers: strings that lengthen a prompt by exactly one token each (SCIENCE §2, free prompts).

Tokenizers merge repeated and neighbouring strings, so a filler is checked by tokenising the real
text with n of them in the slot and comparing with ids inserted there.  Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.registry import FieldError, SpecError

# Plain words first: they leave the model's text least odd.  The rest serve tokenizers and places
# (code, a banner, the start of a line) where a word with its space does not stand alone.
CANDIDATES = (
    " okay", " so", " very", " and", " the", " well", " then", " now", " =", " -", " *", " .", " #",
    " x", "=", "-", "*", "#", "~", "_", ".", "!", ";", "|", "^", "x", "okay", "\n", "\t", " ", "0",
    "哦",
)  # fmt: skip
COUNTS = (1, 2, 3, 33)
DEEP = 1025  # merges of long runs exist ("=" x 64 is one token in many vocabularies)

LONGEST = 128  # characters of a filler

Retokenise = Callable[[str], list[int]]
Spots = Sequence[tuple[int, int]]  # (character offset, token index) of each slot


def filler_token(
    retokenise: Retokenise, text: str, ids: list[int], spots: Spots, filler: str, deep: bool
) -> int | None:
    """The id that each filler adds in every slot, alone and in all at once; None if it merges.

    A long run is compared too when `deep`: one sample of a task is enough for that.
    """
    found: set[int] = set()
    for offset, at in spots:
        for count in (*COUNTS, DEEP) if deep else COUNTS:
            longer = retokenise(text[:offset] + filler * count + text[offset:])
            token = longer[at] if at < len(longer) else -1
            if longer != [*ids[:at], *[token] * count, *ids[at:]]:
                return None
            found.add(token)
    if len(found) != 1:
        return None
    token = found.pop()
    if len(spots) > 1:
        padded, expected, done, read = "", [], 0, 0
        for offset, at in sorted(spots):
            padded += text[done:offset] + filler * 2
            expected += [*ids[read:at], token, token]
            done, read = offset, at
        if retokenise(padded + text[done:]) != [*expected, *ids[read:]]:
            return None
    return token


def verify_filler(
    retokenise: Retokenise, text: str, ids: list[int], spots: Spots, filler: str, deep: bool = True
) -> int:
    """The filler's id, or SpecError at task.filler with three fillers that do work here."""
    if not spots:
        return retokenise(filler or " ")[-1]
    if len(filler) > LONGEST:
        told = f"has {len(filler):,} characters; one token is never longer than {LONGEST}"
        raise SpecError(FieldError("task.filler", told))
    token = filler_token(retokenise, text, ids, spots, filler, deep) if filler else None
    if token is not None:
        return token
    works = (filler_token(retokenise, text, ids, spots, c, deep) is not None for c in CANDIDATES)
    good = [c for c, fits in zip(CANDIDATES, works, strict=True) if fits][:3]
    if not good:
        offer = "no filler known here does: put the pad slot at the end of a line or of a word"
    else:
        offer = f"{', '.join(map(repr, good))} {'do' if len(good) > 1 else 'does'}"
    told = f"{filler!r} does not add exactly one token each time in this slot; {offer}"
    raise SpecError(FieldError("task.filler", told))


def choose_filler(
    retokenise: Retokenise,
    text: str,
    ids: list[int],
    spots: Spots,
    deep: bool = True,
    candidates: Sequence[str] = CANDIDATES,
) -> int:
    """The id of the first candidate that adds exactly one token each time in every slot."""
    for candidate in candidates:
        token = filler_token(retokenise, text, ids, spots, candidate, deep)
        if token is not None:
            return token
    told = "no filler known here adds exactly one token each time in this slot; put the pad slot"
    raise SpecError(FieldError("task.filler", told + " at the end of a line or of a word"))
