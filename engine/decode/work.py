"""A decode run's part of the worker: its prompts, its arms, its batches; and one sample's trace.

Knows what is said to the queue and when.  The numbers come from `engine.eviction`.
"""

from __future__ import annotations

import time
from typing import Any

from engine.kinds import read_spec


def decode(office: Any, request: dict) -> None:
    """Say `planned`, a `batch` for every batch that is not stored whole, and `done`."""
    from engine.eviction import sweep

    spec, id = read_spec(request["spec"]), request["id"]
    samples = prompts(spec)
    have = {tuple(place) for place in request["have"]}
    about = about_run(spec, samples)
    left = spec.parts - len(have)
    office.say(id, "planned", {"parts": spec.parts, "left": left, "about": about})
    loaded = office.loaded(spec.model)
    office.between()
    last = time.perf_counter()
    for batch in sweep.decode(spec, loaded, samples, have, pulse=office.pulse):
        now = time.perf_counter()
        content = {**batch._asdict(), "seconds": now - last}
        last = now
        office.say(id, "batch", content)
        office.between()
    office.say(id, "done", {"provenance": office.provenance(spec) | about})


def prompts(spec: Any) -> list:
    """All samples of a run, in the run's own tokenizer."""
    from engine.models.loader import load_tokenizer

    return spec.task.samples(load_tokenizer(spec.model), spec.samples, spec.seed)


def about_run(spec: Any, samples: list) -> dict:
    """What is known before the first forward and is kept with the run: its arms as they are run."""
    from engine.decode.plan import arm_numbers
    from engine.eviction.arms import arms, prompt_tokens
    from engine.models.loader import facts

    length, known = prompt_tokens(samples), facts(spec.model)
    return {
        "prompt_tokens": length,
        "parameters": known.parameters,
        "arms": [arm_numbers(arm, known, length + spec.steps) for arm in arms(spec, length)],
    }


def trace(office: Any, request: dict) -> dict:
    """Scores, kept entries and observers of every event in one sample, at one layer and KV head."""
    from engine.eviction.trace import trace as traced

    def step(done: int, total: int) -> None:
        office.say(request["id"], "step", (done, total))
        office.heed(request["id"])

    spec = read_spec(request["spec"])
    names = ("arm", "sample", "layer", "kv_head", "continuation", "top", "far")
    office.heed(request["id"])
    loaded = office.loaded(spec.model)
    return traced(spec, loaded, *(request[name] for name in names), step=step)
