"""Checkpoints of controlled models: what comes back, and what is refused in a sentence."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from controlled import NOTES, SHORT, TINY, save
from safetensors.torch import load_file, save_file

from engine.models.controlled import checkpoint, config, shelf, tensors
from engine.models.controlled.config import Config, ConfigError, Recipe
from engine.models.controlled.family import family
from engine.models.controlled.model import Controlled
from engine.registry import SpecError

KINDS = {
    "full": dict(memory="full"),
    "scalar": {},
    "vector": dict(gate="vector"),
    "uniform": dict(gate="uniform"),
    "shared": dict(payload="shared"),
    "lane": dict(payload="lane", window=8, stride=4, origin=-4, beside=True),
}


@pytest.fixture
def path(tmp_path):
    return save(tmp_path, "pupil")


def rewritten(path, version=1, told=None, tensors=None, **changes):
    """The file with parts of what it tells changed; `told` replaces all of it."""
    held = load_file(path) if tensors is None else tensors
    whole = {
        "version": version,
        "config": asdict(TINY),
        "recipe": asdict(SHORT),
        "notes": NOTES,
    }
    for name, values in changes.items():
        whole[name] = whole[name] | values if isinstance(values, dict) else values
    text = json.dumps(whole) if told is None else told
    save_file(held, path, metadata={checkpoint.MARK: text})
    return path


def refused(path, words):
    with pytest.raises(SpecError, match=words) as caught:
        checkpoint.load_model(path)
    (error,) = caught.value.errors
    assert error.field == "model.id"
    assert error.message.startswith(f"{path.name} is no controlled model: ")


@pytest.mark.parametrize("kind", KINDS)
def test_weights_come_back_in_half_precision(tmp_path, kind):
    shape = replace(TINY, **KINDS[kind])
    torch.manual_seed(0)
    model = Controlled(shape)
    path = tmp_path / "a" / "pupil.safetensors"
    checkpoint.save_model(path, model, SHORT, NOTES)
    found = checkpoint.header(path)
    assert (found.config, found.recipe, found.notes) == (shape, SHORT, NOTES)
    back = checkpoint.load_model(path)
    assert back.shape == shape
    assert not back.training
    assert back.lm_head.weight is back.model.embed_tokens.weight
    for (name, a), (other, b) in zip(
        model.named_parameters(), back.named_parameters(), strict=True
    ):
        assert name == other
        assert not b.requires_grad
        assert torch.equal(a.half().float(), b)
    ids = torch.arange(20)[None]
    doubled = checkpoint.load_model(path, "float64")
    torch.testing.assert_close(doubled(ids).logits.float(), back(ids).logits, atol=1e-4, rtol=0)
    again = tmp_path / "again.safetensors"
    checkpoint.save_model(again, back, SHORT, NOTES)
    first, second = load_file(path), load_file(again)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


# ---- tensors


@pytest.mark.parametrize("kind", KINDS)
def test_a_config_tells_its_tensors_without_torch(kind):
    shape = replace(TINY, layers=3, kv_heads=2, **KINDS[kind])
    with torch.device("meta"):
        made = {name: tuple(p.shape) for name, p in Controlled(shape).named_parameters()}
    assert tensors.shapes(shape) == made


def test_each_shipped_file_is_read_by_its_name():
    here = [name for name in family() if (shelf.shipped_folder() / f"{name}.safetensors").is_file()]
    assert here
    for name in here:
        assert shelf.describe(name).config == family()[name].config


NAME = "model.layers.0.self_attn.pool.gate"
REST = {"recipe": asdict(SHORT), "notes": NOTES}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.pop(NAME), rf"it lacks 1 of its tensors \({NAME}\)"),
        (lambda t: t.clear(), "it lacks 32 of its tensors"),
        (lambda t: t.update(more=torch.zeros(2)), r"it holds 1 tensors too many \(more\)"),
        (
            lambda t: t.update({NAME: t[NAME][:, :4].clone()}),
            rf"the shape of {NAME} is \(2, 4, 1, 16\), not \(2, 8, 1, 16\)",
        ),
        (lambda t: t[NAME].view(-1)[5].fill_(float("nan")), f"{NAME} holds numbers that are not f"),
        (lambda t: t[NAME].view(-1)[5].fill_(float("inf")), f"{NAME} holds numbers that are not f"),
        (
            lambda t: t.update({NAME: t[NAME].int()}),
            f"{NAME} is of dtype int32; a floating-point one works",
        ),
    ],
    ids=["missing", "none", "extra", "shape", "nan", "inf", "whole"],
)
def test_tensors_that_do_not_fit_are_refused(path, change, words):
    tensors = load_file(path)
    change(tensors)
    refused(rewritten(path, tensors=tensors), words)
    if "not f" in words:  # found when the weights are read
        assert shelf.describe(str(path)).config == TINY
        return
    words = words.replace("dtype int32; a floating-point one works", "dtype I32; F16, BF16, F32")
    with pytest.raises(SpecError, match=words) as caught:  # no weights are read
        shelf.describe(str(path))
    assert [error.field for error in caught.value.errors] == ["model.id"]


def test_a_file_cut_short_is_refused_by_its_header(path):
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(SpecError, match="it is cut short"):
        shelf.describe(str(path))


def test_tensors_that_tell_no_shape_are_refused(path):
    told = {checkpoint.MARK: json.dumps({"version": 1, "config": asdict(TINY)} | REST)}
    path.write_bytes(framed(json.dumps({"__metadata__": told, NAME: 3}).encode()))
    with pytest.raises(SpecError, match="its header is damaged"):
        shelf.describe(str(path))


def test_a_config_of_another_shape_is_refused_before_memory_is_taken(path):
    """A hundred gigabytes of weights are claimed; the file holds a few kilobytes."""
    huge = {"layers": 64, "width": 4096, "ff": 4096, "q_heads": 64, "head_dim": 64, "kv_heads": 64}
    refused(rewritten(path, config=huge), "it lacks")
    refused(rewritten(path, config=huge | {"layers": 2, "ff": 4096}), "the shape of")


# ---- what it tells


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 2}, "its config is of version 2 and this program knows 1"),
        ({"version": "1"}, "its config is of version '1'"),
        ({"config": {"dilation": 2}}, "'dilation' is not known here .from a newer version"),
        ({"recipe": {"dropout": 0.1}}, "'dropout' is not known here"),
        ({"config": {"window": 8.5}}, "window must be of type int, not 8.5"),
        ({"config": {"window": True}}, "window must be of type int, not True"),
        ({"config": {"gate": "tanh"}}, "gate is 'tanh'; known: uniform, scalar, vector"),
        ({"config": {"memory": "ring"}}, "memory is 'ring'; known: full, chunked"),
        ({"config": {"stride": 12}}, "stride 12 exceeds window 8"),
        ({"config": {"stride": 0}}, "stride is 0; from 1 to 4096"),
        ({"config": {"kv_heads": 3}}, "2 query heads cannot share 3 KV heads evenly"),
        ({"config": {"head_dim": 7}}, "head_dim must be even"),
        ({"config": {"origin": -8}}, "origin must lie above minus the window"),
        ({"config": {"local": -1}}, "local must not be negative"),
        ({"config": {"rope_base": float("nan")}}, "rope_base must be above 0"),
        ({"config": {"payload": "lane"}}, "payload by lane needs a window of two strides"),
        ({"recipe": {"steps": 0}}, "steps is 0; it must be at least 1"),
        ({"config": [1]}, "config is no table"),
        ({"notes": 3}, "its config is damaged"),
        ({"told": "{"}, "its config is damaged"),
        ({"told": "[1]"}, "its config is damaged"),
        ({"told": "{}"}, "its config is damaged"),
        ({"told": "[" * 100_000}, "its config is damaged"),
    ],
)
def test_what_makes_no_sense_is_refused(path, changes, words):
    refused(rewritten(path, **changes), words)


@pytest.mark.parametrize("kind", [Config, Recipe])
def test_each_field_must_be_told(kind):
    values = asdict(kind())
    assert config.read(kind, values) == kind()
    for name in values:
        fewer = {k: v for k, v in values.items() if k != name}
        with pytest.raises(ConfigError, match=f"'{name}' is missing"):
            config.read(kind, fewer)


# ---- files


def framed(header):
    return len(header).to_bytes(8, "little") + header


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is no safetensors file"),
        (b"GGUF" * 100, "it is no safetensors file"),
        (framed(b"{]"), "its header is damaged"),
        (framed(b"\xff\xff\xff"), "its header is damaged"),
        (framed(b"[1]"), "its header is damaged"),
        (framed(b'{"__metadata__": ["phasescope"]}'), "its header is damaged"),
        (framed(b'{"__metadata__": "phasescope"}'), "its header is damaged"),
        (framed(b"[" * 200_000), "its header is damaged"),
        (framed(b"{}"), "its header holds no config"),
        (framed(b'{"__metadata__": {"format": "pt"}}'), "its header holds no config"),
        (framed(b'{"__metadata__": {"phasescope": 1}}'), "its config is damaged"),
    ],
)
def test_files_that_are_none_of_ours_are_refused(tmp_path, content, words):
    path = tmp_path / "pupil.safetensors"
    path.write_bytes(content)
    refused(path, words)
    known = checkpoint.is_ours(path)
    assert known == (words == "its config is damaged")
    assert shelf.find(str(path)) == (path if known else None)


def test_a_file_cut_short_is_refused(path):
    path.write_bytes(path.read_bytes()[:-10])
    refused(path, "its tensors are damaged")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    refused(tmp_path / "pupil.safetensors", "No such file")


def test_a_failed_write_leaves_the_old_file(path):
    before = path.read_bytes()
    with pytest.raises(TypeError):
        checkpoint.write(path, {}, TINY, SHORT, {"notes": object()})
    assert path.read_bytes() == before


# ---- what a name means


def test_a_name_is_looked_up_in_the_own_folder_then_as_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("PHASESCOPE_MODELS", str(tmp_path / "models"))
    monkeypatch.chdir(tmp_path)
    own = save(shelf.own_folder(), "pupil")
    lone = save(tmp_path, "lone")
    assert shelf.find("pupil") == shelf.find(" pupil ") == own
    assert shelf.find("lone") is None
    for name in ("lone.safetensors", "./lone.safetensors", str(lone)):
        assert shelf.find(name).resolve() == lone
    assert "pupil" in shelf.listed()
    assert "lone" not in shelf.listed()


@pytest.mark.parametrize(
    "name", ["", "../pupil", "a" * 5000 + ".safetensors", "~nobody-here/x.safetensors", "a\0b"]
)
def test_odd_names_are_no_models(tmp_path, monkeypatch, name):
    monkeypatch.setenv("PHASESCOPE_MODELS", str(tmp_path / "models"))
    save(Path(tmp_path / "models"), "pupil")
    assert shelf.find(name) is None
    assert shelf.describe(name) is None
