"""Evaluations of kvpress: in as runs, with scores that add up; out as configurations."""

from __future__ import annotations

import io
import json

import decode_runs
import made_rows
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hostile_bundles import rows as rows_of
from starlette.testclient import TestClient
from test_bundles import parts

from engine.kinds import check_spec, kind_of, read_spec
from engine.kvpress import config as kvpress_config
from engine.kvpress import service as kvpress_service
from engine.kvpress.files import read_folder
from engine.kvpress.spec import KVPressSpec
from engine.owner import Engine
from engine.registry import SpecError
from engine.results import Results
from engine.service import make_app
from engine.specs import ModelSpec, SweepSpec
from engine.store import Store, bundles
from engine.store.predictions import PREDICTIONS

CONFIG = {
    "dataset": "ruler", "data_dir": "4096", "model": "meta-llama/Meta-Llama-3.1-8B-Instruct",
    "device": None, "press_name": "snapkv", "compression_ratio": 0.5,
    "key_channel_compression_ratio": None, "threshold": None, "fraction": 0.1,
    "max_new_tokens": None, "max_context_length": None, "query_aware": False,
    "needle_depth": None, "compression_interval": None, "target_size": None,
    "hidden_states_buffer_size": None, "output_dir": "./results", "log_level": "INFO",
    "model_kwargs": {"attn_implementation": "flash_attention_2", "dtype": "auto"},
    "press_init_command": "SnapKVPress(compression_ratio=0.5, window_size=64, kernel_size=5)",
    "seed": 42, "fp8": False,
}  # fmt: skip
GOLD = [["1234567"], ["77", "O'Brien"], ["Paris", "France"], ["a", "b", "c", "d"]]
GIVEN = [" 1234567.", "only 77\x00 of\nthem", "It is in FRANCE", ""]
TASKS = ["niah_single_1", "niah_multivalue", "qa_1", "vt"]
EXPECTED = [1.0, 0.5, 1.0, 0.25 * 0]


def ruler() -> pd.DataFrame:
    """As the evaluation keeps it: gold answers as arrays, columns in any order."""
    return pd.DataFrame(
        {
            "predicted_answer": GIVEN,
            "task": TASKS,
            "answer": [np.array(gold, dtype=object) for gold in GOLD],
            "question": ["What is, in “Neon”,\nthe number?"] * 4,
            "answer_prefix": ["The number is"] * 4,
            "max_new_tokens": [128] * 4,
            "compression_ratio": [0.5] * 4,
        }
    )


def metrics(values=EXPECTED) -> dict:
    return {t: {"string_match": round(100 * v, 2)} for t, v in zip(TASKS, values, strict=True)}


def folder(frame=None, told=None, **config) -> dict[str, str]:
    """The three files' texts."""
    frame = ruler() if frame is None else frame
    return {
        "config.yaml": yaml.dump(CONFIG | config, sort_keys=False),
        "metrics.json": json.dumps(metrics() if told is None else told, indent=4),
        "predictions.csv": frame.to_csv(index=False),
    }


@pytest.fixture
def engine(tmp_path):
    made = Engine(tmp_path)
    made.ready.set()
    yield made
    made.store.close()


# ---- the three files


def test_a_folder_is_read_with_scores_that_add_up():
    found = read_folder(folder())
    assert found.rows.schema == PREDICTIONS
    assert found.rows["score"].to_pylist() == EXPECTED
    assert found.rows["predicted"].to_pylist() == GIVEN
    assert found.rows["removed"].to_pylist() == [0.5] * 4
    values = found.spec.to_dict()
    assert (values["model"]["id"], values["task"]["kind"]) == (CONFIG["model"], "ruler")
    assert found.spec.phrase() == "snapkv, 50 % removed"
    assert found.about["unscored"] == ""
    assert KVPressSpec.from_dict(values) == found.spec == read_spec(values)
    assert kind_of(found.spec) == "kvpress"


def test_what_decides_the_numbers_is_in_the_key_and_nothing_else():
    one = read_folder(folder()).spec
    assert read_folder(folder(output_dir="/else", device="cuda:1", log_level="DEBUG")).spec == one
    for name, value in (("compression_ratio", 0.25), ("seed", 7), ("model", "other/model")):
        assert read_folder(folder(**{name: value})).spec.key != one.key
    other = ruler()
    other.loc[0, "predicted_answer"] = "1234567"
    assert read_folder(folder(other)).spec.key != one.key


