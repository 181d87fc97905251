"""Benchmarks of the run lane and of the store, as ratios within one run where that is possible.

Times alternate between the two sides, and medians are compared, since machines drift.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

LENGTH = 512
BATCH = 4
ROUNDS = (5, 3, 2, 1)  # as many as fit
SECONDS = 140  # for one number format


@dataclass(frozen=True)
class Row:
    """One measured figure.  `goal` is words; `ok` is None where the goal does not apply here."""

    name: str
    value: float
    unit: str
    goal: str = ""
    ok: bool | None = None


def bench(say: Callable[[str], None] = print) -> dict:
    """All figures that this machine can give; `{machine, versions, rows}`."""
    rows: list[Row] = []
    for part in (
        controlled_rows,
        in_fresh_process,
        eviction_rows,
        gpu_rows,
        store_rows,
        page_rows,
        shared_rows,
    ):
        found = part(say)
        rows += found
    return {"machine": machine(), "versions": versions(), "rows": [vars(row) for row in rows]}


def machine() -> dict:
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    capability = torch.backends.cpu.get_cpu_capability()
    return {
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cpu": capability,
        "gpu": gpu,
    }


def versions() -> dict:
    from engine.version import library_versions

    return library_versions()


# ---- the run lane


def in_fresh_process(say: Callable[[str], None]) -> list[Row]:
    """Each number format in a process of its own, so that peak memory is that format's alone."""
    rows = []
    for dtype in ("float32", "bfloat16"):
        say(f"sweep, {dtype}")
        command = [sys.executable, "-m", "engine.bench.run", dtype]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        rows += [Row(**row) for row in json.loads(done.stdout.splitlines()[-1])]
    return rows


