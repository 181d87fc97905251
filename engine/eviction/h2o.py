"""H2O: heavy hitters by accumulated attention, and the latest entries (BASELINES 5.3).

Every query of the run counts, the prompt's too; scores follow the entries when others are dropped.
Written for one KV head per query head; with groups, the group's heads are added up.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.eviction.base import Clock, Observer, Seen, Setting, Votes, attention, causal
from engine.eviction.periodic import Periodic
from engine.eviction.queries import row_bytes
from engine.registry import MEMORIES, FieldError, option

BLOCK = 64  # queries whose attention to all entries is in memory at once


@MEMORIES.register("h2o", "H2O", "heavy_hitter")
@dataclass(frozen=True)
class H2O(Periodic):
    """H2O: entries with the most accumulated attention, and the latest ones."""

    every: int = option(1, "tokens from one event to the next", label="Every", low=1, high=4096)
    recent: int = option(
        0,
        "latest entries that are never dropped; 0 takes half of the budget",
        label="Recent",
        low=0,
    )
    over_heads: str = option(
        "sum",
        "over the heads of a group; per_query_head: a set for each query head, at as many times "
        "the bytes",
        label="Over heads",
        choices=("sum", "max", "per_query_head"),
    )

    @property
    def per_query_head(self) -> bool:
        return self.over_heads == "per_query_head"

    def protected(self, clock: Clock) -> tuple[int, int]:
        return 0, self.recent or self.budget // 2

    def check(self) -> list[FieldError]:
        latest = self.recent or 1
        return self.too_small(latest + 1, f"{latest} latest entries")

    def phrase(self) -> str:
        latest = self.protected(Clock())[1]
        return f"h2o {self.budget}, {self.budget - latest} heavy + {latest} recent"

    def state(self, setting: Setting) -> Accumulated:
        return Accumulated(self, setting)


class Accumulated:
    """Attention that every entry has received, (L, B, K, G or 1, n) in float32 or wider."""

    def __init__(self, memory: H2O, setting: Setting):
        self.memory, self.setting = memory, setting
        self.scores: Tensor | None = None

    def observe(self, seen: Seen, clock: Clock) -> None:
        grown = [self._received(seen, layer) for layer in range(len(seen.keys))]
        new = torch.stack(grown)
        if self.scores is not None:
            new[..., : self.scores.shape[-1]] += self.scores
        self.scores = new

    def _received(self, seen: Seen, layer: int) -> Tensor:
        """(B, K, G or 1, n) from the T new queries, some at a time."""
        keys, places = seen.keys[layer], seen.key_positions[layer]
        total = 0
        for start in range(0, len(seen.positions), BLOCK):
            some = slice(start, start + BLOCK)
            visible = causal(seen.positions[some], places)
            queries = seen.queries[layer][..., some, :]
            share = attention(queries, keys, self.setting.scale, visible).sum(3)
            if self.memory.over_heads == "sum":
                share = share.sum(2, keepdim=True)
            total = total + share
        return total

    def votes(self, layer: int, keys: Tensor, positions: Tensor, clock: Clock) -> Votes:
        return Votes(self.scores[layer].amax(2))

    def dropped(self, kept: list[Tensor], clock: Clock) -> None:
        index = torch.stack(kept)[:, :, :, None]
        index = index.expand(*self.scores.shape[:4], index.shape[-1])
        self.scores = self.scores.gather(-1, index)

    def observers(self, layer: int) -> tuple[list[Observer], None]:
        return [], None

    @property
    def bytes(self) -> int:
        return row_bytes(self.scores)
