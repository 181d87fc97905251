"""Training stops and goes on with the same bits; what it leaves; checkpoints that are refused."""

import json
import os
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from controlled import SHORT, TINY, save

from engine import cli
from engine.models.controlled import checkpoint, family, ledger, lessons, school, shelf
from engine.models.controlled.family import Member
from engine.models.controlled.training import Stopped, train


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("PHASESCOPE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PHASESCOPE_MODELS", str(tmp_path / "models"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


# ---- one training


@pytest.mark.parametrize(
    ("config", "recipe"),
    [
        (TINY, SHORT),
        (replace(TINY, memory="full"), SHORT),
        (TINY, replace(SHORT, coverage=0.3)),
        (replace(TINY, window=8, stride=4), replace(SHORT, phases="all", pitch=8, places=32)),
    ],
    ids=["chunked", "full", "coverage", "pitched"],
)
@pytest.mark.parametrize("stops", [(1,), (5, 11)])
def test_a_stopped_training_goes_on_with_the_same_bits(tmp_path, config, recipe, stops):
    whole, told = train(config, recipe, tmp_path / "whole")
    for at in stops:
        path, steps = tmp_path / "parts" / "resume.safetensors", iter(range(1, 13))
        begun = checkpoint.header(path).notes["step"] if path.exists() else 0
        wanted = at - begun
        with pytest.raises(Stopped):
            train(config, recipe, path.parent, stop=lambda s=steps, w=wanted: next(s) == w)
        assert checkpoint.header(path).notes["step"] == at
    parts, again = train(config, recipe, tmp_path / "parts")
    assert same(weights(whole), weights(parts))
    assert told["steps"] == again["steps"] == 12
    assert not whole.training


def test_another_training_in_the_folder_is_left_alone(tmp_path):
    with pytest.raises(Stopped):
        train(TINY, SHORT, tmp_path, stop=lambda: True)
    other = replace(SHORT, seed=1)
    began, _ = train(TINY, other, tmp_path)
    fresh, _ = train(TINY, other, tmp_path / "fresh")
    assert same(weights(began), weights(fresh))


def test_seeds_differ_in_start_and_in_lessons(tmp_path):
    first, _ = train(TINY, SHORT, tmp_path / "0")
    again, _ = train(TINY, SHORT, tmp_path / "1")
    other, _ = train(TINY, replace(SHORT, seed=1), tmp_path / "2")
    assert same(weights(first), weights(again))
    assert not any(same({n: a}, {n: weights(other)[n]}) for n, a in weights(first).items())
    one, two = (lessons.lesson(TINY, replace(SHORT, seed=s), 3).ids for s in (0, 1))
    assert one.shape == two.shape
    assert not np.array_equal(one, two)


@pytest.mark.parametrize("phases", ["random", "zero", "all"])
def test_a_lesson_asks_keys_whose_values_stand_in_front(phases):
    recipe = replace(SHORT, phases=phases, places=33, pitch=8, records=6, queries=3, batch=4)
    sizes = set()
    for step in range(12):
        made = lessons.lesson(TINY, recipe, step)
        sizes.add(made.ids.shape)
        starts = set()
        for row, ids in enumerate(made.ids):
            for at, start in zip(made.queries, made.starts[row], strict=True):
                assert (ids[start], ids[start + 1]) == (ids[at], ids[at + 1])
                assert ids[at] > TINY.fillers
                assert (ids[: made.queries[0]] == ids[at]).sum() >= 1
            starts |= set((made.starts[row] % 8).tolist())
        assert starts == {0} if phases == "zero" else starts
    assert len(sizes) == (3 if phases == "random" else 1)


def test_progress_is_told_and_the_curve_kept(tmp_path):
    points = []
    _, told = train(TINY, SHORT, tmp_path, points.append)
    assert [p["step"] for p in points] == [12]
    assert told["curve"] == [[12, points[0]["loss"], points[0]["accuracy"]]]
    assert told["accuracy"] == round(points[0]["accuracy"], 4)


# ---- the school and its ledger


def member(name, seed=0, gate=0.0, **changes):
    recipe = replace(SHORT, seed=seed)
    return Member(name, name, "grid", replace(TINY, **changes), recipe, gate=gate)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_members_are_taught_in_processes_of_their_own(tmp_path):
    pupils = [member("first"), member("second", seed=1, memory="full")]
    watched = []
    ends = school.teach(pupils, tmp_path, 2, watch=watched.append)
    assert [(end["name"], end["state"], end["step"]) for end in ends] == [
        ("first", "done", 12),
        ("second", "done", 12),
    ]
    assert len({end["pid"] for end in ends}) == 2
    assert [run["state"] for run in watched[-1]] == ["done", "done"]
    for pupil in pupils:
        found = checkpoint.header(tmp_path / f"{pupil.name}.safetensors")
        assert (found.config, found.recipe) == (pupil.config, pupil.recipe)
        assert found.notes["steps"] == 12
        assert not (ledger.folder(pupil.name) / "resume.safetensors").exists()
    here, _ = train(pupils[0].config, SHORT, tmp_path / "here")
    half = {name: p.half().float() for name, p in weights(here).items()}
    assert same(weights(checkpoint.load_model(tmp_path / "first.safetensors")), half)
    lines = ledger.ended()
    assert sorted((line["name"], line["state"], line["seed"]) for line in lines) == [
        ("first", "done", 0),
        ("second", "done", 1),
    ]
    assert all("curve" not in line and line["file"] for line in lines)


def taught_here(pupil, folder):
    """As in its process, in this one."""
    import signal

    before = signal.getsignal(signal.SIGINT)
    try:
        school.lesson_room(pupil, str(folder), "cpu")
    finally:
        signal.signal(signal.SIGINT, before)
    return ledger.ended()[-1]


def test_a_stopped_run_is_in_the_ledger_and_goes_on(tmp_path, monkeypatch):
    pupil = member("pupil")
    asked = iter(range(1, 13))
    monkeypatch.setattr(ledger.Record, "stop_asked", lambda self: next(asked) == 5)
    stopped = taught_here(pupil, tmp_path)
    assert (stopped["state"], stopped["name"]) == ("stopped", "pupil")
    assert not (tmp_path / "pupil.safetensors").exists()
    monkeypatch.setattr(ledger.Record, "stop_asked", lambda self: False)
    assert taught_here(pupil, tmp_path)["state"] == "done"
    assert [line["state"] for line in ledger.ended()] == ["stopped", "done"]
    whole, _ = train(pupil.config, pupil.recipe, tmp_path / "whole")
    half = {name: p.half().float() for name, p in weights(whole).items()}
    assert same(weights(checkpoint.load_model(tmp_path / "pupil.safetensors")), half)


def test_a_member_below_its_gate_tries_the_next_seeds_and_keeps_the_best(tmp_path):
    end = taught_here(member("pupil", seed=4, gate=0.99), tmp_path)
    lines = ledger.ended()
    assert [line["seed"] for line in lines[:-1]] == [4, 5, 6], "a line a try, then what was kept"
    assert len(lines) == school.TRIES + 1
    assert "below the gate" in end["reason"]
    assert end["seed"] in (4, 5, 6)
    kept = checkpoint.header(tmp_path / "pupil.safetensors")
    assert kept.recipe.seed == end["seed"]
    assert kept.notes["accuracy"] == end["accuracy"]


def test_a_member_stopped_at_its_second_seed_goes_on_there(tmp_path, monkeypatch):
    pupil = member("pupil", seed=4, gate=0.99)
    stop = lambda self: self.now["seed"] == 5  # noqa: E731
    monkeypatch.setattr(ledger.Record, "stop_asked", stop)
    assert taught_here(pupil, tmp_path)["state"] == "stopped"
    assert ledger.unfinished_seed("pupil") == 5
    monkeypatch.setattr(ledger.Record, "stop_asked", lambda self: False)
    taught_here(pupil, tmp_path)
    assert [line["seed"] for line in ledger.ended()][:4] == [4, 5, 5, 6]


def test_a_member_that_cannot_be_trained_fails_with_a_reason(tmp_path):
    pupil = member("pupil")
    end = taught_here(pupil._replace(recipe=replace(SHORT, records=70, places=200)), tmp_path)
    assert end["state"] == "failed"
    assert end["reason"]
    assert not (tmp_path / "pupil.safetensors").exists()


def test_a_training_is_asked_to_stop_by_name():
    assert not ledger.ask_to_stop("nobody")
    record = ledger.Record("pupil", 12, 0)
    assert not record.stop_asked()
    assert ledger.ask_to_stop("pupil")
    assert record.stop_asked()
    assert not ledger.Record("pupil", 12, 0).stop_asked(), "a new run is not asked to stop"


def test_a_silent_training_counts_as_stopped(monkeypatch):
    ledger.Record("pupil", 12, 0)
    assert ledger.trainings()[0]["state"] == "running"
    monkeypatch.setattr(ledger, "SILENT", -1)
    assert ledger.trainings()[0]["state"] == "stopped"


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("silent", [120, -1])
def test_a_killed_training_is_in_the_ledger(monkeypatch, begun, silent):
    monkeypatch.setattr(ledger, "SILENT", silent)
    if begun:
        ledger.Record("pupil", 12, 3).tell(
            {"step": 5, "loss": 4.0, "accuracy": 0.1, "cpu_seconds": 1.0}
        )
    end = school._last_word("pupil", -9, os.getpid(), "")
    state = "stopped" if begun else "failed"
    assert (end["state"], end["step"]) == (state, 5 if begun else 0)
    (line,) = ledger.ended()
    assert (line["name"], line["state"]) == ("pupil", state)
    assert "ended with code -9" in line["reason"]
    assert "curve" not in line
    assert ledger.unfinished_seed("pupil") == (3 if begun else None)
    assert ledger.Record("pupil", 12, 3).now["step"] == (5 if begun else 0)
    assert len(ledger.ended()) == 1


def test_a_training_killed_with_its_parent_is_in_the_ledger_when_it_begins_again():
    ledger.Record("pupil", 12, 3)
    ledger.Record("pupil", 12, 3).end("done")
    assert [line["state"] for line in ledger.ended()] == ["stopped", "done"]


def test_a_training_that_still_saves_is_not_called_ended():
    ledger.Record("pupil", 12, 3)
    assert school._last_word("pupil", None, os.getpid(), "")["state"] == "running"
    assert school._last_word("other", None, 1, "")["state"] == "running"
    assert ledger.ended() == []


@pytest.mark.parametrize("older", ["another process", "the same number, before"])
def test_an_earlier_runs_record_is_not_this_runs_word(older):
    ledger.Record("pupil", 12, 3).end("done", file="pupil.safetensors")
    pid, began = (1, "") if older == "another process" else (os.getpid(), "2999")
    running = {"pupil": SimpleNamespace(pid=pid)}
    (now,) = school._standing([member("pupil")], running, {}, began)
    assert now["state"] == "waiting"
    end = school._last_word("pupil", 1, pid, began)
    assert (end["state"], end["reason"]) == (
        "failed",
        "its process ended with code 1 before it began",
    )
    assert [line["state"] for line in ledger.ended()] == ["done", "failed"]
    assert ledger.told("pupil")["state"] == "done", "what was trained before stays so"
    (now,) = school._standing(
        [member("pupil")], {"pupil": SimpleNamespace(pid=os.getpid())}, {}, ""
    )
    assert now["state"] == "done"


def test_what_is_trained_is_told_by_file_and_ledger(tmp_path):
    pupil = member("pupil", seed=4, gate=0.99)
    assert not school.taught(pupil, tmp_path)
    taught_here(pupil, tmp_path)
    assert school.taught(pupil, tmp_path), "the best seed of a gate is no other recipe"
    assert not school.taught(pupil, tmp_path / "elsewhere")
    assert not school.taught(pupil._replace(recipe=replace(pupil.recipe, steps=13)), tmp_path)
    assert not school.taught(pupil._replace(config=replace(TINY, window=6)), tmp_path)
    ledger.Record("pupil", 12, 4)
    assert not school.taught(pupil, tmp_path), "it is being trained again"


# ---- the command line


@pytest.fixture
def call(monkeypatch, capsys):
    """(exit code, stdout, stderr); nothing is trained."""
    import signal

    before = signal.getsignal(signal.SIGTERM)
    taught = []

    def teach(members, into, workers, device, watch):
        taught.append(([m.name for m in members], into, workers))
        return [{"name": m.name, "state": "done", "curve": []} for m in members]

    monkeypatch.setattr(school, "teach", teach)

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["phasescope", "train", *args])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        return code, taught, capsys.readouterr()

    yield run
    signal.signal(signal.SIGTERM, before)


def test_a_family_started_again_leaves_out_what_is_trained(call, monkeypatch):
    pupils = {name: member(name) for name in ("first", "second")}
    monkeypatch.setattr(family, "family", lambda: pupils)
    taught_here(pupils["first"], shelf.own_folder())
    code, taught, shown = call("--family")
    assert (code, taught[-1][0]) == (0, ["second"])
    assert "1 of 2 are trained already and are left as they are" in shown.err
    _, taught, shown = call("first")
    assert taught[-1][0] == ["first"]
    assert "already" not in shown.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["w8s8-dens"], "no controlled model 'w8s8-dens'; did you mean 'w8s8-dense'?"),
        (["w8s8-dense", "--family"], "give one name, or --family"),
        ([], "give one name, or --family"),
        (["w4s4", "--seed", "-1"], "seed: must be from 0"),
        (["w4s4-seed1", "--seed", "2"], "seed: the name tells a seed already"),
        (["w4s4-seed99999999999"], "no controlled model"),
        (["--family", "--seed", "3"], "seed: goes with one name"),
        (["w4s4", "--workers", "-1"], "workers: must not be negative"),
        (["w4s4", "--device", "gpu"], "must be cpu, cuda"),
    ],
)
def test_bad_words_exit_with_2_and_a_sentence(call, args, words):
    code, taught, shown = call(*args)
    assert code == 2
    assert words in " ".join(shown.err.split())
    assert not taught


def test_a_seed_is_told_by_the_name(call):
    code, taught, _ = call("w4s4", "--seed", "3", "--workers", "1")
    assert code == 0
    assert taught == [(["w4s4-seed3"], shelf.own_folder(), 1)]
    assert family.find("w4s4-seed3").recipe.seed == 3
    assert family.find("w4s4-seed0").name == "w4s4"


def test_the_list_survives_a_damaged_file(call, tmp_path):
    save(shelf.own_folder(), "w4s4")
    (shelf.own_folder() / "w6s6.safetensors").write_bytes(b"\x05\0\0\0\0\0\0\0{]}")
    code, _, shown = call("--list", "--json")
    assert code == 0
    here = {row["name"]: row["here"] for row in json.loads(shown.out)["family"]}
    assert here["w4s4"]
    assert not here["w6s6"]
