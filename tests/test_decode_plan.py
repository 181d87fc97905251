"""The plan of a decode run: arms, estimate, refusals, warnings; and of a sweep that evicts."""

from __future__ import annotations

import json

import comparing
import decode_runs
import pytest
import tiny

from engine import estimate as cost
from engine.decode import plan as decode_plan
from engine.eviction.arms import arms
from engine.eviction.schedule import resident
from engine.eviction.spec import evicting
from engine.models.facts import Facts
from engine.registry import SpecError
from engine.specs import SweepSpec

FACTS = Facts(
    n_layers=3,
    full_layers=(0, 1, 2),
    q_heads=4,
    kv_heads=2,
    head_dim=8,
    hidden=32,
    parameters=100_000,
    vocab=400,
    positions=2048,
    bytes_per_weight=4,
    architecture="llama",
)


@pytest.fixture(scope="module")
def tokenizer():
    return tiny.make_tokenizer()


def test_a_plan_tells_every_budget_in_three_units_and_bytes(tokenizer):
    made = decode_plan.plan(decode_runs.make(), tokenizer, FACTS)
    assert made["copies"] == 15
    assert made["length"] == [400, 400]
    each = 2 * 3 * 2 * 8 * 4
    full, *rest = made["arms"]
    assert (full["budget"], full["kept_share"], full["bytes"]) == (None, 1.0, 406 * each)
    for arm in rest:
        assert arm["bytes"] == arm["budget"] * each
        assert arm["kept_share"] == pytest.approx(arm["budget"] / 406)
        assert arm["kept_share"] + arm["removed_share"] == pytest.approx(1)
        assert arm["events"] > 0
        assert arm["mean_resident"] == pytest.approx(arm["budget"], rel=0.1)
    assert "".join(t["text"] for t in made["sample"]["tokens"]).startswith("Working log")
    assert {t["mark"] for t in made["sample"]["tokens"]} > {None}
    assert len(made["sample"]["questions"]) == 2
    assert made["estimate"]["seconds"] > 0
    assert json.loads(json.dumps(made)) == made


def test_arms_are_told_alike_before_and_after_a_run(tokenizer):
    spec = decode_runs.make()
    lines = decode_plan.plan(spec, tokenizer, FACTS)["arms"]
    numbers = [decode_plan.arm_numbers(arm, FACTS, 406) for arm in arms(spec, 400)]
    told = decode_plan.told_arms(spec, 400, numbers)
    assert [arm["index"] for arm in told] == [line["arm"] for line in lines]
    for arm, line in zip(told, lines, strict=True):
        assert arm["kind"] == line["method"]
        names = ("label", "options", "budget", "own_budget", "bytes", "kept_share")
        assert all(arm[name] == line[name] for name in names)


REFUSED = [
    ({"steps": 5000}, "task.length"),
    ({"task": decode_runs.SPEC["task"] | {"length": 2047}}, "task.length"),
    ({"task": decode_runs.SPEC["task"] | {"length": 100}}, "task.length"),
    ({"budgets": [20]}, "budgets[0]"),
    ({"samples": 100_000, "methods": [{"kind": n} for n in sorted(evicting())[:6]]}, "samples"),
]


@pytest.mark.parametrize(("change", "field"), REFUSED, ids=[f for _, f in REFUSED])
def test_what_cannot_run_is_refused_before_it_runs(tokenizer, change, field):
    with pytest.raises(SpecError) as caught:
        decode_plan.plan(decode_runs.make(**change), tokenizer, FACTS)
    assert caught.value.errors[0].field == field
    assert caught.value.errors[0].message


def test_caps_on_time_and_memory(tokenizer, monkeypatch):
    monkeypatch.setattr(cost, "memory_limit", lambda: 100_000)
    with pytest.raises(SpecError, match="of memory; the cap on this machine"):
        decode_plan.plan(decode_runs.make(), tokenizer, FACTS)
    monkeypatch.undo()
    monkeypatch.setattr(decode_plan, "MAX_SECONDS", 1e-9)
    with pytest.raises(SpecError, match="the cap is"):
        decode_plan.plan(decode_runs.make(), tokenizer, FACTS)


