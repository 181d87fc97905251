"""GET /runs/{key}/gate: a finished sweep judged against thresholds, from its stored rows.

Knows which runs and thresholds can be judged, and refuses others in a sentence.  The rules of the
verdict are `engine.analysis.gate`'s.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from engine.analysis.gate import Limits, Unjudged, judge
from engine.closeup import find
from engine.kinds import SWEEP, kind_of
from engine.owner import Engine
from engine.registry import FieldError, SpecError, shown
from engine.results import clean
from engine.store import Run
from engine.titles import title


def add_to(app: FastAPI, engine: Engine) -> None:
    @app.get("/runs/{key}/gate")
    def gate(
        key: str,
        worst: float | None = None,
        gap: float | None = None,
        mean: float | None = None,
        alpha: float = Limits().alpha,
    ) -> JSONResponse:
        limits = check(Limits(worst, gap, mean, alpha))
        return JSONResponse(clean(verdict(engine, find(engine, key), limits)))


def check(limits: Limits) -> Limits:
    """Refuse thresholds that no fraction can meet or miss, and a gate that asks for nothing."""
    asked = {name: getattr(limits, name) for name in ("worst", "gap", "mean")}
    errors = [
        FieldError(name, f"must be a fraction from 0 to 1, as 0.8, not {shown(value)}")
        for name, value in asked.items()
        if value is not None and not 0 <= value <= 1
    ]
    if not 0 < limits.alpha < 1:
        told = f"must lie between 0 and 1, as 0.05 for 95 % intervals, not {shown(limits.alpha)}"
        errors.append(FieldError("alpha", told))
    if all(value is None for value in asked.values()):
        told = "there is nothing to judge: give at least one of worst, gap and mean"
        errors.append(FieldError("gate", told))
    if errors:
        raise SpecError(*errors)
    return limits


def check_kind(spec: Any) -> Any:
    """Refuse specs that have no phases to judge."""
    if (kind := kind_of(spec)) != SWEEP:
        told = f"a gate judges sweeps over phases; for {kind} runs it is not defined yet"
        raise SpecError(FieldError("kind", told))
    if spec.settings.protocol == "pair":
        told = "a document pair has two copies and no phases; a gate needs another protocol"
        raise SpecError(FieldError("protocol", told))
    return spec


def verdict(engine: Engine, run: Run, limits: Limits) -> dict:
    """{key, title, status, source, origin, stale, …what `judge` says} of one run."""
    spec = engine.results.spec(run.key)
    if spec is None:
        told = f"{run.key} is of an older version, which is no longer read; run it again"
        raise SpecError(FieldError("key", told))
    check_kind(spec)
    if run.status != "done":
        reason = f" ({run.reason})" if run.reason else ""
        told = f"{run.key} is {run.status}{reason}; a gate judges runs that are done"
        raise SpecError(FieldError("key", told))
    settings = spec.settings
    try:
        judged = judge(
            engine.store.answers(run.id),
            limits,
            modulus=settings.modulus,
            stride=spec.stride,
            measure=settings.measure,
            seed=settings.seed,
            noise_floor=run.noise_floor,
        )
    except Unjudged as error:
        raise SpecError(FieldError("key", f"{run.key}: {error}")) from None
    values, phrase = engine.store.spec(run.key) or {}, engine.store.phrase(run.key)
    head = {
        "key": run.key,
        "title": run.title or title(values, phrase),
        "phrase": phrase,
        "status": run.status,
        "source": run.source,
        "origin": run.origin,
        "stale": engine.results.stale(run),
    }
    return head | judged
