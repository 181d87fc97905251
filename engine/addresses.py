"""Addresses with an ending: .json, .csv and .parquet behind every run, its tables and the lists.

The same address without an ending is the service's own; with one it is for a browser, a
spreadsheet or a script, and takes the token as ?token= too.  Knows what each address gives; the
forms are in `engine.forms`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from engine import forms, views
from engine.closeup import find
from engine.kinds import DECODE, KVPRESS, SWEEP
from engine.owner import Engine
from engine.registry import FieldError, SpecError, short, suggest
from engine.results import clean
from engine.store import Run
from engine.store.decode import schemas

Form = Literal["json", "csv", "parquet"]
Table = Literal["csv", "parquet"]
LARGEST = 2**31 - 1
TABLES = {SWEEP: ("answers", "tokens"), KVPRESS: ("predictions",)}
PAGING = ("_size", "_offset", "token")
LINES = pa.schema(
    [
        *((name, pa.string()) for name in ("key", "kind", "title", "phrase", "model", "task")),
        *((name, pa.string()) for name in ("status", "created", "source")),
        *((name, pa.bool_()) for name in ("stale", "preset")),
        ("finding", pa.string()),
        *((name, pa.float64()) for name in ("mean", "worst", "gap", "period")),
        ("curve", pa.list_(pa.float64())),
    ]
)
VIEWS = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "page", "name", "note", "author", "parent")),
        *((name, pa.list_(pa.string())) for name in ("tags", "keys")),
        ("state", pa.string()),  # JSON
        ("locked", pa.bool_()),
        ("version", pa.int64()),
        *((name, pa.string()) for name in ("created", "changed")),
    ]
)
DOCS = (
    "GET addresses that end in .json, .csv or .parquet, /openapi.json and /docs take the token as "
    "the header Authorization: Bearer TOKEN or as ?token=TOKEN; all others as the header alone."
)
SLICED = "_size and _offset give a part of the rows; .json gives 100 at a time without them."


def add_to(app: FastAPI, engine: Engine) -> None:
    """Before the addresses without an ending, whose parameters would take the ending in."""
    _lists(app, engine)
    _runs(app, engine)
    _docs(app)


def _lists(app: FastAPI, engine: Engine) -> None:
    @app.get("/runs.{form}", tags=["addresses"], description=f"All runs, newest first. {SLICED}")
    def runs(request: Request, form: Form) -> Response:
        _known(request)
        engine.ready.wait(timeout=110)
        lines = [{n: line.get(n) for n in LINES.names} for line in engine.results.lines()]
        return _answer(request, pa.Table.from_pylist(lines, schema=LINES), form, "runs")

    @app.get("/views.json", tags=["addresses"], description="All saved views.")
    def saved(request: Request) -> JSONResponse:
        _known(request, paged=False)
        return JSONResponse([view.to_dict() for view in engine.store.views()])

    @app.get("/views.{form}", tags=["addresses"], description=f"All saved views. {SLICED}")
    def views_table(request: Request, form: Table) -> Response:
        _known(request)
        told = [view.to_dict() for view in engine.store.views()]
        rows = [view | {"state": json.dumps(view["state"])} for view in told]
        made = pa.Table.from_pylist([{n: row[n] for n in VIEWS.names} for row in rows], VIEWS)
        return _answer(request, made, form, "views")

    @app.get("/views/{id}.json", tags=["addresses"], description="A saved view and its runs.")
    def view(request: Request, id: str) -> JSONResponse:
        _known(request, paged=False)
        return JSONResponse(views.opened(engine, id))

    @app.get(
        "/views/{id}.{form}",
        tags=["addresses"],
        description=f"A saved view's runs, one a row, as /runs has them. {SLICED}",
    )
    def view_table(request: Request, id: str, form: Table) -> Response:
        _known(request)
        keys = views.known(engine, id).keys
        lines = {line["key"]: line for line in engine.results.lines(keys)}
        rows = [lines.get(key, {"key": key, "status": "missing"}) for key in keys]
        rows = [{n: row.get(n) for n in LINES.names} for row in rows]
        return _answer(request, pa.Table.from_pylist(rows, LINES), form, id)


def _runs(app: FastAPI, engine: Engine) -> None:
    @app.get(
        "/runs/{key}.json", tags=["addresses"], description="One run: what was found, and by what."
    )
    def run(request: Request, key: str) -> JSONResponse:
        _known(request, paged=False)
        found = find(engine, key)
        return JSONResponse(clean(engine.results.show(found, engine.queue.progress(found))))

    @app.get(
        "/runs/{key}.{form}",
        tags=["addresses"],
        description="A run's answers; of an import from kvpress its predictions. The filters are "
        f"those of its tables. {SLICED}",
    )
    def run_table(request: Request, key: str, form: Table) -> Response:
        kind = find(engine, key).kind
        if kind == DECODE:
            return decode(request, key, "answers", form)
        return rows(request, key, TABLES[kind][0], form)

    @app.get(
        "/runs/{key}/decode/{table}.{form}",
        tags=["addresses"],
        description="Rows of a decode run: steps, answers, marks, costs or texts; arm and sample "
        f"filter them. {SLICED}",
    )
    def decode(request: Request, key: str, table: str, form: Form) -> Response:
        numbers = _known(request, arm=int, sample=int)
        found = find(engine, key)
        if found.kind != DECODE:
            raise HTTPException(404, f"run {key} is no decode run; {_tables_of(found)}")
        name = f"decode_{table.removeprefix('decode_')}"
        if name not in schemas():
            raise HTTPException(404, f"no table {table[:40]!r} here; {_tables_of(found)}")
        rows = engine.store.decode_table(found.id, name, numbers["arm"], numbers["sample"])
        return _answer(request, rows, form, f"{key}-{table}")

    @app.get(
        "/runs/{key}/{table}.{form}",
        tags=["addresses"],
        description="Rows of a sweep (answers or tokens) or of an import from kvpress "
        "(predictions). sample and shift filter them, "
        f"control=true gives the full cache's, scan=true the layer scan's answers. {SLICED} In "
        ".csv a text that begins with = + - @ or a tab stands behind an apostrophe, so that no "
        "spreadsheet runs it.",
    )
    def rows(request: Request, key: str, table: str, form: Form) -> Response:
        asked = _known(request, sample=int, shift=int, control=bool, scan=bool)
        found = find(engine, key)
        made = _of_sweep(engine, found, table, asked)
        name = "-".join([key, table, *(["control"] if asked["control"] else [])])
        return _answer(request, made, form, name)


def _of_sweep(engine: Engine, run: Run, table: str, asked: dict) -> pa.Table:
    if table not in TABLES.get(run.kind, ()):
        raise HTTPException(404, f"no table {table[:40]!r} here; {_tables_of(run)}")
    if run.kind == KVPRESS:
        return engine.store.predictions(run.id, asked["sample"])
    if asked["control"] and run.control_run is None:
        raise HTTPException(404, f"run {run.key} has no control")
    rows, places = run.control_run if asked["control"] else run.id, ("sample", "shift")
    if table == "tokens":
        if asked["scan"]:
            raise SpecError(FieldError("scan", "is of answers; a layer scan keeps no token rows"))
        return engine.store.tokens(rows, *(asked[place] for place in places))
    found = engine.store.answers_table(rows, bool(asked["scan"]))
    for place in places:
        if asked[place] is not None:
            found = found.filter(pc.equal(found[place], asked[place]))
    return found


def _tables_of(run: Run) -> str:
    names = TABLES.get(run.kind) or [f"decode/{n.removeprefix('decode_')}" for n in schemas()]
    known = ", ".join(names)
    return f"the tables of run {run.key}: {known}, each as .json, .csv and .parquet"


# ---- what is asked and what is answered


def _known(request: Request, paged: bool = True, **filters: Callable) -> dict[str, Any]:
    """Filters by name, None where not given; SpecError for any other parameter or value."""
    known = (*filters, *(PAGING if paged else ("token",)))
    errors, found = [], dict.fromkeys(filters)
    for name, text in request.query_params.multi_items():
        if name not in known:
            told = f"is no filter of this address{suggest(name, known)}"
            errors.append(FieldError(short(name), told))
        elif filters.get(name) is int:
            found[name] = _whole(text)
            if found[name] is None:
                told = f"must be a whole number of at most {LARGEST}"
                errors.append(FieldError(name, told))
        elif filters.get(name) is bool:
            found[name] = {"true": True, "1": True, "false": False, "0": False}.get(text.lower())
            if found[name] is None:
                errors.append(FieldError(name, "must be true or false"))
    if errors:
        raise SpecError(*errors)
    return found


def _whole(text: str) -> int | None:
    fine = text.isascii() and text.removeprefix("-").isdigit() and len(text) < 12
    return int(text) if fine and abs(int(text)) <= LARGEST else None


def _answer(request: Request, rows: pa.Table, form: str, name: str) -> Response:
    """The rows asked for in that form; of .json a page, with the address of the next one."""
    size, offset = (_bound(request, part) for part in ("_size", "_offset"))
    if form == "json":
        size = forms.PAGE if size is None else size
        if size > forms.MOST:
            told = f"must be at most {forms.MOST}; .csv and .parquet give all rows at once"
            raise SpecError(FieldError("_size", told))
    start = min(offset or 0, rows.num_rows)
    part = rows.slice(start, size)
    if form != "json":
        made, kind = (forms.csv, "text/csv") if form == "csv" else (forms.parquet, forms.PARQUET)
        headers = {"content-disposition": f'attachment; filename="phasescope-{name}.{form}"'}
        return Response(made(part), media_type=kind, headers=headers | forms.SAFE)
    stop = start + part.num_rows
    after = request.url.include_query_params(_offset=stop, _size=size)
    more = f"{after.path}?{after.query}" if stop < rows.num_rows and size else None
    body = {"total": rows.num_rows, "offset": start, "next": more, "columns": rows.column_names}
    return JSONResponse(body | {"rows": clean(part.to_pylist())}, headers=forms.SAFE)


def _bound(request: Request, name: str) -> int | None:
    text = request.query_params.get(name)
    found = None if text is None else _whole(text)
    if text is not None and (found is None or found < 0):
        raise SpecError(FieldError(name, f"must be a whole number from 0 to {LARGEST}"))
    return found


# ---- the list of all addresses


def _docs(app: FastAPI) -> None:
    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(forms.page(app.openapi(), DOCS), headers=forms.SAFE | forms.PLAIN)