def needed(text):
    """Bytes of "needs about 451 MB"."""
    number, unit = text.split("needs about ")[1].split()
    return float(number) * {"MB": 1e6, "GB": 1e9}[unit]


@pytest.mark.parametrize("step", [1, 3, 5])
def test_a_run_beyond_the_cap_is_told_the_batch_that_fits(tokenizer, monkeypatch, step):
    spec = decode_runs.make(batch=6, samples=6)

    def bytes_at(batch):
        other = decode_runs.make(batch=batch, samples=6)
        return decode_plan.plan(other, tokenizer, FACTS)["estimate"]["bytes"]

    cap = (bytes_at(step) + bytes_at(step + 1)) // 2
    monkeypatch.setattr(cost, "memory_cap", lambda: cap)
    monkeypatch.setattr(decode_plan, "memory_cap", lambda: cap)
    with pytest.raises(SpecError) as caught:
        decode_plan.plan(spec, tokenizer, FACTS)
    message = caught.value.errors[0].message
    assert f"of memory: a batch of {step} needs about" in message
    assert needed(message) <= cap + 1e6


def test_where_no_batch_fits_the_longest_prompt_is_told():
    def held(batch, length):
        return 10_000_000 * batch * length

    assert cost.smaller(held, 8, 10) == "a batch of 4 needs about 400 MB"  # all would fit: half
    assert "prompts of 5 tokens needs about 50 MB" in cost.smaller(held, 1, 10)


@pytest.mark.parametrize(
    ("cap", "told"), [(75, "a batch of 1 with prompts of 7 tokens"), (5, "the model alone")]
)
def test_a_machine_too_small_for_one_row(monkeypatch, cap, told):
    monkeypatch.setattr(cost, "memory_cap", lambda: cap)
    assert cost.smaller(lambda batch, length: 10 * batch * length, 8, 10).startswith(told)


def test_warnings_say_what_a_budget_does_not_do(tokenizer):
    def told(**changes):
        return " ".join(decode_plan.plan(decode_runs.make(**changes), tokenizer, FACTS)["warnings"])

    assert "Nothing is evicted by beacon at 600" in told(budgets=[600])
    assert "Budgets are the methods' own" in told(fair="own")
    assert "renewed at events alone" in told()
    assert "renewed at events alone" not in told(budgets=[300])
    assert "3 prompts" in told()


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({"methods": [{"kind": "beacon"}], "budgets": [402], "evict": "prompt"}, False),
        ({"methods": [{"kind": "beacon"}], "budgets": [407]}, True),  # prompt 400, steps 6
        ({"methods": [{"kind": "rkv", "every": 16}], "budgets": [64], "evict": "decode"}, False),
        ({"methods": [{"kind": "rpc", "preset": "paper"}], "budgets": [128]}, False),
    ],
)
def test_without_an_event_a_plan_says_whether_the_budget_holds_all(tokenizer, changes, holds):
    made = decode_runs.make(fair="own", **changes)
    (told,) = [
        text
        for text in decode_plan.plan(made, tokenizer, FACTS)["warnings"]
        if text.startswith("Nothing is evicted")
    ]
    assert told.endswith("the budget holds them." if holds else "no event comes within them.")


@pytest.mark.parametrize(
    "options", [{"n_beacon": 0}, {"selector": "recent"}, {"selector": "initial"}]
)
def test_a_method_without_beacons_that_are_renewed_has_none_that_stay(tokenizer, options):
    made = decode_runs.make(methods=[{"kind": "beacon"} | options])
    warnings = decode_plan.plan(made, tokenizer, FACTS)["warnings"]
    assert not any("renewed" in text for text in warnings)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        *[({"budget": 128}, True), ({"budget": 160}, False), ({"selector": "recent"}, False)],
        *[({"n_beacon": 0}, False), ({"when": "after_context"}, False)],
    ],
)
def test_a_sweep_says_that_beacons_are_renewed_at_events_alone(tokenizer, options, told):
    from engine.plan import plan

    memory = {"kind": "beacon", "budget": 128} | options
    made = plan(SweepSpec.from_dict({"memory": memory, "samples": 2}), tokenizer, FACTS)
    assert any("beacons are renewed at events alone" in text for text in made["warnings"]) == told


