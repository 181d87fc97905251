"""Every rule of the chunked memory (SCIENCE §1) on whole models of ten architectures."""

from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
from decoders import READ, REFUSED, make, ours, pooled, read
from transformers import DynamicCache

from engine.memory import MEMORIES, attention
from engine.memory.layers import chosen, ranges
from engine.memory.rotary import Rotary, rotate, unrotate
from engine.models import facts as facts_module
from engine.models.check import self_check
from engine.models.facts import full_layers, unreadable
from engine.models.loader import facts
from engine.registry import SpecError
from engine.specs import ModelSpec

EXACT = dict(atol=1e-10, rtol=0)


@pytest.fixture(scope="module")
def llama():
    return ours(READ["llama"])


@pytest.fixture(scope="module")
def ids():
    return torch.randint(0, 97, (3, 61), generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("name", READ)
def test_a_model_passes_its_self_check(name):
    check = self_check(make(READ[name]), name)
    assert max(check.values()) < 1e-8


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_cannot_be_read_is_refused_with_the_reason(name):
    config, reason = REFUSED[name]
    with pytest.raises(SpecError, match=reason):
        self_check(make(config, torch.float32), name)


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_by_its_config_before_weights_are_loaded(name, tmp_path):
    config, reason = REFUSED[name]
    config.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(SpecError, match=f"^model.id: .* cannot be measured: .*{reason}"):
        facts(ModelSpec(id=str(tmp_path)))


@pytest.mark.parametrize("name", READ)
def test_a_config_that_can_be_read_is_not_refused(name):
    assert unreadable(READ[name]) == ""
    assert READ[name].model_type not in facts_module.REFUSED


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
    torch.testing.assert_close(
        read(model, ids, pooled(window=1, stride=1, local=local)), model(ids).logits, **EXACT
    )


def test_nothing_compressed_yet_is_full_attention(llama, ids):
    """Rule 7: a local window as long as the prompt, and a window longer than it."""
    full = llama(ids).logits
    for memory in (pooled(window=8, stride=4, local=61), pooled(window=64, stride=4)):
        torch.testing.assert_close(read(llama, ids, memory), full, **EXACT)


def test_local_zero_and_one_differ_by_one(llama, ids):
    """Rule 2: with L = 0 a window is read on its last token, with L = 1 on the next."""
    full = llama(ids).logits
    for local, first in ((0, 7), (1, 8), (3, 10)):
        moved = (
            (read(llama, ids, pooled(window=8, stride=8, local=local)) - full).abs().amax((0, 2))
        )
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
    """Rule 5: origin −S, W = 2S; the first entry closes at S − 1 and is made of S tokens, not of
    2S.
    """
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
    plan = pooled(
        window=3, stride=3, gate="onehot", offset=0, v_gate="hand", v_weights=[0, 1, 3]
    ).plan(0, 6, torch.tensor([0]))
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


@pytest.mark.parametrize(("layer", "kind"), [(0, "full"), (1, "full"), (0, "pooled")])
def test_the_map_of_an_uncompressed_layer_is_eager_attention(layer, kind, ids):
    """Layer 0 of this Gemma 3 has a window of 8; layer 1 reaches back."""
    stock, model = make(deepcopy(READ["gemma3"])), ours(READ["gemma3"])
    stock.set_attn_implementation("eager")
    eager = stock(ids, output_attentions=True).attentions[layer][:, 3]
    full, memory = full_layers(model.config), MEMORIES.build({"kind": kind})
    with attention.reading(
        memory, Rotary(model), full, torch.tensor([0]), watch=(layer, 3)
    ) as current:
        model(ids)
    torch.testing.assert_close(current.seen.weights.double(), eager.double(), atol=1e-6, rtol=0)


def test_a_map_reads_a_mask_of_either_form():
    torch.manual_seed(2)
    query, key = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 9, 8)
    seen = torch.rand(1, 1, 5, 9) < 0.5
    seen[..., 0] = True
    added = torch.zeros(seen.shape).masked_fill(~seen, float("-inf"))
    maps = [attention.watched(None, query, key, None, 3, mask).weights for mask in (seen, added)]
    assert torch.equal(*maps)
    assert torch.equal(maps[0] > 0, seen[0])
    causal = attention.watched(None, query, key, None, 3, None).weights
    assert torch.equal(causal[0] > 0, torch.ones(5, 9).tril(4) > 0)


def test_a_stride_that_no_chosen_layer_has_left_is_not_counted():
    table = {"window": 6, "stride": 4, "strides_by_layer": "0-9:6"}
    assert pooled(**table, layers="0-9").strides() == (6,)
    assert "W6 S6," in pooled(**table, layers="2, 5").phrase()
    assert pooled(**table, layers="0-10").strides() == (4, 6)
    assert pooled(**table, layers="10-12").strides() == (4,)
    assert pooled(**table).strides() == (4, 6)


def test_sliding_layers_stay_as_they_are(ids):
    model = ours(READ["gemma3"])
    memory = pooled(window=4, stride=4)
    assert memory.check_model(3, full_layers(model.config)) == []
    errors = pooled(window=4, stride=4, layers="0").check_model(3, full_layers(model.config))
    assert "sliding" in errors[0].message
    with attention.reading(
        memory, Rotary(model), full_layers(model.config), torch.tensor([0])
    ) as current:
        model(ids)
    assert {key[0]: bool(layout) for key, layout in current.layouts.items()} == {
        0: False,
        1: True,
        2: True,
    }


def test_without_a_reading_it_is_sdpa_bit_for_bit_and_an_error_leaves_nothing(llama, ids):
    stock = make(READ["llama"])
    before = llama(ids).logits
    assert torch.equal(before, stock(ids).logits)
    with (
        pytest.raises(ZeroDivisionError),
        attention.reading(pooled(), Rotary(llama), (0, 1, 2), torch.tensor([0])),
    ):
        raise ZeroDivisionError
    assert torch.equal(llama(ids).logits, before)


def test_the_watched_weights_are_the_attention(llama, ids):
    """Rows sum to one, unseen keys have none, and weights times values give the layer's own
    output.
    """
    memory = pooled(window=4, stride=4, local=3)
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, h, 30, 8, dtype=torch.float64) for h in (8, 2, 2))
    module = SimpleNamespace(layer_idx=0)
    with attention.reading(memory, Rotary(llama), (0,), torch.tensor([0]), watch=(0, 5)) as current:
        out = attention.attention(module, q, k, v, None, scaling=None)[0]
    weights = current.seen.weights[0].double()
    torch.testing.assert_close(
        weights.sum(1), torch.ones(30, dtype=torch.float64), atol=1e-5, rtol=0
    )
    layout = current.layout(0, 30, k, 64)
    values = torch.cat([attention.pooled(layout, k, v)[1], v], 2)[0, 1]
    torch.testing.assert_close(weights @ values, out[0, :, 5], atol=1e-5, rtol=0)
