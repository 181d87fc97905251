"""The window grid of a controlled model: which entries exist, who sees what (SCIENCE §1).

Positions only.  The closed forms here are tested against the plan that training-free memories use.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import Tensor

from engine.models.controlled.config import Config

NEVER = torch.iinfo(torch.int64).max // 2


class View(NamedTuple):
    """What queries see: entries (T, E) and tokens (T, N), True where visible; positions of both."""

    visible: Tensor
    anchors: Tensor  # (E,) float, where an entry's key is rotated to


def closed_before(config: Config, layer: int, length: int) -> int:
    """How many windows have all their tokens among the first `length`."""
    if not config.chunked:
        return 0
    return max(0, (length - config.start(layer) - config.window) // config.stride + 1)


def starts(config: Config, layer: int, first: int, stop: int) -> Tensor:
    """(E,) first place of windows first … stop − 1; negative where the grid begins before 0."""
    return config.start(layer) + config.stride * torch.arange(first, stop)


def anchors(config: Config, first: Tensor) -> Tensor:
    """(E,) position of each entry of windows that start at `first`."""
    shift = {"centre": (config.window - 1) / 2, "first": 0.0, "last": config.window - 1.0}
    return first.double() + shift[config.anchor]


def covered(config: Config, layer: int, tokens: Tensor) -> Tensor:
    """(N,): position that closes the first window which holds the token; NEVER where none does."""
    if not config.chunked:
        return torch.full_like(tokens, NEVER)
    origin, window, stride = config.start(layer), config.window, config.stride
    number = torch.div(tokens - origin - window + stride, stride, rounding_mode="floor").clamp(0)
    return torch.where(tokens < origin, NEVER, origin + number * stride + window - 1)


def mask(config: Config, layer: int, last: Tensor, tokens: Tensor, queries: Tensor) -> Tensor:
    """(T, E + N): entries that close at `last`, then tokens, each True where the query sees it.

    An entry is visible iff it closed `local` before the query (`beside`: iff it is closed); a token
    is exact iff no visible entry holds it, or (`beside`) the local window does.
    """
    near = queries - config.local
    reach = (queries if config.beside else near)[:, None]
    exact = covered(config, layer, tokens)[None] > reach
    if config.beside:
        exact |= tokens[None] > near[:, None]
    exact &= tokens[None] <= queries[:, None]
    return torch.cat([last[None] <= reach, exact], 1)


@functools.lru_cache(maxsize=256)
def prefill_mask(config: Config, layer: int, length: int, queries: tuple[int, ...]) -> Tensor:
    """The mask of a whole prompt, kept: a batch of the same shape needs it again."""
    last = starts(config, layer, 0, closed_before(config, layer, length)) + config.window - 1
    return mask(config, layer, last, torch.arange(length), torch.tensor(queries))


def needed(config: Config, layer: int, tokens: Tensor, seen: int) -> Tensor:
    """(N,) True for tokens that a query at `seen` or later may still read exactly."""
    near = seen - config.local
    needed = covered(config, layer, tokens) > (seen if config.beside else near)
    return needed | (tokens > near) if config.beside else needed
