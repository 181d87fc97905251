"""One sample under one method, told in full: what each event saw, who voted, what it cost later.

Reads the sample again with one layer watched.  Beside it stands the full cache's own reading, for
what it would have looked at (SCIENCE §6.3).  Knows decoders; knows nothing of stores or jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from engine.eviction.arms import Arm, arms, prompt_tokens
from engine.eviction.base import attention, causal
from engine.eviction.decode import Decoder, Detail, Event, _Queries
from engine.eviction.queries import fps, kmeans, pick, unit
from engine.eviction.restore import hiding, with_span
from engine.eviction.samples import DecodeSample
from engine.eviction.sweep import Lane, batches, kept_after
from engine.memory.rotary import unrotate
from engine.models.head import Head
from engine.tasks.text import piece

TOP, FAR = (
    150,
    200,
)  # keys of a query, and tokens beyond which their mean distance is global (BKV B)
OBSERVED = 16  # beacons, and recent queries, of the selectors that coverage compares (BKV Fig. 6)
BLOCK = 256  # queries
POINTS = 200  # of the history, in the PCA


def trace(
    spec: Any,
    loaded: Any,
    arm: int,
    sample: int,
    layer: int,
    kv_head: int,
    continuation: tuple[int, ...] | None = None,
    top: int = TOP,
    far: int = FAR,
    step: Callable[[int, int], None] | None = None,
) -> dict:
    """A JSON-ready account.  `continuation`: the tokens that were read; written anew where None.

    `step` is called before every forward with the tokens read and their sum; it may raise.
    """
    samples = spec.task.samples(loaded.tokenizer, spec.samples, spec.seed)
    chosen, own = arms(spec, prompt_tokens(samples))[arm], samples[sample]
    if continuation is None:
        continuation = _written(spec, loaded, chosen, samples, sample)
    read = tuple(continuation)
    return Tracer(spec, loaded, chosen, own, read, layer, kv_head, step).told(top, far)


def _written(spec: Any, loaded: Any, arm: Arm, samples: list, sample: int) -> tuple[int, ...]:
    """What this sample's batch wrote: written in the same batch, the tokens are the same."""
    group = next(g for g in batches(samples, spec.batch) if samples[sample] in g)
    lane = Lane(spec, loaded, group, False, None)
    free = spec.mode == "free" and arm.index > 0
    return (lane._write(arm) if free else lane.written)[group.index(samples[sample])].tokens


