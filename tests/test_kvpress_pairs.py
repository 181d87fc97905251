"""Two evaluations of the same questions are compared row by row, and no others are."""

from __future__ import annotations

import numpy as np
import pytest
from test_kvpress import folder, metrics, ruler

from engine.kvpress.config import _removed
from engine.kvpress.files import read_folder
from engine.kvpress.pairs import difference, unpaired


def made(frame=None, told=None, **config):
    found = read_folder(folder(frame, told, **config))
    return found.rows.to_pandas(), found.spec.to_dict()


def test_the_same_questions_give_a_paired_difference():
    worse = ruler()
    worse.loc[[0, 2], "predicted_answer"] = "nothing"
    one, first = made(worse, metrics([0.0, 0.5, 0.0, 0.0]), press_name="knorm")
    other, second = made()
    found, why = difference(one, other, first, second)
    assert why == ""
    assert (found["diff"], found["n"]) == (-0.5, 4)
    assert found["value"] - found["base_value"] == pytest.approx(-0.5)
    assert found["low"] <= -0.5 <= found["high"]
    assert found["p"] == 0.5  # two of four differ, both the same way
    assert {t["task"]: t["diff"] for t in found["tasks"]}["qa_1"] == -1
    same, _ = difference(other, other, second, second)
    assert (same["diff"], same["p"]) == (0, 1)
    assert same["low"] < 0 < same["high"]


def test_a_small_true_difference_is_found_in_many_rows():
    rng = np.random.default_rng(0)
    one, spec = made()
    one = one.loc[one.index.repeat(100)].reset_index(drop=True)
    one["row"] = range(len(one))
    other = one.copy()
    one["score"], other["score"] = rng.random(400) < 0.6, rng.random(400) < 0.45
    one["score"], other["score"] = one["score"].astype(float), other["score"].astype(float)
    found, _ = difference(one, other, spec, spec)
    assert found["low"] > 0
    assert found["p"] < 0.01


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"dataset": "longbench-v2"}, "dataset differs"),
        ({"data_dir": "8192"}, "8192 and 4096"),
        ({"fraction": 0.2}, "fraction differs"),
        ({"seed": 7}, "seed differs"),
    ],
)
def test_other_questions_are_not_paired(config, why):
    one, first = made()
    other, second = made(**config)
    told = difference(other, one, second, first)
    assert told[0] is None
    assert why in told[1]


def test_other_rows_and_rows_without_scores_are_not_paired():
    one, first = made()
    assert "rows differ" in unpaired(one.iloc[:3], one, first, first)
    assert "rows differ" in unpaired(one.iloc[::-1].reset_index(drop=True), one, first, first)
    bare, second = made(told=metrics([1.0, 0.0, 0.0, 0.0]))
    assert "no scores" in unpaired(bare, one, second, first)
    assert unpaired(one, one, first, first | {"seed": 42}) == ""


@pytest.mark.parametrize("length", [7, 401, 1000, 4096, 131_072])
def test_the_ratio_that_is_written_keeps_the_budget_in_kvpress(length):
    for budget in {*range(1, length, max(1, length // 300)), length, length + 5}:
        ratio = _removed(budget, length)
        assert 0 <= ratio < 1
        assert int(length * (1 - ratio)) == min(budget, length)
    assert (_removed(256, 1024), _removed(8, 20)) == (0.75, 0.6)
