"""What is written behind a prompt: the likeliest token, or one drawn with a seed of its row."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

STOP, CAP = "stop", "cap"


class Written(NamedTuple):
    """One row's tokens, and whether it ended by itself or at the cap."""

    tokens: tuple[int, ...]
    ended: str


class Writer:
    """Draws next tokens for a batch; every row has a stream of its own, whatever stands beside it.

    temperature 0 takes the likeliest.  `stops`: an end token ends a row that has a token; else
    none is ever written, so that all rows have the same length.
    """

    def __init__(self, loaded: Any, temperature: float, top_p: float, streams: tuple, stops: bool):
        ends = loaded.model.generation_config.eos_token_id
        self.ends = tuple(ends if isinstance(ends, list) else [] if ends is None else [ends])
        self.temperature, self.top_p, self.stops = temperature, top_p, stops
        self.generators = [torch.Generator().manual_seed(int(s)) for s in streams]

    def next(self, logits: Tensor, first: bool = False) -> Tensor:
        """(B, V) → (B,) token ids; the `first` is never an end."""
        logits = logits.double().cpu()
        if self.ends and (first or not self.stops):
            logits[:, list(self.ends)] = float("-inf")
        if not self.temperature:
            return logits.argmax(-1)
        found = [self._drawn(row, g) for row, g in zip(logits, self.generators, strict=True)]
        return torch.stack(found)

    def _drawn(self, logits: Tensor, generator: torch.Generator) -> Tensor:
        """One token of the smallest set of likeliest ones whose probability reaches top_p."""
        chance, order = (logits / self.temperature).softmax(-1).sort(descending=True, stable=True)
        chance = chance.masked_fill(chance.cumsum(-1) - chance >= self.top_p, 0)
        return order[torch.multinomial(chance, 1, generator=generator)[0]]

    def cut(self, tokens: list[int]) -> Written:
        """A row's tokens before its end token: what is asked later stands behind the text."""
        if self.stops:
            for place, token in enumerate(tokens):
                if token in self.ends:
                    return Written(tuple(tokens[:place]), STOP)
        return Written(tuple(tokens), CAP)

    def over(self, rows: list[list[int]]) -> bool:
        """Whether every row has written an end token."""
        return self.stops and all(any(t in self.ends for t in row) for row in rows)
