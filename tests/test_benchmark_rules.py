"""The Benchmark page's sentences: each rule, and what keeps it from saying too much."""

from __future__ import annotations

import copy

import pytest
from made_family import FAMILY, members

from app.benchmark import claims, family, findings
from app.benchmark.failed import width_rows
from app.benchmark.recipe import recipe


@pytest.fixture
def every():
    return copy.deepcopy(list(members()))


def of(every: list[dict], *names: str) -> list[dict]:
    known = family.named(every)
    return [known[name] for name in names]


def set_period(member: dict, detected: int | None) -> None:
    member["numbers"]["period"]["detected"] = detected


def shown(every: list[dict], name: str) -> list[dict]:
    return family.shown(family.section(every, name))


# ---- sections


def test_each_section_begins_with_its_control(every):
    for name in family.SECTIONS:
        groups = family.section(every, name)
        assert family.full(groups[0].members[0]), name
        if name not in (family.SEEDS, family.HEADS):
            for group in groups:
                assert all(m["control"] in ("", group.members[0]["name"]) for m in group.members)


def test_variants_stand_behind_the_plain_memory_of_their_data(every):
    names = [m["name"] for m in shown(every, family.GATE)]
    assert names == ["full-sparse", "w8s8-sparse", "w8s8-uniform", "w8s8-vector"]
    names = [m["name"] for m in shown(every, family.REPAIRS)]
    assert names.index("w8s8-dense") < names.index("w8s8-staggered")
    assert names.index("w12s12") < names.index("w13s12")


def test_only_seeds_shows_more_than_one_seed(every):
    assert all(not m["seed"] for m in shown(every, family.GRID))
    assert sum(m["base"] == "w8s8-dense" for m in shown(every, family.SEEDS)) == 3


def test_a_variant_is_headed_by_its_plain_name_unless_only_another_seed_is_measured(every):
    plain, one, two = of(every, "w8s8-dense", "w8s8-dense-seed1", "w8s8-dense-seed2")
    plain["seed"], one["seed"] = 1, 0  # the plain name is the middle seed's
    assert family.heads_of([one, two, plain]) == [plain]
    plain["numbers"] = None
    assert family.heads_of([plain, two, one]) == [one]
    one["numbers"] = two["numbers"] = None
    assert family.heads_of([two, one, plain]) == [plain]
    assert of(every, "w8s8-dense")[0] in shown(every, family.GRID)


def test_a_variant_never_has_the_hue_of_what_it_is_compared_with(every):
    places = family.places(every)
    for member in every:
        other = family.twin(every, member)
        if other and member["group"] in ("gate", "rope", "payload", "repair"):
            assert places[member["name"]] % 5 != places[other["name"]] % 5, member["name"]
    assert places["w8s8-dense"] == places["w8s8-sparse"] == places["w8s8-dense-seed1"] == 0
    assert places["w8s8-uniform"] != places["w8s8-vector"]
    assert places["full-dense"] is None


def test_a_twin_has_the_same_data_heads_stride_and_seed(every):
    (repaired,) = of(every, "w8s8-staggered-seed2")
    assert family.twin(every, repaired)["name"] == "w8s8-dense-seed2"
    (wide,) = of(every, "w13s12-seed1")
    assert family.twin(every, wide)["name"] == "w12s12-seed1"


# ---- headline


def test_stride_not_window_needs_every_member_and_both_contrasts(every):
    own = of(every, "full-sparse", "w8s8-sparse", "w8s6", "w4s4", "w12s4", "w6s6")
    strong = "The period follows the stride, not the window"
    assert findings.headline(family.GRID, own) == strong
    # without a fixed stride at two windows
    less = [m for m in own if m["name"] not in ("w12s4", "w6s6")]
    assert findings.headline(family.GRID, less) == "All 3 memories repeat with their stride"
    # without a fixed window at two strides
    less = of(every, "full-sparse", "w4s4", "w12s4")
    assert findings.headline(family.GRID, less) == "All 2 memories repeat with their stride"
    # both contrasts, but one only between memories of different M
    apart = of(every, "full-sparse", "w8s8-dense", "w8s6", "w4s4", "w12s4")
    told = "All 4 memories repeat with their stride, over M = 24 and 40 records"
    assert findings.headline(family.GRID, apart) == told
    apart += of(every, "w8s8-sparse")
    assert findings.headline(family.GRID, apart) == f"{strong}, over M = 24 and 40 records"
    # one member that does not follow
    set_period(of(own, "w8s6")[0], None)
    assert findings.headline(family.GRID, own) == "4 of 5 memories repeat with their stride"
    # a member with W ≠ S that repeats with its window
    set_period(of(own, "w8s6")[0], 8)
    assert strong != findings.headline(family.GRID, own)
    assert "W8 S6 repeats every 8, not every 6." in findings.doubt(own)


