"""The owner of a home folder, as the threads of several requests use it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from engine import owner
from engine.specs import SweepSpec


@pytest.fixture
def engine(tmp_path):
    opened = owner.Engine(tmp_path)
    yield opened
    opened.store.close()


def spec(seed: int) -> SweepSpec:
    return SweepSpec.from_dict({"memory": {"kind": "full"}, "seed": seed})


def test_plans_asked_by_many_threads_are_each_their_own(engine, monkeypatch):
    monkeypatch.setattr(owner, "make_plan", lambda asked, speed: {"seed": asked.settings.seed})
    specs = [spec(seed) for seed in range(3 * owner.PLANS_KEPT)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(engine.plan, specs * 5))
    assert [plan["seed"] for plan in found] == [s.settings.seed for s in specs] * 5
    assert len(engine._plans) <= owner.PLANS_KEPT


def test_the_plan_asked_last_is_kept_longest(engine, monkeypatch):
    made = []
    monkeypatch.setattr(owner, "make_plan", lambda asked, speed: made.append(asked) or {"x": 1})
    first = spec(0)
    for seed in range(2 * owner.PLANS_KEPT):
        engine.plan(spec(seed))
        engine.plan(first)
    assert made.count(first) == 1


def test_the_family_comes_in_unattended_and_says_how_far_it_is(engine, monkeypatch):
    """Asked again, it is not begun again."""
    gate, brought = threading.Semaphore(0), []

    class Bundle:
        def read_bytes(self) -> bytes:
            gate.acquire()
            return b""

    trained = {"bundle": Bundle(), "gallery": False, "spec": {"memory": {"kind": "trained"}}}
    monkeypatch.setattr(owner, "presets", dict)
    monkeypatch.setattr(
        owner, "family_presets", lambda: dict(enumerate([SimpleNamespace(**trained)] * 3))
    )
    monkeypatch.setattr(owner, "SOON", 0.05)
    monkeypatch.setattr(engine.store, "was_shipped", lambda digest: brought.append(digest) or True)
    engine.ready.set()
    assert engine.family_coming() == {"done": 1, "total": 3}
    gate.release(2)
    engine._coming.join(timeout=0.2)
    assert engine.family_coming() == {"done": 3, "total": 3}
    gate.release(2)
    engine._coming.join(timeout=10)
    assert engine.family_coming() is None
    assert len(brought) == 3
