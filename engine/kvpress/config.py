"""A run's memory as kvpress would be told it, where kvpress has such a press.

What kvpress does otherwise than this product is said beside each; a memory without a press gets a
sentence instead.  Knows names and options; runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import yaml

from engine.kinds import DECODE, KVPRESS, kind_of
from engine.kvpress.spec import NO_PRESS
from engine.registry import FieldError, SpecError
from engine.store import Run

LENGTHS = (4096, 8192, 16384)  # RULER's, as kvpress's dataset has them
WRITES = "aime25"  # a dataset of kvpress whose answers are long enough for events behind the prompt
HEADER = """\
# Written by Phasescope from run {key}: {label}.
# python evaluate.py --config_file THIS_FILE, in kvpress's folder `evaluation`.
# The dataset is kvpress's own: choose another below.
"""


class Press(NamedTuple):
    """kvpress's name; `notes` on a memory's options: in what the two differ; `decoding`: its press
    that compresses again and again behind the prompt, "" where it has none."""

    name: str
    notes: Callable[[Any], list[str]]
    decoding: str = ""


def _alike(memory: Any) -> list[str]:
    return []


def _snapkv(memory: Any) -> list[str]:
    if memory.preset == "kvpress":
        return []
    told = (
        f"kvpress's SnapKV is the preset `kvpress` of this product; the run's is `{memory.preset}`"
    )
    return [told + ", so numbers will differ"]


def _h2o(memory: Any) -> list[str]:
    told = "ObservedAttention divides the attention received by the queries that could give it"
    return [f"{told} and keeps no latest entries: it is near H2O, not H2O"]


def _streaming(memory: Any) -> list[str]:
    notes = []
    if memory.sinks != 4:
        notes.append(f"kvpress keeps 4 sinks; the run kept {memory.sinks}")
    if memory.positions == "cache":
        notes.append("kvpress leaves positions as they are; the run counted those in the cache")
    return notes


def _random(memory: Any) -> list[str]:
    if memory.prefix or memory.protect:
        return ["kvpress protects no entries from chance; the run did"]
    return []


PRESSES = {
    "snapkv": Press("snapkv", _snapkv),
    "h2o": Press("observed_attention", _h2o),
    "tova": Press("tova", _alike, "decoding_tova"),
    "knorm": Press("knorm", _alike, "decoding_knorm"),
    "keydiff": Press("keydiff", _alike, "decoding_keydiff"),
    "streaming": Press("streaming_llm", _streaming, "decoding_streaming_llm"),
    "random": Press("random", _random),
    "full": Press(NO_PRESS, _alike),
}
NONE = {
    "pooled": "pools entries instead of dropping them",
    "trained": "pools entries with trained gates",
    "rkv": "weighs importance against redundancy while it decodes",
    "rpc": "compresses what was written and keeps the prompt whole",
    "beacon": "scores with past queries that it keeps",
}


def configurations(spec: Any, run: Run, length: int | None) -> list[dict]:
    """{label, press_name, yaml, notes, reason} of a run's memory, or of each arm of a decode run.

    length: tokens of the run's prompts; yaml is None where kvpress has no such press, and `reason`
    says so.
    """
    if kind_of(spec) == KVPRESS:
        return [_again(spec)]
    if kind_of(spec) == DECODE:
        return _arms(spec, run)
    return [_one(run.key, spec.model, spec.memory, spec.settings.seed, length)]


def _arms(spec: Any, run: Run) -> list[dict]:
    made = run.provenance
    if "arms" not in made:
        told = f"{run.key} was stopped before its prompts were known; run it again"
        raise SpecError(FieldError("key", told))
    methods = [m for m in spec.methods[1:] for _ in spec.budgets_of(m)]
    found = []
    for memory, numbers in zip(methods, made["arms"][1:], strict=True):
        length, budget = made["prompt_tokens"], numbers["own_budget"]
        found.append(_one(run.key, spec.model, memory, spec.seed, length, budget, True))
    return found or [_one(run.key, spec.model, spec.methods[0], spec.seed, made["prompt_tokens"])]


def _one(
    key: str,
    model: Any,
    memory: Any,
    seed: int,
    length: int | None,
    budget: int | None = None,
    decodes: bool = False,
) -> dict:
    """`decodes`: the run goes on behind the prompt, where kvpress's decoding presses begin."""
    budget = getattr(memory, "budget", None) if budget is None else budget
    label = memory.kind if budget is None else f"{memory.kind}, {budget} entries"
    blank = {"label": label, "press_name": None, "yaml": None, "notes": []}
    press = PRESSES.get(memory.kind)
    if press is None:
        why = NONE.get(memory.kind, "is another method")
        return blank | {"reason": f"kvpress has no press for {memory.kind}, which {why}"}
    if getattr(memory, "per_query_head", False):
        told = "kvpress keeps one set of entries for each KV head, the run one for each query head"
        return blank | {"reason": told}
    if press.name != NO_PRESS and not length:
        told = "the length of the prompts is not known, so no ratio can be told"
        return blank | {"reason": f"{told}: the run has no rows"}
    every = getattr(memory, "every", 0)
    if every and decodes and press.decoding:
        name, notes = press.decoding, _notes_behind(every, budget)
        options = _options(model, name, 0.0, seed, length)
        options |= {"dataset": WRITES, "data_dir": None}
        options |= {"compression_interval": every, "target_size": budget}
    else:
        name, removed = press.name, 0.0
        if name != NO_PRESS:
            removed = _removed(budget, length)
        notes = _notes_once(press, every, decodes)
        if name != NO_PRESS:
            notes = [f"{budget} of {length} entries kept: {removed} removed", *notes]
        options = _options(model, name, removed, seed, length)
    notes += press.notes(memory)
    return blank | {
        "press_name": name,
        "yaml": _text(HEADER.format(key=key, label=label), notes, options),
        "notes": notes,
        "reason": "",
    }


