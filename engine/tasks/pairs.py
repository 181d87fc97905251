"""Controlled retrieval: adjacent key and value tokens among fillers, one key asked (SCIENCE §4).

The task that controlled models are trained on, for any tokenizer with enough one-token words.
Copies are laid out anew, not padded: the target moves by one place a copy, the rest follows the
training law.  Knows tokens and places; knows nothing of models or memories.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.copies import Copy, LogicalSample, lead_fillers
from engine.registry import TASKS, FieldError, SpecError, option
from engine.tasks.filler import CANDIDATES
from engine.tasks.layout import draw, lattice, lay, scatter_at
from engine.tasks.records import plain_ids, specials, symbols
from engine.tasks.text import piece, refusal

SPACERS = 16  # different fillers, at most


@TASKS.register("pairs")
@dataclass(frozen=True)
class Pairs:
    """Adjacent key and value pairs among fillers; the value of one key is asked."""

    records: int = option(
        40,
        "pairs in the whole length; outer padding keeps their density",
        label="Records",
        low=1,
        high=10_000,
    )
    places: int = option(
        96,
        "tokens in front of the question, records and fillers",
        label="Length",
        low=8,
        high=1_000_000,
    )
    symbols: int = option(
        64, "different words that serve as keys and values", label="Symbols", low=2, high=100_000
    )
    first: int = option(
        16, "places in front that hold no target; at least the window", low=0, high=100_000
    )
    pitch: int = option(
        0, "0: records anywhere; n: one every n places, all at one phase", low=0, high=1024
    )
    rivals: int = option(
        3,
        "other values whose probability is followed, those of other records first; at most all",
        low=0,
        high=1023,
    )

    size_field = "records"
    adjacent_pairs = True
    one_token = True

    def protocols(self) -> tuple[str, ...]:
        return ("outer",) if self.pitch else ("in_sequence", "outer")

    def chance(self, measure: str) -> float:
        """What a guess among the symbols scores."""
        return 1 / self.symbols

    def check(self) -> list[FieldError]:
        if self.pitch == 1:
            return [FieldError("pitch", "a record takes two places: 0, or 2 and more")]
        if not self.count:
            told = f"no record fits at every phase of {self.pitch} in {self.places} places"
            return [FieldError("pitch", f"{told}; at most {self.places - 1}")]
        if self.count > self.symbols:
            told = f"{self.count} records need as many different keys; there are {self.symbols}"
            return [FieldError("symbols", f"{told} symbols")]
        if 2 * self.count > self.places:
            told = f"{self.count} records take {2 * self.count} places; there are {self.places}"
            return [FieldError("records", told)]
        return []

    @property
    def count(self) -> int:
        """Records in the whole length."""
        return len(lattice(self.places, self.pitch, 0)) if self.pitch else self.records

    def density(self, protocol: str, modulus: int) -> float:
        """Records a place in the stretch that holds them: outer padding takes some of it."""
        block = self.places - modulus + 1
        if protocol == "outer" and not self.pitch:
            return max(1, round(self.count * block / self.places)) / block
        return self.count / self.places

    def samples(self, tokenizer: Any, n: int, seed: int) -> list[LogicalSample]:
        """Each sample draws its own keys, values and fillers."""
        fillers = spacers(tokenizer)
        pool = words(tokenizer, self.symbols, fillers, seed)
        lead = specials(tokenizer)
        return [self._sample(tokenizer, i, pool, fillers, lead, seed) for i in range(n)]

    def _sample(
        self,
        tokenizer: Any,
        index: int,
        pool: np.ndarray,
        fillers: np.ndarray,
        lead: tuple[int, ...],
        seed: int,
    ) -> LogicalSample:
        rng = np.random.default_rng([seed, index, 1])
        keys, values = (pool[draw(rng, 1, len(pool), self.count)[0]] for _ in range(2))
        fill = fillers[rng.integers(0, len(fillers), self.places)]
        # Outer padding drops the last of few records: the first followed stand in every copy.
        others = [*values[1:], *sorted({*pool} - {*values})]
        rivals = [int(v) for v in others[: self.rivals]]
        layout = Layout(self, lead, keys, values, fill, seed)
        middle = self.first + (self.places - self.first) // 4 + int(rng.integers(0, 24))
        most = self.pitch * self.count - 1 if self.pitch else self.places - 2
        starts = layout.starts(index, min(middle, most))
        tokens, roles = layout.prompt(starts)
        at = len(lead) + int(starts[0])
        return LogicalSample(
            index=index,
            tokens=tokens,
            roles=roles,
            target=(at, at + 2),
            answer=(int(values[0]),),
            rivals=tuple(rivals),
            rival_texts=tuple(piece(tokenizer, value) for value in rivals),
            answer_text=piece(tokenizer, int(values[0])),
            slots=(),
            filler=int(fillers[0]),
            context_end=len(tokens) - 1,
            layout=layout,
        )


@dataclass(frozen=True, eq=False)
class Layout:
    """One sample's words, and where they stand in each copy.

    `keys`, `values` (M,) ids, the asked record's first; `fill` (places,) ids of the fillers behind.
    """

    task: Pairs
    lead: tuple[int, ...]
    keys: np.ndarray
    values: np.ndarray
    fill: np.ndarray
    seed: int

    def starts(self, index: int, place: int) -> np.ndarray:
        """First places of all records, the asked one at `place` first, by the training law given
        that.

        Copies of one sample draw the same random numbers.
        """
        if self.task.pitch:
            every = lattice(self.task.places, self.task.pitch, place % self.task.pitch)
            return np.concatenate([[place], every[every != place]])
        return self._scattered(index, self.task.places, self.task.records, place)

    def _scattered(self, index: int, places: int, records: int, place: int) -> np.ndarray:
        rng = np.random.default_rng([self.seed, index, 2])
        try:
            starts, before = scatter_at(rng, places, records, place)
        except ValueError as error:
            raise refusal("task.records", str(error)) from None
        return np.concatenate([[place], np.delete(starts, before)])

    def prompt(self, starts: np.ndarray) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Token ids and roles of a prompt with records at these places."""
        count = len(starts)
        keys, values = self.keys[None, :count], self.values[None, :count]
        ids = lay(self.fill[None], starts[None], keys, values)[0]
        roles = np.full(len(ids), "filler", dtype=object)
        roles[starts] = roles[starts + 1] = "record"
        roles[starts[0] : starts[0] + 2] = "target"
        tokens = (*self.lead, *ids.tolist(), int(self.keys[0]))
        return tokens, (*["template"] * len(self.lead), *roles.tolist(), "query")

    def copies(self, sample: LogicalSample, protocol: str, modulus: int) -> list[Copy]:
        """One copy per residue: the asked record at first + G + r, r = 0 … R − 1 (SCIENCE §2)."""
        task, lead = self.task, len(self.lead)
        base = task.first + lead_fillers(sample.index, modulus)
        last = task.first + 3 * (modulus - 1)
        needed = (last // task.pitch + 1) * task.pitch + 1 if task.pitch else last + 2
        if needed > task.places:
            raise refusal(
                "task.places",
                f"{modulus} residues behind the first {task.first} places need {needed} places for "
                f"the targets; there are {task.places}",
            )
        block = task.places - modulus + 1
        dense = round(task.density(protocol, modulus) * block)
        made = []
        for r in range(modulus):
            if protocol == "outer" and not task.pitch:
                starts = self._scattered(sample.index, block, dense, base) + r
            else:
                starts = self.starts(sample.index, base + r)
            tokens, roles = self.prompt(starts)
            at = lead + base + r
            made.append(
                Copy(
                    sample=sample.index,
                    shift=r,
                    residue=at % modulus,
                    tokens=tokens,
                    roles=roles,
                    target=(at, at + 2),
                    answer=sample.answer,
                    rivals=sample.rivals,
                    context_end=len(tokens) - 1,
                )
            )
        verify(made, protocol, modulus)
        return made


def verify(copies: list[Copy], protocol: str, modulus: int) -> None:
    """Check finished copies by what they hold; SpecError names the broken rule."""
    first = copies[0]
    held = Counter(_records(first))
    for copy in copies:
        _require(len(copy.tokens) == len(first.tokens), "the copies differ in length")
        _require(copy.answer == first.answer, "the copies have different answers")
        _require(
            copy.tokens[copy.target[0]] == copy.tokens[-1], "the asked key is not the target's"
        )
        _require(copy.tokens[copy.target[0] + 1] == copy.answer[0], "the target has not the answer")
        _require(copy.residue == copy.target[0] % modulus, "a residue is not its target's")
        _require(Counter(_records(copy)) == held, "the copies hold different records")
        if protocol == "outer":
            moved = copy.target[0] - first.target[0]
            _require(moved == copy.shift, "a target did not move by its shift")
    _require(
        sorted(copy.residue for copy in copies) == list(range(modulus)),
        "the copies do not meet every residue exactly once",
    )


def _records(copy: Copy) -> list[int]:
    """Tokens of all records, the target's included."""
    pairs = zip(copy.tokens, copy.roles, strict=True)
    return [token for token, role in pairs if role in ("record", "target")]


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise SpecError(FieldError("protocol", f"{rule}; this prompt cannot be laid out that way"))


def spacers(tokenizer: Any) -> np.ndarray:
    """Ids of the first fillers that are one token each."""
    found: list[int] = []
    for text in CANDIDATES:
        ids = plain_ids(tokenizer, text)
        if len(ids) == 1 and ids[0] not in {*found, *tokenizer.all_special_ids}:
            found.append(ids[0])
        if len(found) == SPACERS:
            break
    if not found:
        raise refusal("task.kind", "this tokenizer has no filler of one token")
    return np.array(found)


def words(tokenizer: Any, count: int, fillers: np.ndarray, seed: int) -> np.ndarray:
    """`count` one-token words that are no fillers; SpecError with how many there are."""
    taken = set(fillers.tolist())
    pool = [token for token in symbols(tokenizer) if token not in taken]
    if count > len(pool):
        raise refusal(
            "task.symbols",
            f"{count} symbols are asked for; this tokenizer has {len(pool)} words of one token",
        )
    return np.array(sorted(random.Random(f"symbols:{seed}").sample(pool, count)))
