"""Bundles: what goes out comes in bit for bit, and nothing hostile comes in at all."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile

import made_rows
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_rows import SPEC

from engine.registry import SpecError
from engine.results import Results
from engine.rows import ANSWERS
from engine.specs import SweepSpec
from engine.store import Store, bundle_files, bundles
from engine.version import run_version


@pytest.fixture(scope="module")
def spec():
    return SweepSpec.from_dict(SPEC)


@pytest.fixture(scope="module")
def sender(tmp_path_factory, spec):
    store = Store(tmp_path_factory.mktemp("sender"))
    made_rows.fill_both(store, spec)
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


def everything(store) -> list:
    return [
        store.ask(f"select * from {name} order by all")
        for name in ("runs", "answers", "tokens", "specs", "jobs")
    ]


@pytest.mark.parametrize(("name", "schema"), bundles.SCHEMAS.items())
def test_floats_are_packed_small_and_bit_for_bit(name, schema):
    rng = np.random.default_rng(0)
    columns = {}
    for field in schema:
        kind = field.type.value_type if pa.types.is_list(field.type) else field.type
        values = np.log(rng.random(10_000)) if pa.types.is_floating(kind) else [1] * 10_000
        if pa.types.is_list(field.type):
            columns[field.name] = [[value] * 2 for value in values]
        else:
            columns[field.name] = pa.array(values).cast(kind)
    table = pa.table(columns, schema=schema)
    packed, plain = bundle_files.parquet(table, 9), io.BytesIO()
    pq.write_table(table, plain, compression="zstd", compression_level=9)
    assert pq.read_table(io.BytesIO(packed)).equals(table)
    assert len(packed) < plain.tell()
    file = f"run_{name}.parquet"  # a bundle of before still comes in
    assert bundle_files.read_table(file, schema, {file: plain.getvalue()}).equals(table)


def test_what_goes_out_comes_in_and_only_once(sender, bundle, spec, tmp_path):
    with_closing = Store(tmp_path)
    try:
        assert bundles.import_run(with_closing, bundle) == {"key": spec.key, "added": True}
        before = everything(with_closing)
        assert bundles.import_run(with_closing, bundle) == {"key": spec.key, "added": False}
        assert everything(with_closing) == before
        there, here = Results(sender).pick(spec.key), Results(with_closing).pick(spec.key)
        assert here.source == "import"
        for ours, theirs in ((here.id, there.id), (here.control_run, there.control_run)):
            assert with_closing.answers_table(ours).equals(sender.answers_table(theirs))
            assert with_closing.tokens(ours).equals(sender.tokens(theirs))
        assert Results(with_closing).report(here) == Results(sender).report(there)
        assert [line["key"] for line in Results(with_closing).lines()] == [spec.key]
    finally:
        with_closing.close()


def test_the_same_run_exports_to_the_same_bytes(sender, bundle, spec):
    assert bundles.export_run(sender, Results(sender).pick(spec.key)) == bundle


def test_a_shipped_result_is_never_a_computed_one(bundle, spec, tmp_path):
    store = Store(tmp_path)
    try:
        bundles.import_run(store, bundle, "preset")
        shipped = Results(store).pick(spec.key)
        assert shipped.source == "preset"
        own = store.open_run(spec.key, shipped.code_version, asked=True)
        assert store.stored(own.id) == set()
        store.delete(spec.key)
        assert Results(store).pick(spec.key).id == shipped.id
    finally:
        store.close()


def parts(bundle: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(files: dict[str, bytes], sign: bool = True, **manifest) -> bytes:
    """A zip of these files; `sign` makes the manifest fit them."""
    files = dict(files)
    if sign:
        hashes = {
            name: hashlib.sha256(content).hexdigest()
            for name, content in files.items()
            if name != "manifest.json"
        }
        files["manifest.json"] = json.dumps({"format": 1, "sha256": hashes} | manifest).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def edited(files: dict[str, bytes], edit) -> dict[str, bytes]:
    about = json.loads(files["run.json"])
    edit(about)
    return files | {"run.json": json.dumps(about).encode()}


def renamed_key(about):
    about["run"]["key"] = "0" * 12


def other_spec(about):
    about["run"]["spec"]["memory"]["stride"] = 2


def no_control(about):
    del about["control"]


def huge(about):
    about["run"]["copies"] = 2**70


def wrong_type(about):
    about["run"]["copies"] = "many"


def rows(f, edit) -> bytes:
    """The bundle with its answers changed, and signed anew."""
    table = pq.read_table(io.BytesIO(f["run_answers.parquet"])).to_pylist()
    edit(table)
    return pack(f | {"run_answers.parquet": parquet(pa.Table.from_pylist(table, schema=ANSWERS))})


HOSTILE = {
    "a residue of another grid": lambda f: rows(f, lambda t: t[0].update(residue=8)),
    "a negative sample": lambda f: rows(f, lambda t: t[0].update(sample=-1)),
    "an empty cell": lambda f: rows(f, lambda t: t[0].update(logprob=None)),
    "not a number": lambda f: rows(f, lambda t: t[0].update(logprob=float("nan"))),
    "a copy twice": lambda f: rows(f, lambda t: t.append(t[0])),
    "no answer tokens": lambda f: rows(f, lambda t: t[0].update(token_ranks=[])),
    "a count past all bounds": lambda f: pack(edited(f, huge)),
    "no zip": lambda f: b"PK\x03\x04 but no zip",
    "empty": lambda f: b"",
    "no manifest": lambda f: pack({n: c for n, c in f.items() if n != "manifest.json"}, sign=False),
    "path upwards": lambda f: pack(f | {"../../x": b"x"}),
    "absolute path": lambda f: pack(f | {"/etc/x": b"x"}),
    "changed byte": lambda f: pack(
        f | {"run_answers.parquet": f["run_answers.parquet"][:-1] + b"?"}, sign=False
    ),
    "missing file": lambda f: pack(
        {n: c for n, c in f.items() if n != "control_tokens.parquet"}, sign=False
    ),
    "missing and signed": lambda f: pack(
        {n: c for n, c in f.items() if n != "control_tokens.parquet"}
    ),
    "newer format": lambda f: pack(f, format=3),
    "one run told as many": lambda f: pack(f, format=2),
    "manifest is a list": lambda f: pack(f | {"manifest.json": b"[]"}, sign=False),
    "manifest is deep": lambda f: pack(f | {"manifest.json": b"[" * 100_000}, sign=False),
    "run.json is no JSON": lambda f: pack(f | {"run.json": b"{"}),
    "parquet is none": lambda f: pack(f | {"run_answers.parquet": b"PAR1 or not"}),
    "other columns": lambda f: pack(
        f | {"run_answers.parquet": parquet(pa.table({"sample": [1]}))}
    ),
    "other types": lambda f: pack(
        f
        | {
            "run_answers.parquet": parquet(
                made_rows.answers([(0, 0)]).set_column(0, "sample", pa.array(["x"]))
            )
        }
    ),
    "another's key": lambda f: pack(edited(f, renamed_key)),
    "another's spec": lambda f: pack(edited(f, other_spec)),
    "control dropped": lambda f: pack(edited(f, no_control)),
    "count as text": lambda f: pack(edited(f, wrong_type)),
}


@pytest.mark.parametrize("kept", [lambda row: row["residue"] % 4 != 1, lambda row: False])
def test_rows_that_were_left_out_are_missing_whatever_the_bundle_says(kept, bundle, spec, tmp_path):
    files, counts = parts(bundle), {}
    for name, schema in bundles.SCHEMAS.items():
        table = pq.read_table(io.BytesIO(files[f"run_{name}.parquet"]))
        made = pa.Table.from_pylist([row for row in table.to_pylist() if kept(row)], schema=schema)
        files[f"run_{name}.parquet"], counts[f"{name}_expected"] = parquet(made), made.num_rows
    store = Store(tmp_path)
    try:
        bundles.import_run(store, pack(edited(files, lambda a: a["run"].update(counts))))
        run = Results(store).pick(spec.key)
        assert (run.status, run.answers_expected) == ("incomplete", 24)
        assert store.run(run.control_run).status == "done"
        assert store.verify_all() == [spec.key]
    finally:
        store.close()


def test_an_import_takes_no_shipped_result_s_place(bundle, spec, tmp_path):
    """Whatever code it says it is of: the words of a file are not those of this machine."""
    store = Store(tmp_path)
    try:
        files = edited(parts(bundle), lambda about: about["run"].update(code_version="0" * 12))
        bundles.import_run(store, pack(files), "preset")
        shipped = Results(store).pick(spec.key)
        bundles.import_run(store, bundle)
        assert len(store.runs_of(spec.key)) == 2
        assert Results(store).pick(spec.key).id == shipped.id
        own = store.open_run(spec.key, run_version(spec.model), asked=True)
        assert Results(store).pick(spec.key).id == own.id
    finally:
        store.close()


@pytest.mark.parametrize("source", ["import", "preset", "own"])
def test_a_run_that_comes_alone_takes_the_control_that_is_here(
    sender, bundle, spec, source, tmp_path
):
    run = Results(sender).pick(spec.key)
    alone = bundles.export_run(sender, run, alone=True)
    store = Store(tmp_path)
    try:
        told = f"the control {spec.control.key} is neither .* import its own bundle first"
        with pytest.raises(SpecError, match=told):
            bundles.import_run(store, alone)
        if source == "own":
            made_rows.fill(store, spec.control.key, weak=None)
        else:
            control = bundles.export_run(sender, sender.run(run.control_run))
            bundles.import_run(store, control, source)
        (lent,) = [known.id for known in store.runs_of(spec.control.key)]
        assert bundles.import_run(store, alone) == {"key": spec.key, "added": True}
        assert store.runs_of(spec.key)[0].control_run == lent
        assert bundles.import_run(store, alone) == {"key": spec.key, "added": False}
        assert store.run(lent).source == source
    finally:
        store.close()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bundles_are_refused_and_leave_nothing(name, bundle, receiver):
    before = everything(receiver)
    with pytest.raises(SpecError) as refused:
        bundles.import_run(receiver, HOSTILE[name](parts(bundle)))
    assert [e.field for e in refused.value.errors] == ["bundle"]
    assert "nothing was imported" in refused.value.errors[0].message
    assert everything(receiver) == before


def test_a_bomb_is_refused_by_its_declared_and_by_its_real_size(bundle, receiver, monkeypatch):
    big = pack(parts(bundle) | {"run_tokens.parquet": b"\0" * 3_000_000})
    monkeypatch.setattr(bundle_files, "MAX_UNPACKED", 2_000_000)
    with pytest.raises(SpecError, match="unpacks to more"):
        bundles.import_run(receiver, big)
    # The directory's size field is only a claim: claim ten bytes.
    at = big.rindex(b"run_tokens.parquet") - 46
    liar = big[: at + 24] + struct.pack("<I", 10) + big[at + 28 :]
    with pytest.raises(SpecError):
        bundles.import_run(receiver, liar)
    assert receiver.runs() == []


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_changed_byte_is_refused_or_changes_nothing(bundle, receiver, data):
    at = data.draw(st.integers(0, len(bundle) - 1))
    flip = data.draw(st.integers(1, 255))
    changed = bundle[:at] + bytes([bundle[at] ^ flip]) + bundle[at + 1 :]
    # A byte of a date or of padding may carry nothing; what is read must then be the same.
    try:
        found = bundles.read(changed)
    except SpecError:
        return
    whole = bundles.read(bundle)
    for name, part in whole.items():
        assert found[name].tables == part.tables
        assert found[name].about == part.about
