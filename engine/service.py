"""The engine service: the one owner of the data, on 127.0.0.1, for pages and command lines.

JSON for commands, Arrow streams for tables.  Knows the store, the queue and the results; loads no
model (the worker does) and draws nothing.
"""

from __future__ import annotations

import dataclasses
import logging
import secrets
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Body, FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as StarletteHTTPException

from engine import addresses, gating, library, views
from engine.benchmark import benchmark
from engine.closeup import attention_answer, drop_trace, find, token_names, trace_answer
from engine.comparing import service as comparing
from engine.exchange import arrow, check_text
from engine.guard import Guard
from engine.kinds import DECODE, SWEEP
from engine.kvpress import service as kvpress_service
from engine.models.controlled import ledger, shelf
from engine.offers import make_schema
from engine.owner import Engine
from engine.registry import FieldError, SpecError
from engine.results import ACTIVE, check_spec, clean
from engine.store.bundles import MOST_RUNS, export_bundle, export_run, import_bundle
from engine.store.decode import schemas
from engine.store.ledger import Gone
from engine.store.views import Stale
from engine.version import code_version, product_version

log = logging.getLogger("phasescope")
Spec = Annotated[dict, Body()]
LARGEST = 2**31 - 1  # of the numbers in an address
Whole = Annotated[int | None, Query(ge=-LARGEST, le=LARGEST)]
OBJECT = "must be a JSON object, sent as application/json"
UNREADABLE = f"{OBJECT}; this one is no UTF-8, is nested too deeply or holds an endless number"
# What the framework found → what the user reads.
MALFORMED = {
    "json_invalid": f"{OBJECT}; this body is no JSON",
    "dict_type": OBJECT,
    "missing": "is missing",
    "bool_parsing": "must be true or false",
    **dict.fromkeys(
        ("int_parsing", "int_parsing_size", "greater_than_equal", "less_than_equal"),
        f"must be a whole number of at most {LARGEST}",
    ),
}


