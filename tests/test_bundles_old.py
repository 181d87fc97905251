"""Shipped results, most of the first format, come in as they went out."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.rows import ANSWERS
from engine.store import Store, bundles
from engine.store.bundle_files import parquet, read_table
from engine.store.bundle_parts import tables

PRESETS = sorted((Path(__file__).parent.parent / "data" / "presets").glob("*.zip"))


def form(path: Path) -> int:
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("manifest.json"))["format"]


SHIPPED = [path for path in PRESETS if form(path) == 1]
NEWER = [path for path in PRESETS if form(path) == 2]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    made = Store(tmp_path_factory.mktemp("home"))
    yield made
    made.close()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_result_comes_in_bit_for_bit(store, path):
    content = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        about = json.loads(archive.read("run.json"))
        packed = {n: archive.read(n) for n in archive.namelist() if n.startswith("run_")}
    done = bundles.import_bundle(store, content, "preset")
    key = about["run"]["key"]
    assert done == {"runs": [{"key": key, "added": True}], "view": None}
    run = next(run for run in store.runs_of(key) if run.asked)
    assert (run.status, run.source, run.origin) == (about["run"]["status"], "preset", None)
    assert (run.provenance, run.written) == (about["run"]["provenance"], about["run"]["written"])
    found = tables(store, run)
    assert {f"run_{name}.parquet" for name in found} == set(packed)
    for name, rows in found.items():
        whole = read_table(f"run_{name}.parquet", rows.schema, packed)
        assert rows.num_rows == whole.num_rows
        assert rows.combine_chunks().equals(whole.combine_chunks())
    again = bundles.import_bundle(store, content, "preset")
    assert again["runs"] == [{"key": key, "added": False}]


@pytest.mark.parametrize("path", NEWER, ids=lambda path: path.stem)
def test_a_newer_shipped_result_comes_in_once(store, path):
    content = path.read_bytes()
    told = [bundles.import_bundle(store, content, "preset")["runs"] for _ in range(2)]
    assert [[run["added"] for run in runs] for runs in told] == [[True], [False]]


def test_a_one_token_answer_s_sum_is_packed_once_and_other_sums_as_they_are():
    plain = ANSWERS.empty_table().to_pydict()
    row = dict.fromkeys(plain, 1) | {"correct": True, "token_ranks": [0]}
    row |= {"token_residues": [0], "rival_logprobs": [-2.0, -3.0]}
    for terms, sums, nulls in (
        ([[-0.1], [-0.2]], [-0.1, -0.2], 2),
        ([[-0.1, -0.4], [-0.2]], [-0.5, -0.2], 0),
        ([[-0.1], [-0.2]], [-0.1, -0.3], 0),
    ):
        pairs = zip(terms, sums, strict=True)
        rows = [row | {"token_logprobs": t, "logprob": s} for t, s in pairs]
        table = pa.Table.from_pylist(rows, schema=ANSWERS)
        packed = parquet(table)
        assert pq.read_table(io.BytesIO(packed))["logprob"].null_count == nulls
        assert read_table("a", ANSWERS, {"a": packed}).equals(table)
