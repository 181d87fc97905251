"""KeyDiff: keys unlike the others stay, whatever is asked (BASELINES 5.7)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.eviction.base import Clock, Setting, Votes, wide
from engine.eviction.periodic import Periodic, Stateless
from engine.eviction.queries import unit
from engine.registry import MEMORIES


@MEMORIES.register("keydiff", "KeyDiff", "keydiff_press", "KeyDiffPress")
@dataclass(frozen=True)
class KeyDiff(Periodic):
    """KeyDiff: the keys farthest from the mean direction of all."""

    def phrase(self) -> str:
        return f"keydiff {self.budget}, every {self.every}"

    def state(self, setting: Setting) -> Distance:
        return Distance()


class Distance(Stateless):
    """−cos(k_j, mean of the unit keys), keys after RoPE."""

    def votes(self, layer: int, keys: Tensor, positions: Tensor, clock: Clock) -> Votes:
        u = unit(wide(keys))
        anchor = unit(u.mean(-2, keepdim=True))
        return Votes(-(u @ anchor.transpose(-1, -2))[..., 0])
