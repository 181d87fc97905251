"""The benchmarks run and say what they measured; times are judged in `make bench`, not here."""

import json

import pytest
import torch
from test_bench_gpu import TINY
from test_sweep import loaded  # noqa: F401  (a fixture)

from engine.bench import controlled as bench_controlled
from engine.bench import eviction as bench_eviction
from engine.bench import gpu as bench_gpu
from engine.bench import run as bench
from engine.bench import store as bench_store


def test_model_rows_on_a_tiny_model(loaded, monkeypatch):  # noqa: F811
    monkeypatch.setattr(bench, "LENGTH", 48)
    monkeypatch.setattr(bench.equal_copies, "__defaults__", (90, None))
    found = bench.model_rows(loaded, "float64", rounds=1)
    assert [row.name.split(",")[0] for row in found] == [
        "pooled S4 ÷ full cache",
        "copies whole ÷ shared beginning",
        "16 × 48 tokens",
        "peak memory of the process",
    ]
    assert all(row.value > 0 for row in found)
    json.dumps([vars(row) for row in found])


def test_a_format_without_instructions_gets_one_round_and_says_so(loaded, monkeypatch):  # noqa: F811
    monkeypatch.setattr(bench.equal_copies, "__defaults__", (90, None))
    found = bench.brief_rows(loaded, "bfloat16", length=48)
    assert [row.unit for row in found] == ["×", "tok/s", "GiB"]
    assert all(row.value > 0 and row.ok is None for row in found)
    assert "one round" in found[0].name


def test_rounds_are_as_many_as_fit():
    assert [bench.fitting(seconds) for seconds in (0.1, 1.5, 2.2, 9.0)] == [5, 3, 2, 1]


def test_the_made_run_is_whole_and_has_the_planted_period(tmp_path, monkeypatch):
    from engine.client import Client
    from engine.serving import running

    monkeypatch.setattr(bench_store, "SAMPLES", 6)
    monkeypatch.setenv("PHASESCOPE_HOME", str(tmp_path))
    key, speed = bench_store.seed(tmp_path)
    assert speed > 0
    with running() as address:
        client = Client(address.url, address.token)
        shown = client.run(key)
        client.close()
    assert shown["status"] == "done"
    assert shown["period"]["detected"] == 4
    assert shown["control"]["period"]["detected"] is None
    assert shown["provenance"]["rows_stored"]["tokens"] == 6 * 16 * bench_store.LENGTH


def test_a_controlled_benchmark_is_timed_from_spec_to_report(monkeypatch):
    monkeypatch.setattr(bench_controlled, "SAMPLES", 4)
    found = bench_controlled.measure()
    assert [unit for _, _, unit, _, _ in found] == ["s", "tok/s", "×"]
    assert all(value > 0 for _, value, _, _, _ in found)


PARTS = ("controlled_rows", "in_fresh_process", "eviction_rows", "store_rows", "page_rows")


@pytest.mark.parametrize("reason", ["", "no CUDA device"])
def test_a_real_model_s_size_is_among_the_parts(monkeypatch, reason):
    """Where the device is; elsewhere a sentence says why it is not."""
    for name in (*PARTS, "shared_rows"):
        monkeypatch.setattr(bench, name, lambda say: [])
    monkeypatch.setattr(bench_gpu, "missing", lambda: reason)
    monkeypatch.setattr(bench_gpu, "measure", lambda: [("throughput", 4.0, "×", "", None)])
    said = []
    rows = bench.bench(said.append)["rows"]
    assert [row["name"] for row in rows] == ([] if reason else ["throughput"])
    (told,) = said
    assert told.endswith(reason or "a real model's size")


@pytest.fixture(scope="module")
def small():
    return bench_gpu.random_model(TINY | {"vocab_size": 1200}, torch.float32, "cpu")


def test_decode_is_timed_over_a_whole_period_with_its_event(small, monkeypatch):
    begun = []

    def kept(*args, begin=bench_eviction.begun):
        begun.append(begin(*args))
        return begun[-1]

    monkeypatch.setattr(bench_eviction, "begun", kept)
    found = bench_eviction.long_decode(small, lengths=(130, 260), budget=96)
    behind = [[e.seen - d.clock.prompt for e in d.events if e.seen > d.clock.prompt] for d in begun]
    assert behind == [[12], [], [12], []]  # an eighth of 96; the full cache has none
    assert [name.split(",")[0] for name, *_ in found] == [
        "tokens/s ÷ full cache's",
        "tokens/s ÷ full cache's",
        "full cache's bytes ÷ its own",
    ]
    assert found[-1][1] == (260 + 12) / 95  # the most that it held between two events


def test_a_whole_event_of_rkv_is_timed_in_both_forms(small, monkeypatch):
    monkeypatch.setattr(bench_eviction, "EVENTS", 2)
    found = bench_eviction.rkv_event(small, tokens=80, every=16)
    assert [name.split(", ")[-1] for name, *_ in found] == [
        "closed form",
        "literal form",
        "literal ÷ closed form",
    ]
    assert all(name.startswith("one event of rkv, 80 tokens, 2 layers") for name, *_ in found)
    assert all(value > 0 for _, value, *_ in found)
