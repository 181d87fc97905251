"""One run as a column of a comparison: its name, its numbers, its bytes, and where it can be drawn.

Knows specs, reports and registries.  Computes no statistic.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from engine.analysis import compare_decode, compare_fields
from engine.comparing import foreign as comparing_kvpress
from engine.comparing.kept import Line
from engine.costs import LONGEST, kv_bytes
from engine.kinds import DECODE, KVPRESS, evicts
from engine.registry import MEMORIES, TASKS
from engine.titles import titled

PLAIN = ("mean", "mean_low", "mean_high", "sigma", "chance")
OWN = ("worst", "worst_phase", "gap", "gap_null", "gap_p")
SHORT = {"protocol": "Padding", "modulus": "Residues R", "samples": "Prompts n"}  # as in the form
NUMBERS = (*PLAIN[:3], *OWN, "sigma", "period", "period_p", "chance", "nll", "recall")


def entry(made: Any, line: Line, block: dict, name: str, shared: int | None) -> dict:
    """A run as /compare tells it; `shared`: the stride by which a memory without a grid is read."""
    run, values, spec = line.run, line.values, line.spec
    memory, model = values.get("memory") or {}, values.get("model") or {}
    numbers, folded = _numbers(made, line, block, shared)
    kv = _bytes(made, line, block)
    return {
        "key": run.key,
        "kind": run.kind,
        "title": titled(run.title, values, line.phrase),
        "name": name,
        "subtitle": _subtitle(memory),
        "phrase": line.phrase,
        "status": run.status,
        "stale": made.results.stale(run),
        "model": model.get("id", ""),
        "task": (values.get("task") or {}).get("kind", ""),
        "modulus": values.get("modulus"),
        "stride": spec.stride if spec is not None else memory.get("stride") or None,
        "window": memory.get("window") or None,
        "measure": values.get("measure") or measure(line),
        "protocol": values.get("protocol", ""),
        "n_samples": block.get("n_samples", 0),
        "is_control": line.of is not None,
        "of": line.of and line.of.key,
        "numbers": numbers,
        **kv,
        "residues": [
            {"residue": row["residue"], "value": row["value"], "low": row["value_low"]}
            | {"high": row["value_high"], "n": row["n"]}
            for row in block.get("residues", ())
        ],
        "folded": folded,
        "spectrum": (block.get("period") or {}).get("spectrum", []),
        "arms": _arms(block),
        "tasks": comparing_kvpress.tasks(block) if run.kind == KVPRESS else [],
    }


def _numbers(made: Any, line: Line, block: dict, shared: int | None) -> tuple[dict, list[dict]]:
    """The numbers of a sweep, worst and gap by its own stride, and its folded curve."""
    numbers = dict.fromkeys(NUMBERS)
    if only := _only(block):
        return numbers | {name: only[name] for name in ("nll", "recall")}, []
    if line.run.kind == KVPRESS:
        return numbers | comparing_kvpress.numbers(block), []
    if not line.sweep or not block.get("residues"):
        return numbers, []
    numbers |= {name: block.get(name) for name in PLAIN}
    period = block.get("period") or {}
    numbers |= {"period": period.get("detected"), "period_p": period.get("p")}
    if line.spec.settings.protocol == "pair":
        return numbers, []
    stride = line.spec.stride or shared
    if stride and line.spec.settings.modulus % stride:
        stride = None
    read = period.get("configured")  # by which the report folded
    if read == stride and stride and block.get("folded_gap") is not None:
        numbers |= {"worst": block["worst_folded"], "worst_phase": block["worst_phase"]}
        numbers |= {"gap": block["folded_gap"]}
        numbers |= {name: block[name] for name in ("gap_null", "gap_p")}
        return numbers, block["folded"]
    own = made.folded(line, stride)
    numbers |= {name: own[name] for name in OWN}
    return numbers, own["folded"] if stride else []


def decoded(store: Any, line: Any) -> compare_decode.Rows:
    """The rows and arms of a decode run."""
    from engine.decode.plan import told_arms

    made, spec = line.run.provenance, line.spec
    steps, answers = (
        store.decode_table(line.run.id, f"decode_{name}").to_pandas()
        for name in ("steps", "answers")
    )
    stored = "arms" in made and len(steps)
    arms = told_arms(spec, made["prompt_tokens"], made["arms"]) if stored else []
    return compare_decode.Rows(steps, answers, arms, spec.seed, spec.mode == "free")


def _arms(block: dict) -> list[dict]:
    """What a decode run's methods scored and held, the full cache first."""
    names = ("arm", "label", "budget", "bytes")
    names += tuple(f"{m}{end}" for m in ("nll", "recall") for end in ("", "_low", "_high"))
    found = []
    for method in block.get("methods", ()):
        arm = {name: method.get(name) for name in names}
        held, length = arm["bytes"], method.get("length")
        arm["bytes_per_token"] = held / length if held and length else None
        found.append(arm)
    return found


