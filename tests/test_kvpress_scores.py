"""One prediction's score by its dataset's rule, and only where the scores add up."""

from __future__ import annotations

import numpy as np
import pytest

from engine.kvpress_scores import scores, texts


def test_gold_answers_as_python_and_numpy_print_them():
    assert texts(str(np.array(["a", "it's", 'say "x"'], object))) == ["a", "it's", 'say "x"']
    assert texts("['a', 'b']") == ["a", "b"]
    assert texts("plain") == ["plain"]
    assert texts("[not, quoted]") == ["[not, quoted]"]
    long = np.array([f"number {i}" for i in range(60)], object)
    assert texts(str(long)) == list(long)


@pytest.mark.parametrize(
    ("dataset", "row", "score"),
    [
        (
            "longbench",
            {
                "task": "hotpotqa",
                "answers": "['the Eiffel tower']",
                "predicted_answer": "Eiffel, Tower",
            },
            1.0,
        ),
        (
            "longbench",
            {"task": "qasper", "answers": "['a b c d', 'x']", "predicted_answer": "b q"},
            0.4,
        ),
        ("longbench", {"task": "triviaqa", "answers": "['x']", "predicted_answer": "\nx\ny"}, 1.0),
        (
            "longbench",
            {"task": "passage_count", "answers": "['3']", "predicted_answer": "3 of 4"},
            0.5,
        ),
        (
            "longbench",
            {
                "task": "passage_retrieval_en",
                "answers": "['Paragraph 7']",
                "predicted_answer": "Paragraph 7",
            },
            1.0,
        ),
        ("longbench-v2", {"answer": "C", "predicted_answer": "**The correct answer is (C)**"}, 1.0),
        ("longbench-v2", {"answer": "C", "predicted_answer": "The correct answer is (C)."}, 0.0),
        (
            "infinitebench",
            {"task": "passkey", "answer": "['71432']", "predicted_answer": "key 71432 or 5"},
            1.0,
        ),
        (
            "infinitebench",
            {"task": "kv_retrieval", "answer": "['ab-c']", "predicted_answer": '"ab-c"}'},
            1.0,
        ),
        (
            "infinitebench",
            {"task": "longdialogue_qa_eng", "answer": "['BOB']", "predicted_answer": "Bob said"},
            1.0,
        ),
    ],
)
def test_rules_of_datasets(dataset, row, score):
    mean = 100 * score if dataset == "longbench" else score
    assert scores(dataset, [row], mean) == ([pytest.approx(score)], "")


def test_boxes_are_read_as_the_version_that_wrote_them_did():
    rows = [
        {"answer": "3", "predicted_answer": r"\boxed{3} no, \boxed{4}"},
        {"answer": r"\frac{1}{2}", "predicted_answer": r"\boxed{\frac{1}{2}}"},
    ]
    for dataset in ("aime25", "math500"):
        for correct, expected in (([1.0, 0.0], [1.0, 0.0]), ([0.0, 1.0], [0.0, 1.0])):
            told = {"correct": int(sum(correct)), "answered": 2, "accuracy": 0.5, "total": 2}
            found, why = scores(dataset, rows, told)
            assert why == ""
            assert sum(found) == sum(expected)
    assert scores("aime25", rows, {"correct": 2, "total": 2})[0] == [1.0, 1.0]
    assert scores("aime25", rows, {"correct": 7, "total": 2})[0] is None


def test_datasets_without_a_rule_say_so():
    rows = [{"task": "gov_report", "answers": "['x']", "predicted_answer": "x"}]
    assert "gov_report" in scores("longbench", rows, 1.0)[1]
    assert "loogle" in scores("loogle", rows, {})[1]
    assert "no column answer" in scores("ruler", rows, {})[1]
