"""What single methods promise: named presets, draws, a prompt compressed once, budgets in words."""

import re

import pytest
import torch
from evicting import held, loaded, memory, run, tokens

from engine.eviction.arms import arms
from engine.eviction.base import NEVER, Clock, options_told
from engine.eviction.rpc import PRESETS as RPC
from engine.eviction.schedule import fitted, least, resident
from engine.eviction.snapkv import PRESETS as SNAPKV
from engine.eviction.spec import DecodeSpec
from engine.registry import MEMORIES, SpecError, to_options


def built(kind, **options):
    return MEMORIES.build({"kind": kind, **options})


# ---- presets


@pytest.mark.parametrize(
    ("kind", "presets"), [("snapkv", SNAPKV), ("rpc", RPC)], ids=["snapkv", "rpc"]
)
def test_a_preset_is_written_out_and_known_by_its_options(kind, presets):
    for name, own in presets.items():
        named = built(kind, preset=name)
        assert {option: getattr(named, option) for option in own} == own
        assert built(kind, **own) == named, "the same options are the same run"
        assert MEMORIES.build(to_options(named)) == named
        assert options_told(named) in ("", f"preset {name}")


def test_an_option_beside_a_preset_replaces_its_own():
    memory = built("snapkv", preset="original", pool="max", kernel=7)
    assert (memory.preset, memory.pool, memory.kernel, memory.obs_window) == (
        "custom",
        "max",
        7,
        32,
    )
    assert built("snapkv", preset="rkv_decode").preset == "decode"
    assert built("snapkv", preset="").preset == "decode"
    assert built("snapkv", preset="custom") == built("snapkv")


def test_a_form_that_sends_every_option_may_change_the_preset_alone():
    """All options of one preset, and another's name: the name is what was chosen."""
    sent = {name: v for name, v in to_options(built("snapkv")).items() if name != "when"}
    assert MEMORIES.build({**sent, "preset": "kvpress"}) == built("snapkv", preset="kvpress")
    changed = MEMORIES.build({**sent, "preset": "kvpress", "kernel": 9})
    assert (changed.preset, changed.kernel, changed.every) == ("custom", 9, 128)


@pytest.mark.parametrize(
    ("kind", "options", "field", "words"),
    [
        ("snapkv", {"preset": "orignal"}, "preset", "must be one of"),
        ("snapkv", {"preset": ["original"]}, "preset", "must be"),
        ("snapkv", {"preset": "original", "when": "streamed"}, "when", "after_context works"),
        ("snapkv", {"kernel": 4}, "kernel", "5 works"),
        ("snapkv", {"budget": 8}, "budget", "9 is the least"),
        ("snapkv", {"every": "often"}, "every", "whole number"),
        ("rkv", {"kernel": 2}, "kernel", "3 works"),
        ("rkv", {"budget": 3}, "budget", "9 is the least"),
        ("rkv", {"mix": 2}, "mix", "from 0 to 1"),
        ("rpc", {"kernel": 6}, "kernel", "7 works"),
        ("rpc", {"budget": 30}, "budget", "43 is the least"),
        ("rpc", {"preset": "paper", "budget": 3}, "budget", "4 is the least"),
        ("h2o", {"budget": 4, "recent": 4}, "budget", "5 is the least"),
        ("tova", {"budget": 1}, "budget", "2 is the least"),
        ("random", {"budget": 3, "prefix": 2, "protect": 2}, "budget", "5 is the least"),
    ],
)
def test_options_that_do_not_fit_are_refused_at_their_field(kind, options, field, words):
    with pytest.raises(SpecError, match=words) as caught:
        built(kind, **options)
    assert caught.value.errors[0].field == f"memory.{field}"


# ---- once


@pytest.mark.parametrize("preset", ["original", "kvpress"])
def test_a_prompt_is_compressed_once_and_never_again(preset):
    method = memory(f"snapkv-{preset}", budget=20)
    assert (method.when, method.once, method.period, method.strides()) == (
        "after_context",
        True,
        0,
        (),
    )
    assert method.room(Clock(kept=500, events=1)) == NEVER
    ids = tokens(length=70)
    _, decoder = run(method, ids, 40)
    assert [(e.seen, e.before, e.after) for e in decoder.events] == [(40, 40, 20)]
    assert decoder.clock.kept == 50
    assert decoder.state.bytes == 0, "queries are needed once"
    heads = held(decoder)[0, 0, :, :20]
    assert len(heads) == (8 if preset == "original" else 2)
    assert not torch.equal(heads[0], heads[1])
    assert heads[..., -6:].tolist() == [[34, 35, 36, 37, 38, 39]] * len(heads)


