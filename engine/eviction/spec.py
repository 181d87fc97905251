"""What a decode run is: one prompt lane, several evicting memories, each at several budgets.

A method's own options stand in `methods`; how many entries it may hold is said once, in `budgets`,
so that all of them are compared at the same ones.  Knows the registries and counts of tokens;
knows nothing of tensors, pages or the database.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any, ClassVar

from engine.eviction.base import options_told
from engine.eviction.schedule import MOST_BUDGET
from engine.models.controlled import shelf
from engine.registry import (
    MEMORIES,
    FieldError,
    SpecError,
    bounds_text,
    fields_schema,
    from_options,
    is_number,
    option,
    short,
    shown,
    suggest,
    to_options,
)
from engine.specs import ModelSpec

UNITS = ("tokens", "kept", "removed")
FAIRNESS = ("time_average", "own")
MOST_BUDGETS, MOST_METHODS = 8, 16
SHARED = ("budget", "when")  # options of a memory that the run decides: `budgets`, `prefill`
FULL, POOLED = "full", "pooled"


@dataclass(frozen=True)
class Decoding:
    """The run's own numbers: how much may be held, what is written, how many prompts."""

    budgets: tuple = option((128,), "what every method may hold, one to eight values")
    unit: str = option(
        "tokens",
        "tokens: entries per KV head; kept and removed: share of prompt and steps; with evict "
        "prompt and fair own of the prompt alone, as kvpress's compression_ratio",
        choices=UNITS,
    )
    fair: str = option(
        "time_average",
        "time_average: each method's own budget is solved so that it holds as many entries on "
        "average; own: the number is the method's own budget",
        choices=FAIRNESS,
    )
    prefill: str = option(
        "whole",
        "whole: the prompt is read exactly, then one event where it is over budget; streamed: it "
        "is read as if it had been written, events inside",
        choices=("whole", "streamed"),
    )
    evict: str = option(
        "both",
        "where entries are dropped: at the prompt alone, so that the cache grows behind it; while "
        "decoding alone, the first event a period behind the prompt; or both",
        choices=("both", "prompt", "decode"),
    )
    mode: str = option(
        "forced",
        "forced: every method reads one text, the full cache's or one that is given; free: each "
        "writes its own",
        choices=("forced", "free"),
    )
    steps: int = option(256, "tokens behind the prompt", low=1, high=100_000)
    temperature: float = option(0.0, "0 writes the likeliest token", low=0, high=2)
    top_p: float = option(
        0.95, "drawn from the likeliest tokens of this joint probability", low=0, high=1
    )
    samples: int = option(8, "prompts", low=1, high=100_000)
    seed: int = option(0, "seed of prompts and of what is drawn", low=0, high=2**31 - 1)
    batch: int = option(
        4, "prompts decoded together; part of the key, so that bits repeat", low=1, high=256
    )

    kind: ClassVar[str] = "decode"

    def check(self) -> list[FieldError]:
        errors = []
        if self.top_p <= 0:
            errors.append(FieldError("top_p", "must be above 0 and at most 1"))
        if not 1 <= len(self.budgets) <= MOST_BUDGETS:
            told = f"must hold 1 to {MOST_BUDGETS} values, not {len(self.budgets)}"
            errors.append(FieldError("budgets", told))
        known = set()
        for i, budget in enumerate(self.budgets[:MOST_BUDGETS]):
            problem = self._problem(budget)
            if not problem and budget in known:
                problem = f"{shown(budget)} is there twice"
            if problem:
                errors.append(FieldError(f"budgets[{i}]", problem))
            else:
                known.add(budget)
        return errors

    def _problem(self, budget: Any) -> str:
        """What is wrong with one budget in the spec's unit, or ""."""
        if self.unit == "tokens":
            span = bounds_text(1, MOST_BUDGET)
            whole = is_number(budget) and budget == int(budget) and 1 <= budget <= MOST_BUDGET
            hint = "; a share needs unit kept or removed" if _is_share(budget) else ""
            return "" if whole else f"must be a whole number{span}, not {shown(budget)}{hint}"
        if not is_number(budget) or not 0 < budget <= 1:
            return f"must be a share above 0 and at most 1, not {shown(budget)}"
        if self.unit == "removed" and budget == 1:
            return "1 removes every entry; a share below 1 works"
        return ""


def _is_share(value: Any) -> bool:
    return is_number(value) and 0 < value < 1