def _only(block: dict) -> dict | None:
    """The one method of a decode run that has no other; else there is no one number."""
    evicting = [arm for arm in _arms(block) if arm["budget"] is not None]
    return evicting[0] if len(evicting) == 1 else None


def _subtitle(memory: dict) -> str:
    window, stride = memory.get("window"), memory.get("stride")
    if memory.get("stagger"):
        return "staggered"
    if not window or not stride:
        return ""
    return "overlap" if window > stride else "no overlap"


def _bytes(made: Any, line: Line, block: dict) -> dict:
    """Keys and values held at the query, and a token's share of them."""
    nothing = {"bytes_per_token": None, "kv_bytes": None}
    if only := _only(block):
        return {"kv_bytes": only["bytes"], "bytes_per_token": only["bytes_per_token"]}
    if not line.sweep:
        return nothing
    length = getattr(line.spec.task, "places", None) or _read_before(made.length(line))
    if not length:
        return nothing
    held = made.kept.get(("bytes", line.key, length), lambda: _held(line.spec, length))
    return {"kv_bytes": held, "bytes_per_token": held and held / (length + 1)}


def _read_before(length: int | None) -> int | None:
    """Tokens in front of the query; None where rows claim more than a plan is made for."""
    return length - 1 if length and 1 < length <= LONGEST else None


def length(answers: Any) -> int | None:
    """Mean tokens of a run's prompts, whole."""
    return round(float(answers["length"].mean())) if len(answers) else None


def _held(spec: Any, length: int) -> int | None:
    """Bytes of the memory's own plan for a prompt of that many tokens."""
    task = SimpleNamespace(places=length)
    try:
        asked = SimpleNamespace(model=spec.model, memory=spec.memory, task=task)
        return kv_bytes(asked)["kv_bytes"]
    except (ValueError, LookupError, OSError):  # a model that is not here, or another one now
        return None


def row(key: str, test: dict | None, reason: str) -> dict:
    """A line of a measure: the test against the baseline, or why there is none."""
    blank = dict.fromkeys(("diff", "low", "high", "p"))
    blank |= dict.fromkeys(("value", "base_value", "corrected"))
    return {"key": key, **blank, "n": 0, **(test or {}), "reason": reason}


def measure(line: Line) -> str:
    """What its mean is a mean of; "" where it has none."""
    if line.run.kind == KVPRESS:
        return comparing_kvpress.MEASURE
    return line.spec.settings.measure if line.sweep else ""


def keeps_all(line: Line) -> bool:
    """Whether nothing is pooled or dropped, so that others are measured by it."""
    if line.sweep:
        return line.spec.memory.kind == "full"
    known = line.run.kind == KVPRESS and line.spec is not None
    return known and comparing_kvpress.keeps_all(line.spec)


def most(asked: list[Line], of: Callable[[Line], Any]) -> list[Line]:
    """The runs of the kind that most are of; of the first run's where as many are of another."""
    kinds = Counter(map(of, asked))
    return [line for line in asked if of(line) == kinds.most_common(1)[0][0]]


def kind(line: Line) -> str:
    return line.run.kind


def curve_of(line: Line) -> tuple:
    """What runs must have in common to stand on one curve."""
    task = (line.values.get("task") or {}).get("kind")
    if not line.sweep:
        return (task,)
    own = line.spec.settings
    return task, own.measure, own.modulus, own.protocol == "pair"


# ---- names


def names(lines: list[Line]) -> list[str]:
    found = [line.values for line in lines]
    return compare_fields.names(
        found, [start(line) for line in lines], [line.key for line in lines]
    )


def start(line: Line) -> str:
    """A memory in few words: "W8 S8", "W8 S6, one-hot 2", "rkv 128"."""
    if line.spec is None:
        return line.key
    if line.run.kind == KVPRESS:
        return comparing_kvpress.name(line.spec)
    phrase = line.spec.phrase() if line.run.kind == DECODE else line.spec.memory.phrase()
    parts = phrase.split(", ")
    parts[0] = parts[0].removeprefix("pooled ").removeprefix("trained ")
    usual = ("mean", "mean gate", "streamed")
    parts[0] = "Full cache" if parts[0] == "full cache" else parts[0]
    kept = [parts[0], *(part for part in parts[1:] if part not in usual)]
    return ", ".join(kept) if line.run.kind != DECODE else phrase


