"""Each preset ships with a stored result of its own: an ordinary export that opens at once."""

import pytest

from engine import paths
from engine.client import presets
from engine.specs import SweepSpec
from engine.store import Store
from engine.store.bundles import import_run, read

NAMES = sorted(presets())
WANTED = {"smollm2-onehot", "smollm2-mean", "smollm2-full", "banner", "document-pair"}


def bundle(name: str) -> bytes:
    return (paths.data() / "presets" / f"{name}.zip").read_bytes()


def test_the_presets_are_there():
    assert set(NAMES) >= WANTED


@pytest.mark.parametrize("name", NAMES)
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


@pytest.mark.parametrize("name", NAMES)
def test_a_presets_result_carries_its_control_and_provenance(name):
    parts = read(bundle(name))
    about = next(iter(parts.values()))
    assert len(parts) == (1 if name == "smollm2-full" else 2)
    assert len(bundle(name)) < 3_000_000
    assert about is not None


def test_every_preset_opens_from_the_gallery_of_a_fresh_home(tmp_path, monkeypatch):
    """Also the one that is the others' control."""
    from engine.client import Client
    from engine.serving import running

    monkeypatch.setenv("PHASESCOPE_HOME", str(tmp_path))
    with running() as address:
        client = Client(address.url, address.token)
        cards = {card["name"]: card for card in client.schema()["presets"]}
        assert set(cards) == set(NAMES)
        for name, card in cards.items():
            assert card["stored"], name
            assert card["finding"]
            assert len(card["curve"]) == card["spec"]["modulus"]
        shown = client.run(cards["smollm2-full"]["key"])
        assert shown["status"] == "done"
        assert shown["written"]
        onehot = client.run(cards["smollm2-onehot"]["key"])
        client.close()
    assert onehot["period"]["detected"] == 4
    assert onehot["period"]["p"] < 0.01
    assert onehot["control"]["period"]["detected"] is None
