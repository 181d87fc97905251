"""Every evicting method against loops written from the definitions: who votes, who stays, when."""

import numpy as np
import pytest
import torch
from eviction_by_loops import clusters, farthest, replay, turned
from evictors_by_loops import METHODS
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from stub import stub

from engine.eviction import rkv
from engine.eviction.base import keep
from engine.eviction.decode import Decoder
from engine.eviction.queries import fps, kmeans
from engine.eviction.schedule import least
from engine.registry import MEMORIES

LENGTH = 50
SAME = dict(derandomize=True, database=None)


class Spy:
    """A state that writes down what it is asked and told."""

    def __init__(self, state):
        self.state, self.scores, self.places, self.kept = state, [], [], []

    def __getattr__(self, name):
        return getattr(self.state, name)

    def votes(self, layer, keys, positions, clock):
        found = self.state.votes(layer, keys, positions, clock)
        self.scores.append((layer, clock.seen, found))
        self.places.append(positions)
        return found

    def dropped(self, kept, clock):
        self.kept.append((clock.seen, kept))
        self.state.dropped(kept, clock)


def run(loaded, memory, prompt, pieces):
    """(seen, layer) → (positions before, votes, indices kept) of a real decoder's events."""
    rows = loaded.model.q.shape[1]
    decoder = Decoder(loaded, memory, rows)
    spy = decoder.state = Spy(decoder.state)
    ids = torch.arange(LENGTH).expand(rows, -1)
    if prompt:
        decoder.prefill(ids[:, :prompt])
    for start in range(prompt, LENGTH, pieces):
        decoder.read(ids[:, start : start + pieces])
    stands(loaded, decoder)
    kept = {(seen, layer): index for seen, all in spy.kept for layer, index in enumerate(all)}
    return {
        (seen, layer): (places, votes, kept[seen, layer])
        for (layer, seen, votes), places in zip(spy.scores, spy.places, strict=True)
    }