def test_older_and_sparser_configurations():
    old = {n: CONFIG[n] for n in ("dataset", "model", "press_name", "compression_ratio")}
    texts_ = folder() | {"config.yaml": yaml.dump(old | {"compress_questions": True})}
    values = read_folder(texts_).spec.to_dict()
    assert (values["seed"], values["task"]["query_aware"], values["task"]["data_dir"]) == (
        42,
        True,
        "",
    )
    none = read_folder(folder(press_name="no_press", compression_ratio=1)).spec
    assert none.to_dict()["press"]["compression_ratio"] == 0
    assert none.phrase() == "full cache (no_press)"
    decoding = read_folder(
        folder(press_name="decoding_knorm", target_size=2048, compression_interval=512)
    )
    assert decoding.spec.phrase() == "decoding_knorm, 2048 kept every 512 tokens"
    needles = folder(
        dataset="needle_in_haystack", needle_depth=[0, 50, 100], max_context_length=4000
    )
    found = read_folder(needles | {"metrics.json": '{"rouge1": NaN}'})
    assert found.about["metrics"] == {"rouge1": None}
    assert found.rows["score"].null_count == 4


def test_scores_that_do_not_add_up_are_none():
    found = read_folder(folder(told=metrics([1.0, 0.5, 0.0, 0.0])))
    assert found.rows["score"].null_count == 4
    assert "add up" in found.about["unscored"]
    assert found.about["overall"] == pytest.approx(0.375)


# ---- refusals

DEEP = "x: " + "[" * 50 + "]" * 50 + "\n"
ALIAS = "dataset: &a ruler\nmodel: *a\npress_name: x\n"
OBJECT = "dataset: ruler\nmodel: m\npress_name: !!python/object/apply:os.system ['true']\n"
BAD = {
    "no config": ({"config.yaml": None}, "config.yaml", "is missing"),
    "no metrics": ({"metrics.json": None}, "metrics.json", "is missing"),
    "no predictions": ({"predictions.csv": None}, "predictions.csv", "is missing"),
    "a list": ({"config.yaml": "- a\n- b\n"}, "config.yaml", "no table"),
    "no YAML": ({"config.yaml": "a: [1\n"}, "config.yaml", "no YAML in line"),
    "an alias": ({"config.yaml": ALIAS}, "config.yaml", "alias in line 2"),
    "an object": ({"config.yaml": OBJECT}, "config.yaml", "object of Python in line 3"),
    "a date": ({"config.yaml": yaml.dump(CONFIG) + "when: 2026-01-01\n"}, "config.yaml", "2026"),
    "infinite": ({"config.yaml": yaml.dump(CONFIG) + "x: .inf\n"}, "config.yaml", "inf"),
    "deep": ({"config.yaml": yaml.dump(CONFIG) + DEEP}, "config.yaml", "nested"),
    "very deep": ({"config.yaml": "x: " + "[" * 200_000}, "config.yaml", "nested"),
    "large": ({"config.yaml": "# " + "x" * 300_000}, "config.yaml", "larger"),
    "of another tool": ({"config.yaml": "dataset: ruler\n"}, "config.yaml", "kvpress's"),
    "metrics of text": ({"metrics.json": '"good"'}, "metrics.json", "no metric"),
    "metrics no JSON": ({"metrics.json": "{"}, "metrics.json", "no JSON"),
    "metrics deep": ({"metrics.json": "[" * 60 + "]" * 60}, "metrics.json", "nested"),
    "no column": ({"predictions.csv": "a,b\n1,2\n"}, "predictions.csv", "predicted_answer"),
    "a column twice": ({"predictions.csv": "a,a,predicted_answer\n"}, "predictions.csv", "twice"),
    "no rows": ({"predictions.csv": "task,predicted_answer\n"}, "predictions.csv", "rows"),
    "nothing": ({"predictions.csv": ""}, "predictions.csv", "CSV"),
    "ragged": ({"predictions.csv": "predicted_answer\nx\ny,z,w\n"}, "predictions.csv", "CSV"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_malformed_folder_is_refused_by_file_and_leaves_nothing(name, engine):
    changed, file, why = BAD[name]
    with pytest.raises(SpecError) as refused:
        kvpress_service.import_folder(engine, folder() | changed)
    ((field, message),) = refused.value.errors
    assert field == file
    assert why in message
    assert message.endswith("nothing was imported")
    assert engine.store.runs() == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression_ratio", 1.5), ("compression_ratio", "half"), ("compression_ratio", True),
        ("fraction", -1), ("needle_depth", 101), ("needle_depth", [[1]]),
        ("seed", -1), ("fp8", "yes"),
        ("query_aware", 3), ("target_size", 2**40), ("model", "x" * 400), ("model", ""),
        ("dataset", "a\nb"),
    ],
)  # fmt: skip
def test_a_bad_option_is_told_by_its_own_name(name, value):
    with pytest.raises(SpecError) as refused:
        read_folder(folder(**{name: value}))
    ((field, message),) = refused.value.errors
    assert field == "config.yaml"
    assert name in message


# ---- as a run


