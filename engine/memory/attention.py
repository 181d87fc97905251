"""The function registered with transformers; the only code that sees q, k and v.

Without a reading it is transformers' own SDPA, bit for bit.  With one, each compressed layer
attends
to pooled entries and to the tokens that are still exact.  It holds no state: prefill in one pass,
prefill in pieces and decode token by token run the same lines over the same stock cache (rule 3).

Letters: B rows, H KV heads, G queries per KV head, T queries, N tokens, E entries, D head size.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from engine.memory.base import Memory, Plan
from engine.memory.rotary import Rotary, rotate, unrotate

NAME = "phasescope"
# Queries attended to at once.  The exact tokens of a piece are a narrow band, so small pieces save
# arithmetic on a CPU; on a GPU each piece costs kernel launches.
PIECE = {"cpu": 64}
PIECE_ELSEWHERE = 1024
UNSUPPORTED = ("softcap", "s_aux", "position_bias")  # arguments that change the softmax itself


class Piece(NamedTuple):
    """Some queries, the entries and tokens that any of them sees, and their additive mask."""

    queries: slice
    entries: Tensor
    tokens: Tensor
    mask: Tensor  # (B or 1, 1, t, entries + tokens)


class Layout(NamedTuple):
    """All that one forward needs of a plan, made once and used by every layer of that plan."""

    plan: Plan
    pieces: list[Piece]
    take_off: Any  # Tables at every token, or None for rotated keys
    put_on: Any  # Tables at every entry's anchor


class Weights(NamedTuple):
    """Attention of one layer and head: (B, T, E + N) float32, entries first, and its plan."""

    weights: Tensor
    plan: Plan | None


@dataclass
class Reading:
    """One run's memory while its forwards last: what each layer's attention reads with.

    origin (B,) grid origin of each row, on the CPU; context_end: first query token (after-context
    memories).
    `watch`: (layer, head) whose attention is to be kept in `seen`.
    """

    memory: Memory
    rotary: Rotary
    full_layers: tuple[int, ...]  # the others have a sliding window and stay as they are
    origin: Tensor
    context_end: int | None
    watch: tuple[int, int] | None = None
    seen: Weights | None = None
    layouts: dict[Any, Layout] = field(default_factory=dict)

    def layout(self, layer: int, queries: int, key: Tensor, piece: int) -> Layout | None:
        """The layout for `queries` last of N tokens; layers with equal plans share one."""
        length = key.shape[2]
        known = (layer, queries, length)
        if known not in self.layouts:
            mine = layer in self.full_layers
            plan = self.memory.plan(layer, length, self.origin) if mine else None
            self.layouts[known] = self._shared(plan and plan.to(key.device), queries, key, piece)
        return self.layouts[known]

    def _shared(self, plan: Plan | None, queries: int, key: Tensor, piece: int) -> Layout | None:
        if plan is None:
            return None
        for other in self.layouts.values():
            if other and len(other.pieces) and _same(other, plan, queries, key):
                return other
        when = (
            self.context_end
            if getattr(self.memory, "when", "streamed") == "after_context"
            else None
        )
        return make_layout(plan, queries, key, self.rotary, when, piece)


READING: ContextVar[Reading | None] = ContextVar("phasescope_reading", default=None)
RECORD: ContextVar[list | None] = ContextVar(
    "phasescope_record", default=None
)  # for the self-check


def register() -> None:
    """Add our name to both registries.  Without the mask's, transformers passes no mask,
    silently.
    """
    ALL_ATTENTION_FUNCTIONS.register(NAME, attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, sdpa_mask)


@contextmanager
def reading(
    memory: Memory,
    rotary: Rotary,
    full_layers: tuple[int, ...],
    origin: Tensor,
    context_end: int | None = None,
    watch: tuple[int, int] | None = None,
) -> Iterator[Reading]:
    """Within the `with`, forwards of this thread read with that memory; nothing outlives it."""
    current = Reading(memory, rotary, full_layers, origin, context_end, watch)
    token = READING.set(current)
    try:
        yield current
    finally:
        READING.reset(token)


def attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """query (B, HG, T, D), key and value (B, H, N, D), RoPE applied → (B, T, HG, D)."""
    if (record := RECORD.get()) is not None:
        record.append((module, key, query, kwargs))
    current = READING.get()
    piece = PIECE.get(key.device.type, PIECE_ELSEWHERE)
    layout = current and current.layout(module.layer_idx, query.shape[2], key, piece)
    if current and current.watch and current.watch[0] == module.layer_idx:
        current.seen = watched(layout, query, key, scaling, current.watch[1], attention_mask)
    if not layout:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )
    for name in UNSUPPORTED:
        if kwargs.get(name) is not None:
            raise ValueError(f"attention with {name} cannot be read through a memory")
    return attend(layout, query, key, value, scaling), None


def make_layout(
    plan: Plan, queries: int, key: Tensor, rotary: Rotary, context_end: int | None, piece: int
) -> Layout:
    """Cut T queries into pieces; of each, find the entries and tokens that are seen at all."""
    length, device = key.shape[2], key.device
    positions = torch.arange(length - queries, length, device=device)
    tokens = torch.arange(length, device=device)
    pieces = []
    for start in range(0, queries, piece):
        some = slice(start, min(start + piece, queries))
        entry_seen = plan.visible_entries(positions[some], context_end)
        token_seen = plan.exact_tokens(positions[some], context_end, tokens)
        entries = entry_seen.any(1).any(0).nonzero()[:, 0]
        kept = token_seen.any(1).any(0).nonzero()[:, 0]
        seen = torch.cat([entry_seen[..., entries], token_seen[..., kept]], -1)
        mask = torch.zeros(seen.shape, dtype=key.dtype, device=device)
        if plan.bias is not None:
            mask[..., : len(entries)] += plan.bias[:, None, entries].to(key.dtype)
        pieces.append(Piece(some, entries, kept, mask.masked_fill(~seen, float("-inf"))[:, None]))
    if plan.rotated or not plan.entries:
        return Layout(plan, pieces, None, None)
    take_off = rotary.tables(tokens[None], length, key)
    return Layout(plan, pieces, take_off, rotary.tables(plan.anchor, length, key))


def _same(layout: Layout, plan: Plan, queries: int, key: Tensor) -> bool:
    """Whether a layout made for another layer serves this plan too."""
    other = layout.plan
    if other.covered.shape != plan.covered.shape or layout.pieces[-1].queries.stop != queries:
        return False
    same = all(
        torch.equal(getattr(other, name), getattr(plan, name))
        if getattr(other, name).shape == getattr(plan, name).shape
        else False
        for name in ("index", "k_weight", "v_weight", "anchor", "last", "covered")
    )
    flags = ("sinks", "local", "rotated", "beside")
    return same and all(getattr(other, name) == getattr(plan, name) for name in flags)


def pooled(layout: Layout, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Entries' keys and values, each (B, H, E, D): un-rotate, average, rotate once (rule 6)."""
    plan = layout.plan
    if layout.take_off is not None:
        key = unrotate(key, layout.take_off)
    k = _average(key, plan.index, plan.k_weight)
    if layout.put_on is not None:
        k = rotate(k, layout.put_on)
    return k, _average(value, plan.index, plan.v_weight)