@dataclass(frozen=True)
class DecodeSpec(Decoding):
    """One decode run: a model writes behind a task's prompts, with each method at each budget."""

    model: ModelSpec = dataclasses.field(default_factory=ModelSpec)
    task: Any = None
    methods: tuple = ()  # checked memories, the full cache first; their `budget` means nothing

    control: ClassVar[None] = None  # the full cache is an arm of the run itself
    stride: ClassVar[None] = None

    @classmethod
    def from_dict(cls, values: dict) -> DecodeSpec:
        """Build and check from the dict form; raises SpecError naming each bad field."""
        from engine.eviction.prompts.base import PROMPTS

        if not isinstance(values, dict):
            raise SpecError(FieldError("spec", f"must be a table, not {shown(values)}"))
        own = [f.name for f in dataclasses.fields(Decoding)]
        known = {*own, "kind", "model", "task", "methods"}
        errors = [
            FieldError(short(name), f"unknown key{suggest(name, known)}")
            for name in values
            if name not in known
        ]
        if values.get("kind") != "decode":
            told = f"must be decode, not {shown(values.get('kind'))}"
            errors.append(FieldError("kind", told))
        makers = {
            "model": lambda: _model(values.get("model", {})),
            "task": lambda: PROMPTS.build(_with_kind(values.get("task", {}))),
            "methods": lambda: _methods(values.get("methods", ())),
            "": lambda: from_options(Decoding, {n: values[n] for n in own if n in values}, ""),
        }
        parts = {}
        for name, make in makers.items():
            try:
                parts[name] = make()
            except SpecError as error:
                errors += [FieldError(e.field.removeprefix("."), e.message) for e in error.errors]
        if errors:
            raise SpecError(*errors)
        settings = parts.pop("")
        plain = {n: getattr(settings, n) for n in own}
        number = int if plain["unit"] == "tokens" else float
        plain["budgets"] = tuple(map(number, plain["budgets"]))
        if size := getattr(parts["task"], "size", int)():  # the user's own prompts: as many as are
            plain["samples"] = min(plain["samples"], size)
        if getattr(parts["task"], "given", False):  # a continuation of its own: as long as it is
            plain["steps"] = parts["task"].continuation
        spec = cls(**plain, **parts)
        if problems := spec.owned():
            raise SpecError(*problems)
        return spec

    def to_dict(self) -> dict:
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(Decoding)}
        model = {k: v for k, v in to_options(self.model).items() if k != "kind"}
        return {
            "kind": self.kind,
            "model": model,
            "task": to_options(self.task),
            "methods": [method_options(memory) for memory in self.methods],
            **own,
            "budgets": list(self.budgets),
        }

    @property
    def key(self) -> str:
        """Twelve hex digits naming this run.  Changing the dict form renames every run."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()

    @property
    def arm_count(self) -> int:
        return sum(len(self.budgets_of(memory)) for memory in self.methods)

    def budgets_of(self, memory: Any) -> tuple:
        """What a method is run at: all budgets, or its own where its options decide it."""
        return self.budgets if getattr(memory, "evicts", False) else (None,)

    @property
    def parts(self) -> int:
        """Arm-samples: each is stored whole or not at all."""
        return self.arm_count * self.samples

    def phrase(self) -> str:
        """A few words for lists: "beacon and snapkv, 96 and 128 tokens"."""
        kinds = list(dict.fromkeys(memory.kind for memory in self.methods[1:])) or [FULL]
        if self.unit == "tokens":
            budgets = f"{joined([str(b) for b in self.budgets])} tokens"
        else:
            budgets = f"{joined([f'{100 * b:g} %' for b in self.budgets])} {self.unit}"
        return f"{joined(kinds)}, {budgets}"

    def tokens_of(self, budget: float, prompt: int) -> int:
        """A budget in entries per KV head, of a run over `prompt` tokens and the spec's steps."""
        if self.unit == "tokens":
            return int(budget)
        total, share = self.shared(prompt), budget if self.unit == "kept" else 1 - budget
        return max(1, int(total * share) if total == prompt else round(share * total))

    def shared(self, prompt: int) -> int:
        """Tokens of which a budget is a share: all, or the prompt's where it alone is compressed to
        its own budget (then int(n (1 − removed)) entries stay, kvpress's number)."""
        alone = self.evict == "prompt" and self.fair == "own"
        return prompt if alone else prompt + self.steps

    def owned(self) -> list[FieldError]:
        """Refusals that need no prompt: of budgets that are the methods' own and in tokens, and of
        a method that needs a prompt that is read at once."""
        told = "needs a prompt that is read at once; whole works"
        if self.prefill == "streamed":
            for memory in self.methods[1:]:
                if getattr(memory, "reads_whole", False) or _after_context(memory):
                    return [FieldError("prefill", f"{label(memory)} {told}")]
        for memory in self.methods[1:]:
            if problem := _elsewhere(memory, self.evict):
                return [FieldError("evict", f"{label(memory)} {problem}")]
        if self.fair != "own" or self.unit != "tokens":
            return []
        those = [memory for memory in self.methods[1:] if getattr(memory, "evicts", False)]
        pairs = [(i, m) for m in those for i in range(len(self.budgets))]
        return [e for i, m in pairs for e in refusals(m, self.budgets[i], i)]


def method_of(spec: DecodeSpec, arm: int) -> Any:
    """The memory of an arm's number, its options without the arm's budget."""
    return [memory for memory in spec.methods for _ in spec.budgets_of(memory)][arm]