@functools.cache
def labels() -> dict[str, str]:
    """Dotted field → its label in the form."""
    from engine.specs import ModelSpec, Settings, fields_schema

    found = {"model.id": "Model", "memory.kind": "Memory", "task.kind": "Task"}
    for part, kinds in (("memory", MEMORIES), ("task", TASKS)):
        for about in kinds.schema().values():
            for field in about["fields"]:
                if field["label"]:
                    found.setdefault(f"{part}.{field['name']}", field["label"])
    for prefix, cls in (("model.", ModelSpec), ("", Settings)):
        for field in fields_schema(cls):
            if field["label"]:
                found.setdefault(f"{prefix}{field['name']}", field["label"])
    return found | SHORT | comparing_kvpress.LABELS


@functools.cache
def defaults() -> dict[str, Any]:
    """ "memory.pooled.window" → its default."""
    return {
        f"{part}.{kind}.{field['name']}": field["default"]
        for part, kinds in (("memory", MEMORIES), ("task", TASKS))
        for kind, about in kinds.schema().items()
        for field in about["fields"]
    }


# ---- axes


def axes(lines: list[Line], runs: list[dict], rows: dict[str, list[dict]]) -> dict[str, dict]:
    """Chart → {ok, reason, keys}: which runs share it with the baseline, and why others do not.

    `rows`: the paired differences by measure.
    """
    rules = {
        "curve": _curve,
        "residues": _curve,
        "spectrum": _spectrum,
        "tokens": _tokens,
        "attention": _attention,
        "timeline": _timeline,
    }
    found = {}
    for chart, rule in rules.items():
        whys = {
            run["key"]: rule(line, lines[0], run) for line, run in zip(lines, runs, strict=True)
        }
        found[chart] = _axis(runs, whys)
    every = [row for one in rows.values() for row in one]
    paired = {row["key"] for row in every if not row["reason"]}
    lacking = {row["key"]: row["reason"] for row in every if row["key"] not in paired}
    found["pairs"] = _axis([run for run in runs if run["key"] in paired | set(lacking)], lacking)
    return found


def _axis(runs: list[dict], whys: dict[str, str]) -> dict:
    keys = [run["key"] for run in runs if not whys.get(run["key"])]
    told = [(run["name"], whys[run["key"]]) for run in runs if whys.get(run["key"])]
    if len(told) > 1 and len({why for _, why in told}) == 1 and not keys:
        reason = told[0][1]
    else:
        reason = "; ".join(f"{name}: {why}" for name, why in told)
    return {"ok": bool(keys), "reason": reason, "keys": keys}


def _measured(line: Line, run: dict) -> str:
    if line.run.kind == KVPRESS:
        return comparing_kvpress.ELSEWHERE
    if line.run.kind == DECODE:
        return "a decode run has no phases"
    if line.spec is None:
        return "of an older version that is no longer read"
    return "" if run["residues"] else "no rows yet"


def _curve(line: Line, base: Line, run: dict) -> str:
    if why := _measured(line, run):
        return why
    own, other = line.spec.settings, base.spec.settings if base.sweep else None
    if other and own.measure != other.measure:
        words = (compare_fields.spoken(each.measure) for each in (own, other))
        return "measured by {}, not by {}".format(*words)
    if (own.protocol == "pair") != bool(other and other.protocol == "pair"):
        return "a document pair has two copies and no phases"
    if other and own.modulus != other.modulus:
        return f"{own.modulus} residues, not {other.modulus}"
    task, usual = (one.values.get("task") or {} for one in (line, base))
    if other and task.get("kind") != usual.get("kind"):
        words = (compare_fields.spoken(each.get("kind")) for each in (task, usual))
        return "task {}, not {}".format(*words)
    return ""


def _spectrum(line: Line, base: Line, run: dict) -> str:
    if why := _measured(line, run):
        return why
    return _curve(line, base, run) or ("" if run["spectrum"] else "no period is tested")


def _tokens(line: Line, base: Line, run: dict) -> str:
    if why := _measured(line, run):
        return why
    if line.spec.settings.rows == "answers":
        return "the run stored no token rows"
    if base.sweep and (line.spec.task, line.spec.settings.seed) != (
        *(base.spec.task, base.spec.settings.seed),
    ):
        return "another task, so other prompts"
    return ""


def _attention(line: Line, base: Line, run: dict) -> str:
    if why := _measured(line, run):
        return why
    if evicts(line.spec):
        return "a run that drops entries has no one map"
    if base.sweep and line.spec.model.id != base.spec.model.id:
        return "another model, so other layers and heads"
    return ""


def _timeline(line: Line, base: Line, run: dict) -> str:
    if line.run.kind == KVPRESS:
        return comparing_kvpress.ELSEWHERE
    if line.spec is None:
        return "of an older version that is no longer read"
    return "" if line.run.kind == DECODE else "only decode runs keep a timeline"
