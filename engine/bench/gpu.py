"""Decode at a real model's size on a GPU: memory and throughput of a small cache beside a full one.

Random weights in Qwen3-4B's shape.  A length is reached by filling the cache with random keys, some
steps are timed there, and what lies between is interpolated, so that 32K tokens take minutes.
"""

from __future__ import annotations

import functools
import itertools
import time
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

QWEN3_4B = {
    "vocab_size": 151_936,
    "hidden_size": 2560,
    "intermediate_size": 9728,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40_960,
    "rope_theta": 1e6,
    "tie_word_embeddings": True,
}
PAPER = {"memory": 5.8, "throughput": 4.3}  # BeaconKV, batch 14, 32K tokens, budget 2K


class Plan(NamedTuple):
    """What is measured: rows, the small cache's budget, lengths of the full one, steps at each."""

    batch: int = 14
    budget: int = 2048
    lengths: tuple[int, ...] = (2048, 8192, 16_384, 32_768)
    steps: int = 16


class Point(NamedTuple):
    """At a length: seconds a step, bytes of keys and values, and the device's peak."""

    length: int
    seconds: float
    cache: int
    peak: int


def missing() -> str:
    """Why it cannot be measured here, or ""."""
    return "" if torch.cuda.is_available() else "no CUDA device"


def measure() -> list[tuple]:
    """Rows (name, value, unit, goal, ok) of `phasescope bench`."""
    plan = Plan()
    loaded = random_model(QWEN3_4B, torch.bfloat16, "cuda")
    full, small = full_points(loaded, plan), small_point(loaded, plan)
    return rows(plan, full, small)


def rows(plan: Plan, full: list[Point], small: Point) -> list[tuple]:
    """`full` ends early where the device's memory does; the name says at which length."""
    last = full[-1]
    told = f"{plan.batch} rows to {last.length:,} tokens, budget {plan.budget}"
    start = full[0].length
    whole = between(full)
    gain = whole / (small.seconds * (last.length - start)) if last.length > start else float("nan")
    paper = PAPER["throughput"]
    return [
        (f"tokens/s of the full cache, {told}", _rate(plan, full, whole), "tok/s", "", None),
        (f"tokens/s of beacon, {told}", plan.batch / small.seconds, "tok/s", "", None),
        (f"throughput ÷ full cache's (paper {paper}), {told}", gain, "×", "", None),
        (f"cache of the full one ÷ beacon's, {told}", last.cache / small.cache, "×", "", None),
        (
            f"peak memory of the full one ÷ beacon's (paper {PAPER['memory']}), {told}",
            last.peak / small.peak if small.peak else float("nan"),
            "×",
            "",
            None,
        ),
    ]


def _rate(plan: Plan, full: list[Point], seconds: float) -> float:
    count = full[-1].length - full[0].length
    return plan.batch * count / seconds if count else plan.batch / full[0].seconds


def between(points: list[Point]) -> float:
    """Seconds of all steps from the first length to the last: trapezoids of seconds a step."""
    pairs = itertools.pairwise(points)
    return sum((b.length - a.length) * (a.seconds + b.seconds) / 2 for a, b in pairs)


def random_model(shape: dict, dtype: torch.dtype, device: str) -> SimpleNamespace:
    """What a decoder asks of a loaded model; weights are drawn where they will stay."""
    import transformers as hf

    from engine.memory import attention
    from engine.models.facts import facts_of

    attention.register()
    config = hf.Qwen3Config(**shape)
    before = torch.get_default_dtype()
    torch.manual_seed(0)
    try:
        torch.set_default_dtype(dtype)
        with torch.device(device):
            model = hf.AutoModelForCausalLM.from_config(config)
    finally:
        torch.set_default_dtype(before)
    model = model.eval().requires_grad_(False)
    model.set_attn_implementation(attention.NAME)
    known = facts_of(model.config, str(dtype).removeprefix("torch."))
    cache = functools.partial(hf.DynamicCache, config=model.config)
    return SimpleNamespace(model=model, facts=known, own_memory=False, new_cache=cache)


def full_points(loaded: Any, plan: Plan) -> list[Point]:
    """The full cache at each length, as far as the memory goes."""
    from engine.eviction.decode import Decoder
    from engine.registry import MEMORIES

    found = []
    for length in plan.lengths:
        try:
            decoder = Decoder(loaded, MEMORIES.build({"kind": "full"}), plan.batch)
            fill(decoder, loaded, length)
            found.append(timed(decoder, loaded, plan.batch, plan.steps))
        except torch.OutOfMemoryError:
            break
        finally:
            decoder = None
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
    if not found:
        raise RuntimeError(f"no full cache of {plan.lengths[0]:,} tokens fits this device")
    return found


def fill(decoder: Any, loaded: Any, length: int) -> None:
    """Hold `length` tokens whose keys and values are random: no forward is needed for them."""
    facts, weight = loaded.facts, next(loaded.model.parameters())
    for layer in decoder.kept_layers:
        shape = (decoder.rows, facts.kv_heads, length, facts.head_dim)
        keys = torch.randn(shape, dtype=weight.dtype, device=weight.device)
        layer.update(keys, torch.randn_like(keys))
    decoder.clock.seen = decoder.clock.kept = decoder.clock.prompt = length


def small_point(loaded: Any, plan: Plan) -> Point:
    """Beacon at its budget over a whole period, one event inside; constant at any length."""
    from engine.eviction.decode import Decoder
    from engine.registry import MEMORIES

    memory = MEMORIES.build({"kind": "beacon", "budget": plan.budget})
    decoder = Decoder(loaded, memory, plan.batch)
    generator = torch.Generator().manual_seed(1)
    prompt = torch.randint(0, loaded.facts.vocab, (plan.batch, plan.budget), generator=generator)
    decoder.read(prompt)
    return timed(decoder, loaded, plan.batch, memory.period)


def timed(decoder: Any, loaded: Any, batch: int, steps: int) -> Point:
    """Median-free mean over `steps` single tokens, events inside; the first two are not counted."""
    cuda = next(loaded.model.parameters()).is_cuda
    ids = torch.randint(0, loaded.facts.vocab, (batch, steps + 2))

    def wait() -> None:
        if cuda:
            torch.cuda.synchronize()

    for place in range(2):
        decoder.read(ids[:, place : place + 1])
    wait()
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    length, start = decoder.clock.seen, time.perf_counter()
    for place in range(2, steps + 2):
        decoder.read(ids[:, place : place + 1])
    wait()
    seconds = (time.perf_counter() - start) / steps
    peak = torch.cuda.max_memory_allocated() if cuda else 0
    return Point(length, seconds, batch * decoder.bytes, peak)
