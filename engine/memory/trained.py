"""A memory that a model was trained with; its grid is read from the checkpoint (SCIENCE §1).

Nothing is hooked: the model's own forward pools.  The plan here says where entries stand, for the
preview and the cautions; the gates are the model's own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from engine.memory.base import Plan, window_plan
from engine.registry import MEMORIES, FieldError, SpecError, option

FROM_MODEL = "0 takes the model's own; another number must agree with it"


@MEMORIES.register("trained")
@dataclass(frozen=True)
class Trained:
    """The memory that the model was trained with."""

    window: int = option(0, f"W; {FROM_MODEL}", label="Window W", low=0, high=4096)
    stride: int = option(0, f"S; {FROM_MODEL}", label="Stride S", low=0, high=4096)
    local: int = option(0, "L of the model, filled in", low=0, high=4096)
    beside: bool = option(False, "entries beside the local window, filled in")
    origin: int = option(0, "where the model's grid starts, filled in", low=-4095, high=4096)
    stagger: int = option(
        0, "by how much the grid of odd layers is moved, filled in", low=0, high=4096
    )

    learned = True  # gates that only the weights know

    def check(self) -> list[FieldError]:
        if self.window and self.stride > self.window:
            return [FieldError("stride", "exceeds the window")]
        return []

    def for_model(self, name: str) -> Trained:
        """The memory with its grid from the model's checkpoint; SpecError where it has none."""
        from engine.models.controlled import shelf

        found = shelf.describe(name)
        if found is None:
            if self.stride and self.window:  # a run from elsewhere: its grid is written in its spec
                return self
            if shelf.missing(name):
                told = f"{name} is not here yet; run `phasescope train {name}`"
                raise SpecError(FieldError("model.id", told))
            raise SpecError(
                FieldError(
                    "memory.kind",
                    f"{name} was not trained with a memory of its own; choose pooled or full",
                )
            )
        config = found.config
        if not config.chunked:
            told = f"{name} was trained with the full cache; choose full"
            raise SpecError(FieldError("memory.kind", told))
        own = {field.name: getattr(config, field.name) for field in fields(self)}
        for field in fields(self):
            given = getattr(self, field.name)
            if given not in (field.default, own[field.name]):
                told = f"{name} was trained with {own[field.name]}, not {given}"
                raise SpecError(FieldError(f"memory.{field.name}", told))
        return replace(self, **own)

    def phrase(self) -> str:
        extra = [", staggered"] if self.stagger else []
        return "".join([f"trained W{self.window} S{self.stride}", *extra])

    def strides(self) -> tuple[int, ...]:
        return (self.stride,) if self.stride else ()

    @property
    def one_grid(self) -> bool:
        """Whether all layers share one grid, so that a phase has one meaning."""
        return not self.stagger

    def plan(self, layer: int, length: int, origin: Tensor) -> Plan | None:
        equal = torch.full((self.window,), 1 / self.window, dtype=torch.float64)
        return window_plan(
            length=length,
            origin=self.origin + (self.stagger if layer % 2 else 0) + origin,
            window=self.window,
            stride=self.stride,
            k_gate=equal,
            v_gate=equal,
            anchor="centre",
            sinks=0,
            local=self.local,
            rotated=False,
            beside=self.beside,
            count_bias=False,
        )

    def check_model(self, n_layers: int, full_layers: tuple[int, ...]) -> list[FieldError]:
        return []
