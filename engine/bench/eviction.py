"""What forgetting costs: upkeep of the methods, an R-KV event, and decode through a small cache.

Ratios are taken within one run, step by step in turn, since machines drift.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch

from engine.eviction.decode import Decoder

MODEL = "smollm2-135m"
BUDGET, STEPS, PROMPT = 256, 160, 200
SMALL, LONG, MIDDLE = 512, 4096, 2048
EVENT_TOKENS, EVENTS = 2048, 5


def missing() -> str:
    """Why it cannot be measured here, or ""."""
    from engine.models import catalog

    return "" if catalog.installed(MODEL) else f"run `phasescope pull {MODEL}`"


def measure() -> list[tuple]:
    """Rows (name, value, unit, goal, ok) of `phasescope bench`."""
    from engine.models.loader import load_model
    from engine.specs import ModelSpec

    loaded = load_model(ModelSpec(id=MODEL))
    return [*upkeep(loaded), *rkv_redundancy(), *rkv_event(loaded), *long_decode(loaded)]


def memory(kind: str, **options: Any) -> Any:
    from engine.registry import MEMORIES

    return MEMORIES.build({"kind": kind, **options})


def upkeep(loaded: Any) -> list[tuple]:
    """Observation, selection and events as a share of decode time, beacon and rpc step by step.

    Budget 256 (its entries at most): both drop an eighth at an event.
    """
    shares = {}
    methods = {
        "beacon": memory("beacon", budget=BUDGET),
        "rpc": memory("rpc", budget=BUDGET, preset="fixed_budget"),
    }
    decoders = {name: begun(loaded, method, PROMPT) for name, method in methods.items()}
    ids = random_ids(loaded, STEPS)
    for place in range(STEPS):
        for decoder in decoders.values():
            decoder.read(ids[:, place : place + 1])
    events = {}
    for name, decoder in decoders.items():
        forward = statistics.median(decoder.step_seconds[1:])
        kept = sum(decoder.observe_seconds[1:]) + sum(e.seconds for e in decoder.events)
        shares[name] = 100 * kept / STEPS / (forward + kept / STEPS)
        events[name] = 1e3 * statistics.median(e.seconds for e in decoder.events)
    more = shares["beacon"] - shares["rpc"]
    told = f"of decode time, budget {BUDGET}"
    return [
        (f"beacon's upkeep {told}", shares["beacon"], "%", "≤ 5", shares["beacon"] <= 5),
        (f"beacon's upkeep beyond rpc's, {told}", more, "%", "≤ 3", more <= 3),
        (f"one event of beacon, budget {BUDGET}", events["beacon"], "ms", "", None),
        (f"one event of rpc, budget {BUDGET}", events["rpc"], "ms", "", None),
    ]


def rkv_redundancy(layers: int = 30) -> list[tuple]:
    """Redundancy of 2 048 keys in as many layers, in closed form and from the table of all pairs.

    Keys are random around a mean that they share, so that most have a twin, as real ones do.
    """
    from engine.eviction.rkv import _by_table, mean_cosines

    generator = torch.Generator().manual_seed(0)
    keys = torch.randn(1, 3, EVENT_TOKENS, 64, generator=generator) + 1.2

    def seconds(judge: Any, times: int) -> float:
        start = time.perf_counter()
        for _ in range(times):
            judge(keys, 0.5, True)
        return (time.perf_counter() - start) / times

    with torch.inference_mode():
        seconds(mean_cosines, 1)
        closed, literal = seconds(mean_cosines, 5), seconds(_by_table, 2)
    told = f"R-KV's redundancy, {EVENT_TOKENS} tokens, {layers} layers"
    return [
        (f"{told}, closed form", 1e3 * closed * layers, "ms", "", None),
        (f"{told}, literal form", 1e3 * literal * layers, "ms", "", None),
        (f"{told}, literal ÷ closed form", literal / closed, "×", "≥ 1", literal >= closed),
    ]


def rkv_event(loaded: Any, tokens: int = EVENT_TOKENS, every: int = 128) -> list[tuple]:
    """A whole event of R-KV in every layer of the model: judging, choosing what stays, dropping."""
    found = {}
    for form in ("closed", "literal"):
        method = memory("rkv", budget=tokens - every, every=every, literal=form == "literal")
        found[form] = Decoder(loaded, method, 1)
        found[form].read(random_ids(loaded, tokens - 1, seed=1))
    last, seconds = random_ids(loaded, 1), {form: [] for form in found}
    for _ in range(EVENTS):
        for form, decoder in found.items():
            fork = decoder.fork()
            fork.read(last)
            (event,) = fork.events
            seconds[form].append(event.seconds)
    closed, literal = (statistics.median(seconds[form]) for form in ("closed", "literal"))
    told = f"one event of rkv, {tokens} tokens, {len(loaded.facts.full_layers)} layers"
    return [
        (f"{told}, closed form", 1e3 * closed, "ms", "", None),
        (f"{told}, literal form", 1e3 * literal, "ms", "", None),
        (f"{told}, literal ÷ closed form", literal / closed, "×", "", None),
    ]


def long_decode(
    loaded: Any, lengths: tuple[int, int] = (MIDDLE, LONG), budget: int = SMALL
) -> list[tuple]:
    """Decode behind 2 048 and 4 096 tokens with a budget of 512, against the full cache.

    A whole period is timed, so that its one event has its share of every token.
    """
    found, method = [], memory("beacon", budget=budget)
    for length in lengths:
        small = begun(loaded, method, length)
        full = begun(loaded, memory("full"), length)
        ids, most = random_ids(loaded, method.period), 0
        for place in range(method.period):
            for decoder in (small, full):
                decoder.read(ids[:, place : place + 1])
            most = max(most, small.bytes)
        spent = [
            sum(d.step_seconds[1:]) + sum(d.observe_seconds[1:]) + _events(d) for d in (small, full)
        ]
        gain = spent[1] / spent[0]
        told = f"behind {length} tokens, budget {budget}"
        found.append((f"tokens/s ÷ full cache's, {told}", gain, "×", "≥ 1", gain >= 1))
        if length == lengths[-1]:
            ratio = full.bytes / most
            found.append((f"full cache's bytes ÷ its own, {told}", ratio, "×", "≥ 6", ratio >= 6))
    return found


def _events(decoder: Any) -> float:
    """Seconds of the events behind the prompt's."""
    return sum(e.seconds for e in decoder.events if e.seen > decoder.clock.prompt)


def begun(loaded: Any, method: Any, prompt: int) -> Any:
    decoder = Decoder(loaded, method, 1)
    decoder.prefill(random_ids(loaded, prompt, seed=1))
    return decoder


def random_ids(loaded: Any, count: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1000, min(loaded.facts.vocab, 40_000), (1, count), generator=generator)
