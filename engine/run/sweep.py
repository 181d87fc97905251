"""The sweep: phase copies → equal-length batches → forward with a memory → rows.

Deterministic: the batches of a run depend on its spec alone, so a resumed run has the same bits.
Knows nothing of the database, jobs or statistics.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from engine import rows
from engine.copies import Copy, token_residues
from engine.models.head import Head, Scores
from engine.run.read import hidden_states, prefill

SHARE_FROM = 32  # tokens of a common beginning from which computing it once pays


class Beginning(NamedTuple):
    """What all copies of a sample share, computed once: P tokens' cache, states and scores."""

    cache: Any
    states: Tensor  # (1, P, d)
    scores: Scores | None  # of tokens 1 … P − 1, where all rows are wanted


class Batch(NamedTuple):
    """Rows of some copies of one sample, in the schemas of `engine.rows`."""

    answers: pa.Table
    tokens: pa.Table | None
    copies: int


def batches(copies: list[Copy], size: int) -> list[list[Copy]]:
    """Runs of at most `size` copies of one sample and one length, in the order given."""
    found = []
    for _, group in itertools.groupby(
        copies, key=lambda c: (c.sample, len(c.tokens), c.context_end)
    ):
        same = list(group)
        found += [same[i : i + size] for i in range(0, len(same), size)]
    return found


def sweep(
    spec: Any, loaded: Any, copies: list[Copy], layers: list[int] | None = None
) -> Iterator[Batch]:
    """Score whole batches of copies; with `layers`, once per layer, that one alone compressed."""
    for layer in layers or [None]:
        memory = spec.memory if layer is None else replace(spec.memory, layers=str(layer))
        scorer = Scorer(spec, loaded, memory, -1 if layer is None else layer)
        for batch in batches(copies, spec.settings.batch):
            yield scorer.score(batch)


