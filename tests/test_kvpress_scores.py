"""One prediction's score by its dataset's rule, where scores add up; kvpress in a terminal."""

from __future__ import annotations

import json

import numpy as np
import pytest

from engine.commands import kvpress
from engine.kvpress.scores import scores, texts
from engine.registry import SpecError


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


# ---- the command line


class Client:
    """Answers as the service does; keeps what it was asked."""

    def __init__(self, *told: dict):
        self.told, self.files = list(told), None

    def import_kvpress(self, files: dict, folder: str) -> dict:
        self.files = (files, folder)
        return {"key": "k" * 12, "added": True}

    def export_kvpress(self, key: str) -> list[dict]:
        return self.told


def made(label: str, text: str | None, reason: str = "") -> dict:
    return {"label": label, "press_name": "knorm", "yaml": text, "notes": [], "reason": reason}


def test_a_folder_is_read_whole_or_refused_by_file(tmp_path, monkeypatch, capsys):
    texts_ = {name: f"{name}: é\n" for name in kvpress.FILES}
    for name, text in texts_.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    client = Client()
    kvpress.bring_in(client, tmp_path, as_json=True)
    assert client.files == (texts_, tmp_path.name)
    assert json.loads(capsys.readouterr().out) == {"key": "k" * 12, "added": True}
    monkeypatch.setattr(kvpress, "MOST", 20)
    with pytest.raises(SpecError, match="more than"):
        kvpress.read(tmp_path)
    monkeypatch.undo()
    (tmp_path / "metrics.json").write_bytes(b"\xff")
    with pytest.raises(SpecError, match=r"metrics\.json: .* UTF-8"):
        kvpress.read(tmp_path)
    (tmp_path / "config.yaml").unlink()
    with pytest.raises(SpecError, match=r"config\.yaml: .* cannot be read"):
        kvpress.read(tmp_path)


def test_configurations_are_written_one_a_file(tmp_path, capsys):
    to = tmp_path / "k.yaml"
    kvpress.write(Client(made("a", "x: 1\n"), made("b", None, "has no press")), "key", to, False)
    assert to.read_text() == "x: 1\n"
    assert "has no press" in capsys.readouterr().err
    kvpress.write(Client(made("a", "x: 1\n"), made("b", "x: 2\n")), "key", to, True)
    assert (tmp_path / "k-2.yaml").read_text() == "x: 2\n"
    assert len(json.loads(capsys.readouterr().out)["files"]) == 2
    with pytest.raises(SpecError, match="nothing was written"):
        kvpress.write(Client(made("b", None, "has no press")), "key", tmp_path / "n.yaml", False)
    assert not (tmp_path / "n.yaml").exists()
