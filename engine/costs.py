"""What a run costs, from its spec and provenance."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from engine.registry import SpecError
from engine.store import Run
from engine.warming import warm

BOOKED = {"seconds": "wall_seconds", "tokens": "tokens"}
NOTHING = {"kv_bytes": None, "kv_bytes_full": None}
ACTIVE = ("queued", "running")
RECORDS = "records"  # retrieval whose prompts are as long as their records make them
LONGEST = 32_768  # tokens in front of a query whose plan is still made in a second or two


def cost(spec: Any, run: Run, store: Any = None) -> dict[str, Any]:
    """Seconds and tokens of the run, and the bytes of keys and values that its query reads.

    Where a retrieval task does not tell how long its prompts are, a finished run's rows in `store`
    do.  Other tasks have no bytes here: a model's config, which takes seconds to read first, is
    asked for where a memory's cost is the question.
    """
    length = getattr(spec.task, "places", None)
    if spec.task.kind == RECORDS and store is not None and run.status not in ACTIVE:
        length = _read_before(store, run.id, run.answers_stored)
    told = {n: run.provenance.get(name) for n, name in BOOKED.items()} | NOTHING
    with contextlib.suppress(ValueError, LookupError, OSError):  # the model is another one now
        told |= kv_bytes(spec, length)
    return told


@functools.lru_cache(maxsize=256)
def _read_before(store: Any, run: int, rows: int) -> int | None:
    """Mean tokens in front of the query, whole; None without rows.  `rows`: how many there are."""
    mean = store.answers(run)["length"].mean()
    return round(mean) - 1 if 1 < mean <= LONGEST else None


def kv_bytes(spec: Any, length: int | None = None) -> dict[str, int | None]:
    """Keys and values held at the query, compressed and full, from the memory's own plan.

    `length`: tokens in front of the query, where the task does not tell them.
    """
    from engine.models.loader import facts

    warm()
    try:
        known = facts(spec.model)
    except SpecError:
        return dict(NOTHING)
    length = getattr(spec.task, "places", length)
    if length is None:
        return dict(NOTHING)
    each = 2 * known.kv_heads * known.head_dim * known.bytes_per_weight
    full = {"kv_bytes_full": known.n_layers * (length + 1) * each}
    if getattr(spec.memory, "evicts", False):
        return {"kv_bytes": _evicting(spec.memory, known, length + 1) * each, **full}
    return {"kv_bytes": _held(spec.memory, known.n_layers, length) * each, **full}


@functools.lru_cache(maxsize=256)
def _held(memory: Any, layers: int, length: int) -> int:
    """Entries and exact tokens that a query behind `length` tokens reads, over all layers."""
    import torch

    query, tokens = torch.tensor([length]), torch.arange(length + 1)
    held = 0
    for layer in range(layers):
        plan = memory.plan(layer, length + 1, torch.zeros(1, dtype=torch.int64))
        if plan is None:
            held += length + 1
            continue
        held += int(plan.visible_entries(query, None).sum())
        held += int(plan.exact_tokens(query, None, tokens).sum())
    return held


def _evicting(memory: Any, known: Any, length: int) -> int:
    """Entries that all layers hold once a prompt of that length is read, by the schedule alone."""
    from engine.eviction.schedule import resident

    whole = memory.when == "after_context"
    held = resident(memory, length if whole else 0, 0 if whole else length).last
    heads = known.q_heads // known.kv_heads if memory.per_query_head else 1
    evicting = len(known.full_layers)
    return evicting * held * heads + (known.n_layers - evicting) * length
