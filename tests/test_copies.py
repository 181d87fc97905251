"""Phase copies: arithmetic against a slow reference, and properties over random samples (P13)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.copies import (
    SLOTS,
    Copy,
    LogicalSample,
    Slot,
    lead_fillers,
    phase_copies,
    token_residues,
    verify,
)
from engine.registry import SpecError

PAD = 999
PADDED = ("outer", "in_sequence", "lengthen")
PROTOCOLS = (*PADDED, "grid_origin")


@st.composite
def samples(draw):
    """A sample of distinct ids, so that a reference can find every token by its id."""
    heading, before, lead = (draw(st.integers(0, 9)) for _ in range(3))
    fact, stop, after, question = (draw(st.integers(1, 6)) for _ in range(4))
    length = heading + before + lead + fact + stop + after + question
    target = (heading + before + lead, heading + before + lead + fact)
    context_end = length - question
    slots = (
        Slot("front", heading),
        Slot("before", heading + before),
        Slot("pad", heading + before),
        Slot("after", target[1] + stop),
        Slot("back", context_end),
    )
    tokens = tuple(range(length))
    roles = tuple("target" if target[0] <= t < target[1] else "text" for t in tokens)
    answer = tokens[slice(*target)] if draw(st.booleans()) else (500, 501)
    return LogicalSample(
        draw(st.integers(0, 40)),
        tokens,
        roles,
        target,
        answer,
        (7,),
        ("r",),
        "",
        slots,
        PAD,
        context_end,
    )


def slow_copy(sample: LogicalSample, protocol: str, modulus: int, r: int) -> list[int]:
    """Reference: walk the tokens one by one and put fillers in when a slot is met."""
    a = lead_fillers(sample.index, modulus) if protocol in ("outer", "in_sequence") else 0
    out = []
    for t in range(len(sample.tokens) + 1):
        for slot in sample.slots:
            if slot.at == t and slot.name in SLOTS.get(protocol, ()):
                first = slot.name in ("front", "before", "pad")
                out += [PAD] * (a + r if first else modulus - 1 - r)
        if t < len(sample.tokens):
            out.append(sample.tokens[t])
    return out


@given(samples(), st.sampled_from(PROTOCOLS), st.integers(2, 24))
def test_copies_equal_a_slow_reference(sample, protocol, modulus):
    for r, copy in enumerate(phase_copies(sample, protocol, modulus)):
        tokens = slow_copy(sample, protocol, modulus, r)
        assert list(copy.tokens) == tokens
        target = tokens.index(sample.tokens[sample.target[0]])
        assert copy.target[0] == target
        origin = r if protocol == "grid_origin" else 0
        assert (copy.origin, copy.residue) == (origin, (target - origin) % modulus)
        assert copy.context_end == tokens.index(sample.tokens[sample.context_end])
        assert copy.query_position == len(tokens) - 1


@given(samples(), st.sampled_from(PROTOCOLS), st.integers(2, 24))
def test_copies_differ_only_in_phase(sample, protocol, modulus):
    copies = phase_copies(sample, protocol, modulus)
    assert [copy.shift for copy in copies] == list(range(modulus))
    assert {copy.residue for copy in copies} == set(range(modulus))
    assert len({tuple(t for t in copy.tokens if t != PAD) for copy in copies}) == 1
    lengths = [len(copy.tokens) for copy in copies]
    if protocol == "lengthen":
        assert lengths == list(range(lengths[0], lengths[0] + modulus))
    else:
        assert len(set(lengths)) == 1  # no padding mask anywhere
        assert len({copy.query_position for copy in copies}) == 1


@given(samples(), st.integers(2, 24))
def test_in_sequence_moves_the_targets_record_alone(sample, modulus):
    """A record that moves too would make its phase indistinguishable from the target's."""
    copies = phase_copies(sample, "in_sequence", modulus)
    at = {slot.name: slot.at for slot in sample.slots}
    moving = set(sample.tokens[at["before"] : at["after"]])
    for token in sample.tokens:
        places = {copy.tokens.index(token) for copy in copies}
        assert len(places) == (modulus if token in moving else 1)


@given(samples(), st.integers(2, 24))
def test_each_answer_token_has_the_residue_of_its_own_source(sample, modulus):
    for protocol in PROTOCOLS:
        for copy in phase_copies(sample, protocol, modulus):
            if sample.answer[0] == 500:  # the target does not hold the answer
                expected = [copy.residue] * 2
            else:
                expected = [(copy.tokens.index(t) - copy.origin) % modulus for t in copy.answer]
            assert token_residues(copy, modulus) == expected


