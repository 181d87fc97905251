"""What is shown of a run: its row in the ledger, its progress and the numbers made from its rows.

Knows the store and the statistics.  Knows nothing of processes or HTTP.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from engine.costs import cost
from engine.decode import results as decode_results
from engine.density import density
from engine.kinds import DECODE, KVPRESS, SWEEP, check_spec, kind_of, read_spec
from engine.kvpress import results as kvpress_results
from engine.picking import picked, preference, stale
from engine.presets import presets
from engine.registry import SpecError
from engine.specs import SweepSpec
from engine.store import Run, Store
from engine.titles import title, titled
from engine.version import statistics_version

log = logging.getLogger("phasescope")
ACTIVE = ("queued", "running")
UNITS = {DECODE: "parts", KVPRESS: "predictions"}
SUMMARY = 4  # counts changes of what `summary` keeps
# The numbers of a run that has none yet: the page's layout must not jump, and JSON keeps its keys.
NOTHING: dict[str, Any] = {
    **dict.fromkeys(
        (
            "mean", "mean_low", "mean_high", "worst", "worst_low", "worst_high", "worst_residue",
            "worst_phase", "best_phase", "worst_folded", "best_folded", "gap", "sigma",
            "relative_gap", "gap_null", "gap_p", "folded_gap", "folded_gap_low", "folded_gap_high",
            "excess", "excess_low", "excess_high",
            "within_gap", "boundary", "chance", "noise_floor", "control", "finding", "doubt",
        )
    ),
    "residues": [], "shifts": [], "folded": [], "tokens": [], "warnings": [], "n_samples": 0,
    "period": {"detected": None, "p": None, "configured": None, "candidates": [], "spectrum": []},
    "combined": [],
}  # fmt: skip


BLANK = {DECODE: decode_results.NOTHING, KVPRESS: kvpress_results.NOTHING}


def nothing(run: Run) -> dict:
    """The numbers of a run of this kind that has none yet."""
    return BLANK.get(run.kind, NOTHING)


class Results:
    """Reports, made when asked and kept once their run is finished."""

    def __init__(self, store: Store):
        self.store = store
        self._live: dict[int, tuple[float, float, str, dict]] = {}
        self._busy = threading.Lock()

    # ---- which row of a key

    def pick(self, key: str) -> Run | None:
        """The run to show: the user's own of this code first, imported ones last."""
        values = self.store.spec(key) or {}
        return min(self.store.runs_of(key), key=lambda run: preference(run, values), default=None)

    def picks(self, keys: Sequence[str], specs: dict[str, tuple[dict, str]]) -> dict[str, Run]:
        """`pick` of many keys with one question to the store; `specs`: theirs."""
        return picked(self.store.runs(keys), specs)

    def spec(self, key: str) -> Any:
        """The SweepSpec or DecodeSpec of a key, or None where this version no longer accepts it."""
        values = self.store.spec(key)
        return values and _spec(key, json.dumps(values, sort_keys=True))

    def stale(self, run: Run) -> bool:
        return stale(run, self.store.spec(run.key) or {})

    # ---- numbers

    def report(self, run: Run) -> dict:
        """The report of a run; kept ones cost a look-up, those of a run at work are made at most so
        often that they take a quarter of the time."""
        stamp = self.stamp(run)
        kept = self.store.report(run.id, stamp)
        if kept:
            return kept
        spec = self.spec(run.key)
        if spec is None:
            return self.store.report(run.id) or nothing(run)
        with self._busy:
            made = self._recent(run, stamp)
            if made is None:
                start = time.monotonic()
                made = self._try(run, spec)
                now = time.monotonic()
                self._live = {run.id: (now, now - start, stamp, made)}
        if run.status not in ACTIVE and made["n_samples"]:
            self.store.keep_report(run.id, stamp, made, summary(made))
        return made

    def _recent(self, run: Run, stamp: str) -> dict | None:
        """The report made last, if of the same rows or too young to be worth another."""
        if run.id not in self._live:
            return None
        when, took, its_stamp, made = self._live[run.id]
        young = run.status in ACTIVE and time.monotonic() < when + 3 * took
        return made if young or its_stamp == stamp else None

    def stamp(self, run: Run) -> str:
        control = self.store.answer_count(run.control_run) if run.control_run else 0
        own = self.store.counts(run.id).answers
        return f"{SUMMARY}-{statistics_version()}-{own}-{control}-{run.noise_floor}"

    def _try(self, run: Run, spec: Any) -> dict:
        """Rows that no statistics fit (from elsewhere, of other code) must not hide the run."""
        try:
            if run.kind == DECODE:
                return clean(decode_results.compute(self.store, run, spec, note(run.key)))
            if run.kind == KVPRESS:
                return clean(kvpress_results.compute(self.store, run, spec))
            return self._compute(run, spec)
        except Exception:
            log.exception("no report of run %s", run.key)
            told = "The statistics of these rows failed; the service's log has more."
            return nothing(run) | {"warnings": [told]}

    def _compute(self, run: Run, spec: SweepSpec) -> dict:
        from engine.analysis.benchmark import combined
        from engine.analysis.report import report
        from engine.cautions import unrenewed

        answers = self.store.answers(run.id)
        if not len(answers):
            return NOTHING
        control = self.store.answers(run.control_run) if run.control_run else None
        made = report(
            answers,
            control if control is not None and len(control) else None,
            modulus=spec.settings.modulus,
            strides=spec.memory.strides(),
            window=_window(spec.memory),
            measure=spec.settings.measure,
            protocol=spec.settings.protocol,
            seed=spec.settings.seed,
            chance=getattr(spec.task, "chance", _no_chance)(spec.settings.measure),
            noise_floor=run.noise_floor,
            note=note(run.key),
            control_name=_control_name(spec),
            adjacent_pairs=getattr(spec.task, "adjacent_pairs", False),
            evicts=getattr(spec.memory, "evicts", False),
        )
        made["warnings"] += unrenewed(spec.memory)
        if getattr(spec.task, "one_token", False) and spec.stride:
            made["combined"] = combined(answers, spec.stride, seed=spec.settings.seed)
        return clean(NOTHING | {"modulus": spec.settings.modulus} | made)

    def depth(self, run: Run) -> dict | None:
        """Accuracy by depth and by density, of a benchmark's finished run."""
        from engine.depth import depth

        spec = self.spec(run.key)
        if spec is None or run.kind != SWEEP:
            return None
        return clean(depth(spec, self.store.answers(run.id)))

    def scan(self, run: Run) -> dict | None:
        from engine.analysis.layers import layer_scan

        if not (self.store.spec(run.key) or {}).get("scan"):
            return None
        rows = self.store.answers(run.id, scan=True)
        if not len(rows):
            return None
        control = self.store.answers(run.control_run) if run.control_run else None
        return clean(layer_scan(rows, control if control is not None and len(control) else None))

    def extremes(self, run: Run) -> dict[str, tuple[int, int]]:
        """worst and best → (phase, shift) of the first sample's copy there."""
        spec, numbers = self.spec(run.key), self.report(run)
        rows = self.store.answers(run.id)
        first = rows[rows["sample"] == rows["sample"].min()].sort_values("shift")
        stride = spec.stride
        if stride and numbers["worst_phase"] is not None:
            wanted = {"worst": numbers["worst_phase"], "best": numbers["best_phase"]}
            place = first["residue"] % stride
        else:
            curve = [r for r in numbers["residues"] if r["value"] is not None]
            if not curve:
                return {}
            wanted = {
                "worst": min(curve, key=lambda r: r["value"])["residue"],
                "best": max(curve, key=lambda r: r["value"])["residue"],
            }
            place = first["residue"]
        found = {name: first[place == phase]["shift"] for name, phase in wanted.items()}
        return {n: (int(wanted[n]), int(s.iloc[0])) for n, s in found.items() if len(s)}

    # ---- what a client gets

    def show(self, run: Run, progress: dict) -> dict:
        values, phrase = self.store.spec(run.key) or {}, self.store.phrase(run.key)
        unit = UNITS.get(run.kind, "answers")
        made_with = run.provenance | {
            "code_version": run.code_version,
            "source": run.source,
            "origin": run.origin,
            "rows_expected": {unit: run.answers_expected, "tokens": run.tokens_expected},
            "rows_stored": {unit: run.answers_stored, "tokens": run.tokens_stored},
        }
        head = {
            "key": run.key,
            "kind": run.kind,
            "title": run.title or title(values, phrase),
            "spec": values,
            "phrase": phrase,
            "provenance": made_with,
            "status": run.status,
            "reason": run.reason,
            "progress": progress,
            "stale": stale(run, values),
            "created": _time(run),
        }
        if run.kind != SWEEP:
            return head | self.report(run)
        spec = self.spec(run.key)
        tail = {"written": run.written, "scan": self.scan(run)}
        tail |= {"density": spec and density(spec), "cost": spec and cost(spec, run, self.store)}
        return head | dict(self.report(run)) | tail

    def line(self, run: Run, values: dict, phrase: str, numbers: dict) -> dict:
        """One run in a list: no statistics are computed for it."""
        return {
            "key": run.key,
            "kind": run.kind,
            "title": titled(run.title, values, phrase),
            "phrase": phrase,
            "model": values.get("model", {}).get("id", ""),
            "task": values.get("task", {}).get("kind", ""),
            "status": run.status,
            "created": _time(run),
            "stale": stale(run, values),
            "preset": run.source == "preset",
            "source": run.source,
            "stride": numbers.get("stride"),
            "control_curve": numbers.get("control_curve") or [],
            "losses": numbers.get("losses") or [],
            **{name: numbers.get(name) for name in ("mean", "worst_folded", "folded_gap")},
            **{name: numbers[name] for name in ("finding", "worst", "gap", "period", "curve")},
        }

    def lines(self, keys: Sequence[str] | None = None) -> list[dict]:
        """One line a key, newest first, of all or some; none of controls that nobody asked for."""
        kept, specs = self.store.summaries(), self.store.specs(keys)
        best = picked([run for run in self.store.runs(keys) if run.asked], specs)
        chosen = sorted(best.values(), key=lambda run: run.created, reverse=True)
        blank = summary(NOTHING)
        return [self.line(r, *specs.get(r.key, ({}, "")), kept.get(r.id, blank)) for r in chosen]

    def gallery(self) -> list[dict]:
        """The presets of the start page, with the numbers of a stored result where there is one."""
        kept, cards, blank = self.store.summaries(), [], summary(NOTHING)
        stored = defaultdict(list)
        for run in self.store.runs():  # one query: a query a preset would take most of the time
            stored[run.key].append(run)
        for preset in (preset for preset in presets().values() if preset.gallery):
            try:
                spec = check_spec(preset.spec)
            except SpecError as error:
                log.error("preset %s is not valid: %s", preset.name, error)
                continue
            # A preset may be another's control, whose rows have no report of their own.
            values = spec.to_dict()
            runs = sorted(stored[spec.key], key=functools.partial(preference, values=values))
            told = (kept[run.id] for run in runs if kept.get(run.id, blank)["finding"])
            numbers = next(told, blank)
            cards.append(
                {
                    "name": preset.name,
                    "kind": kind_of(spec),
                    "title": preset.title,
                    "caption": preset.caption,
                    "spec": spec.to_dict(),
                    "key": spec.key,
                    "stored": bool(numbers["finding"]),
                    "finding": numbers["finding"],
                    "stride": numbers.get("stride"),
                    "curve": numbers["curve"],
                    "control_curve": numbers["control_curve"],
                    "losses": numbers.get("losses") or [],
                }
            )
        return cards


