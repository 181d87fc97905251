"""A client without a service: real specs and statistics over made-up rows, for tests of pages.

Rows are drawn from a smooth phase curve with prompt noise, fixed by a seed; texts hold what a page
must show literally.  No model, no store, no network.
"""

from __future__ import annotations

import base64
import copy
import re

import numpy as np
import pandas as pd

from engine import plan
from engine.analysis.report import report
from engine.client import NotFound, Refused, Unavailable
from engine.models.facts import Facts
from engine.registry import MEMORIES, TASKS, SpecError
from engine.specs import SweepSpec, settings_schema

WILD = ["<b>", "<img src=x onerror=alert(1)>", "$\\alpha$", "\u200f", "\u200d", "**x**", " a\u0301"]
TEXT = (
    '"""======\nTiling helpers for the decode kernel.\n"""\n\nHEAD_DIM = 128\nBLOCK_N = '
    "8\nSTAGES = 32\n"
    "def plan(seq_len):\n    return seq_len // BLOCK_N\nassert STAGES == 32\nassert BLOCK_N == "
)
FACTS = Facts(30, tuple(range(30)), 9, 3, 64, 576, 134_515_008, 49_152, 8_192, 4, "llama")
PRESETS = {
    "smollm2-onehot": ("The positive control", {"gate": "onehot", "offset": 2}),
    "smollm2-mean": ("Uniform pooling", {"gate": "mean"}),
    "smollm2-full": ("The full cache", None),
}


