"""Rows of decode runs on a real database: whole parts, lost rows, bundles, older files."""

from __future__ import annotations

import gzip
import io
import json

import decode_runs
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from test_bundles import pack, parts

from engine.eviction.rows import TABLES
from engine.registry import SpecError
from engine.results import Results
from engine.store import Store, bundles
from engine.store.decode import PARTS, receipts
from engine.store.schema import FIRST, MIGRATIONS, open_database, version
from engine.store.traces import TraceFiles

EVERY = (*TABLES, "decode_parts")


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def spec():
    return decode_runs.make()


def count(store, table: str) -> int:
    return store.ask(f"select count(*) from {table}")[0][0]


# ---- the file


def test_a_file_of_before_gets_the_tables_and_keeps_its_runs(tmp_path):
    path = tmp_path / "phasescope.duckdb"
    old = open_database(path, (FIRST,))
    old.execute(
        "insert into runs (key, code_version, source, title, asked, status, created, copies, "
        "answers_expected, tokens_expected, answers_stored, tokens_stored) "
        "values ('k', 'c', 'own', 't', true, 'done', now()::timestamp, 0, 0, 0, 0, 0)"
    )
    old.close()
    store = Store(tmp_path)
    try:
        (run,) = store.runs()
        assert (run.key, run.kind, run.provenance) == ("k", "sweep", {})
        assert version(store._connection) == len(MIGRATIONS)
        assert all(count(store, table) == 0 for table in (*EVERY, "traces"))
        assert store.verify_all() == ["k"]
    finally:
        store.close()
    backup = duckdb.connect(str(tmp_path / "phasescope.duckdb.v1.backup"))
    assert version(backup) == 1
    backup.close()


# ---- rows


def test_the_tables_have_the_columns_that_are_declared(store):
    for name, schema in {**TABLES, "decode_parts": PARTS}.items():
        found = store.ask(
            "select column_name from information_schema.columns where table_name = ? "
            "order by ordinal_position",
            [name],
        )
        assert [row[0] for row in found] == ["run", *schema.names]


def test_rows_come_back_as_they_were_sent(store, spec):
    id = decode_runs.fill(store, spec)
    for name, schema in TABLES.items():
        sent = pa.concat_tables(
            decode_runs.tables(spec, arm, samples)[name]
            for arm, samples in decode_runs.batches(spec)
        )
        order = [("arm", "ascending"), ("sample", "ascending")]
        order += [(c, "ascending") for c in ("position", "question", "mark") if c in schema.names]
        back = store.decode_table(id, name)
        assert back.schema == schema
        assert back.sort_by(order).equals(sent.sort_by(order)), name
    one = store.decode_table(id, "decode_steps", arm=2, sample=1)
    assert one.equals(decode_runs.tables(spec, 2, [1])["decode_steps"])
    with pytest.raises(KeyError):
        store.decode_table(id, "runs")


def test_counts_are_of_whole_parts_and_their_tokens(store, spec):
    run = store.run(decode_runs.fill(store, spec))
    assert store.counts(run.id) == (15, 15 * 6)
    assert store.verify(run.id)
    assert store.decode_stored(run.id) == {(a, s) for a in range(5) for s in range(3)}
    assert (run.kind, run.answers_stored, run.tokens_stored) == ("decode", 15, 90)


@pytest.mark.parametrize("table", TABLES)
def test_a_lost_row_in_any_table_leaves_its_part_to_be_computed(store, spec, table):
    run = decode_runs.fill(store, spec)
    arm = 0 if table == "decode_texts" else 3
    with store.writing() as cursor:
        cursor.execute(f"delete from {table} where run = ? and arm = ? and sample = 2", [run, arm])
    assert store.decode_stored(run) == {(a, s) for a in range(5) for s in range(3)} - {(arm, 2)}
    assert store.verify_all() == [spec.key]
    shown = store.run(run)
    assert shown.status == "incomplete"
    assert "14 of 15 parts (a method on a prompt)" in shown.reason
    store.add_decode(run, arm, [2], decode_runs.tables(spec, arm, [2]))
    assert store.verify(run)


def test_a_batch_takes_the_place_of_what_was_there_and_of_nothing_else(store, spec):
    one = decode_runs.fill(store, spec)
    other = decode_runs.fill(store, decode_runs.make(seed=1))
    before = {name: store.decode_table(one, name) for name in TABLES}
    for arm, samples in decode_runs.batches(spec):
        store.add_decode(one, arm, samples, decode_runs.tables(spec, arm, samples))
    assert {name: store.decode_table(one, name) for name in TABLES} == before
    assert store.counts(other) == (15, 90)
    assert store.decode_parts(one).num_rows == 15


