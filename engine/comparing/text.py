"""GET /compare/text and GET /runs/{key}/model_card: two runs' tokens, and one run in words.

Knows which runs have the rows that are asked for, and says so of others.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query
from fastapi.responses import JSONResponse

from engine.analysis import compare_text, model_card
from engine.closeup import find
from engine.kinds import DECODE, KVPRESS
from engine.owner import Engine
from engine.registry import FieldError, SpecError, shown
from engine.results import clean
from engine.store import Run

LARGEST = 2**31 - 1
Place = Annotated[int, Query(ge=0, le=LARGEST)]
ENDS = ("worst", "best")
DECODED = "decoded"


def add_to(app: FastAPI, engine: Engine) -> None:
    @app.get("/compare/text")
    def texts(
        a: str,
        b: str,
        sample: Place = 0,
        shift: Place = 0,
        outputs: str = "",
        arm_a: Place = 0,
        arm_b: Place = 0,
    ) -> JSONResponse:
        runs = find(engine, a), find(engine, b)
        if outputs == DECODED:
            return JSONResponse(decoded(engine, runs, sample, (arm_a, arm_b)))
        if outputs and outputs not in ENDS:
            told = f"must be {', '.join(ENDS)} or {DECODED}, not {shown(outputs)}"
            raise SpecError(FieldError("outputs", told))
        made = written(runs, outputs) if outputs else prompts(engine, runs, sample, shift)
        return JSONResponse(made)

    @app.get("/runs/{key}/model_card")
    def card(key: str) -> JSONResponse:
        run = find(engine, key)
        if run.kind == DECODE:
            told = "a model card tells of phases; a decode run is no sweep over them"
            raise SpecError(FieldError("kind", told))
        if run.kind == KVPRESS:
            told = "a model card tells of phases; an import from kvpress has none"
            raise SpecError(FieldError("kind", told))
        shown_run = clean(engine.results.show(run, engine.queue.progress(run)))
        return JSONResponse({"markdown": model_card.card(shown_run)})


def prompts(engine: Engine, runs: tuple[Run, Run], sample: int, shift: int) -> dict:
    """The two copies' tokens; compared by id where both runs have one tokenizer."""
    sides, ids = [], []
    for run in runs:
        if run.kind == DECODE:
            return _nothing(f"{run.key} is a decode run, which stores no prompt's tokens")
        if run.kind == KVPRESS:
            return _nothing(f"{run.key} is an import from kvpress, which brings no prompt's tokens")
        rows = engine.store.tokens(run.id, sample, shift)
        if not rows.num_rows:
            have = engine.store.counts(run.id).tokens
            why = f"has no sample {sample} at shift {shift}" if have else "stored no token rows"
            return _nothing(f"{run.key} {why}")
        sides.append(rows["text"].to_pylist())
        ids.append(rows["token_id"].to_pylist())
    return _matched(engine, runs, sides, ids)


def decoded(engine: Engine, runs: tuple[Run, Run], sample: int, arms: tuple[int, int]) -> dict:
    """The tokens behind a prompt in two decode runs, or under two methods of one."""
    sides, ids = [], []
    for run, arm in zip(runs, arms, strict=True):
        if run.kind != DECODE:
            return _nothing(f"{run.key} is no decode run")
        rows = engine.store.decode_table(run.id, "decode_steps", arm, sample)
        if not rows.num_rows:
            return _nothing(f"{run.key} has no prompt {sample + 1} under its method {arm}")
        sides.append(rows["text"].to_pylist())
        ids.append(rows["token_id"].to_pylist())
    return _matched(engine, runs, sides, ids)


def _matched(engine: Engine, runs: tuple[Run, Run], sides: list, ids: list) -> dict:
    models = [(engine.store.spec(run.key) or {}).get("model") for run in runs]
    return compare_text.diff(*sides, by=(ids[0], ids[1]) if models[0] == models[1] else None)


def written(runs: tuple[Run, Run], which: str) -> dict:
    """What the two models wrote at their worst or best phase, in words."""
    sides = []
    for run in runs:
        text = ((run.written or {}).get(which) or {}).get("text")
        if text is None:
            return _nothing(f"{run.key} has nothing written at its {which} phase")
        sides.append(compare_text.words(text))
    return compare_text.diff(*sides)


def _nothing(reason: str) -> dict:
    return {"a": [], "b": [], "ops": [], "reason": reason}
