"""What the queue reckons: time left and costs."""

from __future__ import annotations

import time

import pytest

from engine.jobs import Progress, add_costs, renew


def test_time_left_follows_the_measured_rate_and_falls_between_batches(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    progress = Progress(total=40, done=20)  # twenty were stored before: they tell no rate
    assert progress.as_dict() == {"done": 20, "total": 40, "seconds_left": None}
    progress.spend("run", 4, 400, 8.0)
    progress.spend("control", 4, 400, 4.0)
    assert progress.as_dict() == {"done": 28, "total": 40, "seconds_left": 18.0}
    now[0] += 5
    assert progress.as_dict()["seconds_left"] == 13.0
    now[0] += 500
    assert progress.as_dict()["seconds_left"] == 0.0


def test_a_resumed_run_cost_both_times():
    once = add_costs({}, 1000, 2.0)
    twice = add_costs(once, 500, 3.0)
    assert twice == {"tokens": 1500, "wall_seconds": 5.0, "tokens_per_second": 300.0, "jobs": 2}
    first = renew(twice, {"peak_memory_bytes": 7, "dtype": "float32"})
    assert first == twice | {"peak_memory_bytes": 7, "dtype": "float32"}
    assert renew(first, {"peak_memory_bytes": 5, "dtype": "float32"})["peak_memory_bytes"] == 7
    assert add_costs({}, 0, 0.0)["tokens_per_second"] is None
    assert first["wall_seconds"] == pytest.approx(5.0)
