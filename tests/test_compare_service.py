"""Runs side by side over the service: baselines, refusals, and the rest where some do not pair."""

from __future__ import annotations

import json

import comparing
import numpy as np
import pytest
from comparing import N, curve, spec, store_run

from engine.client import NotFound, Refused

SPECS = {
    "w4s4": spec(4, 4),
    "w4s2": spec(4, 2),
    "w8s8": spec(8, 8, modulus=16),
    "seed": spec(4, 4, seed=1),
    "long": spec(4, 4, samples=2 * N),
    "other": spec(4, 4, task={"kind": "banner"}, protocol="lengthen"),
    "accuracy": spec(4, 4, measure="accuracy"),
    "half": spec(2, 2),
    "twin": spec(4, 4, batch=8),
    "full": spec(0),
    "lonely": spec(0, seed=5),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    found = comparing.Here(tmp_path_factory.mktemp("compare-home"))
    store = found.store
    control = store_run(store, SPECS["full"], curve(None, 0.9), asked=False, text="full")
    strides = {"w4s4": (4, 0.2), "w4s2": (2, 0.6), "accuracy": (4, 0.2), "twin": (4, 0.2)}
    for name, (stride, worst) in strides.items():
        store_run(store, SPECS[name], curve(stride, worst), control, text=name)
    store_run(store, SPECS["long"], curve(4, 0.4, 2 * N), control)
    half = {"status": "cancelled", "reason": "by you", "answers_expected": 10_000}
    store_run(store, SPECS["half"], curve(2, 0.5)[:10], control, code="0123456789ab", **half)
    for name in ("seed", "other"):
        own = store_run(store, SPECS[name].control, curve(None, 0.9), asked=False)
        store_run(store, SPECS[name], curve(4, 0.3, seed=1), own)
    store_run(store, SPECS["lonely"], curve(None, 0.9))
    store.remember(SPECS["w8s8"])
    sixteen = np.tile(curve(None, 0.9), 2)
    frame = np.where(np.arange(16) % 8 == 7, 0.1, sixteen)
    comparing.SIZE, before = 16, comparing.SIZE
    try:
        store_run(store, SPECS["w8s8"], frame)
    finally:
        comparing.SIZE = before
    yield found
    found.close()


def keys(*names: str) -> list[str]:
    return [SPECS[name].key for name in names]


def measure(made: dict, name: str) -> dict[str, dict]:
    (found,) = [m for m in made["measures"] if m["name"] == name]
    return {row["key"]: row for row in found["rows"]}


# ---- who stands beside whom


def test_the_control_that_all_share_is_the_baseline(here):
    made = here.client.compare(keys("w4s4", "w4s2"))
    base, first, second = made["runs"]
    assert made["base"] == base["key"] == SPECS["full"].key
    assert made["base_is_control"] is base["is_control"] is True
    assert base["of"] == first["key"] == SPECS["w4s4"].key
    assert [run["name"] for run in made["runs"]] == ["Full cache", "W4 S4", "W4 S2"]
    assert [run["subtitle"] for run in made["runs"]] == ["", "no overlap", "overlap"]
    assert (second["stride"], second["window"]) == (2, 4)
    answers = here.client.answers(base["of"], control=True)
    assert base["numbers"]["mean"] == pytest.approx(np.exp(answers["logprob"]).mean())


def test_one_run_stands_beside_its_control(here):
    made = here.client.compare(keys("w4s4"))
    assert [run["is_control"] for run in made["runs"]] == [True, False]
    row = measure(made, "worst")[SPECS["w4s4"].key]
    assert row["diff"] == pytest.approx(-0.7, abs=0.03)
    assert row["low"] < row["diff"] < row["high"] < -0.5
    assert made["finding"].startswith("W4 S4 loses .18 in the mean and .69 in the")
    assert made["adjusted"] == "Holm, 3 comparisons"


def test_the_control_is_a_run_like_others_where_it_was_asked_for(here):
    made = here.client.compare(keys("w4s2", "full"))
    assert made["base"] == SPECS["full"].key
    assert made["base_is_control"] is False
    assert [run["is_control"] for run in made["runs"]] == [False, False]


def test_a_baseline_can_be_chosen(here):
    made = here.client.compare(keys("w4s4", "w4s2"), SPECS["w4s2"].key)
    assert [run["key"] for run in made["runs"]] == keys("w4s2", "w4s4")
    named = here.client.compare(keys("w4s4", "seed"), SPECS["full"].key)
    assert (named["base_is_control"], named["runs"][0]["of"]) == (True, SPECS["w4s4"].key)


def test_without_a_shared_control_a_full_cache_is_the_baseline_or_else_the_first(here):
    made = here.client.compare(keys("w4s4", "lonely"))
    assert made["base"] == SPECS["lonely"].key
    assert here.client.compare(keys("seed", "w4s4"))["base"] == SPECS["seed"].key


def test_the_baseline_is_of_the_runs_whose_curves_most_share(here):
    made = here.client.compare(keys("other", "w4s4", "w4s2"))
    assert made["base"] == SPECS["full"].key
    assert made["axes"]["curve"]["keys"] == [SPECS["full"].key, *keys("w4s4", "w4s2")]
    assert "W4 S4, banner" in made["axes"]["curve"]["reason"]


# ---- numbers


def test_numbers_are_the_runs_own_reports(here):
    made = here.client.compare(keys("w4s4", "w4s2"))
    for run in made["runs"][1:]:
        shown, numbers = here.client.run(run["key"]), run["numbers"]
        assert numbers["mean"] == shown["mean"]
        assert numbers["worst"] == shown["worst_folded"]
        assert numbers["worst_phase"] == shown["worst_phase"]
        assert (numbers["gap"], numbers["gap_p"]) == (shown["folded_gap"], shown["gap_p"])
        assert (numbers["period"], numbers["period_p"]) == (
            *(shown["period"]["detected"], shown["period"]["p"]),
        )
        assert run["folded"] == shown["folded"]
        assert run["spectrum"] == shown["period"]["spectrum"]
        assert [r["value"] for r in run["residues"]] == [r["value"] for r in shown["residues"]]
        assert run["phrase"] == shown["phrase"]


def test_a_full_cache_is_read_with_the_grid_of_the_others(here):
    one = here.client.compare(keys("w4s4"))["runs"][0]
    assert len(one["folded"]) == 4
    assert one["numbers"]["worst_phase"] < 4
    two = here.client.compare(keys("w4s4", "w4s2"))
    base = two["runs"][0]
    assert base["folded"] == []
    assert base["numbers"]["worst"] == min(row["value"] for row in base["residues"])
    by_four = measure(two, "worst")[SPECS["w4s4"].key]
    assert by_four["base_value"] == pytest.approx(one["numbers"]["worst"])
    assert by_four["diff"] == pytest.approx(by_four["value"] - by_four["base_value"])


def test_differences_do_not_depend_on_the_company(here):
    alone, both = (here.client.compare(keys(*names)) for names in (["w4s4"], ["w4s2", "w4s4"]))
    for name in ("mean", "worst", "gap"):
        one, two = (measure(made, name)[SPECS["w4s4"].key] for made in (alone, both))
        assert {n: one[n] for n in ("diff", "low", "high", "p")} == {
            n: two[n] for n in ("diff", "low", "high", "p")
        }
        assert two["p_adjusted"] >= one["p_adjusted"]


def test_prompts_that_only_one_run_has_are_left_out_and_said(here):
    made = here.client.compare(keys("w4s4", "long"), SPECS["w4s4"].key)
    assert measure(made, "mean")[SPECS["long"].key]["n"] == N
    assert any(f"paired on the {N} of both" in text for text in made["warnings"])


def test_names_tell_twins_apart(here):
    made = here.client.compare(keys("w4s4", "twin", "accuracy"))
    found = [run["name"] for run in made["runs"]]
    assert found == ["W4 S4, joint, batch 4", "W4 S4, joint, batch 8", "W4 S4, accuracy, batch 4"]


def test_bytes_come_from_the_memorys_plan(here, smol):
    base, four, two = here.client.compare(keys("w4s4", "w4s2"))["runs"]
    assert base["kv_bytes"] > two["kv_bytes"] > four["kv_bytes"] > 0
    assert base["bytes_per_token"] == pytest.approx(base["kv_bytes"] / 200)


def test_rows_that_claim_long_prompts_have_no_bytes(here, smol, monkeypatch):
    monkeypatch.setattr("engine.comparing.lines.LONGEST", 199)
    for run in here.client.compare(keys("w4s4", "w4s2"))["runs"]:
        assert (run["kv_bytes"], run["bytes_per_token"]) == (None, None)


# ---- what is not compared


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("seed", "seed 1, and 0 in the baseline"),
        ("other", "task banner, and access code in the baseline"),
        ("accuracy", "measure accuracy, and joint probability in the baseline"),
        ("w8s8", "residues R 16, and 8 in the baseline"),
    ],
)
def test_runs_that_cannot_be_paired_say_which_field_and_the_rest_is_compared(here, name, field):
    made = here.client.compare(keys("w4s4", "w4s2", name), SPECS["w4s4"].key)
    for one in ("mean", "worst", "gap"):
        rows = measure(made, one)
        assert rows[SPECS[name].key]["reason"].startswith(field)
        assert rows[SPECS[name].key]["diff"] is None
        assert rows[SPECS["w4s2"].key]["p_adjusted"] is not None
    assert made["adjusted"] == "Holm, 3 comparisons"
    assert made["axes"]["pairs"]["keys"] == keys("w4s2")
    assert field in made["axes"]["pairs"]["reason"]
    assert any("is not paired" in text for text in made["warnings"])
    alone = here.client.compare(keys("w4s4", name), SPECS["w4s4"].key)
    assert alone["finding"] == "These runs cannot be paired"
    assert alone["axes"]["pairs"]["ok"] is False