def _removed(budget: int, length: int) -> float:
    """The shortest compression_ratio of which kvpress keeps the budget: int(length · (1 − ratio)).

    Where no rounding of the budget's own share does, half an entry more is asked for.
    """
    if budget >= length:
        return 0.0
    shares = [1 - budget / length, 1 - (budget + 0.5) / length]
    tried = (round(share, digits) for digits in range(1, 17) for share in shares)
    return next(ratio for ratio in tried if int(length * (1 - ratio)) == budget)


def _notes_behind(every: int, budget: int) -> list[str]:
    return [
        f"{budget} entries kept, an event {_beat(every)}",
        "kvpress leaves the prompt whole until its first event; the run brought a prompt over "
        "budget down by its end",
    ]


def _notes_once(press: Press, every: int, decodes: bool) -> list[str]:
    if not every:
        return []
    told = f"kvpress compresses the prompt once; here an event came {_beat(every)}"
    return [told + ("; it has no decoding press of this method" if decodes else "")]


def _beat(every: int) -> str:
    return "at every token" if every == 1 else f"every {every} tokens"


def _options(model: Any, press: str, removed: float, seed: int, length: int | None) -> dict:
    eager = "eager" if press == "observed_attention" else None
    near = min(LENGTHS, key=lambda tokens: abs(tokens - (length or 0)))
    return {
        "output_dir": "./results",
        "model": model.id,
        "dataset": "ruler",
        "data_dir": str(near),
        "press_name": press,
        "compression_ratio": removed,
        "key_channel_compression_ratio": None,
        "threshold": None,
        "fraction": 1.0,
        "max_new_tokens": None,
        "max_context_length": None,
        "query_aware": False,
        "needle_depth": None,
        "device": None,
        "fp8": False,
        "model_kwargs": {"attn_implementation": eager, "dtype": model.dtype},
        "seed": seed,
    }


def _again(spec: Any) -> dict:
    """The configuration that an imported evaluation had."""
    values = spec.to_dict()
    task, press = dict(values["task"]), dict(values["press"])
    options = {"output_dir": "./results", "model": values["model"]["id"]}
    options |= {"dataset": task.pop("kind"), "data_dir": task.pop("data_dir") or None}
    options |= {"press_name": press.pop("name")} | press | task
    options |= {"fp8": values["fp8"], "seed": values["seed"]}
    head = HEADER.format(key=spec.key, label=spec.phrase())
    text = _text(head, [], options)
    told = {"label": spec.phrase(), "press_name": options["press_name"], "yaml": text}
    return told | {"notes": [], "reason": ""}


def _text(head: str, notes: list[str], options: dict) -> str:
    lines = "".join(f"# {note}.\n" for note in notes)
    return head + lines + yaml.safe_dump(options, sort_keys=False, allow_unicode=True)