def test_a_period_in_the_control_forbids_every_claim(every):
    own = of(every, "full-sparse", "w8s8-sparse", "w8s6")
    own[0]["numbers"]["period"] |= {"detected": 8, "p": 0.01}
    assert "shows in the full cache too" in findings.headline(family.GRID, own)
    assert "flat" not in findings.doubt(own)


def test_nothing_measured_is_no_finding(every):
    for member in every:
        member["numbers"] = None
    for name in family.SECTIONS:
        assert findings.headline(name, shown(every, name)) == findings.NOTHING_YET
    assert "not measured yet" in findings.doubt(shown(every, family.GRID))


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ((8, 6), "All 2 memories repeat with their stride"),
        ((8, None), "1 of 2 memories repeats with its stride"),
        ((None, None), "No period is resolved in 2 memories"),
        ((4, None), "None of 2 memories repeats with its stride"),
    ],
)
def test_counts_say_what_was_found(every, found, told):
    own = of(every, "w8s8-sparse", "w8s6")
    for member, detected in zip(own, found, strict=True):
        set_period(member, detected)
    assert findings.headline(family.GRID, own) == told


def test_gates_rope_heads_and_payloads(every):
    gate, rope = shown(every, family.GATE), shown(every, family.ROPE)
    assert findings.headline(family.GATE, gate) == "The period is there without a learned gate too"
    set_period(of(gate, "w8s8-uniform")[0], None)
    assert findings.headline(family.GATE, gate) == "2 of 3 gates repeat with their stride"
    assert findings.headline(family.ROPE, rope) == "The period stays without RoPE"
    set_period(of(rope, "w8s8-norope")[0], None)
    assert "without it no period is resolved" in findings.headline(family.ROPE, rope)
    set_period(of(rope, "w8s8-norope")[0], 4)
    assert findings.headline(family.ROPE, rope) == "Without RoPE the period is another"
    heads = shown(every, family.HEADS)
    assert "lift the mean from .58 to .88" in findings.headline(family.HEADS, heads)
    (many,) = of(heads, "w8s8-8kv")
    dense = copy.deepcopy(many) | {"records": 40}  # of another M: no contrast
    dense["numbers"]["mean"] = 0.1
    told = findings.headline(family.HEADS, [dense, *heads])
    assert told.endswith("from .58 to .88, and the period stays, over M = 32 and 40 records")
    many["numbers"]["mean_low"] = 0.5
    assert "do not lift the mean beyond" in findings.headline(family.HEADS, heads)
    payload = shown(every, family.PAYLOAD)
    assert findings.headline(family.PAYLOAD, payload) == "The period stays with all 2 payloads"


def test_repairs_are_counted_by_intervals(every):
    own = shown(every, family.REPAIRS)
    tail = "the worst residue (seed 0), over M = 32 and 40 records"
    assert findings.headline(family.REPAIRS, own) == f"2 of 3 repairs lift {tail}"
    of(own, "w13s12")[0]["numbers"]["worst_low"] = 0.01
    assert findings.headline(family.REPAIRS, own) == f"1 of 3 repairs lifts {tail}"
    alone = of(every, "full-dense", "w8s8-staggered")
    assert "twin beside it yet" in findings.headline(family.REPAIRS, alone)


def test_seeds_tell_their_spread(every):
    own = of(every, "w8s8-dense", "w8s8-dense-seed1")
    own[1]["numbers"]["mean"] = own[0]["numbers"]["mean"] - 0.08
    told = findings.headline(family.SEEDS, own)
    assert told == "Every seed repeats with its stride; the mean moves by up to .08 between seeds"
    set_period(own[1], None)
    assert findings.headline(family.SEEDS, own).startswith("1 of 2 trained seeds")


# ---- doubt


def test_doubt_tells_control_chance_and_what_is_not_sound(every):
    own = of(every, "full-dense", "w8s8-dense")
    told = findings.doubt(own)
    assert told.startswith(
        "The full cache is flat at .953 (gap .012, .03 by chance); a guess gives .016."
    )
    own[0]["training_accuracy"] = 0.87
    own[1]["stale"] = True
    own[1]["numbers"]["mean_low"] = 0.01
    told = findings.doubt(own)
    assert (
        "Controls below .90 in training, beside which a gap says little: Full, M = 40 (.87)."
        in told
    )
    assert "1 result is from an older code version." in told
    assert "is at chance: its gap says nothing" in told
    own[0]["numbers"] |= {"gap": 0.2, "gap_p": 0.001}
    assert "The full cache is at .953 (gap .200, .03 by chance)" in findings.doubt(own)