def test_rpc_of_the_paper_keeps_the_prompt_and_grows_by_a_part_of_what_is_written():
    """prompt + nT + R + P before event n, prompt + (n + 1)T + R after it."""
    method = built("rpc", preset="paper", budget=12, obs_window=5, ratio=4)
    ids = tokens(length=90)
    _, decoder = run(method, ids, 30)
    assert [(e.before, e.after) for e in decoder.events] == [
        (30 + 3 * n + 5 + 12, 30 + 3 * (n + 1) + 5) for n in range(4)
    ]
    assert method.period == 12
    assert {e.seen - 30 - 5 - 12 for e in decoder.events} == {0, 12, 24, 36}
    assert (held(decoder)[..., :30] == torch.arange(30)).all()


def test_all_heads_of_a_layer_keep_one_set_under_rpc_and_tova():
    ids = tokens(length=60)
    for case in ("rpc", "tova"):
        kept = held(run(memory(case), ids, 30)[1])
        assert torch.equal(kept[:, :, 0], kept[:, :, 1])
        assert not torch.equal(kept[0], kept[1])
    kept = held(run(memory("rpc-max"), ids, 30)[1])
    assert not torch.equal(kept[:, :, 0], kept[:, :, 1])


# ---- draws


def test_what_is_random_differs_by_row_layer_head_and_event_and_repeats():
    """One public code draws per layer with one seed: the same set everywhere."""
    method = memory("random", budget=12)
    ids = tokens(rows=2, length=60)
    _, decoder = run(method, ids, 30, streams=(3, 4))
    kept = held(decoder)
    sets = {tuple(x.tolist()) for x in kept.flatten(0, 2)}
    assert len(sets) == 2 * 2 * 2
    other = held(run(method, tokens(rows=2, length=60, seed=9), 30, streams=(3, 4))[1])
    assert torch.equal(kept, other), "a draw does not look at what is read"
    assert not torch.equal(kept, held(run(method, ids, 30, streams=(5, 6))[1]))


def test_random_eviction_has_no_favourites():
    """Of 30 entries, 15 stay: each about half of the time."""
    method = built("random", budget=15)
    counts = torch.zeros(30)
    ids = tokens(rows=1, length=30)
    for stream in range(100):
        kept = held(run(method, ids, 30, streams=(stream,))[1])
        counts += torch.bincount(kept.flatten(), minlength=30)
    share = counts / (100 * 4)
    assert share.mean() == pytest.approx(0.5)
    assert share.min() > 0.39
    assert share.max() < 0.61


# ---- budgets that are the same on average


@pytest.mark.parametrize(
    "kind", ["beacon", "snapkv", "rkv", "rpc", "h2o", "streaming", "random", "tova", "keydiff"]
)
def test_a_budget_can_be_solved_for_a_mean(kind):
    """Every method can hold 160 entries on average, within one event of it."""
    solved = fitted(built(kind), 160, 512, 256)
    held = resident(solved, 512, 256)
    assert held.mean == pytest.approx(160, rel=0.02)
    assert solved.check() == []


def test_a_cache_that_grows_with_its_prompt_is_refused_below_what_it_holds():
    """RPC's prompt stays whole: no budget of its own brings the mean below the prompt."""
    solved = fitted(built("rpc", preset="paper"), 160, 512, 256)
    assert solved.budget == least(solved) == 4
    spec = {"kind": "decode", "methods": [{"kind": "rpc", "preset": "paper"}], "budgets": [96, 160]}
    with pytest.raises(SpecError, match="is the least that works") as caught:
        arms(DecodeSpec.from_dict(spec), 512)
    assert [e.field for e in caught.value.errors] == ["budgets[0]", "budgets[1]"]


@pytest.mark.parametrize("unit", ["tokens", "kept", "removed"])
@pytest.mark.parametrize("kind", ["rkv", "rpc", "beacon"])
def test_the_least_that_is_told_works_and_no_less_does(kind, unit):
    own = {"beacon": {"n_beacon": 28}, "rkv": {"every": 16}, "rpc": {"preset": "paper"}}[kind]
    least_of = {"kind": "decode", "methods": [{"kind": kind, **own}], "unit": unit, "steps": 64}
    asked = {"tokens": 2, "kept": 0.01, "removed": 0.99}[unit]
    with pytest.raises(SpecError) as caught:
        arms(DecodeSpec.from_dict({**least_of, "budgets": [asked]}), 200)
    told = caught.value.errors[0].message
    tokens = int(re.search(r"(\d+) tokens is the least that works", told)[1])
    works = tokens if unit == "tokens" else float(re.search(rf"{unit} share of ([\d.]+)", told)[1])
    (_, arm) = arms(DecodeSpec.from_dict({**least_of, "budgets": [works]}), 200)
    assert tokens <= arm.budget <= tokens + 1
    with pytest.raises(SpecError, match="is the least that works"):
        arms(DecodeSpec.from_dict({**least_of, "unit": "tokens", "budgets": [tokens - 1]}), 200)


