"""The controlled model against its definition by loops (SCIENCE §1), against itself in pieces, and
against transformers' Qwen3.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from by_loops import CONFIGS, LENGTH, SMALL, TIGHT, VARIANTS, by_loops, made, prompt
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.models.controlled.model import State

# One of each kind of rule: costly tests take these.
KINDS = ("full", "vector", "shared", "offset", "W8S6", "W13S12", "local-16", "late", "deepseek")


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Models this small run fastest on one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_forward_equals_its_definition(name):
    model = made(CONFIGS[name])
    ids = prompt(model.shape)
    np.testing.assert_allclose(model(ids).logits[0].numpy(), by_loops(model, ids[0]), **TIGHT)


def test_the_reference_tells_variants_apart():
    """A change of any one rule moves the logits by far more than the tolerance."""
    found = {}
    for name, config in CONFIGS.items():
        found[name] = made(config)(prompt(SMALL)).logits
    for name, other in (("scalar", "local-0"), ("scalar", "local-16"), ("deepseek", "beside")):
        assert (found[name] - found[other]).abs().max() > 1e-3


# ---- one answer, however the prompt is cut


def pieces(model, ids, cuts):
    """(logits, state) of a prompt read in pieces that end at `cuts`."""
    state, edges = State(), [0, *cuts, ids.shape[1]]
    parts = [model(ids[:, a:b], cache=state).logits for a, b in itertools.pairwise(edges)]
    return torch.cat(parts, 1), state


@pytest.mark.parametrize("name", KINDS)
def test_token_by_token_equals_one_pass(name):
    model = made(CONFIGS[name])
    ids = prompt(model.shape, rows=2)
    stepped, state = pieces(model, ids, range(1, LENGTH))
    torch.testing.assert_close(stepped, model(ids).logits, **TIGHT)
    assert state.seen == LENGTH


@given(
    st.sampled_from(sorted(VARIANTS)),
    st.sets(st.integers(1, LENGTH - 1), max_size=6),
    st.integers(0, 3),
)
@settings(max_examples=40)
def test_any_pieces_equal_one_pass(name, cuts, seed):
    model = made(CONFIGS[name], seed)
    ids = prompt(model.shape, seed=seed)
    torch.testing.assert_close(pieces(model, ids, sorted(cuts))[0], model(ids).logits, **TIGHT)


@pytest.mark.parametrize("name", KINDS)
def test_a_later_token_moves_no_earlier_logit(name):
    """Bit for bit, at every phase of every window."""
    model = made(CONFIGS[name], dtype=torch.float32)
    ids = prompt(model.shape)
    before = model(ids).logits
    changed = ids.repeat(LENGTH - 1, 1)
    for t in range(1, LENGTH):
        changed[t - 1, t:] = (changed[t - 1, t:] + 1) % model.shape.vocab
    for t in range(1, LENGTH):
        after = model(changed[t - 1 : t]).logits
        assert torch.equal(after[:, :t], before[:, :t]), t
        assert not torch.equal(after[:, t], before[:, t])


@pytest.mark.parametrize("name", ["full", "scalar", "W12S4", "deepseek", "staggered"])
def test_asked_positions_answer_as_in_the_whole_pass(name):
    model = made(CONFIGS[name])
    ids = prompt(model.shape, rows=3)
    asked = (0, 7, 8, 20, LENGTH - 1)
    got = model(ids, queries=asked).logits
    torch.testing.assert_close(got, model(ids).logits[:, list(asked)], **TIGHT)
    state = State()
    model(ids[:, :11], cache=state)
    got = model(ids[:, 11:], cache=state, queries=(0, 9)).logits
    torch.testing.assert_close(got, model(ids).logits[:, [11, 20]], **TIGHT)


# ---- what must be the same thing


def test_windows_of_one_token_are_the_full_cache():
    one = replace(SMALL, window=1, stride=1, gate="uniform", payload="shared", local=0)
    model, full = made(one), made(replace(SMALL, memory="full"))
    full.load_state_dict(model.state_dict(), strict=True)
    ids = prompt(SMALL)
    torch.testing.assert_close(model(ids).logits, full(ids).logits, atol=1e-12, rtol=0)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-5), (torch.float32, 3e-5)])
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_a_full_model_is_a_qwen3_of_transformers(dtype, bound, heads):
    """Its state loads strictly; transformers computes norms and RoPE in float32."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = replace(SMALL, memory="full", kv_heads=heads)
    theirs = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=config.vocab,
            hidden_size=config.width,
            intermediate_size=config.ff,
            num_hidden_layers=config.layers,
            num_attention_heads=config.q_heads,
            num_key_value_heads=heads,
            head_dim=config.head_dim,
            rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_base},
            tie_word_embeddings=True,
        )
    )
    ours = made(config, dtype=dtype)
    theirs.load_state_dict(ours.state_dict(), strict=True)
    theirs = theirs.to(dtype).eval()
    ids = prompt(config, length=70)
    with torch.no_grad():
        expected = theirs(ids).logits
    torch.testing.assert_close(ours(ids).logits, expected, atol=bound, rtol=0)
    assert ours.num_parameters() == theirs.num_parameters()
