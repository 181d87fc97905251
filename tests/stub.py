"""A model that is nothing but given queries and keys: what a cache keeps changes none of them.

It drives the real decoder, whose events can then be told in advance.
"""

from types import SimpleNamespace

import numpy as np
import torch
from torch import nn
from transformers import DynamicCache

from engine.memory.attention import RECORD
from engine.models.facts import Facts

BASE = 10_000.0


class Tables(nn.Module):
    """cos and sin in float64, the halves convention."""

    def __init__(self, size):
        super().__init__()
        self.speed = BASE ** (-torch.arange(size // 2, dtype=torch.float64) / (size // 2))

    def forward(self, x, position_ids):
        angle = position_ids.double()[..., None] * self.speed
        angle = torch.cat([angle, angle], -1)
        return angle.cos().to(x.dtype), angle.sin().to(x.dtype)


class Stub(nn.Module):
    """q (L, B, H, T, D) and k (L, B, K, T, D) before RoPE; values are the keys."""

    def __init__(self, q, k):
        super().__init__()
        self.q, self.k = q, k
        self.rotary_emb = Tables(q.shape[-1])
        self.config = None
        self.attentions = [SimpleNamespace(layer_idx=i) for i in range(len(q))]
        self.device = torch.device("cpu")

    @property
    def base_model(self):
        return self

    def forward(self, ids, cache, use_cache, position_ids):
        where = ids[0]  # a token's id is its place in the text, wherever the cache rotates it
        cos, sin = self.rotary_emb(self.q, position_ids)
        for layer, module in enumerate(self.attentions):
            q, k = (
                turn(x[layer][:, :, where], cos[:, None], sin[:, None]) for x in (self.q, self.k)
            )
            keys, _ = cache.update(k, k, layer)
            if (record := RECORD.get()) is not None:
                record.append((module, keys, q, {}))
        return SimpleNamespace(last_hidden_state=torch.zeros(*ids.shape, 1))


def turn(x, cos, sin):
    half = x.shape[-1] // 2
    swapped = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * cos + swapped * sin


def stub(layers=2, rows=2, heads=4, kv_heads=2, size=4, length=60, seed=0):
    """What a decoder asks of a loaded model, over random queries and keys."""
    rng = np.random.default_rng(seed)
    q = torch.tensor(2 * rng.normal(size=(layers, rows, heads, length, size)))
    k = torch.tensor(rng.normal(size=(layers, rows, kv_heads, length, size)))
    facts = Facts(
        *(layers, tuple(range(layers)), heads, kv_heads, size, heads * size),
        *(0, 100, length, 8, "stub"),
    )
    made = SimpleNamespace(model=Stub(q, k), facts=facts, own_memory=False)
    made.new_cache = DynamicCache
    return made
