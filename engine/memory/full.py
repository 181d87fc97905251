"""The full cache: every token stays exact.  The control of every sweep."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.memory.base import Plan
from engine.registry import MEMORIES, FieldError


@MEMORIES.register("full", "no_press", "fullkv")
@dataclass(frozen=True)
class Full:
    """Every token exact: the control."""

    def phrase(self) -> str:
        return "full cache"

    def strides(self) -> tuple[int, ...]:
        return ()

    def plan(self, layer: int, length: int, origin: Tensor) -> Plan | None:
        return None

    def check_model(self, n_layers: int, full_layers: tuple[int, ...]) -> list[FieldError]:
        return []
