"""Prompts that need looking back: exact lengths, spans that hold what they name, fresh content."""

import random
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import engine.eviction.prompts  # noqa: F401  (fills the registry)
from engine.eviction.prompts.base import PROMPTS, apart, behind, question, span
from engine.eviction.prompts.story import FAMILIES
from engine.eviction.prompts.working import in_words, sentences
from engine.registry import SpecError, to_options
from engine.tasks.text import encode

LENGTH = 1200  # enough for tokenizers of few words


def build(**options):
    return PROMPTS.build({"kind": "lookback", **options})


def refused(**options):
    with pytest.raises(SpecError) as caught:
        build(**options)
    return caught.value.errors


def text_of(tokenizer, ids):
    return tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)


def named(marks):
    return {name: (start, stop) for name, start, stop in marks}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_sample_has_exactly_the_length(any_tokenizer, family):
    task = build(family=family, length=LENGTH, facts=4, questions=2)
    samples = task.samples(any_tokenizer, 2, 0)
    assert [len(s.prompt) for s in samples] == [LENGTH] * 2
    assert [s.index for s in samples] == [0, 1]
    assert all(s.continuation == () == s.repeats for s in samples)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_span_holds_its_fact_and_the_fact_holds_its_answer(any_tokenizer, family):
    task = build(family=family, length=LENGTH, facts=4, questions=4)
    for sample in task.samples(any_tokenizer, 1, 1):
        marks = named(sample.marks)
        assert len(marks) == len(sample.marks), "a name names one span"
        assert {q.mark for q in sample.questions} <= set(marks)
        for asked in sample.questions:
            start, stop = marks[asked.mark]
            held = text_of(any_tokenizer, sample.prompt[start:stop])
            answer = text_of(any_tokenizer, asked.answer).strip()
            assert answer in held
            assert held.strip().endswith("."), "the span is the whole sentence"
            others = sample.prompt[:start] + sample.prompt[stop:]
            assert answer not in text_of(any_tokenizer, others), "it is told nowhere else"


def test_the_wide_spans_stand_first_and_hold_their_facts(smol):
    sample = build(family="plan", length=400).samples(smol, 1, 0)[0]
    marks = named(sample.marks)
    assert [name for name, _, _ in sample.marks][:2] == ["premise", "plan"]
    assert marks["premise"][1] <= marks["plan"][0]
    for k in (1, 2, 3):
        start, stop = marks[f"step {k}"]
        assert marks["plan"][0] <= start < stop <= marks["plan"][1]
    assert text_of(smol, sample.prompt[slice(*marks["premise"])]).startswith("Problem:")
    assert text_of(smol, sample.prompt[slice(*marks["plan"])]).startswith("Plan:\nStep 0")


def test_the_prompt_is_the_text_tokenised_once(smol):
    """Ids that no text gives would be read by no user's model in that way."""
    for sample in build(length=300, given=True, continuation=150).samples(smol, 3, 0):
        text = text_of(smol, sample.prompt)
        assert encode(smol, text, chat=False).ids == list(sample.prompt)
        whole = encode(smol, text + text_of(smol, sample.continuation), chat=False).ids
        assert whole == [*sample.prompt, *sample.continuation]


def test_answers_are_short_with_the_default_model(smol):
    for sample in build(questions=6).samples(smol, 6, 0):
        assert all(1 <= len(q.answer) <= 6 for q in sample.questions)
        assert all(text_of(smol, q.tokens).startswith("\n") for q in sample.questions)


def test_a_question_reads_on_from_the_line_before_and_never_tells_its_answer(smol):
    for sample in build(questions=6).samples(smol, 6, 2):
        prompt = text_of(smol, sample.prompt)
        for asked in sample.questions:
            _, cue, phrase = text_of(smol, asked.tokens).split("\n")
            assert cue in prompt
            assert phrase in prompt
            answer = text_of(smol, asked.answer).strip()
            assert answer not in cue + phrase


def test_all_takes_the_families_in_turn(tokenizer):
    task = build(length=900, facts=2, questions=1)
    starts = [text_of(tokenizer, s.prompt)[:4] for s in task.samples(tokenizer, 6, 0)]
    assert starts == ["Work", "Prob", "Ledg"] * 2


# ---- seeds


def test_a_seed_gives_the_same_bits_and_does_not_depend_on_n(tokenizer):
    task = build(length=900, facts=2, questions=1, given=True, continuation=300)
    once, again = task.samples(tokenizer, 3, 7), task.samples(tokenizer, 3, 7)
    assert once == again
    assert task.samples(tokenizer, 2, 7) == once[:2]


def test_samples_and_seeds_differ(tokenizer):
    task = build(family="codes", length=700, facts=2, questions=1)
    found = {s.prompt for seed in (0, 1) for s in task.samples(tokenizer, 3, seed)}
    answers = {s.questions[0].answer for seed in (0, 1) for s in task.samples(tokenizer, 3, seed)}
    assert len(found) == 6
    assert len(answers) == 6


# ---- a continuation that is given


@pytest.mark.parametrize("family", FAMILIES)
def test_a_given_continuation_has_its_length_and_says_facts_again(any_tokenizer, family):
    task = build(family=family, length=1200, facts=4, questions=2, given=True, continuation=700)
    sample = task.samples(any_tokenizer, 1, 0)[0]
    assert len(sample.continuation) == 700
    asked = {q.mark for q in sample.questions}
    assert {name for name, _, _ in sample.repeats}.isdisjoint(asked)
    assert len(sample.repeats) == 2
    marks = named(sample.marks)
    for name, start, stop in sample.repeats:
        again = text_of(any_tokenizer, sample.continuation[start:stop])
        first = text_of(any_tokenizer, sample.prompt[slice(*marks[name])]).strip()
        assert first.split()[-1] in again
        assert first.split(maxsplit=1)[1] in again


