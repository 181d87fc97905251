"""Memories that models were trained with: specs, runs, weights that change, the family's page."""

from dataclasses import replace

import made_rows
import numpy as np
import pytest
import torch
from controlled import NOTES, SHORT, TINY, save
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from engine import offers
from engine.benchmark import benchmark
from engine.build import build
from engine.models import prints
from engine.models.controlled import shelf
from engine.models.controlled.config import Config
from engine.models.controlled.family import family
from engine.models.controlled.model import State
from engine.models.loader import facts, load_model, load_tokenizer, locate
from engine.plan import plan
from engine.presets import family_presets
from engine.registry import SpecError
from engine.results import Results
from engine.run.sweep import sweep
from engine.specs import ModelSpec, SweepSpec
from engine.store import Store
from engine.version import code_version, is_stale, run_version
from engine.worker import Office

TASK = {"kind": "pairs", "records": 8, "places": 56, "first": 8}
DEEPSEEK = dict(window=8, stride=4, origin=-4, payload="lane", anchor="first", local=6, beside=True)


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    """No shipped models."""
    monkeypatch.setenv("PHASESCOPE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PHASESCOPE_MODELS", str(tmp_path / "models"))
    monkeypatch.setattr(shelf, "shipped_folder", lambda: tmp_path / "shipped")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def folder():
    """w8s8-sparse and the full model of its shape are here."""
    save(shelf.own_folder(), "w8s8-sparse")
    save(shelf.own_folder(), "full-sparse", memory="full")
    return shelf.own_folder()


def spec_of(model="w8s8-sparse", memory="trained", **values):
    memory = {"kind": memory} if isinstance(memory, str) else memory
    given = {"model": {"id": model}, "memory": memory, "task": TASK, "samples": 2} | values
    return SweepSpec.from_dict(given)


def refused(words, *fields, **values):
    with pytest.raises(SpecError, match=words) as caught:
        spec_of(**values)
    assert [error.field for error in caught.value.errors] == list(fields)


# ---- specs


@pytest.mark.parametrize(
    "changes",
    [{}, dict(window=12, stride=4), dict(stagger=4, local=3), DEEPSEEK],
    ids=["plain", "overlap", "staggered", "deepseek"],
)
def test_the_geometry_is_the_checkpoints(changes):
    save(shelf.own_folder(), "pupil", **changes)
    config, spec = replace(TINY, **changes), spec_of("pupil", modulus=24)
    for name in ("window", "stride", "local", "beside", "origin", "stagger"):
        assert getattr(spec.memory, name) == getattr(config, name)
    assert spec.stride == config.stride
    agreed = {"kind": "trained", "window": config.window, "stride": config.stride}
    assert spec_of("pupil", agreed, modulus=24).key == spec.key
    assert SweepSpec.from_dict(spec.to_dict()) == spec
    for layer in (0, 1):
        made = spec.memory.plan(layer, 40, torch.zeros(1, dtype=torch.int64))
        start = config.origin + (config.stagger if layer else 0)
        ends = list(range(start + config.window - 1, 40, config.stride))
        assert made.last[0].tolist() == ends
        assert made.exact_tokens(torch.tensor([39]), None, torch.arange(40)).any()


@pytest.mark.parametrize("memory", [None, "trained", "full", "pooled"])
def test_a_file_that_lacks_a_tensor_makes_no_spec(tmp_path, memory):
    """So a dry run and a submit refuse it; its run once failed in the worker."""
    path = save(tmp_path, "pupil")
    tensors = load_file(path)
    tensors.pop("model.norm.weight")
    with safe_open(path, "pt") as file:
        save_file(tensors, path, metadata=file.metadata())
    asked = {"model": {"id": str(path)}, "task": TASK} | (
        {"memory": {"kind": memory}} if memory else {}
    )
    with pytest.raises(SpecError, match="it lacks 1 of its tensors") as caught:
        SweepSpec.from_dict(asked)
    assert caught.value.errors[0].field == "model.id"


