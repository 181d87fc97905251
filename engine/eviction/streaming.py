"""StreamingLLM: the first positions and the latest, nothing between (BASELINES 5.4)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.eviction.base import Clock, Evicting, Observer, Seen, Setting, Votes
from engine.registry import MEMORIES, FieldError, option


@MEMORIES.register(
    "streaming", "streamingllm", "streaming_llm", "StreamingLLM", "StreamingLLMPress"
)
@dataclass(frozen=True)
class Streaming(Evicting):
    """StreamingLLM: attention sinks and the latest tokens."""

    sinks: int = option(4, "first positions that stay", label="Sinks", low=0, high=4096)
    every: int = option(1, "tokens from one event to the next", label="Every", low=1, high=4096)
    positions: str = option(
        "original",
        "original: comparable with other methods; cache: those inside the cache, as in the paper",
        label="Positions",
        choices=("original", "cache"),
    )

    @property
    def slots_used(self) -> bool:
        return self.positions == "cache"

    def peak(self, clock: Clock) -> int:
        return self.budget + self.every

    def floor(self, clock: Clock) -> int:
        return self.budget

    def protected(self, clock: Clock) -> tuple[int, int]:
        return self.sinks, 0

    def check(self) -> list[FieldError]:
        return self.too_small(self.sinks + 1, f"{self.sinks} sinks")

    def phrase(self) -> str:
        words = ", positions in the cache" if self.slots_used else ""
        return f"streaming {self.budget}, {self.sinks} sinks{words}"

    def state(self, setting: Setting) -> Recency:
        return Recency()


class Recency:
    """The later, the better; nothing is stored."""

    bytes = 0

    def observe(self, seen: Seen, clock: Clock) -> None:
        return

    def votes(self, layer: int, keys: Tensor, positions: Tensor, clock: Clock) -> Votes:
        return Votes(positions.to(torch.float32))

    def dropped(self, kept: list[Tensor], clock: Clock) -> None:
        return

    def observers(self, layer: int) -> tuple[list[Observer], None]:
        return [], None
