"""Plans, masks and pooling against their definition by loops (SCIENCE §1), and options that are
refused.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from decoders import READ, ours, pooled
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.memory import attention
from engine.memory.base import NEVER
from engine.memory.rotary import Rotary
from engine.registry import SpecError


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
    return (
        [float(i == o["offset"]) for i in range(o["window"])] if kind == "onehot" else o["weights"]
    )


def entries_by_definition(o, length, shift):
    """[(closing position, span, {position: k weight}, {position: v weight})] of windows that have
    an entry.
    """
    found, start = [], o["origin"] + shift % o["stride"]
    while start + o["window"] <= length:
        span = range(start, start + o["window"])
        weights = []
        for name in "kv":
            gate = gate_of(o, name)
            alive = {
                t: gate[t - start]
                for t in span
                if t >= 0 and t >= o["sinks"] and gate[t - start] > 0
            }
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
    model = ours(
        READ["llama"].__class__(**{**READ["llama"].to_dict(), "hidden_size": 64, "head_dim": size})
    )
    memory = pooled(**o, keys=keys, count_bias=count_bias)
    module = SimpleNamespace(layer_idx=0)
    tensors = [torch.tensor(x)[None] for x in (q, k, v)]
    with attention.reading(memory, Rotary(model), (0,), torch.tensor([shift])):
        got = attention.attention(module, *tensors, None, scaling=0.5)[0][0].numpy()
    # Tables are made in float32 by the model's own module, hence the tolerance.
    expected = attention_by_loops(
        o, entries_by_definition(o, length, shift), q, k, v, keys, count_bias
    )
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


@pytest.mark.parametrize("stride", [0, -4, 2.5, "four"])
def test_a_stride_that_is_no_whole_number_is_refused_in_one_sentence(stride):
    with pytest.raises(
        SpecError, match="stride must be a whole number from 1 to the window"
    ) as caught:
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
