"""What every evicting method and its cache must do, on tiny models; one list, from the registry."""

import pytest
import torch
from evicting import CASES, EVICTING, held, in_full, loaded, memory, run, tokens

from engine.eviction.base import options_told
from engine.eviction.decode import Decoder
from engine.eviction.schedule import least, resident
from engine.memory.rotary import Rotary, unrotate
from engine.registry import MEMORIES, SpecError, to_options

EXACT = dict(atol=1e-10, rtol=0)
FULL = MEMORIES.build({"kind": "full"})
every_method = pytest.mark.parametrize("case", CASES)


def same(one, other):
    """Two runs kept the same entries and read the same."""
    torch.testing.assert_close(one[0], other[0], **EXACT)
    assert torch.equal(held(one[1]), held(other[1]))


# ---- equalities


@every_method
@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3"])
def test_a_budget_above_the_length_is_the_full_cache_bit_for_bit(case, name):
    """Budget ≥ length evicts nothing, whole prompt or streamed."""
    ids, model = tokens(length=40), loaded(name)
    for prompt in (0, 25):
        full, _ = in_full(40, prompt, name)
        states, decoder = run(memory(case, budget=100), ids, prompt, model=model)
        assert torch.equal(states, full)
        assert not decoder.events
        assert decoder.clock.kept == 40


@every_method
@pytest.mark.parametrize("prompt", [0, 30])
def test_pieces_give_what_token_by_token_gives(case, prompt):
    """Events come at the same tokens, whatever is read at once."""
    ids, method = tokens(length=60), memory(case)
    single = run(method, ids, prompt, pieces=1)
    for pieces in (4, 1000):
        same(run(method, ids, prompt, pieces), single)
    if prompt or not method.once:
        assert single[1].events


@every_method
def test_runs_leave_nothing_behind(case):
    """A, B, A: the same rows again, bit for bit."""
    a, b, method = tokens(seed=1, length=50), tokens(seed=2, length=50), memory(case)
    first, _ = run(method, a, 40)
    run(method, b, 40)
    assert torch.equal(run(method, a, 40)[0], first)


@every_method
def test_a_row_in_a_batch_is_the_row_alone(case):
    """Rows never see each other; what is random follows the row's own stream."""
    ids, method = tokens(rows=3, length=60), memory(case)
    together, decoder = run(method, ids, 40, streams=(11, 5, 7))
    for row, stream in enumerate((11, 5, 7)):
        alone, own = run(method, ids[row : row + 1], 40, streams=(stream,))
        torch.testing.assert_close(alone[0], together[row], **EXACT)
        assert torch.equal(held(own)[:, 0], held(decoder)[:, row])


@every_method
def test_a_fork_disturbs_nothing_and_goes_on_the_same(case):
    ids, method = tokens(length=65), memory(case)
    _, decoder = run(method, ids[:, :50], 40)
    before = held(decoder)
    fork = decoder.fork()
    fork.read(ids[:, :12])
    assert torch.equal(held(decoder), before)
    other = decoder.fork().read(ids[:, 50:])
    assert torch.equal(decoder.read(ids[:, 50:]), other)
    assert torch.equal(other, run(method, ids, 40)[0][:, 50:])


@pytest.mark.parametrize("case", ["beacon", "h2o-query", "streaming-cache", "random"])
def test_the_order_of_kept_entries_means_nothing(case):
    """Keys, values and positions shuffled together: the next token reads the same."""
    ids = tokens(length=71)
    _, decoder = run(memory(case), ids[:, :70], 40)
    shuffled = decoder.fork()
    for layer in shuffled.kept_layers:
        order = torch.rand(layer.positions.shape).argsort(-1)
        layer.keep(order)
    torch.testing.assert_close(shuffled.read(ids[:, 70:]), decoder.read(ids[:, 70:]), **EXACT)


# ---- the cache


@pytest.mark.parametrize("case", ["beacon-short", "streaming", "streaming-cache", "h2o", "random"])
def test_surviving_keys_are_rotated_once_to_where_they_stand(case):
    """After 300 steps and many events un-rotated keys are the projection's output, in both
    position modes; a cache that takes its length for a position fails here.
    """
    model, ids = loaded(), tokens(rows=1, length=330)
    plain = {i: [] for i in model.facts.full_layers}
    hooks = [
        layer.self_attn.k_proj.register_forward_hook(lambda m, a, out, i=i: plain[i].append(out))
        for i, layer in enumerate(model.model.model.layers)
    ]
    method = memory(case)
    _, decoder = run(method, ids, 30)
    for hook in hooks:
        hook.remove()
    assert len(decoder.events) >= 60
    rotary, facts = Rotary(model.model), model.facts
    for number, layer in enumerate(decoder.kept_layers):
        own = torch.cat(plain[number], 1).unflatten(-1, (facts.kv_heads, facts.head_dim))
        for head in range(facts.kv_heads):
            kept = layer.positions[0, head]
            at = torch.arange(len(kept)) if decoder.slots else kept
            tables = rotary.tables(at[None], 330, layer.keys)
            found = unrotate(layer.keys[:, head : head + 1], tables)[0, 0]
            torch.testing.assert_close(found, own[0, kept, head], **EXACT)


@every_method
def test_bytes_really_fall(case):
    """What is counted is what is held: no view keeps the dropped entries alive."""
    ids, method = tokens(rows=1, length=70), memory(case)
    _, full = in_full(70, 40)
    _, decoder = run(method, ids, 40)
    size = decoder.clock.kept
    for layer in decoder.kept_layers:
        for x in (layer.keys, layer.values):
            assert x.shape[2] == size
            assert x.untyped_storage().nbytes() == x.numel() * x.element_size()
    times = decoder.repeat
    assert decoder.bytes * 70 == full.bytes * size * times
    assert size < 70
    assert full.bytes == 70 * 2 * 2 * 2 * 8 * 8  # layers, K and V, heads, head size, float64


