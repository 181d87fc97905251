"""Decode runs side by side: method by method against its like, on the same prompts and tokens."""

from __future__ import annotations

import comparing
import decode_runs
import made_decode
import numpy as np
import pytest
from comparing import curve, spec, store_run
from made_decode import arm, full

from engine.analysis.compare_decode import Rows, differences, like, name
from engine.analysis.eviction_pairs import sign_flip


def run(nll: np.ndarray, arms: list[dict], right: np.ndarray | None = None, **more) -> Rows:
    """Rows of a run with NLL [A, S, K] and answers [A, S, Q]."""
    right = np.ones((len(arms), nll.shape[1], 1)) if right is None else right
    options = {"seed": 0, "free": False} | more
    return Rows(made_decode.steps(nll), made_decode.answers(right), arms, **options)


ARMS = [full(), arm(1, "rkv", 96), arm(2, "beacon", 96), arm(3, "rkv", 128)]
NLL = np.random.default_rng(0).normal(2, 0.3, (4, 7, 5))


# ---- which method stands against which


def test_a_method_stands_against_its_like():
    same = like(arm(9, "rkv", 96), ARMS)
    assert same["index"] == 1
    assert like(arm(9, "snapkv", 128), ARMS)["index"] == 3  # the only one of that budget
    assert like(arm(9, "snapkv", 96), ARMS)["index"] == 0  # two have it: the full cache
    assert like(arm(9, "snapkv", 64), ARMS)["index"] == 0
    assert like(full(), ARMS)["index"] == 0
    assert like(arm(9, "snapkv", 64), [arm(1), arm(2, "beacon")]) is None
    assert (name(full()), name(arm(1, "rkv", 96))) == ("full cache", "rkv 96")


# ---- the numbers


def test_differences_are_those_of_a_loop():
    first, second = run(NLL, ARMS), run(NLL + 0.1 * np.arange(4)[:, None, None], ARMS)
    rows = {row["label"]: row for row in differences(second, first)["nll"]}
    assert list(rows) == ["full cache", "rkv 96", "beacon 96", "rkv 128"]
    for k, label in enumerate(rows):
        row = rows[label]
        if k == 0:
            assert (row["diff"], row["reason"]) == (
                None,
                "the same answers in both runs, prompt by prompt",
            )
            continue
        change = np.array([np.mean(NLL[k, s] + 0.1 * k) - np.mean(NLL[k, s]) for s in range(7)])
        assert row["diff"] == pytest.approx(change.mean()) == pytest.approx(0.1 * k)
        assert row["p"] == pytest.approx(sign_flip(change)) == pytest.approx(2 / 2**7)
        assert row["n"] == 7
        assert (row["arm"], row["base_arm"], row["base_label"]) == (k, k, label)


def test_a_run_alone_stands_against_its_own_full_cache():
    found = differences(run(NLL, ARMS), None)
    assert [row["label"] for row in found["nll"]] == ["rkv 96", "beacon 96", "rkv 128"]
    assert {row["base_label"] for row in found["nll"]} == {"full cache"}
    assert found["nll"][0]["diff"] == pytest.approx((NLL[1] - NLL[0]).mean())


def test_other_tokens_and_texts_of_ones_own_are_not_compared():
    first, second = run(NLL, ARMS), run(NLL + 1, ARMS)
    other = second._replace(steps=second.steps.assign(token_id=second.steps["token_id"] + 1))
    for row in differences(other, first)["nll"]:
        assert row["reason"] == "no prompt in which both scored the same tokens"
    for row in differences(second, first._replace(free=True))["nll"]:
        assert row["reason"] == "each method wrote a text of its own"
    right = np.random.default_rng(1).integers(0, 2, (4, 7, 3)).astype(float)
    asked = differences(run(NLL, ARMS, right, free=True), run(NLL, ARMS, 1 - right))["recall"]
    assert asked[1]["diff"] == pytest.approx((2 * right[1] - 1).mean())


# ---- over the service


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    found = comparing.Here(tmp_path_factory.mktemp("decode-home"))
    store_run(found.store, spec(4, 4), curve(4, 0.2))
    for made in (decode_runs.make(), other(), decode_runs.make(seed=3)):
        decode_runs.fill(found.store, made)
    yield found
    found.close()


def other():
    return decode_runs.make(methods=[{"kind": "beacon"}], budgets=[80])


def measure(made: dict, name: str) -> list[dict]:
    return next(m["rows"] for m in made["measures"] if m["name"] == name)