def test_a_batch_is_stored_whole_or_not_at_all(store, spec):
    run = store.open_run("k", "c", asked=True, kind="decode")
    broken = decode_runs.tables(spec, 1, [0, 1])
    broken["decode_texts"] = pa.table({"arm": [1]})
    with pytest.raises(KeyError):
        store.add_decode(run.id, 1, [0, 1], broken)
    assert all(count(store, table) == 0 for table in EVERY)


def test_receipts_count_each_part_s_rows(spec):
    made = receipts(decode_runs.tables(spec, 1, [0, 1]), [(1, 0), (1, 1), (2, 0)])
    assert made.to_pylist() == [
        {"arm": 1, "sample": 0, "steps": 6, "answers": 2, "marks": 2, "costs": 1, "texts": 0},
        {"arm": 1, "sample": 1, "steps": 6, "answers": 2, "marks": 2, "costs": 0, "texts": 0},
        {"arm": 2, "sample": 0, "steps": 0, "answers": 0, "marks": 0, "costs": 0, "texts": 0},
    ]
    assert receipts({}, []).num_rows == 0


def test_deleting_a_run_takes_its_rows_and_traces(store, spec):
    run, other = (
        decode_runs.fill(store, spec),
        decode_runs.fill(store, decode_runs.make(seed=1)),
    )
    names = {}
    for id in (run, other):
        names[id] = store.traces.save({"events": [], "run": id})
        store.keep_trace((id, 1, 0, 2, 1, 150, 200), names[id])
    assert store.trace_file((run, 1, 0, 2, 1, 150, 200)) == names[run]
    assert store.trace_file((run, 1, 0, 2, 1, 151, 200)) is None
    store.delete(spec.key)
    assert store.counts(run) == (0, 0)
    assert store.counts(other) == (15, 90)
    assert [count(store, table) for table in ("decode_parts", "traces")] == [15, 1]
    assert store.traces.load(names[run]) is None
    assert json.loads(store.traces.load(names[other]))["run"] == other


def test_a_trace_is_whole_or_not_there(tmp_path):
    files = TraceFiles(tmp_path / "traces")
    name = files.save({"nll": [[3, -0.5, -0.25]], "text": "é\ud7ff"})
    assert json.loads(files.load(name)) == {"nll": [[3, -0.5, -0.25]], "text": "é\ud7ff"}
    (tmp_path / "traces" / f"{name}.json.gz").write_bytes(gzip.compress(b"{}" * 100)[:-9])
    assert files.load(name) is None
    assert files.load("nothing") is None
    with pytest.raises(ValueError, match="JSON"):
        files.save({"x": float("nan")})
    assert list((tmp_path / "traces").glob("*.part")) == []


# ---- what is shown


def test_a_stored_run_is_shown_with_its_methods(store, spec):
    results = Results(store)
    run = store.run(decode_runs.fill(store, spec))
    shown = results.show(run, {})
    assert [m["method"] for m in shown["methods"]] == ["full", *["beacon"] * 2, *["streaming"] * 2]
    assert [m["budget"] for m in shown["methods"]] == [None, 64, 96, 64, 96]
    assert [m["own_budget"] for m in shown["methods"]] == [None, 69, 101, 69, 101]
    assert shown["methods"][0]["recall"] == 1.0
    assert shown["methods"][1]["recall"] == 0.0
    assert shown["methods"][1]["nll"] > shown["methods"][0]["nll"]
    assert shown["n_samples"] == 3
    assert shown["finding"]
    assert (shown["kind"], shown["stale"]) == ("decode", False)
    assert shown["provenance"]["rows_expected"] == {"parts": 15, "tokens": 90}
    assert shown["provenance"]["rows_expected"] == shown["provenance"]["rows_stored"]
    assert "decode_steps" not in json.dumps(shown)
    (line,) = results.lines()
    assert (line["kind"], line["curve"], line["finding"]) == ("decode", [], shown["finding"])
    assert results.depth(run) is None
    stamp = results.stamp(run)
    assert store.report(run.id, stamp)["methods"] == shown["methods"]


