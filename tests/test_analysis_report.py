"""The report of a sweep from its rows: identities, unfinished runs, every protocol, time."""

from __future__ import annotations

import json
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import hole, rows

from engine.analysis.report import report
from engine.rows import ANSWERS

MEASURES = ("joint", "accuracy", "token")


def noisy(level: np.ndarray, n: int, seed: int = 0, spread: float = 0.05) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(0, spread, (n, len(level)))
    return np.clip(level + noise, 0.02, 0.98)


def made(answers, control=None, **options) -> dict:
    given_ = {"modulus": 16, "strides": (4,), "window": 4, "measure": "joint", "protocol": "outer"}
    return report(answers, control, **(given_ | options))


@pytest.fixture(scope="module")
def clear() -> dict:
    answers = rows(noisy(hole(16, 4, 0.5), 12))
    control = rows(noisy(np.full(16, 0.8), 12, seed=1, spread=0.02))
    return made(
        answers, control, chance=0.1, note="Expected.", noise_floor=1e-4, adjacent_pairs=True
    )


def test_a_clear_hole_is_found_and_the_control_is_not(clear):
    assert clear["period"]["detected"] == clear["period"]["configured"] == 4
    assert clear["period"]["p"] < 0.01
    assert clear["gap_p"] < 0.01
    assert clear["control"]["period"]["detected"] is None
    assert clear["control"]["gap_p"] > 0.05
    assert clear["finding"].startswith("Every fourth token the answer fades: .30 at phase 0")
    assert clear["doubt"].endswith("a guess scores .10. Expected.")
    assert clear["warnings"] == []


def test_numbers_agree_with_the_rows(clear):
    probs = noisy(hole(16, 4, 0.5), 12)
    curve = probs.mean(axis=0)
    assert [row["value"] for row in clear["residues"]] == pytest.approx(curve)
    assert clear["mean"] == pytest.approx(curve.mean())
    assert clear["worst"] == pytest.approx(curve.min())
    assert clear["worst_residue"] == int(curve.argmin())
    assert clear["gap"] == pytest.approx(curve.max() - curve.min())
    assert clear["sigma"] == pytest.approx(curve.std())
    assert clear["relative_gap"] == pytest.approx(clear["gap"] / clear["mean"])
    folds = [curve[f::4].mean() for f in range(4)]
    assert [row["value"] for row in clear["folded"]] == pytest.approx(folds)
    assert clear["folded_gap"] == pytest.approx(max(folds) - min(folds))
    assert clear["worst_folded"] == pytest.approx(min(folds))
    assert clear["best_phase"] == int(np.argmax(folds))
    assert clear["within_gap"] == pytest.approx(max(folds[:3]) - min(folds[:3]))
    assert clear["boundary"] == pytest.approx(folds[3])
    assert clear["folded_gap_low"] < clear["folded_gap"] < clear["folded_gap_high"]
    assert clear["gap_null"] < clear["folded_gap"]
    for row in clear["residues"] + clear["folded"]:
        low, high = row.get("value_low", row["low"]), row.get("value_high", row["high"])
        assert low < row["value"] < high


def test_within_and_boundary_need_one_grid_of_adjacent_windows_and_pairs():
    answers = rows(noisy(hole(24, 4, 0.5), 3))
    for options in (
        {"adjacent_pairs": False},
        {"adjacent_pairs": True, "window": 8},
        {"adjacent_pairs": True, "strides": (4, 8), "window": 8},
    ):
        result = made(answers, modulus=24, **options)
        assert result["within_gap"] is result["boundary"] is None
    assert made(answers, modulus=24, adjacent_pairs=True)["boundary"] is not None


def test_strides_of_several_layers_fold_at_their_multiple():
    result = made(rows(noisy(hole(24, 12, 0.5), 6)), modulus=24, strides=(4, 6, 6), window=6)
    assert result["period"]["configured"] == 12
    assert len(result["folded"]) == 12


@pytest.mark.parametrize("measure", MEASURES)
def test_the_report_is_plain_json_and_repeats(measure):
    answers = rows(noisy(hole(16, 4, 0.5), 4), tokens=3)
    one, two = (made(answers, answers, measure=measure) for _ in range(2))
    assert json.dumps(one, allow_nan=False) == json.dumps(two, allow_nan=False)
    assert [len(token["folded"]) for token in one["tokens"]] == [4, 4, 4]
    other = made(answers.sample(frac=1, random_state=1), answers, measure=measure)
    assert other == one


