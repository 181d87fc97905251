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

DRAWS = 99  # p = k / 100 exactly, so that both .05 and the climb's .01 can be reached
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


def test_neither_a_divisor_nor_a_multiple_is_reported():
    """128 samples, worst phase 30 points down.

    A divisor is never named.  A multiple is, at the climb's own level of .01 a step: in 15 of these
    1 440 runs, most at S = 4, which has two steps to climb (8 of 240).
    """
    runs, n = 60, 128
    table = {}
    for stride in STRIDES:
        for form in SHAPES:
            rng = np.random.default_rng([17, stride])
            level = np.tile(0.85 - 0.3 * shape(form, stride), RESIDUES // stride)
            where = places(np.full(n, 48), RESIDUES)
            table[stride, form] = Counter(
                detect(
                    curve(answered(rng, correlated(rng, level, n)), where), seed=k, draws=DRAWS
                ).detected
                for k in range(runs)
            )
    total, multiples = runs * len(SHAPES), 0
    for stride in STRIDES:
        seen = sum((table[stride, form] for form in SHAPES), Counter())
        print(f"planted S={stride}: named in {seen[stride] / total:.3f}, {dict(seen)}")
        longer = sum(count for p, count in seen.items() if p and p > stride and p % stride == 0)
        multiples += longer
        assert longer <= 0.035 * total, seen
        assert seen[stride] >= 0.96 * total, seen
        assert not any(p and stride % p == 0 and p < stride for p in seen), seen
    named = sum(table[stride, form][stride] for stride, form in table)
    assert named >= 0.985 * total * len(STRIDES)
    assert multiples <= 0.0125 * total * len(STRIDES)


def test_planted_period_survives_drift():
    rng = np.random.default_rng(18)
    where = places(np.full(96, 48), 24)
    values = answered(rng, np.clip(hole(24, 8, 0.4) - 0.3 + 0.5 * (where - 48) / 24, 0, 1))
    assert detect(curve(values, where)).detected == 8
    assert rotation_test(curve(values, where), 8).p < 0.001
