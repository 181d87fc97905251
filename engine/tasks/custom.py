"""The user's own prompts: one text with marks, or a JSONL of many.

Knows marks and lines of JSON.  Knows nothing of models or memories.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from engine.copies import LogicalSample
from engine.registry import TASKS, FieldError, SpecError, option, suggest
from engine.tasks.marks import Places, read_marks
from engine.tasks.text import Chat, Marked, build_sample, refusal

OWN = {"text": "", "answer": "", "rivals": [], "slots": [], "target": [], "question": -1}
MAX_JSONL = 64_000_000  # bytes
HUGE = 5_000_000  # characters that no model takes: the plan refuses them by their number alone


@TASKS.register("custom")
@dataclass(frozen=True)
class Custom:
    """Your own prompt, or a file of prompts."""

    text: str = option(
        "",
        "the prompt; mark the fact with {{target}}…{{/target}}, the padding's place with {{pad}} "
        "(in front of the fact, and perhaps a second one behind it), and where the question begins "
        "with {{question}}",
        label="Prompt",
        long=True,
    )
    answer: str = option("", "what the model should continue with", label="Answer")
    rivals: tuple = option((), "wrong continuations whose first token is followed", label="Rivals")
    filler: str = option(
        "", "the padding, one token each time; empty takes the first that fits", label="Filler"
    )
    slots: tuple = option((), "places of the padding as character offsets, in place of {{pad}}")
    target: tuple = option((), "start and end of the fact as character offsets, in place of marks")
    question: int = option(-1, "character offset where the question begins; -1: not told", low=-1)
    chat: bool = option(False, "put the model's chat template around it", label="Chat template")
    system: str = option("", "system message of the chat", when="chat=true", long=True)
    prompts: tuple = option(
        (), "many prompts (tables of text, answer, rivals, …), each one sample; replaces text"
    )

    @classmethod
    def normalise(cls, values: dict) -> dict:
        """Write out what `prompts` leave to defaults, so that equal runs have equal keys."""
        prompts = values.get("prompts")
        if isinstance(prompts, list | tuple) and prompts:
            values = {name: value for name, value in values.items() if name not in OWN}
            values["prompts"] = [
                OWN | {k: list(v) if isinstance(v, tuple) else v for k, v in p.items()}
                if isinstance(p, dict)
                else p
                for p in prompts
            ]
        return values

    def protocols(self) -> tuple[str, ...]:
        """One slot: lengthen.  Two: outer if the first opens the text, else in_sequence.

        Without a slot only the grid moves, which every prompt allows.
        """
        if max(self.characters()) > HUGE:
            return ("lengthen", "grid_origin")
        kinds = {self._protocol(*pair) for pair in self._read() if pair[0] is not None}
        if len(kinds) != 1:
            return ("grid_origin",)
        kind = kinds.pop()
        return (kind, "grid_origin") if kind != "grid_origin" else ("grid_origin",)

    def unlike(self) -> int:
        """Number of the first prompt whose pad slots are not as the others', a missing one before
        any other; 0: all are alike.
        """
        kinds = [self._protocol(*pair) for pair in self._read()]
        if len(set(kinds)) == 1:
            return 0
        bare = [kind == "grid_origin" for kind in kinds]
        return 1 + (bare if any(bare) else [kind != kinds[0] for kind in kinds]).index(True)

    @staticmethod
    def _protocol(places: Places, _: object) -> str:
        if len(places.pads) < 2:
            return "lengthen" if places.pads else "grid_origin"
        return "in_sequence" if places.text[: places.pads[0]].strip() else "outer"

    def size(self) -> int:
        """Samples there are: as many as prompts."""
        return len(self.prompts) or 1

    @property
    def size_field(self) -> str:
        """The field that a prompt's length is told at."""
        return "prompts" if self.prompts else "text"

    def characters(self) -> list[int]:
        """Length of each prompt, for an estimate before anything is tokenised."""
        return [len(t["text"]) + len(t["answer"]) + len(self.system) for t in self._tables()]

    def _tables(self) -> list[dict]:
        return list(self.prompts) or [{name: getattr(self, name) for name in OWN}]

    def _read(self) -> list[tuple[Places | None, list[FieldError]]]:
        return [
            read_marks(t["text"], t["slots"], t["target"], t["question"]) for t in self._tables()
        ]

    def check(self) -> list[FieldError]:
        errors = [
            e for name in ("filler", "system") if (e := _text_problem(name, getattr(self, name)))
        ]
        for number, table in enumerate(self._tables(), 1):
            found = table_problems(table)
            huge = not found and len(table["text"]) > HUGE
            if not found and not huge:
                found = read_marks(
                    table["text"], table["slots"], table["target"], table["question"]
                )[1]
            if not found and not huge and not table["answer"]:
                found = [
                    FieldError("answer", "is missing; type what the model should continue with")
                ]
            if self.prompts:
                found = [
                    FieldError("prompts", f"prompt {number}: " + f"{e.field} {e.message}".strip())
                    for e in found
                ]
            errors += found
            if len(errors) >= 8:
                break
        return errors

    def samples(self, tokenizer: Any, n: int, seed: int) -> list[LogicalSample]:
        """The first n prompts.  The seed changes nothing: the prompts are the user's own."""
        samples = []
        for index, table in enumerate(self._tables()[:n]):
            try:
                samples.append(self._sample(tokenizer, index, table))
            except SpecError as error:
                if not self.prompts:
                    raise
                first = error.errors[0]
                shared = first.field in ("task.filler", "task.chat", "task.system")
                field = first.field if shared else "task.prompts"
                name = "" if shared else first.field.removeprefix("task.") + ": "
                raise refusal(field, f"prompt {index + 1}: {name}{first.message}") from None
        return samples

    def _sample(self, tokenizer: Any, index: int, table: dict) -> LogicalSample:
        places, errors = read_marks(
            table["text"], table["slots"], table["target"], table["question"]
        )
        if places is None or errors:
            raise SpecError(*(FieldError(f"task.{e.field}", e.message) for e in errors))
        kind = self._protocol(places, None)
        names = {
            "lengthen": ("pad",),
            "outer": ("front", "back"),
            "in_sequence": ("before", "after"),
        }
        spans = []
        if kind == "in_sequence":
            spans.append((*places.pads, "record"))
        if places.question is not None:
            spans.append((places.question, len(places.text), "query"))
        marked = Marked(
            text=places.text,
            target=places.target,
            answer=table["answer"],
            slots=tuple(zip(names.get(kind, ()), places.pads, strict=True)),
            question=places.question,
            rivals=tuple(table["rivals"]),
            spans=tuple(spans),
            reply=places.reply,
        )
        return build_sample(tokenizer, marked, index, self.filler, Chat(self.chat, self.system))


