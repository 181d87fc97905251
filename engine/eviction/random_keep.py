"""Random eviction: the floor that every method has to beat.

Drawn for each row, layer and head by itself, so that a row keeps the same entries alone and in a
batch, and no two layers or heads the same ones (SCIENCE §6.2).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.eviction.base import Clock, Setting, Votes
from engine.eviction.periodic import Periodic, Stateless
from engine.registry import MEMORIES, FieldError, option


@MEMORIES.register("random", "random_press", "RandomPress", "random_keep")
@dataclass(frozen=True)
class Random(Periodic):
    """Random: any entries; the floor."""

    every: int = option(16, "tokens from one event to the next", label="Every", low=1, high=4096)
    prefix: int = option(0, "first positions that are never dropped", label="Prefix", low=0)
    protect: int = option(0, "latest entries that are never dropped", label="Protected", low=0)

    def protected(self, clock: Clock) -> tuple[int, int]:
        return self.prefix, self.protect

    def check(self) -> list[FieldError]:
        parts = f"a prefix of {self.prefix} and {self.protect} protected entries"
        return self.too_small(self.prefix + self.protect + 1, parts)

    def phrase(self) -> str:
        return f"random {self.budget}, every {self.every}"

    def state(self, setting: Setting) -> Drawn:
        return Drawn(setting)


class Drawn(Stateless):
    """Nothing is stored: a draw is named by row, layer, head and event."""

    def __init__(self, setting: Setting):
        self.setting = setting

    def votes(self, layer: int, keys: Tensor, positions: Tensor, clock: Clock) -> Votes:
        count = positions.shape[-1]
        drawn = [
            [self._draw(stream, layer, head, clock.events, count) for head in range(keys.shape[1])]
            for stream in self.setting.streams
        ]
        return Votes(torch.stack([torch.stack(row) for row in drawn]).to(keys.device))

    @staticmethod
    def _draw(*name: int) -> Tensor:
        """Uniform numbers (n,), the same wherever they are drawn."""
        digest = hashlib.blake2b(repr(name).encode(), digest_size=8).digest()
        seed = int.from_bytes(digest, "big") >> 1
        return torch.rand(name[-1], generator=torch.Generator().manual_seed(seed))
