"""The store on a real database: nothing half, nothing lost, nothing mixed up."""

from __future__ import annotations

import base64
import json
import subprocess
import sys

import duckdb
import made_rows
import numpy as np
import pyarrow as pa
import pytest
from made_rows import ALL, SPEC

from engine.results import Results
from engine.rows import TOKENS
from engine.specs import SweepSpec
from engine.store import Store, StoreError, StoreLocked
from engine.store.ledger import STOPPED
from engine.store.maps import MapFiles, cells
from engine.store.schema import MIGRATIONS, open_database, version


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def spec():
    return SweepSpec.from_dict(SPEC)


# ---- the file


def test_an_older_file_is_copied_before_it_is_changed(tmp_path):
    path = tmp_path / "x.duckdb"
    old = open_database(path)
    old.execute("insert into specs values ('k', '{}', '', null)")
    old.close()
    new = open_database(path, (*MIGRATIONS, "alter table specs add column note varchar"))
    assert version(new) == len(MIGRATIONS) + 1
    assert new.execute("select key, note from specs").fetchall() == [("k", None)]
    new.close()
    backup = duckdb.connect(str(tmp_path / f"x.duckdb.v{len(MIGRATIONS)}.backup"))
    assert version(backup) == len(MIGRATIONS)
    assert backup.execute("select * from specs").fetchall() == [("k", "{}", "", None)]
    backup.close()


def test_a_failing_migration_leaves_the_old_format(tmp_path):
    path = tmp_path / "x.duckdb"
    open_database(path).close()
    steps = (*MIGRATIONS, "create table half (a integer); select * from nowhere")
    with pytest.raises(StoreError, match="left as it was"):
        open_database(path, steps)
    again = open_database(path)
    assert version(again) == len(MIGRATIONS)
    names = [row[0] for row in again.execute("show tables").fetchall()]
    assert "half" not in names
    again.close()


