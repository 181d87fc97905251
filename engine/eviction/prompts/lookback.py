"""Prompts that need looking back, in the shape of long reasoning, of an exact number of tokens.

Knows stories and how they are asked.  Knows nothing of models, caches or methods.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, ClassVar

from engine.eviction.prompts.base import PROMPTS, question
from engine.eviction.prompts.fit import Draft, Fitted, TooShort
from engine.eviction.prompts.story import FAMILIES, Fact, Piece
from engine.eviction.samples import DecodeSample
from engine.registry import FieldError, option
from engine.tasks.access_code import generator
from engine.tasks.text import refusal

LEADS = ("Looking back, ", "As noted before, ", "To use it again, ", "Going back to the start, ")
BEFORE = 200  # characters of the prompt's end behind which a continuation is tokenised


@PROMPTS.register("lookback")
@dataclass(frozen=True)
class Lookback:
    """Facts among long working out, asked again at the end."""

    family: str = option(
        "all",
        "codes: doors in a working log; plan: a word problem with numbered steps; ledger: opening "
        "amounts and transfers; all: one after the other",
        label="Story",
        choices=("all", *FAMILIES),
    )
    length: int = option(
        512, "tokens of the prompt, the same in every sample", label="Length", low=16, high=131_072
    )
    facts: int = option(6, "facts that are told, each a marked span", label="Facts", low=2, high=40)
    questions: int = option(
        3, "facts that are asked behind the continuation", label="Questions", low=1, high=40
    )
    given: bool = option(
        False,
        "give the continuation: more working out that says facts again; else the full cache "
        "writes it",
        label="Given continuation",
    )
    continuation: int = option(
        256, "tokens of the given continuation", when="given=true", low=16, high=131_072
    )
    repeated: str = option(
        "unasked",
        "which facts the given continuation says again; a fact that is asked and said again can "
        "be answered from there",
        choices=("unasked", "all"),
        when="given=true",
    )

    stops: ClassVar[bool] = False
    size_field = "length"

    def phrase(self) -> str:
        words = [f"lookback {self.family}", f"{self.length} tokens", f"{self.facts} facts"]
        return ", ".join([*words, *([f"{self.continuation} given"] if self.given else [])])

    def check(self) -> list[FieldError]:
        if self.questions > self.facts:
            told = f"must be at most the {self.facts} facts, not {self.questions}"
            return [FieldError("questions", told)]
        if self.given and self.repeated == "unasked" and self.questions == self.facts:
            told = "asks every fact, so the continuation has none left to say again; ask at most "
            return [FieldError("questions", f"{told}{self.facts - 1}, or set repeated to all")]
        return []

    def samples(self, tokenizer: Any, n: int, seed: int) -> list[DecodeSample]:
        """Sample i has a story of its own.  Refused if one of the n cannot be told in `length`."""
        made: list[DecodeSample] = []
        least: dict[str, int] = {}
        for index in range(n):
            try:
                made.append(self._sample(tokenizer, index, seed))
            except Refused as error:
                least[error.field] = max(least.get(error.field, 0), error.least)
        for field, tokens in least.items():
            have = getattr(self, field)
            told = f"{have} tokens cannot hold {self.facts} facts; the least that works is {tokens}"
            raise refusal(f"task.{field}", told)
        return made

    def _sample(self, tokenizer: Any, index: int, seed: int) -> DecodeSample:
        family = [*FAMILIES][index % len(FAMILIES)] if self.family == "all" else self.family
        rng = generator(seed, index, f"lookback:{family}")
        story = FAMILIES[family](rng, self.facts)
        asked = rng.sample(story.facts, self.questions)
        draft = Draft(tokenizer, story.opening, story.scattered, stream(rng))
        prompt = _fit(draft, "length", self.length)
        later = self._continuation(tokenizer, prompt, story.facts, asked, rng)
        return DecodeSample(
            index=index,
            prompt=prompt.tokens,
            continuation=later.tokens,
            marks=prompt.marks,
            questions=tuple(question(tokenizer, f.ask, f.answer, f.name) for f in asked),
            repeats=later.marks,
        )

    def _continuation(
        self,
        tokenizer: Any,
        prompt: Fitted,
        facts: list[Fact],
        asked: list[Fact],
        rng: random.Random,
    ) -> Fitted:
        if not self.given:
            return Fitted("", (), ())
        again = [f for f in facts if self.repeated == "all" or f not in asked]
        rng.shuffle(again)
        said = tuple(Piece(" " + f.again(rng.choice(LEADS)), f) for f in again)
        draft = Draft(tokenizer, (), said, stream(rng), before=prompt.text[-BEFORE:])
        return _fit(draft, "continuation", self.continuation)


class Refused(Exception):
    """One sample does not fit `field`; `least` tokens would do."""

    def __init__(self, field: str, least: int):
        super().__init__(field, least)
        self.field, self.least = field, least


def _fit(draft: Draft, field: str, length: int) -> Fitted:
    try:
        return draft.fit(length)
    except TooShort as error:
        raise Refused(field, error.least) from None


def stream(rng: random.Random) -> random.Random:
    """A stream of its own, so that what is drawn later does not depend on how much it gives."""
    return random.Random(rng.getrandbits(64))