def test_a_controlled_model_brings_its_memory(folder):
    bare = SweepSpec.from_dict({"model": {"id": "w8s8-sparse"}, "task": TASK})
    assert bare.memory == spec_of().memory
    full = SweepSpec.from_dict({"model": {"id": "full-sparse"}, "task": TASK})
    assert full.memory.kind == "full"
    assert full.control is None


@pytest.mark.parametrize(
    ("words", "field", "values"),
    [
        ("was trained with 8, not 12", "memory.window", {"memory": {"window": 12}}),
        ("was trained with 8, not 4", "memory.stride", {"memory": {"window": 8, "stride": 4}}),
        ("was trained with 8, not 6", "memory.stride", {"memory": {"stride": 6}}),
        ("stride: exceeds the window", "memory.stride", {"memory": {"window": 4, "stride": 8}}),
        ("choose trained", "memory.kind", {"memory": {"kind": "pooled"}}),
        ("choose trained", "memory.kind", {"memory": {"kind": "full"}}),
        ("choose full", "memory.kind", {"model": "full-sparse"}),
        ("choose full", "memory.kind", {"model": "full-sparse", "memory": {"kind": "pooled"}}),
        ("choose pooled or full", "memory.kind", {"model": "smollm2-135m"}),
        ("choose pooled or full", "memory.kind", {"model": "org/other"}),
        (
            "choose pooled or full",
            "memory.kind",
            {"model": "org/other", "memory": {"kind": "trained", "stride": 6}},
        ),
        ("phasescope train w4s4", "model.id", {"model": "w4s4"}),
        ("20 residues do not fit stride 8", "modulus", {"modulus": 20}),
        ("8 residues do not fit stride 8", "modulus", {"modulus": 8}),
        ("padded as in_sequence, outer", "protocol", {"protocol": "grid_origin"}),
        ("layers of trained W8 S8 are not chosen", "scan", {"scan": True}),
        (
            "control.memory.kind: full-sparse was trained with the full cache",
            "control.memory.kind",
            {"control": {"model": {"id": "full-sparse"}, "memory": {"kind": "trained"}}},
        ),
        (
            "choose trained",
            "control.memory.kind",
            {"control": {"model": {"id": "w8s8-sparse"}, "memory": {"kind": "full"}}},
        ),
    ],
)
def test_what_does_not_fit_is_refused_at_its_field(folder, words, field, values):
    memory = values.get("memory", {})
    refused(words, field, **{**values, "memory": {"kind": "trained"} | memory})


def test_the_grid_of_a_trained_memory_cannot_be_moved(folder):
    task = {"kind": "records", "records": 4}
    refused("cannot be moved", "protocol", task=task, protocol="grid_origin")


def test_another_task_is_refused(folder):
    spec = spec_of(task={"kind": "access_code"})
    with pytest.raises(SpecError, match="knows only the words of pairs; choose pairs") as caught:
        build(spec, load_tokenizer(spec.model), facts(spec.model))
    assert caught.value.errors[0].field == "task.kind"


def test_more_symbols_than_the_model_knows_are_refused(folder):
    spec = spec_of(task=TASK | {"symbols": 65})
    with pytest.raises(SpecError, match="65 symbols are asked for; this tokenizer has 64"):
        build(spec, load_tokenizer(spec.model), facts(spec.model))


