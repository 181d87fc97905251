"""Specs that are refused: at their field, in a sentence of bounded length, whatever was sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny

from engine.commands import words
from engine.models.loader import facts, load_model
from engine.presets import read_toml
from engine.registry import MOST, SpecError
from engine.specs import ModelSpec, SweepSpec

ENDLESS, NAN, INF = 10**5000, float("nan"), float("inf")
LONGEST = 500  # characters of one sentence


def refused(change: dict) -> list[tuple[str, str]]:
    with pytest.raises(SpecError) as caught:
        SweepSpec.from_dict({"memory": {"kind": "pooled"}} | change)
    return list(caught.value.errors)


def pooled(**options) -> dict:
    return {"memory": {"kind": "pooled", **options}}


VALUES = [ENDLESS, -ENDLESS, NAN, INF, -INF, True, [4], {}, "4", None, 0]


@pytest.mark.parametrize("value", VALUES, ids=map(str, range(len(VALUES))))
def test_no_value_of_a_stride_or_window_but_a_whole_number_passes(value):
    for name in ("stride", "window"):
        (error,) = refused(pooled(**{name: value}))
        assert error.field == f"memory.{name}"
        assert "whole number" in error.message
        assert len(error.message) < LONGEST


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (pooled(local=10**30), "memory.local"),
        (pooled(sinks=1e300), "memory.sinks"),
        (pooled(layers="9" * 5000), "memory.layers"),
        (pooled(layers="x" * 10**6), "memory.layers"),
        (pooled(strides_by_layer="0:\u00b2"), "memory.strides_by_layer"),
        (pooled(strides_by_layer=":4"), "memory.strides_by_layer"),
        (pooled(gate="hand", weights=[1, 1, 1, True]), "memory.weights"),
        (pooled(gate="hand", weights=[1, 1, 1, ENDLESS]), "memory.weights"),
        (pooled(gate="hand", weights=[1e308] * 4), "memory.weights"),
        (pooled(weights=[NAN]), "memory.weights"),
        (pooled(v_weights=[{}]), "memory.v_weights"),
        (pooled(window=100, stride=97, strides_by_layer="0:89, 1:83"), "memory.stride"),
        ({"samples": ENDLESS}, "samples"),
        ({"modulus": ENDLESS}, "modulus"),
        ({"seed": NAN}, "seed"),
        ({"scan": True, "memory": {"kind": "full"}}, "scan"),
        ({"model": {"device": "cuda:abc"}}, "model.device"),
        ({"model": {"device": "cpu:7"}}, "model.device"),
        ({"model": {"id": "x" * 10**6, "dtype": "y" * 10**6}}, "model.dtype"),
        ({"control": {"model": []}}, "control.model"),
        ({"control": {"memory": ""}}, "control.memory"),
        ({"control": {"memory": {"kind": "pooled", "window": 3, "stride": 3}}},
         "control.memory.stride"),
        ({"task": {"kind": "access_code", "filler": "\ud800"}}, "task.filler"),
        ({"task": {"kind": "custom", "prompts": [{"text": "x" * 6_000_000, "answer": 5}]}},
         "task.prompts"),
        ({"task": {"kind": "custom", "text": "{{pda}} {{target}}7{{/target}} q", "answer": "7"}},
         "task.text"),
    ],
)  # fmt: skip
def test_every_other_kind_is_refused_at_its_field(change, field):
    (error,) = refused(change)
    assert error.field == field
    assert len(error.message) < LONGEST
    assert "\n" not in error.message


def test_a_thousand_errors_are_told_as_a_few():
    errors = refused({"x" * 9999 + str(i): 1 for i in range(1000)})
    assert len(errors) == MOST
    assert all(len(field) < LONGEST for field, _ in errors)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a = = 3", "no valid TOML"),
        (bytes(range(128, 256)), "no UTF-8"),
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"seed = " + b"9" * 5000, "thousands of digits"),
    ],
    ids=["syntax", "bytes", "deep", "endless"],
)
def test_a_spec_file_that_is_none_is_told(tmp_path, content, told):
    file = tmp_path / "spec.toml"
    file.write_bytes(content)
    with pytest.raises(SpecError, match=told):
        read_toml(file)


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (read_toml, "has 300 MB, about 75,000,000 tokens of text; the cap is 32 MB"),
        (words.prompts, "has 300 MB, about 75,000,000 tokens of text; the cap is 64 MB"),
        (words.reasoning, "has 300 MB, about 75,000,000 tokens of text; the cap is 64 MB"),
    ],
)
def test_of_a_file_too_large_its_own_size_is_told(tmp_path, read, told):
    file = tmp_path / "large"
    with file.open("wb") as made:
        made.truncate(300_000_000)  # a hole: it takes no place
    with pytest.raises(SpecError, match=told):
        read(file)


def test_a_file_without_an_end_is_too_large():
    with pytest.raises(SpecError, match="/dev/zero is larger than 32 MB"):
        read_toml(Path("/dev/zero"))


def test_a_spec_file_may_begin_with_a_byte_order_mark(tmp_path):
    file = tmp_path / "spec.toml"
    file.write_bytes(b"\xef\xbb\xbfsamples = 3")
    assert read_toml(file) == {"samples": 3}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"num_attention_heads": -4}, "num_attention_heads"),
        ({"num_hidden_layers": 10**6}, "num_hidden_layers"),
        ({"max_position_embeddings": -1}, "positions"),
    ],
)
def test_a_config_of_impossible_sizes_is_refused(tmp_path, change, told):
    folder = tiny.make_model(tmp_path / "model")
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    with pytest.raises(SpecError, match=told):
        facts(ModelSpec(str(folder)))


def test_a_model_that_lacks_weights_is_refused_rather_than_filled_with_noise(tmp_path):
    folder = tiny.make_model(tmp_path / "model")
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"num_hidden_layers": 3}))
    with pytest.raises(SpecError, match="would be random"):
        load_model(ModelSpec(str(folder)))


def test_a_prompt_file_with_an_endless_number_is_told(tmp_path):
    file = tmp_path / "own.jsonl"
    file.write_bytes(b'{"question": ' + b"9" * 5000 + b"}")
    with pytest.raises(SpecError, match="thousands of digits"):
        words.prompts(file)


def test_an_assignment_holds_one_value():
    assert words.value("4\nx = 1") == "4\nx = 1"
    assert words.value("[" * 200_000) == "[" * 200_000
