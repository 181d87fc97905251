"""The user's own problems: columns by their usual names, marks, refusals that name the place."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engine.eviction.prompts  # noqa: F401  (fills the registry)
from engine.eviction.prompts import columns as lines
from engine.eviction.prompts.base import PROMPTS
from engine.eviction.prompts.columns import Problem, columns, final_answer, read
from engine.eviction.prompts.reasoning import MOST, read_jsonl
from engine.registry import SpecError, to_options

LINE = {"prompt": "How many legs have two dogs?", "answer": "8"}


def build(*prompts, **options):
    return PROMPTS.build({"kind": "reasoning", "prompts": list(prompts), **options})


def refusal(*prompts, **options):
    with pytest.raises(SpecError) as caught:
        build(*prompts, **options)
    return caught.value.errors


def text_of(tokenizer, ids):
    return tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)


def jsonl(*tables):
    return "\n".join(json.dumps(t) for t in tables)


# ---- columns


@pytest.mark.parametrize("prompt", lines.COLUMNS["prompt"])
@pytest.mark.parametrize("answer", lines.COLUMNS["answer"])
def test_the_usual_names_mean_the_same(prompt, answer):
    made = build({prompt: LINE["prompt"], answer: "8", "level": 3, "uuid": "x"})
    assert made == build(LINE)


def test_known_data_sets_read_as_they_are():
    gsm = {"question": "Two and two?", "answer": "2 + 2 = <<2+2=4>>4\n#### 4"}
    math = {"problem": "Half of one?", "solution": "It is $\\boxed{\\frac{1}{2}}$.", "level": "1"}
    both = {"problem": "Half?", "solution": "So \\boxed{9}.", "answer": "9", "unique_id": "a"}
    aime = {"ID": "2024-I-1", "Problem": "What?", "Solution": "\\fbox{3}", "Answer": 33}
    gpqa = {"Pre-Revision Question": "?", "Question": "Why?", "Correct Answer": "so\n"}
    prm = {"problem": "Half?", "ground_truth_solution": "So \\boxed{5}."}
    made = build(gsm, math, both, aime, gpqa, prm)
    answers = ["4", "\\frac{1}{2}", "9", "33", "so", "5"]
    assert [p["answer"] for p in made.prompts] == answers
    assert [p["prompt"] for p in made.prompts[3:5]] == ["What?", "Why?"]


def test_case_and_blanks_do_not_count_and_our_own_spelling_comes_first():
    assert build({"PROMPT": LINE["prompt"], "Final  Answer": "8"}) == build(LINE)
    assert build({"Prompt": "Not this", "Answer": "9", **LINE}) == build(LINE)
    assert build({**LINE, "Prompt": "Not this", "Answer": None}) == build(LINE)


@pytest.mark.parametrize(
    ("told", "final"),
    [
        (" 42 ", "42"),
        ("a\n#### 1,234\nthanks", "1,234"),
        ("\\boxed{1} or rather \\boxed{2}", "2"),
        ("it is \\fbox{3}", "3"),
        ("\\fboxed{3}", "\\fboxed{3}"),
        ("\\boxed{\\{1, 2\\}}", "\\{1, 2\\}"),
    ],
)
def test_the_final_answer_is_found(told, final):
    assert final_answer(told) == final
    assert final_answer(final) == final


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ("so\n####  ", "answer is empty behind its ####"),
        ("\\boxed{}", "answer is empty"),
        ("\\boxed{1", "never closed"),
        ("word " * 100, "499 characters and no ####"),
    ],
)
def test_an_answer_that_is_none_is_refused(told, says):
    with pytest.raises(Problem, match=says):
        final_answer(told)


def test_a_line_may_be_its_json():
    assert build(json.dumps(LINE)) == build(LINE)
    assert "prompt 1: is no JSON object" in refusal('{"prompt": ')[0].message


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    st.text("#42 {}\\bo", max_size=20),
)
def test_reading_a_table_again_changes_nothing(prompt, answer):
    try:
        once = columns({"prompt": prompt, "answer": answer})
    except Problem:
        return
    assert columns(once) == once


def test_the_dict_form_builds_the_same_task():
    task = build(LINE, LINE | {"marks": [["legs", 9, 13]], "response": "Four each."})
    again = PROMPTS.build(json.loads(json.dumps(to_options(task))))
    assert again == task
    assert task.size() == 2
    assert task.phrase() == "2 own prompts"
    assert build(LINE).phrase() == "1 own prompt"


# ---- a file


def test_a_file_is_read_line_by_line():
    data = "\ufeff" + jsonl(LINE) + "\r\n\n" + jsonl({"question": "Why?", "target": "so"}) + "\n"
    found = read_jsonl(data.encode())
    assert [t["answer"] for t in found] == ["8", "so"]
    assert read_jsonl(data) == found
    assert build(*found).prompts == found


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "is no JSON object"),
        ("[1]", "must be a table with prompt and answer, not [1]"),
        ("9" * 5000, "thousands of digits"),
        ("[" * 100_000, "nested too deeply"),
        ('{"answer": "8"}', "prompt is missing (or problem, question or input); the line holds"),
        ('{"promt": "a", "answer": "8"}', "did you mean 'prompt'"),
        ('{"prompt": "a"}', "answer is missing (or correct_answer, final_answer,"),
        ('{"prompt": "a", "Answr": "8"}', "did you mean 'answer'"),
        ('{"prompt": "a", "answer": NaN}', "NaN is no JSON"),
        ('{"prompt": "a", "answer": "8", "level": -Infinity}', "-Infinity is no JSON"),
        ('{"prompt": "a", "Answer": 1e999}', "Answer is inf, which is no answer"),
        ('{"prompt": " ", "answer": "8"}', "prompt is empty"),
        ('{"problem": 4, "answer": "8"}', "problem must be text, not int"),
        ('{"prompt": "a", "solution": true}', "solution must be text, not bool"),
        ('{"prompt": "a", "answer": null}', "answer is missing"),
        ('{"prompt": "\\ud800", "answer": "8"}', "prompt is no valid Unicode at character 0"),
        ('{"prompt": "a", "answer": "8", "response": "\\udfff"}', "response is no valid Unicode"),
        ('{"prompt": "a", "answer": "8", "continuaton": "b"}', "did you mean 'continuation'"),
        ('{"prompt": "abc", "answer": "8", "marks": 3}', "marks must be a list"),
        ('{"prompt": "abc", "answer": "8", "marks": [["a", 0, 9]]}', "within 0 to 3, not [0, 9]"),
        ('{"prompt": "abc", "answer": "8", "marks": [["a", 1]]}', "is no [name, start, stop]"),
        ('{"prompt": "abc", "answer": "8", "marks": [["a", 0, true]]}', "is no [name, start"),
        ('{"prompt": "a c", "answer": "8", "marks": [["a", 1, 2]]}', "only white space"),
        ('{"prompt": "abc", "answer": "8", "marks": [["", 1, 2]]}', "a mark's name has 1 to 60"),
        ('{"prompt": "{{mark:a}}bc", "answer": "8"}', "without a {{/mark}} behind it"),
        ('{"prompt": "bc{{/mark}}", "answer": "8"}', "without a {{mark:name}} before it"),
        ('{"prompt": "{{mark:a}}{{/mark}}", "answer": "8"}', "holds only marks"),
    ],
)  # fmt: skip
def test_a_bad_line_is_refused_by_its_number(line, says):
    with pytest.raises(SpecError) as caught:
        read_jsonl(jsonl(LINE) + "\n\n" + line)
    error = caught.value.errors[0]
    assert error.field == "task.prompts"
    assert error.message.startswith("line 3: ")
    assert says in error.message


def test_a_file_that_is_none_is_refused(monkeypatch):
    for data, says in ((b"", "holds no prompt"), (b"\n\xff", "line 2: is not UTF-8")):
        with pytest.raises(SpecError, match=says):
            read_jsonl(data)
    monkeypatch.setattr(lines, "MAX_JSONL", 10)
    with pytest.raises(SpecError, match="the cap is"):
        read_jsonl(jsonl(LINE))


# ---- a spec


def test_a_spec_is_refused_by_the_number_of_the_prompt():
    error = refusal(LINE, {"prompt": "a"})[0]
    assert error.field == "task.prompts"
    assert error.message.startswith("prompt 2: answer is missing")
    assert "is empty; give a JSONL" in refusal()[0].message
    assert "ask" in refusal(LINE, ask=" \n")[0].field
    assert len(refusal(*[{}] * 30)) == MOST


def test_huge_texts_are_refused_by_their_number_alone():
    told = refusal({"prompt": "a" * (lines.HUGE + 1), "answer": "8"})[0].message
    assert told == "prompt 1: prompt has 5,000,001 characters; at most 5,000,000 are read"


# ---- samples


def test_prompt_marks_and_question(any_tokenizer):
    text = (
        "There are {{mark:premise}}seven red lamps{{/mark}} and {{mark:answer}}12 books{{/mark}}."
    )
    task = build({"prompt": text + "\nHow many books?", "answer": "12"})
    sample = task.samples(any_tokenizer, 1, 0)[0]
    bare = "There are seven red lamps and 12 books.\nHow many books?"
    assert bare in text_of(any_tokenizer, sample.prompt)
    held = {n: text_of(any_tokenizer, sample.prompt[a:b]).strip() for n, a, b in sample.marks}
    assert held == {"premise": "seven red lamps", "answer": "12 books"}
    (asked,) = sample.questions
    assert asked.mark == "answer"
    assert text_of(any_tokenizer, asked.tokens) == "\nThe final answer is"
    assert text_of(any_tokenizer, asked.answer).strip() == "12"


def test_offsets_and_marks_in_the_text_say_the_same(tokenizer):
    inline = build({"prompt": "a {{mark:x}}door{{/mark}} here", "answer": "8"})
    given = build({"prompt": "a door here", "answer": "8", "marks": [["x", 2, 6]]})
    assert inline.samples(tokenizer, 1, 0) == given.samples(tokenizer, 1, 0)
    both = {"prompt": "a {{mark:x}}door{{/mark}}", "answer": "8", "marks": [["x", 2, 6]]}
    assert "use one of the two" in refusal(both)[0].message
    twice = {"prompt": "a door", "answer": "8", "marks": [["x", 0, 1], ["x", 2, 6]]}
    assert "name of two spans" in refusal(twice)[0].message


def test_marks_may_lie_in_each_other(tokenizer):
    text = "{{mark:plan}}First {{mark:step}}count the doors{{/mark}}, then stop.{{/mark}} Go on."
    sample = build({"prompt": text, "answer": "8"}).samples(tokenizer, 1, 0)[0]
    assert [name for name, _, _ in sample.marks] == ["plan", "step"], "wide ones first"
    (_, a, b), (_, c, d) = sample.marks
    assert a < c < d < b


def test_a_prompt_without_marks_is_one_span(tokenizer):
    sample = build(LINE).samples(tokenizer, 1, 0)[0]
    assert sample.marks == (("prompt", 0, len(sample.prompt)),)
    assert sample.questions[0].mark == "prompt"
    assert sample.continuation == ()


def test_a_continuation_begins_a_line_unless_white_space_is_there(any_tokenizer):
    for table, start in (
        (LINE | {"continuation": "Each has four."}, "\nEach"),
        (LINE | {"generation": " Each has four."}, " Each"),
        ({"prompt": "Dogs?\n", "answer": "8", "response": "Each has four."}, "Each"),
    ):
        sample = build(table).samples(any_tokenizer, 1, 0)[0]
        told = text_of(any_tokenizer, sample.continuation)  # some decoders drop a leading space
        assert told.lstrip(" ") == f"{start} has four.".lstrip(" ")


def test_prompt_and_continuation_are_the_text_tokenised_once(smol):
    sample = build(LINE | {"continuation": "Each has four legs."}).samples(smol, 1, 0)[0]
    whole = smol(LINE["prompt"] + "\nEach has four legs.")["input_ids"]
    assert [*sample.prompt, *sample.continuation] == whole


def test_ask_is_the_users_own(smol):
    sample = build(LINE, ask="\n#### ").samples(smol, 1, 0)[0]
    (asked,) = sample.questions
    assert text_of(smol, asked.tokens) == "\n#### "
    assert text_of(smol, asked.answer) == "8"


def test_the_answer_follows_a_space(smol):
    (asked,) = build(LINE | {"answer": "eight legs"}).samples(smol, 1, 0)[0].questions
    assert text_of(smol, asked.answer) == " eight legs"


def test_a_chat_template_goes_around(tokenizer):
    task = build(LINE | {"marks": [["dogs", 23, 27]], "response": "Four each."}, chat=True)
    sample = task.samples(tokenizer, 1, 0)[0]
    text = text_of(tokenizer, sample.prompt)
    assert text.startswith("<|im_start|>user\n")
    assert text.endswith("<|im_start|>assistant\n")
    ((_, start, stop),) = sample.marks
    assert text_of(tokenizer, sample.prompt[start:stop]).strip() == "dogs"
    assert text_of(tokenizer, sample.continuation) == "Four each."


def test_a_tokenizer_without_a_template_refuses_chat(tokenizer):
    import copy

    plain = copy.deepcopy(tokenizer)
    plain.chat_template = None
    with pytest.raises(SpecError) as caught:
        build(LINE, chat=True).samples(plain, 1, 0)
    assert caught.value.errors[0].field == "task.chat"
    assert "has no chat template; set chat off" in caught.value.errors[0].message


def test_samples_are_the_first_n_whatever_the_seed(tokenizer):
    task = build(LINE, LINE | {"answer": "9"}, LINE | {"answer": "10"})
    assert len(task.samples(tokenizer, 2, 0)) == 2
    assert task.samples(tokenizer, 9, 0) == task.samples(tokenizer, 3, 5)


@given(prompt=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_any_text_gives_spans_within_the_prompt(tokenizer, prompt):
    if not prompt.strip() or "{{" in prompt:
        return
    sample = build({"prompt": prompt, "answer": "8"}).samples(tokenizer, 1, 0)[0]
    for _, start, stop in sample.marks:
        assert 0 <= start < stop <= len(sample.prompt)


def test_marks_are_read_back_from_the_table():
    line = read(columns({"prompt": "x {{ mark: a b }}yz{{ /mark }}", "answer": 7}))
    assert line == ("x yz", "7", "", (("a b", 2, 4),))
