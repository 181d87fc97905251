"""The library: every run with its notes and its size, every view, and what is kept for how long.

Knows the store and the results' lines; computes no statistics.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from fastapi import Body, FastAPI
from fastapi.responses import JSONResponse

from engine.owner import Engine
from engine.registry import FieldError, SpecError
from engine.results import ACTIVE
from engine.store.schema import utc_now
from engine.store.views import RunNote

log = logging.getLogger("phasescope")
RETENTION = "retention_days"
LONGEST = 36_500  # days


def library(engine: Engine) -> dict:
    """{runs, views, deleted, disk, retention_days}; runs newest first, each with note, tags and
    rows; `deleted`: views that can be brought back, none where nobody may."""
    notes, rows = engine.store.run_notes(), engine.store.row_counts()
    used: dict[str, int] = {}
    views = engine.store.views()
    for key in (key for view in views for key in view.keys):
        used[key] = used.get(key, 0) + 1
    lines = engine.results.lines()
    for line in lines:
        key = line["key"]
        note = notes.get(key, RunNote(key))
        line |= {"note": note.note, "tags": list(note.tags), "note_version": note.version}
        line |= {"rows": rows.get(key, 0), "views": used.get(key, 0)}
    return {
        "runs": lines,
        "views": [view.to_dict() for view in views],
        "deleted": _deleted(engine),
        "disk": disk(engine),
        RETENTION: engine.store.setting(RETENTION),
    }


def _deleted(engine: Engine) -> list[dict]:
    if engine.access.read_only or engine.access.demo:
        return []
    return [view.to_dict() for view in engine.store.views(deleted=True)]


def disk(engine: Engine) -> dict[str, int]:
    """Bytes on the disk, by what they hold."""
    store = engine.store
    database = sum(size(file) for file in store.path.parent.glob(f"{store.path.name}*"))
    return {
        "database": database,
        "maps": size(store.maps.folder),
        "traces": size(store.traces.folder),
    }


def size(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    try:
        files = path.rglob("*") if path.is_dir() else [path]
        return sum(file.stat().st_size for file in files if file.is_file())
    except OSError:  # a file went while it was counted
        return 0


def check_days(value: object) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 1 <= value <= LONGEST:
        told = f"must be a whole number of days from 1 to {LONGEST:,}, or empty to keep all"
        raise SpecError(FieldError(RETENTION, told))
    return value


def sweep_out(engine: Engine) -> list[str]:
    """Delete own and imported runs older than the setting that nobody marked: keys deleted.

    A run stays while a view shows it, it has a note or a tag, it is at work, or another run's
    numbers lean on it.
    """
    days = engine.store.setting(RETENTION)
    if days is None:
        return []
    before, gone = utc_now() - timedelta(days=days), []
    every = engine.store.runs()
    new = {run.key for run in every if (run.finished or run.created) > before}
    for key in {run.key for run in every if run.asked} - new:  # a start waits for this
        with engine.store.alone():  # or a view is saved between the look and the deletion
            runs, note = engine.store.runs_of(key), engine.store.run_note(key)
            young = any((run.finished or run.created) > before for run in runs)
            marked = note.note or note.tags or engine.store.views_of(key)
            held = marked or engine.store.leaning(key)
            if young or held or any(run.status in ACTIVE or run.source == "preset" for run in runs):
                continue
            engine.store.delete(key)
        gone.append(key)
    if gone:
        log.info("retention of %s days: %s runs deleted", days, len(gone))
    return gone


def add_to(app: FastAPI, engine: Engine) -> None:
    @app.get("/library")
    def show() -> JSONResponse:
        engine.ready.wait(timeout=110)
        return JSONResponse(library(engine))

    @app.put("/retention")
    def keep(values: Annotated[dict, Body()]) -> JSONResponse:
        """What goes at the next start; `was`: days that the writer read; `now`: at once too."""
        now, names = values.get("now", False), set(values)
        if {"days", "was"} - names or names - {"days", "was", "now"} or not isinstance(now, bool):
            told = "asks for days and was, whole numbers or null, and for now, true or false"
            raise SpecError(FieldError(RETENTION, told))
        engine.store.keep_setting(RETENTION, check_days(values["days"]), values["was"])
        gone = sweep_out(engine) if now else []
        return JSONResponse({"days": engine.store.setting(RETENTION), "deleted": gone})
