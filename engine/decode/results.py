"""What is shown of a decode run: its report, made from its rows and the arms kept with it.

Knows the store and the statistics.  Knows nothing of processes or HTTP.
"""

from __future__ import annotations

from typing import Any

from engine.store import Run, Store

# The numbers of a run that has none yet: JSON keeps its keys.
NOTHING: dict[str, Any] = {
    **dict.fromkeys(("finding", "doubt", "mode", "fair", "model", "parameters")),
    **{name: [] for name in ("methods", "overall", "pairs", "warnings", "published")},
    "curves": {name: [] for name in ("retention", "retention_by_mark", "loss")},
    "n_samples": 0,
}


def compute(store: Store, run: Run, spec: Any, note: str = "") -> dict:
    """The `show` object's numbers of a decode run."""
    from engine.analysis.eviction import report
    from engine.analysis.eviction_warnings import unfinished
    from engine.analysis.eviction_words import not_written
    from engine.decode.plan import told_arms

    made = run.provenance
    if "arms" not in made or not store.decode_stored(run.id):
        return NOTHING
    tables = ("decode_steps", "decode_answers", "decode_marks", "decode_costs")
    frames = [store.decode_table(run.id, name).to_pandas() for name in tables]
    given, brought = _given(spec), bool(getattr(spec.task, "prompts", ()))
    told = not_written(len(given), spec.samples, brought, spec.mode)
    found = report(
        *frames,
        told_arms(spec, made["prompt_tokens"], made["arms"]),
        seed=spec.seed,
        mode=spec.mode,
        fair=spec.fair,
        model=spec.model.id,
        parameters=made.get("parameters"),
        note=f"{told} {note}".strip(),
    )
    found["warnings"] += unfinished(_written(store, run, spec), spec.steps)
    return NOTHING | found


def _written(store: Store, run: Run, spec: Any) -> Any:
    """Texts that an end token could have ended: none where the task has none, none that was given.

    The full cache reads a continuation that a prompt brings.
    """
    texts = store.decode_table(run.id, "decode_texts").to_pandas()
    if not getattr(spec.task, "stops", False):
        return texts[:0]
    return texts[(texts["arm"] > 0) | ~texts["sample"].isin(_given(spec))]


def _given(spec: Any) -> list[int]:
    """Prompts whose continuation the full cache does not write: the task or the user gives it."""
    if getattr(spec.task, "given", False):
        return list(range(spec.samples))
    own = getattr(spec.task, "prompts", ())[: spec.samples]
    return [i for i, table in enumerate(own) if table["continuation"]]
