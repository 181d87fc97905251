"""Two documents with the same fact, one of them shifted by a word in front (toy study of PWS).

A pair is two copies: differences and tokens, no period (SCIENCE §2, free prompts).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from engine.copies import LogicalSample
from engine.registry import TASKS, FieldError, option
from engine.tasks.access_code import code, code_name, fact, generator
from engine.tasks.text import Chat, Marked, build_prompt, join

FILLER = "The corridor on the second floor is cleaned every morning before the staff arrive. "
NAME, CODE = "AX31", "482915"


@TASKS.register("document_pair")
@dataclass(frozen=True)
class DocumentPair:
    """The same document with and without a word in front; the answer must not care."""

    prefix: str = option("Okay ", "what the second document begins with", label="Word in front")
    repeats: int = option(12, "filler sentences between fact and question", low=0, high=4000)
    chat: bool = option(False, "put the model's chat template around it", label="Chat template")
    system: str = option("", "system message of the chat", when="chat=true", long=True)

    size_field = "repeats"

    def protocols(self) -> tuple[str, ...]:
        return ("pair",)

    def check(self) -> list[FieldError]:
        return (
            []
            if self.prefix
            else [FieldError("prefix", "is empty: the two documents would be one")]
        )

    def samples(self, tokenizer: Any, n: int, seed: int) -> list[LogicalSample]:
        """Sample 0 is the published pair (AX31, 482915); later ones have other names and codes."""
        samples = []
        for index in range(n):
            rng = generator(seed, index, "document_pair")
            name, number = (code_name(rng), code(rng, len(CODE))) if index else (NAME, CODE)
            first, second = (
                self._document(tokenizer, index, p, name, number) for p in ("", self.prefix)
            )
            samples.append(replace(first, shifted=second))
        return samples

    def _document(
        self, tokenizer: Any, index: int, prefix: str, name: str, number: str
    ) -> LogicalSample:
        lead, stop = fact(name, number).split(number)
        text, at = join(
            [
                ("prefix", prefix),
                ("lead", lead),
                ("code", number),
                ("stop", stop),
                ("filler", "\n" + (FILLER * self.repeats).rstrip()),
                ("question", f"\n\nQuestion: What is the access code for {name}?\n"),
                ("reply", f"Answer: The access code for {name} is "),
            ]
        )
        roles = {
            "lead": "record",
            "stop": "record",
            "filler": "filler",
            "question": "query",
            "reply": "query",
        }
        marked = Marked(
            text=text,
            target=at["code"],
            answer=number,
            question=at["question"][0],
            spans=tuple((*at[key], role) for key, role in roles.items()),
            reply=at["reply"][0],
        )
        return build_prompt(tokenizer, marked, index, "", Chat(self.chat, self.system))