def test_context_counts_residues_prompts_and_parameters(every):
    told = findings.context(of(every, "full-dense", "w8s8-dense"))
    assert told == (
        "Controlled retrieval · 2 layers, 125k parameters · 24 residues, 192 prompts each"
    )


# ---- opened


def test_the_hole_and_the_inside_are_told_apart(every):
    (member,) = of(every, "w8s8-dense")
    report = member["numbers"]
    assert claims.opened("A", report, 8) == "A: the last offset is the hole, the rest is uneven too"
    for row in report["folded"][:-1]:
        row |= {"value": 0.9, "low": 0.88, "high": 0.92}
    assert claims.opened("A", report, 8) == "A: the last offset is the hole, the rest is even"
    report["folded"][-1] |= {"value": 0.9, "low": 0.88, "high": 0.92}
    assert claims.opened("A", report, 8) == f"A: {claims.lowered(report['finding'])}"
    report["folded"][2] |= {"value": 0.2, "low": 0.18, "high": 0.22}
    assert claims.opened("A", report, 8) == "A: the weakest offset is 2, inside the window"


@pytest.mark.parametrize(
    ("distance", "pairs", "told"),
    [
        (0.88, 0.23, "Depth and density do not explain it"),
        (0.01, 0.23, "Distance to the query goes with accuracy; pairs in the same window does not"),
        (0.5, 0.04, "Pairs in the same window goes with accuracy; distance to the query does not"),
        (0.01, 0.02, "Distance to the query and pairs in the same window go with accuracy"),
        (None, 0.2, "Depth and density do not explain it"),
        (None, None, "Depth and density: no rank correlation is defined"),
    ],
)
def test_depth_and_density(distance, pairs, told):
    assert claims.depth({"distance": {"p": distance}, "pairs": {"p": pairs}}) == told


def test_two_phases_must_rise_beyond_the_intervals():
    one = {"rule": "one run", "worst": 0.02, "worst_high": 0.06, "forwards": 1}
    two = {"rule": "agreement", "worst": 0.64, "worst_low": 0.57, "forwards": 2}
    assert "rises from .02 to .64" in claims.combined([one, two])
    assert "does not rise beyond" in claims.combined([one, two | {"worst_low": 0.05}])
    bare = claims.combined([one | {"worst_high": None}, two])
    assert bare.endswith("worst residue .02 with one run, .64 with two")
    assert claims.combined([one]) == "Two phases, one answer: not computed"


def test_two_phases_tell_their_chance_and_the_accuracy_elsewhere():
    row = {"rule": "one run", "chance": 0.25}
    told = claims.combined_note([row], {"residues": [{"accuracy": 0.5}, {"accuracy": 0.25}]})
    assert "a guess is right .250 of the time" in told
    assert "one run has .375 on average and .250 at its worst residue" in told
    assert "it has no worst one" in told
    old = claims.combined_note([{"rule": "one run"}], {})  # a report that was kept before
    assert "in all four rules alike." in old
    assert "vocabulary" not in old


# ---- explanations that fail


def test_the_boundary_alone(every):
    own = of(every, "w8s8-dense", "w12s12")
    assert "in all 2 memories" in claims.boundary_only(own)
    for row in own[1]["numbers"]["folded"]:
        row |= {"low": 0.0, "high": 1.0}
    assert "in 1 of 2 memories" in claims.boundary_only(own)
    for row in own[0]["numbers"]["folded"]:
        row |= {"low": 0.0, "high": 1.0}
    assert "may explain all of it" in claims.boundary_only(own)
    assert claims.boundary_only([]) == "The boundary: not measured yet"


def test_rope_and_gates_fail_only_where_the_period_stays(every):
    bare, plain, uniform = of(every, "w8s8-norope", "w8s8-sparse", "w8s8-uniform")
    assert claims.rope(bare, plain) == "Not RoPE: without it the period of 8 is there too"
    assert claims.gates(uniform, [plain]).startswith("Not the learned gate")
    set_period(bare, None)
    set_period(uniform, None)
    assert "may be part of the cause" in claims.rope(bare, plain)
    assert "may be part of the cause" in claims.gates(uniform, [plain])
    set_period(plain, None)
    assert "neither reading is settled" in claims.rope(bare, plain)
    assert "neither reading is settled" in claims.gates(uniform, [plain])
    assert claims.rope(None, plain) == "RoPE: not measured yet"
    assert claims.gates(None, []) == "Learned gates: not measured yet"