def stands(loaded, decoder):
    """Every key that is held at the end is its own token's, at its place in the text or the cache.

    Of the last layer and row.
    """
    layer, k = decoder.kept_layers[-1], loaded.model.k[-1, -1]
    for head, positions in enumerate(layer.positions[-1].tolist()):
        own = k[head // decoder.repeat].numpy()
        places = range(len(positions)) if decoder.slots else positions
        expected = [turned(own[p], at) for p, at in zip(positions, places, strict=True)]
        np.testing.assert_allclose(layer.keys[-1, head].numpy(), expected, atol=1e-9)


def compare(kind, options, shape, seed, prompt, pieces):
    memory = MEMORIES.build({"kind": kind, **options, "budget": 4096})
    budget = max(options.get("budget", 0), least(memory))
    memory = MEMORIES.build({"kind": kind, **options, "budget": budget})
    heads, kv_heads = shape
    loaded = stub(2, 2, heads, kv_heads, length=LENGTH, seed=seed)
    found = run(loaded, memory, prompt, pieces)
    told = {name: getattr(memory, name) for name in memory.__dataclass_fields__}
    told |= {"layer": seed % 4 // 2, "layers": 2, "row": seed % 2}
    q, k = loaded.model.q.numpy(), loaded.model.k.numpy()
    if memory.per_query_head:
        k = k.repeat(heads // kv_heads, 2)
    layer, row = divmod(seed % 4, 2)  # one of the four is enough
    expected = replay(METHODS[kind](q[layer, row], k[layer, row], told, prompt), LENGTH)
    assert [e["seen"] for e in expected] == [s for s, i in found if i == layer]
    for event in expected:
        places, votes, index = found[event["seen"], layer]
        for head, (score, kept) in enumerate(zip(event["scores"], event["kept"], strict=True)):
            before = places[row, head].tolist()
            got = dict(zip(before, votes.score[row, head].tolist(), strict=True))
            assert {p: got[p] for p in score} == pytest.approx(score, abs=1e-9), event
            assert [before[i] for i in index[row, head].tolist()] == kept, event
    return found


SHAPES = st.sampled_from([(4, 2), (9, 3), (4, 1), (3, 3), (2, 2)])
BUDGETS = st.integers(1, 40)
EVERY = st.integers(1, 12)
KERNELS = st.sampled_from([1, 3, 5, 7])
WINDOWS = st.integers(1, 12)
OPTIONS = {
    "beacon": st.fixed_dictionaries(
        {
            "budget": st.integers(12, 40),
            "n_beacon": st.sampled_from([0, 2, 3, 4, 7]),  # 1 of 2 points is always a tie
            "n_recent": st.integers(0, 14),
            "selector": st.sampled_from(
                [*["continual"] * 2, "naive", "centroids", "nearest", "random", "initial", "recent"]
            ),
            "over_queries": st.sampled_from(["max", "mean"]),
            "over_heads": st.sampled_from(["max", "mean"]),
            "event": st.sampled_from([0, 0, 3, 5, 9]),
            "prefix": st.integers(0, 4),
            "protect": st.integers(0, 9),
        }
    ).filter(lambda o: o["n_beacon"] + o["n_recent"]),
    "snapkv": st.fixed_dictionaries(
        {
            "budget": BUDGETS,
            "every": st.integers(0, 12),
            "obs_window": WINDOWS,
            "over_queries": st.sampled_from(["sum", "mean", "max"]),
            "softmax": st.sampled_from(["all", "candidates"]),
            "pool": st.sampled_from(["avg", "max"]),
            "kernel": KERNELS,
            "heads": st.sampled_from(["max_logits", "mean", "max", "per_query_head"]),
            "edge_corrected": st.booleans(),
        }
    ),
    "rkv": st.fixed_dictionaries(
        {
            "budget": BUDGETS,
            "every": EVERY,
            "mix": st.sampled_from([0.07, 0.1, 0.25, 1.0, 0.0]),
            "threshold": st.sampled_from([0.5, 0.9, 0.99]),
            "kernel": KERNELS,
            "obs_window": WINDOWS,
            "quirk": st.booleans(),
            "literal": st.booleans(),
        }
    ),
    "rpc": st.fixed_dictionaries(
        {
            "budget": BUDGETS,
            "obs_window": WINDOWS,
            "over_queries": st.sampled_from(["mean", "max"]),
            "over_heads": st.sampled_from(["all", "mean", "max"]),
            "kernel": KERNELS,
            "grows": st.booleans(),
            "ratio": st.integers(2, 5),
            "prefix": st.integers(0, 4),
            "edge_corrected": st.booleans(),
        }
    ),
    "h2o": st.fixed_dictionaries(
        {
            "budget": BUDGETS,
            "every": EVERY,
            "recent": st.integers(0, 9),
            "over_heads": st.sampled_from(["sum", "max", "per_query_head"]),
        }
    ),
    "streaming": st.fixed_dictionaries(
        {
            "budget": BUDGETS,
            "every": EVERY,
            "sinks": st.integers(0, 5),
            "positions": st.sampled_from(["original", "cache"]),
        }
    ),
    "tova": st.fixed_dictionaries({"budget": BUDGETS, "every": EVERY}),
    "keydiff": st.fixed_dictionaries({"budget": st.integers(2, 40), "every": EVERY}),
    "knorm": st.fixed_dictionaries({"budget": BUDGETS, "every": EVERY}),
}
EXAMPLES = {"beacon": 40, "snapkv": 25, "rkv": 15, "rpc": 20, "h2o": 10}


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_method_keeps_what_its_definition_keeps(kind):
    """Scores and kept positions of every event, in any shape, whole prompts and streamed ones."""

    @settings(max_examples=EXAMPLES.get(kind, 8), phases=[Phase.generate], **SAME)
    @given(OPTIONS[kind], SHAPES, st.integers(0, 99), st.sampled_from([0, 0, 9, 33]),
           st.sampled_from([1, 7, 60]))  # fmt: skip
    def agree(options, shape, seed, prompt, pieces):
        if kind == "snapkv" and not options["every"]:
            prompt = 33  # compresses once, behind a prompt
        compare(kind, options, shape, seed, prompt, pieces)

    agree()


@pytest.mark.parametrize(
    "selector", ["continual", "naive", "centroids", "nearest", "random", "initial"]
)
@pytest.mark.parametrize("pieces", [1, 9])
def test_a_cycle_that_begins_before_any_query_has_only_recent_ones(selector, pieces):
    """A window of recent queries longer than the budget: the first k-means had no points."""
    options = dict(n_beacon=3, n_recent=14, selector=selector, prefix=0, protect=3, budget=12)
    assert compare("beacon", options, (4, 2), 3, 0, pieces)


@pytest.mark.parametrize(
    ("kind", "preset", "words"),
    [
        ("snapkv", "original", dict(obs_window=32, pool="avg", kernel=5, heads="per_query_head")),
        ("snapkv", "kvpress", dict(obs_window=64, over_queries="mean", heads="mean")),
        ("snapkv", "decode", dict(obs_window=8, softmax="candidates", pool="max", kernel=7)),
        ("rpc", "paper", dict(obs_window=32, grows=True, ratio=4, over_heads="all")),
        ("rpc", "fixed_budget", dict(obs_window=32, grows=False, kernel=7)),
    ],
)
def test_a_preset_is_what_it_is_named_after(kind, preset, words):
    """Shortened to the stub's length; the other options are the preset's own."""
    memory = MEMORIES.build({"kind": kind, "preset": preset})
    assert {name: getattr(memory, name) for name in words} == words
    small = {"preset": preset, "budget": 8 if preset == "paper" else 20, "obs_window": 6}
    if kind == "snapkv":
        small["every"] = min(memory.every, 9)
    found = compare(kind, small, (9, 3), 5, 33, 9)
    assert found


def test_every_evicting_method_has_a_reference():
    known = {name for name, cls in MEMORIES.items() if getattr(cls, "evicts", False)}
    assert known == {*METHODS, "random"}


@given(st.integers(1, 12), st.integers(1, 14), st.integers(0, 99))
@settings(max_examples=30, **SAME)
def test_farthest_points_and_clusters_are_those_of_the_loops(count, total, seed):
    points = np.random.default_rng(seed).normal(size=(total, 4))
    many = torch.tensor(points)[None, None]
    assert fps(many, count)[0, 0].tolist() == farthest(points, count)
    centres, near = kmeans(many, min(count, total))
    slow, real = clusters(points, count)
    np.testing.assert_allclose(centres[0, 0].numpy(), np.array(slow), atol=1e-9)
    assert near[0, 0].tolist() == real


def test_equal_queries_and_equal_scores_go_to_the_lower_index():
    """Equal points tie at every step; after the first, those at cosine 1 are the last resort."""
    twice = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], dtype=torch.float64)
    assert fps(twice, 2).tolist() == [0, 2]
    assert fps(twice, 3).tolist() == [0, 1, 2] == farthest(twice.numpy(), 3)
    places = torch.arange(10)[None, None]
    assert keep(torch.zeros(1, 1, 10), places, 0, 0, 4)[0, 0].tolist() == [0, 1, 2, 3]
    assert keep(torch.zeros(1, 1, 10), places, 2, 3, 6)[0, 0].tolist() == [0, 1, 2, 7, 8, 9]
    score = torch.tensor([[[5.0, 1, 1, 1, 1, 1, 0, 0, 0, 9]]])
    assert keep(score, places, 0, 1, 4)[0, 0].tolist() == [0, 1, 2, 9]


@given(st.integers(1, 150), st.sampled_from([0.2, 0.5, 0.9]), st.booleans(),
       st.integers(0, 99))  # fmt: skip
@settings(max_examples=40, **SAME)
def test_mean_cosines_need_no_table_of_pairs(count, threshold, quirk, seed):
    """Longer than a block of the search, so that it goes on and stops early."""
    torch.manual_seed(seed)
    keys = torch.randn(2, 3, count, 4, dtype=torch.float64)
    keys[:, 0] = torch.randn(2, 1, 4)  # one head whose entries are all twins
    closed = rkv.mean_cosines(keys, threshold, quirk)
    torch.testing.assert_close(closed, rkv._by_table(keys, threshold, quirk), atol=1e-12, rtol=0)


def test_winners_name_the_head_and_the_query_of_the_largest_weight():
    """Of the two entries that are compared by hand: the vote's own maximum is the winner's."""
    for kind, options in {
        "snapkv": {"obs_window": 5, "heads": "max", "softmax": "all", "kernel": 1, "every": 9,
                   "over_queries": "max"},
        "rpc": {"obs_window": 5, "over_queries": "max", "over_heads": "max", "kernel": 1,
                "prefix": 0},
        "beacon": {"n_beacon": 3, "n_recent": 4, "prefix": 0, "protect": 5},
    }.items():  # fmt: skip
        memory = MEMORIES.build({"kind": kind, "budget": 40, **options})
        loaded = stub(1, 1, 4, 2, length=LENGTH, seed=3)
        decoder = Decoder(loaded, memory, 1, watch=(0, 0))
        decoder.read(torch.arange(LENGTH)[None])
        detail = decoder.events[0].detail
        count = len(detail.observers)
        assert detail.winner.max() < 2 * count
        queries, scores = detail.queries, detail.score
        assert queries.shape == (4, count, 4)
        seen = decoder.events[0].seen
        for kv in range(2):
            for j in range(len(detail.positions[kv]) - 5):
                head, who = divmod(int(detail.winner[kv, j]), count)
                place = detail.observers[who].position
                share = _share(
                    loaded, queries[2 * kv + head, who], place if place >= 0 else seen - 1, kv,
                    detail.positions[kv], place if kind == "snapkv" else seen, kind,
                )  # fmt: skip
                assert share[j] == pytest.approx(float(scores[kv, j]), abs=1e-9)


def _share(loaded, query, position, kv, positions, reach, kind):
    from eviction_by_loops import softmax, turned

    k = loaded.model.k[0, 0, kv].numpy()
    asked = turned(query.numpy(), position)
    last = len(positions) - (5 if kind == "rpc" else 0)
    own = [p for p in positions.tolist()[:last] if p <= reach]
    logits = {p: float(asked @ turned(k[p], p)) / 2 for p in own}
    share = softmax(logits)
    return [share.get(p, 0.0) for p in positions.tolist()]
