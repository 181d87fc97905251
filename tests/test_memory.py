"""The chunked memory against its definition: every rule of SCIENCE §1, two ways each."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from decoders import READ, REFUSED, make
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import DynamicCache

from engine.memory import MEMORIES, attention
from engine.memory.base import NEVER
from engine.memory.layers import chosen, ranges
from engine.memory.rotary import Rotary, rotate, unrotate
from engine.models.check import self_check
from engine.models.loader import full_layers
from engine.registry import SpecError

EXACT = dict(atol=1e-10, rtol=0)
attention.register()


def pooled(**options):
    return MEMORIES.build({"kind": "pooled", "local": 0, "sinks": 0, **options})


def ours(config, **options):
    model = make(config, **options)
    model.set_attn_implementation(attention.NAME)
    return model


def read(model, ids, memory, origin=(0,), context_end=None, cache=None):
    full = full_layers(model.config)
    with attention.reading(memory, Rotary(model), full, torch.tensor(origin), context_end):
        return model(ids, cache=cache, use_cache=cache is not None).logits


@pytest.fixture(scope="module")
def llama():
    return ours(READ["llama"])


@pytest.fixture(scope="module")
def ids():
    return torch.randint(0, 97, (3, 61), generator=torch.Generator().manual_seed(3))


# ---- the plan against the definition, by loops


@st.composite
def geometries(draw):
    window = draw(st.integers(1, 9))
    stride = draw(st.integers(1, window))
    gate = draw(st.sampled_from(["mean", "onehot", "hand"]))
    weights = draw(st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=window, max_size=window))
    weights[draw(st.integers(0, window - 1))] = 1.0
    return dict(
        window=window,
        stride=stride,
        gate=gate,
        offset=draw(st.integers(0, window - 1)) if gate == "onehot" else 0,
        weights=weights if gate == "hand" else [],
        v_gate=draw(st.sampled_from(["same", "mean"])),
        local=draw(st.integers(0, 12)),
        sinks=draw(st.integers(0, 6)),
        origin=draw(st.integers(1 - window, 5)),
        beside=draw(st.booleans()),
        anchor=draw(st.sampled_from(["weighted", "centre", "first", "last"])),
    )


def gate_of(o, name):
    kind = o["gate"] if name == "k" or o["v_gate"] == "same" else o["v_gate"]
    if kind == "mean":
        return [1.0] * o["window"]
    return [float(i == o["offset"]) for i in range(o["window"])] if kind == "onehot" else o["weights"]


def entries_by_definition(o, length, shift):
    """[(closing position, span, {position: k weight}, {position: v weight})] of windows that have an entry."""
    found, start = [], o["origin"] + shift % o["stride"]
    while start + o["window"] <= length:
        span = range(start, start + o["window"])
        weights = []
        for name in "kv":
            gate = gate_of(o, name)
            alive = {t: gate[t - start] for t in span if t >= 0 and t >= o["sinks"] and gate[t - start] > 0}
            total = sum(alive.values())
            weights.append({t: w / total for t, w in alive.items()} if total else {})
        if all(weights):
            found.append((start + o["window"] - 1, span, *weights))
        start += o["stride"]
    return found


def sees_by_definition(o, entries, q, context_end):
    """(visible entries, exact tokens) of a query at q."""
    here = q
    if context_end is not None:
        here = context_end - 1 if q >= context_end else -math.inf
    reach = here if o["beside"] else here - o["local"]
    visible = [j for j, e in enumerate(entries) if e[0] <= reach]
    covered = {t for j in visible for t in entries[j][1]}
    exact = []
    for t in range(q + 1):
        near = o["beside"] and t > here - o["local"]
        if t < o["sinks"] or t not in covered or near:
            exact.append(t)
    return visible, exact


@given(geometries(), st.integers(0, 11), st.sampled_from([None, 9, 17]))
@settings(max_examples=150, deadline=None)
def test_who_sees_what_follows_the_definition(o, shift, context_end):
    """Rules 1 and 2 for any geometry, and rule 9's after-context reading."""
    length = 24
    memory = pooled(**o)
    plan = memory.plan(0, length, torch.tensor([shift]))
    entries = entries_by_definition(o, length, shift)
    real = (plan.last[0] < NEVER).nonzero()[:, 0]
    assert plan.last[0, real].tolist() == [e[0] for e in entries]
    for j, (_, _, k, v) in zip(real.tolist(), entries, strict=True):
        for weight, expected in ((plan.k_weight, k), (plan.v_weight, v)):
            got = dict.fromkeys(plan.index[0, j].tolist(), 0.0)
            for t, w in zip(plan.index[0, j].tolist(), weight[0, j].tolist(), strict=True):
                got[t] += w
            assert {t: w for t, w in got.items() if w} == pytest.approx(expected)
    queries, tokens = torch.arange(length), torch.arange(length)
    seen = plan.visible_entries(queries, context_end)[0][:, real]
    exact = plan.exact_tokens(queries, context_end, tokens)[0]
    for q in range(length):
        visible, kept = sees_by_definition(o, entries, q, context_end)
        assert seen[q].nonzero()[:, 0].tolist() == visible
        assert exact[q].nonzero()[:, 0].tolist() == kept
        assert visible or kept, "a query must see something"


