"""Imported evaluations side by side: paired by question, beside runs of other kinds, and refused
where phases are needed."""

from __future__ import annotations

import comparing
import decode_runs
import numpy as np
import pandas as pd
import pytest
from comparing import curve, spec, store_run
from test_compare_words import made as comparison
from test_compare_words import row, run
from test_kvpress import folder, metrics, ruler

from engine.analysis.compare_words import NO_PHASES, label, say
from engine.client import Refused
from engine.kvpress.pairs import difference

SEVERAL = 12  # times that the four questions are asked
ELSEWHERE = "computed elsewhere, no phases"
MIXED = "an import from kvpress and a sweep share no measure"


def asked(right: int) -> tuple[pd.DataFrame, dict]:
    """48 questions, 12 a task; those of the first task right in so many of 12."""
    frame = pd.concat([ruler()] * SEVERAL, ignore_index=True)
    rows = np.flatnonzero(frame["task"] == "niah_single_1")
    frame.loc[rows[right:], "predicted_answer"] = "nothing"
    return frame, metrics([right / SEVERAL, 0.5, 1.0, 0.0])


FOLDERS = {
    "full": folder(*asked(12), press_name="no_press"),
    "knorm": folder(*asked(2), press_name="knorm"),
    "snapkv": folder(*asked(11), press_name="snapkv"),
    "other model": folder(*asked(3), press_name="knorm", model="other/model"),
    "longer": folder(*asked(5), press_name="knorm", data_dir="8192"),
    "bare": folder(told=metrics([1.0, 0.0, 0.0, 0.0]), press_name="tova"),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    found = comparing.Here(tmp_path_factory.mktemp("compare-kvpress"))
    found.keys = {n: found.client.import_kvpress(dict(f))["key"] for n, f in FOLDERS.items()}
    control = store_run(found.store, spec(0), curve(None, 0.9), asked=False)
    for name, (window, worst) in {"w4s4": (4, 0.2), "w4s2": (2, 0.6)}.items():
        store_run(found.store, spec(4, window), curve(window, worst), control)
        found.keys[name] = spec(4, window).key
    decode = decode_runs.make()
    decode_runs.fill(found.store, decode)
    found.keys["decode"] = decode.key
    yield found
    found.close()


def compared(here, *names: str, base: str = "") -> dict:
    return here.client.compare([here.keys[n] for n in names], here.keys[base] if base else None)


def measure(made: dict, name: str) -> dict[str, dict]:
    found = next(m["rows"] for m in made["measures"] if m["name"] == name)
    return {row["key"]: row for row in found}


# ---- imports among themselves


def test_imports_are_paired_by_question_against_what_keeps_all(here):
    made = compared(here, "knorm", "snapkv", "full")
    assert (made["base"], made["base_is_control"]) == (here.keys["full"], False)
    assert [r["name"] for r in made["runs"]] == [
        "Full cache",
        "knorm, 50 % removed",
        "snapkv, 50 % removed",
    ]
    assert [m["name"] for m in made["measures"]] == ["mean"]
    assert made["measures"][0]["label"] == "mean score"
    rows = measure(made, "mean")
    frames = {
        n: here.store.predictions(here.engine.results.pick(here.keys[n]).id).to_pandas()
        for n in ("full", "knorm")
    }
    specs = {n: here.store.spec(here.keys[n]) for n in frames}
    own, _ = difference(frames["knorm"], frames["full"], specs["knorm"], specs["full"])
    told = rows[here.keys["knorm"]]
    assert {n: told[n] for n in own} == own
    assert told["diff"] == pytest.approx(-10 / 48)
    assert (told["n"], told["resolved"], told["p_adjusted"] >= told["p"]) == (48, True, True)
    assert rows[here.keys["snapkv"]]["resolved"] is False
    assert made["adjusted"] == "Holm, 2 comparisons"
    assert made["warnings"] == []


def test_what_an_import_is_told_with(here):
    full, knorm = compared(here, "full", "knorm")["runs"]
    assert (knorm["kind"], knorm["stale"], knorm["measure"]) == ("kvpress", False, "score")
    assert knorm["task"] == "ruler"
    assert knorm["n_samples"] == 48
    assert knorm["numbers"]["mean"] == pytest.approx(full["numbers"]["mean"] - 10 / 48)
    assert knorm["numbers"]["mean_low"] < knorm["numbers"]["mean"] < knorm["numbers"]["mean_high"]
    assert knorm["numbers"]["worst"] is knorm["kv_bytes"] is knorm["stride"] is None
    assert knorm["residues"] == knorm["folded"] == knorm["spectrum"] == knorm["arms"] == []
    assert {t["task"]: t["score"] for t in knorm["tasks"]}["niah_single_1"] == pytest.approx(2 / 12)


def test_settings_differ_by_press_and_the_digest_of_numbers_is_none(here):
    fields = {f["field"]: f for f in compared(here, "full", "knorm")["fields"]}
    assert fields["press.name"]["values"] == ["no_press", "knorm"]
    assert fields["press.name"]["label"] == "Press"
    assert {name for name, f in fields.items() if f["differs"]} == {
        "press.name",
        "press.compression_ratio",
    }
    names = [r["name"] for r in compared(here, "knorm", "longer", "other model")["runs"]]
    assert len(set(names)) == 3
    assert not any("results" in name for name in names)


def test_no_chart_has_an_import_and_pairs_have(here):
    axes = compared(here, "full", "knorm", "longer")["axes"]
    for name in ("curve", "residues", "spectrum", "tokens", "attention", "timeline"):
        assert axes[name] == {"ok": False, "reason": ELSEWHERE, "keys": []}
    assert axes["pairs"]["keys"] == [here.keys["knorm"]]


def test_other_questions_and_rows_without_scores_are_said(here):
    made = compared(here, "full", "longer", "bare", "knorm")
    rows = measure(made, "mean")
    assert rows[here.keys["longer"]]["reason"] == "data_dir differs: 8192 and 4096"
    assert "rows differ" in rows[here.keys["bare"]]["reason"]
    assert rows[here.keys["knorm"]]["p"] is not None
    told = " ".join(made["warnings"])
    assert "is not paired: data_dir differs" in told
    assert made["finding"].endswith("in the mean score against the full cache")
    assert compared(here, "bare", "full")["finding"] == "These runs cannot be paired"


def test_the_baseline_can_be_chosen_and_one_import_alone_is_refused(here):
    made = compared(here, "full", "knorm", base="knorm")
    assert made["runs"][0]["key"] == here.keys["knorm"]
    assert measure(made, "mean")[here.keys["full"]]["diff"] > 0
    for base in ("", "knorm"):
        with pytest.raises(Refused, match="second"):
            compared(here, "knorm", base=base)
    with pytest.raises(Refused, match="none of the compared runs"):
        compared(here, "full", "snapkv", base="knorm")


# ---- among other kinds


def test_a_sweep_among_imports_is_left_out_with_its_reason(here):
    made = compared(here, "w4s4", "knorm", "full")
    assert made["base"] == here.keys["full"]
    rows = measure(made, "mean")
    assert rows[here.keys["w4s4"]]["reason"] == MIXED
    assert rows[here.keys["knorm"]]["p"] is not None
    assert made["measures"][0]["label"] == "mean score"
    assert "against the full cache" in made["finding"]
    assert any(MIXED in told for told in made["warnings"])
    assert measure(made, "worst")[here.keys["knorm"]]["reason"] == ELSEWHERE
    assert len(made["runs"][1]["residues"]) == 8
    assert made["axes"]["curve"]["keys"] == [here.keys["w4s4"]]


def test_an_import_among_sweeps_is_left_out_with_its_reason(here):
    made = compared(here, "knorm", "w4s4", "w4s2")
    assert made["base_is_control"]
    assert made["base"] == spec(0).key
    rows = measure(made, "worst")
    assert rows[here.keys["knorm"]]["reason"] == MIXED
    assert rows[here.keys["w4s4"]]["resolved"]
    assert "worst phase" in made["finding"]
    name = next(r["name"] for r in made["runs"] if r["key"] == here.keys["knorm"])
    assert f"{name} is not paired: {MIXED}." in made["warnings"]
    assert made["axes"]["curve"]["reason"] == f"{name}: {ELSEWHERE}"


def test_all_three_kinds_at_once(here):
    for order in (("decode", "w4s4", "knorm"), ("knorm", "decode", "w4s4"), ("decode", "knorm")):
        made = compared(here, *order)
        assert {r["key"] for r in made["runs"]} == {here.keys[n] for n in order}
        reasons = {r["reason"] for m in made["measures"] for r in m["rows"]} - {""}
        assert reasons <= {
            MIXED,
            "a decode run and an import from kvpress share no measure",
            "a decode run and a sweep share no measure",
        }
        assert made["finding"] == "These runs cannot be paired"


# ---- what needs phases


def test_a_model_card_a_gate_and_token_rows_are_refused_in_a_sentence(here):
    key = here.keys["knorm"]
    for path in ("model_card", "gate?worst=0.5"):
        answer = here.http.get(f"/runs/{key}/{path}")
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "kind")
        assert "phases" in answer.json()["errors"][0]["message"]
    assert "import from kvpress" in here.client.compare_text(key, here.keys["full"])["reason"]
    made = here.client.vary(here.store.spec(key), "press.compression_ratio", [0.25])
    assert "kvpress computes these" in str(made["specs"][0]["errors"])


