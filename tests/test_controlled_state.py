"""What a controlled model keeps between calls, and its window grid against the plan that
training-free memories use (SCIENCE §1).
"""

from dataclasses import replace

import pytest
import torch
from by_loops import CONFIGS, LENGTH, SMALL, closed_windows, made, prompt, sees
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.memory.base import window_plan
from engine.models.controlled import grid
from engine.models.controlled.model import State


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Models this small run fastest on one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["scalar", "W12S4", "W13S12", "late", "staggered", "deepseek"])
def test_a_step_that_closes_no_window_adds_no_entry(name):
    model = made(CONFIGS[name])
    config, ids, state = model.shape, prompt(model.shape), State()
    for t in range(LENGTH):
        before = [layer.entries for layer in state.layers]
        model(ids[:, t : t + 1], cache=state)
        for number, layer in enumerate(state.layers):
            windows = len(closed_windows(config, number, t + 1))
            assert layer.entries[0].shape[2] == layer.entries[1].shape[2] == windows
            if t and windows == len(closed_windows(config, number, t)):
                assert all(map(torch.equal, layer.entries, before[number]))


@pytest.mark.parametrize("name", ["local-0", "local-16", "W12S4", "staggered", "late", "deepseek"])
def test_a_chunked_state_holds_what_the_rules_keep_and_less_than_the_full_cache(name):
    config = CONFIGS[name]
    model, full = made(config), made(replace(config, memory="full"))
    ids, state, other = prompt(config, length=54), State(), State()
    pair = 2 * config.kv_heads * config.head_dim * 8  # bytes of a key and a value
    for t in range(54):
        model(ids[:, t : t + 1], cache=state)
        full(ids[:, t : t + 1], cache=other)
        expected = 0
        for layer in range(config.layers):
            windows = closed_windows(config, layer, t + 1)
            exact = sees(config, closed_windows(config, layer, t + 2), t + 1)[
                1
            ]  # of the next query
            opens = config.start(layer) + len(windows) * config.stride
            inputs = max(0, t + 1 - max(opens, 0)) * config.width * 8
            expected += (len(windows) + sum(i <= t for i in exact)) * pair + inputs
        assert state.nbytes == expected
        assert other.nbytes == (t + 1) * config.layers * pair
    assert state.nbytes < other.nbytes


# ---- closed forms against the plan of training-free memories


@st.composite
def geometries(draw):
    window = draw(st.integers(1, 13))
    return replace(
        SMALL,
        window=window,
        stride=draw(st.integers(1, window)),
        origin=draw(st.integers(1 - window, 6)),
        stagger=draw(st.integers(0, 5)),
        local=draw(st.integers(0, 17)),
        beside=draw(st.booleans()),
    )


@given(geometries(), st.integers(0, 1), st.integers(1, 40))
@settings(max_examples=150)
def test_the_closed_forms_agree_with_the_plan(config, layer, length):
    equal = torch.ones(config.window, dtype=torch.float64) / config.window
    plan = window_plan(
        length=length,
        origin=torch.tensor([config.origin + (config.stagger if layer else 0)]),
        window=config.window,
        stride=config.stride,
        k_gate=equal,
        v_gate=equal,
        anchor="centre",
        sinks=0,
        local=config.local,
        rotated=False,
        beside=config.beside,
        count_bias=False,
    )
    places = torch.arange(length)
    for n in range(length + 1):
        assert grid.closed_before(config, layer, n) == int((plan.last[0] < n).sum())
    covered = grid.covered(config, layer, places)
    known = plan.covered[0] < length
    assert torch.equal(covered[known], plan.covered[0][known])
    assert bool((covered[~known] >= length).all())
    visible = plan.visible_entries(places, None)[0]
    exact = plan.exact_tokens(places, None, places)[0]
    got = grid.mask(config, layer, plan.last[0], places, places)
    assert torch.equal(got, torch.cat([visible, exact], 1))
    whole = grid.prefill_mask(config, layer, length, tuple(range(length)))
    assert torch.equal(whole, got)
    assert bool(got.any(1).all()), "a query sees something"
    for seen in range(length):  # what is dropped is asked by no later query
        kept = grid.needed(config, layer, places[:seen], seen)
        assert not bool((exact[seen:, :seen] & ~kept).any())