def test_a_damaged_model_is_refused_by_its_name(folder):
    (folder / "w8s8-sparse.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    refused("w8s8-sparse.safetensors is no controlled model", "model.id")


def test_the_control_is_the_full_model_of_the_shape(folder):
    spec = spec_of()
    assert (spec.control.model.id, spec.control.memory.kind) == ("full-sparse", "full")
    assert spec.control.settings == spec.settings
    save(folder, "w8s8-sparse-seed7")
    assert spec_of("w8s8-sparse-seed7").control.model.id == "full-sparse"
    (folder / "full-sparse.safetensors").unlink()
    assert spec_of().control is None
    save(folder, "pupil")
    assert spec_of("pupil").control is None


def test_a_spec_from_elsewhere_keeps_its_grid():
    values = spec_of_missing()
    spec = SweepSpec.from_dict(values)
    assert (spec.memory.window, spec.memory.stride, spec.memory.local) == (8, 8, 1)
    with pytest.raises(SpecError, match="w8s8-sparse is not trained here yet"):
        locate(spec.model)


def spec_of_missing():
    """The dict of a spec whose model is no longer here."""
    path = save(shelf.own_folder(), "w8s8-sparse")
    values = spec_of().to_dict()
    path.unlink()
    return values


# ---- a run


@pytest.mark.parametrize("changes", [{}, DEEPSEEK], ids=["plain", "deepseek"])
@pytest.mark.parametrize("rows", ["scored", "all"])
def test_rows_are_the_models_own_probabilities(changes, rows):
    save(shelf.own_folder(), "pupil", **changes)
    spec = spec_of("pupil", rows=rows, modulus=16, batch=5)
    loaded = load_model(spec.model)
    copies = build(spec, loaded.tokenizer, loaded.facts)
    found = [row for made in sweep(spec, loaded, copies) for row in made.answers.to_pylist()]
    assert [(row["sample"], row["shift"]) for row in found] == [
        (i, r) for i in range(2) for r in range(16)
    ]
    for copy, row in zip(copies, found, strict=True):
        logits = loaded.model(torch.tensor([copy.tokens]), cache=State()).logits[0, -1]
        gold = logits.log_softmax(-1)[copy.answer[0]]
        assert row["logprob"] == pytest.approx(float(gold), abs=1e-5)
    shown = plan(spec, loaded.tokenizer, loaded.facts)
    assert shown["copies"] == 32


# ---- weights that change


def test_a_fingerprint_follows_the_file(folder):
    first = prints.fingerprint("w8s8-sparse")
    assert len(first) == 8
    assert prints.fingerprint(" w8s8-sparse ") == first
    assert prints.fingerprint("full-sparse") != first
    assert prints.fingerprint("w4s4") == prints.fingerprint("smollm2-135m") == ""
    before = (folder / "w8s8-sparse.safetensors").read_bytes()
    save(folder, "w8s8-sparse", seed=1)
    assert prints.fingerprint("w8s8-sparse") not in ("", first)
    (folder / "w8s8-sparse.safetensors").write_bytes(before)
    assert prints.fingerprint("w8s8-sparse") == first


def test_a_fingerprint_of_a_folder_follows_its_weights(tmp_path):
    model = tmp_path / "llama"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(np.arange(2_000_000).tobytes())
    first = prints.fingerprint(str(model))
    held = np.arange(2_000_000)
    (model / "model.safetensors").write_bytes((held + 1).tobytes())
    second = prints.fingerprint(str(model))
    (model / "config.json").write_text("[]")
    (model / "notes.txt").write_text("no part of it")
    third = prints.fingerprint(str(model))
    assert len({first, second, third, ""}) == 4


def test_rows_of_other_weights_are_stale_and_computed_again(folder, tmp_path):
    spec, store = spec_of(control={}), Store(tmp_path)
    results = Results(store)
    first = run_version(spec.model)
    assert first == f"{code_version()}+{prints.fingerprint('w8s8-sparse')}"
    assert not is_stale(first, "w8s8-sparse")
    store.remember(spec)
    run = store.open_run(spec.key, first, asked=True)
    assert store.open_run(spec.key, run_version(spec.model), asked=True).id == run.id
    assert not results.stale(run)
    save(folder, "w8s8-sparse", seed=1)
    assert is_stale(first, "w8s8-sparse")
    assert results.stale(run)
    assert not is_stale(run_version(spec.model), "w8s8-sparse")
    assert store.open_run(spec.key, run_version(spec.model), asked=True).id != run.id
    assert is_stale(code_version(), "w8s8-sparse"), "rows that do not tell their weights"
    (folder / "w8s8-sparse.safetensors").unlink()
    assert not is_stale(first, "w8s8-sparse"), "nothing here to compare with"
    assert is_stale(f"other+{first[-8:]}", "w8s8-sparse")
    store.close()


def test_a_warm_worker_takes_new_weights(folder):
    """Rows are labelled with the weights that are here: no others may be used."""
    worker, model = Office(None), ModelSpec(id="w8s8-sparse")
    first = worker.loaded(model)
    assert worker.loaded(model) is first
    save(folder, "w8s8-sparse", seed=1)
    second = worker.loaded(model)
    wanted = load_model(model).model
    assert torch.equal(second.model.lm_head.weight, wanted.lm_head.weight)
    assert not torch.equal(second.model.lm_head.weight, first.model.lm_head.weight)


# ---- the family's page


@pytest.fixture
def results(tmp_path):
    store = Store(tmp_path)
    yield Results(store)
    store.close()


def member(results, name):
    return next(entry for entry in benchmark(results)["members"] if entry["name"] == name)


def test_a_member_that_is_not_here_says_what_it_would_be(results):
    entries = benchmark(results)["members"]
    assert [entry["name"] for entry in entries] == list(family())
    for entry in entries:
        config = family()[entry["name"]].config
        assert (entry["here"], entry["status"], entry["key"]) == (False, "missing", None)
        assert entry["numbers"] is entry["control_residues"] is entry["training_accuracy"] is None
        assert entry["stride"] == (config.stride if config.chunked else None)
        assert entry["spec"] == family_presets()[entry["name"]].spec


def test_a_member_that_is_here_has_a_key_and_then_numbers(results):
    whole = {f: getattr(Config(), f) for f in ("width", "q_heads", "kv_heads", "head_dim", "ff")}
    folder = shelf.own_folder()
    save(folder, "w8s8-sparse", recipe=family()["w8s8-sparse"].recipe, **whole)
    entry = member(results, "w8s8-sparse")
    assert (entry["here"], entry["status"], entry["stale"]) == (True, "none", False)
    assert entry["training_accuracy"] == NOTES["accuracy"]
    assert entry["density"] == 2.0
    spec = SweepSpec.from_dict(family_presets()["w8s8-sparse"].spec)
    assert entry["key"] == spec.key
    assert entry["spec"] == spec.to_dict()
    results.store.remember(spec)
    run = results.store.open_run(spec.key, run_version(spec.model), asked=True)
    pairs = [(i, r) for i in range(3) for r in range(24)]
    results.store.add(run.id, made_rows.answers(pairs), None)
    entry = member(results, "w8s8-sparse")
    assert len(entry["numbers"]["residues"]) == 24
    assert entry["numbers"]["period"]["configured"] == 8
    assert 0 < entry["cost"]["kv_bytes"] < entry["cost"]["kv_bytes_full"]
    save(folder, "w8s8-sparse", seed=1, **whole)
    assert member(results, "w8s8-sparse")["stale"]
    assert member(results, "w4s4")["status"] == "missing"


def test_a_damaged_member_counts_as_missing_everywhere(results, folder):
    (folder / "w8s8-sparse.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    assert member(results, "w8s8-sparse")["status"] == "missing"
    assert member(results, "full-sparse")["here"]
    assert [m["name"] for m in offers.controlled_models()] == ["full-sparse"]


def test_a_form_is_told_what_fits_a_model(folder):
    save(folder, "even", recipe=replace(SHORT, phases="all", pitch=6), **DEEPSEEK)
    told = {m["name"]: m for m in offers.controlled_models()}
    assert set(told) == {"full-sparse", "w8s8-sparse", "even"}
    assert told["full-sparse"]["memory"] == "full"
    assert told["full-sparse"]["stride"] is None
    assert told["w8s8-sparse"]["control"] == "full-sparse"
    assert (told["even"]["window"], told["even"]["stride"], told["even"]["pitch"]) == (8, 4, 6)
    assert (told["w8s8-sparse"]["records"], told["w8s8-sparse"]["places"]) == (4, 16)
