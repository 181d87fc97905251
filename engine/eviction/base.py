"""What an evicting memory is: when entries drop, how they are scored, what stays (SCIENCE §6).

A method says when an event is due and gives every entry a score; the decoder drops.  It never
touches the cache.  Letters: L evicting layers, B rows, H query heads, K KV heads, G = H/K,
T new tokens, n entries in the cache, D head size.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from engine.registry import FieldError, option

NEVER = 1 << 30  # tokens until an event that does not come


@dataclass
class Clock:
    """How far a run is.  The length of the cache is never a position: `seen` is."""

    seen: int = 0  # tokens read; the next token's position
    kept: int = 0  # entries in the cache, the same in every layer and head
    prompt: int = 0  # tokens that were read at once at the start
    events: int = 0
    prefilled: bool = False  # true while the event at the end of a prefill is judged
    lead: int = 0  # tokens by which the first event comes early: the event grid's origin
    rests: int = 0  # tokens that must have been read before the next event


class Setting(NamedTuple):
    """The shapes and the model's own functions that a method's state is made for."""

    layers: int
    rows: int
    q_heads: int
    kv_heads: int
    head_dim: int
    scale: float  # of the logits
    rotary: Any  # engine.memory.rotary.Rotary
    streams: tuple[int, ...]  # one number per row that seeds what is random


class Seen(NamedTuple):
    """What one forward showed: queries of T new tokens after RoPE, and every layer's cache."""

    queries: Tensor  # (L, B, H, T, D)
    positions: Tensor  # (T,) at which queries were rotated
    keys: list[Tensor]  # per layer (B, K, n, D), the new tokens' included
    key_positions: list[Tensor]  # per layer (B, K, n)


class Votes(NamedTuple):
    """Scores of one layer's entries (B, K, n), higher is kept; and who gave them, where asked.

    winner (B, K, n): index g · m + i of group head g and observer i with the largest weight.
    """

    score: Tensor
    winner: Tensor | None = None


class Observer(NamedTuple):
    """One query that votes: its kind, and the position at which it was asked (−1 if not kept)."""

    kind: str  # beacon or recent
    position: int


class State(Protocol):
    """One run's memory of queries and scores; made anew for every batch of samples."""

    def observe(self, seen: Seen, clock: Clock) -> None:
        """Take in T tokens; `clock` stands before them."""

    def votes(self, layer: int, keys: Tensor, positions: Tensor, clock: Clock) -> Votes:
        """Scores of one layer's entries at an event; keys (B, K, n, D), positions (B, K, n)."""

    def dropped(self, kept: list[Tensor], clock: Clock) -> None:
        """The event is over: per layer (B, K, m) the indices that stayed; renew what must be."""

    def observers(self, layer: int) -> tuple[list[Observer], Tensor | None]:
        """Who votes now, and their queries before RoPE (B, H, m, D)."""

    @property
    def bytes(self) -> int:
        """Of one row: stored queries and scores."""