def test_the_width(every):
    at_window, at_stride = width_rows(every)
    assert [m["name"] for m in at_window] == ["w8s4", "w8s6", "w8s8-sparse"]
    assert {s: [m["name"] for m in own] for s, own in at_stride.items()} == {
        4: ["w4s4", "w8s4", "w12s4"],
        6: ["w6s6", "w8s6"],
        12: ["w12s12", "w13s12"],
    }
    told = claims.width(at_window, at_stride)
    assert told == (
        "The width is not settled: 2 of 3 repeat with S at W = 8, and 5 of 7 where only W differs "
        "(S = 4, 6 and 12)"
    )
    set_period(at_stride[12][1], 12)
    for member in at_stride[4]:
        set_period(member, None)
    told = claims.width(at_window, at_stride)
    settled = (
        "Not the width: at W = 8 the period is S (6 and 8), and at S = 6 and 12 no W changes it"
    )
    assert told == f"{settled}; at S = 4 none is resolved"
    without = {s: own for s, own in at_stride.items() if s != 4}
    assert claims.width(at_window[1:], without) == settled
    assert claims.width(at_window, without) == f"{settled}; at W8 S4 none is resolved"
    set_period(at_window[0], 8)  # the width's own period, at a stride of 4
    assert claims.width(at_window, at_stride).startswith("The width is not settled")
    assert claims.width(at_window[:1], at_stride) == "The width: not measured yet"
    assert claims.width(at_window, {}) == "The width: not measured yet"


# ---- coverage and repairs


def test_coverage(every):
    roles = claims.coverage_roles(every)
    assert list(roles) == ["zero", "all", "under"]
    assert claims.coverage(roles).endswith("training on all closes it")
    told = claims.coverage_line(roles)
    assert "constant mean of .500 was not found here: means are .384, .993 and .026" in told
    assert "near chance" in told
    assert "Its gap after phase 0 only was .500; here it is .99." in told
    roles["all"]["numbers"]["gap_p"] = 0.001
    assert claims.coverage(roles).endswith("training on all leaves .01")
    roles["zero"]["numbers"]["gap_p"] = 0.2
    assert claims.coverage(roles).startswith("Training coverage: a gap of .99 after phase 0 only")
    roles["zero"]["numbers"]["mean"] = 0.51
    assert "was not found" not in claims.coverage_line(roles)
    roles["zero"]["numbers"] = None
    assert claims.coverage(roles) == "Training coverage: not measured yet"


def test_repairs_a_seed(every):
    rows = claims.repair_rows(every)
    assert len(rows) == 9
    assert all(row["same_seed"] for row in rows)
    assert claims.repairs(rows) == (
        "Staggered windows and W\u00a0=\u00a0S\u00a0+\u00a01 lift the worst residue in every seed; "
        "even coverage (KL) in 0 of 3"
    )
    kl = [row for row in rows if row["group"].startswith("even")]
    assert claims.repairs(kl).startswith("No repair lifts the worst residue in every seed")
    kl[0]["after_mean_high"] = 0.1
    assert "The mean falls in 1 pair (even coverage (KL))." in claims.repairs_line(kl)
    assert claims.repairs([]) == "Repairs: not measured yet"


# ---- the form's spec


def test_a_recipe_names_the_trained_memory_and_the_full_model_of_its_shape():
    models = [
        {"name": "w8s8", "controlled": True, "window": 8, "control": "full"},
        {"name": "full", "controlled": True, "window": None, "control": ""},
    ]
    asked = {"model": "w8s8", "memory": None, "task": {"kind": "pairs", "records": 24}}
    asked |= {"protocol": "in_sequence", "modulus": 24, "samples": 8, "measure": "accuracy"}
    spec = recipe({"models": models}, asked)
    assert spec["memory"] == {"kind": "trained"}
    assert spec["control"] == {"model": {"id": "full"}, "memory": {"kind": "full"}}
    assert recipe({"models": models}, asked | {"model": "full"})["memory"] == {"kind": "full"}
    other = recipe({"models": models}, asked | {"model": "x/y", "memory": {"kind": "pooled"}})
    assert other["memory"] == {"kind": "pooled"}
    assert "control" not in other


def test_the_made_family_has_every_group():
    assert {row[2] for row in FAMILY} == {*family.GROUPS.values(), "control", "repair", "coverage"}


def test_one_full_cache_of_several_may_have_a_period_by_chance(every):
    own = of(every, "full-sparse", "full-dense", "w8s8-sparse", "w8s6")
    own[0]["numbers"]["period"] |= {"detected": 8, "p": 0.045}
    assert "shows in the full cache too" not in findings.headline(family.GRID, own)
    assert "has a period of 8, which is none once corrected for 2 tests." in findings.doubt(own)
    own[0]["numbers"]["period"]["p"] = 0.02
    assert "shows in the full cache too" in findings.headline(family.GRID, own)