@dataclass
class Scorer:
    """One memory over many batches; keeps the last sample's shared beginning, nothing else."""

    spec: Any
    loaded: Any
    memory: Any
    layer: int

    def __post_init__(self):
        self.head = Head(self.loaded.model)
        self.pieces = Pieces(self.loaded.tokenizer)
        self.wants_all = self.layer < 0 and self.spec.settings.rows == "all"
        self.begun: tuple[Any, Beginning | None] = (None, None)

    def score(self, copies: list[Copy]) -> Batch:
        """Rows of one batch.  Copies that the memory cannot tell apart are computed once."""
        distinct = {self._identity(copy): copy for copy in copies}
        start = self._start(copies[0])
        own = list(distinct.values())
        first = 0 if self.wants_all else len(copies[0].tokens) - 1
        states = hidden_states(self.loaded, self.memory, own, start, first)
        found = self._score_all(states, own, first, start)
        rivals = self._rivals(states[:, len(copies[0].tokens) - 1 - first], copies[0])
        places = {identity: i for i, identity in enumerate(distinct)}
        which = [places[self._identity(copy)] for copy in copies]
        answers = [
            self._answer(copy, found[i], rivals[i]) for copy, i in zip(copies, which, strict=True)
        ]
        wanted = self.layer < 0 and self.spec.settings.rows != "answers"
        tokens = self._tokens(copies, [found[i] for i in which], first) if wanted else None
        return Batch(
            pa.Table.from_pylist(answers, schema=rows.ANSWERS),
            tokens,
            len(copies),
        )

    def _identity(self, copy: Copy) -> tuple:
        """What the model's answer depends on: a memory without a grid cannot see the origin."""
        return copy.tokens, copy.origin if self.memory.strides() else 0

    def _start(self, copy: Copy) -> Beginning | None:
        """The beginning that all copies of the sample share, where it is long enough to pay."""
        length = min(copy.shared, len(copy.tokens) - 1)
        if length < SHARE_FROM or self.loaded.own_memory:
            return None
        known = (copy.sample, copy.tokens[:length])
        if self.begun[0] != known:
            cache, states = prefill(self.loaded, self.memory, copy, length)
            gold = copy.tokens[1:length]
            scores = self._scores(states[0, :-1], gold) if self.wants_all else None
            self.begun = (known, Beginning(cache, states, scores))
        return self.begun[1]

    def _score_all(
        self, states: Tensor, copies: list[Copy], first: int, start: Beginning | None
    ) -> list[Scores]:
        """Scores of tokens first + 1 … of each copy, those of its beginning taken over.

        states (B, n, d), of positions from `first` on.
        """
        before = start.scores if start is not None else None
        done = len(before.rank) if before else first
        rest = states[:, done - first :]
        gold = [t for copy in copies for t in (*copy.tokens, *copy.answer)[done + 1 :]]
        flat, count = self._scores(rest.flatten(0, 1), gold), rest.shape[1]
        found = []
        for i in range(len(copies)):
            own = [column[i * count : (i + 1) * count] for column in flat]
            if before:
                own = [torch.cat(pair) for pair in zip(before, own, strict=True)]
            found.append(Scores(*own))
        return found

    def _scores(self, states: Tensor, gold: Sequence[int]) -> Scores:
        with torch.inference_mode():
            scores = self.head.score(states, torch.tensor(gold, device=states.device))
            return Scores(*(column.cpu() for column in scores))

    def _rivals(self, states: Tensor, copy: Copy) -> np.ndarray:
        """(B, rivals) log-probabilities, from the states (B, d) before the answer."""
        if not copy.rivals:
            return np.empty((len(states), 0))
        with torch.inference_mode():
            logp = self.head.logprobs(states)
        return logp[:, list(copy.rivals)].double().cpu().numpy()

    def _answer(self, copy: Copy, scores: Scores, rivals: np.ndarray) -> dict:
        count = len(copy.answer)
        logprobs, ranks = scores.logprob[-count:].tolist(), scores.rank[-count:].tolist()
        modulus = self.spec.settings.modulus
        return {
            "sample": copy.sample,
            "shift": copy.shift,
            "residue": copy.residue,
            "layer": self.layer,
            "length": len(copy.tokens),
            "target_position": copy.target[0],
            "query_position": copy.query_position,
            "origin": copy.origin,
            "correct": not any(ranks),
            "logprob": float(np.sum(logprobs)),
            "token_logprobs": logprobs,
            "token_ranks": ranks,
            "token_residues": token_residues(copy, modulus),
            "rival_logprobs": rivals.tolist(),
        }

    def _tokens(self, copies: list[Copy], found: list[Scores], first: int) -> pa.Table:
        """Rows of tokens first + 1 … of all copies, answers included."""
        ids = [(*copy.tokens, *copy.answer)[first + 1 :] for copy in copies]
        roles = [(*copy.roles, *["answer"] * len(copy.answer))[first + 1 :] for copy in copies]
        counts, width = [len(own) for own in ids], found[0].top_ids.shape[1]
        scores = Scores(*map(torch.cat, zip(*found, strict=True)))
        ends = pa.array(np.arange(0, sum(counts) * width + 1, width, dtype=np.int32))
        top_ids = pa.array(scores.top_ids.flatten().numpy().astype(np.int32))
        top_logprobs = pa.array(scores.top_logprobs.flatten().float().numpy())
        flat = tuple(itertools.chain.from_iterable(ids))
        columns = [
            *(
                np.repeat(np.array([getattr(copy, name) for copy in copies], np.int32), counts)
                for name in ("sample", "shift", "residue")
            ),
            np.concatenate([np.arange(first + 1, first + 1 + n, dtype=np.int32) for n in counts]),
            np.array(flat, np.int32),
            self.pieces.texts(flat),
            list(itertools.chain.from_iterable(roles)),
            scores.logprob.float().numpy(),
            scores.rank.numpy().astype(np.int32),
            scores.entropy.float().numpy(),
            pa.ListArray.from_arrays(ends, top_ids),
            pa.ListArray.from_arrays(ends, top_logprobs),
        ]
        return pa.Table.from_arrays([pa.array(c) for c in columns], schema=rows.TOKENS)


class Pieces:
    """Texts of single tokens, as the page shows them, each decoded once."""

    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer
        self.known: dict[int, str] = {}

    def texts(self, ids: tuple[int, ...]) -> list[str]:
        from engine.tasks.text import piece

        for token in set(ids) - self.known.keys():
            self.known[token] = piece(self.tokenizer, token)
        return [self.known[token] for token in ids]


def noise_floor(spec: Any, loaded: Any, copies: list[Copy]) -> float:
    """Largest difference of the answer's probability, one copy alone against in its batch (SCIENCE
    §3).

    The copy alone is also read whole, without the beginning computed once for all copies.
    """
    together = batches(copies, spec.settings.batch)[0]
    scorer = Scorer(spec, loaded, spec.memory, 0)
    batch = scorer.score(together).answers.column("logprob").to_numpy()
    alone = [
        Scorer(spec, loaded, spec.memory, 0)
        .score([replace(copy, shared=0)])
        .answers["logprob"][0]
        .as_py()
        for copy in together[:2]
    ]
    return float(np.abs(np.exp(batch[: len(alone)]) - np.exp(alone)).max())