@dataclass(frozen=True)
class Evicting:
    """What every evicting memory has; a method adds its options, its state and its rule."""

    budget: int = option(
        256, "entries per KV head; what it bounds is the method's own", label="Budget", low=1
    )
    when: str = option(
        "streamed",
        "streamed: events come while the prompt is read; after_context: the context is read "
        "exactly, then one event",
        label="When",
        choices=("streamed", "after_context"),
    )

    evicts: ClassVar[bool] = True

    @property
    def per_query_head(self) -> bool:
        """Whether each query head keeps a set of its own: G times the bytes."""
        return False

    @property
    def once(self) -> bool:
        """Whether the only event is at the end of a prompt that was read at once."""
        return False

    @property
    def reads_whole(self) -> bool:
        """Whether a prompt must be read at once."""
        return self.once

    @property
    def slots_used(self) -> bool:
        """Whether positions are those inside the cache."""
        return False

    # ---- when: counts only

    def peak(self, clock: Clock) -> int:
        """Entries at which an event is due."""
        raise NotImplementedError

    def floor(self, clock: Clock) -> int:
        """Entries that stay after it."""
        raise NotImplementedError

    def room(self, clock: Clock) -> int:
        """Tokens until the next event; none or fewer: it is due now."""
        return self.peak(clock) - clock.kept - (0 if clock.events else clock.lead)

    @property
    def period(self) -> int:
        """Tokens from one event to the next; 0 where there is no second."""
        clock = Clock(events=1)
        return self.peak(clock) - self.floor(clock)

    # ---- what

    def protected(self, clock: Clock) -> tuple[int, int]:
        """Leading positions and latest entries that no event drops."""
        return 0, 0

    def state(self, setting: Setting) -> State:
        raise NotImplementedError

    # ---- as a memory of a sweep

    def strides(self) -> tuple[int, ...]:
        """The event period is a stride too."""
        return (self.period,) if self.period > 1 else ()

    def plan(self, layer: int, length: int, origin: Tensor) -> None:
        """No entry is made of several tokens."""

    def check(self) -> list[FieldError]:
        return []

    def check_model(self, n_layers: int, full_layers: tuple[int, ...]) -> list[FieldError]:
        if full_layers:
            return []
        return [FieldError("kind", "every layer of this model has a sliding window: none evicts")]

    def check_prompt(self, tokens: int) -> list[FieldError]:
        """What does not go with prompts of which the shortest has so many tokens."""
        return []

    def phrase(self) -> str:
        return f"{self.kind} {self.budget}"

    def usual(self) -> dict[str, Any]:
        """Values that are not worth telling in a label."""
        return {f.name: f.default for f in fields(self)}

    def too_small(self, least: int, parts: str) -> list[FieldError]:
        """The refusal of a budget that cannot hold what is protected and one entry more."""
        if self.budget >= least:
            return []
        told = f"{self.budget} cannot hold {parts} and one entry more; {least} is the least"
        return [FieldError("budget", told)]


def room(memory: Any, clock: Clock) -> int:
    """Tokens until the next event of a run; none or fewer: it is due now."""
    return max(memory.room(clock), clock.rests - clock.seen)


def start(evict: str) -> int:
    """A clock's `rests` while the prompt is read; `evict` as in `behind_prompt`."""
    return NEVER if evict == "decode" else 0


def behind_prompt(memory: Any, clock: Clock, evict: str) -> None:
    """The prompt is read; `evict`: prompt, no event comes any more; decode, one that was due comes
    a period later; both, events come as they did."""
    if evict == "prompt":
        clock.rests = NEVER
    elif evict == "decode":
        clock.rests = clock.seen + memory.period if memory.room(clock) <= 0 else 0


def options_told(memory: Any) -> str:
    """Options that differ from the usual ones, as "n_beacon 8, selector random"."""
    told = [
        f"{name} {getattr(memory, name)}"
        for name, usual in memory.usual().items()
        if name not in ("budget", "when") and getattr(memory, name) != usual
    ]
    return ", ".join(told)


def keep(score: Tensor, positions: Tensor, prefix: int, latest: int, size: int) -> Tensor:
    """Indices (B, K, size) of what stays, ascending: protected entries and the top of the rest.

    score, positions (B, K, n).  Equal scores: the lower index stays.
    """
    count = score.shape[-1]
    protected = positions < prefix
    protected[..., count - latest :] = True
    ranked = score.masked_fill(protected, float("inf"))
    order = torch.sort(ranked, dim=-1, descending=True, stable=True).indices
    return order[..., :size].sort(-1).values


def logits(queries: Tensor, keys: Tensor, scale: float) -> Tensor:
    """In float32 or wider: queries (B, H, m, D), keys (B, K, n, D) → (B, K, G, m, n)."""
    rows, heads, count, size = queries.shape
    kv_heads = keys.shape[1]
    q = queries.reshape(rows, kv_heads, heads // kv_heads * count, size)
    found = wide((q @ keys.transpose(2, 3)) * scale)
    return found.reshape(rows, kv_heads, -1, count, keys.shape[2])


def wide(x: Tensor) -> Tensor:
    """In float32, or as it is where that is narrower."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def attention(queries: Tensor, keys: Tensor, scale: float, visible: Tensor | None = None) -> Tensor:
    """Softmax of these logits over the entries.

    visible (B, K, m, n): which keys a query may see; all where None.
    """
    found = logits(queries, keys, scale)
    if visible is not None:
        found = found.masked_fill(~visible[:, :, None], float("-inf"))
    return found.softmax(-1)


def causal(query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """(B, K, m, n): key not after the query; query_positions (m,), key_positions (B, K, n)."""
    return key_positions[:, :, None, :] <= query_positions[:, None]