class FakeClient:
    """The methods of engine.client.Client that pages call; `calls` records them."""

    def __init__(self, wild: bool = False):
        self.wild, self.calls, self.down = wild, [], False
        self.specs: dict[str, dict] = {}
        self.jobs: dict[str, dict] = {}
        self.presets = []
        for name, (title, gate) in PRESETS.items():
            memory = {"kind": "full"} if gate is None else {"kind": "pooled", **gate}
            spec = SweepSpec.from_dict(
                {
                    "model": {"dtype": "bfloat16"},
                    "memory": memory,
                    "task": {"kind": "access_code"},
                    "modulus": 16,
                }
            )
            self.specs[spec.key] = spec.to_dict()
            self.jobs[spec.key] = {"status": "done", "title": title, "preset": True, "done": 192}
            self.presets.append((name, title, spec))

    def _note(self, name: str) -> None:
        self.calls.append(name)
        if self.down:
            raise Unavailable("no service")

    # ---- what there is

    def health(self) -> dict:
        self._note("health")
        return {"version": "0", "read_only": False, "demo": False}

    def schema(self) -> dict:
        self._note("schema")
        tasks = TASKS.schema()
        for name, about in tasks.items():
            about["protocols"] = list(TASKS[name]().protocols())
        cards = []
        for name, title, spec in self.presets:
            shown = self.show(spec.key)
            cards.append(
                {
                    "name": name,
                    "title": title,
                    "caption": "A preset.",
                    "spec": spec.to_dict(),
                    "key": spec.key,
                    "stored": True,
                    "finding": shown["finding"],
                    "curve": [r["value"] for r in shown["shifts"]],
                    "control_curve": [
                        r["value"] for r in (shown["control"] or {}).get("shifts", [])
                    ],
                }
            )
        models = [
            {
                "name": "smollm2-135m",
                "label": "SmolLM2 135M Instruct",
                "help": "30 layers",
                "installed": True,
            },
        ]
        return {
            "models": models,
            "memories": MEMORIES.schema(),
            "tasks": tasks,
            "presets": cards,
            **settings_schema(),
        }

    def preview(self, values: dict) -> dict:
        self._note("preview")
        spec = self._check(values)
        self.specs[spec.key] = spec.to_dict()
        return self._plan(spec)

    def _check(self, values: dict) -> SweepSpec:
        try:
            return SweepSpec.from_dict(copy.deepcopy(values))
        except SpecError as error:
            raise Refused(*error.errors) from None

    def _plan(self, spec: SweepSpec) -> dict:
        stride, modulus = spec.stride, spec.settings.modulus
        pieces = WILD + re.findall(r"\n+| ?\w+| ?[^\w\s]|\s", TEXT) if self.wild else None
        pieces = pieces or re.findall(r"\n+| ?\w+| ?[^\w\s]|\s", TEXT)
        answer = next(i for i, t in enumerate(pieces) if t.strip() == "8")
        tokens = [
            {
                "position": i,
                "id": 100 + i,
                "text": text,
                "role": "pad" if text == "=" else "target" if i == answer else "text",
                "phase": i % stride if stride else None,
                "window": i // stride if stride else None,
                "target": i == answer,
                "pad": text == "=" and i < 12,
            }
            for i, text in enumerate(pieces)
        ]
        design = [
            {"residue": r, "n": spec.settings.samples, "target_mean": 40.0 + r, "target_sd": 0.0}
            | {"query_mean": 80.0, "length": 81.0}
            for r in range(modulus)
        ]
        copies = spec.settings.samples * modulus
        return {
            "key": spec.key,
            "spec": spec.to_dict(),
            "phrase": spec.memory.phrase(),
            "copies": copies,
            "tokens": copies * 82,
            "length": [81, 81],
            "answer": {"text": "8", "tokens": [{"id": 7, "text": "8"}]},
            "rivals": [{"text": "32", "id": 9, "token": "32"}],
            "filler": {"text": "=", "id": 5},
            "strip": {
                "shift": 0,
                "tokens": tokens,
                "slots": [{"name": "pad", "at": 0}],
                "window": getattr(spec.memory, "window", None),
                "stride": stride,
                "origin": 0,
                "context_end": 70,
                "shares": plan.shares(spec, FACTS) if stride else None,
                "layers": [plan.compressed(spec, FACTS), 30],
            },
            "design": design,
            "estimate": {"seconds": 41.0, "bytes": 1.04e9, "speed_source": "measured here"},
            "warnings": [],
            "model": {"n_layers": 30, "q_heads": 9},
        }

    def spec(self, key: str) -> dict:
        self._note("spec")
        if key not in self.specs:
            raise NotFound(key)
        return copy.deepcopy(self.specs[key])

    # ---- runs

    def submit(self, values: dict, title: str = "") -> dict:
        self._note("submit")
        spec = self._check(values)
        self.specs[spec.key] = spec.to_dict()
        self.jobs[spec.key] = {"status": "running", "title": title, "preset": False, "done": 60}
        return {"key": spec.key, "job": len(self.jobs)}

    def finish(self, key: str, status: str = "done") -> None:
        self.jobs[key]["status"] = status

    def cancel(self, key: str) -> dict:
        self._note("cancel")
        self._job(key)["status"] = "cancelled"
        return {"cancelled": True}

    def _job(self, key: str) -> dict:
        if key not in self.jobs:
            raise NotFound(key)
        return self.jobs[key]

    def runs(self) -> list[dict]:
        self._note("runs")
        out = []
        for key, job in self.jobs.items():
            spec = SweepSpec.from_dict(self.specs[key])
            out.append(
                {
                    "key": key,
                    "title": job["title"],
                    "phrase": spec.memory.phrase(),
                    "model": spec.model.id,
                }
                | {
                    "task": spec.task.kind,
                    "status": job["status"],
                    "created": "2026-11-29T12:00:00Z",
                }
                | {"finding": None, "worst": 0.301, "gap": 0.48, "period": 4, "curve": []}
                | {"stale": False, "preset": job["preset"]}
            )
        return out

    def run(self, key: str) -> dict:
        self._note("run")
        self._job(key)
        return self.show(key)

    def show(self, key: str) -> dict:
        job, spec = self._job(key), SweepSpec.from_dict(self.specs[key])
        total = spec.settings.samples * spec.settings.modulus
        shown = {
            "key": key,
            "title": job["title"],
            "spec": spec.to_dict(),
            "phrase": spec.memory.phrase(),
            "provenance": {"model": spec.model.id, "weights": "sha256:12ab", "seconds": 38.2},
            "status": job["status"],
            "reason": "the worker was killed" if job["status"] == "failed" else None,
            "progress": {"done": min(total, job["done"]), "total": total, "seconds_left": 24.0},
            "stale": False,
            "created": "2026-11-29T12:00:00Z",
        }
        own = self.answers(key)
        control = None if spec.control is None else self.answers(key, control=True)
        numbers = report(
            own,
            control,
            modulus=spec.settings.modulus,
            strides=spec.memory.strides(),
            window=getattr(spec.memory, "window", None),
            measure=spec.settings.measure,
            protocol=spec.settings.protocol,
            noise_floor=1e-7,
        )
        written = {"worst": {"phase": 0, "text": " 32\n<b>"}, "best": {"phase": 2, "text": " 8\n"}}
        scan = self._scan() if spec.settings.scan else None
        return (
            shown
            | numbers
            | {"written": written if job["status"] == "done" else None, "scan": scan}
        )

    @staticmethod
    def _scan() -> dict:
        values = [0.8 - (0.4 if i in (8, 18) else 0.02 * (i % 3)) for i in range(30)]
        rows = [
            {"layer": i, "gold_prob": v, "low": v - 0.05, "high": v + 0.05}
            for i, v in enumerate(values)
        ]
        return {
            "layers": rows,
            "control": {"gold_prob": 0.81},
            "keep": [8, 18],
            "suggestion": "all but 8, 18",
        }

    def answers(self, key: str, control: bool = False, scan: bool = False) -> pd.DataFrame:
        job, spec = self._job(key), SweepSpec.from_dict(self.specs[key])
        if control and spec.control is None:
            raise NotFound("no control")
        rng = np.random.default_rng(3 + control)
        modulus, stride = spec.settings.modulus, spec.stride or 4
        flat = control or spec.memory.kind == "full"
        lost = getattr(spec.memory, "gate", "") == "onehot"
        shape = np.cos(2 * np.pi * (np.arange(modulus) % stride - 2) / stride)
        rows = []
        for sample in range(spec.settings.samples):
            shift_of = 1.4 if flat else 0.2 + (0.9 if lost else 0.1) * shape
            logits = shift_of + rng.normal(0, 0.15) + rng.normal(0, 0.1, modulus) * (not flat)
            for shift in range(modulus):
                gold = 1 / (1 + np.exp(-np.broadcast_to(logits, modulus)[shift]))
                rows.append(
                    {"sample": sample, "shift": shift, "residue": shift, "layer": -1, "length": 81}
                    | {
                        "target_position": 48 + shift,
                        "query_position": 80,
                        "origin": 0,
                        "correct": gold > 0.5,
                    }
                    | {"logprob": float(np.log(gold)), "token_logprobs": [float(np.log(gold))]}
                    | {"token_ranks": [0 if gold > 0.5 else 1], "token_residues": [shift]}
                    | {"rival_logprobs": [float(np.log((1 - gold) * 0.6))]}
                )
        frame = pd.DataFrame(rows)
        return (
            frame.head(job["done"])
            if job["status"] in ("running", "cancelled", "failed")
            else frame
        )

    def tokens(
        self, key: str, sample: int | None = None, shift: int | None = None, control: bool = False
    ) -> pd.DataFrame:
        self._note("tokens")
        self._job(key)
        spec = SweepSpec.from_dict(self.specs[key])
        strip, rows = self._plan(spec)["strip"]["tokens"], []
        gold = self.answers(key, control)
        for at in range(spec.settings.modulus) if shift is None else [shift]:
            score = float(
                gold[(gold["sample"] == sample) & (gold["shift"] == at)]["logprob"].iloc[0]
            )
            for token in strip[1:]:
                rows.append(
                    self._token(
                        sample,
                        at,
                        token["position"],
                        token["id"],
                        token["text"],
                        token["role"],
                        -1.0,
                    )
                )
            rows.append(self._token(sample, at, len(strip), 7, "8", "answer", score))
        return pd.DataFrame(rows)

    def names(self, key: str, ids: list[int]) -> dict[int, str]:
        self._note("names")
        return {token: {7: "8", 9: "32", 3: "<b>"}[token] for token in ids}

    @staticmethod
    def _token(sample, shift, position, number, text, role, logprob) -> dict:
        jitter = 0.1 * np.sin(position + shift)
        return {
            "sample": sample,
            "shift": shift,
            "residue": shift,
            "position": position,
            "token_id": number,
            "text": text,
            "role": role,
            "logprob": logprob + (jitter if role != "answer" else 0.0),
            "rank": 0,
            "entropy": 1.0,
            "top_ids": [7, 9, 3],
            "top_logprobs": [logprob, -1.5, -3.0],
        }

    def attention(
        self, key, layer, head, sample=0, shift=0, queries=None, keys=None, control=False
    ) -> dict:
        self._note("attention")
        self._job(key)
        low, high = queries or (0, 48)
        rng = np.random.default_rng(layer * 9 + head)
        rows, columns = high - low, 24
        cells = rng.dirichlet(np.full(columns, 0.2), rows).astype("<f4")
        labels = [{"kind": "token", "start": i, "stop": i + 1} for i in range(4)]
        labels += [
            {"kind": "entry", "start": 4 + 4 * i, "stop": 8 + 4 * i} for i in range(columns - 4)
        ]
        return {
            "cells": base64.b64encode(cells.tobytes()).decode(),
            "shape": [rows, columns],
            "query_ranges": [[low + i, low + i + 1] for i in range(rows)],
            "key_labels": labels,
            "layer": layer,
            "head": head,
            "sample": sample,
            "shift": shift,
            "max": False,
        }