def _average(x: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """x (B, H, N, D), index and weight (B or 1, E, W) → (B, H, E, D)."""
    if index.shape[0] == 1:
        members = x[:, :, index[0]]
    else:
        rows = torch.arange(x.shape[0], device=x.device)[:, None, None]
        members = x[rows, :, index].permute(0, 3, 1, 2, 4)
    return (members * weight.to(x.dtype)[:, None, ..., None]).sum(3)


def attend(
    layout: Layout, query: Tensor, key: Tensor, value: Tensor, scaling: float | None
) -> Tensor:
    """Softmax over entries and exact tokens, piece by piece → (B, T, HG, D).

    The G queries of a KV head are laid one after another, so that keys are never repeated.
    """
    rows, heads, _, size = key.shape
    group = query.shape[1] // heads
    entry_k, entry_v = pooled(layout, key, value)
    out = query.new_empty(rows, query.shape[2], query.shape[1], value.shape[-1])
    for piece in layout.pieces:
        k = torch.cat([entry_k[:, :, piece.entries], key[:, :, piece.tokens]], 2)
        v = torch.cat([entry_v[:, :, piece.entries], value[:, :, piece.tokens]], 2)
        q = query[:, :, piece.queries]
        count = q.shape[2]
        q = q.reshape(rows, heads, group * count, size)
        mask = piece.mask.repeat(1, 1, group, 1)
        found = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, scale=scaling
        )
        out[:, piece.queries] = found.reshape(rows, heads * group, count, -1).transpose(1, 2)
    return out


def watched(
    layout: Layout | None,
    query: Tensor,
    key: Tensor,
    scaling: float | None,
    head: int,
    stock_mask: Tensor | None,
) -> Weights:
    """Attention weights of one query head over all entries and all tokens (0 where unseen).

    `stock_mask` is transformers' own, which an uncompressed layer reads with; None: causal.
    """
    group = query.shape[1] // key.shape[1]
    q = query[:, head].float()
    scale = scaling if scaling is not None else q.shape[-1] ** -0.5
    k = key[:, head // group]
    count, length = q.shape[1], k.shape[1]
    if layout is None:
        scores = (q @ k.float().transpose(1, 2)) * scale
        mask = stock_mask
        if mask is None:
            seen = torch.ones(1, 1, count, length, dtype=torch.bool, device=q.device)
            mask = seen.tril(length - count)
        mask = mask[:, head if mask.shape[1] > 1 else 0, :, :length]
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(scores).masked_fill(~mask, float("-inf"))
        return Weights((scores + mask.float()).softmax(-1), None)
    entries = layout.plan.entries
    entry_k, _ = pooled(layout, key, key)
    scores = q @ torch.cat([entry_k[:, head // group], k], 1).float().transpose(1, 2) * scale
    mask = torch.full_like(scores, float("-inf"))
    for piece in layout.pieces:
        columns = torch.cat([piece.entries, piece.tokens + entries])
        mask[:, piece.queries, columns] = piece.mask[:, 0].float()
    return Weights((scores + mask).softmax(-1), layout.plan)
