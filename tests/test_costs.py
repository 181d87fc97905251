"""What a run cost: seconds and tokens as booked, keys and values from the memory's own plan."""

from __future__ import annotations

import comparing
import pytest
from test_decode_plan import FACTS

from engine.commands import shown
from engine.models import loader

RECORDS = {"kind": "records"}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setattr(loader, "facts", lambda model: FACTS)
    made = comparing.Here(tmp_path)
    yield made
    made.close()


def stored(here, status="done"):
    spec = comparing.spec(4, 4, task=RECORDS)
    booked = {"wall_seconds": 12.0, "tokens": 19_200}
    run = comparing.store_run(here.store, spec, comparing.curve(4, 0.2), provenance=booked)
    here.store.change(run, status=status)
    return here.engine.results.show(here.store.run(run), {})


def test_prompts_of_a_task_without_places_are_as_long_as_the_stored_rows(here, capsys):
    told = stored(here)
    rows = here.store.answers(here.store.runs()[0].id)
    assert set(rows["length"]) == {200}
    each = 2 * FACTS.kv_heads * FACTS.head_dim * FACTS.bytes_per_weight * FACTS.n_layers
    assert told["cost"]["kv_bytes_full"] == 200 * each
    # An entry for four tokens, and those near the question as they are.
    assert 50 * each <= told["cost"]["kv_bytes"] < 100 * each
    shown._costs(told)
    out = " ".join(capsys.readouterr().out.split())
    assert "cost: 12 s, 19200 tokens read" in out
    assert f"keys and values at the question: {told['cost']['kv_bytes'] / 1e3:.1f} kB of" in out


def test_a_run_at_work_and_rows_that_claim_too_much_have_no_bytes(here, monkeypatch):
    assert stored(here, status="running")["cost"]["kv_bytes"] is None
    monkeypatch.setattr("engine.costs.LONGEST", 199)
    told = stored(here)["cost"]
    assert (told["kv_bytes"], told["kv_bytes_full"]) == (None, None)
    assert told["tokens"] == 19_200


def test_what_was_not_booked_is_not_shown(capsys):
    shown._costs({"cost": {"seconds": None, "tokens": "many", "kv_bytes": None}})
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("memory", [{"kind": "h2o", "budget": 64}, {"kind": "full"}])
def test_only_the_full_cache_is_told_as_without_compression(here, memory):
    run = comparing.store_run(here.store, comparing.spec(memory=memory), comparing.curve(None, 0.9))
    finding = here.engine.results.show(here.store.run(run), {})["finding"]
    assert ("without compression" in finding) == (memory["kind"] == "full")
