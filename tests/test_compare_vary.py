"""One spec at several values, and comparisons in a terminal."""

from __future__ import annotations

import contextlib
import json
import sys

import comparing
import pytest
from comparing import curve, spec, store_run

from engine import cli
from engine.client import Refused
from engine.commands import compare as command
from engine.commands import look
from engine.specs import SweepSpec


@pytest.fixture(scope="module")
def here(tmp_path_factory, smol):
    found = comparing.Here(tmp_path_factory.mktemp("vary-home"))
    control = store_run(found.store, spec(0), curve(None, 0.9), asked=False)
    store_run(found.store, spec(4, 4), curve(4, 0.2), control, text="a")
    store_run(found.store, spec(4, 2), curve(2, 0.6), control, text="b", title="a | <b>*x*</b>\x1b")
    store_run(found.store, spec(2, 2, seed=7), curve(2, 0.6))
    yield found
    found.close()


OPEN = {**comparing.BASE, "modulus": 0, "memory": {"kind": "pooled", "window": 8, "stride": 4}}


def vary(here, field: str, values: list, start: dict = OPEN, **more) -> dict:
    return here.client.vary(start, field, values, **more)


# ---- one spec at several values


def test_every_value_gets_its_key_its_cost_and_one_count_of_residues(here):
    made = vary(here, "memory.stride", [2, 4, 6, 8])
    assert made["modulus"] == 24
    assert [line["spec"]["memory"]["stride"] for line in made["specs"]] == [2, 4, 6, 8]
    assert {line["spec"]["modulus"] for line in made["specs"]} == {24}
    for line in made["specs"]:
        assert line["errors"] == []
        assert line["key"] == SweepSpec.from_dict(line["spec"]).key
        assert line["estimate"]["seconds"] > 0
        assert line["phrase"].startswith("pooled W8 S")
    assert "jobs" not in made


def test_a_count_of_residues_that_was_chosen_stays_and_the_refusal_names_one_that_fits(here):
    made = vary(here, "memory.stride", [4, 6], OPEN | {"modulus": 8})
    fits, refused = made["specs"]
    assert (fits["spec"]["modulus"], fits["errors"]) == (8, [])
    (error,) = refused["errors"]
    assert (error["field"], refused["key"], refused["estimate"]) == ("modulus", None, None)
    assert error["message"].endswith("; 12 fits all of these")


def test_values_are_refused_one_by_one(here):
    made = vary(here, "memory.window", [2, 8, "wide", 16])
    assert [bool(line["errors"]) for line in made["specs"]] == [True, False, True, False]
    assert made["specs"][0]["errors"][0]["field"] == "memory.stride"
    assert "must be a whole number" in made["specs"][2]["errors"][0]["message"]
    lost = vary(here, "memory.wimdow", [4])["specs"][0]["errors"]
    assert "did you mean 'window'" in lost[0]["message"]


def test_what_is_stored_is_told(here):
    start = spec(4, 4).to_dict()
    made = vary(here, "memory.stride", [1, 2, 4], start)
    assert [line["stored"] for line in made["specs"]] == [False, True, True]


def test_another_kind_of_memory_keeps_the_options_that_it_has(here):
    full, pooled, h2o = vary(here, "memory.kind", ["full", "pooled", "h2o"])["specs"]
    assert full["spec"]["memory"] == {"kind": "full"}
    assert full["spec"]["control"] is None
    assert pooled["spec"]["memory"]["window"] == 8
    assert (h2o["spec"]["memory"]["kind"], h2o["errors"]) == ("h2o", [])
    start = OPEN | {"memory": {"kind": "snapkv", "budget": 96, "obs_window": 16}}
    kinds = ["snapkv.original", "rpc.paper", "RKV"]
    found = [line["spec"]["memory"] for line in vary(here, "memory.kind", kinds, start)["specs"]]
    assert [memory["budget"] for memory in found] == [96, 96, 96]
    assert [memory.get("preset") for memory in found] == ["original", "paper", None]
    assert (found[2]["kind"], found[2]["obs_window"]) == ("rkv", 16)
    found = vary(here, "budget", [64, 96], OPEN | {"memory": {"kind": "h2o"}})["specs"]
    assert [line["spec"]["memory"]["budget"] for line in found] == [64, 96]
    assert [line["phrase"].split(",")[0] for line in found] == ["h2o 64", "h2o 96"]


def test_whole_tables_and_short_names_of_a_model_are_values_too(here):
    (line,) = vary(here, "memory", [{"kind": "pooled", "window": 2, "stride": 2}])["specs"]
    assert line["spec"]["memory"]["window"] == 2
    (line,) = vary(here, "model", ["smollm2-135m"])["specs"]
    assert line["spec"]["model"]["id"] == "smollm2-135m"
    (line,) = vary(here, "model.id", ["nowhere"])["specs"]
    assert line["errors"][0]["field"] == "model.id"


def test_what_the_old_model_filled_in_goes_with_it(here):
    start = SweepSpec.from_dict(OPEN).to_dict()
    assert start["control"]["model"]["dtype"] == "float32"
    (line,) = vary(here, "model.dtype", ["bfloat16"], start)["specs"]
    assert line["spec"]["control"]["model"]["dtype"] == "bfloat16"
    own = start | {"control": {"memory": {"kind": "pooled", "window": 1, "stride": 1}}}
    (line,) = vary(here, "model.dtype", ["bfloat16"], own)["specs"]
    assert line["spec"]["control"]["memory"]["kind"] == "pooled"


def test_budgets_of_a_decode_run(here):
    start = {"kind": "decode", "model": comparing.MODEL, "methods": [{"kind": "streaming"}]}
    start |= {"task": {"kind": "lookback", "length": 160}, "budgets": [64], "steps": 4}
    made = vary(here, "budget", [48, 64], start)
    assert [line["spec"]["budgets"] for line in made["specs"]] == [[48], [64]]
    assert [line["errors"] for line in made["specs"]] == [[], []]


