"""Put back what was dropped, and see what it was worth: evicted entries of one span return.

Heads dropped different parts of a span, so that layers are filled up with absent entries, which a
mask of each head hides.  Knows a decoder's archive; knows no rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from engine.eviction.cache import KeptLayer
from engine.eviction.decode import Decoder
from engine.memory.attention import NAME, attention


def with_span(decoder: Decoder, start: int, stop: int) -> tuple[Decoder, dict[int, Tensor]]:
    """A fork that holds every position of [start, stop) again, and evicts no more.

    Per model layer, absent (B, K, n) marks entries that only fill up.  The decoder must have been
    made with `archive`.
    """
    fork = decoder.fork()
    fork.memory = fork.state = None
    absent = {}
    for number, index in enumerate(fork.layers):
        layer = fork.cache.layers[index]
        absent[index] = _fill(layer, decoder.archived[number], start, stop)
    return fork, absent


def _fill(layer: KeptLayer, archived: list[KeptLayer], start: int, stop: int) -> Tensor:
    """Join a layer with the archive's part of the span, ordered by position; → absent (B, K, n)."""
    parts = [layer, *archived]
    hidden = [torch.zeros_like(layer.positions, dtype=torch.bool)]
    hidden += [(gone.positions < start) | (gone.positions >= stop) for gone in archived]
    hidden = torch.cat(hidden, 2)
    positions = torch.cat([part.positions for part in parts], 2)
    keys = torch.cat([part.keys for part in parts], 2)
    values = torch.cat([part.values for part in parts], 2)
    width = int((~hidden).sum(-1).max())
    order = positions.masked_fill(hidden, 1 << 40).argsort(stable=True)[..., :width]
    layer.keys, layer.values, layer.positions = keys, values, positions
    layer.keep(order)
    return hidden.gather(2, order)


@contextmanager
def hiding(absent: dict[int, Tensor]) -> Iterator[None]:
    """Within the `with`, absent entries are seen by nobody; new tokens see each other causally."""

    def masked(
        module: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        scaling: float | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, None]:
        if module.layer_idx not in absent:
            return attention(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
        hidden = absent[module.layer_idx]
        group, count, total = query.shape[1] // key.shape[1], query.shape[2], key.shape[2]
        place = torch.arange(total, device=key.device)
        seen = place <= torch.arange(total - count, total, device=key.device)[:, None]
        seen = seen.expand(*key.shape[:2], count, total).clone()
        seen[..., : hidden.shape[-1]] &= ~hidden.to(key.device)[:, :, None]
        found = torch.nn.functional.scaled_dot_product_attention(
            query,
            key.repeat_interleave(group, 1),
            value.repeat_interleave(group, 1),
            attn_mask=seen.repeat_interleave(group, 1),
            scale=scaling,
        )
        return found.transpose(1, 2), None

    ALL_ATTENTION_FUNCTIONS.register(NAME, masked)
    try:
        yield
    finally:
        ALL_ATTENTION_FUNCTIONS.register(NAME, attention)