def test_a_newer_file_is_refused_untouched(tmp_path):
    path = tmp_path / "x.duckdb"
    open_database(path, (*MIGRATIONS, "create table later (a integer)")).close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="newer Phasescope"):
        open_database(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_told_in_a_sentence(tmp_path):
    (tmp_path / "phasescope.duckdb").write_bytes(b"not a database at all" * 400)
    with pytest.raises(StoreError, match=r"phasescope\.duckdb"):
        Store(tmp_path)


def test_another_process_is_told_who_has_the_data(store, tmp_path):
    code = (
        "import sys; from engine.store import Store, StoreLocked\n"
        "try: Store(sys.argv[1])\n"
        "except StoreLocked as e: print(e); sys.exit(7)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 7
    assert "another Phasescope process" in done.stdout
    assert issubclass(StoreLocked, StoreError)


# ---- rows


def test_rows_come_back_as_they_were_sent(store):
    run = store.open_run("k", "c", asked=True)
    sent = made_rows.answers(ALL), made_rows.tokens(ALL)
    store.add(run.id, *sent)
    assert store.answers_table(run.id).equals(sent[0])
    assert store.tokens(run.id).equals(sent[1])
    one = store.tokens(run.id, sample=1, shift=3)
    assert one.equals(made_rows.tokens([(1, 3)]))


def test_a_batch_is_stored_whole_or_not_at_all(store):
    run = store.open_run("k", "c", asked=True)
    broken = pa.table({"sample": pa.array([0], pa.int32())})
    with pytest.raises(KeyError):
        store.add(run.id, made_rows.answers([(0, 0)]), broken)
    assert store.counts(run.id) == (0, 0)
    store.add(run.id, made_rows.answers([(0, 0)]), made_rows.tokens([(0, 0)]))
    assert store.counts(run.id) == (1, 5)


def test_a_broken_batch_is_replaced_and_others_are_left(store):
    run, other = store.open_run("k", "c", True), store.open_run("k2", "c", True)
    for id in (run.id, other.id):
        store.add(id, made_rows.answers([(0, 0), (0, 1)]), made_rows.tokens([(0, 0), (0, 1)]))
    batch = [(0, 1), (0, 2)]
    store.add(run.id, made_rows.answers(batch), made_rows.tokens(batch), replace=True)
    assert store.stored(run.id) == {(0, 0, -1), (0, 1, -1), (0, 2, -1)}
    assert store.counts(run.id).tokens == 5 + 6 + 7
    assert store.counts(other.id) == (2, 11)


def test_a_scan_lies_beside_the_run(store):
    run = store.open_run("k", "c", True)
    store.add(run.id, made_rows.answers([(0, 0)]), None)
    store.add(run.id, made_rows.answers([(0, 0)], layer=3), None)
    assert store.answers(run.id)["layer"].tolist() == [-1]
    assert store.answers(run.id, scan=True)["layer"].tolist() == [3]
    assert store.answer_count(run.id) == 1


def test_token_means_align_tokens_without_the_fillers(store):
    """Against a loop: the i-th token that is no filler, averaged by phase."""
    run = store.open_run("k", "c", True)
    pairs = [(0, shift) for shift in range(8)]
    store.add(run.id, made_rows.answers(pairs), made_rows.tokens(pairs))
    got = store.token_means(run.id, 0, 4).to_pandas()
    rows = made_rows.tokens(pairs).to_pandas()
    for index in range(5):
        for phase in range(4):
            values = []
            for shift in range(8):
                copy = rows[(rows["shift"] == shift) & (rows["role"] != "pad")]
                row = copy.sort_values("position").iloc[index]
                if row["residue"] % 4 == phase:
                    values.append(row["logprob"])
            mine = got[(got["index"] == index) & (got["phase"] == phase)].iloc[0]
            assert mine["logprob"] == pytest.approx(np.mean(values))
            assert (mine["n"], mine["text"]) == (2, f"t{index + 1}")


def test_token_means_of_a_prompt_that_padding_opens(store):
    """The copy without padding has no row for its first token, which stands at position 0."""
    run = store.open_run("k", "c", True)
    pairs = [(0, 0), (0, 4)]
    rows = made_rows.tokens(pairs).to_pandas()
    own = rows[rows["role"] != "pad"].groupby("shift")["position"].rank()
    rows = rows[(rows["shift"] > 0) | (own.reindex(rows.index) != 1)]
    store.add(run.id, made_rows.answers(pairs), pa.Table.from_pandas(rows, TOKENS, False))
    got = store.token_means(run.id, 0, 4).to_pandas()
    assert got["n"].tolist() == [1, 2, 2, 2, 2]
    for row in got.itertuples():
        same = rows[(rows["text"] == row.text) & (rows["role"] != "pad")]
        assert row.logprob == pytest.approx(same["logprob"].mean())


# ---- states


def test_one_job_for_one_run_and_a_stop_is_no_success(store):
    run = store.open_run("k", "c", asked=True)
    job = store.enqueue(run)
    assert store.enqueue(run) == job
    later = store.enqueue(store.open_run("k2", "c", asked=True))
    store.start_job(job)
    assert store.recover() == 1
    assert (store.job(job.id).state, store.job(job.id).reason) == ("failed", STOPPED)
    assert store.run(run.id).status == "failed"
    assert store.next_job().id == later.id


def test_lost_rows_show_as_incomplete_after_a_start(store, spec):
    run = made_rows.fill_both(store, spec)
    assert store.verify_all() == []
    with store.writing() as cursor:
        cursor.execute("delete from tokens where run = ? and sample = 2", [run])
    assert store.verify_all() == [spec.key]
    shown = store.run(run)
    assert shown.status == "incomplete"
    assert "run it again" in shown.reason


def test_rows_of_older_code_are_stale_and_not_reused(store, spec):
    made_rows.fill_both(store, spec, code="old")
    results = Results(store)
    shown = results.show(results.pick(spec.key), {})
    assert shown["stale"] is True
    from engine.version import code_version

    fresh = store.open_run(spec.key, code_version(), asked=True)
    assert store.stored(fresh.id) == set()
    assert results.pick(spec.key).id == fresh.id


def test_deleting_a_run_keeps_a_control_that_others_use(store, spec):
    one = made_rows.fill_both(store, spec)
    control = store.run(one).control_run
    other = made_rows.fill(store, "other", control_run=control)
    store.delete(spec.key)
    assert store.counts(control).answers == len(ALL)
    assert store.runs_of(spec.key) == []
    store.delete("other")
    assert store.counts(control) == (0, 0)
    assert store.counts(other) == (0, 0)


def test_a_report_is_kept_and_made_again_when_rows_change(store, spec):
    run = made_rows.fill_both(store, spec)
    results = Results(store)
    first = results.report(store.run(run))
    assert first["period"]["detected"] == 4
    assert first["worst_phase"] == 1
    assert first["control"]["gap"] == pytest.approx(0, abs=1e-9)
    assert json.loads(json.dumps(first)) == first
    assert Results(store).report(store.run(run)) == first
    line = results.lines()[0]
    assert (line["key"], line["period"], line["worst"]) == (spec.key, 4, first["worst"])
    assert len(line["curve"]) == 8
    assert results.lines() == [line]  # the control was not asked for
    extremes = results.extremes(store.run(run))
    assert extremes["worst"][0] == 1
    assert extremes["worst"][1] % 4 == 1


# ---- maps


def test_cells_are_maxima_of_the_parts_they_name(tmp_path):
    rng = np.random.default_rng(0)
    entries, tokens = 30, 120
    weights = rng.random((tokens, entries + tokens)).astype(np.float16)
    labels = {
        "key_kind": ["entry"] * entries + ["token"] * tokens,
        "key_start": [4 * i for i in range(entries)] + list(range(tokens)),
        "key_stop": [4 * i + 4 for i in range(entries)] + list(range(1, tokens + 1)),
        "query_positions": list(range(tokens)),
    }
    files = MapFiles(tmp_path / "attention")
    stored, names = files.load(files.save(weights, labels))
    shown = cells(stored, names, most=16)
    values = np.frombuffer(base64.b64decode(shown["cells"]), "<f4").reshape(shown["shape"])
    assert max(shown["shape"]) <= 16
    assert {k["kind"] for k in shown["key_labels"]} == {"entry", "token"}
    for r, (a, b) in enumerate(shown["query_ranges"]):
        for c, key in enumerate(shown["key_labels"]):
            inside = [
                i
                for i in range(entries + tokens)
                if labels["key_kind"][i] == key["kind"]
                and key["start"] <= labels["key_start"][i]
                and labels["key_stop"][i] <= key["stop"]
            ]
            assert values[r, c] == weights[a:b][:, inside].max()
    part = cells(stored, names, queries=(8, 12), keys=(6, 9), most=16)
    assert part["max"] is False
    assert part["query_ranges"] == [[8, 9], [9, 10], [10, 11], [11, 12]]
    spans = [(k["kind"], k["start"], k["stop"]) for k in part["key_labels"]]
    assert spans == [
        ("entry", 4, 8),
        ("entry", 8, 12),
        ("token", 6, 7),
        ("token", 7, 8),
        ("token", 8, 9),
    ]
    assert cells(stored, names, queries=(500, 600)) is None


def test_summaries_of_an_older_version_take_the_folded_numbers_from_their_report(store):
    run, report = store.open_run("k", "c", asked=True), {"worst_folded": 0.5, "folded_gap": None}
    store.keep_report(run.id, "1", report, {"worst": 0.25})
    assert store.summaries()[run.id] == {"worst": 0.25, "worst_folded": 0.5, "folded_gap": None}
    store.keep_report(run.id, "1", report, {"worst": 0.25, "worst_folded": 0.75})
    assert store.summaries()[run.id]["worst_folded"] == 0.75
