"""Controlled retrieval: copies of both protocols, read back from their tokens (SCIENCE §2, §4)."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from engine.copies import phase_copies
from engine.models.controlled.vocabulary import WORDS, tokenizer
from engine.registry import TASKS, SpecError
from engine.tasks.pairs import Pairs, spacers, verify, words
from engine.tasks.records import specials, symbols
from engine.tasks.text import piece

FILLERS, SYMBOLS = 16, 64
OTHER = dict(records=5, symbols=8, places=84, first=9)  # for tokenizers of few words


@pytest.fixture(scope="module")
def own():
    """The tokenizer of controlled models: fillers are ids 1 … 16, symbols from 17 on."""
    return tokenizer(FILLERS, SYMBOLS)


def sampled(tokenizer, task, protocol, modulus=24, n=6, seed=0):
    """(samples, their copies)."""
    made = task.samples(tokenizer, n, seed)
    return made, [phase_copies(sample, protocol, modulus) for sample in made]


def records_in(copy, is_symbol, lead=0):
    """place → (key, value) of all pairs in front of the question, read from the tokens alone."""
    found, place = {}, lead
    while place < len(copy.tokens) - 1:
        if is_symbol(copy.tokens[place]):
            assert is_symbol(copy.tokens[place + 1]), "a key without a value"
            found[place] = copy.tokens[place : place + 2]
            place += 2
        else:
            place += 1
    return found


def follows_the_rules(copies, modulus, is_symbol, lead=0):
    """What both protocols promise of one sample's copies; returns each one's records."""
    found = [records_in(copy, is_symbol, lead) for copy in copies]
    assert [copy.shift for copy in copies] == list(range(modulus))
    assert sorted(copy.target[0] % modulus for copy in copies) == list(range(modulus))
    assert len({len(copy.tokens) for copy in copies}) == 1
    assert len({copy.tokens[-1] for copy in copies}) == 1
    for copy, records in zip(copies, found, strict=True):
        start, stop = copy.target
        assert copy.residue == start % modulus
        assert stop == start + 2
        assert copy.context_end == copy.query_position == len(copy.tokens) - 1
        keys = [key for key, _ in records.values()]
        assert len(set(keys)) == len(keys)
        asked = [place for place, (key, _) in records.items() if key == copy.tokens[-1]]
        assert asked == [start]
        assert records[start][1:] == copy.answer
        inside = {t for place in records for t in (place, place + 1)}
        for t, role in enumerate(copy.roles[:-1]):
            expected = "record" if t in inside else "filler" if t >= lead else "template"
            assert role == ("target" if start <= t < stop else expected)
        assert copy.roles[-1] == "query"
    assert len({frozenset(records.values()) for records in found}) == 1
    return found


def of_own(token):
    return token > FILLERS


@pytest.mark.parametrize("records", [1, 4, 24, 40])
@pytest.mark.parametrize("modulus", [16, 24])
def test_in_sequence_moves_the_target_and_not_the_others(own, records, modulus):
    task = Pairs(records=records)
    moved, stood, pairs = 0, 0, 0
    for copies in sampled(own, task, "in_sequence", modulus)[1]:
        found = follows_the_rules(copies, modulus, of_own)
        assert {len(one) for one in found} == {records}
        starts = [{key: place for place, (key, _) in one.items()} for one in found]
        for r in range(1, modulus):
            for key, place in starts[r].items():
                if key == copies[0].tokens[-1]:
                    assert place - starts[0][key] == r
                    continue
                pairs += 1
                moved += place - starts[0][key] == r
                stood += place == starts[r - 1][key]
    assert moved <= 0.1 * pairs
    assert stood >= 0.5 * pairs, "copies share their random numbers"


@pytest.mark.parametrize("records", [4, 24, 32, 40])
@pytest.mark.parametrize("modulus", [8, 24])
def test_outer_moves_all_records_alike_at_the_density_of_training(own, records, modulus):
    task = Pairs(records=records)
    for copies in sampled(own, task, "outer", modulus)[1]:
        found = follows_the_rules(copies, modulus, of_own)
        for r, one in enumerate(found):
            assert {place - r: pair for place, pair in one.items()} == found[0]
        block = task.places - modulus + 1
        assert abs(len(found[0]) - records * block / task.places) <= 0.5
        assert max(found[-1]) + 2 <= task.places


@pytest.mark.parametrize("protocol", ["in_sequence", "outer"])
@pytest.mark.parametrize(("first", "modulus"), [(0, 24), (12, 24), (24, 24), (16, 16)])
def test_targets_stand_behind_the_first_places_and_a_whole_design_is_balanced(
    own, protocol, first, modulus
):
    task = Pairs(records=8, first=first)
    place = {r: [] for r in range(modulus)}
    for copies in sampled(own, task, protocol, modulus, n=2 * modulus)[1]:
        for copy in copies:
            place[copy.residue].append(copy.target[0])
    assert min(map(min, place.values())) >= first
    assert max(map(max, place.values())) + 2 <= task.places
    assert len({np.mean(group) for group in place.values()}) == 1


@pytest.mark.parametrize("pitch", [2, 8, 12])
def test_pitched_records_stand_at_the_phase_of_the_target(own, pitch):
    task = Pairs(pitch=pitch, first=12)
    assert task.protocols() == ("outer",)
    for copies in sampled(own, task, "outer")[1]:
        found = follows_the_rules(copies, 24, of_own)
        for copy, records in zip(copies, found, strict=True):
            places = sorted(records)
            assert {place % pitch for place in places} == {copy.target[0] % pitch}
            assert set(np.diff(places)) == {pitch}
            assert places[0] < pitch
        assert {len(records) for records in found} == {task.count}


@pytest.mark.parametrize(("first", "places"), [(16, 89), (25, 97), (0, 73), (3, 81)])
def test_pitched_targets_need_a_place_in_every_lattice(own, first, places):
    task = Pairs(pitch=8, first=first, places=places)
    for copies in sampled(own, task, "outer", n=24)[1]:
        follows_the_rules(copies, 24, of_own)
    less = replace(task, places=places - 1)
    with pytest.raises(SpecError, match=f"need {places} places for the targets; there are"):
        sampled(own, less, "outer", n=24)


@pytest.mark.parametrize(("first", "places"), [(16, 87), (0, 71)])
@pytest.mark.parametrize("protocol", ["in_sequence", "outer"])
def test_targets_need_room_behind_the_first_places(own, first, places, protocol):
    task = Pairs(records=4, first=first, places=places)
    for copies in sampled(own, task, protocol, n=24)[1]:
        follows_the_rules(copies, 24, of_own)
    less = replace(task, places=places - 1)
    with pytest.raises(SpecError, match=f"need {places} places") as caught:
        sampled(own, less, protocol, n=1)
    assert caught.value.errors[0].field == "task.places"


def test_samples_differ_and_repeat_with_their_seed(own):
    task = Pairs(records=8)
    first = [s.tokens for s in task.samples(own, 5, 0)]
    assert len(set(first)) == 5
    assert [s.tokens for s in task.samples(own, 5, 0)] == first
    assert [s.tokens for s in task.samples(own, 3, 0)] == first[:3]
    assert not set(first) & {s.tokens for s in task.samples(own, 5, 1)}


def test_rivals_are_values_of_other_records(own):
    for sample in Pairs(records=24).samples(own, 4, 0):
        values = {pair[1] for pair in records_in(sample, of_own).values()}
        assert len(set(sample.rivals)) == 3
        assert set(sample.rivals) <= values - set(sample.answer)
        assert sample.rival_texts == tuple(piece(own, rival) for rival in sample.rivals)
        assert sample.answer_text.strip() in WORDS


@pytest.mark.parametrize("protocol", ["in_sequence", "outer"])
def test_all_other_values_can_be_rivals(own, protocol):
    """Then gold competes with the whole set; those of other records come first."""
    task = Pairs(records=24, rivals=63)
    for sample, copies in zip(*sampled(own, task, protocol, n=3), strict=True):
        held = {pair[1] for pair in records_in(sample, of_own).values()}
        assert set(sample.rivals[:23]) == held - {sample.answer[0]}
        assert {*sample.rivals, *sample.answer} == set(range(FILLERS + 1, FILLERS + 1 + SYMBOLS))
        assert len(sample.rivals) == SYMBOLS - 1
        assert {copy.rivals for copy in copies} == {sample.rivals}
        few = replace(task, rivals=3).samples(own, 3, 0)[sample.index]
        assert few.rivals == sample.rivals[:3]


# ---- tokenizers of other models


@pytest.mark.parametrize("protocol", ["in_sequence", "outer"])
def test_any_tokenizer_with_enough_words_will_do(any_tokenizer, protocol):
    """Specials in front count: a residue is of the position in the whole sequence."""
    fillers, lead = set(spacers(any_tokenizer).tolist()), specials(any_tokenizer)
    task = Pairs(**OTHER)
    for copies in sampled(any_tokenizer, task, protocol, 8)[1]:
        follows_the_rules(copies, 8, lambda token: token not in fillers, len(lead))
        for copy in copies:
            assert copy.tokens[: len(lead)] == lead
            assert len(copy.tokens) == len(lead) + task.places + 1
            assert copy.target[0] >= len(lead) + task.first


def test_fillers_are_no_symbols_and_no_specials(own, any_tokenizer):
    for known in (own, any_tokenizer, tokenizer(3, 12)):
        fillers = spacers(known).tolist()
        assert not set(fillers) & set(known.all_special_ids)
        assert len(set(fillers)) == len(fillers)
        pool = words(known, 4, spacers(known), 0).tolist()
        assert len(set(pool)) == 4
        assert not set(pool) & {*fillers, *known.all_special_ids}
    assert sorted(spacers(own)) == list(range(1, 17))
    assert len(spacers(tokenizer(3, 12))) == 3


def test_too_many_symbols_are_refused_with_the_number_there_is(any_tokenizer):
    known = len(set(symbols(any_tokenizer)) - set(spacers(any_tokenizer).tolist()))
    assert len(Pairs(records=2, symbols=known).samples(any_tokenizer, 1, 0)) == 1
    told = f"{known + 1} symbols are asked for; this tokenizer has {known} words of one token"
    with pytest.raises(SpecError, match=told) as caught:
        Pairs(records=2, symbols=known + 1).samples(any_tokenizer, 1, 0)
    assert caught.value.errors[0].field == "task.symbols"


def test_the_controlled_tokenizer_has_as_many_symbols_as_the_models_count(own):
    assert words(own, SYMBOLS, spacers(own), 0).tolist() == list(range(17, 81))
    with pytest.raises(SpecError, match="65 symbols are asked for; this tokenizer has 64"):
        Pairs(symbols=65).samples(own, 1, 0)


# ---- refusals


@pytest.mark.parametrize(
    ("options", "field", "words"),
    [
        ({"records": 65}, "symbols", "65 records need as many different keys; there are 64"),
        ({"records": 49}, "records", "49 records take 98 places; there are 96"),
        ({"pitch": 1}, "pitch", "a record takes two places"),
        ({"pitch": 96}, "pitch", "no record fits at every phase of 96 in 96 places; at most 95"),
        ({"pitch": 8, "places": 8}, "pitch", "at most 7"),
        ({"pitch": 2, "symbols": 8}, "symbols", "47 records need as many different keys"),
        ({"records": 0}, "records", "1"),
        ({"record": 4}, "record", "did you mean 'records'"),
    ],
)
def test_records_that_do_not_fit_are_refused_at_their_field(options, field, words):
    with pytest.raises(SpecError, match=words) as caught:
        TASKS.build({"kind": "pairs", **options})
    assert caught.value.errors[0].field == f"task.{field}"


def test_records_that_leave_no_place_for_the_target_are_refused(own):
    with pytest.raises(SpecError, match="no layout of 48 pairs in 96 places has one at") as caught:
        sampled(own, Pairs(records=48), "in_sequence", n=2)
    assert caught.value.errors[0].field == "task.records"


def swapped(tokens, a, b):
    tokens = list(tokens)
    tokens[a], tokens[b] = tokens[b], tokens[a]
    return tuple(tokens)


BROKEN = {
    "differ in length": lambda c: replace(c, tokens=(1, *c.tokens)),
    "different answers": lambda c: replace(c, answer=(c.answer[0] + 1,)),
    "asked key is not the target's": lambda c: replace(c, tokens=(*c.tokens[:-1], 5)),
    "has not the answer": lambda c: replace(
        c, tokens=swapped(c.tokens, c.target[0] + 1, c.target[0] + 2)
    ),
    "residue is not its target's": lambda c: replace(c, residue=(c.residue + 1) % 8),
    "hold different records": lambda c: replace(
        c, tokens=tuple(5 if r == "record" else t for t, r in zip(c.tokens, c.roles, strict=True))
    ),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_copy_that_breaks_a_rule_is_noticed(own, rule):
    copies = sampled(own, Pairs(records=8), "in_sequence", 8, n=1)[1][0]
    verify(copies, "in_sequence", 8)
    with pytest.raises(SpecError, match=rule):
        verify([*copies[:5], BROKEN[rule](copies[5]), *copies[6:]], "in_sequence", 8)


def test_residues_that_are_not_met_once_each_are_noticed(own):
    copies = sampled(own, Pairs(records=8), "in_sequence", 8, n=1)[1][0]
    assert Counter(copy.residue for copy in copies) == Counter(range(8))
    with pytest.raises(SpecError, match="every residue exactly once"):
        verify([*copies[:5], copies[4], *copies[6:]], "in_sequence", 8)
    with pytest.raises(SpecError, match="did not move by its shift"):
        verify([copies[0], replace(copies[1], shift=2), *copies[2:]], "outer", 8)
