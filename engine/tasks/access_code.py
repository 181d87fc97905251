"""A number hidden in plain sentences, and a question for it (needle in filler, SCIENCE §2 and §3).

Knows sentences, names and numbers.  Knows nothing of tokens beyond asking for a sample.
"""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass
from typing import Any

from engine import paths
from engine.copies import LogicalSample
from engine.registry import TASKS, FieldError, option
from engine.tasks.text import Chat, Marked, build_prompt, join

HEADING = "Read the notes and answer the question.\n\nNotes:"
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"


@functools.cache
def sentences() -> tuple[str, ...]:
    """The shipped filler sentences: no digits, no names, nothing that could answer the question."""
    return tuple((paths.data() / "fillers" / "office.txt").read_text("utf-8").split("\n")[:-1])


def generator(seed: int, index: int, salt: str) -> random.Random:
    """A stream for sample `index` alone, so that a sample does not depend on how many are asked."""
    return random.Random(f"{salt}:{seed}:{index}")


def code_name(rng: random.Random) -> str:
    return rng.choice(LETTERS) + rng.choice(LETTERS) + str(rng.randrange(10, 100))


def code(rng: random.Random, digits: int) -> str:
    return str(rng.randrange(10 ** (digits - 1), 10**digits))


@TASKS.register("access_code", "niah")
@dataclass(frozen=True)
class AccessCode:
    """A fresh access code hidden in plain sentences, then a question for it."""

    before: int = option(4, "filler sentences before the fact", label="Before", low=1, high=4000)
    after: int = option(5, "filler sentences between the fact and the question", low=1, high=4000)
    others: int = option(
        0,
        "codes of other doors among the sentences, as distractors",
        label="Others",
        low=0,
        high=500,
    )
    digits: int = option(6, "digits of the code", low=1, high=12)
    filler: str = option("", "the padding, one token each time; empty takes the first that fits")
    chat: bool = option(False, "put the model's chat template around it", label="Chat template")
    system: str = option("", "system message of the chat", when="chat=true", long=True)

    size_field = "before"

    def protocols(self) -> tuple[str, ...]:
        return ("in_sequence", "outer", "grid_origin", "lengthen")

    def chance(self, measure: str) -> float:
        """What a guess among ten digits scores: per token, or for the code as a whole."""
        return 0.1 if measure == "token" else 0.1**self.digits

    def check(self) -> list[FieldError]:
        if self.others and self.digits < 4:
            return [FieldError("digits", "other codes need at least 4 digits, so that all differ")]
        return []

    def samples(self, tokenizer: Any, n: int, seed: int) -> list[LogicalSample]:
        """Sample i has its own sentences, name and code; its slots serve every protocol."""
        return [self._sample(tokenizer, i, seed) for i in range(n)]

    def _sample(self, tokenizer: Any, index: int, seed: int) -> LogicalSample:
        rng = generator(seed, index, "access_code")
        name, number = code_name(rng), code(rng, self.digits)
        words = self._sentences(rng, self.before + self.after)
        notes = [("filler", s) for s in words]
        for other, value in self._others(rng, name, number):
            notes.insert(rng.randrange(len(notes) + 1), ("record", fact(other, value)))
        cut = round(len(notes) * self.before / (self.before + self.after))
        parts = [("heading", HEADING)]
        parts += [(f"{role}{i}", " " + s) for i, (role, s) in enumerate(notes[:cut])]
        parts += [("lead", f" The access code for {name} is "), ("code", number), ("stop", ".")]
        parts += [(f"{role}{cut + i}", " " + s) for i, (role, s) in enumerate(notes[cut:])]
        parts += [("question", f"\n\nQuestion: What is the access code for {name}?\n")]
        parts += [("reply", f"Answer: The access code for {name} is ")]
        text, at = join(parts)
        roles = {"lead": "record", "stop": "record", "question": "query", "reply": "query"}
        spans = [(*place, roles.get(key, key.rstrip("0123456789"))) for key, place in at.items()]
        marked = Marked(
            text=text,
            target=at["code"],
            answer=number,
            slots=(
                ("front", at["heading"][1]),
                ("before", at["lead"][0]),
                ("pad", at["lead"][0]),
                ("after", at["stop"][1]),
                ("back", at["question"][0]),
            ),
            question=at["question"][0],
            spans=tuple(s for s in spans if s[2] in ("filler", "record", "query")),
            reply=at["reply"][0],
        )
        return build_prompt(tokenizer, marked, index, self.filler, Chat(self.chat, self.system))

    def _sentences(self, rng: random.Random, count: int) -> list[str]:
        """`count` sentences in random order; each is used once before any is used again."""
        pool: list[str] = []
        while len(pool) < count:
            pool += rng.sample(sentences(), len(sentences()))
        return pool[:count]

    def _others(self, rng: random.Random, name: str, number: str) -> list[tuple[str, str]]:
        """Names and codes of the distractors, all different, the asked one among them."""
        names, numbers = {name: None}, {number: None}
        while len(names) <= self.others:
            names[code_name(rng)] = None
        while len(numbers) <= self.others:
            numbers[code(rng, self.digits)] = None
        return list(zip(names, numbers, strict=True))[1:]


def fact(name: str, number: str) -> str:
    return f"The access code for {name} is {number}."