# ---- the sentence


KEPT = run("Full cache", kind="kvpress")


def told(*others: tuple[dict, float, bool], fields: tuple = (), n: int = 192) -> tuple[str, str]:
    runs = [one for one, _, _ in others]
    lines = [row(one, diff, sure, n) for one, diff, sure in others]
    made = comparison(runs, {"mean": lines}, KEPT) | {"fields": list(fields)}
    return say(made)


def test_one_import_loses_gains_or_is_not_told_apart():
    press = run("knorm, 50 % removed", kind="kvpress")
    assert told((press, -0.14, True)) == (
        "Knorm, 50 % removed loses .14 in the mean score against the full cache",
        NO_PHASES,
    )
    assert told((press, 0.14, True))[0].startswith("Knorm, 50 % removed gains .14 in the mean")
    finding, doubt = told((press, -0.05, False))
    assert finding == "Knorm, 50 % removed and the full cache are not told apart by 192 questions"
    assert doubt == f"The mean score may differ by −.15 to .05. {NO_PHASES}"
    assert "3 questions cannot show a difference" in told((press, -0.05, False), n=3)[1]


def test_several_imports():
    one, two = (run(f"{name}, 50 % removed", kind="kvpress") for name in ("knorm", "tova"))
    finding, doubt = told((one, -0.3, True), (two, -0.1, True))
    assert finding == "Both lose in the mean score against the full cache, .30 at most"
    assert doubt == NO_PHASES
    assert "of the others it is not shown" in told((one, -0.3, True), (two, -0.1, False))[0]
    finding, _ = told((one, -0.01, False), (two, -0.01, False))
    assert finding == "192 questions tell none of these runs from the full cache"