def summary(report: dict) -> dict:
    """The few numbers that a list shows; a decode run has a finding and no curve."""
    control = report.get("control") or {}
    return {
        "finding": report["finding"],
        **{name: report.get(name) for name in ("mean", "worst", "gap")},
        **{name: report.get(name) for name in ("worst_folded", "folded_gap")},
        "period": (report.get("period") or {}).get("detected"),
        "stride": (report.get("period") or {}).get("configured"),
        "curve": _curve(report),
        "control_curve": _curve(control),
        "losses": _losses(report),
    }


def _losses(report: dict) -> list[float]:
    """NLL of a decode run's full cache, then of its methods at the smallest budget."""
    scored = [method for method in report.get("methods", ()) if method["nll"] is not None]
    if not scored or scored[0]["budget"] is not None:  # without it there is no line to stand by
        return []
    least = min((m["budget"] for m in scored if m["budget"] is not None), default=None)
    return [m["nll"] for m in scored if m["budget"] in (None, least)]


def _curve(report: dict) -> list[float | None]:
    """By residue where every residue was measured: shifts mix the places of different prompts."""
    whole = [residue["value"] for residue in report.get("residues", ())]
    if whole and None not in whole:
        return whole
    return [shift["value"] for shift in report.get("shifts", ())]


def _control_name(spec: SweepSpec) -> str:
    """What the sentences call the control, with its model's name where that is another one."""
    if spec.control is None:
        return "the full cache"
    words = spec.control.memory.phrase()
    words = f"the {words}" if spec.control.memory.kind == "full" else words
    own = spec.control.model == spec.model
    return words if own else f"{words} of {spec.control.model.id}"


