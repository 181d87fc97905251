"""Where records stand: the law by enumeration of all layouts, and where targets stand
(SCIENCE §2).
"""

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from engine.copies import lead_fillers
from engine.tasks.layout import draw, lattice, lay, scatter, scatter_at

SIZES = [(4, 1), (4, 2), (7, 2), (8, 3), (9, 3), (10, 4), (11, 2)]
LEAST_P = 1e-4  # of a seeded test: a wrong law gives far less


def layouts(places, records):
    """All sorted first places of pairs that do not overlap."""
    found = itertools.combinations(range(places - 1), records)
    return [starts for starts in found if all(b - a >= 2 for a, b in itertools.pairwise(starts))]


def fits(drawn, possible):
    """p of the drawn layouts under the uniform law over the possible ones."""
    counts = Counter(drawn)
    assert set(counts) <= set(possible)
    if len(possible) == 1:
        return 1.0
    return chisquare([counts[layout] for layout in possible]).pvalue


@pytest.mark.parametrize(("places", "records"), SIZES)
def test_scatter_is_uniform_over_all_layouts(places, records):
    possible = layouts(places, records)
    drawn = scatter(np.random.default_rng(0), 60 * len(possible), places, records)
    assert drawn.shape == (60 * len(possible), records)
    assert fits(map(tuple, drawn.tolist()), possible) > LEAST_P


def test_a_law_that_is_not_uniform_is_noticed():
    rng, possible = np.random.default_rng(0), layouts(8, 3)
    greedy = []
    while len(greedy) < 400 * len(possible):  # each pair wherever it still fits: not uniform
        starts = []
        while len(starts) < 3:
            free = [p for p in range(7) if all(abs(p - s) >= 2 for s in starts)]
            if not free:
                break
            starts.append(int(rng.choice(free)))
        greedy += [tuple(sorted(starts))] if len(starts) == 3 else []
    assert fits(greedy, possible) < LEAST_P


@pytest.mark.parametrize(("places", "records"), SIZES)
def test_scatter_at_is_the_same_law_given_a_record_there(places, records):
    rng = np.random.default_rng(1)
    for place in range(places - 1):
        possible = [layout for layout in layouts(places, records) if place in layout]
        if not possible:
            with pytest.raises(ValueError, match=f"no layout of {records} pairs in {places}"):
                scatter_at(rng, places, records, place)
            continue
        drawn = []
        for _ in range(40 * len(possible)):
            starts, number = scatter_at(rng, places, records, place)
            assert starts[number] == place
            drawn.append(tuple(starts.tolist()))
        assert fits(drawn, possible) > LEAST_P


class Last:
    """The largest number that a generator can draw."""

    def random(self, shape=None):
        largest = 1 - 2**-53
        return largest if shape is None else np.full(shape, largest)


def test_the_last_of_all_draws_is_a_layout_too():
    """Sums of rounded shares may end below 1."""
    for records in range(1, 41):
        for place in range(95):
            starts, number = scatter_at(Last(), 96, records, place)
            assert starts[number] == place
            assert len(starts) == records


def test_too_many_pairs_are_refused():
    with pytest.raises(ValueError, match="5 pairs need 10 places; there are 9"):
        scatter(np.random.default_rng(0), 1, 9, 5)


@pytest.mark.parametrize("places", [8, 9, 33, 96])
@pytest.mark.parametrize("pitch", [2, 3, 8])
def test_a_lattice_has_as_many_pairs_from_every_start(places, pitch):
    fitting = [len(range(s, places - 1, pitch)) for s in range(pitch)]
    for start in range(pitch):
        found = lattice(places, pitch, start).tolist()
        assert found == list(range(start, places - 1, pitch))[: min(fitting)]


def test_pairs_are_laid_over_a_copy_of_the_fillers():
    fill = np.zeros((2, 7), int)
    starts = np.array([[0, 4], [5, 2]])
    ids = lay(fill, starts, np.array([[1, 2], [3, 4]]), np.array([[5, 6], [7, 8]]))
    assert ids.tolist() == [[1, 5, 0, 0, 2, 6, 0], [0, 0, 4, 8, 0, 3, 7]]
    assert not fill.any()


def test_symbols_are_drawn_without_repeats_in_any_order():
    drawn = draw(np.random.default_rng(0), 3000, 4, 2)
    orders = list(itertools.permutations(range(4), 2))
    assert fits(map(tuple, drawn.tolist()), orders) > LEAST_P


# ---- placement: first + G + r


def positions(samples, first=12, modulus=24):
    """residue → positions of the target in its copies."""
    found = {residue: [] for residue in range(modulus)}
    for index in range(samples):
        for r in range(modulus):
            at = first + lead_fillers(index, modulus) + r
            found[at % modulus].append(at)
    return found


def test_a_whole_design_has_one_mean_and_one_variance():
    groups = positions(576)
    assert {len(group) for group in groups.values()} == {576}
    assert {np.mean(group) for group in groups.values()} == {46.5}
    assert {round(np.var(group), 9) for group in groups.values()} == {143.75}


@pytest.mark.parametrize("samples", [24, 48, 192, 240])
def test_any_multiple_of_the_residues_has_one_mean(samples):
    means = {np.mean(group) for group in positions(samples).values()}
    assert len(means) == 1


def test_other_numbers_of_samples_have_means_that_differ():
    means = [np.mean(group) for group in positions(256).values()]
    assert 0 < max(means) - min(means) < 2
