"""Evaluations of kvpress over HTTP: a results folder in, a run's configuration out.

Knows the store and what is asked; the files are read in `engine.kvpress.files`.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, FastAPI, HTTPException, Query
from fastapi.responses import JSONResponse, Response

from engine.closeup import find
from engine.exchange import arrow
from engine.kinds import DECODE, KVPRESS
from engine.owner import Engine
from engine.registry import FieldError, SpecError, short, suggest
from engine.store import Run
from engine.store.schema import utc_now

Files = Annotated[dict, Body()]
Place = Annotated[int | None, Query(ge=0, lt=2**31)]
FOLDER = 300  # characters of a folder's name that are kept


def add_to(app: FastAPI, engine: Engine) -> None:
    @app.post("/import/kvpress")
    def bring_in(files: Files) -> JSONResponse:
        return JSONResponse(import_folder(engine, files))

    @app.get("/runs/{key}/predictions")
    def predictions(key: str, sample: Place = None) -> Response:
        run = find(engine, key)
        if run.kind != KVPRESS:
            raise HTTPException(404, f"run {key} is no import from kvpress")
        return arrow(engine.store.predictions(run.id, sample))

    @app.get("/runs/{key}/kvpress")
    def configurations_of(key: str) -> JSONResponse:
        return JSONResponse({"key": key, "configurations": configurations(engine, key)})


def import_folder(engine: Engine, files: dict) -> dict:
    """{key, added} of the three files' texts, by name; `folder`: where they lay."""
    from engine.kvpress.files import FILES, read_folder

    if unknown := [name for name in files if name not in (*FILES, "folder")]:
        told = f"is no file of a kvpress results folder{suggest(unknown[0], FILES)}"
        raise SpecError(FieldError(short(unknown[0]), told))
    try:
        folder = str(files.pop("folder", ""))[-FOLDER:]
        "".join([folder, *map(str, files.values())]).encode()
    except UnicodeEncodeError:
        raise SpecError(FieldError("folder", "holds half a character; save it as UTF-8")) from None
    found = read_folder(files)
    store, spec = engine.store, found.spec
    code = f"kvpress+{spec.to_dict()['results']}"
    store.remember(spec)
    now = utc_now().isoformat(timespec="seconds") + "Z"
    made = {"bundle": None, "file": folder or None, "imported": now, "made_by": "kvpress"}
    count = found.rows.num_rows
    values = {"status": "done", "asked": True, "copies": count, "answers_expected": count}
    values |= {"answers_stored": count, "tokens_expected": 0, "origin": made}
    with store.writing() as cursor:  # one at a time: twice the same adds nothing
        if store.runs_of(spec.key):
            return {"key": spec.key, "added": False}
        run = store._new_run(cursor, spec.key, code, "import", "", True, KVPRESS)
        store._insert_predictions(cursor, run, found.rows)
        store._change(cursor, run, values | {"provenance": found.about})
    engine.results.report(store.run(run))
    return {"key": spec.key, "added": True}


def configurations(engine: Engine, key: str) -> list[dict]:
    from engine.kvpress.config import configurations as made

    run = find(engine, key)
    spec = engine.results.spec(key)
    if spec is None:
        raise HTTPException(404, f"run {key} is of an older version, which is no longer read")
    return made(spec, run, _length(engine, run))


def _length(engine: Engine, run: Run) -> int | None:
    """Mean tokens of a sweep's prompts."""
    if run.kind in (DECODE, KVPRESS):
        return None
    rows = engine.store.answers(run.id)
    return round(rows["length"].mean()) if len(rows) else None
