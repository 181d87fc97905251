"""A client that compares made-up runs, in the shape of the service's answers."""

from __future__ import annotations

import copy
import difflib
import re
from typing import ClassVar

from fake_eviction import FakeEviction
from made_family import members

from engine.client import NotFound, Refused
from engine.registry import FieldError
from engine.specs import SweepSpec

NUMBERS = ("mean", "mean_low", "mean_high", "worst", "worst_phase", "gap", "gap_null", "gap_p")
MEASURES = {"mean": "mean accuracy", "worst": "worst phase", "gap": "gap"}
BYTES = {"full": 256.0, "mean": 32.0, "onehot": 42.7}


class FakeCompare(FakeEviction):
    """FakeEviction with comparisons; `wild` names hold what a page must show literally."""

    def __init__(self, wild: bool = False):
        super().__init__(wild)
        self.varied: list[dict] = []

    _shown: ClassVar[dict[tuple, dict]] = {}  # rows are fixed by a seed: made once a session

    def show(self, key: str) -> dict:
        place = (key, *self._job(key).items())
        if place not in self._shown:
            self._shown[place] = super().show(key)
        return copy.deepcopy(self._shown[place])

    # ---- runs to compare

    def add_sweep(self, gate: str = "mean", status: str = "done", title: str = "", **more) -> str:
        """A pooled run of its own; returns its key."""
        values = {"model": {"dtype": "bfloat16"}, "task": {"kind": "access_code"}, "modulus": 16}
        memory = {"kind": "pooled", "gate": gate, **more.pop("memory", {})}
        spec = SweepSpec.from_dict(values | {"memory": memory} | more)
        self.specs[spec.key] = spec.to_dict()
        self.jobs[spec.key] = {"status": status, "title": title, "preset": False, "done": 60}
        return spec.key

    def eight(self) -> list[str]:
        """Keys of eight runs on one task, the two presets' among them."""
        keys = [spec.key for _, _, spec in self.presets][:2]
        for window in (2, 6, 8, 12, 16, 24):
            stride = 2 if window < 8 else 8
            keys.append(self.add_sweep(memory={"window": window, "stride": stride}))
        return keys

    def delete(self, key: str) -> dict:
        self._job(key)
        del self.jobs[key], self.specs[key]
        return {"deleted": True}

    def benchmark(self, wait: bool = True) -> dict:
        return {"members": copy.deepcopy(list(members())), "published": []}

    # ---- GET /compare

    def compare(self, keys: list[str], base: str | None = None) -> dict:
        self._note("compare")
        if not 1 <= len(keys) <= 8 or len(set(keys)) < len(keys):
            raise Refused(FieldError("keys", "name 2 to 8 runs, each once"))
        for key in keys:
            if key not in self.jobs:
                raise NotFound(f"no run {key!r} here")
        runs = [self._side(key) for key in keys]
        sweeps = [key for key in keys if self.specs[key].get("kind") != "decode"]
        controlled = [k for k in sweeps if SweepSpec.from_dict(self.specs[k]).control is not None]
        if base is not None and base not in keys:
            raise Refused(FieldError("base", f"{base} is none of the compared runs"))
        is_control = base is None and bool(controlled)
        if len(keys) == 1 and not is_control and sweeps:
            raise Refused(FieldError("keys", f"{keys[0]} alone has no control to stand beside"))
        if is_control:
            runs = [self._control(controlled[0]), *runs]
        else:
            base = base or keys[0]
            runs.sort(key=lambda run: run["key"] != base)
        return copy.deepcopy(
            {
                "base": runs[0]["key"],
                "base_is_control": is_control,
                "runs": runs,
                "fields": self._fields(runs),
                "measures": self._measures(runs),
                "adjusted": f"Holm, {3 * (len(runs) - 1)} comparisons",
                "axes": self._axes(runs),
                "finding": "Uniform pooling keeps the worst phase: .57 against .25",
                "doubt": "They differ in mean by .09, which 12 prompts do not separate.",
                "warnings": [],
            }
        )

    def _side(self, key: str) -> dict:
        job, spec = self.jobs[key], self.specs[key]
        decode = spec.get("kind") == "decode"
        told = {"key": key, "kind": "decode" if decode else "sweep", "title": job["title"]}
        told |= {"status": job["status"], "stale": False, "model": spec["model"]["id"]}
        told |= {"task": spec["task"]["kind"], "is_control": False, "of": None, "subtitle": ""}
        numbers = dict.fromkeys([*NUMBERS, "sigma", "period", "period_p", "chance", "nll"])
        numbers["recall"] = None
        empty = {"residues": [], "folded": [], "spectrum": [], "kv_bytes": None}
        if decode:
            arms = self.report(spec)["methods"] if job["status"] == "done" else []
            best = arms[2] if arms else {}
            numbers |= {"nll": best.get("nll"), "recall": best.get("recall")}
            told |= {"name": "beacon 128", "phrase": "3 methods", "modulus": None, "stride": None}
            told |= {"window": None, "measure": "recall", "n_samples": spec["samples"]}
            return told | empty | {"numbers": numbers, "bytes_per_token": 4096.0}
        memory = spec["memory"]
        gate = memory.get("gate") or "full"
        name = (
            "Full cache" if gate == "full" else f"W{memory['window']} S{memory['stride']}, {gate}"
        )
        told |= {"name": f"{name} <b>$x$" if self.wild else name, "phrase": name}
        told |= {"modulus": spec["modulus"], "stride": memory.get("stride")}
        told |= {"window": memory.get("window"), "n_samples": spec["samples"]}
        told |= {"measure": spec["measure"], "bytes_per_token": BYTES.get(gate, 20.0)}
        return told | empty | self._numbers_of(self.show(key), numbers)

    @staticmethod
    def _numbers_of(shown: dict, numbers: dict) -> dict:
        period = shown.get("period") or {}
        mine = {name: shown.get(name) for name in NUMBERS} | {"sigma": shown.get("sigma")}
        mine |= {"period": period.get("detected"), "period_p": period.get("p"), "chance": 0.01}
        rows = [
            {"residue": r["residue"], "value": r["value"], "low": r.get("value_low", r["low"])}
            | {"high": r.get("value_high", r["high"]), "n": r["n"]}
            for r in shown["residues"]
        ]
        phases = [
            {"phase": r["phase"], "value": r["value"], "low": r["low"], "high": r["high"], "n": 9}
            for r in shown.get("folded") or []
        ]
        spectrum = [
            {"period": r["period"], "power": r.get("power", r.get("share", 0))}
            for r in period.get("spectrum") or []
        ]
        told = {"numbers": numbers | mine, "residues": rows, "folded": phases}
        return told | {"spectrum": spectrum}

    def _control(self, key: str) -> dict:
        told = self._side(key)
        control = self.show(key)["control"] or {"residues": []}
        told |= self._numbers_of(control, dict.fromkeys(told["numbers"]))
        told |= {"key": f"{key}c", "name": "Full cache", "is_control": True, "of": key}
        return told | {"stride": None, "window": None, "bytes_per_token": 256.0, "status": "done"}

    def _fields(self, runs: list[dict]) -> list[dict]:
        rows = {
            "memory.window": ("Window W", [run["window"] for run in runs]),
            "memory.stride": ("Stride S", [run["stride"] for run in runs]),
            "task.kind": ("Task", [run["task"] for run in runs]),
            "model.id": ("Model", [run["model"] for run in runs]),
        }
        return [
            {"field": name, "label": label, "values": values}
            | {"differs": len({str(v) for v in values}) > 1}
            for name, (label, values) in rows.items()
        ]

    def _measures(self, runs: list[dict]) -> list[dict]:
        base, out = runs[0], []
        for name, label in MEASURES.items():
            rows = []
            for run in runs[1:]:
                a, b = run["numbers"].get(name), base["numbers"].get(name)
                row = {"key": run["key"], "n": 12, "reason": ""}
                if a is None or b is None or run["task"] != base["task"]:
                    told = f"asked {run['task']}, the baseline {base['task']}"
                    blank = dict.fromkeys(("diff", "low", "high", "p", "p_adjusted"))
                    rows.append(row | blank | {"reason": told})
                    continue
                diff = a - b
                small = abs(diff) < 0.05
                p = 0.4 if small else 0.0004
                row |= {"diff": diff, "low": diff - 0.04, "high": diff + 0.04, "p": p}
                rows.append(row | {"p_adjusted": min(1.0, 9 * p)})
            out.append({"name": name, "label": label, "rows": rows})
        return out

    @staticmethod
    def _axes(runs: list[dict]) -> dict:
        def why(name: str, run: dict) -> str:
            decode = run["kind"] == "decode"
            if name == "timeline":
                return "" if decode else "only decode runs keep a timeline"
            if name == "pairs":
                return ""
            if decode:
                return "a decode run has no phases"
            other = run["task"] != runs[0]["task"]
            return "another task, so other prompts" if other and name == "tokens" else ""

        axes = {}
        for name in ("curve", "residues", "spectrum", "tokens", "attention", "timeline", "pairs"):
            whys = [why(name, run) for run in runs]
            told = [f"{run['name']}: {w}" for run, w in zip(runs, whys, strict=True) if w]
            keys = [run["key"] for run, w in zip(runs, whys, strict=True) if not w]
            axes[name] = {"ok": bool(keys), "reason": "; ".join(told), "keys": keys}
        return axes

    # ---- POST /vary, GET /compare/text

    def vary(self, spec: dict, field: str, values: list, submit: bool = False) -> dict:
        self._note("vary")
        part, _, name = field.rpartition(".")
        out = []
        for value in values:
            changed = copy.deepcopy(spec)
            (changed[part] if part else changed)[name] = value
            try:
                made = SweepSpec.from_dict(changed)
            except Exception as error:
                told = [{"field": field, "message": str(error)}]
                out.append({"key": None, "spec": changed, "phrase": "", "stored": False})
                out[-1] |= {"estimate": None, "errors": told}
                continue
            stored = made.key in self.jobs
            out.append({"key": made.key, "spec": made.to_dict(), "phrase": made.memory.phrase()})
            out[-1] |= {"stored": stored, "errors": []}
            out[-1] |= {"estimate": {"seconds": 41.0, "bytes": 1e9}}
        answer = {"specs": out}
        if submit:
            self.varied = [row for row in out if not row["errors"]]
            answer["jobs"] = [self.submit(row["spec"])["job"] for row in self.varied]
        return answer

    def compare_text(self, a: str, b: str, outputs: str | None = None, **place: int) -> dict:
        self._note("compare_text")
        first = re.findall(r"\s?\S+", "The code of room 7 is 1007. The code is <b>32</b>")
        second = re.findall(r"\s?\S+", "The code of hall 7 is 1007. So the code is 8")
        if (a, place.get("arm_a")) == (b, place.get("arm_b")):
            second = first
        matched = difflib.SequenceMatcher(None, first, second, autojunk=False)
        ops = [{"op": op, "a": [i, j], "b": [k, m]} for op, i, j, k, m in matched.get_opcodes()]
        return {"a": first, "b": second, "ops": ops, "reason": ""}
