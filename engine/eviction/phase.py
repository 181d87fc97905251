"""The phase of eviction: copies of a prompt read through a cache that forgets on a beat.

Events come every so many tokens, so that a fact's place against them is a phase like any other.
The rows are those of every sweep.  Knows nothing of the database, jobs or statistics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from engine import rows
from engine.copies import Copy
from engine.eviction.decode import Decoder
from engine.eviction.writing import Writer
from engine.models.head import Head
from engine.run.sweep import Batch, Scorer, batches


def phase_sweep(spec: Any, loaded: Any, copies: list[Copy]) -> Iterator[Batch]:
    """Score whole batches of copies, each read from its beginning."""
    scorer = EvictingScorer(spec, loaded, spec.memory, -1)
    for batch in batches(copies, spec.settings.batch):
        yield scorer.score(batch)


class EvictingScorer(Scorer):
    """A scorer whose states come from a cache that drops entries: no beginning is shared."""

    def score(self, copies: list[Copy]) -> Batch:
        first = 0 if self.wants_all else len(copies[0].tokens) - 1
        groups = _by_origin(copies)
        seen = torch.cat([states(self.spec, self.loaded, group) for group in groups])[:, first:]
        found = self._score_all(seen, copies, first, None)
        rivals = self._rivals(seen[:, len(copies[0].tokens) - 1 - first], copies[0])
        answers = [
            self._answer(copy, own, rival)
            for copy, own, rival in zip(copies, found, rivals, strict=True)
        ]
        wanted = self.layer < 0 and self.spec.settings.rows != "answers"
        tokens = self._tokens(copies, found, first) if wanted else None
        return Batch(pa.Table.from_pylist(answers, schema=rows.ANSWERS), tokens, len(copies))


def states(spec: Any, loaded: Any, copies: list[Copy]) -> Tensor:
    """Hidden states (B, P + A − 1, d) of prompt and answer, read as the memory says.

    streamed: every token is read as if it had been written; after_context: the context exactly,
    then one event, then the question.
    """
    ids = torch.tensor([copy.tokens + copy.answer[:-1] for copy in copies])
    return _read(spec, begin(spec, loaded, copies), ids, copies[0].context_end)


def _read(spec: Any, decoder: Decoder, ids: Tensor, end: int) -> Tensor:
    if spec.memory.when == "streamed":
        return decoder.read(ids)
    context = decoder.prefill(ids[:, :end])
    return torch.cat([context, decoder.read(ids[:, end:])], 1)


def begin(spec: Any, loaded: Any, copies: list[Copy]) -> Decoder:
    """A decoder whose first event comes earlier by as much as the grid's origin asks."""
    period = spec.memory.period
    return Decoder(
        loaded,
        spec.memory,
        len(copies),
        streams=tuple(spec.settings.seed * 1_000_003 + copy.sample for copy in copies),
        lead=-copies[0].origin % period if period else 0,
    )


def _by_origin(copies: list[Copy]) -> list[list[Copy]]:
    """Copies of one event grid read together; the order is kept."""
    groups: list[list[Copy]] = []
    for copy in copies:
        if groups and groups[-1][0].origin == copy.origin:
            groups[-1].append(copy)
        else:
            groups.append([copy])
    return groups


def noise_floor(spec: Any, loaded: Any, copies: list[Copy]) -> float:
    """Largest difference of the answer's probability, a copy alone against in its batch."""
    together = batches(copies, spec.settings.batch)[0]
    scorer = EvictingScorer(spec, loaded, spec.memory, 0)
    batch = scorer.score(together).answers["logprob"].to_numpy()
    alone = [scorer.score([copy]).answers["logprob"][0].as_py() for copy in together[:2]]
    return float(np.abs(np.exp(batch[: len(alone)]) - np.exp(alone)).max())


def write(spec: Any, loaded: Any, copy: Copy, length: int = 24) -> str:
    """Text of at most `length` greedy tokens after the copy's prompt; ends at the end token."""
    writer = Writer(loaded, 0.0, 1.0, (0,), stops=True)
    head, decoder = Head(loaded.model), begin(spec, loaded, [copy])
    state = _read(spec, decoder, torch.tensor([copy.tokens]), copy.context_end)
    found: list[int] = []
    while len(found) < length:
        with torch.inference_mode():
            token = int(writer.next(head.logits(state[:, -1]))[0])
        if token in writer.ends:
            break
        found.append(token)
        state = decoder.read(torch.tensor([[token]]))
    return loaded.tokenizer.decode(found, skip_special_tokens=False)
