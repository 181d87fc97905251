"""The run lane: copies → forward → rows, against a plain forward of the whole model."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from decoders import READ, make
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import rows
from engine.copies import Copy, LogicalSample, Slot, phase_copies
from engine.memory import attention
from engine.models.check import self_check
from engine.models.facts import facts_of
from engine.models.head import Head
from engine.models.loader import Loaded
from engine.run.maps import attention_map
from engine.run.sweep import Scorer, batches, noise_floor, sweep
from engine.run.write import write
from engine.specs import ModelSpec, SweepSpec

LOGIT = dict(atol=1e-9, rtol=0)


class Letters:
    """A tokenizer as far as the run lane needs one: a text per id."""

    is_fast = True
    all_special_ids = ()

    def decode(self, ids, **_):
        return " ".join(map(str, ids if isinstance(ids, list) else [ids]))

    def convert_ids_to_tokens(self, token):
        return str(token)


@pytest.fixture(scope="module")
def loaded():
    model = make(READ["llama"])
    check = self_check(model, "llama")
    return Loaded(
        ModelSpec(dtype="float64"), model, Letters(), facts_of(model.config, "float64"), check
    )


def spec(memory=None, **settings):
    pooled = {
        "kind": "pooled",
        "window": 4,
        "stride": 4,
        "gate": "onehot",
        "offset": 1,
        "local": 2,
        "sinks": 1,
    }
    return SweepSpec.from_dict(
        {"memory": memory or pooled, "task": {"kind": "access_code"}, **settings}
    )


def sample(index=0, length=90):
    tokens = tuple(int(t) for t in np.random.default_rng(index).integers(3, 97, length))
    slots = (
        Slot("before", 60),
        Slot("after", 66),
        Slot("front", 0),
        Slot("back", 80),
        Slot("pad", 60),
    )
    return LogicalSample(
        index=index,
        tokens=tokens,
        roles=("text",) * length,
        target=(62, 64),
        answer=(*tokens[62:64], 5),
        rivals=(7, 9),
        rival_texts=("7", "9"),
        answer_text="",
        slots=slots,
        filler=11,
        context_end=80,
    )


def copies_of(protocol, modulus=8, samples=1):
    return [c for i in range(samples) for c in phase_copies(sample(i), protocol, modulus)]


def plain_logits(loaded, memory, copy):
    """The whole model with its own head, one copy alone, nothing shared."""
    ids = torch.tensor([copy.tokens + copy.answer[:-1]])
    full = loaded.facts.full_layers
    with attention.reading(
        memory, attention.Rotary(loaded.model), full, torch.tensor([copy.origin]), copy.context_end
    ):
        return loaded.model(ids, use_cache=False).logits[0].log_softmax(-1)


@pytest.mark.parametrize("protocol", ["outer", "in_sequence", "grid_origin", "lengthen"])
@pytest.mark.parametrize("when", ["streamed", "after_context"])
def test_rows_equal_a_plain_forward(loaded, protocol, when):
    """Batching, the beginning computed once, slices of the head: none may move a number."""
    s = spec(
        {"kind": "pooled", "window": 4, "stride": 4, "local": 2, "sinks": 1, "when": when},
        modulus=8,
    )
    copies = copies_of(protocol)
    found = list(sweep(s, loaded, copies))
    answers = [row for b in found for row in b.answers.to_pylist()]
    tokens = [b.tokens.to_pandas() for b in found]
    assert [a["shift"] for a in answers] == list(range(8))
    for copy, row in zip(copies, answers, strict=True):
        logp = plain_logits(loaded, s.memory, copy)
        start = len(copy.tokens) - 1
        expected = [float(logp[start + i, t]) for i, t in enumerate(copy.answer)]
        np.testing.assert_allclose(row["token_logprobs"], expected, **LOGIT)
        assert row["logprob"] == pytest.approx(sum(expected))
        np.testing.assert_allclose(
            row["rival_logprobs"], [float(logp[start, r]) for r in copy.rivals], **LOGIT
        )
        assert row["correct"] == all(
            int(logp[start + i].argmax()) == t for i, t in enumerate(copy.answer)
        )
        ranks = [
            int((logp[start + i] > logp[start + i, t]).sum()) for i, t in enumerate(copy.answer)
        ]
        assert row["token_ranks"] == ranks
        mine = next(t for t in tokens if copy.shift in set(t["shift"]))
        mine = mine[mine["shift"] == copy.shift]
        gold = [*copy.tokens, *copy.answer][1:]
        assert mine.token_id.tolist() == gold
        assert mine.position.tolist() == list(range(1, len(gold) + 1))
        expected = [float(logp[t, g]) for t, g in enumerate(gold)]
        np.testing.assert_allclose(mine.logprob, expected, atol=1e-5)
        entropy = -(logp.exp() * logp).sum(-1)
        np.testing.assert_allclose(mine.entropy, entropy, atol=1e-5)
        assert mine.top_ids.iloc[-1].tolist() == logp[-1].topk(5).indices.tolist()


def test_the_rows_keep_to_their_schema(loaded):
    batch = next(sweep(spec(modulus=8), loaded, copies_of("outer")))
    assert batch.answers.schema == rows.ANSWERS
    assert batch.tokens.schema == rows.TOKENS
    scored = next(sweep(spec(modulus=8, rows="scored"), loaded, copies_of("outer")))
    assert set(scored.tokens.column("role").to_pylist()) == {"answer"}
    for name in ("logprob", "rank", "top_ids"):
        whole = batch.tokens.to_pandas().query("role == 'answer'")[name].tolist()
        assert np.allclose(np.stack(whole), np.stack(scored.tokens.to_pandas()[name].tolist()))


def test_the_same_spec_gives_the_same_bits_also_after_a_resume(loaded):
    s, copies = spec(modulus=8), copies_of("in_sequence", samples=2)
    first = [b.answers for b in sweep(s, loaded, copies)]
    again = [b.answers for b in sweep(s, loaded, copies)]
    assert all(a.equals(b) for a, b in zip(first, again, strict=True))
    rest = [c for batch in batches(copies, 4)[1:] for c in batch]
    resumed = [b.answers for b in sweep(s, loaded, rest)]
    assert all(a.equals(b) for a, b in zip(first[1:], resumed, strict=True))


def test_the_control_of_a_grid_origin_sweep_is_constant(loaded):
    s = spec(modulus=8, protocol="grid_origin")
    copies = copies_of("grid_origin")
    control = {
        row
        for b in sweep(s.control, loaded, copies)
        for row in b.answers.column("logprob").to_pylist()
    }
    memory = [
        row for b in sweep(s, loaded, copies) for row in b.answers.column("logprob").to_pylist()
    ]
    assert len(control) == 1
    np.testing.assert_allclose(memory[:4], memory[4:], atol=1e-12)  # r and r + S meet the same grid
    assert len({round(m, 9) for m in memory}) == 4


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(5, 7)), min_size=1, max_size=40),
    st.integers(1, 5),
)
@settings(max_examples=60, deadline=None)
def test_batches_keep_order_and_never_mix_lengths_or_samples(shape, size):
    made = [
        Copy(s, i, 0, tuple(range(n)), ("text",) * n, (0, 1), (1,), (), 3)
        for i, (s, n) in enumerate(sorted(shape))
    ]
    found = batches(made, size)
    assert [c for b in found for c in b] == made
    for batch in found:
        assert len(batch) <= size
        assert len({(c.sample, len(c.tokens)) for c in batch}) == 1


def test_a_layer_scan_compresses_one_layer_at_a_time(loaded):
    s, copies = spec(modulus=8), copies_of("outer")
    found = list(sweep(s, loaded, copies, layers=[0, 2]))
    assert [b.answers["layer"][0].as_py() for b in found] == [0, 0, 2, 2]
    assert all(b.tokens is None for b in found)
    one = replace(s, memory=replace(s.memory, layers="2"))
    alone = next(sweep(one, loaded, copies)).answers["logprob"].to_pylist()
    assert found[2].answers["logprob"].to_pylist() == pytest.approx(alone)


def test_the_noise_floor_is_small_in_float64(loaded):
    assert 0 <= noise_floor(spec(modulus=8), loaded, copies_of("outer")) < 1e-9


def test_the_written_text_is_the_greedy_continuation(loaded):
    s, copy = spec(modulus=8), copies_of("outer")[3]
    ids = list(copy.tokens)
    for _ in range(6):
        grown = replace(copy, tokens=tuple(ids), answer=(0,))
        ids.append(int(plain_logits(loaded, s.memory, grown)[-1].argmax()))
    assert write(s, loaded, copy, length=6) == Letters().decode(ids[-6:])


def test_a_map_is_the_layers_attention(loaded):
    s, copy = spec(modulus=8), copies_of("outer")[2]
    found = attention_map(s, loaded, copy, layer=1, head=3)
    assert found.weights.shape == (len(copy.tokens), len(found.key_kind))
    np.testing.assert_allclose(found.weights.astype(float).sum(1), 1, atol=2e-3)
    entries = found.key_kind.count("entry")
    assert found.key_kind == ["entry"] * entries + ["token"] * len(copy.tokens)
    assert {
        b - a for a, b in zip(found.key_start[:entries], found.key_stop[:entries], strict=True)
    } == {4}
    causal = found.weights[:, entries:][np.triu_indices(len(copy.tokens), 1)]
    assert not causal.any()
    full = attention_map(s.control, loaded, copy, layer=1, head=3)
    assert full.weights.shape == (len(copy.tokens), len(copy.tokens))


def test_the_head_in_slices_is_the_head(loaded, monkeypatch):
    from engine.models import head

    hidden = torch.randn(50, 64, dtype=torch.float64)
    gold = torch.arange(50)
    whole = Head(loaded.model).score(hidden, gold)
    monkeypatch.setattr(head, "SLICE", 7)
    for one, other in zip(whole, Head(loaded.model).score(hidden, gold), strict=True):
        torch.testing.assert_close(one, other)


def test_a_beginning_that_copies_share_is_read_once(loaded, monkeypatch):
    """One prompt with a late pad slot: the model reads the beginning once, and the rest of each
    copy.
    """
    read = []
    model = loaded.model.base_model
    spy = SimpleNamespace(wraps=model.forward)

    def forward(ids, **kwargs):
        read.append(ids.numel())
        return spy.wraps(ids, **kwargs)

    monkeypatch.setattr(model, "forward", forward)
    copies = copies_of("lengthen")
    list(sweep(spec(modulus=8), loaded, copies))
    rest = sum(len(c.tokens) - copies[0].shared + len(c.answer) - 1 for c in copies)
    assert sum(read) == copies[0].shared + rest


def test_copies_are_told_apart_by_their_origin_only_under_a_grid(loaded):
    a, b = copies_of("grid_origin")[:2]
    gridded, full = spec(modulus=8), spec({"kind": "full"}, modulus=8)
    assert len({Scorer(gridded, loaded, gridded.memory, -1)._identity(c) for c in (a, b)}) == 2
    assert len({Scorer(full, loaded, full.memory, -1)._identity(c) for c in (a, b)}) == 1