def test_layers_with_a_sliding_window_stay_as_they_are():
    ids, model = tokens(rows=1, length=60), loaded("gemma3")
    method = memory("beacon")
    _, full = run(FULL, ids, 30, model=model)
    _, decoder = run(method, ids, 30, model=model)
    assert decoder.layers == (1, 2)
    assert decoder.events
    mine, theirs = decoder.cache.layers[0], full.cache.layers[0]
    assert type(mine) is type(theirs)
    assert mine.is_sliding
    assert torch.equal(mine.keys, theirs.keys)


# ---- counts and budgets


@every_method
@pytest.mark.parametrize(
    ("prefill", "prompt", "evict"),
    [
        *(("whole", 5, "both"), ("whole", 45, "both"), ("streamed", 45, "both")),
        *(("whole", 45, "prompt"), ("streamed", 45, "prompt")),
        *(("whole", 45, "decode"), ("streamed", 45, "decode")),
    ],
)
def test_the_schedule_is_that_of_a_run(case, prefill, prompt, evict):
    """Mean, peak and number of events are known before anything is run."""
    method, steps = memory(case), 20 + 25 * (prompt < 9)
    ids = tokens(rows=1, length=prompt + steps)
    decoder, counts = Decoder(loaded(), method, 1, evict=evict), []
    decoder.prefill(ids[:, :prompt]) if prefill == "whole" else decoder.read(ids[:, :prompt])
    decoder.begin()
    if evict == "decode":
        assert decoder.clock.kept == prompt
    for at in range(prompt, prompt + steps):
        decoder.read(ids[:, at : at + 1])
        counts.append(decoder.clock.kept)
        assert {layer.kept for layer in decoder.kept_layers} == {decoder.clock.kept}
    if evict == "prompt":
        assert all(event.seen <= prompt for event in decoder.events)
    told = resident(method, prompt, steps, prefill, evict)
    assert told.mean == pytest.approx(sum(counts) / steps)
    assert (told.peak, told.events, told.last) == (
        decoder.peak,
        decoder.clock.events,
        decoder.clock.kept,
    )


@every_method
def test_a_budget_that_cannot_hold_what_is_protected_is_refused_with_the_least_that_works(case):
    """One public code then ties all scores and evicts the newest tokens without a word."""
    method = memory(case)
    smallest = least(method)
    given = {**to_options(method), "budget": smallest - 1}
    if smallest > 1:
        with pytest.raises(SpecError, match=rf"\b{smallest} is the least") as caught:
            MEMORIES.build(given)
        assert caught.value.errors[0].field == "memory.budget"
    works = MEMORIES.build({**given, "budget": smallest})
    ids = tokens(rows=1, length=60)
    _, decoder = run(works, ids, 40)
    prefix, latest = works.protected(decoder.clock)
    kept, last = held(decoder), decoder.events[-1].seen
    for event in decoder.events:
        assert event.after == event.before or event.after < event.before
    present = set(kept[0, 0, 0].tolist())
    assert set(range(min(prefix, 60))) <= present
    assert set(range(last - latest, last)) <= present


@every_method
def test_the_longest_an_event_comes_early_is_its_period(case):
    """`lead` moves the first event, and only that: the grid's origin."""
    method = memory(case)
    if not method.period or case == "rpc-paper":
        return
    ids = tokens(rows=1, length=90)
    plain = [e.seen for e in run(method, ids)[1].events]
    for lead in {1, method.period - 1} - {0}:
        if lead < method.period:
            moved = [e.seen for e in run(method, ids, lead=lead)[1].events]
            assert moved[: len(plain)] == [seen - lead for seen in plain]


# ---- what a method says and stores


@every_method
def test_options_are_whole_and_come_back(case):
    method = memory(case)
    assert MEMORIES.build(to_options(method)) == method
    assert f" {method.budget}" in method.phrase()
    assert method.check_model(2, (0, 1)) == []
    assert "sliding" in method.check_model(2, ())[0].message


@pytest.mark.parametrize("kind", EVICTING)
def test_a_method_with_usual_options_tells_none(kind):
    assert options_told(MEMORIES.build({"kind": kind})) == ""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *[("SnapKVPress", "snapkv"), ("snapkv", "snapkv"), ("r1_kv", "rkv"), ("R-KV", "rkv")],
        *[("streamingllm", "streaming"), ("TOVAPress", "tova"), ("random_press", "random")],
        *[("KeyDiffPress", "keydiff"), ("h2o", "h2o"), ("RPC", "rpc"), ("knorm", "knorm")],
    ],
)
def test_other_tools_names_are_known(name, kind):
    assert MEMORIES.find(name).kind == kind


@every_method
def test_what_a_method_stores_is_counted_and_is_one_rows(case):
    """Of a batch, state is told per row; scores of H2O follow the entries."""
    ids, method = tokens(rows=3, length=60), memory(case)
    _, decoder = run(method, ids, 40)
    _, alone = run(method, ids[:1], 40)
    assert decoder.state.bytes == alone.state.bytes
    if case == "h2o":
        assert decoder.state.bytes == 2 * 2 * decoder.clock.kept * 8
    stores = not (method.once or case.split("-")[0] in ("streaming", "random", "keydiff", "knorm"))
    assert (decoder.state.bytes > 0) == stores
