"""A cache whose layers really drop entries; the model's RoPE and masks stay right.

`seen`, the tokens read, is apart from the entries kept.  Knows tensors; knows no method.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import CacheLayerMixin


class KeptLayer(CacheLayerMixin):
    """One layer: keys, values (B, K, n, D) and each entry's own position (B, K, n).

    `repeat`: each KV head is held once for each of its query heads, which then keep sets of their
    own.  `slots`: positions are those inside the cache (StreamingLLM's paper), so `seen` is n.
    """

    is_sliding = False

    def __init__(self, repeat: int = 1, slots: bool = False):
        super().__init__()
        self.repeat, self.slots = repeat, slots
        self.seen = 0
        self.positions: Tensor | None = None

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.device = key_states.device
        rows, heads = key_states.shape[0], key_states.shape[1] * self.repeat
        self.keys = key_states.new_empty(rows, heads, 0, key_states.shape[-1])
        self.values = value_states.new_empty(rows, heads, 0, value_states.shape[-1])
        self.positions = torch.empty(rows, heads, 0, dtype=torch.int64, device=self.device)
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any):
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self.repeat > 1:
            key_states = key_states.repeat_interleave(self.repeat, 1)
            value_states = value_states.repeat_interleave(self.repeat, 1)
        count = key_states.shape[2]
        new = torch.arange(self.seen, self.seen + count, device=self.device)
        self.positions = torch.cat([self.positions, new.expand(*key_states.shape[:2], -1)], -1)
        self.keys = torch.cat([self.keys, key_states], 2)
        self.values = torch.cat([self.values, value_states], 2)
        self.seen += count
        return self.keys, self.values

    @property
    def kept(self) -> int:
        return self.keys.shape[2] if self.is_initialized else 0

    def keep(self, index: Tensor) -> None:
        """Drop all entries but `index` (B, K, m), ascending; keys and values alike."""
        wide = index[..., None]
        self.keys = self.keys.gather(2, wide.expand(*index.shape, self.keys.shape[-1]))
        self.values = self.values.gather(2, wide.expand(*index.shape, self.values.shape[-1]))
        self.positions = self.positions.gather(2, index)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset that make the stock causal mask right: every kept entry is past."""
        return self.kept + query_length, self.get_seq_length() - self.kept

    def get_seq_length(self) -> int:
        """The next token's RoPE position."""
        return self.kept if self.slots else self.seen

    def get_max_length(self) -> int:
        return -1

    def copied(self) -> KeptLayer:
        """A layer of its own with the same entries: nothing here is ever changed in place."""
        layer = KeptLayer(self.repeat, self.slots)
        layer.__dict__.update(self.__dict__)
        return layer

    @property
    def bytes(self) -> int:
        """Of keys and values in one row."""
        if not self.is_initialized:
            return 0
        each = self.keys.shape[-1] + self.values.shape[-1]
        return self.keys.shape[1] * self.kept * each * self.keys.element_size()


def kept_cache(loaded: Any, repeat: int = 1, slots: bool = False) -> DynamicCache:
    """The model's own cache with a KeptLayer at every layer of full attention."""
    cache = loaded.new_cache()
    if not cache.layers:
        cache.layers = [KeptLayer() for _ in range(loaded.facts.n_layers)]
    for layer in loaded.facts.full_layers:
        cache.layers[layer] = KeptLayer(repeat, slots)
    return cache
