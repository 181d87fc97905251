"""Knorm: short keys stay, whatever is asked (BASELINES 5.7)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.eviction.base import Clock, Setting, Votes, wide
from engine.eviction.periodic import Periodic, Stateless
from engine.registry import MEMORIES


@MEMORIES.register("knorm", "Knorm", "knorm_press", "KnormPress")
@dataclass(frozen=True)
class Knorm(Periodic):
    """Knorm: the keys of the least norm."""

    def phrase(self) -> str:
        return f"knorm {self.budget}, every {self.every}"

    def state(self, setting: Setting) -> Length:
        return Length()


class Length(Stateless):
    """−‖k_j‖."""

    def votes(self, layer: int, keys: Tensor, positions: Tensor, clock: Clock) -> Votes:
        return Votes(-wide(keys).norm(dim=-1))
