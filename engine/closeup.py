"""A close look at one run: find it, its attention maps, its traces, its tokens' names.

Checks what is asked against the run and its model.  Knows HTTP answers; the worker makes the rest.
"""

from __future__ import annotations

from typing import Any

from fastapi import HTTPException
from fastapi.responses import JSONResponse, Response

from engine.access import READ_ONLY
from engine.benchmark import family_keys
from engine.jobs import MapWanted, TraceWanted
from engine.kinds import DECODE, KVPRESS, evicts
from engine.owner import Engine
from engine.registry import FieldError, SpecError, short, shown, suggest
from engine.store import Run
from engine.store.maps import cells
from engine.warming import warm

PLACE = ("layer", "head", "sample", "shift")  # of an attention map
DIGITS = 9  # of a token's id; Python refuses to read a number of some thousands


def find(engine: Engine, key: str) -> Run:
    """The run to show under a key; 404 in a sentence."""
    run = engine.results.pick(key)
    if run is None and not engine.ready.is_set():
        engine.ready.wait(timeout=110)
        run = engine.results.pick(key)
    if run is None and key in family_keys():
        engine.bring_in_family()
        run = engine.results.pick(key)
    if run is None:
        raise HTTPException(404, f"no run {key[:40]!r} here; `phasescope runs` lists what there is")
    return run


def attention_answer(engine: Engine, run: Run, body: dict) -> JSONResponse:
    """A map's cells (200), or 202 while the worker makes it."""
    found, place = kept_map(engine, run, body)
    if found:
        errors: list[FieldError] = []
        queries, keys = (_part(name, body.get(name), errors) for name in ("queries", "keys"))
        if errors:
            raise SpecError(*errors)
    else:
        wanted, queries, keys = wanted_map(engine, run, body)
        place = {name: getattr(wanted, name) for name in PLACE}
        file = _file(engine, wanted)
        found = file and engine.store.maps.load(file)
    if not found:
        return JSONResponse({"pending": True}, 202)
    weights, labels = found
    shown = cells(weights, labels, queries, keys)
    if shown is None:
        raise SpecError(FieldError("queries", "no token of the map lies in that range"))
    return JSONResponse(shown | place)


def kept_map(engine: Engine, run: Run, body: dict) -> tuple[tuple | None, dict]:
    """A map that is stored already, and its place: one that came with a bundle needs no model."""
    place = {name: body.get(name) for name in PLACE}
    rows = run.control_run if body.get("control", False) is True else run.id
    whole = all(type(value) is int and 0 <= value < 2**31 for value in place.values())
    file = engine.store.map_file(rows, *place.values()) if whole and rows is not None else None
    return (engine.store.maps.load(file) if file else None), place


def _file(engine: Engine, wanted: MapWanted | TraceWanted) -> str | None:
    """The stored file, or None while the worker makes it; 403 where nothing is to be made."""
    if not engine.access.read_only:
        return engine.queue.want(wanted)
    if file := wanted.find(engine.store):
        return file
    raise HTTPException(403, f"it was not made before, and {READ_ONLY}")


def wanted_map(engine: Engine, run: Run, body: dict) -> tuple[MapWanted, Any, Any]:
    """Check the request against the run and its model; SpecError names each bad field."""
    from engine.models.loader import facts

    warm()
    spec = engine.results.spec(run.key)
    if spec is None:
        raise SpecError(FieldError("key", "this run is of an older version; run it again for maps"))
    if evicts(spec):
        told = "a run that drops entries has no one map; its traces show what each event judged"
        raise SpecError(FieldError("key", told))
    control = body.get("control", False) is True
    if control and spec.control is None:
        raise SpecError(FieldError("control", "this run is its own control"))
    known = facts((spec.control if control else spec).model)
    shifts = 2 if spec.settings.protocol == "pair" else spec.settings.modulus
    limits = {
        "layer": known.n_layers,
        "head": known.q_heads,
        "sample": spec.settings.samples,
        "shift": shifts,
    }
    errors = out_of(limits, body)
    parts = {name: _part(name, body.get(name), errors) for name in ("queries", "keys")}
    if errors:
        raise SpecError(*errors)
    rows = run.control_run if control else run.id
    wanted = MapWanted(run.key, rows, control, *(body[name] for name in limits))
    return wanted, parts["queries"], parts["keys"]


