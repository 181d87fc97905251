"""Rotate and un-rotate with the model's own rotary module; the only place that knows the sign.

Knows positions and tables.  Knows nothing about windows, masks or tasks (SCIENCE §1, rule 6).
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Tables(NamedTuple):
    """cos and sin, each (B, 1, P, r): r ≤ D leading dimensions of a head are rotated (partial
    rotary).
    """

    cos: Tensor
    sin: Tensor


class Rotary:
    """The rotary module of one model, at any positions, whole or fractional."""

    def __init__(self, model: Any):
        self.module = find(model)
        self.by_kind = "layer_type" in inspect.signature(self.module.forward).parameters

    def tables(self, positions: Tensor, length: int, like: Tensor) -> Tables:
        """Tables at `positions` (B, P), in the dtype of `like`.

        `length` is appended as a last position and dropped again: modules that look at the largest
        position then see the sequence's, not the entries'.
        """
        end = torch.full_like(positions[:, :1], length - 1)
        extra = {"layer_type": "full_attention"} if self.by_kind else {}
        cos, sin = self.module(like, torch.cat([positions, end], 1), **extra)
        return Tables(cos[:, None, :-1], sin[:, None, :-1])


def find(model: Any) -> Any:
    """The module that makes cos and sin.  LookupError where there is none (GPT-2)."""
    for name, module in model.named_modules():
        if (
            name.rpartition(".")[2].startswith("rotary")
            and "position_ids" in inspect.signature(module.forward).parameters
        ):
            return module
    raise LookupError("no rotary position embedding")


def rotate(x: Tensor, tables: Tables) -> Tensor:
    """R(p) x for x (B, H, P, D); the halves convention of transformers, first r dimensions."""
    return _turn(x, tables.cos, tables.sin)


def unrotate(x: Tensor, tables: Tables) -> Tensor:
    """R(−p) x, also undoing a scale in the tables (YaRN multiplies cos and sin by one factor)."""
    scale = tables.cos.square() + tables.sin.square()
    return _turn(x, tables.cos / scale, -tables.sin / scale)


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    width = cos.shape[-1]
    head, rest = x[..., :width], x[..., width:]
    half = width // 2
    swapped = torch.cat([-head[..., half:], head[..., :half]], -1)
    turned = head * cos + swapped * sin
    return torch.cat([turned, rest], -1) if rest.shape[-1] else turned
