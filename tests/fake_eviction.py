"""A client with made-up decode runs: schema, plans, runs, tables and traces of the decode lane.

Numbers follow from budget and method, with noise fixed by a seed.  No model, no store, no network.
"""

from __future__ import annotations

import copy
import hashlib
import json
from itertools import combinations

import made_published
import made_trace as made
import numpy as np
import pandas as pd
from fake_client import FakeClient

from engine.client import NotFound, Refused
from engine.registry import FieldError


def field(name: str, default, help: str = "", **more) -> dict:
    about = {"name": name, "type": type(default).__name__, "default": default, "help": help}
    rest = {"label": "", "low": None, "high": None, "choices": [], "when": "", "long": False}
    return about | rest | more


MEMORIES = {
    "beacon": (
        "BeaconKV: stored past queries vote on what the cache keeps while decoding.",
        [
            field("n_beacon", 16, "stored past queries per query head", label="Beacons", low=0),
            field("n_recent", 16, "latest queries that vote", label="Recent", low=0),
            field(
                "selector",
                "continual",
                "how beacons are chosen",
                label="Selector",
                choices=["continual", "naive", "centroids", "random", "initial", "recent"],
            ),
            field("over_queries", "max", "over observing queries", choices=["max", "mean"]),
            field("over_heads", "max", "over the heads of a group", choices=["max", "mean"]),
            field("prefix", 4, "first positions that are never dropped", label="Prefix", low=0),
            field("protect", 32, "latest entries that are never dropped", low=0),
        ],
    ),
    "rkv": ("R-KV: importance and redundancy.", [field("mix", 0.1, "share of importance")]),
    "snapkv": ("SnapKV: the last queries vote.", [field("queries", 16, "last queries")]),
    "h2o": ("H2O: accumulated attention.", []),
    "streaming": ("StreamingLLM: the first and the latest.", [field("sinks", 4, "first entries")]),
    "random": ("Random: the floor.", []),
}
PROMPTS = {
    "lookback": (
        "A long text that needs looking back.",
        [
            field("story", "codes", "which story", choices=["codes", "plan", "ledger"]),
            field("length", 512, "tokens of the prompt", label="Prompt tokens", low=32),
        ],
    ),
    "reasoning": (
        "Problems of your own.",
        [field("prompts", [], "one JSON object a line; keys: prompt, answer", type="tuple")],
    ),
}
SETTINGS = [
    field("budgets", [96, 128, 256], "entries per KV head, or shares", type="tuple"),
    field("unit", "tokens", "what a budget is", choices=["tokens", "kept", "removed"]),
    field("fair", "time_average", "equal memory", choices=["time_average", "own"]),
    field("evict", "both", "what is compressed", choices=["both", "prompt", "decode"]),
    field("prefill", "whole", "how the prompt is read", choices=["whole", "streamed"]),
    field("mode", "forced", "forced or free", choices=["forced", "free"]),
    field("steps", 200, "tokens that are decoded", low=1),
    field("temperature", 0.0, "0 is greedy", low=0),
    field("top_p", 0.95, "nucleus", low=0, high=1),
    field("samples", 8, "prompts", low=1),
    field("seed", 0, "seed", low=0),
    field("batch", 4, "samples in one forward", low=1),
]
SPEC = {
    "kind": "decode",
    "model": {"id": "smollm2-135m", "revision": "", "dtype": "float32", "device": "cpu"},
    "task": {"kind": "lookback", "story": "codes", "length": 512},
    "methods": [{"kind": "beacon"}, {"kind": "rkv"}, {"kind": "streaming"}],
    **{f["name"]: f["default"] for f in SETTINGS},
}
EACH = made.DIM * 4 * made.KV_HEADS * made.LAYERS  # bytes of one entry
STRENGTH = {"beacon": 1.0, "rkv": 0.8, "snapkv": 0.75, "h2o": 0.55, "streaming": 0.3, "random": 0}


