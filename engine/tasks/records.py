"""Retrieval among key:value records of single tokens, built on ids (SCIENCE §4, NIAH of PWS).

Knows which tokens are one word.  Knows nothing about models or memories.
"""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.copies import LogicalSample, Slot
from engine.registry import TASKS, FieldError, option, shown
from engine.tasks.access_code import generator
from engine.tasks.filler import CANDIDATES
from engine.tasks.text import encode, piece, refusal


@functools.lru_cache(maxsize=4)
def symbols(tokenizer: Any) -> tuple[int, ...]:
    """Ids of all tokens that are one lower-case word with its space, three letters or more."""
    special = set(tokenizer.all_special_ids)
    found = []
    for token, form in enumerate(tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))):
        word = (form or "")[1:]
        if (
            token in special
            or len(word) < 3
            or not (word.isascii() and word.isalpha() and word.islower())
        ):
            continue
        if piece(tokenizer, token) == f" {word}":
            found.append(token)
    return tuple(found)


class Signs(NamedTuple):
    """Ids that are the same in every sample: specials in front, ":", ",", and the padding."""

    lead: tuple[int, ...]
    colon: int
    stop: int
    filler: int


@TASKS.register("records")
@dataclass(frozen=True)
class Records:
    """Single-token key:value records; the value of one key is asked."""

    records: int = option(
        64, "key:value pairs, all symbols different", label="Records", low=1, high=100_000
    )
    place: float = option(
        0.5, "where the asked record stands, as a share of the records", low=0, high=1
    )
    rivals: int = option(3, "values of other records whose probability is followed", low=0, high=16)
    filler: str = option(
        "", "the padding between records, one token; empty takes the first that fits"
    )

    size_field = "records"
    one_token = True

    def protocols(self) -> tuple[str, ...]:
        return ("in_sequence", "outer", "grid_origin", "lengthen")

    def chance(self, measure: str) -> float:
        """What a guess among the values of the prompt scores; answers are single tokens."""
        return 1 / self.records

    def check(self) -> list[FieldError]:
        return []

    def samples(self, tokenizer: Any, n: int, seed: int) -> list[LogicalSample]:
        """Each sample draws its own symbols and their order."""
        pool = self._pool(symbols(tokenizer))
        colon, stop = (_single(tokenizer, sign) for sign in (":", ","))
        signs = Signs(specials(tokenizer), colon, stop, self._filler(tokenizer, stop))
        pool = self._pool(tuple(token for token in pool if token != signs.filler))
        streams = [generator(seed, i, "records") for i in range(n)]
        return [self._sample(tokenizer, i, pool, signs, rng) for i, rng in enumerate(streams)]

    def _pool(self, pool: tuple[int, ...]) -> tuple[int, ...]:
        """The symbols to draw from; SpecError if they are too few for all records to differ."""
        needed = 2 * self.records
        if needed > len(pool):
            raise refusal(
                "task.records",
                f"{self.records} records need {needed} different single-token words; this "
                f"tokenizer has {len(pool)}: at most {len(pool) // 2} records",
            )
        return pool

    def _sample(
        self, tokenizer: Any, index: int, pool: tuple[int, ...], signs: Signs, rng: random.Random
    ) -> LogicalSample:
        drawn = rng.sample(pool, 2 * self.records)
        keys, values = drawn[: self.records], drawn[self.records :]
        asked = min(int(self.place * self.records), self.records - 1)
        tokens, roles = list(signs.lead), ["template"] * len(signs.lead)
        starts = []
        for key, value in zip(keys, values, strict=True):
            starts.append(len(tokens))
            tokens += [key, signs.colon, value, signs.stop]
            roles += ["record"] * 4
        begin, end = starts[asked], len(tokens)
        roles[begin + 2] = "target"
        others = [v for i, v in enumerate(values) if i != asked]
        rivals = rng.sample(others, min(self.rivals, len(others)))
        return LogicalSample(
            index=index,
            tokens=(*tokens, keys[asked], signs.colon),
            roles=(*roles, "query", "query"),
            target=(begin + 2, begin + 3),
            answer=(values[asked],),
            rivals=tuple(rivals),
            rival_texts=tuple(piece(tokenizer, value) for value in rivals),
            answer_text=piece(tokenizer, values[asked]),
            slots=(
                Slot("front", len(signs.lead)),
                Slot("before", begin),
                Slot("pad", begin),
                Slot("after", begin + 4),
                Slot("back", end),
            ),
            filler=signs.filler,
            context_end=end,
        )

    def _filler(self, tokenizer: Any, stop: int) -> int:
        """The padding's id: any string that is one token, since on ids nothing merges."""
        for text in (self.filler,) if self.filler else CANDIDATES:
            ids = plain_ids(tokenizer, text)
            if len(ids) == 1 and ids[0] != stop:
                return ids[0]
        good = [repr(c) for c in CANDIDATES if len(plain_ids(tokenizer, c)) == 1][:3]
        raise refusal(
            "task.filler", f"{shown(self.filler)} is not exactly one token; {', '.join(good)} are"
        )


def specials(tokenizer: Any) -> tuple[int, ...]:
    """What the tokenizer puts in front of every text."""
    encoded = encode(tokenizer, "x", chat=False)
    spans = zip(encoded.ids, encoded.starts, encoded.ends, strict=True)
    return tuple(token for token, start, end in spans if start == end)


def plain_ids(tokenizer: Any, text: str) -> list[int]:
    """Ids of a text that follows a word: some tokenizers put a space in front of a text's start."""
    front = tokenizer("x", add_special_tokens=False)["input_ids"]
    return tokenizer("x" + text, add_special_tokens=False)["input_ids"][len(front) :]


def _single(tokenizer: Any, sign: str) -> int:
    ids = plain_ids(tokenizer, sign)
    if len(ids) != 1:
        told = f"this tokenizer spells {sign!r} with {len(ids)} tokens, records need one"
        raise refusal("task.records", told)
    return ids[0]
