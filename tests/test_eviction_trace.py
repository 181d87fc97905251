"""The account of one sample against the model's own projections and whole tables of attention."""

from types import SimpleNamespace

import pytest
import torch
from evicting import loaded, memory, tokens

from engine.eviction import trace as module
from engine.eviction.arms import Arm
from engine.eviction.queries import fps
from engine.eviction.samples import DecodeSample, Question
from engine.eviction.trace import Tracer, _continual

PROMPT, LENGTH = 30, 70
IDS = tokens(rows=1, length=LENGTH)[0].tolist()
SAMPLE = DecodeSample(
    index=0,
    prompt=tuple(IDS[:PROMPT]),
    continuation=(),
    marks=(("early", 3, 9),),
    questions=(Question((5, 6, 7), (8, 9), "early"),),
)


def tracer(case, layer=0, prefill="whole"):
    spec = SimpleNamespace(seed=0, prefill=prefill, evict="both")
    arm = Arm(1, memory(case), 24, case)
    return Tracer(spec, loaded(), arm, SAMPLE, tuple(IDS[PROMPT:]), layer, 1)


@pytest.mark.parametrize("case", ["beacon", "snapkv", "streaming", "streaming-cache", "h2o-query"])
def test_queries_are_those_of_the_projection_wherever_they_were_rotated(case):
    """The first layer reads embeddings alone, so that nothing evicted changes its queries."""
    found = tracer(case).queries
    model = loaded().model.base_model
    layer = model.layers[0]
    with torch.inference_mode():
        hidden = layer.input_layernorm(model.embed_tokens(torch.tensor([IDS])))
        plain = layer.self_attn.q_proj(hidden).unflatten(-1, (-1, found.shape[-1]))[0]
    torch.testing.assert_close(found, plain.transpose(0, 1), atol=1e-10, rtol=0)


def whole_table(found, layer, heads):
    """Weights (H, N, N) of the full cache's queries, in one piece."""
    keys = found.full.cache.layers[layer].keys[0]
    group = found.full_queries.shape[0] // keys.shape[0]
    keys = keys.repeat_interleave(group, 0)[list(heads)]
    scores = found.full_queries[list(heads)] @ keys.transpose(1, 2) * found.full.scale
    ahead = torch.ones(LENGTH, LENGTH).triu(1).bool()
    return scores.masked_fill(ahead, float("-inf")).softmax(-1)


@pytest.mark.parametrize("case", ["beacon", "streaming-cache"])
def test_regret_is_attention_to_what_is_gone(case, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 7)
    found = tracer(case, layer=1)
    weights = whole_table(found, 1, found.heads).mean(0)
    gone, told = set(), dict(found._regret())
    events = {event.seen: event for event in found.decoder.events}
    present = set()
    for place in range(LENGTH):
        if place in events:
            detail = events[place].detail
            row = detail.positions[1].tolist()
            gone |= set(row) - {row[i] for i in detail.index[1].tolist()}
        present.add(place)
        if place >= PROMPT:
            lost = sum(weights[place, p].item() for p in gone)
            assert told[place] == pytest.approx(lost, abs=2e-6)
    assert gone


def test_global_queries_are_counted_in_blocks_as_in_one_table(monkeypatch):
    found = tracer("beacon", layer=1)
    whole = found._distances(4, 6)
    monkeypatch.setattr(module, "BLOCK", 7)
    assert found._distances(4, 6) == whole
    told = {head: share for layer, head, share in whole if layer == 1}
    for head in told:
        weights, far = whole_table(found, 1, [head])[0], 0
        for place in range(PROMPT, LENGTH):
            best = weights[place].topk(4).indices
            far += (place - best).double().mean().item() > 6
        assert told[head] == pytest.approx(far / (LENGTH - PROMPT), abs=1e-5)


def test_coverage_compares_every_selector():
    found = tracer("beacon", layer=1)
    event = found._event(found.decoder.events[-2], LENGTH)
    names = [name.removeprefix("16 recent + ") for name in event["coverage"]]
    wanted = ["random", "farthest", "continual", "centroids", "nearest", "initial"]
    assert names == ["16 recent", "32 recent", *wanted, "this method's own"]
    ahead = found.queries[found.heads[0], event["seen"] : LENGTH]
    recent = found.queries[found.heads[0], event["seen"] - 16 : event["seen"]]
    cosines = torch.nn.functional.cosine_similarity(ahead[:, None], recent[None], dim=-1)
    assert event["coverage"]["16 recent"] == pytest.approx(cosines.amax(1).tolist(), abs=1e-5)


@pytest.mark.parametrize("length", [3, 16, 31, 32, 75])
def test_continual_sampling_one_by_one(length):
    past = torch.randn(length, 8, generator=torch.Generator().manual_seed(length))
    held = []
    for query in past:
        held.append(query)
        if len(held) == 32:
            held = [held[i] for i in fps(torch.stack(held), 16)]
    chosen = torch.stack(held)
    chosen = chosen[fps(chosen, 16)]
    assert torch.equal(_continual(past, 16), chosen)


def test_a_span_is_put_back_but_where_all_positions_would_move():
    assert [told["mark"] for told in tracer("beacon")._restored()] == ["early"]
    found = tracer("streaming-cache")
    assert found.decoder.slots
    assert found._restored() == []