class FakeEviction(FakeClient):
    """FakeClient with the decode lane; `slow` traces are pending that many times."""

    def __init__(self, wild: bool = False, slow: int = 0):
        super().__init__(wild)
        self.slow, self.asked, self.stopped = slow, [], []
        self.stored = self.add(SPEC, "done", "Looking back")

    def add(self, spec: dict, status: str, title: str = "") -> str:
        whole = self.whole(spec)
        key = self.key(whole)
        self.specs[key] = whole
        self.jobs[key] = {"status": status, "title": title, "preset": False, "done": 40}
        return key

    @staticmethod
    def key(spec: dict) -> str:
        return hashlib.sha1(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:12]

    @staticmethod
    def whole(spec: dict) -> dict:
        """Defaults written out, as the service does it."""
        spec = copy.deepcopy(SPEC | spec)
        spec["model"] = SPEC["model"] | spec["model"]
        kind = spec["task"]["kind"]
        spec["task"] = {f["name"]: f["default"] for f in PROMPTS[kind][1]} | spec["task"]
        spec["methods"] = [{"kind": "full"}] + [
            {f["name"]: f["default"] for f in MEMORIES[m["kind"]][1]} | m
            for m in spec["methods"]
            if m["kind"] != "full"
        ]
        return spec

    def schema(self) -> dict:
        methods = {name: {"help": help, "fields": own} for name, (help, own) in MEMORIES.items()}
        prompts = {name: {"help": help, "fields": own} for name, (help, own) in PROMPTS.items()}
        about = {"prompts": prompts, "methods": methods, "settings": SETTINGS}
        return super().schema() | {"decode": about}

    # ---- before a run

    def _refusals(self, spec: dict) -> list[FieldError]:
        errors = []
        budgets = spec.get("budgets") or []
        if not budgets:
            errors.append(FieldError("budgets", "name at least one budget, such as 128"))
        for i, budget in enumerate(budgets):
            if not isinstance(budget, int | float) or budget <= 0:
                errors.append(FieldError(f"budgets[{i}]", f"must be above 0, not {budget!r}"))
            elif spec["unit"] == "tokens" and budget < 40:
                told = f"{budget} cannot hold a prefix of 4 and 32 protected entries; 40 can"
                errors.append(FieldError(f"budgets[{i}]", told))
        if not [m for m in spec.get("methods") or () if m["kind"] != "full"]:
            errors.append(FieldError("methods", "choose at least one method"))
        if spec["task"]["kind"] == "reasoning" and not spec["task"].get("prompts"):
            errors.append(FieldError("task.prompts", "no prompts; upload or paste a JSONL"))
        return errors

    def preview(self, values: dict) -> dict:
        if values.get("kind") != "decode":
            return super().preview(values)
        self._note("preview")
        if errors := self._refusals(values):
            raise Refused(*errors)
        spec = self.whole(values)
        key = self.key(spec)
        self.specs[key] = spec
        start, steps = len(made.prompt()), int(spec["steps"])
        arms = self.arms(spec)
        return {
            "kind": "decode",
            "key": key,
            "spec": spec,
            "phrase": "beacon and rkv, 96, 128 and 256 tokens",
            "copies": len(arms) * spec["samples"],
            "length": [start, start],
            "prompt_tokens": start,
            "steps": steps,
            "arms": [arm | self._shares(arm, start + steps) for arm in arms],
            "estimate": {"seconds": 95.0, "bytes": 1.2e9, "speed_source": "measured here"},
            "warnings": [],
            "model": {
                "n_layers": made.LAYERS,
                "layers": list(range(made.LAYERS)),
                "q_heads": made.KV_HEADS * made.GROUP,
                "kv_heads": made.KV_HEADS,
            },
            "sample": {"tokens": made.prompt(0, self.wild)},
        }

    @staticmethod
    def _shares(arm: dict, length: int) -> dict:
        budget = min(arm["budget"] or length, length)
        share = budget / length
        return {"kept_share": share, "removed_share": 1 - share, "bytes": budget * EACH}

    @staticmethod
    def tokens_of(asked: float, spec: dict, length: int) -> int:
        share = {"tokens": None, "kept": asked, "removed": 1 - asked}[spec["unit"]]
        return round(asked if share is None else share * length)

    def submit(self, values: dict, title: str = "") -> dict:
        if values.get("kind") != "decode":
            return super().submit(values, title)
        self._note("submit")
        if errors := self._refusals(values):
            raise Refused(*errors)
        return {"key": self.add(values, "running", title), "job": len(self.jobs)}

    def runs(self) -> list[dict]:
        decode = {k for k, spec in self.specs.items() if spec.get("kind") == "decode"}
        own = {k: self.jobs.pop(k) for k in list(self.jobs) if k in decode}
        rows = super().runs()
        self.jobs |= own
        return rows + [
            {"key": k, "kind": "decode", "title": job["title"], "status": job["status"]}
            | {"phrase": "3 methods", "model": "smollm2-135m", "task": "lookback"}
            | {"created": "2026-11-29T12:00:00Z", "preset": False, "curve": []}
            for k, job in own.items()
        ]

    # ---- a run

    def arms(self, spec: dict) -> list[dict]:
        length = len(made.prompt()) + int(spec["steps"])
        out = [{"arm": 0, "method": "full", "label": "full", "options": {}}]
        out[0] |= {"budget": None, "own_budget": None}
        for method in spec["methods"][1:]:
            options = {k: v for k, v in method.items() if k != "kind"}
            changed = {f["name"]: f["default"] for f in MEMORIES[method["kind"]][1]}
            more = ", ".join(f"{k} {v}" for k, v in options.items() if changed.get(k) != v)
            label = method["kind"] + (f", {more}" if more else "")
            for asked in spec["budgets"]:
                tokens = self.tokens_of(asked, spec, length)
                arm = {"arm": len(out), "method": method["kind"], "label": label}
                arm |= {"options": options, "budget": tokens, "own_budget": round(tokens * 1.07)}
                out.append(arm)
        return out

    def run(self, key: str) -> dict:
        spec = self.specs.get(key) or {}
        if spec.get("kind") != "decode":
            return super().run(key)
        self._note("run")
        job = self._job(key)
        shown = {
            "key": key, "title": job["title"], "spec": spec, "status": job["status"],
            "phrase": "3 methods, 3 budgets", "stale": False, "created": "2026-11-29T12:00:00Z",
            "provenance": {"model": spec["model"]["id"], "seconds": 91.0},
            "reason": "the worker was killed" if job["status"] == "failed" else None,
            "progress": {"done": job["done"], "total": 80, "seconds_left": 44.0},
            "methods": [], "pairs": [], "finding": None, "doubt": None, "warnings": [],
        }  # fmt: skip
        if job["status"] == "done":
            shown |= self.report(spec)
        return copy.deepcopy(shown)

    def report(self, spec: dict) -> dict:
        methods = [self._numbers(spec, arm) for arm in self.arms(spec)]
        for measure, sign in (("nll", 1), ("recall", -1)):
            points = [(sign * m[measure], m["total_bytes"]) for m in methods]
            for m, p in zip(methods, points, strict=True):
                beaten = any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)
                m[f"pareto_{measure}"] = not beaten
        for m in methods:
            pair = {x: self._test(m, methods[0], x) for x in ("nll", "recall")}
            m["against_full"] = pair if m["arm"] else dict.fromkeys(pair)
        pairs = [
            {"budget": a["budget"], "a": a["label"], "b": b["label"]}
            | {"arm_a": a["arm"], "arm_b": b["arm"], "measure": measure}
            | self._test(a, b, measure)
            for a, b in combinations(methods[1:], 2)
            if a["budget"] == b["budget"]
            for measure in ("nll", "recall")
        ]
        return {
            "methods": methods,
            "pairs": pairs,
            "finding": "At 128 tokens beacon recalls .71 of the facts, rkv .58; the full cache "
            "recalls .96",
            "doubt": "The difference of .13 (.02 to .24, 8 prompts) is resolved at 128 tokens and "
            "not at 256. Negative log-likelihoods do not differ.",
            "warnings": [],
            "n_samples": spec["samples"],
            "mode": spec["mode"],
            "published": made_published.rows(),
        }

    @staticmethod
    def _test(a: dict, b: dict, measure: str) -> dict:
        diff, half = a[measure] - b[measure], {"nll": 0.05, "recall": 0.1}[measure]
        p = 0.004 if abs(diff) > half else 0.3
        told = {"diff": diff, "low": diff - half, "high": diff + half, "p": p, "n": 8}
        return told | {"p_corrected": min(1.0, 3 * p), "resolved": p < 0.01}

    def _numbers(self, spec: dict, arm: dict) -> dict:
        length, full = len(made.prompt()) + int(spec["steps"]), arm["method"] == "full"
        told = self._shares(arm, length)
        share, rng = told["kept_share"], np.random.default_rng([arm["arm"], 8])
        lack = 0.0 if full else (1 - share) * (1.3 - STRENGTH[arm["method"]])
        if arm["options"].get("selector") in ("initial", "recent"):
            lack += 0.1
        nll, recall = 1.9 + 0.5 * lack + 0.01 * rng.normal(), max(0.02, 0.96 - 0.8 * lack)
        budget = arm["budget"] or length
        resident = length * 0.7 if full else min(budget * 0.97, length * 0.7)
        peak = length if full else min(length, round(budget * 1.07))
        events = 0 if full else max(0, int((length - budget) / (budget / 8)))
        state = {"beacon": 120_000, "h2o": 30_000}.get(arm["method"], 24_000 * (not full))
        slow = {"rkv": 3.1, "beacon": 2.2}.get(arm["method"], 1.1)
        told |= {"mean_resident": resident, "peak_resident": peak, "peak_bytes": peak * EACH}
        told |= {"mean_bytes": int(resident * EACH), "state_bytes": state}
        told |= {"total_bytes": int(resident * EACH) + state, "events": events}
        told |= {"nll": nll, "nll_low": nll - 0.06, "nll_high": nll + 0.06, "recall": recall}
        told |= {"recall_low": max(0, recall - 0.11), "recall_high": min(1, recall + 0.1)}
        told |= {"retention": 1.0 if full else recall * 0.9, "n": int(spec["samples"])}
        told |= {"tokens_per_s": 21.0 + 9 * (1 - share), "prefill_s": 0.8 + 0.1 * rng.random()}
        told |= {"event_ms_p50": None if full else 6 * slow}
        told |= {"event_ms_p99": None if full else 15 * slow}
        told |= {"step_ms_p50": 31.0 + 9 * share, "step_ms_p99": 44.0 + 14 * share}
        return arm | told | {"upkeep_share": 0.0 if full else 0.02 * slow}

    # ---- tables and traces

    def decode(
        self, key: str, table: str, arm: int | None = None, sample: int | None = None
    ) -> pd.DataFrame:
        self._note(f"decode_{table}")
        self._job(key)
        spec = self.specs[key]
        rows = []
        for each in self.arms(spec):
            for at in range(int(spec["samples"])):
                if arm in (None, each["arm"]) and sample in (None, at):
                    rows += getattr(self, f"_{table}")(spec, each, at)
        return pd.DataFrame(rows)

    def _marks(self, spec: dict, arm: dict, sample: int) -> list[dict]:
        start, rng = len(made.prompt()), np.random.default_rng([arm["arm"], sample])
        full, left = arm["method"] == "full", dict.fromkeys(("premise", "plan", *made.FACTS), 1.0)
        out = []
        for seen in range(start, start + int(spec["steps"]), 16):
            for mark in left:
                left[mark] *= 1.0 if full else 1 - 0.16 * rng.random()
                row = {"arm": arm["arm"], "sample": sample, "seen": seen, "mark": mark}
                out.append(row | {"retained": left[mark]})
        return out

    def _answers(self, spec: dict, arm: dict, sample: int) -> list[dict]:
        rng = np.random.default_rng([arm["arm"], sample, 1])
        return [
            {"arm": arm["arm"], "sample": sample, "question": i, "mark": mark}
            | {"correct": bool(rng.random() < 0.6), "logprob": -float(rng.gamma(1.0))}
            | {"tokens": 4, "retained": float(rng.random())}
            for i, mark in enumerate(made.FACTS)
        ]

    def _texts(self, spec: dict, arm: dict, sample: int) -> list[dict]:
        told = "".join(t["text"] for t in made.written(0, int(spec["steps"]), sample))
        return [{"arm": arm["arm"], "sample": sample, "text": told, "ended": "cap"}]

    def stop_trace(self, key: str, **asked: int) -> dict:
        self.stopped.append((key, asked))
        return {"dropped": True}

    def trace(self, key: str, arm: int, sample: int, layer: int, kv_head: int, **more: int) -> dict:
        self._note("trace")
        self.asked.append({"arm": arm, "sample": sample, "layer": layer, "kv_head": kv_head} | more)
        self._job(key)
        if self.slow > 0:
            self.slow -= 1
            return {"pending": True, "seconds": 4.2, "done": 96, "total": 1200}
        spec = self.specs[key]
        told = next((a for a in self.arms(spec) if a["arm"] == arm), None)
        if told is None:
            raise NotFound("no such arm")
        return made.trace(
            arm=arm, method=told["method"], budget=told["own_budget"] or 10**6,
            sample=sample, layer=layer, kv_head=kv_head, steps=int(spec["steps"]), wild=self.wild,
            far=more.get("far", 200),
        )  # fmt: skip
