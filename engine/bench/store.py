"""Benchmarks of the look lane: a stored run of a million token rows, from ingest to its curve.

The rows are made, not measured: only their number and shape matter here.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from engine import rows

SAMPLES, MODULUS, LENGTH = 120, 16, 521  # 120 × 16 × 521 = 1 000 320 token rows
GOLD = 6  # answer tokens


def measure() -> list[tuple]:
    """Rows of the benchmark table: (name, value, unit, goal, ok)."""
    from engine.client import Client
    from engine.serving import running

    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("PHASESCOPE_HOME")
        os.environ["PHASESCOPE_HOME"] = folder
        try:
            key, speed = seed(Path(folder))
            out, back = travel(Path(folder), key)
            with running() as address:
                client = Client(address.url, address.token)
                first = _seconds(lambda: client.run(key))
                again = _seconds(lambda: client.run(key))
                table = _seconds(lambda: client.tokens(key))
                client.close()
        finally:
            if before is None:
                del os.environ["PHASESCOPE_HOME"]
            else:
                os.environ["PHASESCOPE_HOME"] = before
    return [
        ("ingest of token rows", speed, "rows/s", "≥ 200000", speed >= 200_000),
        ("numbers of a run of 1e6 token rows, first time", first, "s", "", None),
        ("the same again", again, "s", "≤ 1", again <= 1),
        ("1e6 token rows over HTTP", table, "s", "", None),
        ("bundle of 1e6 token rows, export", out, "s", "≤ 2", out <= 2),
        ("bundle of 1e6 token rows, import", back, "s", "≤ 2", back <= 2),
    ]


def travel(home: Path, key: str) -> tuple[float, float]:
    """Seconds to export a run's own rows as a bundle, and to import it into an empty store."""
    from engine.results import Results
    from engine.store import Store
    from engine.store.bundles import export_bundle, import_bundle

    store, made = Store(home), []
    try:
        run = dataclasses.replace(Results(store).pick(key), control_run=None)
        out = _seconds(lambda: made.append(export_bundle(store, [run])))
    finally:
        store.close()
    with tempfile.TemporaryDirectory() as folder:
        other = Store(Path(folder))
        try:
            return out, _seconds(lambda: import_bundle(other, made[0]))
        finally:
            other.close()


def seed(home: Path, title: str = "a million token rows") -> tuple[str, float]:
    """Store a finished run of 1e6 token rows and its control; returns its key and rows per
    second.
    """
    from engine.specs import SweepSpec
    from engine.store import Store

    spec = SweepSpec.from_dict(made_spec({"window": 4, "stride": 4}))
    store = Store(home)
    try:
        control, _ = _fill(store, spec.control, title, 0.0)
        run, speed = _fill(store, spec, title, 0.4)
        store.change(run, control_run=control)
    finally:
        store.close()
    return spec.key, speed


def made_spec(memory: dict) -> dict:
    return {
        "memory": {"kind": "pooled", **memory},
        "task": {"kind": "access_code"},
        "samples": SAMPLES,
        "modulus": MODULUS,
        "protocol": "outer",
    }


def _fill(
    store: Any, spec: Any, title: str, depth: float, length: int = LENGTH
) -> tuple[int, float]:
    """Id of the stored run, and token rows per second of its ingest."""
    from engine.version import code_version

    store.remember(spec)
    run = store.open_run(spec.key, code_version(), asked=depth > 0, title=title)
    seconds, copies = 0.0, SAMPLES * MODULUS
    for sample in range(SAMPLES):
        answers, tokens = _answers(sample, depth), _tokens(sample, length)
        start = time.perf_counter()
        store.add(run.id, answers, tokens)
        seconds += time.perf_counter() - start
    expected = dict(copies=copies, answers_expected=copies, tokens_expected=copies * length)
    store.change(run.id, status="done", provenance={"made": "for the benchmark"}, **expected)
    store.verify(run.id)
    store.checkpoint()
    return run.id, copies * length / seconds


def _answers(sample: int, depth: float) -> pa.Table:
    rng = np.random.default_rng(sample)
    table = []
    for shift in range(MODULUS):
        logprobs = np.log(0.95 - depth * (shift % 4 == 0) - 0.1 * rng.random(GOLD))
        table.append(
            {
                "sample": sample,
                "shift": shift,
                "residue": (shift + 88) % MODULUS,
                "layer": -1,
                "length": LENGTH - GOLD + 1,
                "target_position": 88 + shift,
                "query_position": LENGTH - GOLD,
                "origin": 0,
                "correct": bool(logprobs.sum() > np.log(0.3)),
                "logprob": float(logprobs.sum()),
                "token_logprobs": logprobs.tolist(),
                "token_ranks": [0] * GOLD,
                "token_residues": [(shift + 88 + i) % MODULUS for i in range(GOLD)],
                "rival_logprobs": [],
            }
        )
    return pa.Table.from_pylist(table, schema=rows.ANSWERS)


def _tokens(sample: int, length: int) -> pa.Table:
    rng = np.random.default_rng(sample)
    count, top = MODULUS * length, 5
    shifts = np.repeat(np.arange(MODULUS), length)
    ids = rng.integers(0, 49_000, count)
    ends = pa.array(np.arange(0, count * top + 1, top, dtype=np.int32))
    columns = {
        "sample": np.full(count, sample),
        "shift": shifts,
        "residue": (shifts + 88) % MODULUS,
        "position": np.tile(np.arange(1, length + 1), MODULUS),
        "token_id": ids,
        "text": [f" w{i % 5000}" for i in ids],
        "role": [
            "answer" if t > length - GOLD else "text"
            for t in np.tile(np.arange(1, length + 1), MODULUS)
        ],
        "logprob": -rng.exponential(2.0, count),
        "rank": rng.integers(0, 50, count),
        "entropy": rng.random(count) * 4,
        "top_ids": pa.ListArray.from_arrays(
            ends, pa.array(rng.integers(0, 49_000, count * top), pa.int32())
        ),
        "top_logprobs": pa.ListArray.from_arrays(
            ends, pa.array(-rng.random(count * top), pa.float32())
        ),
    }
    arrays = [
        columns[f.name]
        if isinstance(columns[f.name], pa.Array)
        else pa.array(columns[f.name]).cast(f.type)
        for f in rows.TOKENS
    ]
    return pa.Table.from_arrays(arrays, schema=rows.TOKENS)


def _seconds(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