def complex_rotation(x, position, theta=10_000.0):
    """R(p) x by complex multiplication: another route than cos and sin tables.  x (D,)."""
    half = len(x) // 2
    z = x[:half] + 1j * x[half:]
    z = z * np.exp(1j * position * theta ** (-np.arange(half) / half))
    return np.concatenate([z.real, z.imag])


@given(geometries(), st.integers(0, 7), st.sampled_from(["unrotated", "rotated"]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_attention_equals_a_slow_loop(o, shift, keys, count_bias):
    """Pooling, rotation, masks and softmax against loops over numpy vectors (GQA 4/2, D = 8)."""
    rng = np.random.default_rng(o["window"] * 31 + shift)
    length, size = 19, 8
    q, k, v = (rng.normal(size=(h, length, size)) for h in (4, 2, 2))
    model = ours(READ["llama"].__class__(**{**READ["llama"].to_dict(), "hidden_size": 64, "head_dim": size}))
    memory = pooled(**o, keys=keys, count_bias=count_bias)
    module = SimpleNamespace(layer_idx=0)
    tensors = [torch.tensor(x)[None] for x in (q, k, v)]
    with attention.reading(memory, Rotary(model), (0,), torch.tensor([shift])):
        got = attention.attention(module, *tensors, None, scaling=0.5)[0][0].numpy()
    # Tables are made in float32 by the model's own module, hence the tolerance.
    expected = attention_by_loops(o, entries_by_definition(o, length, shift), q, k, v, keys, count_bias)
    np.testing.assert_allclose(got, expected, atol=5e-6)


def attention_by_loops(o, entries, q, k, v, keys, count_bias):
    out = np.zeros((q.shape[1], 4, q.shape[2]))
    for head in range(4):
        K, V = k[head // 2], v[head // 2]
        for t in range(q.shape[1]):
            visible, exact = sees_by_definition(o, entries, t, None)
            names, values, bias = [], [], []
            for j in visible:
                last, span, kw, vw = entries[j]
                first = last - o["window"] + 1
                place = {
                    "weighted": sum(w * p for p, w in kw.items()),
                    "centre": first + (o["window"] - 1) / 2,
                    "first": first,
                    "last": last,
                }[o["anchor"]]
                if keys == "rotated":
                    names.append(sum(w * K[p] for p, w in kw.items()))
                else:
                    plain = sum(w * complex_rotation(K[p], -p) for p, w in kw.items())
                    names.append(complex_rotation(plain, place))
                values.append(sum(w * V[p] for p, w in vw.items()))
                members = sum(1 for p in span if p >= max(0, o["sinks"]))
                bias.append(math.log(members) if count_bias else 0.0)
            names += [K[i] for i in exact]
            values += [V[i] for i in exact]
            bias += [0.0] * len(exact)
            scores = 0.5 * np.array(names) @ q[head, t] + np.array(bias)
            weight = np.exp(scores - scores.max())
            out[t, head] = (weight / weight.sum()) @ np.array(values)
    return out


# ---- rules on whole models


@pytest.mark.parametrize("name", READ)
def test_a_model_passes_its_self_check(name):
    check = self_check(make(READ[name]), name)
    assert max(check.values()) < 1e-8


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_cannot_be_read_is_refused_with_the_reason(name):
    config, reason = REFUSED[name]
    with pytest.raises(SpecError, match=reason):
        self_check(make(config, torch.float32, attention="sdpa"), name)


@pytest.mark.parametrize("name", READ)
def test_prefill_pieces_and_decode_give_one_answer(name, ids):
    """Rule 3 on every architecture, with overlap, local window, sinks and a grid origin per row."""
    model = ours(READ[name])
    memory = pooled(window=6, stride=4, local=5, sinks=2)
    whole = read(model, ids, memory, origin=(0, 1, 3))
    assert not torch.allclose(whole, model(ids).logits, atol=1e-4), "the memory must do something"
    for piece in (1, 7, 32):
        cache = DynamicCache(config=model.config)
        parts = [
            read(model, ids[:, i : i + piece], memory, (0, 1, 3), cache=cache)
            for i in range(0, ids.shape[1], piece)
        ]
        torch.testing.assert_close(torch.cat(parts, 1), whole, **EXACT)


@pytest.mark.parametrize("piece", [1, 5, 64, 1000])
def test_queries_attended_to_at_once_do_not_change_the_answer(llama, ids, monkeypatch, piece):
    memory = pooled(window=5, stride=3, local=2, sinks=1)
    before = read(llama, ids, memory)
    monkeypatch.setitem(attention.PIECE, "cpu", piece)
    torch.testing.assert_close(read(llama, ids, memory), before, **EXACT)


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("local", [0, 5])
def test_window_one_stride_one_is_full_attention(name, local, ids):
    """Rule 7."""
    model = ours(READ[name])
    torch.testing.assert_close(read(model, ids, pooled(window=1, stride=1, local=local)), model(ids).logits, **EXACT)


def test_nothing_compressed_yet_is_full_attention(llama, ids):
    """Rule 7: a local window as long as the prompt, and a window longer than it."""
    full = llama(ids).logits
    for memory in (pooled(window=8, stride=4, local=61), pooled(window=64, stride=4)):
        torch.testing.assert_close(read(llama, ids, memory), full, **EXACT)


def test_local_zero_and_one_differ_by_one(llama, ids):
    """Rule 2: with L = 0 a window is read on its last token, with L = 1 on the next."""
    full = llama(ids).logits
    for local, first in ((0, 7), (1, 8), (3, 10)):
        moved = (read(llama, ids, pooled(window=8, stride=8, local=local)) - full).abs().amax((0, 2))
        assert int((moved > 1e-9).nonzero()[0]) == first


@pytest.mark.parametrize("origin", range(4))
@pytest.mark.parametrize("options", [{}, {"local": 3, "sinks": 2}, {"beside": True, "local": 4}])
def test_a_future_token_moves_no_earlier_logit(llama, ids, origin, options):
    """Rule 1, bit for bit, at every phase of the change."""
    memory = pooled(window=6, stride=4, **options)
    before = read(llama, ids, memory, (origin,))
    for change in range(40, 48):
        other = ids.clone()
        other[:, change] = (other[:, change] + 1) % 97
        after = read(llama, other, memory, (origin,))
        assert torch.equal(before[:, :change], after[:, :change])
        assert not torch.equal(before[:, change:], after[:, change:])


def test_a_step_that_closes_no_window_writes_nothing():
    """Rule 4: between two closings the entries are the same ones."""
    memory = pooled(window=6, stride=4)
    for length in range(1, 40):
        now, then = (memory.plan(0, n, torch.tensor([1])).last[0] for n in (length, length + 1))
        closes = length - 5 >= 1 and (length - 5 - 1) % 4 == 0
        assert len(then) - len(now) == int(closes)
        assert torch.equal(then[: len(now)], now)


def test_the_deepseek_layout_masks_members_before_the_start():
    """Rule 5: origin −S, W = 2S; the first entry closes at S − 1 and is made of S tokens, not of 2S."""
    plan = pooled(window=8, stride=4, origin=-4).plan(0, 16, torch.tensor([0]))
    assert plan.last[0].tolist() == [3, 7, 11, 15]
    assert plan.k_weight[0, 0].tolist() == [0] * 4 + [0.25] * 4
    assert plan.k_weight[0, 1].tolist() == [0.125] * 8


def test_one_hot_with_the_weighted_anchor_is_decimation(llama):
    """Rule 6: the entry is the kept token's own key, at its own position; uniform is the centre."""
    torch.manual_seed(1)
    key = torch.randn(1, 2, 32, 8, dtype=torch.float64)
    rotary = Rotary(llama)
    one = pooled(window=4, stride=4, gate="onehot", offset=2).plan(0, 32, torch.tensor([0]))
    layout = attention.make_layout(one, 32, key, rotary, None, 64)
    k, v = attention.pooled(layout, key, key)
    torch.testing.assert_close(k, key[:, :, 2::4], **EXACT)
    assert torch.equal(v, key[:, :, 2::4])
    mean = pooled(window=4, stride=4).plan(0, 32, torch.tensor([0]))
    assert mean.anchor[0].tolist() == [1.5 + 4 * j for j in range(8)]


@pytest.mark.parametrize("name", ["llama", "gpt-neox", "llama-yarn"])
def test_unrotate_undoes_rotate(name):
    """Rule 6, also for partial rotary and for tables scaled by YaRN."""
    model = ours(READ[name])
    x = torch.randn(1, 2, 30, 8, dtype=torch.float64)
    tables = Rotary(model).tables(torch.arange(30.0, dtype=torch.float64)[None], 30, x)
    turned = rotate(x, tables)
    assert not torch.allclose(turned, x)
    torch.testing.assert_close(unrotate(turned, tables), x, **EXACT)


def test_gates_of_keys_and_values_are_separate():
    plan = pooled(window=3, stride=3, gate="onehot", offset=0, v_gate="hand", v_weights=[0, 1, 3]).plan(
        0, 6, torch.tensor([0])
    )
    assert plan.k_weight[0, 0].tolist() == [1, 0, 0]
    assert plan.v_weight[0, 0].tolist() == [0, 0.25, 0.75]


def test_after_context_reads_the_context_exactly_and_compresses_once(llama, ids):
    """Rule 9: context logits are the full cache's; the query's own tokens stay exact."""
    memory = pooled(window=4, stride=4, when="after_context")
    full, got = llama(ids).logits, read(llama, ids, memory, context_end=40)
    torch.testing.assert_close(got[:, :40], full[:, :40], **EXACT)
    assert (got[:, 40:] - full[:, 40:]).abs().amax((0, 2)).min() > 1e-9
    plan = memory.plan(0, 61, torch.tensor([0]))
    assert plan.visible_entries(torch.tensor([60]), 40)[0, 0].tolist() == [True] * 10 + [False] * 5


def test_layers_and_strides_by_layer(llama, ids):
    """Rule 10: a list, an exception list, and per-layer strides."""
    assert [i for i in range(6) if chosen("all but 1, 3-4", i)] == [0, 2, 5]
    assert ranges("0-2, 7") == (0, 1, 2, 7)
    full = llama(ids).logits
    only = read(llama, ids, pooled(window=4, stride=4, layers=[2]))
    both = read(llama, ids, pooled(window=4, stride=4, layers="all but 0-1"))
    assert torch.equal(only, both)
    assert not torch.equal(only, full)
    memory = pooled(window=4, stride=4, strides_by_layer={0: 2, 1: 3})
    assert memory.strides() == (2, 3, 4)
    counts = [memory.plan(layer, 24, torch.tensor([0])).entries for layer in range(3)]
    assert counts == [11, 7, 6]
    assert not torch.equal(read(llama, ids, memory), read(llama, ids, pooled(window=4, stride=4)))


def test_sliding_layers_stay_as_they_are(ids):
    model = ours(READ["gemma3"])
    memory = pooled(window=4, stride=4)
    assert memory.check_model(3, full_layers(model.config)) == []
    errors = pooled(window=4, stride=4, layers="0").check_model(3, full_layers(model.config))
    assert "sliding" in errors[0].message
    with attention.reading(memory, Rotary(model), full_layers(model.config), torch.tensor([0])) as current:
        model(ids)
    assert {key[0]: bool(layout) for key, layout in current.layouts.items()} == {0: False, 1: True, 2: True}


def test_without_a_reading_it_is_sdpa_bit_for_bit_and_an_error_leaves_nothing(llama, ids):
    stock = make(READ["llama"])
    before = llama(ids).logits
    assert torch.equal(before, stock(ids).logits)
    with pytest.raises(ZeroDivisionError), attention.reading(
        pooled(), Rotary(llama), (0, 1, 2), torch.tensor([0])
    ):
        raise ZeroDivisionError
    assert torch.equal(llama(ids).logits, before)


def test_the_watched_weights_are_the_attention(llama, ids):
    """Rows sum to one, unseen keys have none, and weights times values give the layer's own output."""
    memory = pooled(window=4, stride=4, local=3)
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, h, 30, 8, dtype=torch.float64) for h in (8, 2, 2))
    module = SimpleNamespace(layer_idx=0)
    with attention.reading(memory, Rotary(llama), (0,), torch.tensor([0]), watch=(0, 5)) as current:
        out = attention.attention(module, q, k, v, None, scaling=None)[0]
    weights = current.seen.weights[0].double()
    torch.testing.assert_close(weights.sum(1), torch.ones(30, dtype=torch.float64), atol=1e-5, rtol=0)
    layout = current.layout(0, 30, k, 64)
    values = torch.cat([attention.pooled(layout, k, v)[1], v], 2)[0, 1]
    torch.testing.assert_close(weights @ values, out[0, :, 5], atol=1e-5, rtol=0)


@pytest.mark.parametrize("stride", [0, -4, 2.5, "four"])
def test_a_stride_that_is_no_whole_number_is_refused_in_one_sentence(stride):
    with pytest.raises(SpecError, match="stride must be a whole number from 1 to the window") as caught:
        pooled(window=8, stride=stride)
    assert [e.field for e in caught.value.errors] == ["memory.stride"]


@pytest.mark.parametrize(
    ("options", "field", "words"),
    [
        ({"window": 4, "stride": 8}, "stride", "windows would leave gaps"),
        ({"gate": "onehot", "offset": 4}, "offset", "from 0 to 3"),
        ({"gate": "hand", "weights": [1, 2]}, "weights", "one per offset"),
        ({"gate": "hand", "weights": [0, 0, 0, 0]}, "weights", "not all be 0"),
        ({"gate": "hand", "weights": [1, -1, 0, 0]}, "weights", "none below 0"),
        ({"layers": "first"}, "layers", "no layer or range"),
        ({"layers": "all except 3"}, "layers", "must be"),
        ({"strides_by_layer": "0-3"}, "strides_by_layer", "LAYERS:STRIDE"),
        ({"strides_by_layer": "0-3:9"}, "strides_by_layer", "gaps"),
        ({"origin": -4}, "origin", "above"),
        ({"windwo": 4}, "windwo", "did you mean 'window'"),
    ],
)
def test_options_that_do_not_fit_are_refused_at_their_field(options, field, words):
    with pytest.raises(SpecError, match=words) as caught:
        pooled(**options)
    assert caught.value.errors[0].field == f"memory.{field}"
