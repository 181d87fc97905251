"""Hostile bundles, by hand and by chance: none comes in, none breaks anything."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile_bundles import HOSTILE, pack, signed
from hypothesis import given, settings
from hypothesis import strategies as st
from test_bundles import parquet, parts
from test_bundles_many import VIEW, everything, files, fill

from engine.registry import SpecError
from engine.results import Results
from engine.rows import ANSWERS, TOKENS
from engine.store import Store, bundle_files, bundles

warnings.filterwarnings("ignore", message="Duplicate name")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("sender"))
    made = bundles.export_bundle(store, fill(store), view=VIEW)
    store.close()
    return made


@pytest.fixture(scope="module")
def receiver(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("receiver"))
    yield store
    store.close()


def repeated(rows: int, text: str) -> bytes:
    """A table of one text a million times, which packs into nothing."""
    values = {}
    for f in TOKENS:
        made = [text] * rows if pa.types.is_string(f.type) else np.zeros(rows)
        values[f.name] = pa.nulls(rows) if pa.types.is_list(f.type) else pa.array(made)
        values[f.name] = values[f.name].cast(f.type)
    return parquet(pa.table(values, schema=TOKENS))


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_hostile_is_refused_by_name_and_leaves_nothing(name, bundle, receiver):
    make, why = HOSTILE[name]
    before = everything(receiver)
    with pytest.raises(SpecError) as refused:
        bundles.import_bundle(receiver, make(parts(bundle)))
    ((field, message),) = refused.value.errors
    assert field == "bundle"
    assert why in message
    assert message.endswith("nothing was imported")
    assert len(message) < 600
    assert (everything(receiver), files(receiver)) == (before, [])


def test_ten_gigabytes_are_refused_before_they_are_unpacked(bundle, receiver):
    liar = bytearray(pack(parts(bundle)))
    at = liar.rindex(b"PK\x01\x02")
    liar[at + 24 : at + 28] = struct.pack("<I", 0xF0000000)  # the declared size
    with pytest.raises(SpecError, match="unpacks to more than the cap of 2 GB"):
        bundles.import_bundle(receiver, bytes(liar))


def test_a_size_that_is_not_declared_is_met_while_unpacking(bundle, receiver, monkeypatch):
    monkeypatch.setattr(bundle_files, "MAX_UNPACKED", 2_000_000)
    found = parts(bundle) | {"view.json": b" " * 3_000_000}
    big = pack(found, {"view.json": {"compress_type": zipfile.ZIP_DEFLATED}})
    with pytest.raises(SpecError, match="unpacks to more"):
        bundles.import_bundle(receiver, big)
    liar = bytearray(big)
    at = liar.rindex(b"view.json") - 46
    liar[at + 24 : at + 28] = struct.pack("<I", 10)
    with pytest.raises(SpecError, match=r"view\.json"):
        bundles.import_bundle(receiver, bytes(liar))


def test_rows_that_pack_into_nothing_are_counted_before_they_are_made(monkeypatch):
    monkeypatch.setattr(bundle_files, "MAX_UNPACKED", 30_000_000)
    for rows, text in ((20_000, "x" * 5_000), (400_000, "x")):
        content = repeated(rows, text)
        assert len(content) < 200_000
        with pytest.raises(SpecError, match="unpacks to more"):
            bundle_files.read_table("a.parquet", TOKENS, {"a.parquet": content})


def test_all_parts_together_have_one_cap(bundle, receiver, monkeypatch):
    monkeypatch.setattr(bundle_files, "MAX_UNPACKED", 45_000)
    with pytest.raises(SpecError, match="unpacks to more"):
        bundles.import_bundle(receiver, bundle)


def test_an_extension_type_is_only_a_type(bundle, receiver):
    """Arrow's schema travels inside Parquet; what it names is not loaded."""
    rows = pq.read_table(io.BytesIO(parts(bundle)["part0_answers.parquet"]))
    kind = pa.opaque(pa.int32(), "arrow.py_extension_type", "made up")
    rows = rows.set_column(
        0, "sample", pa.ExtensionArray.from_storage(kind, rows["sample"].combine_chunks())
    )
    with pytest.raises(SpecError, match="part0_answers"):
        bundles.import_bundle(receiver, signed(parts(bundle), part0_answers_parquet=parquet(rows)))
    assert ANSWERS.field("sample").type == pa.int32()


# ---- by chance