def test_a_run_is_listed_shown_sent_on_and_deleted(engine, tmp_path_factory):
    done = kvpress_service.import_folder(engine, folder() | {"folder": "snapkv__0.50"})
    assert done["added"]
    assert kvpress_service.import_folder(engine, folder()) == done | {"added": False}
    store, results = engine.store, engine.results
    run = results.pick(done["key"])
    (line,) = results.lines()
    assert (line["kind"], line["mean"], line["stale"]) == ("kvpress", pytest.approx(0.625), False)
    shown = results.show(run, {})
    json.dumps(shown, allow_nan=False)
    assert (shown["status"], shown["n_samples"], shown["worst_task"]) == ("done", 4, "vt")
    assert shown["mean_low"] <= shown["mean"] <= shown["mean_high"]
    assert [task["score"] for task in shown["tasks"]] == [0.5, 1.0, 1.0, 0.0]
    assert shown["provenance"]["origin"]["file"] == "snapkv__0.50"
    assert "scores .62" in shown["finding"] or "scores .63" in shown["finding"]
    assert store.verify_all() == []
    other = Store(tmp_path_factory.mktemp("other"))
    try:
        bundle = bundles.export_bundle(store, [run])
        assert bundles.import_bundle(other, bundle)["runs"] == [{"key": done["key"], "added": True}]
        there = Results(other).pick(done["key"])
        assert other.predictions(there.id).equals(store.predictions(run.id))
        assert Results(other).report(there) == results.report(run)
        assert other.verify_all() == []
    finally:
        other.close()
    store.delete(done["key"])
    assert store.ask("select count(*) from predictions") == [(0,)]