def test_repeated_all_says_the_asked_facts_too(smol):
    task = build(length=400, given=True, continuation=300, repeated="all", questions=6)
    sample = task.samples(smol, 1, 0)[0]
    assert {name for name, _, _ in sample.repeats} == {q.mark for q in sample.questions}


# ---- refusals


def test_questions_are_at_most_the_facts():
    assert refused(facts=2, questions=3)[0].field == "task.questions"
    error = refused(facts=3, questions=3, given=True)[0]
    assert error.field == "task.questions"
    assert "at most 2" in error.message
    assert build(facts=3, questions=3, given=True, repeated="all").questions == 3


def test_bounds_are_told():
    assert refused(family="novel")[0].message.startswith("must be one of all, codes, plan, ledger")
    assert refused(length=1)[0].field == "task.length"
    assert refused(facts=1)[0].field == "task.facts"


@pytest.mark.parametrize("family", ["all", *FAMILIES])
@pytest.mark.parametrize("facts", [2, 9])
def test_too_short_tells_the_least_that_works(smol, family, facts):
    with pytest.raises(SpecError) as caught:
        build(family=family, facts=facts, questions=1, length=16).samples(smol, 4, 0)
    error = caught.value.errors[0]
    assert error.field == "task.length"
    least = int(re.search(r"the least that works is (\d+)", error.message)[1])
    with pytest.raises(SpecError):
        build(family=family, facts=facts, questions=1, length=least - 1).samples(smol, 4, 0)
    made = build(family=family, facts=facts, questions=1, length=least).samples(smol, 4, 0)
    assert {len(s.prompt) for s in made} == {least}


def test_too_short_a_continuation_tells_the_least_that_works(smol):
    options = {"length": 300, "facts": 6, "questions": 1, "given": True}
    with pytest.raises(SpecError) as caught:
        build(**options, continuation=16).samples(smol, 3, 0)
    error = caught.value.errors[0]
    assert error.field == "task.continuation"
    least = int(re.search(r"the least that works is (\d+)", error.message)[1])
    made = build(**options, continuation=least).samples(smol, 3, 0)
    assert {len(s.continuation) for s in made} == {least}


# ---- properties


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    length=st.integers(330, 700),
    facts=st.integers(2, 8),
    family=st.sampled_from([*FAMILIES]),
    seed=st.integers(0, 2**31 - 1),
)
def test_any_length_is_reached(smol, length, facts, family, seed):
    task = build(family=family, length=length, facts=facts, questions=1)
    sample = task.samples(smol, 1, seed)[0]
    assert len(sample.prompt) == length
    for _, start, stop in sample.marks:
        assert 0 <= start < stop <= length
    facts_told = [m for m in sample.marks if m[0] not in ("premise", "plan")]
    assert len(facts_told) == facts


@pytest.mark.parametrize("family", FAMILIES)
def test_most_facts_all_differ(family):
    for seed in range(20):
        facts = FAMILIES[family](random.Random(seed), 40).facts
        assert len(facts) == 40
        assert len({f.name for f in facts}) == len({f.sentence for f in facts}) == 40
        assert all(f.cue and f.cue != f.sentence for f in facts)
        assert len({f.answer for f in facts}) == 40


def test_working_out_holds_no_digit_and_its_sums_are_true():
    stream = sentences(random.Random(0))
    told = [next(stream) for _ in range(500)]
    assert not any(ch.isdigit() for text in told for ch in text)
    assert len(set(told)) > 150
    value = {in_words(n): n for n in range(1000)}
    assert len(value) == 1000
    sums = [m for text in told if (m := re.fullmatch(r"First (.+) and (.+) make (.+)\.", text))]
    assert sums
    for found in sums:
        a, b, total = (value[word] for word in found.groups())
        assert a + b == total


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "zero"), (13, "thirteen"), (40, "forty"), (99, "ninety-nine"), (100, "one hundred"),
     (178, "one hundred and seventy-eight")],
)  # fmt: skip
def test_numbers_in_words(number, words):
    assert in_words(number) == words


# ---- from text to tokens


def test_a_span_holds_every_token_of_its_characters(any_tokenizer):
    text = "Notes: the door is 4829 and the ü is 77."
    encoded = encode(any_tokenizer, text, chat=False)
    for start, stop in ((7, 15), (19, 23), (0, len(text)), (32, 33)):
        first, last = span(encoded, start, stop)
        covering = [
            i
            for i, (a, b) in enumerate(zip(encoded.starts, encoded.ends, strict=True))
            if a < stop and b > start
        ]
        assert list(range(first, last)) == covering


def test_text_behind_another_has_the_tokens_of_the_whole(any_tokenizer):
    ids = behind(any_tokenizer, "the door", " is 4829")
    whole = encode(any_tokenizer, "the door is 4829", chat=True).ids
    assert whole[-len(ids) :] == ids
    assert apart(any_tokenizer, "\nThe door")[1]


def test_the_space_before_an_answer_is_on_the_side_of_its_token(smol):
    """Digits are tokens of their own in SmolLM2; a word brings its space along."""
    number = question(smol, "\nThe code is", "4829", "code")
    assert [text_of(smol, [t]) for t in number.answer] == ["4", "8", "2", "9"]
    word = question(smol, "\nStep 2 is to", "weigh the lamps", "step 2")
    assert text_of(smol, word.answer) == " weigh the lamps"


def test_the_dict_form_builds_the_same_task():
    task = build(family="ledger", length=777)
    assert PROMPTS.build(to_options(task)) == task
    assert task.phrase() == "lookback ledger, 777 tokens, 6 facts"
    assert build(given=True).phrase().endswith("256 given")
