"""Votes of the latest queries: softmax, aggregation over queries and heads, pooling along entries.

What SnapKV, R-KV, RPC and TOVA have in common; they differ in order and choice (BASELINES 5.12).
Letters as in `base`; m observing queries, c candidates: entries that an event may drop.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.eviction.base import causal, logits

POOLS = ("avg", "max")


def candidates(positions: Tensor, prefix: int, latest: int) -> slice:
    """Places of the entries that are not protected.

    A prefix is never dropped, so that it is as long in every head; entries are in order.
    """
    first = int((positions[0, 0] < prefix).sum())
    return slice(first, positions.shape[-1] - latest)


def weights(
    queries: Tensor,
    query_positions: Tensor,
    keys: Tensor,
    positions: Tensor,
    scale: float,
    some: slice,
    *,
    over_all: bool,
    merged: bool = False,
) -> tuple[Tensor, Tensor]:
    """Attention of the latest queries to the candidates `some`: (B, K, G, m, c), and winners.

    over_all: softmax over all entries, causal among the latest, else over the candidates alone.
    merged: the logits' maximum over the group's heads comes before the softmax, so that G = 1.
    winner (B, K, n) names head and query with the largest weight, as `Votes` has it.
    """
    visible = causal(query_positions, positions)
    if not over_all:
        inside = torch.zeros_like(visible)
        inside[..., some] = True
        visible = visible & inside
    found = logits(queries, keys, scale).masked_fill(~visible[:, :, None], float("-inf"))
    count = found.shape[3]
    if not merged:
        share = found.softmax(-1)
        return share[..., some], share.flatten(2, 3).argmax(2)
    share = found.amax(2, keepdim=True).softmax(-1)
    query = share[:, :, 0].argmax(2, keepdim=True)  # (B, K, 1, n)
    head = found.argmax(2).gather(2, query)
    return share[..., some], (head * count + query)[:, :, 0]


def reduced(x: Tensor, how: str, dim: int) -> Tensor:
    """sum, mean or max over one dimension."""
    return x.amax(dim) if how == "max" else x.mean(dim) if how == "mean" else x.sum(dim)


def pool(x: Tensor, kernel: int, how: str, corrected: bool = True) -> Tensor:
    """Pooling of odd width along the last dimension (…, c), as long as before.

    corrected: an average at an edge is over the entries that exist; else zeros are counted, which
    lowers the first and the last candidates, as the public codes have it.
    """
    if kernel == 1:
        return x
    flat = x.reshape(-1, 1, x.shape[-1])
    if how == "max":
        found = torch.nn.functional.max_pool1d(flat, kernel, 1, kernel // 2)
    else:
        found = torch.nn.functional.avg_pool1d(
            flat, kernel, 1, kernel // 2, count_include_pad=not corrected
        )
    return found.reshape(x.shape)