def test_what_differs_besides_the_press_is_said():
    press = run("knorm, 50 % removed", kind="kvpress")
    fields = [
        {"field": "press.name", "label": "Press", "values": ["no_press", "knorm"]},
        {"field": "model.id", "label": "Model", "values": ["a", "b"]},
        {"field": "fp8", "label": "FP8 weights", "values": [True, False]},
        {"field": "seed", "label": "Seed", "values": [1, 2]},
        {"field": "task.kind", "label": "Task", "values": ["ruler", "ruler"]},
    ]
    _, doubt = told((press, -0.14, True), fields=fields)
    assert doubt == f"Not the press alone differs: model and FP8 weights too. {NO_PHASES}"


def test_another_model_is_no_matter_of_the_press(here):
    made = compared(here, "full", "other model")
    assert "Not the press alone differs: model too." in made["doubt"]
    assert label("mean", "score") == "mean score"


# ---- very many rows


def test_very_many_rows_take_no_memory_of_every_sign(here):
    run_id = here.engine.results.pick(here.keys["full"]).id
    frame = here.store.predictions(run_id).to_pandas()
    values = here.store.spec(here.keys["full"])
    many = pd.concat([frame] * 2000, ignore_index=True).assign(row=lambda f: range(len(f)))
    rng = np.random.default_rng(0)
    other = many.assign(score=(rng.random(len(many)) < 0.66).astype(float))
    found, _ = difference(other, many, values, values)
    assert found["n"] == 96_000
    assert found["low"] < found["diff"] < found["high"]
    assert found["p"] < 0.001
    few = many.assign(score=many["score"].where(many["row"] > 2, 0.0))
    found, _ = difference(few, many, values, values)
    assert found["p"] >= 0.25  # two or three of so many differ: that can be chance
