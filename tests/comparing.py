"""A service with stored sweeps, in this process and without a network, for tests of comparisons."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from planted import rows
from starlette.testclient import TestClient

from engine.client import Client
from engine.owner import Engine
from engine.rows import ANSWERS, TOKENS
from engine.service import make_app
from engine.specs import SweepSpec
from engine.version import run_version

N, SIZE = 24, 8
MODEL = {"id": "smollm2-135m"}
BASE = {"model": MODEL, "task": {"kind": "access_code"}, "samples": N, "modulus": SIZE}


def spec(window: int = 4, stride: int = 4, **changes) -> SweepSpec:
    memory = {"kind": "pooled", "window": window, "stride": stride} if window else {"kind": "full"}
    return SweepSpec.from_dict(BASE | {"memory": memory} | changes)


def curve(stride: int | None, worst: float, n: int = N, top: float = 0.9, seed: int = 0):
    """[n, R] probabilities with one weak phase, and noise that all runs of one seed share."""
    noise = np.random.default_rng(seed).normal(0, 0.03, (n, SIZE))
    weak = np.arange(SIZE) % (stride or SIZE) == (stride or SIZE) - 1
    return np.clip(np.where(weak, worst, top) + noise, 0.01, 0.99)


def tokens(n: int, text: str = "t") -> pa.Table:
    """Six token rows for each copy; their texts tell whose they are at the fourth place."""
    made = [
        {
            "sample": sample,
            "shift": shift,
            "residue": shift,
            "position": position,
            "token_id": 10 + position if position != 4 else 100 + sum(map(ord, text)),
            "text": f" {position}" if position != 4 else f" {text}",
            "role": "text",
            "logprob": -1.0,
            "rank": 0,
            "entropy": 1.0,
            "top_ids": [1],
            "top_logprobs": [-0.5],
        }
        for sample in range(n)
        for shift in range(SIZE)
        for position in range(1, 7)
    ]
    return pa.Table.from_pylist(made, schema=TOKENS)


def store_run(store, made: SweepSpec, probs: np.ndarray, control: int | None = None, **changes):
    """A finished run; its id.  `text`: of its token rows, "" for none."""
    n, text = len(probs), changes.pop("text", "")
    store.remember(made)
    code = changes.pop("code", run_version(made.model))
    run = store.open_run(made.key, code, asked=changes.pop("asked", True))
    frame = rows(probs)
    found = tokens(n, text) if text else None
    store.add(run.id, pa.Table.from_pandas(frame, ANSWERS, preserve_index=False), found)
    values = {"status": "done", "copies": n * SIZE, "answers_expected": n * SIZE}
    values |= {"tokens_expected": found.num_rows if found else 0, "control_run": control}
    values |= {"noise_floor": 0.0, "provenance": {"dtype": "float32", "weights": "abc"}}
    store.change(run.id, **values | changes)
    store.verify(run.id)
    return run.id


class Here:
    """The engine of a folder and a client of its service; nothing is computed by a worker."""

    def __init__(self, home):
        self.engine = Engine(home)
        self.engine.ready.set()
        self.store = self.engine.store
        self.http = TestClient(
            make_app(self.engine, "token"),
            base_url="http://127.0.0.1",
            headers={"authorization": "Bearer token"},
        )
        self.client = Client("http://127.0.0.1", "token")
        self.client._http.close()
        self.client._http = self.http

    def close(self) -> None:
        self.store.close()
