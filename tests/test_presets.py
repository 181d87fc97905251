"""Each preset ships with a stored result of its own: an ordinary export that opens at once."""

import pytest

from engine import paths
from engine.client import presets
from engine.eviction.spec import DecodeSpec
from engine.presets import family_presets, from_files, shipping
from engine.presets import presets as every
from engine.specs import SweepSpec
from engine.store import Store
from engine.store.bundles import import_run, read
from engine.version import code_version

FILES = sorted(from_files())
FAMILY = sorted(preset.name for preset in family_presets().values())
NAMES = [*FILES, *FAMILY]
DECODES = sorted(n for n, preset in from_files().items() if preset.spec.get("kind") == "decode")
SWEEPS = sorted({*FILES} - {*DECODES})
PERIODS = {"w8s8-dense": 8, "w8s6": 6, "w6s6": 6, "w12s12": 12, "w4s4": 4}
WANTED = {"smollm2-onehot", "smollm2-mean", "smollm2-full", "banner", "document-pair"}
WANTED |= {"eviction-recall", "eviction-phase"}
WANTED |= {"beacon-split", "beacon-aggregation", "beacon-selectors"}


def bundle(name: str) -> bytes:
    return (paths.data() / "presets" / f"{name}.zip").read_bytes()


def test_the_presets_are_there():
    assert set(FILES) >= WANTED
    assert set(presets()) == set(NAMES)


@pytest.mark.parametrize("name", [*SWEEPS, *FAMILY[::15]])
def test_a_presets_result_is_an_export_of_its_own_spec(name, tmp_path):
    spec = SweepSpec.from_dict(presets()[name])
    store = Store(tmp_path)
    try:
        added = import_run(store, bundle(name), "preset")
        assert added["key"] == spec.key
        run = store.runs_of(spec.key)[0]
        assert (run.source, run.status) == ("preset", "done")
        counts = store.counts(run.id)
        copies = spec.settings.samples * spec.settings.modulus
        assert counts.answers == copies == run.answers_expected
        assert counts.tokens == run.tokens_expected
        again = import_run(store, bundle(name), "preset")
        assert not again["added"]
        assert store.counts(run.id) == counts
    finally:
        store.close()


@pytest.mark.parametrize("name", DECODES)
def test_a_decode_presets_result_is_an_export_of_its_own_spec(name, tmp_path):
    spec = DecodeSpec.from_dict(presets()[name])
    store = Store(tmp_path)
    try:
        added = import_run(store, bundle(name), "preset")
        assert added["key"] == spec.key
        run = store.runs_of(spec.key)[0]
        assert (run.source, run.status) == ("preset", "done")
        assert run.code_version.partition("+")[0] == code_version(evicts=True)
        assert store.counts(run.id).answers == spec.parts == run.answers_expected
    finally:
        store.close()


@pytest.mark.parametrize("name", SWEEPS)
def test_a_presets_result_carries_its_control_unless_that_is_a_preset_too(name):
    parts = read(bundle(name), shipped=True)
    alone = f"{name} --alone" in shipping([from_files()[name]])
    assert alone == (name in ("smollm2-onehot", "smollm2-mean", "smollm2-full"))
    assert set(parts) == ({"run"} if alone else {"run", "control"})
    assert len(bundle(name)) < 1_200_000


@pytest.mark.parametrize("name", FAMILY)
def test_a_members_result_is_small_and_leans_on_its_controls_own(name):
    parts = read(bundle(name), shipped=True)
    assert len(bundle(name)) < 200_000
    spec = SweepSpec.from_dict(presets()[name])
    keys = {SweepSpec.from_dict(presets()[other]).key for other in FAMILY if "full" in other}
    shared = spec.control is None or spec.control.key in keys
    assert set(parts) == ({"run"} if shared else {"run", "control"})


def test_every_preset_opens_from_the_gallery_of_a_fresh_home(tmp_path, monkeypatch):
    """Also the one that is the others' control."""
    from engine.client import Client
    from engine.serving import running

    monkeypatch.setenv("PHASESCOPE_HOME", str(tmp_path))
    with running() as address:
        client = Client(address.url, address.token)
        cards = {card["name"]: card for card in client.schema()["presets"]}
        assert set(cards) == {name for name, preset in every().items() if preset.gallery}
        for name, card in cards.items():
            assert card["stored"], name
            assert card["finding"]
            assert name in DECODES or len(card["curve"]) == card["spec"]["modulus"]
        shown = client.run(cards["smollm2-full"]["key"])
        assert shown["status"] == "done"
        assert shown["written"]
        onehot = client.run(cards["smollm2-onehot"]["key"])
        members = {member["name"]: member for member in client.benchmark()["members"]}
        client.close()
    family_says_what_was_found(members)
    assert onehot["period"]["detected"] == 4
    assert onehot["period"]["p"] < 0.01
    assert onehot["control"]["period"]["detected"] is None


def family_says_what_was_found(members: dict) -> None:
    """The claims of the page and the README, read off the stored results."""
    assert set(members) == set(family_presets())
    assert all(m["status"] == "done" and not m["stale"] for m in members.values())
    numbers = {name: member["numbers"] for name, member in members.items()}
    for name, period in PERIODS.items():
        assert numbers[name]["period"]["detected"] == period, name
        assert numbers[name]["period"]["p"] < 0.001, name
    full = [name for name in numbers if name.startswith("full")]
    assert len(full) == 6
    for name in full:  # six tests: corrected, none finds a period
        assert 6 * numbers[name]["period"]["p"] > 0.05, name
        assert numbers[name]["gap_p"] > 0.05, name
    assert numbers["full-dense"]["period"]["detected"] is None
    contrast, control = numbers["w8s8-8kv-dense"], numbers["full-8kv-dense"]
    assert contrast["mean"] >= control["mean"] - 0.06
    assert contrast["worst"] <= control["worst"] - 0.4
    assert numbers["w8s8-dense"]["within_gap"] >= 0.4
    assert members["w8s8-dense"]["control_residues"]
    zero, every_phase = numbers["coverage-phase-zero"], numbers["coverage-all-phases"]
    assert zero["gap"] >= 0.9
    assert every_phase["folded_gap"] <= 0.05
    assert every_phase["mean"] >= 0.9
    under = numbers["coverage-under-trained"]
    assert abs(under["mean"] - under["chance"]) < 0.02
    assert "chance" in under["finding"] + under["doubt"]