def test_shares_of_one_number_of_entries_are_one_arm():
    spec = {"kind": "decode", "methods": [{"kind": "beacon"}], "unit": "kept", "steps": 100}
    with pytest.raises(
        SpecError, match=r"is 200 tokens of this prompt, as budgets.0. is"
    ) as caught:
        arms(DecodeSpec.from_dict({**spec, "budgets": [0.5, 0.501, 0.9]}), 300)
    assert [e.field for e in caught.value.errors] == ["budgets[1]"]


def test_a_share_of_the_prompt_is_kvpress_number_where_the_prompt_alone_is_compressed():
    spec = {"kind": "decode", "methods": [{"kind": "SnapKVPress"}], "unit": "removed"}
    spec |= {"budgets": [0.5, 0.7], "steps": 256, "fair": "own", "evict": "prompt"}
    made = DecodeSpec.from_dict(spec)
    assert [arm.budget for arm in arms(made, 401)[1:]] == [int(401 * 0.5), int(401 * (1 - 0.7))]
    both = DecodeSpec.from_dict(spec | {"fair": "time_average"})
    assert both.tokens_of(0.5, 401) == round(0.5 * (401 + 256))


def test_kvpress_name_for_snapkv_is_its_preset():
    for name in ("SnapKVPress", "snapkv_press", "SnapKV_Press"):
        assert MEMORIES.build({"kind": name, "budget": 96}) == built(
            "snapkv", preset="kvpress", budget=96
        )
    assert built("SnapKV") == built("snapkv", preset="decode")


def test_random_observers_are_drawn_at_any_seed():
    ids, method = tokens(length=60), memory("beacon", selector="random")
    streams = tuple((2**31 - 1) * 1_000_003 + row for row in range(len(ids)))
    _, decoder = run(method, ids, 30, streams=streams)
    assert held(decoder).shape[-1] <= method.budget


@pytest.mark.parametrize("fair", ["own", "time_average"])
def test_a_method_that_compresses_once_is_refused_where_no_prompt_is_read_at_once(fair):
    methods = [{"kind": "rkv"}, {"kind": "snapkv", "preset": "kvpress"}]
    spec = {"kind": "decode", "methods": methods, "prefill": "streamed", "fair": fair}
    with pytest.raises(
        SpecError, match="snapkv, preset kvpress needs a prompt that is read at once"
    ) as caught:
        DecodeSpec.from_dict({**spec, "budgets": [200]})
    assert caught.value.errors[0].field == "prefill"
    assert DecodeSpec.from_dict({**spec, "budgets": [200], "prefill": "whole"})


def test_h2o_takes_half_of_its_budget_for_the_latest():
    ids = tokens(length=60)
    _, decoder = run(built("h2o", budget=13), ids, 30)
    kept = held(decoder)
    assert kept.shape[-1] == 13
    assert (kept[..., -6:] == torch.arange(54, 60)).all()
    assert "7 heavy + 6 recent" in built("h2o", budget=13).phrase()


def test_literal_redundancy_is_the_same_run():
    ids = tokens(length=60)
    closed, table = (run(memory("rkv", literal=x), ids, 30, model=loaded()) for x in (False, True))
    torch.testing.assert_close(closed[0], table[0], atol=1e-10, rtol=0)
    assert torch.equal(held(closed[1]), held(table[1]))


def test_retention_is_the_share_of_a_marks_positions_over_layers_and_heads():
    ids = tokens(rows=2, length=60)
    marks = ((("a", 3, 9), ("b", 25, 26)), (("c", 10, 30),))
    _, decoder = run(memory("h2o"), ids, 30, marks=marks)
    for row, own in enumerate(marks):
        for name, start, stop in own:
            shares = [
                sum(start <= p < stop for p in layer.positions[row, head].tolist()) / (stop - start)
                for layer in decoder.kept_layers
                for head in range(2)
            ]
            mean = sum(shares) / len(shares)
            assert decoder.retained()[row][name] == pytest.approx(mean)
    assert decoder.events[-1].retained == decoder.retained()