def test_a_measured_speed_takes_the_guess_s_place(tokenizer):
    spec = decode_runs.make()
    told = decode_plan.plan(spec, tokenizer, FACTS, speed=100.0)["estimate"]
    assert told["seconds"] == pytest.approx(15 * 406 / 100)
    assert told["speed_source"] == "measured here"


# ---- an evicting memory in a sweep


@pytest.mark.parametrize("name", sorted(evicting()))
def test_a_sweep_takes_a_memory_that_evicts(tokenizer, name):
    from engine.density import density
    from engine.plan import plan

    spec = SweepSpec.from_dict({"memory": {"kind": name, "budget": 120}, "samples": 2})
    made = plan(spec, tokenizer, FACTS)
    assert made["strip"]["shares"] is None
    assert made["strip"]["window"] is None
    assert made["strip"]["layers"] == [3, 3]
    assert density(spec) is None
    assert not any("nothing compressed is asked" in text for text in made["warnings"])
    idle = resident(spec.memory, 0, made["length"][1], "streamed").events == 0
    if spec.memory.when == "streamed":
        assert any("Nothing is evicted" in text for text in made["warnings"]) == idle


@pytest.mark.parametrize(
    ("less", "says"), [(1, "no event comes within"), (0, "the budget holds all")]
)
def test_a_sweep_without_an_event_says_whether_the_budget_holds_all(tokenizer, less, says):
    """Compressed once, behind a context that is shorter than the prompt."""
    from engine.plan import plan

    def made(budget):
        memory = {"kind": "snapkv", "preset": "original", "budget": budget}
        spec = {"memory": memory, "samples": 2, "modulus": 8}
        return plan(SweepSpec.from_dict(spec), tokenizer, FACTS)

    longest = made(120)["length"][1]
    (told,) = [x for x in made(longest - less)["warnings"] if x.startswith("Nothing is evicted")]
    assert told.startswith(f"Nothing is evicted: {says} ")


def test_a_sweep_s_report_says_so_too(tmp_path):
    here = comparing.Here(tmp_path)
    for stays, event in ((True, 4), (False, 32)):
        memory = {"kind": "beacon", "budget": 128, "event": event}
        spec = comparing.spec(0, memory=memory, modulus=8 if stays else 64)
        run = comparing.store_run(here.store, spec, comparing.curve(4, 0.2))
        told = here.engine.results.report(here.store.run(run))["warnings"]
        assert any("renewed at events alone" in text for text in told) == stays
    here.close()


def test_a_sweep_s_cost_counts_what_is_held_at_the_question(monkeypatch):
    from engine import costs
    from engine.models import loader

    monkeypatch.setattr(loader, "facts", lambda model: FACTS)
    spec = SweepSpec.from_dict({"memory": {"kind": "streaming", "budget": 32}})
    object.__setattr__(spec, "task", type("Task", (), {"places": 99})())
    told = costs.kv_bytes(spec)
    each = 2 * 3 * 2 * 8 * 4
    assert told == {"kv_bytes": 32 * each, "kv_bytes_full": 100 * each}


def test_a_huge_prompt_of_one_s_own_is_refused_before_it_is_tokenised():
    task = {"kind": "reasoning", "prompts": [{"prompt": "x" * 400_000, "answer": "7"}]}
    with pytest.raises(SpecError) as caught:
        decode_plan.plan(decode_runs.make(task=task), None, FACTS)
    (error,) = caught.value.errors
    assert error.field == "task.prompts"
    assert "about 100,000 tokens" in error.message


def test_one_s_own_prompts_are_the_samples(tokenizer):
    prompts = [{"prompt": "The code is 4829. " * n, "answer": "4829"} for n in (10, 12)]
    spec = decode_runs.make(task={"kind": "reasoning", "prompts": prompts}, budgets=[80])
    made = decode_plan.plan(spec, tokenizer, FACTS)
    low, high = made["length"]
    assert (spec.samples, made["copies"]) == (2, 6)
    assert low < made["prompt_tokens"] < high
