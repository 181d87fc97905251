"""Past queries that vote: windows of the latest ones, and farthest-point samples of all.

FPS is of BeaconKV (appendix, algorithm 1), on cosine.  Every function takes many heads at once:
leading dimensions (…) are independent.  Knows tensors; knows no cache.
"""

from __future__ import annotations

import torch
from torch import Tensor


def unit(x: Tensor) -> Tensor:
    return torch.nn.functional.normalize(x, dim=-1)


def pick(x: Tensor, index: Tensor) -> Tensor:
    """Rows `index` (…, m) of x (…, N, D)."""
    return x.gather(-2, index[..., None].expand(*index.shape, x.shape[-1]))


def fps(queries: Tensor, count: int) -> Tensor:
    """Indices (…, count), ascending, of a farthest-point sample of (…, N, D) by cosine.

    Starts from the query with the lowest cosine to the mean of the unit vectors, which is the one
    with the lowest mean similarity to all; then adds, again and again, the query whose highest
    similarity to the chosen is lowest.  Ties go to the lower index.  No N × N table is made.
    """
    total = queries.shape[-2]
    if count >= total:
        return torch.arange(total, device=queries.device).expand(*queries.shape[:-2], total)
    u = unit(queries)
    chosen = [(u @ u.mean(-2, keepdim=True).transpose(-1, -2))[..., 0].argmin(-1, keepdim=True)]
    highest = torch.full(u.shape[:-1], -float("inf"), dtype=u.dtype, device=u.device)
    taken = torch.zeros(u.shape[:-1], dtype=torch.bool, device=u.device)
    for _ in range(count - 1):
        last = chosen[-1]
        taken.scatter_(-1, last, True)
        similar = (u @ pick(u, last).transpose(-1, -2))[..., 0]
        highest = torch.maximum(highest, similar)
        chosen.append(highest.masked_fill(taken, float("inf")).argmin(-1, keepdim=True))
    return torch.cat(chosen, -1).sort(-1).values


def kmeans(queries: Tensor, count: int, rounds: int = 10) -> tuple[Tensor, Tensor]:
    """Centroids (…, count, D) and the nearest real query of each (…, count), by cosine.

    Spherical k-means from a farthest-point start; an empty cluster keeps its centroid.  Centroids
    are means of the queries themselves, so that they have a query's length.
    """
    if not queries.shape[-2]:
        return queries, queries.new_empty(queries.shape[:-1], dtype=torch.int64)
    u = unit(queries)
    centres = pick(queries, fps(queries, count))
    for _ in range(rounds):
        own = (u @ unit(centres).transpose(-1, -2)).argmax(-1)  # (…, N)
        member = torch.nn.functional.one_hot(own, centres.shape[-2]).to(queries.dtype)
        sizes = member.sum(-2)[..., None]
        means = member.transpose(-1, -2) @ queries / sizes.clamp(min=1)
        centres = torch.where(sizes > 0, means, centres)
    near = (unit(centres) @ u.transpose(-1, -2)).argmax(-1)
    return centres, near.sort(-1).values


class Latest:
    """The last `size` queries of every layer and head, after RoPE, with their positions."""

    def __init__(self, size: int):
        self.size = size
        self.queries: Tensor | None = None  # (L, B, H, m, D)
        self.positions: Tensor | None = None  # (m,)

    def add(self, queries: Tensor, positions: Tensor) -> None:
        """(L, B, H, T, D) and (T,)."""
        queries, positions = queries[..., -self.size :, :], positions[-self.size :]
        if self.queries is not None and len(positions) < self.size:
            spare = self.size - len(positions)
            queries = torch.cat([self.queries[..., -spare:, :], queries], -2)
            positions = torch.cat([self.positions[-spare:], positions])
        self.queries, self.positions = queries.clone(), positions

    @property
    def bytes(self) -> int:
        """Of one row."""
        return row_bytes(self.queries)


def row_bytes(x: Tensor | None) -> int:
    """Bytes of one row of (L, B, …)."""
    return 0 if x is None else x.numel() * x.element_size() // x.shape[1]