def make_app(engine: Engine, token: str) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI):
        await run_in_threadpool(engine.start)
        if engine.stays:  # a single command deletes nothing on the side
            await run_in_threadpool(library.sweep_out, engine)
        yield
        await run_in_threadpool(engine.stop)

    about = {"title": "Phasescope", "version": product_version()}
    # The framework's own page of addresses would load its scripts from the internet.
    app = FastAPI(**about, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.add_middleware(Guard, token=token, access=engine.access)
    _errors(app)
    addresses.add_to(app, engine)
    _commands(app, engine)
    _tables(app, engine)
    gating.add_to(app, engine)
    comparing.add_to(app, engine)
    views.add_to(app, engine)
    library.add_to(app, engine)
    kvpress_service.add_to(app, engine)
    return app


def _errors(app: FastAPI) -> None:
    """Every refusal has one form: {errors: [{field, message}]}."""

    @app.exception_handler(SpecError)
    async def refused(request: Request, error: SpecError) -> JSONResponse:
        return _refusal(422, *error.errors)

    @app.exception_handler(Stale)
    async def stale(request: Request, error: Stale) -> JSONResponse:
        return _refusal(409, FieldError("version", str(error)))

    @app.exception_handler(Gone)
    async def gone(request: Request, error: Gone) -> JSONResponse:
        return _refusal(404, FieldError("", str(error)))

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        problems = []
        for problem in error.errors()[:20]:
            where = [str(part) for part in problem["loc"][1:] if not isinstance(part, int)]
            told = MALFORMED.get(problem["type"], problem["msg"])
            problems.append(FieldError(".".join(where) or "spec", told))
        return _refusal(422, *problems)

    @app.exception_handler(StarletteHTTPException)
    async def http(request: Request, error: StarletteHTTPException) -> JSONResponse:
        if error.status_code == 400:  # the framework met a body that its JSON reader gave up on
            return _refusal(422, FieldError("spec", UNREADABLE))
        return _refusal(error.status_code, FieldError("", str(error.detail)))

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        name = secrets.token_hex(4)
        log.error("error %s at %s %s", name, request.method, request.url.path, exc_info=error)
        text = f"something went wrong inside the service; its log has it under {name}"
        return _refusal(500, FieldError("", text))


def _refusal(status: int, *errors: FieldError) -> JSONResponse:
    body = {"errors": [{"field": e.field, "message": e.message} for e in errors]}
    return JSONResponse(body, status)


def _commands(app: FastAPI, engine: Engine) -> None:
    store, queue, results = engine.store, engine.queue, engine.results

    @app.get("/health")
    def health() -> JSONResponse:
        about = {"version": product_version(), "code_version": code_version(), "busy": queue.busy}
        shared = {"read_only": engine.access.read_only, "demo": engine.access.demo}
        return JSONResponse(about | shared)

    @app.get("/schema")
    def schema() -> JSONResponse:
        engine.ready.wait(timeout=110)
        return JSONResponse(clean(make_schema(results)))

    @app.post("/preview")
    def preview(values: Spec) -> JSONResponse:
        spec = check_spec(check_text(values))
        plan = engine.plan(spec)
        if not engine.access.read_only:  # there nothing is run, whatever fits
            engine.access.check(spec, plan)
        engine.remember(spec)
        return JSONResponse(clean(plan))

    @app.post("/lengths")
    def lengths(values: Spec) -> JSONResponse:
        check_lengths(values)
        return JSONResponse({"fits": True})

    @app.get("/specs/{key}")
    def get_spec(key: str) -> JSONResponse:
        values = engine.spec(key)
        if values is None:
            raise HTTPException(404, f"no spec {key[:40]!r} is known here")
        return JSONResponse(values)

    @app.post("/runs")
    def submit(values: Spec) -> JSONResponse:
        title = values.pop("title", "")
        check_text({"title": title})
        if not isinstance(title, str) or len(title) > 300:
            raise SpecError(FieldError("title", "must be text of at most 300 characters"))
        spec = check_spec(check_text(values))
        job = engine.submit(spec, title.strip())
        return JSONResponse({"key": spec.key, "job": job.id})

    @app.get("/runs")
    def runs() -> JSONResponse:
        engine.ready.wait(timeout=110)
        return JSONResponse(results.lines())

    @app.get("/runs/{key}")
    def show(key: str) -> JSONResponse:
        run = find(engine, key)
        return JSONResponse(clean(results.show(run, queue.progress(run))))

    @app.get("/runs/{key}/depth")
    def depth(key: str) -> JSONResponse:
        return JSONResponse(results.depth(find(engine, key)))

    @app.post("/runs/{key}/cancel")
    def cancel(key: str) -> JSONResponse:
        find(engine, key)
        return JSONResponse({"cancelled": queue.cancel(key)})

    @app.delete("/runs/{key}")
    def delete(key: str) -> JSONResponse:
        with store.alone():  # or a job is queued between the look and the deletion
            runs = store.runs_of(key)
            if not runs:
                raise HTTPException(404, f"no run {key[:40]!r} here")
            if any(run.status in ACTIVE for run in runs):
                raise SpecError(FieldError("key", f"{key} is at work; cancel it first"))
            store.delete(key)
        return JSONResponse({"deleted": key})

    @app.get("/benchmark")
    def family(wait: bool = True) -> JSONResponse:
        if wait:
            engine.bring_in_family()
        elif coming := engine.family_coming():
            return JSONResponse({"coming": coming}, 202)
        return JSONResponse(clean(benchmark(results)))

    @app.get("/training")
    def trainings() -> JSONResponse:
        return JSONResponse({"runs": ledger.trainings(), "ended": ledger.ended()})

    @app.post("/training/{name}/stop")
    def stop_training(name: str) -> JSONResponse:
        if not shelf.NAME.fullmatch(name) or not ledger.ask_to_stop(name):
            raise HTTPException(404, f"no training {name[:40]!r} here")
        return JSONResponse({"stopping": name})

    @app.get("/jobs")
    def jobs() -> JSONResponse:
        return JSONResponse([job_dict(job) for job in store.jobs()])

    @app.get("/jobs/{id}")
    def job(id: int) -> JSONResponse:
        found = store.job(id) if abs(id) <= LARGEST else None
        if found is None:
            raise HTTPException(404, f"no job {id} here")
        return JSONResponse(job_dict(found) | {"progress": queue.progress(store.run(found.run))})

    @app.post("/runs/{key}/attention")
    def attention(key: str, body: Spec) -> JSONResponse:
        return attention_answer(engine, find(engine, key), body)

    @app.post("/runs/{key}/trace")
    def trace(key: str, body: Spec) -> Response:
        return trace_answer(engine, find(engine, key), body)

    @app.post("/runs/{key}/trace/stop")
    def stop_trace(key: str, body: Spec) -> JSONResponse:
        return drop_trace(engine, find(engine, key), body)

    @app.post("/import")
    async def bring_in(request: Request, file: str = "") -> JSONResponse:
        body = await request.body()
        return JSONResponse(await run_in_threadpool(_import, engine, body, file))


def _tables(app: FastAPI, engine: Engine) -> None:
    store = engine.store

    def rows_of(key: str, control: bool) -> int:
        run = find(engine, key)
        if run.kind != SWEEP:
            where = "decode" if run.kind == DECODE else "predictions"
            raise HTTPException(404, f"run {key} is a {run.kind} run; its rows are under {where}")
        if control and run.control_run is None:
            raise HTTPException(404, f"run {key} has no control: it is the full cache itself")
        return run.control_run if control else run.id

    @app.get("/runs/{key}/answers")
    def answers(key: str, control: bool = False, scan: bool = False) -> Response:
        return arrow(store.answers_table(rows_of(key, control), scan))

    @app.get("/runs/{key}/tokens")
    def tokens(
        key: str, sample: Whole = None, shift: Whole = None, control: bool = False
    ) -> Response:
        return arrow(store.tokens(rows_of(key, control), sample, shift))

    @app.get("/runs/{key}/token_means")
    def token_means(key: str, sample: Whole = 0, control: bool = False) -> Response:
        rows, spec = rows_of(key, control), engine.results.spec(key)
        stride = spec and (spec.stride or spec.settings.modulus)
        return arrow(store.token_means(rows, sample, stride or 1))

    @app.get("/runs/{key}/decode/{table}")
    def decode(key: str, table: str, arm: Whole = None, sample: Whole = None) -> Response:
        run, name = find(engine, key), f"decode_{table.removeprefix('decode_')}"
        if run.kind != DECODE:
            where = "answers and tokens" if run.kind == SWEEP else "predictions"
            raise HTTPException(404, f"run {key} is a {run.kind} run; its rows are {where}")
        if name not in schemas():
            known = ", ".join(schemas())
            raise HTTPException(404, f"no table {table[:40]!r} of a decode run; known: {known}")
        return arrow(store.decode_table(run.id, name, arm, sample))

    @app.get("/runs/{key}/names")
    def names(key: str, ids: str) -> JSONResponse:
        return JSONResponse(token_names(engine, find(engine, key), ids))

    @app.get("/runs/{key}/bundle")
    def bundle(key: str, alone: bool = False) -> Response:
        run = find(engine, key)
        if run.status in ACTIVE:
            raise SpecError(FieldError("key", f"{key} is at work; export it when it is finished"))
        name = f'attachment; filename="phasescope-{key}.zip"'
        content = export_run(store, run, alone) if alone else export_bundle(store, [run])
        return Response(
            content, media_type="application/zip", headers={"content-disposition": name}
        )

    @app.post("/bundle")
    def bundle_of_many(body: Spec) -> Response:
        return Response(_bundle(engine, check_text(body)), media_type="application/zip")


def _bundle(engine: Engine, body: dict) -> bytes:
    """The runs of {keys, maps, view} as one file."""
    keys, maps, view = body.get("keys"), body.get("maps", True), body.get("view")
    if not isinstance(keys, list) or not 1 <= len(keys) <= MOST_RUNS:
        raise SpecError(FieldError("keys", f"must be a list of 1 to {MOST_RUNS} runs' keys"))
    if not isinstance(maps, bool) or not isinstance(view, dict | None):
        raise SpecError(FieldError("bundle", "maps must be true or false, view an object or null"))
    runs = [find(engine, str(key)) for key in dict.fromkeys(map(str, keys))]
    for run in runs:
        if run.status in ACTIVE:
            told = f"{run.key} is at work; export it when it is finished"
            raise SpecError(FieldError("keys", told))
    return export_bundle(engine.store, runs, maps, view)


def check_lengths(values: dict) -> None:
    """Refuse texts by their characters alone, before a client sends what no model takes."""
    from engine.estimate import check_characters
    from engine.models.loader import facts

    sizes, field = values.pop("characters", None), str(values.pop("field", "task.text"))
    if not isinstance(sizes, list) or not all(type(n) is int and n >= 0 for n in sizes):
        raise SpecError(FieldError("characters", "must be a list of whole numbers of at least 0"))
    spec = check_spec(check_text(values))
    check_characters(sizes, spec, facts(spec.model), field)


def _import(engine: Engine, body: bytes, file: str) -> dict:
    """{key, added} of the first run, {runs, view} of all that the bundle holds."""
    name = check_text({"file": file})["file"]
    done = import_bundle(engine.store, body, file=name, check_view=views.check)
    for told in done["runs"]:
        run = engine.results.pick(told["key"])
        if told["added"] and run:
            engine.results.report(run)
    if done["view"]:
        done["view"] = views.save(engine, done["view"], author="")
    return done["runs"][0] | done


def job_dict(job: Any) -> dict:
    times = ("created", "started", "finished")
    values = dataclasses.asdict(job)
    return values | {n: values[n] and values[n].isoformat(timespec="seconds") + "Z" for n in times}