def test_methods_of_a_decode_run_stand_alone_and_keep_their_options(here):
    start = {"kind": "decode", "model": comparing.MODEL, "budgets": [64], "steps": 4}
    start |= {"task": {"kind": "lookback", "length": 160}}
    start |= {"methods": [{"kind": "beacon"}, {"kind": "streaming", "sinks": 2}]}
    for field in ("method", "methods"):
        made = vary(here, field, ["streaming", "h2o"], start)["specs"]
        assert [line["errors"] for line in made] == [[], []]
        assert [[m["kind"] for m in line["spec"]["methods"]] for line in made] == [
            ["full", "streaming"],
            ["full", "h2o"],
        ]
        assert made[0]["spec"]["methods"][1]["sinks"] == 2
    (line,) = vary(here, "budgets", [48], start)["specs"]
    assert line["spec"]["budgets"] == [48]
    (line,) = vary(here, "method", ["h2o"], OPEN | {"memory": {"kind": "tova"}})["specs"]
    assert line["spec"]["memory"]["kind"] == "h2o"
    (line,) = vary(here, "method", [7], start)["specs"]
    assert line["errors"]


def test_submitting_queues_the_valid_ones_alone(here):
    before = len(here.client.jobs())
    made = vary(here, "memory.window", [2, 8, 16], submit=True)
    assert [job["key"] for job in made["jobs"]] == [line["key"] for line in made["specs"][1:]]
    assert len(here.client.jobs()) == before + 2
    again = vary(here, "memory.window", [8, 16], submit=True)
    assert [job["job"] for job in again["jobs"]] == [job["job"] for job in made["jobs"]]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"spec": 3}, "spec"),
        ({"field": "a.b.c"}, "field"),
        ({"field": ""}, "field"),
        ({"values": []}, "values"),
        ({"values": list(range(17))}, "values"),
        ({"values": [4, 4]}, "values"),
        ({"values": "4"}, "values"),
        ({"submit": "yes"}, "submit"),
        ({"value": 4}, "value"),
    ],
)
def test_a_bad_request_names_its_field_and_queues_nothing(here, change, field):
    before = here.client.jobs()
    body = {"spec": OPEN, "field": "memory.stride", "values": [4], "submit": True} | change
    answer = here.http.post("/vary", json=body)
    assert answer.status_code == 422
    assert field in [error["field"] for error in answer.json()["errors"]]
    assert here.client.jobs() == before


def test_a_spec_with_a_broken_character_is_refused(here):
    with pytest.raises(Refused, match="broken character"):
        vary(here, "memory.stride", [4], OPEN | {"title": "\ud800"})


# ---- in a terminal


@pytest.fixture
def call(here, monkeypatch, capsys):
    @contextlib.contextmanager
    def ask():
        yield here.client

    monkeypatch.setattr(command, "ask", ask)
    monkeypatch.setattr(look, "ask", ask)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["phasescope", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "140")
        try:
            cli.app(standalone_mode=False)
            code = 0
        except Exception as error:
            code = cli.tell(error)
        return code, *capsys.readouterr()

    return run


def test_the_table_has_what_differs_the_numbers_and_the_differences(here, call):
    first, second = spec(4, 4).key, spec(4, 2).key
    code, text, _ = call("compare", first, second)
    assert code == 0
    lines = text.splitlines()
    assert lines[0].startswith("Overlap buys the worst phase: .60 against .20, at two")
    assert any(line.split()[:5] == ["Stride", "S", "–", "4", "2"] for line in lines)
    assert not any(line.startswith("Padding") for line in lines)
    assert "against Full cache, paired by prompt (Holm, 6 comparisons)" in text
    made = here.client.compare([first, second])
    for run in made["runs"]:
        assert run["key"] in text
        assert f"{run['numbers']['mean']:.3f}".removeprefix("0") in text
    assert "\x1b" not in text


def test_all_fields_are_shown_when_asked(call):
    _, text, _ = call("compare", spec(4, 4).key, spec(4, 2).key, "--all")
    assert any(line.startswith("Padding") for line in text.splitlines())


def test_what_is_not_compared_is_told_once(call):
    code, text, _ = call(
        "compare", spec(4, 4).key, spec(2, 2, seed=7).key, "--base", spec(4, 4).key
    )
    assert code == 0
    assert text.count("not compared: W2 S2: seed 7, and 0 in the baseline") == 1


def test_json_is_the_services_answer(here, call):
    first, second = spec(4, 4).key, spec(4, 2).key
    code, text, _ = call("compare", first, second, "--base", second, "--json")
    assert code == 0
    assert json.loads(text) == here.client.compare([first, second], second)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["0123456789ab", "0123456789ac"], "no run '0123456789ab' here"),
        ([spec(4, 4).key] * 2, "keys: "),
        ([spec(4, 4).key, "--base", spec(4, 2).key], "base: "),
        (["preset:nope"], "preset: no preset 'nope'"),
        (["preset:smollm2-mean"], "no run "),
    ],
)
def test_bad_input_exits_2_with_a_sentence(call, words, told):
    code, out, err = call("compare", *words)
    assert (code, out) == (2, "")
    assert told in err


def test_a_model_card_is_written_to_a_file(here, call, tmp_path):
    path = tmp_path / "card.md"
    code, text, _ = call("export", spec(4, 2).key, "--to", path)
    assert (code, path.read_text()) == (0, here.client.model_card(spec(4, 2).key)["markdown"])
    assert str(path.name) in text.replace("\n", "")
    assert call("export", spec(4, 2).key, "--to", tmp_path / "card.txt")[0] == 2