def test_one_reason_is_told_once_and_several_by_reason(here):
    made = here.client.compare(keys("seed", "w4s4", "w4s2"), SPECS["seed"].key)
    assert made["doubt"] == "Seed 0, and 1 in the baseline."
    assert not [told for told in made["warnings"] if "paired" in told]
    made = here.client.compare(keys("seed", "w4s4", "w4s2", "other"), SPECS["seed"].key)
    told = [told for told in made["warnings"] if "paired" in told]
    assert len(told) == 2
    assert told[0].endswith(" are not paired: seed 0, and 1 in the baseline.")


def test_rows_of_a_run_that_was_stopped_are_counted_as_they_are(here):
    run = here.store.runs_of(SPECS["half"].key)[0]
    here.store.change(run.id, answers_stored=0)
    told = " ".join(here.client.compare(keys("w4s4", "half"))["warnings"])
    here.store.change(run.id, answers_stored=run.answers_stored)
    assert "80 of 10000 rows so far." in told


def test_charts_say_whom_they_leave_out(here):
    axes = here.client.compare(keys("w4s4", "w8s8", "other"), SPECS["w4s4"].key)["axes"]
    assert axes["curve"]["keys"] == keys("w4s4")
    assert "16 residues, not 8" in axes["curve"]["reason"]
    assert "task banner, not access code" in axes["curve"]["reason"]
    assert "another task" in axes["tokens"]["reason"]
    assert axes["attention"]["ok"] is True
    assert axes["timeline"] == {
        "ok": False,
        "reason": "only decode runs keep a timeline",
        "keys": [],
    }