@pytest.mark.parametrize(
    ("column", "values", "why"),
    [
        ("score", [1.0, 2.0, 0.0, 0.0], "score is no share"),
        ("score", [1.0, None, 0.0, 0.0], "some rows only"),
        ("removed", [-1.0] * 4, "removed is no share"),
        ("row", [0, 1, 1, 3], "row is not"),
        ("predicted", [None] * 4, "empty cells"),
    ],
)
def test_predictions_that_no_evaluation_gave_do_not_come_in(engine, column, values, why):
    key = kvpress_service.import_folder(engine, folder())["key"]
    bundle = bundles.export_bundle(engine.store, [engine.results.pick(key)])
    engine.store.delete(key)

    def edit(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index(column)
        made = pa.array(values, rows.schema.field(column).type)
        return rows.set_column(at, column, made)

    with pytest.raises(SpecError, match=why):
        bundles.import_bundle(engine.store, rows_of(parts(bundle), "part0_predictions", edit))
    assert engine.store.runs() == []


def test_metrics_alone_still_make_a_run(engine):
    told = folder(dataset="loogle", told={"shortdep_qa": {"bleu1": 0.1}})
    run = engine.results.pick(kvpress_service.import_folder(engine, told)["key"])
    shown = engine.results.show(run, {})
    assert (shown["mean"], shown["tasks"]) == (None, [])
    assert shown["metrics"] == {"shortdep_qa": {"bleu1": 0.1}}
    assert "not computed row by row" in shown["warnings"][0]


def test_it_is_never_computed_here():
    values = read_folder(folder()).spec.to_dict()
    with pytest.raises(SpecError, match="import its results folder"):
        check_spec(values)
    with pytest.raises(SpecError):
        read_spec(values | {"task": {}})


def test_over_http(engine):
    web = TestClient(
        make_app(engine, "t"), "http://127.0.0.1", headers={"authorization": "Bearer t"}
    )
    key = web.post("/import/kvpress", json=folder()).json()["key"]
    assert web.get(f"/runs/{key}").json()["kind"] == "kvpress"
    rows = pq.read_table(io.BytesIO(web.get(f"/runs/{key}/predictions.parquet").content))
    assert rows["score"].to_pylist() == EXPECTED
    assert web.get(f"/runs/{key}/predictions").status_code == 200
    made = web.get(f"/runs/{key}/kvpress").json()["configurations"]
    again = yaml.safe_load(made[0]["yaml"])
    assert {n: again[n] for n in again} == {n: CONFIG[n] for n in again}
    for bad in ({}, {"x.txt": "y"}, folder() | {"config.yaml": "\ud800"}):
        assert (
            web.post(
                "/import/kvpress",
                content=json.dumps(bad),
                headers={"content-type": "application/json"},
            ).status_code
            == 422
        )
    values = web.get(f"/specs/{key}").json()
    assert web.post("/runs", json=values).status_code == 422
    assert web.post("/preview", json=values).status_code == 422
    assert web.get(f"/runs/{key}/gate", params={"worst": 0.5}).status_code == 422
    assert web.post(f"/runs/{key}/attention", json={"layer": 0}).status_code == 422
    assert web.get(f"/runs/{key}/depth").json() is None


# ---- configurations out


def memory_of(**options):
    from engine.registry import MEMORIES

    return MEMORIES.build(options)


@pytest.mark.parametrize(
    ("options", "press", "near"),
    [
        ({"kind": "snapkv", "preset": "kvpress", "budget": 256}, "snapkv", ""),
        ({"kind": "snapkv", "budget": 256}, "snapkv", "numbers will differ"),
        ({"kind": "h2o", "budget": 256}, "observed_attention", "not H2O"),
        ({"kind": "tova", "budget": 256}, "tova", "at every token"),
        ({"kind": "knorm", "budget": 256}, "knorm", "every 128 tokens"),
        ({"kind": "keydiff", "budget": 256}, "keydiff", "once"),
        ({"kind": "streaming", "budget": 256, "sinks": 8}, "streaming_llm", "kept 8"),
        ({"kind": "random", "budget": 256, "protect": 4}, "random", "chance"),
    ],
)  # fmt: skip
def test_a_memory_as_kvpress_is_told_it(options, press, near):
    made = kvpress_config._one("k", ModelSpec(), memory_of(**options), 3, 1024)
    told = yaml.safe_load(made["yaml"])
    assert (told["press_name"], told["compression_ratio"], told["seed"]) == (press, 0.75, 3)
    assert near in " ".join(made["notes"])
    assert all(f"# {note}." in made["yaml"] for note in made["notes"])
    assert (told["model_kwargs"]["attn_implementation"] == "eager") == (
        press == "observed_attention"
    )
    # Read again as kvpress would write it, it is a configuration that can be imported.
    assert (
        read_folder(folder() | {"config.yaml": made["yaml"]}).spec.to_dict()["press"]["name"]
        == press
    )


@pytest.mark.parametrize(
    ("options", "press"),
    [
        ({"kind": "knorm", "every": 16}, "decoding_knorm"),
        ({"kind": "tova"}, "decoding_tova"),
        ({"kind": "keydiff", "every": 512}, "decoding_keydiff"),
        ({"kind": "streaming", "every": 64, "sinks": 8}, "decoding_streaming_llm"),
    ],
)
def test_a_method_that_decodes_goes_out_as_a_decoding_press_and_comes_back(options, press):
    memory = memory_of(budget=256, **options)
    made = kvpress_config._one("k", ModelSpec(), memory, 3, 1024, decodes=True)
    told = yaml.safe_load(made["yaml"])
    assert told["press_name"] == made["press_name"] == press
    assert (told["compression_interval"], told["target_size"]) == (memory.every, 256)
    assert "prompt whole" in " ".join(made["notes"])
    assert ("kept 8" in " ".join(made["notes"])) == ("sinks" in options)
    back = read_folder(folder() | {"config.yaml": made["yaml"]}).spec
    assert back.phrase() == f"{press}, 256 kept every {memory.every} tokens"


@pytest.mark.parametrize("kind", ["h2o", "random", "snapkv"])
def test_a_method_without_a_decoding_press_says_so(kind):
    memory = memory_of(kind=kind, budget=256, every=32)
    made = kvpress_config._one("k", ModelSpec(), memory, 3, 1024, decodes=True)
    assert not made["press_name"].startswith("decoding")
    assert "no decoding press of this method" in " ".join(made["notes"])


@pytest.mark.parametrize("kind", ["rkv", "rpc", "beacon", "pooled", "trained"])
def test_a_memory_without_a_press_gets_a_sentence(kind):
    made = kvpress_config._one("k", ModelSpec(), memory_of(kind=kind), 3, 1024)
    assert made["yaml"] is None
    assert f"no press for {kind}" in made["reason"]


def test_configurations_of_stored_runs(engine):
    sweep = SweepSpec.from_dict(
        made_rows.SPEC | {"memory": {"kind": "knorm", "budget": 8, "every": 4}}
    )
    made_rows.fill_both(engine.store, sweep)
    ((made),) = kvpress_service.configurations(engine, sweep.key)
    assert yaml.safe_load(made["yaml"])["compression_ratio"] == 0.6  # 8 of 20 tokens
    full = kvpress_service.configurations(engine, sweep.control.key)[0]
    assert yaml.safe_load(full["yaml"])["press_name"] == "no_press"
    decode = decode_runs.make(methods=[{"kind": "pooled"}, *decode_runs.METHODS])
    decode_runs.fill(engine.store, decode)
    arms = kvpress_service.configurations(engine, decode.key)
    assert len(arms) == decode.arm_count - 1
    assert all(bool(arm["yaml"]) != bool(arm["reason"]) for arm in arms)
    assert {arm["press_name"] for arm in arms} == {None, "decoding_streaming_llm"}
    told = [yaml.safe_load(arm["yaml"])["target_size"] for arm in arms if arm["yaml"]]
    numbers = engine.results.pick(decode.key).provenance["arms"]
    assert told == [arm["own_budget"] for arm in numbers[-2:]]