class Tracer:
    """The method's reading and the full cache's, each once; `told` puts them side by side."""

    def __init__(
        self,
        spec: Any,
        loaded: Any,
        arm: Arm,
        sample: DecodeSample,
        continuation: tuple[int, ...],
        layer: int,
        kv_head: int,
        step: Callable[[int, int], None] | None = None,
    ):
        self.spec, self.loaded, self.arm, self.sample = spec, loaded, arm, sample
        self.continuation, self.layer, self.kv_head = continuation, layer, kv_head
        self.head = Head(loaded.model)
        facts = loaded.facts
        self.group = facts.q_heads // facts.kv_heads
        self.heads = range(kv_head * self.group, (kv_head + 1) * self.group)
        self.start = len(sample.prompt)
        self.ids = torch.tensor([sample.prompt + continuation])
        self.step, self.decoder, self.full, self.asked = step, None, None, 0
        self.decoder = self._decoder(arm.memory)
        self.logprobs = self._read(self.decoder)
        self.full = self._decoder(None)
        self.full_logprobs = self._read(self.full)
        with torch.inference_mode():
            self.queries = self._plain(self.decoder)  # (H, N, D) before RoPE
            self.full_queries = torch.cat(self.full.shown, 1)  # (H, N, D) after RoPE

    def _decoder(self, memory: Any) -> Decoder:
        return Decoder(
            self.loaded,
            memory,
            1,
            streams=(self.spec.seed * 1_000_003 + self.sample.index,),
            marks=(self.sample.marks,),
            watch=(self.layer, 0),
            archive=memory is not None,
            evict=self.spec.evict,
            pulse=self._tell,
        )

    def _tell(self) -> None:
        """How many tokens were read: both readings, the questions, and the sample once more."""
        if self.step:
            each = sum(len(q.tokens) + len(q.answer) - 1 for q in self.sample.questions)
            total = 3 * self.ids.shape[1] + (0 if self.decoder.slots else 3 * each)
            read = sum(d.clock.seen for d in (self.decoder, self.full) if d)
            self.step(read + self.asked, total)

    def _read(self, decoder: Decoder) -> Tensor:
        """Log-probabilities (T,) of the continuation."""
        prompt, rest = self.ids[:, : self.start], self.ids[:, self.start :]
        whole = self.spec.prefill == "whole" or decoder is not self.decoder
        states = [(decoder.prefill(prompt) if whole else decoder.read(prompt))[:, -1:]]
        decoder.begin()
        states.append(decoder.read(rest))
        return self._logprobs(torch.cat(states, 1)[:, :-1], rest[0])

    def _logprobs(self, states: Tensor, gold: Tensor) -> Tensor:
        with torch.inference_mode():
            return self.head.score(states[0], gold.to(states.device)).logprob.double().cpu()

    def _plain(self, decoder: Decoder) -> Tensor:
        turned = torch.cat(decoder.shown, 1).to(self.loaded.model.device)[None]
        positions = torch.cat(decoder.shown_at).to(turned.device)[None]
        tables = decoder.rotary.tables(positions, turned.shape[2], turned)
        return unrotate(turned, tables)[0].cpu()

    # ---- the account

    def told(self, top: int, far: int) -> dict:
        with torch.inference_mode():
            return {
                "arm": self.arm.index,
                "sample": self.sample.index,
                "layer": self.layer,
                "kv_head": self.kv_head,
                "tokens": self._tokens(),
                "events": self._events(),
                "nll": _rows(self.places, self.logprobs, self.full_logprobs),
                "bytes": self._bytes(),
                "regret": self._regret(),
                "restored": self._restored(),
                "slots": self.decoder.slots,
                "distances": self._distances(top, far),
                "top": top,
                "far": far,
            }

    @property
    def places(self) -> list[int]:
        return list(range(self.start, self.ids.shape[1]))

    def _tokens(self) -> list[dict]:
        marked: dict[int, str] = {}
        for name, start, stop in self.sample.marks:  # wide ones first, so that narrow ones win
            marked |= dict.fromkeys(range(start, stop), name)
        texts = {t: piece(self.loaded.tokenizer, t) for t in set(self.ids[0].tolist())}
        return [
            {
                "position": place,
                "text": texts[token],
                "role": "prompt" if place < self.start else "written",
                "mark": marked.get(place),
            }
            for place, token in enumerate(self.ids[0].tolist())
        ]

    def _bytes(self) -> list[list[int]]:
        facts, decoder = self.loaded.facts, self.decoder
        each = 2 * facts.head_dim * facts.bytes_per_weight * facts.kv_heads * len(decoder.layers)
        held = kept_after(decoder, self.start, len(self.continuation))
        return [
            [place, kept * each * decoder.repeat, (place + 1) * each]
            for place, (kept, _) in zip(self.places, held, strict=True)
        ]

    # ---- events

    def _events(self) -> list[dict]:
        events = [event for event in self.decoder.events if event.detail]
        ends = [*(event.seen for event in events[1:]), self.ids.shape[1]][: len(events)]
        return [self._event(event, end) for event, end in zip(events, ends, strict=True)]

    def _event(self, event: Event, end: int) -> dict:
        detail: Detail = event.detail
        row = self.kv_head * self.decoder.repeat  # sets of each query head: the group's first
        present = detail.positions[row].tolist()
        index, count = detail.index[row].tolist(), len(present)
        held = {present[i] for i in index}
        protected = [
            p for i, p in enumerate(present) if p < detail.prefix or i >= count - detail.latest
        ]
        observers, queries = detail.observers, detail.queries
        winner = detail.winner[row].tolist() if detail.winner is not None and observers else None
        each = max(1, len(observers))
        first = self.heads[0]
        if queries is None:  # this method keeps no queries: the latest stand for what it saw
            own = self.queries[first, max(0, event.seen - 2 * OBSERVED) : event.seen]
        else:
            own = queries[first]
        history = self.queries[first, : event.seen]
        ahead = self.queries[first, event.seen : end]
        return {
            "seen": event.seen,
            "present": present,
            "scores": _floats(detail.score[row]),
            "kept": sorted(held),
            "protected": [p for p in protected if p in held],
            "winner_query": [w % each for w in winner] if winner else [-1] * count,
            "winner_head": [first + w // each for w in winner] if winner else [-1] * count,
            "observers": [
                {"kind": o.kind, "position": o.position, "head": first} for o in observers
            ],
            "cosine": [_floats(line) for line in unit(own) @ unit(own).T],
            **_projected(own, history),
            "coverage": self._coverage(own, history, ahead, queries is not None),
            "coverage_positions": list(range(event.seen, end)),
        }

    def _coverage(self, own: Tensor, history: Tensor, ahead: Tensor, stored: bool) -> dict:
        """Selector → each following query's highest cosine to the set (BKV Fig. 6)."""
        if not len(ahead):
            return {}
        generator = torch.Generator().manual_seed(self.sample.index)
        recent, past = history[-OBSERVED:], history[:-OBSERVED]
        sets = {f"{OBSERVED} recent": recent, f"{2 * OBSERVED} recent": history[-2 * OBSERVED :]}
        if len(past):
            drawn = torch.randperm(len(past), generator=generator)[:OBSERVED]
            centres, near = kmeans(past, min(OBSERVED, len(past)))
            chosen = {
                "random": past[drawn],
                "farthest": pick(past, fps(past, OBSERVED)),
                "continual": _continual(past, OBSERVED),
                "centroids": centres,
                "nearest": pick(past, near),
                "initial": past[:OBSERVED],
            }
            sets |= {f"{OBSERVED} recent + {n}": torch.cat([recent, x]) for n, x in chosen.items()}
        if stored:
            sets["this method's own"] = own
        return {name: _floats((unit(ahead) @ unit(s).T).amax(-1)) for name, s in sets.items()}

    # ---- what it cost

    def _regret(self) -> list[list[float]]:
        """Attention that the full cache's queries pay to what this run holds no more."""
        keys = self.full.cache.layers[self.layer].keys[:, self.kv_head : self.kv_head + 1].cpu()
        queries = self.full_queries[self.heads.start : self.heads.stop, self.start :][None]
        places = torch.tensor(self.places)
        gone = torch.zeros(len(places), keys.shape[2], dtype=torch.bool)
        row = self.kv_head * self.decoder.repeat
        for event in self.decoder.events:
            present = event.detail.positions[row]
            lost = torch.ones(len(present), dtype=torch.bool)
            lost[event.detail.index[row]] = False
            gone[
                (places >= event.seen)[:, None]
                & torch.isin(torch.arange(keys.shape[2]), present[lost])
            ] = True
        paid = []
        for part in _blocks(len(places)):
            visible = causal(places[part], torch.arange(keys.shape[2])[None, None])
            weights = attention(queries[:, :, part], keys, self.full.scale, visible)[0, 0].mean(0)
            paid.append((weights * gone[part]).sum(-1))
        return _rows(self.places, torch.cat(paid))

    def _restored(self) -> list[dict]:
        """Each question's gold log-probability: as it is, with its span put back, and full."""
        if self.decoder.slots:
            return []  # every other entry's position would change with the span's
        spans = {name: (start, stop) for name, start, stop in self.sample.marks}
        found = []
        for number, question in enumerate(self.sample.questions):
            ids = torch.tensor([question.tokens + question.answer[:-1]])
            before = self.decoder.fork()
            before.memory = before.state = None  # no event while it is asked: only the span differs
            told = {"mark": question.mark, "question": number}
            told["before"] = self._asked(before, ids, question)
            if question.mark in spans:
                again, absent = with_span(self.decoder, *spans[question.mark])
                with hiding(absent):
                    told["after"] = self._asked(again, ids, question)
            else:
                told["after"] = told["before"]
            told["full"] = self._asked(self.full.fork(), ids, question)
            found.append(told)
        return found

    def _asked(self, decoder: Decoder, ids: Tensor, question: Any) -> float:
        states = decoder.read(ids)[:, len(question.tokens) - 1 :]
        self.asked += ids.shape[1]
        return round(float(self._logprobs(states, torch.tensor(question.answer)).sum()), 5)

    def _distances(self, top: int, far: int) -> list[list[float]]:
        """Per layer and head the share of the continuation's queries whose `top` keys lie more
        than `far` tokens back on average: global ones (BKV appendix B)."""
        shown, cache = _Queries(self.full.layers), self.full.cache
        ids = self.ids.to(self.loaded.model.device)
        self._tell()
        with shown.recording(True):
            self.loaded.model.base_model(ids, use_cache=False)
        places = torch.tensor(self.places, device=ids.device)
        found = []
        for layer in self.full.layers:
            keys = cache.layers[layer].keys[:, :, : self.ids.shape[1]]
            queries = shown.found[layer][:, :, self.start :]
            positions = torch.arange(keys.shape[2], device=ids.device)[None, None]
            means = []
            for part in _blocks(len(places)):
                visible = causal(places[part], positions)
                weights = attention(queries[:, :, part], keys, self.full.scale, visible)[0]
                best = weights.flatten(0, 1).topk(min(top, weights.shape[-1]), -1)
                back = (places[part, None] - best.indices).clamp(min=0).double()
                seen = best.values > 0
                means.append((back * seen).sum(-1) / seen.sum(-1).clamp(min=1))
            share = (torch.cat(means, -1) > far).double().mean(-1)
            found += [[layer, head, round(float(s), 5)] for head, s in enumerate(share)]
        return found


def _blocks(count: int) -> list[slice]:
    """Queries some at a time: no table of all queries × all keys per head."""
    return [slice(i, i + BLOCK) for i in range(0, count, BLOCK)]


def _continual(past: Tensor, count: int) -> Tensor:
    """What continual FPS holds of (N, D) when beacons freeze (BKV, algorithm 2), `count` of it."""
    held = past[:0]
    for query in past.split(count):
        held = torch.cat([held, query])
        if len(held) >= 2 * count:
            held = pick(held, fps(held, count))
    return pick(held, fps(held, count))


def _projected(own: Tensor, history: Tensor) -> dict:
    """The set and a sample of the history on the first two principal axes of both."""
    step = max(1, len(history) // POINTS)
    some = history[::step]
    both = torch.cat([own, some]).double()
    middle = both - both.mean(0)
    _, _, axes = torch.linalg.svd(middle, full_matrices=False)
    axes = axes[:2] * axes[:2].gather(1, axes[:2].abs().argmax(1, keepdim=True)).sign()
    flat = middle @ axes.T
    return {
        "pca": [_floats(p) for p in flat[: len(own)]],
        "pca_all": [_floats(p) for p in flat[len(own) :]],
    }


def _floats(x: Tensor) -> list[float]:
    return [round(v, 6) for v in x.double().tolist()]


def _rows(places: list[int], *columns: Tensor) -> list[list]:
    return [list(row) for row in zip(places, *map(_floats, columns), strict=True)]
