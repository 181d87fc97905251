"""Depth and density beside a benchmark: read off the copies themselves."""

from hypothesis import given
from hypothesis import strategies as st

from engine.copies import phase_copies
from engine.depth import neighbours, record_starts
from engine.models.controlled.vocabulary import tokenizer
from engine.tasks.pairs import Pairs

WORDS = tokenizer(16, 64)


@given(st.sampled_from(["in_sequence", "outer"]), st.integers(0, 3), st.integers(4, 40))
def test_keys_are_where_the_records_start(protocol, index, records):
    sample = Pairs(records=records).samples(WORDS, index + 1, 5)[index]
    keys = set(sample.layout.keys.tolist())
    for copy in phase_copies(sample, protocol, 24)[::7]:
        starts = record_starts(copy)
        assert copy.target[0] in starts
        held = {copy.tokens[at]: copy.tokens[at + 1] for at in starts}
        wanted = dict(zip(sample.layout.keys, sample.layout.values, strict=True))
        assert set(held) <= keys
        assert all(wanted[key] == value for key, value in held.items())


def test_neighbours_are_the_keys_in_the_targets_window():
    sample = Pairs().samples(WORDS, 1, 0)[0]
    for copy in phase_copies(sample, "in_sequence", 24):
        window = copy.target[0] // 8
        near = [at for at in record_starts(copy) if at // 8 == window]
        assert neighbours(copy, 8, 8, 0) == len(near) >= 1
