"""A client with a made-up controlled family, its runs and its trainings."""

from __future__ import annotations

import copy

from fake_client import FakeClient
from made_family import COMBINED, COPIES, MODULUS, PLACES, depth, key, members

from engine.client import NotFound, Refused
from engine.registry import FieldError


class FakeBenchmark(FakeClient):
    """FakeClient with the family; `measured=False` is a machine on which nothing was run."""

    def __init__(self, measured: bool = True):
        super().__init__()
        self.family = copy.deepcopy(list(members()))
        self.refusal: tuple[FieldError, ...] = ()
        self.lessons: list[dict] = []
        self.own: dict[str, dict] = {}
        self.coming: list[dict] = []  # what is told, one a call, before the family is there
        if not measured:
            for member in self.family:
                member |= {"numbers": None, "control_residues": None, "status": "none"}

    def member(self, name: str) -> dict:
        return next(m for m in self.family if m["name"] == name)

    def start(self, name: str, done: int = 1200) -> None:
        """Make a member's run one that is under way."""
        told = {"done": done, "total": COPIES, "seconds_left": 95.0}
        self.member(name).update(numbers=None, status="running", progress=told)

    def schema(self) -> dict:
        whole = super().schema()
        controlled = [
            {"name": m["name"], "id": m["name"], "label": m["label"], "help": "", "installed": True}
            | {k: m[k] for k in ("records", "places", "window", "stride", "control")}
            | {"controlled": True}
            for m in self.family
        ]
        whole["models"] = whole["models"] + controlled
        fields = [("records", 24), ("places", PLACES)]
        about = [
            {"name": n, "type": "int", "default": d, "label": n.capitalize(), "help": f"{n} of it"}
            | {"low": 1, "high": 1000, "choices": [], "when": "", "long": False}
            for n, d in fields
        ]
        whole["tasks"]["pairs"] = {"fields": about, "help": "pairs", "protocols": ["in_sequence"]}
        return whole

    def benchmark(self, wait: bool = True) -> dict:
        self._note("benchmark")
        if self.coming and not wait:
            return {"coming": self.coming.pop()}
        row = {"model": "DeepSeek-V4-Pro", "mean": 0.844, "gap": 0.1484, "period": 4}
        row |= {"samples": 256, "tokens": 128_000, "source": "PWS Fig. 2"}
        return {"members": copy.deepcopy(self.family), "published": [row]}

    def depth(self, key: str) -> dict | None:
        self._note("depth")
        return depth()

    def trainings(self) -> dict:
        self._note("trainings")
        return {"runs": copy.deepcopy(self.lessons), "ended": []}

    def stop_training(self, name: str) -> dict:
        self._note("stop_training")
        if self.refusal:
            raise Refused(*self.refusal)
        for lesson in self.lessons:
            if lesson["name"] == name:
                lesson["state"] = "stopped"
        return {"stopped": True}

    def _pairs(self, values: dict) -> bool:
        return (values.get("task") or {}).get("kind") == "pairs"

    def preview(self, values: dict) -> dict:
        if not self._pairs(values):
            return super().preview(values)
        self._note("preview")
        if self.refusal:
            raise Refused(*self.refusal)
        filled = values | {"modulus": values.get("modulus") or MODULUS}
        copies = int(filled["modulus"]) * int(filled["samples"])
        design = [
            {"residue": r, "n": 8, "target_mean": 46.5, "target_sd": 11.99, "query_mean": 96.0}
            | {"target_var": 143.75, "length": 97.0}
            for r in range(int(filled["modulus"]))
        ]
        return {
            "key": key(filled),
            "spec": filled,
            "phrase": "trained memory",
            "copies": copies,
            "tokens": copies * 97,
            "length": [97, 97],
            "design": design,
            "designed": min(int(filled["samples"]), 170),
            "estimate": {"seconds": 12.0, "bytes": 3.1e8, "speed_source": "measured here"},
            "warnings": [],
        }

    def submit(self, values: dict, title: str = "") -> dict:
        if not self._pairs(values):
            return super().submit(values, title)
        self._note("submit")
        if self.refusal:
            raise Refused(*self.refusal)
        known = next((m for m in self.family if m["spec"] == values), None)
        if known:
            self.start(known["name"])
            return {"key": known["key"], "job": 1}
        values = values | {"modulus": values.get("modulus") or MODULUS}
        made = key(values)
        self.own[made] = {"key": made, "title": title, "spec": values, "status": "running"}
        return {"key": made, "job": 1}

    def finish(self, key: str, status: str = "done") -> None:
        if key in self.own:
            self.own[key]["status"] = status
            return
        super().finish(key, status)

    def run(self, key: str) -> dict:
        found = self._find(key)
        if found is None:
            return super().run(key)
        self._note("run")
        return found

    def cancel(self, key: str) -> dict:
        for member in self.family:
            if member["key"] == key:
                self._note("cancel")
                member["status"] = "cancelled"
                return {"cancelled": True}
        if key in self.own:
            self._note("cancel")
            self.own[key]["status"] = "cancelled"
            return {"cancelled": True}
        return super().cancel(key)

    def _find(self, key: str) -> dict | None:
        head = {"phrase": "trained memory", "created": "2026-11-29T12:00:00Z", "stale": False}
        head |= {"provenance": {"weights": "sha256:12ab"}, "reason": None}
        rest = {"combined": COMBINED, "density": {"here": 0.25, "trained": None, "window": 2.0}}
        rest["cost"] = {
            "seconds": 11.4,
            "tokens": 447_000,
            "kv_bytes": 9_216,
            "kv_bytes_full": 49_152,
        }
        if key in self.own:
            own = self.own[key]
            told = {"done": 60, "total": COPIES, "seconds_left": 9.0}
            shown = head | own | {"progress": told, "residues": [], "control": None}
            if own["status"] == "done":
                block = self.member("w8s8-dense")["numbers"]
                flat = self.member("full-dense")["numbers"]
                shown |= block | {"control": flat} | rest
            return copy.deepcopy(shown)
        member = next((m for m in self.family if m["key"] == key), None)
        if member is None or member["status"] == "none":
            if member is not None:
                raise NotFound(key)
            return None
        shown = head | {"key": key, "title": member["label"], "spec": member["spec"]}
        shown |= {"status": member["status"], "progress": member["progress"], "residues": []}
        if member["numbers"]:
            control = next((m for m in self.family if m["name"] == member["control"]), None)
            shown |= member["numbers"] | {"control": control and control["numbers"]} | rest
        return copy.deepcopy(shown)
