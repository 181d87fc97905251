"""Power and planted periods proven by simulation (SCIENCE §3), all on one grid of 24 residues.

Copies of one sample share its difficulty.  Everything is seeded; `pytest -s` prints the rates, and
LOG.md has those of larger runs.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from planted import answered, correlated, curve, hole, places, shape

from engine.analysis.gap import rotation_test
from engine.analysis.period import detect

DRAWS = 99  # p = k / 100 exactly
RESIDUES = 24
STRIDES = (2, 3, 4, 6, 8, 12)
SHAPES = ("hole", "two holes", "saw-tooth", "slope and hole")


@pytest.mark.parametrize("stride", [4, 6, 8, 12])
def test_power_for_one_hole_of_ten_points(stride):
    """Accuracy .8 with one phase at .7, 256 samples: 90 % or more have period.p ≤ .05."""
    rng = np.random.default_rng(16)
    runs, n = 100, 256
    where = places(np.full(n, 48), RESIDUES)
    found = []
    for k in range(runs):
        chances = correlated(rng, hole(RESIDUES, stride, 0.1), n)
        found.append(detect(curve(answered(rng, chances), where), seed=k, draws=DRAWS))
    power = np.mean([one.p <= 0.05 for one in found])
    named = np.mean([one.detected == stride for one in found])
    print(f"hole of 10 points at S={stride}: power {power:.2f}, named {named:.2f}")
    assert power >= 0.9


@pytest.mark.parametrize("stride", STRIDES)
def test_a_weak_hole_is_called_by_its_period(stride):
    """One hole of 10 points, 256 samples, at the edge of power: 16 of 20 or more keep their period,
    and at most one is called a longer one (measured at large: 1 of 1 080).
    """
    rng, runs, n, seen = np.random.default_rng([19, stride]), 20, 256, Counter()
    where = places(np.full(n, 48), RESIDUES)
    for k in range(runs):
        values = answered(rng, correlated(rng, hole(RESIDUES, stride, 0.1), n))
        seen[detect(curve(values, where), seed=k).detected] += 1
    print(f"weak hole at S={stride}: {dict(seen)}")
    assert seen[stride] >= 0.8 * runs
    assert sum(count for q, count in seen.items() if q and q > stride) <= 1


@pytest.mark.parametrize("stride", STRIDES)
def test_neither_a_divisor_nor_a_multiple_is_reported(stride):
    """128 samples, worst phase 30 points down: the planted period alone is named.

    All draws, since the strict level of a climb is reached with them only.
    """
    runs, n, seen = 10, 128, Counter()
    for form in SHAPES:
        rng = np.random.default_rng([17, stride])
        level = np.tile(0.85 - 0.3 * shape(form, stride), RESIDUES // stride)
        where = places(np.full(n, 48), RESIDUES)
        for k in range(runs):
            values = answered(rng, correlated(rng, level, n))
            seen[detect(curve(values, where), seed=k).detected] += 1
    print(f"planted S={stride}: {dict(seen)}")
    assert seen == {stride: runs * len(SHAPES)}


def test_a_small_part_of_a_longer_period_is_named_on_strong_evidence():
    """A hole of 30 points at every fourth phase, and every other four phases 6 points lower."""
    rng, runs, n = np.random.default_rng(5), 5, 256
    phases = np.arange(RESIDUES)
    level = 0.85 - 0.3 * (phases % 4 == 0) - 0.06 * (phases % 8 < 4)
    where = places(np.full(n, 48), RESIDUES)
    for k in range(runs):
        values = answered(rng, correlated(rng, level, n))
        assert detect(curve(values, where), seed=k).detected == 8


def test_planted_period_survives_drift():
    rng = np.random.default_rng(18)
    where = places(np.full(96, 48), 24)
    values = answered(rng, np.clip(hole(24, 8, 0.4) - 0.3 + 0.5 * (where - 48) / 24, 0, 1))
    assert detect(curve(values, where)).detected == 8
    assert rotation_test(curve(values, where), 8).p < 0.001