def test_a_run_without_rows_has_the_same_keys(store, spec):
    results = Results(store)
    store.remember(spec)
    empty = store.open_run(spec.key, "old", asked=True, kind="decode")
    shown = results.show(empty, {})
    whole = results.show(store.run(decode_runs.fill(store, decode_runs.make(seed=1))), {})
    assert set(shown) == set(whole)
    assert set(shown["curves"]) == set(whole["curves"])
    assert shown["stale"]
    assert (shown["methods"], shown["finding"], shown["n_samples"]) == ([], None, 0)


def test_rows_that_no_statistics_fit_do_not_hide_the_run(store, spec):
    wrong = {"arms": [{"budget": "x"}], "prompt_tokens": 400}
    run = store.run(decode_runs.fill(store, spec, provenance=wrong))
    shown = Results(store).show(run, {})
    assert "statistics of these rows failed" in shown["warnings"][0]


# ---- bundles


@pytest.fixture(scope="module")
def sender(tmp_path_factory, spec):
    store = Store(tmp_path_factory.mktemp("sender"))
    decode_runs.fill(store, spec)
    yield store
    store.close()


@pytest.fixture(scope="module")
def bundle(sender, spec):
    return bundles.export_run(sender, Results(sender).pick(spec.key))


@pytest.fixture(scope="module")
def receiver(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("receiver"))
    yield store
    store.close()


def test_what_goes_out_comes_in_and_only_once(sender, bundle, spec, store):
    assert bundles.import_run(store, bundle) == {"key": spec.key, "added": True}
    assert bundles.import_run(store, bundle) == {"key": spec.key, "added": False}
    there, here = Results(sender).pick(spec.key), Results(store).pick(spec.key)
    assert (here.kind, here.status, here.source) == ("decode", "done", "import")
    for name in TABLES:
        assert store.decode_table(here.id, name).equals(sender.decode_table(there.id, name))
    assert store.decode_parts(here.id).equals(sender.decode_parts(there.id))
    assert Results(store).report(here) == Results(sender).report(there)
    assert bundles.export_run(store, here) == bundle


def test_an_incomplete_run_travels_as_one(tmp_path, spec, store):
    (tmp_path / "other").mkdir()
    sender = Store(tmp_path / "other")
    try:
        decode_runs.fill(sender, spec, skip=2, status="cancelled")
        bundles.import_run(store, bundles.export_run(sender, Results(sender).pick(spec.key)))
    finally:
        sender.close()
    assert Results(store).pick(spec.key).status == "incomplete"


def rows_of(files: dict, table: str) -> pa.Table:
    return pq.read_table(io.BytesIO(files[f"run_{table}.parquet"]))


def with_rows(files: dict, table: str, rows: pa.Table) -> dict:
    out = io.BytesIO()
    pq.write_table(rows, out)
    return files | {f"run_{table}.parquet": out.getvalue()}


def with_column(files: dict, table: str, name: str, values: list) -> dict:
    rows = rows_of(files, table)
    at = rows.schema.get_field_index(name)
    column = pa.array((values * rows.num_rows)[: rows.num_rows], rows.schema.field(name).type)
    return with_rows(files, table, rows.set_column(at, rows.schema.field(name), column))


def with_about(files: dict, **changes) -> dict:
    about = json.loads(files["run.json"])
    about["run"] |= changes
    return files | {"run.json": json.dumps(about).encode()}


def with_made(files: dict, **changes) -> dict:
    made = json.loads(files["run.json"])["run"]["provenance"]
    return with_about(files, provenance=made | changes)


def as_control(files: dict) -> dict:
    about = json.loads(files["run.json"])
    return files | {"run.json": json.dumps(about | {"control": about["run"]}).encode()}