def test_measure_says_what_the_numbers_are_of():
    answers = rows(noisy(hole(16, 4, 0.6), 5), tokens=2)
    accuracy = made(answers, measure="accuracy")
    assert {row["value"] for row in accuracy["residues"]} <= {i / 5 for i in range(6)}
    row = accuracy["residues"][0]
    assert (row["value"], row["value_low"]) == (row["accuracy"], row["low"])
    assert accuracy["residues"][0]["gold_prob"] == pytest.approx(
        made(answers)["residues"][0]["value"]
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 200), st.sampled_from(MEASURES), st.integers(0, 5))
def test_a_run_at_work_never_crashes(kept, measure, seed):
    """Any number of its rows, in any order, its control behind it."""
    answers = rows(noisy(hole(16, 4, 0.5), 3), tokens=2)
    some = answers.sample(frac=1, random_state=seed).iloc[: min(kept, len(answers))]
    result = made(some, answers.iloc[: kept // 3], measure=measure)
    assert len(result["residues"]) == 16
    whole = sum(len(part) == 16 for _, part in some.groupby("sample"))
    assert result["n_complete"] == whole
    assert any("left out" in w and "Control" not in w for w in result["warnings"]) == (
        whole < some["sample"].nunique()
    )
    json.dumps(result, allow_nan=False)


def test_incomplete_samples_are_left_out_of_the_tests_only():
    answers = rows(noisy(hole(16, 4, 0.5), 6))
    partial = made(answers.iloc[:-5])
    alone = made(answers[answers["sample"] < 5])
    assert partial["period"] == alone["period"]
    assert partial["gap_p"] == alone["gap_p"]
    assert partial["residues"][0]["n"] == 6
    assert partial["warnings"] == ["1 of 6 prompts lacks residues and is left out of the tests."]


def test_no_rows_at_all():
    empty = ANSWERS.empty_table().to_pandas()
    result = made(empty, empty)
    assert result["finding"] == "No answers yet"
    assert result["mean"] is None
    assert result["control"] is None


def test_rows_from_arrow_lists():
    """The store's list columns come as numpy arrays, missing ones as None."""
    import pyarrow as pa

    answers = rows(noisy(hole(16, 4, 0.5), 3), tokens=2)
    table = pa.Table.from_pandas(answers, schema=ANSWERS, preserve_index=False)
    assert made(table.to_pandas(), measure="token") == made(answers, measure="token")
    bare = answers.assign(rival_logprobs=None, token_residues=None)
    assert made(bare)["shifts"][0]["rivals"] == []


def test_the_full_cache_by_itself():
    result = made(rows(noisy(np.full(16, 0.8), 12)), strides=(), window=None)
    assert result["period"]["configured"] is None
    assert result["folded"] == []
    assert result["folded_gap"] is None
    assert result["gap_p"] is not None
    assert "without compression" in result["finding"]


def test_what_evicts_is_not_told_as_the_full_cache():
    result = made(rows(noisy(np.full(16, 0.8), 12)), strides=(), window=None, evicts=True)
    assert result["finding"] == "No phase effect resolved with 12 prompts"


def test_stride_one_has_no_grid_to_fold():
    result = made(rows(noisy(np.full(16, 0.8), 4)), strides=(1,), window=1)
    assert "without" not in result["finding"]
    assert result["period"]["configured"] is None
    assert result["warnings"] == []


def test_one_prompt():
    result = made(rows(noisy(hole(16, 4, 0.5), 1, spread=0.02)), rows(noisy(np.full(16, 0.8), 1)))
    assert result["period"]["detected"] == 4
    assert result["gap_p"] == 1
    assert result["mean_low"] is None
    assert "one prompt cannot show a weak phase" in result["finding"]
    assert result["warnings"][0].startswith("One prompt")


def test_grid_origin_has_a_constant_control():
    answers = rows(noisy(hole(16, 4, 0.5), 6), still=True)
    control = rows(np.full((6, 16), 0.8), still=True)
    result = made(answers, control, protocol="grid_origin")
    assert result["control"]["period"]["p"] == 1
    assert result["control"]["period"]["detected"] is None
    assert "whatever moves is the memory" in result["doubt"]
    assert result["warnings"] == []
    moved = made(answers, rows(noisy(np.full(16, 0.8), 6), still=True), protocol="grid_origin")
    assert any("should be constant" in w for w in moved["warnings"])


def test_what_stays_under_the_noise_floor_is_constant():
    answers = rows(0.6 + hole(16, 4, 1e-4, top=0.0) + np.zeros((4, 1)))
    assert made(answers)["period"]["detected"] == 4
    assert made(answers, noise_floor=1e-3)["period"]["p"] == 1


def test_a_pair_has_a_difference_and_no_period():
    base = np.linspace(0.5, 0.9, 10)
    answers = rows(np.stack([base, base - 0.3], axis=1), bases=np.arange(10) * 3)
    control = rows(np.stack([base, base - 0.01], axis=1), bases=np.arange(10) * 3)
    # Targets start anywhere, so residues do not tell the documents apart: shifts do.
    result = made(answers, control, protocol="pair", modulus=2)
    values = [base.mean(), base.mean() - 0.3]
    told = [np.exp(answers.loc[answers["shift"] == s, "logprob"]).mean() for s in (0, 1)]
    assert [row["value"] for row in result["residues"]] == pytest.approx(told)
    assert sorted(told) != pytest.approx(values)
    assert result["period"]["p"] is result["gap_p"] is None
    assert result["pair"]["n"] == 10


def test_a_layer_scan_beside_the_sweep_is_not_mixed_in():
    answers = rows(noisy(hole(16, 4, 0.5), 3))
    both = pd.concat([answers, rows(np.full((3, 16), 0.1), layer=5)])
    assert made(both) == made(answers)


@pytest.mark.parametrize(
    ("n", "residues", "stride", "limit"), [(12, 16, 4, 0.5), (288, 24, 8, 2.0)]
)
def test_time(n, residues, stride, limit):
    answers = rows(noisy(hole(residues, stride, 0.4), n))
    control = rows(noisy(np.full(residues, 0.8), n))
    start = time.process_time()
    made(answers, control, modulus=residues, strides=(stride,), window=stride)
    assert time.process_time() - start < limit
