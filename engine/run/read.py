"""One forward: copies of equal length through a model that reads with a memory.

Returns values and leaves nothing behind.  Knows tensors and copies; knows nothing of rows or jobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from engine.copies import Copy
from engine.memory.attention import Reading, reading
from engine.memory.rotary import Rotary


@contextmanager
def reader(
    loaded: Any, memory: Any, copies: list[Copy], watch: tuple[int, int] | None = None
) -> Iterator[Reading | None]:
    """The memory, at these copies' grid origins, for the forwards within the `with`."""
    if loaded.own_memory:
        with torch.inference_mode():
            yield None
        return
    ends = {copy.context_end for copy in copies}
    assert len(ends) == 1, "copies of one batch have their query at one place"
    origins = [copy.origin for copy in copies]
    one = len(set(origins)) == 1
    origin = torch.tensor(origins[:1] if one else origins)
    rotary = Rotary(loaded.model)
    full = loaded.facts.full_layers
    with (
        torch.inference_mode(),
        reading(memory, rotary, full, origin, ends.pop(), watch) as current,
    ):
        yield current


def prefill(loaded: Any, memory: Any, copy: Copy, length: int) -> tuple[DynamicCache, Tensor]:
    """Cache and hidden states (1, length, d) of the first tokens of one copy."""
    cache = loaded.new_cache()
    ids = torch.tensor([copy.tokens[:length]], device=loaded.model.device)
    with reader(loaded, memory, [copy]):
        out = loaded.model.base_model(ids, cache=cache, use_cache=True)
    return cache, out.last_hidden_state


def hidden_states(
    loaded: Any, memory: Any, copies: list[Copy], start: Any = None, first: int = 0
) -> Tensor:
    """(B, P + A − 1 − first, d): states after prompt token `first` … and each answer token but the
    last.

    `start`: `cache` and `states` of a beginning that all copies share, computed once.
    """
    ids = torch.tensor(
        [copy.tokens + copy.answer[:-1] for copy in copies], device=loaded.model.device
    )
    with reader(loaded, memory, copies):
        if loaded.own_memory:  # its last layer reads only what is asked
            asked = tuple(range(first, ids.shape[1]))
            return loaded.model.base_model(ids, queries=asked).last_hidden_state
        if start is None:
            return loaded.model.base_model(ids, use_cache=False).last_hidden_state[:, first:]
        cache = repeated(start.cache, len(copies))
        rest = ids[:, start.states.shape[1] :]
        out = loaded.model.base_model(rest, cache=cache, use_cache=True).last_hidden_state
    return torch.cat([start.states.expand(len(copies), -1, -1), out], 1)[:, first:]


def repeated(cache: DynamicCache, rows: int) -> DynamicCache:
    """A copy of a one-row cache with `rows` equal rows; the original stays as it is."""
    copy = DynamicCache()
    for mine, theirs in zip(_layers(copy, cache), cache.layers, strict=True):
        mine.__dict__.update(theirs.__dict__)
        for name in ("keys", "values"):
            states = getattr(theirs, name)
            setattr(mine, name, states.expand(rows, *states.shape[1:]))
    return copy


def _layers(copy: DynamicCache, cache: DynamicCache) -> list:
    copy.layers = [object.__new__(type(layer)) for layer in cache.layers]
    copy.layer_class_to_replicate = None
    return copy.layers
