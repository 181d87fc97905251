"""A bundle of several runs, their maps and a view: out, wiped, in again, and not twice."""

from __future__ import annotations

import json

import decode_runs
import made_rows
import numpy as np
import pytest
from made_rows import SPEC
from test_bundles import pack, parts
from test_decode_plan import FACTS

from engine.decode.plan import arm_numbers
from engine.eviction.arms import arms
from engine.registry import SpecError
from engine.results import Results
from engine.specs import SweepSpec
from engine.store import Store, bundles

VIEW = {
    "page": "compare",
    "state": {"runs": "a,b", "chart": "curves"},
    "keys": ["a" * 12, "b" * 12],
    "name": "Two strides — 两种步长",
    "note": "<b>not bold</b>",
    "tags": ["stride", "比较"],
}
LABELS = {
    "key_kind": ["entry", "token", "token"],
    "key_start": [0, 4, 5],
    "key_stop": [4, 5, 6],
    "query_positions": [4, 5],
}
TABLES = ("runs", "answers", "tokens", "specs", "jobs", "maps")


def spec_of(stride: int) -> SweepSpec:
    memory = {"kind": "pooled", "window": 4, "stride": stride}
    return SweepSpec.from_dict(SPEC | {"memory": memory})


def weights(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((2, 3)).astype(np.float16)


def fill(store: Store) -> list:
    """Two runs that lean on one control, with a map each, and one on the control."""
    specs = [spec_of(4), spec_of(2)]
    first = made_rows.fill_both(store, specs[0])
    control = store.run(first).control_run
    store.remember(specs[1])
    second = made_rows.fill(store, specs[1].key, weak=None, control_run=control)
    for at, run in enumerate((first, second, control)):
        file = store.maps.save(weights(at), LABELS)
        store.keep_map(run, 2, at, 0, 1, file)
    return [store.run(first), store.run(second)]


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def sender(tmp_path_factory):
    made = Store(tmp_path_factory.mktemp("sender"))
    fill(made)
    yield made
    made.close()


@pytest.fixture(scope="module")
def runs(sender):
    return [Results(sender).pick(spec_of(stride).key) for stride in (4, 2)]


@pytest.fixture(scope="module")
def bundle(sender, runs):
    return bundles.export_bundle(sender, runs, view=VIEW)


def everything(store) -> list:
    return [store.ask(f"select * from {name} order by all") for name in TABLES]


def files(store) -> list:
    return sorted(path.name for path in store.maps.folder.glob("*"))


def same(one, there, other, here) -> None:
    """Rows, maps, spec and report of a run and its control, bit for bit."""
    for a, b in ((there, here), (one.run(there.control_run), other.run(here.control_run))):
        assert one.answers_table(a.id).equals(other.answers_table(b.id))
        assert one.tokens(a.id).equals(other.tokens(b.id))
        assert one.spec(a.key) == other.spec(b.key)
        fields = ("key", "code_version", "title", "status", "copies", "noise_floor", "provenance")
        assert [getattr(a, f) for f in fields] == [getattr(b, f) for f in fields]
        place = "layer, head, sample, shift"
        found = [s.ask(f"select {place}, file from maps where run = ?", [r.id])
                 for s, r in ((one, a), (other, b))]  # fmt: skip
        ((*place_a, file_a),), ((*place_b, file_b),) = found
        assert place_a == place_b
        (weights_a, labels_a), (weights_b, labels_b) = (
            one.maps.load(file_a),
            other.maps.load(file_b),
        )
        assert weights_a.tobytes() == weights_b.tobytes()
        assert (weights_a.dtype, labels_a) == (weights_b.dtype, labels_b)
    assert Results(one).report(there) == Results(other).report(here)


def test_runs_maps_and_a_view_come_in_bit_for_bit_and_once(sender, runs, bundle, store):
    keys = [run.key for run in runs]
    done = bundles.import_bundle(store, bundle, file="two.zip")
    assert done == {"runs": [{"key": key, "added": True} for key in keys], "view": VIEW}
    here = [Results(store).pick(key) for key in keys]
    for there, run in zip(runs, here, strict=True):
        same(sender, there, store, run)
    assert here[0].control_run == here[1].control_run  # carried once, as it stood
    before, on_disk = everything(store), files(store)
    again = bundles.import_bundle(store, bundle, file="again.zip")
    assert again == {"runs": [{"key": key, "added": False} for key in keys], "view": VIEW}
    assert (everything(store), files(store)) == (before, on_disk)
    assert bundles.export_bundle(store, here, view=VIEW) == bundle


def test_wiped_and_reopened_all_is_as_before(tmp_path):
    first = Store(tmp_path)
    runs = fill(first)
    keys = [run.key for run in runs]
    shown = [Results(first).show(run, {}) for run in runs]
    bundle = bundles.export_bundle(first, runs)
    for key in keys:
        first.delete(key)
    assert (first.runs(), files(first), first.ask("select count(*) from tokens")) == (
        [],
        [],
        [(0,)],
    )
    bundles.import_bundle(first, bundle)
    first.close()
    again = Store(tmp_path)
    try:
        results = Results(again)
        for key, before in zip(keys, shown, strict=True):
            after = results.show(results.pick(key), {})
            differ = {name for name in before if before[name] != after[name]}
            assert differ <= {"provenance", "created"}
            assert bundles.export_bundle(again, [results.pick(k) for k in keys]) == bundle
        assert again.verify_all() == []
    finally:
        again.close()


def test_where_a_run_came_from_is_told(bundle, runs, store):
    import hashlib

    from engine.version import product_version

    bundles.import_bundle(store, bundle, file="dir/../two.zip")
    origin = Results(store).pick(runs[0].key).origin
    assert origin["bundle"] == hashlib.sha256(bundle).hexdigest()
    assert (origin["file"], origin["made_by"]) == ("dir/../two.zip", product_version())
    assert origin["imported"].endswith("Z")
    shown = Results(store).show(Results(store).pick(runs[0].key), {})
    assert shown["provenance"]["origin"] == origin


def test_own_rows_are_left_alone(bundle, runs, store):
    own = fill(store)
    before, on_disk = everything(store), files(store)
    done = bundles.import_bundle(store, bundle)
    assert [run["added"] for run in done["runs"]] == [False, False]
    assert (everything(store), files(store)) == (before, on_disk)
    store.delete(own[0].key)
    assert [r["added"] for r in bundles.import_bundle(store, bundle)["runs"]] == [True, False]


def test_a_run_that_is_anothers_control_travels_once(store, tmp_path_factory):
    first, _ = fill(store)
    control = store.run(first.control_run)
    store.change(control.id, asked=True)
    run, control = store.run(first.id), store.run(control.id)
    bundle = bundles.export_bundle(store, [run, control])
    assert len(json.loads(parts(bundle)["run.json"])["parts"]) == 2
    other = Store(tmp_path_factory.mktemp("other"))
    try:
        bundles.import_bundle(other, bundle)
        assert len(other.runs()) == 2
        here = Results(other).pick(run.key)
        assert other.run(here.control_run).asked
    finally:
        other.close()


def test_an_incomplete_import_is_replaced_with_its_files(bundle, runs, store):
    bundles.import_bundle(store, bundle)
    for run in runs:
        here = Results(store).pick(run.key)
        store.change(here.id, status="incomplete")
    done = bundles.import_bundle(store, bundle)
    assert [run["added"] for run in done["runs"]] == [True, True]
    assert len(store.runs()) == 3
    assert len(files(store)) == 6  # three maps, two files each
    assert store.ask("select count(distinct run) from tokens") == [(3,)]


def test_a_run_that_was_broken_off_comes_once_and_never_shrinks(tmp_path_factory, store):
    there = Store(tmp_path_factory.mktemp("there"))
    first, _ = fill(there)
    there.change(first.id, status="cancelled")
    larger = bundles.export_bundle(there, [there.run(first.id)])
    with there.writing() as cursor:
        cursor.execute("delete from answers where run = ? and sample = 0", [first.id])
        cursor.execute("delete from tokens where run = ? and sample = 0", [first.id])
    smaller = bundles.export_bundle(there, [there.run(first.id)])
    there.close()
    for bundle, added in ((smaller, True), (larger, True), (larger, False), (smaller, False)):
        (told,) = bundles.import_bundle(store, bundle)["runs"]
        assert told["added"] is added
    (here,) = [run for run in store.runs_of(first.key) if run.asked]
    assert store.counts(here.id).answers == first.answers_stored


def test_maps_can_be_left_at_home(sender, runs, store):
    bundle = bundles.export_bundle(sender, runs, maps=False)
    assert not any("map" in name for name in parts(bundle))
    assert bundles.import_bundle(store, bundle)["view"] is None
    assert files(store) == []


def test_a_run_without_its_control_travels_too(sender, runs, store):
    from dataclasses import replace

    bundles.import_bundle(
        store, bundles.export_bundle(sender, [replace(runs[0], control_run=None)])
    )
    here = Results(store).pick(runs[0].key)
    assert (here.status, here.control_run) == ("done", None)
    assert Results(store).report(here)["control"] is None


def test_too_many_runs_or_one_twice_are_no_bundle(sender, runs):
    for bad in ([], [runs[0], runs[0]], runs * 30):
        with pytest.raises(SpecError, match="1 to 50"):
            bundles.export_bundle(sender, bad)
    with pytest.raises(SpecError, match="page"):
        bundles.export_bundle(sender, runs, view=VIEW | {"page": 3})


def test_a_failure_half_way_leaves_nothing(bundle, store, monkeypatch):
    calls, keep = [], store.maps.save

    def save(weights, labels):
        calls.append(1)
        if len(calls) == 3:
            raise OSError("no space left")
        return keep(weights, labels)

    monkeypatch.setattr(store.maps, "save", save)
    with pytest.raises(OSError, match="no space"):
        bundles.import_bundle(store, bundle)
    assert (store.runs(), files(store)) == ([], [])


def test_what_was_signed_anew_but_says_less_is_refused(bundle, store):
    found = parts(bundle)
    about = json.loads(found["run.json"])
    about["maps"].pop()
    with pytest.raises(SpecError, match=r"map2\.json"):
        bundles.import_bundle(
            store, pack(found | {"run.json": json.dumps(about).encode()}, format=2)
        )


def test_a_map_that_came_along_opens_without_its_model(sender, bundle, runs, tmp_path):
    from starlette.testclient import TestClient

    from engine.owner import Engine
    from engine.service import make_app

    engine = Engine(tmp_path)
    engine.ready.set()
    try:
        given = {"authorization": "Bearer t"}
        web = TestClient(make_app(engine, "t"), "http://127.0.0.1", headers=given)
        done = web.post("/import", content=bundle, params={"file": "两.zip"}).json()
        assert done["view"]["view"]["name"] == VIEW["name"]
        assert [run["added"] for run in done["runs"]] == [True, True]
        strange = bundles.export_bundle(sender, runs[:1], view=VIEW | {"page": "nowhere"})
        refused = web.post("/import", content=strange).json()["errors"][0]
        assert refused["field"] == "bundle"
        assert "view.json: page" in refused["message"]
        assert refused["message"].endswith("nothing was imported")
        key = runs[1].key
        assert web.get(f"/runs/{key}").json()["provenance"]["origin"]["file"] == "两.zip"
        asked = {"layer": 2, "head": 1, "sample": 0, "shift": 1}
        shown = web.post(f"/runs/{key}/attention", json=asked).json()
        assert (shown["shape"], shown["head"]) == ([2, 3], 1)
        bad = web.post(f"/runs/{key}/attention", json=asked | {"queries": [3]})
        assert bad.status_code == 422
        both = web.post("/bundle", json={"keys": [run.key for run in runs], "view": VIEW})
        assert both.content == bundle
        for wrong in ({}, {"keys": []}, {"keys": "x"}, {"keys": [key], "maps": 1}):
            assert web.post("/bundle", json=wrong).status_code == 422
        assert web.post("/bundle", json={"keys": ["0" * 12]}).status_code == 404
    finally:
        engine.store.close()


def test_a_pooled_memory_that_writes_travels_with_its_numbers(tmp_path_factory):
    spec = decode_runs.make(methods=[{"kind": "pooled"}, {"kind": "streaming"}])
    there, here = (Store(tmp_path_factory.mktemp(name)) for name in ("there", "here"))
    told = [arm_numbers(arm, FACTS, decode_runs.PROMPT + spec.steps) for arm in arms(spec, 400)]
    assert [arm["own_budget"] for arm in told] == [None, None, 64, 96]
    booked = {"arms": told, "prompt_tokens": decode_runs.PROMPT, "parameters": 10_000}
    run = there.run(decode_runs.fill(there, spec, provenance=booked))
    bundle = bundles.export_bundle(there, [run])
    assert bundles.import_bundle(here, bundle)["runs"] == [{"key": spec.key, "added": True}]
    assert here.run(1).provenance["arms"] == told
    # A method that evicts has a budget of its own, and a pooled one has none.
    for arm, own in ((2, None), (1, 64)):
        wrong = [dict(one) for one in told]
        wrong[arm]["own_budget"] = own
        there.change(run.id, provenance=booked | {"arms": wrong})
        hostile = bundles.export_bundle(there, [there.run(run.id)])
        with pytest.raises(SpecError, match=f"numbers of arm {arm} are out of range"):
            bundles.import_bundle(here, hostile)