def model_rows(loaded: Any, dtype: str, rounds: int = ROUNDS[0]) -> list[Row]:
    """Ratios of one loaded model in one number format."""
    pooled = spec_of({"kind": "pooled", "window": 4, "stride": 4})
    ratio, _ = against(
        lambda: run(pooled, loaded, equal_copies(BATCH)),
        lambda: run(pooled.control, loaded, equal_copies(BATCH)),
        rounds,
    )
    rows = [Row(f"pooled S4 ÷ full cache, {dtype}", ratio, "×", "≤ 1.15", ratio <= 1.15)]
    late = late_slot(loaded.facts.vocab)
    whole = [replace(copy, shared=0) for copy in late]
    gain, _ = against(
        lambda: run(pooled, loaded, whole),
        lambda: run(pooled, loaded, late),
        max(1, rounds // 2),
        warm=True,
    )
    rows.append(Row(f"copies whole ÷ shared beginning, {dtype}", gain, "×", "≥ 2.5", gain >= 2.5))
    many = equal_copies(16)
    seconds = min(timed(lambda: run(pooled, loaded, many)) for _ in range(1 + (rounds > 3)))
    speed = 16 * LENGTH / seconds
    fast = dtype == "bfloat16" and loaded.model.device.type == "cpu"
    goal, ok = ("≥ 1200", speed >= 1200) if fast else ("", None)
    rows.append(Row(f"16 × {LENGTH} tokens, {dtype}", speed, "tok/s", goal, ok))
    gib = peak()
    goal, ok = ("≤ 1.40", gib <= 1.40) if fast else ("", None)
    return [*rows, Row(f"peak memory of the process, {dtype}", gib, "GiB", goal, ok)]


def brief_rows(loaded: Any, dtype: str, length: int = LENGTH) -> list[Row]:
    """One round of one batch each, for a format without instructions, out of reach of any goal."""
    pooled = spec_of({"kind": "pooled", "window": 4, "stride": 4})
    run(pooled, loaded, equal_copies(1, length=64))  # what only the first call costs
    copies = equal_copies(BATCH, length=length)
    full = timed(lambda: run(pooled.control, loaded, copies))
    seconds = timed(lambda: run(pooled, loaded, copies))
    told = f"{dtype} without its instructions, one round"
    return [
        Row(f"pooled S4 ÷ full cache, {told}", seconds / full, "×"),
        Row(f"{BATCH} × {length} tokens, {told}", BATCH * length / seconds, "tok/s"),
        Row(f"peak memory of the process, {dtype}", peak(), "GiB"),
    ]


def fitting(copy: float) -> int:
    """Rounds of `model_rows` that fit in SECONDS, where one copy takes so many seconds."""
    for rounds in ROUNDS:
        # Two sides and a warm-up; whole and shared copies; sixteen copies, twice if there is time.
        copies = 2 * BATCH * (rounds + 1) + 21 * max(1, rounds // 2) + 16 * (1 + (rounds > 3))
        if copies * copy <= SECONDS:
            return rounds
    return ROUNDS[-1]


def peak() -> float:
    """GiB of memory that this process had at most."""
    from engine.machine import peak_memory

    return peak_memory() / 2**30


def spec_of(memory: dict) -> Any:
    from engine.specs import SweepSpec

    task = {"kind": "access_code"}
    return SweepSpec.from_dict(
        {"memory": memory, "task": task, "batch": BATCH, "modulus": 16, "protocol": "outer"}
    )


def equal_copies(count: int, vocab: int = 40_000, length: int | None = None) -> list:
    """Copies of one length that share nothing."""
    from engine.copies import Copy

    rng, length = np.random.default_rng(0), length or LENGTH
    return [
        Copy(
            0,
            r,
            r,
            tuple(rng.integers(10, vocab, length).tolist()),
            ("text",) * length,
            (64, 65),
            (7,),
            (),
            length - 8,
        )
        for r in range(count)
    ]


def late_slot(vocab: int) -> list:
    """A pad slot at three quarters of a 512-token prompt, lengthened 16 times."""
    from engine.copies import LogicalSample, Slot, phase_copies

    tokens = tuple(np.random.default_rng(1).integers(10, min(vocab, 40_000), LENGTH).tolist())
    at = LENGTH * 3 // 4
    sample = LogicalSample(
        index=0,
        tokens=tokens,
        roles=("text",) * LENGTH,
        target=(at + 4, at + 5),
        answer=(7,),
        rivals=(),
        rival_texts=(),
        answer_text="",
        slots=(Slot("pad", at),),
        filler=9,
        context_end=LENGTH - 8,
    )
    return phase_copies(sample, "lengthen", 16)


def run(spec: Any, loaded: Any, copies: list) -> None:
    """A sweep with its head and its rows, thrown away."""
    from engine.run.sweep import sweep

    for _ in sweep(spec, loaded, copies):
        pass


def timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def against(
    work: Callable[[], None], other: Callable[[], None], rounds: int, warm: bool = False
) -> tuple[float, float]:
    """(median ratio of alternating runs, median seconds of `work`), after one warm-up of each."""
    if not warm:
        work(), other()
    pairs = [(timed(work), timed(other)) for _ in range(rounds)]
    return statistics.median(a / b for a, b in pairs), statistics.median(a for a, _ in pairs)


def controlled_rows(say: Callable[[str], None]) -> list[Row]:
    from engine.bench import controlled as bench_controlled

    if reason := bench_controlled.missing():
        say(f"controlled models are not measured: {reason}")
        return []
    say("a benchmark of a controlled model")
    return [Row(*row) for row in bench_controlled.measure()]


def eviction_rows(say: Callable[[str], None]) -> list[Row]:
    from engine.bench import eviction as bench_eviction

    if reason := bench_eviction.missing():
        say(f"eviction is not measured: {reason}")
        return []
    say("decode through caches that forget")
    return [Row(*row) for row in bench_eviction.measure()]


def gpu_rows(say: Callable[[str], None]) -> list[Row]:
    from engine.bench import gpu as bench_gpu

    if reason := bench_gpu.missing():
        say(f"decode at a real model's size is not measured: {reason}")
        return []
    say("decode at a real model's size")
    return [Row(*row) for row in bench_gpu.measure()]


# ---- the store and the look lane


def store_rows(say: Callable[[str], None]) -> list[Row]:
    from engine.bench.store import measure

    say("store, one million token rows")
    return [Row(*row) for row in measure()]


def page_rows(say: Callable[[str], None]) -> list[Row]:
    from engine.bench import pages as bench_pages

    if reason := bench_pages.missing():
        say(f"pages are not measured: {reason}")
        return []
    say("pages, in a browser")
    return [Row(*row) for row in bench_pages.measure()]


def shared_rows(say: Callable[[str], None]) -> list[Row]:
    from engine.bench import sharing as bench_sharing

    say("what a team shares: library, views, readers")
    return [Row(*row) for row in bench_sharing.measure()]


def main(dtype: str) -> None:
    """One number format, as a JSON line on standard output."""
    from engine.estimate import has_bf16
    from engine.models import catalog
    from engine.models.loader import load_model
    from engine.specs import ModelSpec

    catalog.pull("smollm2-135m", lambda text: print(text, file=sys.stderr))
    loaded = load_model(ModelSpec(dtype=dtype))
    if dtype == "bfloat16" and not has_bf16():
        rows = brief_rows(loaded, dtype)
    else:
        pooled, one = spec_of({"kind": "pooled", "window": 4, "stride": 4}), equal_copies(1)
        copy = min(timed(lambda: run(pooled, loaded, one)) for _ in range(2))
        rows = model_rows(loaded, dtype, fitting(copy))
    print(json.dumps([vars(row) for row in rows]))


if __name__ == "__main__":
    main(sys.argv[1])