def test_an_unfinished_and_a_stale_run_are_told(here):
    made = here.client.compare(keys("w4s4", "half"))
    told = " ".join(made["warnings"])
    assert "W2 S2 is incomplete: 80 of 10000 rows so far." in told or "is cancelled: 80" in told
    assert "W2 S2 is of other code" in told
    assert measure(made, "mean")[SPECS["half"].key]["n"] == 10
    assert "Not finished: W2 S2." in made["doubt"]


@pytest.mark.parametrize(
    ("asked", "base", "field", "words"),
    [
        ("", "", "keys", "is empty; give 2 to 8 runs"),
        (",".join(f"{i:012x}" for i in range(9)), "", "keys", "9 runs; at most 8"),
        ("w4s4,w4s4", "", "keys", "is there twice"),
        ("lonely", "", "keys", "alone has no control"),
        ("w4s4,w4s2", "seed", "base", "is none of the compared runs"),
        ("w4s4", "w4s4", "base", "is the one run asked for"),
    ],
)
def test_refusals_name_the_field(here, asked, base, field, words):
    known = {name: made.key for name, made in SPECS.items()}
    text = ",".join(known.get(part, part) for part in asked.split(","))
    answer = here.http.get("/compare", params={"keys": text, "base": known.get(base, base)})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["field"] == field
    assert words in error["message"]


def test_an_unknown_run_is_named(here):
    with pytest.raises(NotFound, match="0123456789ab"):
        here.client.compare([*keys("w4s4"), "0123456789ab"])
    with pytest.raises(NotFound):
        here.client.compare(["../x"])


def test_an_answer_is_json_without_nan(here):
    json.dumps(here.client.compare(keys("w4s4", "half", "w8s8")), allow_nan=False)


def test_a_run_whose_rows_grow_is_counted_again(here):
    """What is kept of a comparison must not outlive its rows."""
    grown = spec(4, 4, seed=9)
    control = store_run(here.store, grown.control, curve(None, 0.9), asked=False)
    probs = curve(4, 0.2)
    run = store_run(here.store, grown, probs[:5], control, status="running")
    assert measure(here.client.compare([grown.key]), "mean")[grown.key]["n"] == 5
    made = comparing.rows(probs)
    rest = made[made["sample"] >= 5]
    table = comparing.pa.Table.from_pandas(rest, comparing.ANSWERS, preserve_index=False)
    here.store.add(run, table, None)
    assert measure(here.client.compare([grown.key]), "mean")[grown.key]["n"] == N
    here.store.change(run, status="done")
    assert measure(here.client.compare([grown.key]), "mean")[grown.key]["n"] == N


