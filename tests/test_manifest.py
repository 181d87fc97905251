"""The list of shipped models is what their files say, and what they were asked to be."""

import json

from engine.models.controlled import manifest
from engine.models.controlled.family import family
from engine.models.controlled.shelf import shipped_folder


def test_the_manifest_is_that_of_the_shipped_files():
    """Hashes, configs, recipes, steps and accuracies; `make family` writes it anew."""
    listed = json.loads((shipped_folder() / "manifest.json").read_text("utf-8"))["models"]
    assert listed == manifest.describe(shipped_folder())
    held = {path.stem for path in shipped_folder().glob("*.safetensors")}
    assert {entry["name"] for entry in listed} == held <= set(family())


def test_each_shipped_model_is_of_the_familys_config_and_steps():
    for entry in manifest.describe(shipped_folder()):
        member = family()[entry["name"]]
        assert entry["config"] == manifest.to_dict(member.config)
        asked = manifest.to_dict(member.recipe)
        # a member with a gate may have been trained from a later seed
        assert {**entry["recipe"], "seed": 0} == {**asked, "seed": 0}
        assert entry["steps"] == member.recipe.steps
        assert member.gate or entry["seed"] == member.recipe.seed


def test_a_changed_file_is_seen(tmp_path):
    name = "w8s8-sparse.safetensors"
    whole = (shipped_folder() / name).read_bytes()
    (tmp_path / name).write_bytes(whole[:-2] + bytes([whole[-2] ^ 1]) + whole[-1:])
    (entry,) = manifest.describe(tmp_path)
    listed = json.loads((shipped_folder() / "manifest.json").read_text("utf-8"))["models"]
    (shipped,) = (e for e in listed if e["name"] == entry["name"])
    assert entry["sha256"] != shipped["sha256"]
    assert entry | {"sha256": ""} == shipped | {"sha256": ""}
