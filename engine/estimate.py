"""What a run will cost, told before anything runs, and the caps that refuse it.

A guess from sizes in the config, or from a speed that was measured on this machine.  Knows numbers
only: no tokenizer, no weights, no text.
"""

from __future__ import annotations

import functools
import os
import platform
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.registry import FieldError, SpecError

MAX_COPIES = 1_000_000
MAX_SECONDS = 14 * 86_400
MEMORY_SHARE = 0.9  # of this machine's memory

# Floating-point operations per second and core (cpu) or device, by bytes per weight, lowered by a
# half for pooled memory.  Measured: bf16 5e11 and fp32 1.2e11 on one core that has bf16 units;
# a core without them computed fp32 at 6e10 and bf16 at 9e9: there half precision is the slow one.
RATES = {
    "cpu": {8: 1.5e10, 4: 3e10, 2: 4e9},
    "cpu with bf16": {8: 2e10, 4: 6e10, 2: 2e11},
    "mps": {8: 5e11, 4: 1e12, 2: 2e12},
    "cuda": {8: 5e12, 4: 2e13, 2: 8e13},
}
PIECE = 512  # tokens of a forward through a cache that drops entries
BANDWIDTH = {"cpu": 1e10, "mps": 1e11, "cuda": 1e12}  # bytes per second of reading weights
CALLS = 5e-4  # seconds of a layer's own overhead in a forward
RUNTIME = 450_000_000  # torch, libraries and one slice of logits


@dataclass(frozen=True)
class Estimate:
    """Seconds and bytes of one run, its control included; `speed` in tokens per second.

    `less`: what of the run would need less memory, and how much.
    """

    seconds: float
    bytes: int
    tokens: int
    speed: float
    measured: bool
    less: str = ""

    def to_dict(self) -> dict:
        source = "measured here" if self.measured else "guess"
        return {"seconds": self.seconds, "bytes": self.bytes, "speed_source": source}


def estimate(
    spec: Any, facts: Any, copies: int, length: int, speed: float | None = None
) -> Estimate:
    """Cost of `copies` copies of `length` tokens, again for the control and a layer scan."""
    modulus = spec.settings.modulus
    cycle = min(1, (spec.stride or modulus) / modulus)  # the share of copies that a scan reads
    passes = 1 + (spec.control is not None) + spec.settings.scan * len(facts.full_layers) * cycle
    tokens = round(copies * length * passes)
    rate = speed or _guess(spec, facts, length)

    def held(batch: int, length: int) -> int:
        return _bytes(spec, facts, copies, length, batch)

    batch = min(spec.settings.batch, copies)
    needs, less = held(batch, length), smaller(held, batch, length)
    return Estimate(tokens / rate, needs, tokens, rate, bool(speed), less)


def _guess(spec: Any, facts: Any, length: int) -> float:
    """Tokens per second; between two events no more tokens are read at once than the period."""
    rate = compute_rate(spec.model, facts, length)
    if not getattr(spec.memory, "evicts", False) or not spec.memory.period:
        return rate
    piece = min(spec.memory.period, length) * spec.settings.batch
    return piece / max(piece / rate, least_seconds(spec.model, facts))


def compute_rate(model: Any, facts: Any, length: int) -> float:
    """Tokens per second: two operations a weight, and the attention over half the length."""
    attention = 2 * facts.n_layers * facts.q_heads * facts.head_dim * length
    kind = model.device.split(":")[0]
    cores = min(os.cpu_count() or 1, 16) if kind == "cpu" else 1
    if kind == "cpu" and has_bf16():
        kind = "cpu with bf16"
    return RATES[kind][facts.bytes_per_weight] * cores / (2 * facts.parameters + attention)


def least_seconds(model: Any, facts: Any) -> float:
    """The least seconds of a forward: reading the weights once, and the calls."""
    kind = model.device.split(":")[0]
    return facts.parameters * facts.bytes_per_weight / BANDWIDTH[kind] + facts.n_layers * CALLS


@functools.cache
def has_bf16() -> bool:
    """Whether this processor multiplies in bf16 (AMX, AVX-512 BF16, or an ARM core that does)."""
    import torch

    if platform.machine().lower() in ("arm64", "aarch64"):
        return True
    checks = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return any(getattr(torch.cpu, name, bool)() for name in checks)