def trace_answer(engine: Engine, run: Run, body: dict) -> Response:
    """A trace (200), or 202 while the worker makes it."""
    wanted = wanted_trace(engine, run, body)
    file = _file(engine, wanted)
    found = file and engine.store.traces.load(file)
    if not found:
        return JSONResponse({"pending": True} | engine.queue.making(wanted), 202)
    return Response(found, media_type="application/json")


def drop_trace(engine: Engine, run: Run, body: dict) -> JSONResponse:
    """Nobody waits for this trace any more."""
    engine.queue.drop(wanted_trace(engine, run, body))
    return JSONResponse({"dropped": True})


def wanted_trace(engine: Engine, run: Run, body: dict) -> TraceWanted:
    """Check the request against the run and its model; SpecError names each bad field."""
    from engine.eviction.spec import POOLED, method_of
    from engine.eviction.trace import FAR, TOP
    from engine.models.loader import facts

    warm()
    if run.kind != DECODE:
        told = "traces are of decode runs; a sweep has attention maps"
        raise SpecError(FieldError("key", told))
    spec = engine.results.spec(run.key)
    if spec is None:
        told = "this run is of an older version; run it again for traces"
        raise SpecError(FieldError("key", told))
    known = facts(spec.model)
    limits = {
        "arm": spec.arm_count,
        "sample": spec.samples,
        "layer": known.n_layers,
        "kv_head": known.kv_heads,
    }
    more = {"top": TOP, "far": FAR}  # what a global query is
    body = more | body
    errors = out_of(limits | dict.fromkeys(more, known.positions), body)
    errors += [
        FieldError(short(name), f"unknown key{suggest(name, (*limits, *more))}")
        for name in body
        if name not in limits and name not in more
    ]
    if not errors and body["layer"] not in known.full_layers:
        layers = ", ".join(map(str, known.full_layers))
        told = f"layer {body['layer']} has a sliding window and evicts nothing; those that do: "
        errors = [FieldError("layer", told + layers)]
    if not errors and method_of(spec, body["arm"]).kind == POOLED:
        told = f"arm {body['arm']} pools tokens and judges none; its traces would be empty"
        errors = [FieldError("arm", told)]
    if errors:
        raise SpecError(*errors)
    return TraceWanted(run.key, run.id, *(body[name] for name in (*limits, *more)))


def out_of(limits: dict[str, int], body: dict) -> list[FieldError]:
    """What is no whole number from 0 to below its limit."""
    errors = []
    for name, limit in limits.items():
        value = body.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < limit:
            text = f"must be a whole number from 0 to {limit - 1}, not {shown(value)}"
            errors.append(FieldError(name, text))
    return errors


def token_names(engine: Engine, run: Run, ids: str) -> dict[str, str]:
    """Token id → text in the run's own tokenizer, for ids as "7,9"; unknown ids are left out."""
    from engine.models.loader import facts, load_tokenizer
    from engine.tasks.text import piece

    warm()
    spec = engine.results.spec(run.key)
    told = {part for part in ids.split(",") if part.isascii() and part.isdigit()}
    wanted = {int(part) for part in told if len(part) <= DIGITS}
    if spec is None or not wanted or run.kind == KVPRESS:
        return {}
    tokenizer, vocab = load_tokenizer(spec.model), facts(spec.model).vocab
    return {str(token): piece(tokenizer, token) for token in sorted(wanted) if token < vocab}


def _part(name: str, value: Any, errors: list[FieldError]) -> tuple[int, int] | None:
    if value is None:
        return None
    whole = isinstance(value, list) and len(value) == 2 and all(type(v) is int for v in value)
    if not whole or not 0 <= value[0] < value[1]:
        errors.append(FieldError(name, f"must be [start, stop) of token positions, not {value!r}"))
        return None
    return value[0], value[1]