def test_without_a_full_cache_the_runs_are_judged_among_each_other(here):
    made = here.client.compare(keys("w4s4", "w4s2"), SPECS["w4s4"].key)
    assert made["finding"].startswith("Overlap buys the worst phase: .60 against .20")
    assert made["finding"] == here.client.compare(keys("w4s4", "w4s2"))["finding"]


def test_a_run_whose_spec_is_no_longer_read_is_shown_and_not_paired(here):
    old = spec(4, 4, seed=12)
    store_run(here.store, old, curve(4, 0.2))
    with here.store.writing() as cursor:
        text = json.dumps(old.to_dict() | {"lost": 1})
        cursor.execute("update specs set spec = ? where key = ?", [text, old.key])
    for asked in ([*keys("w4s4"), old.key], [old.key, *keys("w4s4")]):
        made = here.client.compare(asked, asked[0])
        assert {row["reason"] for row in measure(made, "mean").values()} == {
            f"{old.key} is of an older version that is no longer read"
        }
        assert made["finding"] == "These runs cannot be paired"


def test_a_document_pair_has_a_mean_and_no_phases(here):
    specs = [spec(4, s, task={"kind": "document_pair"}, protocol="pair", modulus=2) for s in (4, 2)]
    comparing.SIZE, before = 2, comparing.SIZE
    try:
        for made, worst in zip(specs, (0.3, 0.5), strict=True):
            probs = np.clip(np.full((N, 2), worst) + 0.01 * np.arange(N)[:, None], 0.01, 0.99)
            store_run(here.store, made, probs)
    finally:
        comparing.SIZE = before
    made = here.client.compare([one.key for one in specs])
    assert measure(made, "mean")[specs[1].key]["diff"] == pytest.approx(0.2)
    assert measure(made, "gap")[specs[1].key]["reason"] == (
        "a document pair has two copies and no phases"
    )
    assert made["runs"][0]["numbers"]["worst"] is None
    assert made["finding"].startswith("W4 S2 gains .20 in the mean against W4 S4")


def test_a_run_that_was_deleted_is_gone(here):
    gone = spec(4, 4, seed=11)
    store_run(here.store, gone, curve(4, 0.2))
    assert here.client.compare([*keys("w4s4"), gone.key])
    here.client.delete(gone.key)
    with pytest.raises(NotFound, match=gone.key):
        here.client.compare([*keys("w4s4"), gone.key])


# ---- texts


def test_prompts_are_set_side_by_side_by_token(here):
    made = here.client.compare_text(*keys("w4s4", "w4s2"), sample=1, shift=2)
    assert made["a"] == [" 1", " 2", " 3", " w4s4", " 5", " 6"]
    assert [(op["op"], op["a"]) for op in made["ops"]] == [
        *(("equal", [0, 3]), ("replace", [3, 4]), ("equal", [4, 6])),
    ]
    assert here.client.compare_text(*keys("w4s4", "w4s4"))["ops"][0]["a"] == [0, 6]


@pytest.mark.parametrize(
    ("name", "place", "why"),
    [
        ("w4s2", {"sample": 999}, "has no sample 999 at shift 0"),
        ("long", {}, "stored no token rows"),
        ("w4s2", {"outputs": "worst"}, "has nothing written at its worst phase"),
    ],
)
def test_texts_that_are_not_there_are_a_reason(here, name, place, why):
    made = here.client.compare_text(*keys("w4s4" if name == "w4s2" else name, name), **place)
    assert (made["a"], made["ops"]) == ([], [])
    assert why in made["reason"]


def test_what_two_runs_wrote_is_set_side_by_side(here):
    for name, text in (("w4s4", "the code is 7"), ("w4s2", "the code was 7")):
        run = here.store.runs_of(SPECS[name].key)[0]
        here.store.change(run.id, written={"worst": {"phase": 3, "text": text}})
    made = here.client.compare_text(*keys("w4s4", "w4s2"), outputs="worst")
    assert [op["op"] for op in made["ops"]] == ["equal", "replace", "equal"]
    with pytest.raises(Refused, match="worst, best or decoded"):
        here.client.compare_text(*keys("w4s4", "w4s2"), outputs="middle")
    answer = here.http.get("/compare/text", params={"a": "x", "b": "x", "sample": -1})
    assert answer.status_code == 422
