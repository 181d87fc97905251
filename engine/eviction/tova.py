"""TOVA: what the last query attends to least goes (BASELINES 5.5)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.eviction.base import Clock, Setting, Votes
from engine.eviction.periodic import LatestState, Periodic, spread
from engine.eviction.window import candidates, weights
from engine.registry import MEMORIES, FieldError, option


@MEMORIES.register("tova", "TOVA", "tova_press", "TOVAPress")
@dataclass(frozen=True)
class TOVA(Periodic):
    """TOVA: the last query votes, all heads together; the last entry stays."""

    every: int = option(1, "tokens from one event to the next", label="Every", low=1, high=4096)

    def protected(self, clock: Clock) -> tuple[int, int]:
        return 0, 1

    def check(self) -> list[FieldError]:
        return self.too_small(2, "the last entry")

    def phrase(self) -> str:
        return f"tova {self.budget}"

    def state(self, setting: Setting) -> LatestState:
        return LatestState(self, setting, 1)

    def judge(
        self,
        queries: Tensor,
        query_positions: Tensor,
        keys: Tensor,
        positions: Tensor,
        clock: Clock,
        scale: float,
    ) -> Votes:
        """Score (B, K, n): the last query's weights, mean over all heads of the layer."""
        some = candidates(positions, 0, 1)
        found, winner = weights(
            *(queries, query_positions, keys, positions, scale, some), over_all=True
        )
        score = found[:, :, :, 0].mean((1, 2))[:, None].expand(-1, keys.shape[1], -1)
        return Votes(spread(score, 0, 1), winner)