@settings(max_examples=40)
@given(data=st.data())
def test_changed_bytes_are_refused_or_change_nothing(bundle, data):
    at = data.draw(st.integers(0, len(bundle) - 1))
    new = data.draw(st.binary(min_size=1, max_size=6))
    changed = bundle[:at] + new + bundle[at + len(new) :]
    try:
        found = bundles.read_bundle(changed)
    except SpecError:
        return
    # A byte of a date or of padding may carry nothing; what is read must then be the same.
    whole = bundles.read_bundle(bundle)
    assert (found.runs, found.view) == (whole.runs, whole.view)
    for one, other in zip(whole.parts, found.parts, strict=True):
        assert (one.about, one.tables) == (other.about, other.tables)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=5,
)


def spots(value, path=()):
    """Paths of everything in a JSON value."""
    yield path
    pairs = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, item in pairs:
        yield from spots(item, (*path, name))


def with_value(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = with_value(copy[path[0]], path[1:], new)
    return copy


def comes_in_whole_or_not_at_all(content: bytes, store: Store) -> None:
    """Refused in a sentence; or what came in can be shown, listed and sent on."""
    results = Results(store)
    for run in store.runs():  # what an example that failed has left
        store.delete(run.key)
    try:
        done = bundles.import_bundle(store, content)
    except SpecError as refused:
        message = refused.errors[0].message
        done = None
    if done is None:
        assert message.endswith("nothing was imported")
        assert store.runs() == []
        return
    json.dumps(results.lines(), allow_nan=False)
    for told in done["runs"]:
        run = results.pick(told["key"])
        json.dumps(results.show(run, {}), allow_nan=False)
        bundles.read_bundle(bundles.export_bundle(store, [run]))
        store.delete(told["key"])
    for run in store.runs():
        store.delete(run.key)
    assert store.runs() == []
    assert files(store) == []


@settings(max_examples=40)
@given(data=st.data())
def test_any_value_of_run_json_may_be_anything(bundle, receiver, data):
    f = parts(bundle)
    name = data.draw(st.sampled_from(["run.json", "run.json", "view.json", "map0.json"]))
    about = json.loads(f[name])
    path = data.draw(st.sampled_from(list(spots(about))))
    made = json.dumps(with_value(about, path, data.draw(JSON))).encode()
    comes_in_whole_or_not_at_all(signed(f, **{name.replace(".", "_"): made}), receiver)


@settings(max_examples=40)
@given(data=st.data())
def test_any_member_may_be_damaged_and_signed_anew(bundle, receiver, data):
    f = parts(bundle)
    name = data.draw(st.sampled_from(sorted(set(f) - {"manifest.json"})))
    content = f[name]
    how = data.draw(st.sampled_from(["byte", "cut", "swap", "empty"]))
    at = data.draw(st.integers(0, len(content) - 1))
    if how == "byte":
        content = (
            content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255))]) + content[at + 1 :]
        )
    elif how == "cut":
        content = content[:at]
    elif how == "swap":
        content = f[data.draw(st.sampled_from(sorted(f)))]
    else:
        content = b""
    comes_in_whole_or_not_at_all(signed(f, **{name.replace(".", "_"): content}), receiver)


def test_no_damage_to_a_parquet_footer_ends_the_process():
    """In a process of its own: what pyarrow's description of such files does cannot be caught."""
    done = subprocess.run(
        [sys.executable, "-c", DAMAGE], capture_output=True, text=True, cwd=ROOT, timeout=300
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.split()[0] == "600"


ROOT = Path(__file__).resolve().parents[1]
DAMAGE = """
import io, random
import pyarrow as pa, pyarrow.parquet as pq
from engine.registry import SpecError
from engine.store.bundle_files import read_table
rows = pa.table({"n": pa.array([1, 2, 3]), "text": pa.array(["x", "y", "z"]),
                 "all": pa.array([[1.0], [2.0, 3.0], []], pa.list_(pa.float32()))})
out = io.BytesIO()
pq.write_table(rows, out, compression="zstd")
whole, refused = out.getvalue(), 0
footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
for seed in range(600):
    drawn, damaged = random.Random(seed), bytearray(whole)
    for _ in range(drawn.randint(1, 3)):
        damaged[drawn.randrange(footer, len(whole) - 8)] = drawn.randrange(256)
    try:
        read_table("t", rows.schema, {"t": bytes(damaged)})
    except SpecError:
        refused += 1
assert refused > 300, refused
print(seed + 1, refused)
"""
