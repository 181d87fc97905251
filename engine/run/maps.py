"""Attention of one layer and head on one copy, over entries and tokens.

One layer and head at a time: all maps of a prompt would be hundreds of megabytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from engine.copies import Copy
from engine.memory.base import NEVER
from engine.registry import FieldError, SpecError
from engine.run.read import reader

LONGEST = 8192  # tokens of a prompt; its map is then half a gigabyte while it is made


class Map(NamedTuple):
    """weights (queries, keys) float16; keys are entries first, then tokens, each spanning [start,
    stop).
    """

    weights: np.ndarray
    key_kind: list[str]
    key_start: list[int]
    key_stop: list[int]
    query_positions: list[int]


class _Enough(Exception):
    """The layer asked for was read; the ones above it need not run."""


def attention_map(spec: Any, loaded: Any, copy: Copy, layer: int, head: int) -> Map:
    """Softmax weights of every prompt token as a query.  Entries that do not exist are left out."""
    import torch

    facts = loaded.facts
    if loaded.own_memory:
        told = "is a controlled model, whose attention is not drawn here"
        raise SpecError(FieldError("model.id", told))
    if not 0 <= layer < facts.n_layers:
        raise SpecError(FieldError("layer", f"must be from 0 to {facts.n_layers - 1}, not {layer}"))
    if not 0 <= head < facts.q_heads:
        raise SpecError(FieldError("head", f"must be from 0 to {facts.q_heads - 1}, not {head}"))
    if len(copy.tokens) > LONGEST:
        raise SpecError(
            FieldError(
                "sample",
                f"has {len(copy.tokens):,} tokens; a map holds every query times every key, so "
                f"prompts of at most {LONGEST:,} tokens can be mapped",
            )
        )
    ids = torch.tensor([copy.tokens], device=loaded.model.device)
    with reader(loaded, spec.memory, [copy], watch=(layer, head)) as current:
        handle = _stop_after(loaded.model, layer)
        try:
            loaded.model.base_model(ids, use_cache=False)
        except _Enough:
            pass
        finally:
            handle.remove()
    weights, plan = current.seen
    weights = weights[0].cpu().numpy()
    tokens = range(len(copy.tokens))
    starts, stops = [], []
    if plan is not None:
        last = plan.last[0].cpu().numpy()
        real = np.flatnonzero(last < NEVER)
        width = plan.index.shape[-1]
        starts = [max(0, int(last[j]) - width + 1) for j in real]
        stops = [int(last[j]) + 1 for j in real]
        weights = weights[:, np.concatenate([real, len(last) + np.arange(len(copy.tokens))])]
    return Map(
        weights=weights.astype(np.float16),
        key_kind=["entry"] * len(starts) + ["token"] * len(copy.tokens),
        key_start=[*starts, *tokens],
        key_stop=[*stops, *(t + 1 for t in tokens)],
        query_positions=list(tokens),
    )


def _stop_after(model: Any, layer: int) -> Any:
    """End the forward at the attention of the next layer, whose input nobody needs."""

    def stop(module, args):
        raise _Enough

    following = [m for m in model.modules() if getattr(m, "layer_idx", None) == layer + 1]
    target = following[0] if following else model.get_output_embeddings()
    return target.register_forward_pre_hook(stop)
