"""R-KV: importance by the latest queries, less redundancy among the keys (BASELINES 5.2).

Redundancy is the mean cosine of an entry to all others; a row's most recent twin is spared.  The
means need no table of all pairs: the unit keys' sum gives them, and the search for twins goes
through blocks of entries, newest first, until every row has found its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.eviction.base import Clock, Setting, Votes, wide
from engine.eviction.periodic import LatestState, Periodic, spread
from engine.eviction.queries import unit
from engine.eviction.window import candidates, pool, reduced, weights
from engine.registry import MEMORIES, FieldError, option

BLOCK = 64  # entries that are compared with all others at once


@MEMORIES.register("rkv", "r_kv", "r-kv", "R-KV", "R1KV", "r1_kv", "r1kv")
@dataclass(frozen=True)
class RKV(Periodic):
    """R-KV: what is attended to and not said twice."""

    mix: float = option(
        0.1, "λ, the share of importance; the rest is redundancy", label="Mix", low=0, high=1
    )
    threshold: float = option(
        0.5, "cosine above which two keys are twins", label="Threshold", low=-1, high=1
    )
    kernel: int = option(
        7,
        "importance is pooled over so many entries, an odd number",
        label="Kernel",
        low=1,
        high=999,
    )
    obs_window: int = option(
        8,
        "last queries that vote; as many entries are protected",
        label="Queries",
        low=1,
        high=4096,
    )
    quirk: bool = option(
        True,
        "a row without a twin spares the first entry, as the public code does; off, it spares none",
        label="Quirk",
    )
    literal: bool = option(
        False, "make the table of all pairs, as the public code does", label="Literal"
    )

    def protected(self, clock: Clock) -> tuple[int, int]:
        return 0, self.obs_window

    def check(self) -> list[FieldError]:
        errors = self.too_small(self.obs_window + 1, f"a window of {self.obs_window} entries")
        if self.kernel % 2 == 0:
            told = f"must be odd, so that no entry shifts; {self.kernel + 1} works"
            errors.append(FieldError("kernel", told))
        return errors

    def phrase(self) -> str:
        return f"rkv {self.budget}, mix {self.mix:g}, every {self.every}"

    def state(self, setting: Setting) -> LatestState:
        return LatestState(self, setting, self.obs_window)

    def judge(
        self,
        queries: Tensor,
        query_positions: Tensor,
        keys: Tensor,
        positions: Tensor,
        clock: Clock,
        scale: float,
    ) -> Votes:
        """Score (B, K, n): λ · importance − (1 − λ) · redundancy."""
        some = candidates(positions, 0, self.obs_window)
        found, winner = weights(
            *(queries, query_positions, keys, positions, scale, some), over_all=False, merged=True
        )
        importance = pool(reduced(found, "mean", 3)[:, :, 0], self.kernel, "max")
        means = _by_table if self.literal else mean_cosines
        redundancy = means(keys, self.threshold, self.quirk).softmax(-1)[..., some]
        score = self.mix * importance - (1 - self.mix) * redundancy
        return Votes(spread(score, some.start, self.obs_window), winner)


def mean_cosines(keys: Tensor, threshold: float, quirk: bool) -> Tensor:
    """(B, K, n): column means of the pairs' cosines, without the diagonal and the rows' twins.

    The sum of a column is the unit key times the sum of all unit keys, less its own square, less
    what rows spare there.
    """
    u = unit(wide(keys))
    count = u.shape[-2]
    sums = (u @ u.sum(-2, keepdim=True).transpose(-1, -2))[..., 0] - u.square().sum(-1)
    twin = twins(u, threshold)
    rows = torch.arange(count, device=u.device)
    spared = torch.where(twin < 0, 0, twin)
    counted = (twin >= 0) | (quirk & (rows > 0))
    cosine = (u * u.gather(-2, spared[..., None].expand_as(u))).sum(-1)
    sums = sums.scatter_add(-1, spared, -cosine * counted)
    return sums / count


def twins(u: Tensor, threshold: float) -> Tensor:
    """(B, K, n): of each row the last other entry whose cosine is above the threshold, −1 if none.

    u (B, K, n, D) unit keys.
    """
    count = u.shape[-2]
    found = torch.full(u.shape[:-1], -1, device=u.device)
    rows = torch.arange(count, device=u.device)
    for stop in range(count, 0, -BLOCK):
        start = max(0, stop - BLOCK)
        columns = rows[start:stop]
        close = u @ u[..., start:stop, :].transpose(-1, -2) > threshold
        close &= columns != rows[:, None]
        last = torch.where(close, columns, -1).amax(-1)
        found = torch.where(found < 0, last, found)
        if (found >= 0).all():
            break
    return found


def _by_table(keys: Tensor, threshold: float, quirk: bool) -> Tensor:
    """The same from the table of all pairs (B, K, n, n): its cost is what the benchmark shows."""
    u = unit(wide(keys))
    count = u.shape[-2]
    pairs = u @ u.transpose(-1, -2)
    pairs.diagonal(dim1=-2, dim2=-1).zero_()
    places = torch.arange(count, device=u.device)
    close = (pairs > threshold) & ~torch.eye(count, dtype=torch.bool, device=u.device)
    last = torch.where(close, places, -1).amax(-1)
    spared = last.clamp(min=0)[..., None]
    counted = ((last >= 0) | quirk)[..., None]
    pairs.scatter_(-1, spared, torch.where(counted, 0, pairs.gather(-1, spared)))
    return pairs.mean(-2)
