"""The user's own problems with their answers, and perhaps a reasoning path that is already written.

Knows lines and chat templates.  Knows nothing of models, caches or methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from engine.eviction.prompts.base import PROMPTS, apart, behind, span
from engine.eviction.prompts.columns import Line, Problem, columns, problem_of, read, read_jsonl
from engine.eviction.samples import DecodeSample, Question
from engine.registry import FieldError, SpecError, option
from engine.tasks.text import Chat, Marked, encode, refusal, render

__all__ = ["Reasoning", "read_jsonl"]  # what a file's reader needs comes from here
MOST = 8  # bad prompts told at once
WHOLE = "prompt"  # name of the span of a prompt without marks


@PROMPTS.register("reasoning")
@dataclass(frozen=True)
class Reasoning:
    """Your own problems and answers, one JSON object a line."""

    stops: ClassVar[bool] = True

    prompts: tuple = option(
        (),
        "tables with prompt and answer, each one sample (problem, question, solution, target … are "
        "read too); a continuation that is already written; marks as [name, start, stop] in "
        "characters or {{mark:name}}…{{/mark}} in the prompt",
        label="Prompts",
    )
    ask: str = option(
        "\nThe final answer is", "what is put behind everything, so that the answer follows"
    )
    chat: bool = option(False, "put the model's chat template around it", label="Chat template")
    system: str = option("", "system message of the chat", when="chat=true", long=True)

    @classmethod
    def normalise(cls, values: dict) -> dict:
        """Lines under our own names, so that equal runs have equal keys; bad ones stay for check.

        A line may be its table or its JSON.
        """
        if isinstance(prompts := values.get("prompts"), list | tuple):
            values["prompts"] = [_columns(raw) for raw in prompts]
        return values

    def phrase(self) -> str:
        count = len(self.prompts)
        return f"{count} own {'prompt' if count == 1 else 'prompts'}"

    def size(self) -> int:
        """Samples there are: as many as prompts."""
        return len(self.prompts)

    def check(self) -> list[FieldError]:
        errors = []
        if not self.ask.strip():
            told = "is empty; write what the answer follows, as in '\\nThe final answer is'"
            errors.append(FieldError("ask", told))
        if not self.prompts:
            told = "is empty; give a JSONL with one prompt and its answer a line"
            errors.append(FieldError("prompts", told))
        for number, raw in enumerate(self.prompts, 1):
            if found := problem_of(raw):
                errors.append(FieldError("prompts", f"prompt {number}: {found.message}"))
            if len(errors) >= MOST:
                break
        return errors

    def samples(self, tokenizer: Any, n: int, seed: int) -> list[DecodeSample]:
        """The first n prompts.  The seed changes nothing: the prompts are the user's own."""
        found = []
        for index, table in enumerate(self.prompts[:n]):
            try:
                found.append(self._sample(tokenizer, index, read(table)))
            except SpecError as error:
                first = error.errors[0]
                if first.field in ("task.chat", "task.system"):
                    raise refusal(first.field, f"prompt {index + 1}: {first.message}") from None
                told = f"prompt {index + 1}: {first.message}"
                raise refusal("task.prompts", told) from None
        return found

    def _sample(self, tokenizer: Any, index: int, line: Line) -> DecodeSample:
        marked = Marked(line.prompt, (0, 0), line.answer)
        whole = render(tokenizer, marked, Chat(self.chat, self.system))
        encoded = encode(tokenizer, whole.text, whole.chat)
        spans = line.marks or ((WHOLE, 0, len(line.prompt)),)
        marks = []
        for name, start, stop in spans:
            first, last = span(encoded, whole.at(start), whole.at(stop))
            if first >= last:
                raise refusal("task.prompts", f"marks: {name!r} holds no token")
            marks.append((name, first, last))
        names = [name for name, _, _ in spans]
        return DecodeSample(
            index=index,
            prompt=tuple(encoded.ids),
            continuation=self._continuation(tokenizer, whole.text, line.continuation),
            marks=tuple(marks),
            questions=(
                self._question(tokenizer, line.answer, "answer" if "answer" in names else names[0]),
            ),
        )

    def _continuation(self, tokenizer: Any, text: str, continuation: str) -> tuple[int, ...]:
        """A continuation of plain text begins a new line, unless white space is there already."""
        if not continuation:
            return ()
        parted = self.chat or text[-1:].isspace() or continuation[:1].isspace()
        told = continuation if parted else "\n" + continuation
        ids = behind(tokenizer, text, told)
        return tuple(apart(tokenizer, told)[1] if ids is None else ids)

    def _question(self, tokenizer: Any, answer: str, mark: str) -> Question:
        anchor, ids = apart(tokenizer, self.ask)
        gold = answer if self.ask[-1].isspace() else " " + answer
        found = behind(tokenizer, anchor + self.ask, gold)
        if found is None:
            told = f"the answer {answer!r} shares a token with the end of ask, {self.ask[-20:]!r}"
            raise refusal("task.prompts", told)
        return Question(tuple(ids), tuple(found), mark)


def _columns(raw: Any) -> Any:
    try:
        return columns(raw)
    except Problem:
        return raw
