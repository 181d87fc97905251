"""What an estimate goes by: the speed of runs like it on this machine."""

from __future__ import annotations

import pytest

from engine.specs import SweepSpec
from engine.speed import speed
from engine.store import Store

POOLED = {"kind": "pooled", "window": 4, "stride": 4}


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path)
    yield opened
    opened.close()


def spec(memory: dict = POOLED, **values) -> SweepSpec:
    return SweepSpec.from_dict({"memory": memory} | values)


def ran(store: Store, rate: float | None, tokens: int = 5_000, **values) -> None:
    made = spec(**values)
    store.remember(made)
    run = store.open_run(made.key, "code", asked=True)
    store.change(run.id, provenance={"tokens": tokens, "tokens_per_second": rate})


def test_nothing_measured_is_no_speed(store):
    assert speed(store, spec()) is None
    ran(store, None)
    assert speed(store, spec(seed=1)) is None


def test_one_run_on_a_busy_machine_does_not_decide(store):
    for seed, rate in enumerate((300.0, 310.0, 290.0, 2.0)):
        ran(store, rate, seed=seed)
    assert speed(store, spec(seed=9)) == 295.0
    for seed in range(10, 15):  # the machine is slower now
        ran(store, 100.0, seed=seed)
    assert speed(store, spec(seed=9)) == 100.0


def test_a_run_of_a_few_tokens_tells_no_speed(store):
    ran(store, 2.0, tokens=300)
    assert speed(store, spec(seed=1)) is None


def test_what_evicts_is_no_measure_of_what_does_not(store):
    ran(store, 20.0, memory={"kind": "h2o", "budget": 64})
    assert speed(store, spec()) is None
    assert speed(store, spec({"kind": "streaming", "budget": 64})) == 20.0
    ran(store, 200.0, memory={"kind": "full"})
    assert speed(store, spec()) == 200.0
    ran(store, 180.0, seed=1)
    assert speed(store, spec()) == 180.0  # its own kind before another


def test_another_format_or_model_is_another_speed(store):
    ran(store, 200.0)
    assert speed(store, spec(model={"dtype": "bfloat16"})) is None