def test_decode_runs_compare_by_nll_and_recall(here):
    first, second = decode_runs.make().key, other().key
    made = here.client.compare([first, second])
    assert made["base"] == first
    assert [m["name"] for m in made["measures"]] == ["nll", "recall"]
    labels = [
        (row["label"].split(",")[0], row["base_label"].split(",")[0])
        for row in measure(made, "nll")
    ]
    assert labels[1][0].startswith("beacon")
    base, run = made["runs"]
    assert len(base["arms"]) == 5
    assert base["numbers"]["nll"] is None  # four methods have no one number
    assert run["numbers"]["nll"] == run["arms"][1]["nll"] > run["arms"][0]["nll"]
    assert run["bytes_per_token"] == pytest.approx(800 / 406)
    assert base["name"] != run["name"]
    assert made["axes"]["timeline"]["ok"] is True
    assert made["axes"]["curve"]["reason"] == "a decode run has no phases"
    assert made["finding"] == "3 prompts tell no method from its baseline"


def test_runs_that_computed_the_same_are_said_to_be_alike(here):
    alike = decode_runs.make(batch=3)
    decode_runs.fill(here.store, alike)
    made = here.client.compare([decode_runs.make().key, alike.key])
    assert made["finding"] == "These runs give the same answers"
    assert made["adjusted"] == "Holm, 0 comparisons"


def test_one_decode_run_stands_against_its_own_full_cache(here):
    made = here.client.compare([decode_runs.make().key])
    assert len(made["runs"]) == 1
    rows = measure(made, "nll")
    assert len(rows) == 4
    assert {row["base_label"] for row in rows} == {"full"}
    assert rows[0]["diff"] == pytest.approx(0.1)
    assert made["adjusted"] == "Holm, 8 comparisons"


def test_other_prompts_are_no_pair(here):
    made = here.client.compare([decode_runs.make().key, decode_runs.make(seed=3).key])
    (row,) = measure(made, "nll")
    assert row["reason"] == "seed 3, and 0 in the baseline"
    assert made["finding"] == "These runs cannot be paired"


def test_a_sweep_and_a_decode_run_share_no_measure(here):
    made = here.client.compare([decode_runs.make().key, spec(4, 4).key, other().key])
    assert [m["name"] for m in made["measures"]] == ["mean", "worst", "gap", "nll", "recall"]
    reasons = {row["reason"] for row in measure(made, "mean")}
    assert reasons == {"a decode run and a sweep share no measure"}
    assert any(row["p"] for row in measure(made, "nll"))
    swept = here.client.compare([spec(4, 4).key, other().key])
    assert swept["finding"] == "These runs cannot be paired"
    assert swept["runs"][1]["residues"] == []


def test_a_decode_run_has_no_prompt_rows_and_no_model_card(here):
    key = other().key
    made = here.client.compare_text(key, spec(4, 4).key)
    assert "is a decode run, which stores no prompt's tokens" in made["reason"]
    answer = here.http.get(f"/runs/{key}/model_card")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "kind")


def test_what_two_methods_wrote_is_told_apart_by_its_tokens(here):
    first, second = decode_runs.make().key, other().key
    same = here.client.compare_text(first, second, "decoded", sample=1, arm_a=0, arm_b=1)
    assert same["a"] == [f" t{i}" for i in range(6)] == same["b"]
    assert [op["op"] for op in same["ops"]] == ["equal"]
    tables = decode_runs.tables(other(), 1, [2])
    rows = tables["decode_steps"].to_pylist()
    rows[3] |= {"token_id": 7, "text": " seven"}
    changed = tables | {"decode_steps": tables["decode_steps"].from_pylist(rows)}
    run = here.store.runs_of(second)[0]
    here.store.add_decode(run.id, 1, [2], changed)
    made = here.client.compare_text(second, second, "decoded", sample=2, arm_a=0, arm_b=1)
    assert made["ops"][1] == {"op": "replace", "a": [3, 4], "b": [3, 4]}
    assert made["b"][3] == " seven"


def test_a_text_that_is_not_there_says_which(here):
    key = other().key
    told = here.client.compare_text(key, key, "decoded", sample=0, arm_a=0, arm_b=9)
    assert told["reason"] == f"{key} has no prompt 1 under its method 9"
    told = here.client.compare_text(key, spec(4, 4).key, "decoded")
    assert told["reason"] == f"{spec(4, 4).key} is no decode run"
