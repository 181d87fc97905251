"""The decode sweep: prompts × methods × budgets → rows.

The full cache writes the continuation once; every method reads it through its own cache, is scored
on each token, and is then asked its questions on forks, each as if alone.  Deterministic: batches
depend on the spec alone.  Knows nothing of the database, jobs or statistics.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import torch
from torch import Tensor

from engine.eviction import rows
from engine.eviction.arms import Arm, arms, prompt_tokens
from engine.eviction.decode import Decoder
from engine.eviction.pooled_decode import PooledDecoder
from engine.eviction.samples import DecodeSample
from engine.eviction.spec import POOLED
from engine.eviction.timing import begin_peak, peak
from engine.eviction.writing import CAP, Writer, Written
from engine.models.head import Head
from engine.tasks.text import piece

# Of the first batch, the last tokens are read one by one: what a step costs is measured there.
TIMED = 32


class DecodeBatch(NamedTuple):
    """Rows of one arm over some samples; `tables` by the names of `engine.eviction.rows`."""

    arm: int
    samples: tuple[int, ...]
    tables: dict[str, pa.Table]
    tokens: int


def decode(
    spec: Any,
    loaded: Any,
    samples: list[DecodeSample],
    have: set[tuple[int, int]] = frozenset(),
    pulse: Callable[[], None] | None = None,
) -> Iterator[DecodeBatch]:
    """All arms over all samples, but (arm, sample) pairs in `have`; a broken batch is redone whole.

    `pulse` is called before every forward and may raise to end the run.
    """
    every = arms(spec, prompt_tokens(samples))
    for group in batches(samples, spec.batch):
        wanted = [a for a in every if any((a.index, s.index) not in have for s in group)]
        if not wanted:
            continue
        lane = Lane(spec, loaded, group, group[0].index == samples[0].index, pulse)
        for arm in wanted:
            yield from lane.run(arm)


def batches(samples: list[DecodeSample], size: int) -> list[list[DecodeSample]]:
    """Runs of at most `size` samples with prompts and given continuations of one length."""
    found = []
    for _, same in itertools.groupby(samples, lambda s: (len(s.prompt), len(s.continuation))):
        same = list(same)
        found += [same[i : i + size] for i in range(0, len(same), size)]
    return found


class Read:
    """What reading the prompt cost, its event and its observing included: where decoding begins."""

    def __init__(self, decoder: Decoder):
        self.forwards, self.events = len(decoder.step_seconds), len(decoder.events)
        self.upkeep, self.fps = decoder.upkeep_seconds, decoder.fps_seconds
        self.seconds = sum(decoder.step_seconds) + self.upkeep


class Lane:
    """One batch of samples; the full cache's continuation is written at most once."""

    def __init__(self, spec: Any, loaded: Any, group: list[DecodeSample], timed: bool, pulse: Any):
        self.spec, self.loaded, self.group, self.timed, self.pulse = (
            spec,
            loaded,
            group,
            timed,
            pulse,
        )
        self.head = Head(loaded.model)
        self._written: list[Written] | None = None

    def run(self, arm: Arm) -> Iterator[DecodeBatch]:
        """One batch per length of continuation: rows that ended early are read by themselves."""
        free = self.spec.mode == "free" and arm.index > 0
        texts = self._write(arm) if free else self.written
        places = range(len(self.group))
        for _, same in itertools.groupby(
            sorted(places, key=lambda i: (len(texts[i].tokens), i)),
            lambda i: len(texts[i].tokens),
        ):
            some = sorted(same)
            part = [self.group[i] for i in some]
            told = [texts[i] for i in some] if free or arm.index == 0 else None
            yield self._score(arm, part, [texts[i].tokens for i in some], told)

    @property
    def written(self) -> list[Written]:
        """What every method of a forced run reads."""
        if self._written is None:
            if all(sample.continuation for sample in self.group):
                self._written = [Written(s.continuation, CAP) for s in self.group]
            else:
                self._written = self._write(Arm(0, self.spec.methods[0], 0, ""))
        return self._written

    def _decoder(self, arm: Arm, group: list[DecodeSample]) -> Decoder:
        kind = PooledDecoder if arm.memory.kind == POOLED else Decoder
        return kind(
            self.loaded,
            arm.memory,
            len(group),
            streams=tuple(self.spec.seed * 1_000_003 + sample.index for sample in group),
            marks=tuple(sample.marks for sample in group),
            evict=self.spec.evict,
            pulse=self.pulse,
        )

    def _prompt(self, decoder: Decoder, group: list[DecodeSample]) -> Tensor:
        """Read the prompts → the state (B, 1, d) that predicts the first token behind them."""
        ids = torch.tensor([sample.prompt for sample in group])
        whole = self.spec.prefill == "whole"
        states = decoder.prefill(ids) if whole else decoder.read(ids)
        decoder.begin()
        return states[:, -1:]

    def _write(self, arm: Arm) -> list[Written]:
        """At most `steps` tokens of each row, token by token."""
        decoder = self._decoder(arm, self.group)
        streams = tuple(self.spec.seed * 7_919 + sample.index for sample in self.group)
        writer = Writer(
            self.loaded, self.spec.temperature, self.spec.top_p, streams, self.spec.task.stops
        )
        state, found = self._prompt(decoder, self.group), []
        while True:
            with torch.inference_mode():
                found.append(writer.next(self.head.logits(state[:, -1]), first=not found))
            texts = torch.stack(found, 1).tolist()
            if len(found) == self.spec.steps or writer.over(texts):
                return [writer.cut(text) for text in texts]
            state = decoder.read(found[-1][:, None])

    def _score(
        self, arm: Arm, group: list[DecodeSample], texts: list[tuple], told: list[Written] | None
    ) -> DecodeBatch:
        device = self.loaded.model.device
        counted = begin_peak(device)
        decoder = self._decoder(arm, group)
        states = [self._prompt(decoder, group)]
        read = Read(decoder)
        ids = torch.tensor(texts)
        single = TIMED if self.timed else 0
        lumped = max(0, ids.shape[1] - single)
        if lumped:
            states.append(decoder.read(ids[:, :lumped]))
        for place in range(lumped, ids.shape[1]):
            states.append(decoder.read(ids[:, place : place + 1]))
        kept = kept_after(decoder, len(group[0].prompt), ids.shape[1])
        scores = self._scores(torch.cat(states, 1)[:, : ids.shape[1]], ids)
        tables = {
            "decode_steps": self._steps(arm, group, texts, scores, kept),
            "decode_answers": self._answers(arm, group, decoder),
            "decode_marks": self._marks(arm, group, decoder),
            "decode_costs": self._costs(
                arm, group, decoder, read, kept, single, peak(device) if counted else None
            ),
            "decode_texts": self._texts(arm, group, told),
        }
        tokens = len(group) * (len(group[0].prompt) + ids.shape[1])
        return DecodeBatch(arm.index, tuple(s.index for s in group), tables, tokens)

    def _scores(self, states: Tensor, gold: Tensor) -> tuple[Tensor, Tensor]:
        """logprob and rank (B, T) of gold (B, T), predicted by states (B, T, d)."""
        with torch.inference_mode():
            flat = self.head.score(states.flatten(0, 1), gold.to(states.device).flatten())
        return flat.logprob.cpu().unflatten(0, gold.shape), flat.rank.cpu().unflatten(0, gold.shape)

    def _steps(self, arm: Arm, group: list, texts: list, scores: tuple, kept: list) -> pa.Table:
        names = {t: piece(self.loaded.tokenizer, t) for t in set(itertools.chain(*texts))}
        found = []
        for row, sample in enumerate(group):
            for i, token in enumerate(texts[row]):
                found.append(
                    {
                        "arm": arm.index,
                        "sample": sample.index,
                        "position": len(sample.prompt) + i,
                        "token_id": token,
                        "text": names[token],
                        "logprob": float(scores[0][row, i]),
                        "rank": int(scores[1][row, i]),
                        "kept": kept[i][0],
                        "event": kept[i][1],
                    }
                )
        return pa.Table.from_pylist(found, schema=rows.STEPS)

    def _answers(self, arm: Arm, group: list[DecodeSample], decoder: Decoder) -> pa.Table:
        """Each question on a fork of its own; rows with shorter ones read on, and are not looked
        at there: nothing read later changes what was said before."""
        found, held = [], decoder.retained()
        for number in range(max((len(sample.questions) for sample in group), default=0)):
            asked = [
                (i, s.questions[number]) for i, s in enumerate(group) if number < len(s.questions)
            ]
            texts = {i: q.tokens + q.answer[:-1] for i, q in asked}
            width = max(map(len, texts.values()))
            ids = torch.zeros(len(group), width, dtype=torch.int64)
            for i, text in texts.items():
                ids[i, : len(text)] = torch.tensor(text)
            states = decoder.fork().read(ids)
            for i, question in asked:
                first = len(question.tokens) - 1
                own = states[i : i + 1, first : first + len(question.answer)]
                logprob, rank = self._scores(own, torch.tensor([question.answer]))
                found.append(
                    {
                        "arm": arm.index,
                        "sample": group[i].index,
                        "question": number,
                        "mark": question.mark,
                        "correct": not rank.any().item(),
                        "logprob": float(logprob.double().sum()),
                        "tokens": len(question.answer),
                        "retained": held[i].get(question.mark, 1.0),
                    }
                )
        return pa.Table.from_pylist(found, schema=rows.ANSWERS)

    def _marks(self, arm: Arm, group: list[DecodeSample], decoder: Decoder) -> pa.Table:
        found = [
            {"arm": arm.index, "sample": s.index, "seen": e.seen, "mark": name, "retained": share}
            for e in decoder.events
            for s, own in zip(group, e.retained, strict=True)
            for name, share in own.items()
        ]
        return pa.Table.from_pylist(found, schema=rows.MARKS)

    def _costs(
        self, arm: Arm, group: list, decoder: Decoder, read: Read, kept: list, single: int, most
    ) -> pa.Table:
        """Seconds of the steps that were read one by one; elsewhere none are told."""
        facts = self.loaded.facts
        width = facts.bytes_per_weight * 2 * facts.head_dim * facts.kv_heads * decoder.repeat
        each = width * len(decoder.layers)
        mean = sum(count for count, _ in kept) / len(kept)
        steps, beside = decoder.step_seconds[read.forwards :], decoder.observe_seconds
        held = decoder.state_held[read.forwards :]
        told = {
            "arm": arm.index,
            "sample": group[0].index,
            "rows": len(group),
            "prefill_seconds": read.seconds,
            "decode_seconds": sum(steps) + decoder.upkeep_seconds - read.upkeep,
            "tokens": len(kept),
            "events": len(decoder.events),
            "event_ms": [1e3 * event.seconds for event in decoder.events[read.events :]],
            "step_ms": [1e3 * seconds for seconds in steps[-single:]] if single else [],
            "observe_ms": 1e3 * sum(beside[read.forwards :][-single:]) if single else 0.0,
            "fps_ms": 1e3 * (decoder.fps_seconds - read.fps),
            "resident_mean": mean,
            "resident_peak": decoder.peak,
            "peak_bytes": decoder.peak * each,
            "mean_bytes": round(mean * each),
            "state_bytes": round(sum(n * size for n, size in held) / sum(n for n, _ in held)),
            "state_peak": max(size for _, size in decoder.state_held),
            "memory_peak": most,
        }
        return pa.Table.from_pylist([told], schema=rows.COSTS)

    def _texts(self, arm: Arm, group: list, told: list[Written] | None) -> pa.Table:
        found = [
            {
                "arm": arm.index,
                "sample": sample.index,
                "text": self.loaded.tokenizer.decode(own.tokens, skip_special_tokens=False),
                "ended": own.ended,
            }
            for sample, own in zip(group, told or [], strict=False)
        ]
        return pa.Table.from_pylist(found, schema=rows.TEXTS)


def kept_after(decoder: Decoder, prompt: int, steps: int) -> list[tuple[int, bool]]:
    """Entries held after each token behind the prompt and its event, and whether there was one."""
    after = {event.seen: event.after for event in decoder.events}
    found, held = [], after.get(prompt)
    if held is None:
        last = max(
            (e for e in decoder.events if e.seen < prompt), key=lambda e: e.seen, default=None
        )
        held = prompt if last is None else last.after + prompt - last.seen
    for seen in range(prompt + 1, prompt + steps + 1):
        held = after.get(seen, held + 1)
        found.append((held, seen in after))
    return found