def _after_context(memory: Any) -> bool:
    return memory.kind == POOLED and memory.when == "after_context"


def _elsewhere(memory: Any, evict: str) -> str:
    """Why a method cannot drop where it is asked to, or ""."""
    if evict == "both":
        return ""
    if memory.kind == POOLED:
        return "compresses all that it reads; both works, and its own `when` decides"
    if memory.once and evict == "decode":
        return "drops entries at the end of the prompt alone; prompt or both works"
    if memory.reads_whole and not memory.once and evict == "prompt":
        return "keeps the prompt whole; decode or both works"
    return ""


def label(memory: Any) -> str:
    """ "beacon, n_beacon 8": the kind, with the options that are not as usual."""
    if memory.kind == POOLED:
        return memory.phrase()
    told = options_told(memory)
    return f"{memory.kind}, {told}" if told else memory.kind


def method_options(memory: Any) -> dict:
    """A method's dict form: all options but those that the run decides."""
    if memory.kind == POOLED:
        return to_options(memory)
    return {name: value for name, value in to_options(memory).items() if name not in SHARED}


def refusals(memory: Any, budget: int, at: int) -> list[FieldError]:
    problems = dataclasses.replace(memory, budget=budget).check()
    return [FieldError(f"budgets[{at}]", f"{memory.kind}: {e.message}") for e in problems]


def _model(values: Any) -> ModelSpec:
    if not isinstance(values, dict):
        told = f"must be a table of options, not {shown(values)}"
        raise SpecError(FieldError("model", told))
    model = from_options(ModelSpec, values, "model")
    if shelf.describe(model.id) is not None:
        told = f"{model.id} reads made-up records and writes no text; choose a language model"
        raise SpecError(FieldError("model.id", told))
    return model


def _with_kind(values: Any) -> Any:
    return {"kind": "lookback"} if values == {} else values


def _methods(values: Any) -> tuple:
    """The checked memories, the full cache first whether it was named or not."""
    if not isinstance(values, list | tuple):
        told = f"must be a list of tables, not {shown(values)}"
        raise SpecError(FieldError("methods", told))
    if not 1 <= len(values) <= MOST_METHODS:
        known = ", ".join(sorted((*evicting(), POOLED)))
        told = f"must name 1 to {MOST_METHODS} methods, not {len(values)}; known: {known}"
        raise SpecError(FieldError("methods", told))
    made, errors = [MEMORIES.build({"kind": FULL})], []
    for i, given in enumerate(values):
        try:
            memory = _method(given)
        except SpecError as error:
            place = f"methods[{i}]"
            errors += [FieldError(_at(place, e.field), e.message) for e in error.errors]
            continue
        if memory.kind != FULL and memory in made:
            told = f"{memory.kind} with these options is there twice; leave one out"
            errors.append(FieldError(f"methods[{i}]", told))
        elif memory.kind != FULL:
            made.append(memory)
    if errors:
        raise SpecError(*errors)
    return tuple(made)


def _at(place: str, field: str) -> str:
    inner = field.removeprefix("memory").removeprefix(".")
    return f"{place}.{inner}" if inner else place


def _method(given: Any) -> Any:
    """One memory with room for any budget: its own refusal of a small one waits for the arms."""
    if not isinstance(given, dict) or "kind" not in given:
        return MEMORIES.build(given)  # which refuses it
    cls = MEMORIES.find(given["kind"])
    if cls.kind in (FULL, POOLED):
        return MEMORIES.build(given)
    if not getattr(cls, "evicts", False):
        known = ", ".join(sorted((*evicting(), POOLED)))
        told = f"{cls.kind} drops nothing while decoding; the methods that do: {known}"
        raise SpecError(FieldError("memory.kind", told))
    for name, where in zip(SHARED, ("budgets", "prefill"), strict=True):
        if name in given:
            told = f"is decided by {where} of the run, for all methods alike; leave it out"
            raise SpecError(FieldError(f"memory.{name}", told))
    return MEMORIES.build({**given, "budget": MOST_BUDGET})


def evicting() -> dict[str, type]:
    """Memories that drop entries, by name."""
    return {name: cls for name, cls in MEMORIES.items() if getattr(cls, "evicts", False)}


def joined(words: list[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def decode_schema() -> dict:
    """What a form of a decode run offers: its settings, methods and prompts."""
    from engine.eviction.prompts.base import PROMPTS

    methods = MEMORIES.schema()
    for name in evicting():
        fields = methods[name]["fields"]
        methods[name]["fields"] = [f for f in fields if f["name"] not in SHARED]
    return {
        "settings": fields_schema(Decoding),
        "methods": {name: methods[name] for name in (*evicting(), POOLED)},
        "prompts": PROMPTS.schema(),
        "most": {"budgets": MOST_BUDGETS, "methods": MOST_METHODS},
    }