def table_problems(table: Any) -> list[FieldError]:
    """What is wrong with the types and names of one prompt's table."""
    if not isinstance(table, dict):
        return [FieldError("", f"must be a table with text and answer, not {type(table).__name__}")]
    errors = [FieldError(str(k), f"is no key here{suggest(k, OWN)}") for k in table if k not in OWN]
    for name, default in OWN.items():
        value, kind = table.get(name, default), type(default)
        if kind is list and isinstance(value, list | tuple):
            inner = str if name == "rivals" else int
            if not all(isinstance(v, inner) and not isinstance(v, bool) for v in value):
                errors.append(
                    FieldError(
                        name, f"must be a list of {'texts' if inner is str else 'whole numbers'}"
                    )
                )
            errors += [
                e
                for v in value
                if inner is str and isinstance(v, str) and (e := _text_problem(name, v))
            ]
            if inner is str and any(v == "" for v in value):
                errors.append(FieldError(name, "holds an empty text; leave it out"))
        elif kind is list or not isinstance(value, kind) or isinstance(value, bool):
            words = {str: "text", int: "a whole number", list: "a list"}[kind]
            errors.append(FieldError(name, f"must be {words}, not {type(value).__name__}"))
        elif kind is str and (e := _text_problem(name, value)):
            errors.append(e)
    return errors


def _text_problem(name: str, value: str) -> FieldError | None:
    """Half a surrogate pair is no text: no tokenizer reads it."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        return FieldError(
            name, f"is no valid Unicode at character {error.start}: half a surrogate pair"
        )
    return None


def read_jsonl(data: bytes | str) -> tuple[dict, ...]:
    """The `prompts` of a JSONL: one object a line with text and answer.

    A line may also hold rivals, slots, target and question.  Blank lines are skipped.
    SpecError at task.prompts names the line.
    """
    if len(data) > MAX_JSONL:
        raise refusal(
            "task.prompts",
            f"the file has {len(data) / 1e6:.0f} MB; the cap is {MAX_JSONL / 1e6:.0f} MB",
        )
    if isinstance(data, bytes):
        try:
            data = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            raise refusal(
                "task.prompts", f"line {line}: is not UTF-8; save the file as UTF-8"
            ) from None
    prompts = []
    for number, line in enumerate(data.removeprefix("\ufeff").split("\n"), 1):
        if not line.strip():
            continue
        prompts.append(_read_line(number, line))
    if not prompts:
        raise refusal("task.prompts", "the file holds no prompt; one JSON object a line is read")
    return tuple(prompts)


def _read_line(number: int, line: str) -> dict:
    try:
        table = json.loads(line)
    except json.JSONDecodeError as error:
        raise refusal("task.prompts", f"line {number}: is no JSON object: {error.msg}") from None
    except RecursionError:
        told = f"line {number}: is no JSON object: nested too deeply"
        raise refusal("task.prompts", told) from None
    except ValueError:  # Python reads no integer of more than some thousand digits
        told = f"line {number}: holds a whole number of thousands of digits"
        raise refusal("task.prompts", told) from None
    problems = table_problems(table)
    if not problems:
        problems = [FieldError(k, "is missing") for k in ("text", "answer") if not table.get(k)]
    if problems:
        told = f"{problems[0].field} {problems[0].message}".strip()
        raise refusal("task.prompts", f"line {number}: {told}")
    return OWN | table
