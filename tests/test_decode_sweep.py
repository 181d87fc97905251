"""What a decode run writes and what it says of its costs, on a tiny model."""

from types import SimpleNamespace

import decode_runs
import pytest
import tiny
import torch

from engine.eviction.spec import DecodeSpec
from engine.eviction.sweep import decode
from engine.eviction.timing import begin_peak, peak
from engine.eviction.writing import Writer
from engine.models.loader import load_model
from engine.registry import MEMORIES, SpecError


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    spec = decode_runs.make(model={"id": str(tiny.make_model(tmp_path_factory.mktemp("tiny")))})
    return load_model(spec.model)


def own(model, **settings):
    """A run over the user's own prompts, two of them."""
    prompts = [{"prompt": f"Read notes {i} and the code {i}{i}", "answer": f"{i}"} for i in (1, 2)]
    return DecodeSpec.from_dict(
        {"kind": "decode", "task": {"kind": "reasoning", "prompts": prompts}}
        | {"methods": [{"kind": "streaming", "sinks": 1, "every": 4}], "budgets": [12]}
        | {"model": {"id": "any"}, "samples": 2, "steps": 12, "fair": "own", "temperature": 2.0}
        | settings
    )


def ran(spec, model):
    samples = spec.task.samples(model.tokenizer, spec.samples, spec.seed)
    found = list(decode(spec, model, samples))
    tables = {n: [row for b in found for row in b.tables[n].to_pylist()] for n in found[0].tables}
    return samples, tables


def ending_with(model, token):
    """The same model, that takes `token` for the end of a text."""
    config = SimpleNamespace(eos_token_id=token)
    model.model.generation_config = config


@pytest.fixture
def written(model):
    """Each prompt's tokens where nothing ends a text, and the model put back afterwards."""
    before = model.model.generation_config
    ending_with(model, None)
    _, tables = ran(own(model), model)
    yield {
        s: [r["token_id"] for r in tables["decode_steps"] if (r["arm"], r["sample"]) == (0, s)]
        for s in (0, 1)
    }
    model.model.generation_config = before


@pytest.mark.parametrize("mode", ["forced", "free"])
def test_an_own_prompts_text_stops_at_the_end_token_or_at_the_cap(model, written, mode):
    first = next(t for t in written[0] if t != written[0][0])
    end = written[0].index(first)
    ending_with(model, first)
    samples, tables = ran(own(model, mode=mode), model)
    texts = {(r["arm"], r["sample"]): r for r in tables["decode_texts"]}
    steps = {
        key: [r["token_id"] for r in tables["decode_steps"] if (r["arm"], r["sample"]) == key]
        for key in ((a, s) for a in (0, 1) for s in (0, 1))
    }
    assert steps[0, 0] == written[0][:end]
    assert texts[0, 0]["ended"] == "stop"
    assert texts[0, 0]["text"] == model.tokenizer.decode(written[0][:end])
    for key, tokens in steps.items():
        assert first not in tokens[1:]
        if texts.get(key, {}).get("ended") == "cap":
            assert len(tokens) == 12
    assert set(texts) == ({(0, 0), (0, 1)} if mode == "forced" else set(steps))
    if mode == "forced":
        assert steps[1, 0] == steps[0, 0]
    assert len(tables["decode_answers"]) == 2 * sum(len(s.questions) for s in samples)


def test_the_first_token_is_never_the_end(model):
    ending_with(model, 7)
    logits = torch.zeros(1, 20)
    logits[0, 7], logits[0, 3] = 9.0, 5.0
    stopping = Writer(model, 0.0, 1.0, (0,), stops=True)
    assert stopping.next(logits, first=True).item() == 3
    assert stopping.next(logits).item() == 7
    assert stopping.cut([3, 7, 4]).tokens == (3,)
    going_on = Writer(model, 0.0, 1.0, (0,), stops=False)
    assert going_on.next(logits).item() == 3


