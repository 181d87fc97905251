"""The chunked memory as a cache against the scoring path, which keeps every token and masks."""

import decode_runs
import numpy as np
import pytest
import tiny
import torch
from decoders import pooled
from evicting import loaded, tokens

from engine.eviction.arms import arms, prompt_tokens
from engine.eviction.pooled_decode import PooledDecoder
from engine.eviction.pooled_schedule import resident_pooled
from engine.eviction.sweep import decode, kept_after
from engine.memory.attention import reading
from engine.memory.rotary import Rotary
from engine.models import catalog
from engine.models.loader import load_model
from engine.registry import SpecError

LENGTH, CONTEXT = 37, 20
GEOMETRIES = {
    "plain": dict(window=4, stride=4),
    "overlap": dict(window=6, stride=4, local=5, sinks=2, origin=-3),
    "deepseek": dict(window=8, stride=4, origin=-4, local=6, beside=True),
    "beside": dict(window=7, stride=3, beside=True, local=0, sinks=5),
    "one-hot": dict(window=5, stride=3, local=1, gate="onehot", offset=2),
    "hand": dict(window=5, stride=2, local=2, gate="hand", weights=[0, 1, 0, 2, 0], v_gate="mean"),
    "rotated": dict(window=4, stride=4, keys="rotated", count_bias=True, anchor="last"),
    "layer": dict(window=6, stride=6, layers="1", local=2),
    "strides": dict(window=6, stride=4, strides_by_layer={0: 2, 1: 3}, local=1, count_bias=True),
    "local": dict(window=4, stride=4, local=16, sinks=4),
    "identity": dict(window=1, stride=1),
    "after": dict(window=4, stride=4, when="after_context", local=3, sinks=1),
    "after-beside": dict(window=8, stride=4, when="after_context", beside=True, local=6),
}


def scored(model, memory, ids, origin=0):
    """States of the scoring path."""
    end = CONTEXT if memory.when == "after_context" else None
    full = model.facts.full_layers
    with (
        torch.inference_mode(),
        reading(memory, Rotary(model.model), full, torch.tensor([origin]), end),
    ):
        return model.model.base_model(ids, use_cache=False).last_hidden_state


def decoded(model, memory, ids, prompt, pieces, **more):
    decoder = PooledDecoder(model, memory, len(ids), **more)
    states = [decoder.prefill(ids[:, :prompt])] if prompt else []
    for start in range(prompt, ids.shape[1], pieces):
        states.append(decoder.read(ids[:, start : start + pieces]))
    return torch.cat(states, 1), decoder


@pytest.mark.parametrize(
    ("geometry", "name"),
    [
        *[(geometry, "llama") for geometry in GEOMETRIES],
        *[(geometry, "gemma3") for geometry in ("overlap", "layer", "after")],
        *[("deepseek", "gpt-neox"), ("overlap", "llama-yarn"), ("rotated", "llama-mqa")],
    ],
)
def test_the_cache_reads_what_the_scoring_path_reads(geometry, name):
    """Whole prompt and streamed, in pieces and token by token (SCIENCE §1, rule 3)."""
    model, ids = loaded(name), tokens(length=LENGTH)
    memory = pooled(**GEOMETRIES[geometry])
    expected = scored(model, memory, ids)
    ways = [(CONTEXT, 1), (CONTEXT, 9)]
    if memory.when == "streamed":
        ways = [(CONTEXT, 5), (0, 1), (0, LENGTH)]
    for prompt, pieces in ways:
        states, decoder = decoded(model, memory, ids, prompt, pieces)
        torch.testing.assert_close(states, expected, atol=1e-9, rtol=0)
    if geometry != "identity":
        plain = model.model.base_model(ids, use_cache=False).last_hidden_state
        assert (expected - plain).abs().max() > 1e-3
        assert decoder.bytes < LENGTH * _token_bytes(model)


def _token_bytes(model):
    facts = model.facts
    return 2 * 8 * facts.head_dim * facts.kv_heads * len(facts.full_layers)


@pytest.mark.parametrize("lead", [1, 3])
def test_a_grid_that_starts_earlier_is_the_scoring_paths(lead):
    model, ids = loaded(), tokens(length=LENGTH)
    memory = pooled(window=6, stride=4, local=2)
    states, _ = decoded(model, memory, ids, 0, 1, lead=lead)
    torch.testing.assert_close(states, scored(model, memory, ids, -lead), atol=1e-9, rtol=0)


@pytest.mark.parametrize("geometry", ["plain", "overlap", "deepseek", "hand"])
def test_only_what_is_still_needed_is_held(geometry):
    """Entries, sinks, the local window, and tokens of windows that are not pooled yet."""
    model, ids = loaded(), tokens(rows=1, length=LENGTH)
    memory = pooled(**GEOMETRIES[geometry])
    _, decoder = decoded(model, memory, ids, 0, 1)
    plan = memory.plan(0, LENGTH + 60, torch.tensor([0]))
    query = torch.tensor([LENGTH])
    known = torch.arange(LENGTH)
    there = plan.last[0] < LENGTH
    entries = int((plan.visible_entries(query, None)[0, 0] & there).sum())
    exact = plan.exact_tokens(query, None, known)[0, 0]
    later = torch.zeros(LENGTH, dtype=torch.bool)
    weighty = (plan.k_weight[0] > 0) | (plan.v_weight[0] > 0)
    for j in range(entries + int((plan.last[0] > 1 << 40).sum()), plan.entries):
        members = plan.index[0, j][weighty[j]]
        later[members[members < LENGTH]] = True
    for layer in decoder.kept_layers:
        assert layer.entries == entries
        assert layer.places.tolist() == known[exact | later].tolist()
        assert layer.keys.untyped_storage().nbytes() == layer.keys.numel() * 8
    assert decoder.clock.kept == entries + int((exact | later).sum())