def _bytes(spec: Any, facts: Any, copies: int, length: int, batch: int) -> int:
    """Peak of the worker: weights, one batch (keys, values, mask, activations), and the copies."""
    width = facts.bytes_per_weight
    weights = facts.parameters * width
    if spec.control is not None and spec.control.model != spec.model:
        weights *= 2
    read, keys = length, length
    if getattr(spec.memory, "evicts", False):
        read, keys = _evicting(spec.memory, length)
    elif spec.memory.strides():
        keys += length // min(spec.memory.strides())
    cache = 2 * facts.n_layers * facts.kv_heads * facts.head_dim * length * width
    mask = 3 * read * keys * width
    activations = read * (12 * facts.hidden + 4 * facts.q_heads * facts.head_dim) * 4
    return RUNTIME + weights + batch * (cache + mask + activations) + copies * length * 16


def _evicting(memory: Any, length: int) -> tuple[int, int]:
    """Tokens of the largest forward, and entries it sees, under a memory that drops entries."""
    from engine.eviction.schedule import resident

    if memory.when != "streamed":
        return length, length
    return min(length, PIECE), resident(memory, 0, length, "streamed").peak


def smaller(held: Callable[[int, int], int], batch: int, length: int) -> str:
    """The largest batch that fits into this machine, else the longest prompt of one row; half of
    what would fit by the estimate.  `held`: bytes of that batch and length.
    """

    def most(size: Callable[[int], int], asked: int) -> int:
        found = bisect_right(range(1, asked + 1), memory_cap(), key=size)
        return found if found < asked else asked // 2

    if rows := most(lambda n: held(n, length), batch):
        return f"a batch of {rows} needs about {size(held(rows, length))}"
    if tokens := most(lambda n: held(1, n), length):
        told = f"a batch of 1 with prompts of {tokens:,} tokens needs about"
        return f"{told} {size(held(1, tokens))}"
    return "the model alone does not fit; a smaller one does, or fewer bytes a weight"


def memory_cap() -> int:
    return int(MEMORY_SHARE * memory_limit())


def check_caps(spec: Any, cost: Estimate, copies: int, field: str = "samples") -> None:
    """SpecError with the estimate and the cap that it passes."""
    told = (
        f"{copies:,} copies, {cost.tokens:,} tokens, about {duration(cost.seconds)} and "
        f"{size(cost.bytes)} of memory"
    )
    if copies > MAX_COPIES:
        most = MAX_COPIES // max(spec.settings.modulus, 1)
        raise refuse(
            field,
            f"this run would be {told}; the cap is {MAX_COPIES:,} copies: at most {most:,} samples",
        )
    if cost.bytes > (cap := memory_cap()):
        told = f"{told}; the cap on this machine is {size(cap)} of memory: {cost.less}"
        raise refuse(field, f"this run would be {told}")
    if cost.seconds > MAX_SECONDS:
        raise refuse(field, f"this run would be {told}; the cap is {duration(MAX_SECONDS)}")


def check_characters(sizes: list[int], spec: Any, facts: Any, field: str) -> None:
    """Refuse a text that cannot fit before it is tokenised: 300 MB would take minutes.

    No tokenizer in use spends fewer than one token on 32 characters of real text; the estimate that
    is told counts 4 characters a token.
    """
    longest = max(sizes, default=0)
    if longest > 32 * min(facts.positions, 1_000_000):
        tokens = longest // 4
        cost = estimate(spec, facts, spec.settings.modulus, tokens)
        raise refuse(
            field,
            f"the prompt has {longest:,} characters, about {tokens:,} tokens; the model takes "
            f"{facts.positions:,} positions: about {tokens - facts.positions:,} too many (it would "
            f"take about {duration(cost.seconds)} and {size(cost.bytes)} of memory)",
        )
    sizes = sizes[: spec.settings.samples]
    copies = len(sizes) * spec.settings.modulus
    cost = estimate(spec, facts, copies, sum(sizes) // 4 // max(len(sizes), 1))
    check_caps(spec, cost, copies, field)


def memory_limit() -> int:
    """Bytes of memory that this process may use: the machine's, or its control group's if less."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            limits.append(int(text))
    return min(limits)


def duration(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{max(seconds, 1):.0f} seconds" if seconds >= 1.5 else "1 second"


def size(count: int) -> str:
    for unit, width in (("TB", 1e12), ("GB", 1e9)):
        if count >= width:
            return f"{count / width:,.1f} {unit}"
    return f"{count / 1e6:.0f} MB"


def refuse(field: str, message: str) -> SpecError:
    return SpecError(FieldError(field, message))
