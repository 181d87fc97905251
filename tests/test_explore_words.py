"""Explore claims of prompts, memories and layers no more than what is so of them."""

from dataclasses import replace

import pandas as pd
import pytest
from fake_client import FakeClient
from test_app import client, html, page, preset  # noqa: F401  (client is a fixture)

from app import frames
from app.explore import head, why
from app.explore.prompt import answer_line
from app.explore.subject import Subject
from engine.offers import memories
from engine.specs import SweepSpec

PLAN = {
    "answer": {"text": "8", "tokens": []},
    "rivals": [{"text": "32"}, {"text": "4"}],
    "strip": {"shares": None},
    "copies": 12,
}


def subject(spec: dict, plan: dict | None = None) -> Subject:
    schema = {"models": [], "memories": memories(), "presets": []}
    return Subject("key", spec, PLAN | (plan or {}), None, (), schema)


def spec_of(memory: dict, task: dict | None = None, **settings) -> dict:
    """As the service writes it: every option is there."""
    return SweepSpec.from_dict(
        {"memory": memory, "task": task or {"kind": "banner"}, **settings}
    ).to_dict()


def prompts(*told: tuple[str, list[str]]) -> dict:
    text = "{{pad}}The code is {{target}}4{{/target}}. The code is "
    made = [{"text": text, "answer": answer, "rivals": rivals} for answer, rivals in told]
    return {"kind": "custom", "prompts": made}


@pytest.mark.parametrize(
    ("task", "samples", "one", "names"),
    [
        ({"kind": "banner"}, 12, False, ["1", "2"]),
        ({"kind": "banner"}, 1, True, ["32", "4"]),
        (prompts(("8", ["32", "4"]), ("2", ["12", "3"])), 2, False, ["1", "2"]),
        (prompts(("8", ["32", "4"]), ("8", ["12", "3"])), 2, False, ["1", "2"]),
        (prompts(("8", ["32", "4"]), ("8", ["32", "4"])), 2, True, ["32", "4"]),
    ],
)
def test_a_mean_over_prompts_has_the_tokens_of_none(task, samples, one, names):
    shown = subject(spec_of({"kind": "pooled"}, task, samples=samples))
    assert shown.one_answer is one
    assert shown.rivals == names


def test_curve_and_windows_name_no_token_that_is_one_prompts_alone(client):  # noqa: F811
    at = page("explore", key=preset(client))
    drawn = at.get("plotly_chart")[0].proto.spec
    assert "rival&nbsp; 1" in drawn
    assert "rival&nbsp; 32" not in drawn
    assert "rival 1" in html(at)
    assert "rival 32" not in html(at)


@pytest.mark.parametrize(
    ("memory", "free"),
    [
        ({"kind": "full"}, False),
        ({"kind": "trained", "window": 8, "stride": 8}, False),
        ({"kind": "pooled"}, True),
        ({"kind": "snapkv"}, True),
    ],
)
def test_training_free_is_said_of_what_no_model_was_trained_with(memory, free):
    spec = spec_of({"kind": "pooled"}) | {"memory": memory}
    assert ("training-free" in head._context(subject(spec))) is free


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        ({"kind": "snapkv"}, "drops whole entries"),
        ({"kind": "rkv"}, "drops whole entries"),
        ({"kind": "trained", "window": 8, "stride": 8}, "gates are learned"),
        ({"kind": "full"}, "keeps every token exact"),
    ],
)
def test_why_tells_what_is_true_of_the_memory(memory, told, monkeypatch):
    said = []
    monkeypatch.setattr(why, "text", lambda style, words: said.append(words))
    stride = None if memory["kind"] == "full" else 8
    spec = spec_of({"kind": "pooled"}) | {"memory": memory}
    why.why(subject(spec, {"strip": {"shares": None, "stride": stride}}))
    assert len(said) == 1
    assert told in said[0]


def test_a_scan_in_which_no_layer_stands_out_says_so(client, monkeypatch):  # noqa: F811
    scan = FakeClient._scan() | {"keep": [], "suggestion": "all"}
    monkeypatch.setattr(FakeClient, "_scan", staticmethod(lambda: scan))
    at = page("explore", key=preset(client))
    at.session_state["tab"] = "Layers"
    at.run()
    at.button(key="scan").click().run()
    client.finish(next(k for k, job in client.jobs.items() if "layer scan" in job["title"]))
    at.run()
    assert "No layer stands out" in html(at)
    assert "cost most" not in html(at).split("No layer stands out")[1]
    assert not [b for b in at.button if b.key == "use-layers"]


@pytest.mark.parametrize(("protocol", "noun"), [("lengthen", "phase"), ("pair", "document")])
def test_before_a_run_nothing_is_claimed_of_the_answer(protocol, noun):
    told = head.doubt(subject(spec_of({"kind": "pooled"}) | {"protocol": protocol}))
    assert f"whether the answer depends on the {noun}" in told


def test_a_grid_has_residues_and_phases():
    pooled = subject(spec_of({"kind": "pooled"}, modulus=16), {"strip": {"stride": 2}})
    assert head.finding(pooled) == "One answer at 16 residues, 2 phases, not measured yet"
    full = subject(spec_of({"kind": "full"}, modulus=8))
    assert head.finding(full) == "One answer at 8 residues, not measured yet"


def test_numbers_of_one_kind_have_the_same_digits_and_no_dash_for_a_p():
    report = {"gap_null": 0.0041, "gap_p": None}
    assert head._chance(report) == ".004 by chance"
    assert head._chance({"gap_null": 0.0412, "gap_p": 0.5}) == ".041 by chance, p = .50"
    assert head._configured({"p": None}, 4) == "configured 4"
    assert "gap_p" not in head.HELP["gap"]


def test_one_text_at_both_phases_is_told_once(monkeypatch):
    drawn = []
    monkeypatch.setattr(why.st, "html", drawn.append)
    shown = subject(spec_of({"kind": "pooled"}), {"strip": {"stride": 4}})

    def written(best: str, worst: str) -> str:
        drawn.clear()
        told = {"best": {"phase": 2, "text": best}, "worst": {"phase": 1, "text": worst}}
        why.written(replace(shown, run={"written": told}))
        return "".join(drawn)

    same = written("47.", "47.")
    assert "Written at the best phase, 2, and at the worst phase, 1: the same text<" in same
    assert same.count("<pre") == 1
    apart = written("47B.", "47.")
    assert apart.count("<pre") == 2
    assert "same text" not in apart


@pytest.mark.parametrize(
    ("tokens", "rival", "told"), [(["4", "7"], "1", True), (["8"], "12", True), (["8"], "1", False)]
)
def test_a_rivals_first_token_is_not_taken_for_the_whole(tokens, rival, told):
    plan = {
        "answer": {"text": "".join(tokens), "tokens": [{"text": t} for t in tokens]},
        "rivals": [{"text": rival, "token": "1"}],
    }
    line = answer_line(plan)
    assert ("Gold is read whole, a rival by its first token alone" in line) == told
    assert ("the first token of 12" in line) == (rival == "12")
    rows = pd.DataFrame({"token_logprobs": [[-1.0] * len(tokens)]})
    assert frames.first_tokens(rows, plan["rivals"]) == told


def test_without_a_stride_the_top_tokens_are_a_mean_over_copies(client):  # noqa: F811
    at = page("explore", key=preset(client, "smollm2-full"))
    at.session_state["tab"] = "Top tokens"
    at.run()
    assert ["rank", "mean over copies"] in [list(table.value.columns) for table in at.dataframe]