def test_a_fork_and_another_run_disturb_nothing():
    model, ids = loaded(), tokens(length=LENGTH)
    memory = pooled(**GEOMETRIES["overlap"])
    _, decoder = decoded(model, memory, ids[:, :30], CONTEXT, 1)
    fork = decoder.fork()
    fork.read(ids[:, :20])
    decoded(model, memory, tokens(length=30, seed=8), 0, 7)
    rest = decoder.read(ids[:, 30:])
    torch.testing.assert_close(rest, scored(model, memory, ids)[:, 30:], atol=1e-9, rtol=0)


def test_retention_counts_tokens_held_as_themselves_and_bytes_fall():
    model, ids = loaded(), tokens(rows=1, length=LENGTH)
    marks = ((("pooled", 4, 12), ("sinks", 0, 2), ("latest", 36, 37)),)
    memory = pooled(window=4, stride=4, local=4, sinks=2)
    _, decoder = decoded(model, memory, ids, CONTEXT, 1, marks=marks)
    assert decoder.retained() == [{"pooled": 0.0, "sinks": 1.0, "latest": 1.0}]
    assert decoder.events
    assert all(event.after < event.before for event in decoder.events)
    assert decoder.bytes == decoder.clock.kept * _token_bytes(model)
    assert decoder.state is None


@pytest.mark.slow
def test_a_real_model_in_float32():
    """SmolLM2: states as close as rounding allows."""
    if not catalog.installed("smollm2-135m"):
        pytest.skip("smollm2-135m is not installed: run `phasescope pull smollm2-135m`")
    from engine.models.loader import load_model
    from engine.specs import ModelSpec

    model = load_model(ModelSpec())
    ids = torch.randint(1000, 9000, (1, 70), generator=torch.Generator().manual_seed(0))
    memory = pooled(window=8, stride=4, local=4, sinks=4)
    expected = scored(model, memory, ids)
    states, decoder = decoded(model, memory, ids, 50, 1)
    assert (states - expected).norm() < 1e-3 * expected.norm()
    assert len(decoder.events) == 6


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("prefill", ["whole", "streamed"])
def test_what_is_held_is_known_before_a_run(geometry, prefill):
    """The counts of the schedule are the decoder's own, after every token."""
    model, ids = loaded(), tokens(rows=1, length=LENGTH)
    memory = pooled(**GEOMETRIES[geometry])
    if prefill == "streamed" and memory.when == "after_context":
        return  # refused by the spec
    decoder = PooledDecoder(model, memory, 1)
    prompt, rest = ids[:, :CONTEXT], ids[:, CONTEXT:]
    _ = decoder.prefill(prompt) if prefill == "whole" else decoder.read(prompt)
    decoder.read(rest)
    kept = [count for count, _ in kept_after(decoder, CONTEXT, LENGTH - CONTEXT)]
    told = resident_pooled(memory, model.facts.full_layers, CONTEXT, LENGTH - CONTEXT, prefill)
    assert told.last == decoder.clock.kept == kept[-1]
    assert told.mean == pytest.approx(sum(kept) / len(kept), abs=1e-9)
    assert told.peak == decoder.peak
    assert told.events == len(decoder.events)


def test_a_decode_run_scores_it_beside_methods_that_evict(tmp_path):
    """One arm, whatever the budgets; as many bytes as it holds; the scoring path's numbers."""
    spec = decode_runs.make(
        model={"id": str(tiny.make_model(tmp_path))},
        methods=[
            {"kind": "pooled", "window": 4, "stride": 4, "local": 16, "sinks": 4},
            {"kind": "streaming", "sinks": 2},
        ],
    )
    assert spec.arm_count == 1 + 1 + 2
    model = load_model(spec.model)
    samples = spec.task.samples(model.tokenizer, spec.samples, spec.seed)
    made = arms(spec, prompt_tokens(samples))
    assert [arm.memory.kind for arm in made] == ["full", "pooled", "streaming", "streaming"]
    own = [batch for batch in decode(spec, model, samples) if batch.arm == 1]
    rows = own[0].tables
    steps = rows["decode_steps"].to_pandas()
    mean = steps[steps["sample"] == 0]["kept"].mean()
    assert made[1].budget == round(mean)
    costs = rows["decode_costs"].to_pandas().iloc[0]
    assert costs["mean_bytes"] < costs["peak_bytes"]
    sample = samples[0]
    full = next(b for b in decode(spec, model, samples) if b.arm == 0)
    told = full.tables["decode_steps"].to_pandas()
    written = told[told["sample"] == 0]["token_id"].tolist()
    ids = torch.tensor([[*sample.prompt, *written]])
    states = scored(model, made[1].memory, ids)[0, len(sample.prompt) - 1 : -1]
    logits = model.model.get_output_embeddings()(states).double().log_softmax(-1)
    expected = logits.gather(1, torch.tensor(written)[:, None])[:, 0].detach().numpy()
    found = steps[steps["sample"] == 0]["logprob"].to_numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_after_the_context_needs_a_prompt_that_is_read_at_once():
    with pytest.raises(SpecError, match="whole works"):
        decode_runs.make(methods=[{"kind": "pooled", "when": "after_context"}], prefill="streamed")