def test_costs_tell_the_prompt_from_what_is_decoded(model):
    """The prompt's event and queries are its own; FPS, state and peaks are counted."""
    beacon = {"kind": "beacon", "n_beacon": 4, "n_recent": 3, "prefix": 2, "protect": 4}
    spec = own(model, methods=[beacon], budgets=[16], steps=24)
    _, tables = ran(spec, model)
    full, costs = tables["decode_costs"]
    assert (full["fps_ms"], full["state_bytes"], full["state_peak"]) == (0, 0, 0)
    behind = [
        r for r in tables["decode_steps"] if (r["arm"], r["sample"], r["event"]) == (1, 0, True)
    ]
    assert len(costs["event_ms"]) == len(behind) > 0
    assert costs["events"] == len(behind) + 1  # and the prompt's
    assert len(costs["step_ms"]) == 24
    assert costs["decode_seconds"] * 1e3 == pytest.approx(
        sum(costs["step_ms"]) + costs["observe_ms"] + sum(costs["event_ms"])
    )
    assert 0 < costs["fps_ms"] < costs["observe_ms"] + sum(costs["event_ms"])
    assert 0 < costs["state_bytes"] <= costs["state_peak"]
    assert costs["prefill_seconds"] > 0


def test_the_peak_of_memory_is_counted_anew():
    if not begin_peak(torch.device("cpu")):
        pytest.skip("this machine does not count a process's peak anew")
    low = peak(torch.device("cpu"))
    held = torch.ones(40 << 20)  # 160 MB
    high = peak(torch.device("cpu"))
    assert high - low > 100e6
    del held
    begin_peak(torch.device("cpu"))
    assert peak(torch.device("cpu")) < high - 100e6


def test_a_method_that_keeps_its_prompt_must_read_it_whole():
    with pytest.raises(SpecError, match="whole works"):
        DecodeSpec.from_dict(
            {"kind": "decode", "methods": [{"kind": "rpc", "preset": "paper"}]}
            | {"prefill": "streamed", "budgets": [200]}
        )
    made = MEMORIES.build({"kind": "rpc", "preset": "paper", "budget": 64})
    assert made.when == "after_context"
    with pytest.raises(SpecError, match="after_context works"):
        MEMORIES.build({"kind": "rpc", "preset": "paper", "budget": 64, "when": "streamed"})


@pytest.mark.parametrize("prefill", ["whole", "streamed"])
def test_entries_drop_at_the_prompt_alone_or_while_decoding_alone(model, prefill):
    streaming = {"kind": "streaming", "sinks": 1, "every": 4}
    seen = {}
    for evict in ("both", "prompt", "decode"):
        spec = own(model, methods=[streaming], budgets=[10], evict=evict, prefill=prefill)
        samples, tables = ran(spec, model)
        rows = [r for r in tables["decode_steps"] if (r["arm"], r["sample"]) == (1, 0)]
        seen[evict] = [r["kept"] for r in rows]
    prompt = len(samples[0].prompt)
    assert prompt > 14
    first = seen["both"][0]
    assert first in range(10, 15)
    assert seen["prompt"] == [first + i for i in range(12)]
    assert seen["decode"][:4] == [prompt + 1, prompt + 2, prompt + 3, 10]
    assert max(seen["decode"][3:]) <= 14


def test_a_method_that_drops_elsewhere_is_refused_where_it_cannot():
    for kind, evict, works in (
        ({"kind": "snapkv", "preset": "original"}, "decode", "prompt or both works"),
        ({"kind": "rpc", "preset": "paper"}, "prompt", "decode or both works"),
        ({"kind": "pooled"}, "prompt", "both works"),
    ):
        with pytest.raises(SpecError, match=works) as caught:
            DecodeSpec.from_dict({"kind": "decode", "methods": [kind], "evict": evict})
        assert caught.value.errors[0].field == "evict"


def test_a_window_of_queries_longer_than_the_prompt_is_refused_with_one_that_fits():
    made = MEMORIES.build({"kind": "snapkv", "preset": "kvpress", "budget": 96})
    found = made.check_prompt(40)[0]
    assert (found.field, "shortest prompt has 40 tokens; 39 works" in found.message) == (
        "obs_window",
        True,
    )
    assert made.check_prompt(65) == []
    assert MEMORIES.build({"kind": "snapkv", "budget": 96}).check_prompt(4) == []