ARM = {"budget": 64, "own_budget": 69, "bytes": 640}
FULL = {"budget": None, "own_budget": None, "bytes": 4000}
HOSTILE = {
    "a table is gone": lambda f: {n: c for n, c in f.items() if "marks" not in n},
    "a sweep's table": lambda f: f | {"run_answers.parquet": f["run_decode_steps.parquet"]},
    "a control": as_control,
    "an arm that the spec has not": lambda f: with_column(f, "decode_costs", "arm", [9]),
    "a negative sample": lambda f: with_column(f, "decode_texts", "sample", [-1]),
    "a share above one": lambda f: with_column(f, "decode_answers", "retained", [1.5]),
    "no number": lambda f: with_column(f, "decode_answers", "logprob", [float("nan")]),
    "surer than sure": lambda f: with_column(f, "decode_answers", "logprob", [0.01]),
    "infinite": lambda f: with_column(f, "decode_steps", "logprob", [float("-inf")]),
    "an empty cell": lambda f: with_column(f, "decode_marks", "mark", [None]),
    "an empty cell in a list": lambda f: with_column(f, "decode_costs", "step_ms", [[None]]),
    "a negative time": lambda f: with_column(f, "decode_costs", "step_ms", [[-1.0]]),
    "a negative count": lambda f: with_column(f, "decode_steps", "kept", [-1]),
    "a strange end": lambda f: with_column(f, "decode_texts", "ended", ["<b>"]),
    "a row twice": lambda f: with_column(f, "decode_steps", "position", [400]),
    "rows of no part": lambda f: with_rows(
        f, "decode_parts", rows_of(f, "decode_parts").slice(0, 3)
    ),
    "another column": lambda f: with_rows(
        f,
        "decode_marks",
        rows_of(f, "decode_marks").rename_columns(["arm", "sample", "a", "b", "c"]),
    ),
    "text for numbers": lambda f: with_made(f, arms="x"),
    "too few arms": lambda f: with_made(f, arms=[FULL]),
    "arms without numbers": lambda f: with_made(f, arms=[{}] * 5),
    "a budget of text": lambda f: with_made(f, arms=[FULL, *[ARM | {"budget": "9"}] * 4]),
    "a budget of nothing": lambda f: with_made(f, arms=[FULL, *[ARM | {"budget": 0}] * 4]),
    "a full cache with a budget": lambda f: with_made(f, arms=[ARM] * 5),
    "prompts of no length": lambda f: with_made(f, prompt_tokens=-4),
    "parameters of text": lambda f: with_made(f, parameters="many"),
    "another spec": lambda f: with_about(f, spec=decode_runs.make(seed=5).to_dict()),
    "no spec": lambda f: with_about(f, spec={"kind": "decode", "methods": []}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bundles_are_refused_and_leave_nothing(name, bundle, receiver):
    changed = pack(HOSTILE[name](parts(bundle)))
    with pytest.raises(SpecError) as caught:
        bundles.import_run(receiver, changed)
    assert caught.value.errors[0].field == "bundle"
    assert "nothing was imported" in caught.value.errors[0].message
    assert receiver.runs() == []
    assert all(count(receiver, table) == 0 for table in EVERY)


def test_a_part_that_lost_rows_on_the_way_is_incomplete(bundle, store, spec):
    files = parts(bundle)
    fewer = with_rows(files, "decode_steps", rows_of(files, "decode_steps").slice(0, 80))
    bundles.import_run(store, pack(fewer))
    run = Results(store).pick(spec.key)
    assert (run.status, run.answers_stored) == ("incomplete", 13)


def test_arms_that_were_left_out_are_missing_whatever_the_bundle_says(bundle, store, spec):
    files = parts(bundle)
    for name in (*TABLES, "decode_parts"):
        rows = rows_of(files, name)
        files = with_rows(files, name, rows.filter(pc.less(rows["arm"], 4)))
    told = {"answers_expected": 12, "tokens_expected": 12 * 6, "copies": 12}
    bundles.import_run(store, pack(with_about(files, **told)))
    run = Results(store).pick(spec.key)
    assert (run.status, run.answers_expected, run.answers_stored) == ("incomplete", 15, 12)


# ---- presets


def test_a_preset_may_be_a_decode_run(store, spec, bundle, tmp_path, monkeypatch):
    from engine import owner, results
    from engine.presets import Preset

    file = tmp_path / "looking-back.zip"
    file.write_bytes(bundle)
    preset = Preset("looking-back", "Looking back", "Caption.", "", spec.to_dict(), file)
    monkeypatch.setattr(results, "presets", lambda: {preset.name: preset})
    shown = Results(store)
    (card,) = shown.gallery()
    assert (card["kind"], card["stored"], card["finding"]) == ("decode", False, None)
    assert owner._turn(preset) < owner.LAST
    bundles.import_run(store, bundle, "preset")
    run = shown.pick(spec.key)
    shown.report(run)
    (card,) = shown.gallery()
    assert (card["key"], card["stored"], card["curve"]) == (spec.key, True, [])
    assert card["finding"] == shown.report(run)["finding"]
    methods = shown.report(run)["methods"]
    assert card["losses"] == [m["nll"] for m in methods if m["budget"] in (None, 64)]