def _window(memory: Any) -> int | None:
    """W where every layer has the same grid, so that a boundary has one place."""
    grid = getattr(memory, "one_grid", True) and not getattr(memory, "evicts", False)
    return getattr(memory, "window", None) if grid else None


def _no_chance(measure: str) -> None:
    """A task whose answers have no known number of alternatives."""


def note(key: str) -> str:
    """What a preset's file adds to the doubts about its result."""
    return _notes().get(key, "")


@functools.cache
def _notes() -> dict[str, str]:
    found = {}
    for preset in presets().values():
        if preset.note:
            with contextlib.suppress(SpecError):
                found[check_spec(preset.spec).key] = preset.note
    return found


@functools.lru_cache(maxsize=4096)
def _spec(key: str, text: str) -> Any:
    try:
        spec = read_spec(json.loads(text))
    except SpecError:
        return None
    if spec.key != key and spec.control is not None:
        # A control with a memory of its own: it has no control in turn.
        spec = SweepSpec(spec.model, spec.memory, spec.task, spec.settings)
    return spec


def _time(run: Run) -> str:
    return run.created.isoformat(timespec="seconds") + "Z"


def clean(value: Any) -> Any:
    """JSON has no NaN: undefined is null."""
    if isinstance(value, dict):
        return {key: clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
