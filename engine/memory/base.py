"""What a memory is: a plan of entries per layer, and who sees what (SCIENCE §1).

A method says which tokens each entry is made of and with what weight; it never touches q, k or v.
Letters: B rows that differ in grid origin (1 when all share one), N tokens, E entries, W window,
T queries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from engine.registry import FieldError

NEVER = torch.iinfo(torch.int64).max // 2  # a position that no query reaches


@dataclass(frozen=True)
class Plan:
    """What each entry of one layer is made of.

    index (B, E, W) source positions, clamped into [0, N); k_weight and v_weight (B, E, W) float64,
    rows
    sum to 1 over the members that exist, all 0 where the window has no entry; anchor (B, E) float64
    position to which the pooled key is rotated; last (B, E) position that closes the entry, NEVER
    where there is none; covered (B, N) position that closes the first entry made of this token,
    NEVER
    where none is.  `rotated`: keys are pooled as they are.  `beside`: entries stand beside the
    local
    window.  `bias` (B, E) is added to the entry's logits, or None.
    """

    index: Tensor
    k_weight: Tensor
    v_weight: Tensor
    anchor: Tensor
    last: Tensor
    covered: Tensor
    sinks: int
    local: int
    rotated: bool = False
    beside: bool = False
    bias: Tensor | None = None

    @property
    def entries(self) -> int:
        return self.last.shape[1]

    def to(self, device: torch.device) -> Plan:
        """The plan on a device; MPS has no float64, and the modules cast positions to float32
        anyway.
        """
        if device.type == "cpu":
            return self
        names = ("index", "k_weight", "v_weight", "anchor", "last", "covered")
        moved = {name: getattr(self, name) for name in names} | (
            {"bias": self.bias} if self.bias is not None else {}
        )
        if device.type == "mps":
            moved = {k: x.float() if x.is_floating_point() else x for k, x in moved.items()}
        return replace(self, **{k: x.to(device) for k, x in moved.items()})

    def visible_entries(self, queries: Tensor, context_end: int | None) -> Tensor:
        """(B, T, E): entry closed, by the local window before the query (rules 1 and 2)."""
        reach = self._reach(queries, context_end, 0 if self.beside else self.local)
        return self.last[:, None, :] <= reach[None, :, None]

    def exact_tokens(self, queries: Tensor, context_end: int | None, tokens: Tensor) -> Tensor:
        """(B, T, |tokens|): token i ≤ q that lies in no visible entry, or is a sink (rule 2)."""
        reach = self._reach(queries, context_end, 0 if self.beside else self.local)
        exact = self.covered[:, None, tokens] > reach[None, :, None]
        exact |= (tokens < self.sinks)[None, None, :]
        if self.beside:
            near = self._reach(queries, context_end, self.local)
            exact |= tokens[None, None, :] > near[None, :, None]
        return exact & (tokens[None, :] <= queries[:, None])[None]

    @staticmethod
    def _reach(queries: Tensor, context_end: int | None, local: int) -> Tensor:
        """(T,): an entry is visible iff its last token is at or before this position.

        Streamed: q − L.  After context (`context_end` given): the context's own queries see no
        entry,
        the later ones what was closed L tokens before the context's end (rule 9).
        """
        if context_end is None:
            return queries - local
        after = torch.full_like(queries, context_end - 1 - local)
        return torch.where(queries >= context_end, after, torch.full_like(queries, -1))


class Memory(Protocol):
    """A registered frozen dataclass of options.  Frozen: nothing is left behind between runs."""

    kind: str

    def phrase(self) -> str:
        """A few words for lists and legends: "pooled W8 S4, one-hot 2"."""

    def strides(self) -> tuple[int, ...]:
        """Distinct strides in use; () for a memory without a grid."""

    def plan(self, layer: int, length: int, origin: Tensor) -> Plan | None:
        """Entries over tokens [0, length) for rows of that grid origin (B,); None: the layer is
        exact.
        """

    def check_model(self, n_layers: int, full_layers: tuple[int, ...]) -> list[FieldError]:
        """What of the options does not fit this model."""


def window_plan(
    *,
    length: int,
    origin: Tensor,
    window: int,
    stride: int,
    k_gate: Tensor,
    v_gate: Tensor,
    anchor: str,
    sinks: int,
    local: int,
    rotated: bool,
    beside: bool,
    count_bias: bool,
) -> Plan:
    """Windows [o + jS, o + jS + W) over `length` tokens; gates (W,) float64, not negative.

    Members before position 0 and sinks are no members: the gates are renormalised over the rest,
    and a
    window that has lost all weight of its K or V gate has no entry and covers nothing.
    """
    device = origin.device
    least = int(origin.min())
    count = max(0, (length - least - window) // stride + 1)
    start = origin[:, None] + stride * torch.arange(count, device=device)  # (B, E)
    offsets = torch.arange(window, device=device)
    index = start[..., None] + offsets  # (B, E, W)
    member = (index >= sinks) & (index >= 0) & (index < length)
    k_weight, k_total = _normalised(k_gate, member)
    v_weight, v_total = _normalised(v_gate, member)
    last = start + window - 1
    exists = (k_total > 0) & (v_total > 0) & (last < length)
    k_weight, v_weight = k_weight * exists[..., None], v_weight * exists[..., None]
    last = torch.where(exists, last, NEVER)
    return Plan(
        index=index.clamp(0, max(length - 1, 0)),
        k_weight=k_weight,
        v_weight=v_weight,
        anchor=_anchor(anchor, start, index, k_weight, window),
        last=last,
        covered=_covered(last, index, length),
        sinks=sinks,
        local=local,
        rotated=rotated,
        beside=beside,
        bias=member.sum(-1).clamp(min=1).double().log() if count_bias else None,
    )


def _normalised(gate: Tensor, member: Tensor) -> tuple[Tensor, Tensor]:
    weight = gate.to(member.device).double() * member
    total = weight.sum(-1)
    return weight / torch.where(total > 0, total, 1.0)[..., None], total


def _anchor(kind: str, start: Tensor, index: Tensor, weight: Tensor, window: int) -> Tensor:
    if kind == "weighted":
        return (weight * index.double()).sum(-1)
    shift = {"centre": (window - 1) / 2, "first": 0.0, "last": window - 1.0}[kind]
    return start.double() + shift


def _covered(last: Tensor, index: Tensor, length: int) -> Tensor:
    """(B, N): the smallest `last` over windows that exist and hold the token."""
    rows = last.shape[0]
    covered = torch.full((rows, length), NEVER, device=last.device)
    if last.shape[1]:
        inside = (index >= 0) & (index < length)
        closing = torch.where(inside, last[..., None], NEVER).flatten(1)
        covered.scatter_reduce_(1, index.clamp(0, length - 1).flatten(1), closing, "amin")
    return covered
