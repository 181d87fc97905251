"""POST /vary: one spec at several values of one field, each with its key, its cost or its refusal.

Knows specs, plans and the queue.  Decides nothing about a value: the spec does.
"""

from __future__ import annotations

import copy
import math
from typing import Annotated, Any

from fastapi import Body, FastAPI
from fastapi.responses import JSONResponse

from engine.exchange import check_text
from engine.kinds import DECODE
from engine.owner import Engine
from engine.registry import FieldError, SpecError, short, shown
from engine.results import check_spec, clean
from engine.specs import MAX_MODULUS, default_modulus
from engine.store.ledger import phrase_of

Asked = Annotated[dict, Body()]
MOST = 16  # values of one field
FIELDS = ("spec", "field", "values", "submit")
SHORT = {"budget": "memory.budget", "method": "memory.kind"}  # of a sweep; a decode run's are lists


def add_to(app: FastAPI, engine: Engine) -> None:
    @app.post("/vary")
    def vary(body: Asked) -> JSONResponse:
        spec, field, values, submit = asked(check_text(body))
        return JSONResponse(clean(varied(engine, spec, field, values, submit)))


def asked(body: dict) -> tuple[dict, str, list, bool]:
    """The four parts of a request; SpecError naming each bad one."""
    errors = [FieldError(short(n), "is no part of this request") for n in body if n not in FIELDS]
    spec, field = body.get("spec"), body.get("field")
    values, submit = body.get("values"), body.get("submit", False)
    if not isinstance(spec, dict):
        errors.append(FieldError("spec", f"must be a table, not {shown(spec)}"))
    parts = field.split(".") if isinstance(field, str) else []
    if not 1 <= len(parts) <= 2 or not all(parts):
        told = f"must be a field of the spec, as memory.stride, not {shown(field)}"
        errors.append(FieldError("field", told))
    if not isinstance(values, list) or not 1 <= len(values) <= MOST:
        errors.append(FieldError("values", f"must be a list of 1 to {MOST} values"))
    elif any(value in values[:i] for i, value in enumerate(values)):
        errors.append(FieldError("values", "holds one value twice"))
    if not isinstance(submit, bool):
        errors.append(FieldError("submit", f"must be true or false, not {shown(submit)}"))
    if errors:
        raise SpecError(*errors)
    return spec, field, values, submit


def varied(engine: Engine, spec: dict, field: str, values: list, submit: bool) -> dict:
    """{specs: [{key, spec, phrase, stored, estimate, errors}], modulus}, and jobs if submitted.

    Runs are paired residue by residue, so all need one count of residues: where the spec leaves it
    open (0) all take `modulus`, the least that fits every stride.
    """
    made = [at(spec, field, value) for value in values]
    modulus = _common(made) if field != "modulus" else None
    if modulus and not spec.get("modulus"):
        made = [values | {"modulus": modulus} for values in made]
    lines, jobs = [], []
    for one in made:
        line, checked = _line(engine, one, modulus)
        lines.append(line)
        if submit and checked is not None and not line["errors"]:
            jobs.append({"key": line["key"], "job": engine.submit(checked).id})
    return {"specs": lines, "modulus": modulus} | ({"jobs": jobs} if submit else {})


def at(spec: dict, field: str, value: Any) -> dict:
    """The spec with one field set; what was filled in from the old value goes with it."""
    made = copy.deepcopy(spec)
    if made.get("kind") != DECODE:
        field = SHORT.get(field, field)
    elif field in ("budget", "budgets"):
        field, value = "budgets", value if isinstance(value, list) else [value]
    elif field in ("method", "methods"):
        field, value = "methods", value if isinstance(value, list) else _alone(made, value)
    part, _, name = field.partition(".")
    if field == "model" and isinstance(value, str):
        part, name = "model", "id"
    if not name:
        made[part] = value
        return _unfilled(made, spec, part)
    table = made.get(part)
    made[part] = {**(table if isinstance(table, dict) else {}), name: value}
    if name == "kind" and isinstance(table, dict) and table.get("kind") != value:
        made[part] = {"kind": value} | _shared(part, value, table)
    return _unfilled(made, spec, part)


def _alone(spec: dict, kind: Any) -> list:
    """One method in place of all: the spec's own of that kind, else one with usual options."""
    methods = spec.get("methods")
    own = [m for m in methods if isinstance(m, dict)] if isinstance(methods, list) else []
    return [m for m in own if m.get("kind") == kind] or [{"kind": kind}]


def _shared(part: str, kind: Any, table: dict) -> dict:
    """Options that the new kind has too: a stride stays a stride.  A preset has its own."""
    from engine.eviction.spec import SHARED
    from engine.registry import MEMORIES, TASKS

    kinds = {"memory": MEMORIES, "task": TASKS}.get(part, {})
    cls = kinds.get(kind) if isinstance(kind, str) else None
    own = SHARED if cls and "." in kind else getattr(cls, "__dataclass_fields__", {})
    return {name: value for name, value in table.items() if name in own}


def _unfilled(made: dict, spec: dict, part: str) -> dict:
    """A control, and a trained memory's grid, that the old model filled in are filled in anew."""
    if part not in ("model", "memory"):
        return made
    try:
        before = check_spec({n: v for n, v in spec.items() if n not in ("control", "title")})
        same = not spec.get("control") or before.to_dict().get("control") == spec["control"]
    except SpecError:
        same = False
    if same:
        made.pop("control", None)
    memory = made.get("memory")
    if part == "model" and isinstance(memory, dict) and memory.get("kind") == "trained":
        del made["memory"]
    return made


def _common(made: list[dict]) -> int | None:
    """The least count of residues that folds every stride of these specs; None beyond the cap."""
    strides: set[int] = set()
    for values in made:
        try:
            spec = check_spec({**values, "modulus": 0} if values.get("kind") != DECODE else values)
        except SpecError:
            continue
        if getattr(spec, "memory", None) is not None and spec.settings.protocol != "pair":
            strides |= set(spec.memory.strides())
    if not strides:
        return None
    found = default_modulus(tuple(sorted(strides)))
    least = math.lcm(*strides)
    while found % least or found < 2 * max(strides):
        found += least
    return found if found <= MAX_MODULUS else None


def _line(engine: Engine, values: dict, modulus: int | None) -> tuple[dict, Any]:
    """One spec as it would run, or what is wrong with it."""
    line: dict = {"key": None, "spec": values, "phrase": "", "stored": False}
    line |= {"estimate": None, "errors": []}
    try:
        spec = check_spec({name: value for name, value in values.items() if name != "title"})
        line |= {"key": spec.key, "spec": spec.to_dict(), "phrase": phrase_of(spec)}
        run = engine.results.pick(spec.key)
        line["stored"] = bool(run and run.status == "done" and not engine.results.stale(run))
        plan = engine.plan(spec)
        line["estimate"] = plan["estimate"]
        if not engine.access.read_only:  # there nothing is queued, whatever fits
            engine.access.check(spec, plan)
    except SpecError as error:
        line["errors"] = [{"field": e.field, "message": _told(e, modulus)} for e in error.errors]
        return line, None
    return line, spec


def _told(error: FieldError, modulus: int | None) -> str:
    if error.field == "modulus" and modulus:
        return f"{error.message}; {modulus} fits all of these"
    return error.message