def test_target_positions_have_equal_mean_and_variance_in_all_residue_groups():
    """Else a slow trend over positions would look like a residue effect (SCIENCE §2)."""
    for modulus in (4, 8, 12):
        for count, what in ((modulus**2, (np.mean, np.var)), (3 * modulus, (np.mean,))):
            leads = [100 + lead_fillers(i, modulus) for i in range(count)]
            groups = [[p + (residue - p) % modulus for p in leads] for residue in range(modulus)]
            for statistic in what:
                assert np.ptp([statistic(group) for group in groups]) < 1e-9


def spread_of_variance(leads: list[int], modulus: int) -> float:
    """The largest residue group's variance of target positions minus the smallest."""
    groups = [[p + (residue - p) % modulus for p in leads] for residue in range(modulus)]
    return float(np.ptp([np.var(group) for group in groups]))


@pytest.mark.parametrize("modulus", [8, 12, 15, 20, 24, 30, 32, 48])
def test_variances_are_equal_at_the_square_and_nearer_than_random_before_it(modulus):
    """Most runs stop before R² samples: 192 of 576 at 24 residues."""
    square = [lead_fillers(i, modulus) for i in range(modulus**2)]
    assert sorted(square) == sorted(u + v for u in range(modulus) for v in range(modulus))
    assert spread_of_variance(square, modulus) < 1e-9
    few, rng = 8 * modulus, np.random.default_rng(modulus)
    random = [
        spread_of_variance(rng.integers(0, modulus, (2, few)).sum(0).tolist(), modulus)
        for _ in range(50)
    ]
    assert spread_of_variance(square[:few], modulus) < 0.9 * np.mean(random)


def test_at_the_presets_size_each_residues_variance_is_near_the_equal_one():
    for count in (192, 288):
        leads = [lead_fillers(i, 24) for i in range(count)]
        groups = [[p + (residue - p) % 24 for p in leads] for residue in range(24)]
        assert all(abs(np.var(group) / 143.75 - 1) < 0.15 for group in groups)


def test_sample_0_has_no_fillers_of_its_own():
    assert [lead_fillers(0, modulus) for modulus in range(1, 40)] == [0] * 39


def one() -> LogicalSample:
    slots = (Slot("front", 1), Slot("before", 3), Slot("after", 6), Slot("back", 8), Slot("pad", 3))
    roles = ("text",) * 4 + ("target",) + ("text",) * 5
    return LogicalSample(0, tuple(range(10)), roles, (4, 5), (4,), (), (), "", slots, PAD, 8)


@pytest.mark.parametrize(
    ("protocol", "change", "rule"),
    [
        ("outer", {"tokens": (0, PAD, PAD, *range(1, 9), 9, 9)}, "more than fillers"),
        ("outer", {"tokens": tuple(range(10))}, "one role for each token"),
        ("outer", {"residue": 0}, "every residue"),
        ("outer", {"target": (1, 2)}, "target"),
        ("outer", {"context_end": 3}, "query moved"),
        ("grid_origin", {"origin": 5}, "residue is not its target's"),
        ("outer", {"answer": (5,)}, "different answers"),
    ],
)
def test_verification_finds_a_copy_that_was_tampered_with(protocol, change, rule):
    sample = one()
    copies = phase_copies(sample, protocol, 4)
    copies[2] = replace(copies[2], **change)
    with pytest.raises(SpecError, match=rule):
        verify(sample, protocol, 4, copies)


def test_verification_finds_copies_padded_in_the_wrong_place():
    """Outer copies are right as outer, and wrong as in-sequence: the neighbours moved."""
    sample = one()
    with pytest.raises(SpecError, match="more than the target's record moved"):
        verify(sample, "in_sequence", 4, phase_copies(sample, "outer", 4))


def test_a_missing_or_misplaced_slot_is_told():
    sample = one()
    with pytest.raises(SpecError, match="needs the slots before and after; this prompt has pad"):
        phase_copies(replace(sample, slots=(Slot("pad", 1),)), "in_sequence", 4)
    with pytest.raises(SpecError, match="behind the target's start"):
        phase_copies(replace(sample, slots=(Slot("pad", 6),)), "lengthen", 4)
    with pytest.raises(SpecError, match="must stand behind the target"):
        phase_copies(replace(sample, slots=(Slot("front", 0), Slot("back", 2))), "outer", 4)


def test_a_pair_is_its_two_documents_in_order():
    sample = one()
    other = replace(
        sample, tokens=(77, *sample.tokens), roles=("text", *sample.roles), target=(5, 6)
    )
    copies = phase_copies(replace(sample, shifted=other), "pair", 2)
    assert [(c.shift, c.residue, len(c.tokens), c.target) for c in copies] == [
        (0, 0, 10, (4, 5)),
        (1, 1, 11, (5, 6)),
    ]
    with pytest.raises(SpecError, match="second document"):
        phase_copies(sample, "pair", 2)


def test_a_copy_knows_its_query():
    copy = Copy(0, 0, 0, (1, 2, 3), ("text",) * 3, (0, 1), (2,), (), 3)
    assert copy.query_position == 2
