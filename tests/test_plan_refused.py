"""What a plan refuses that only a look at all prompts, or at their number, can tell."""

from __future__ import annotations

import pytest
from conftest import make_tokenizer
from test_plan import CODE, FACTS, OWN, POOLED, TEXT, spec_of

from engine.plan import plan
from engine.registry import SpecError


def told(tokenizer, **values) -> tuple[str, str]:
    with pytest.raises(SpecError) as caught:
        plan(spec_of(**values), tokenizer, FACTS)
    first = caught.value.errors[0]
    return first.field, first.message


def test_a_prompt_far_down_a_file_is_refused_before_the_run(tokenizer):
    many = [{"text": f"{{{{pad}}}} {TEXT.split(' ', 1)[1]}", "answer": "4829"}] * 600
    many[-1] = {"text": "A cod{{pad}}e is {{target}}4829{{/target}}. It is ", "answer": "4829"}
    task = {"kind": "custom", "prompts": many}
    field, message = told(tokenizer, task=task, samples=600, modulus=8, protocol="lengthen")
    assert field == "task.prompts"
    assert message.startswith("prompt 600: ")


def test_every_prompt_needs_its_question_where_what_is_before_it_is_compressed(tokenizer):
    two = [
        {"text": TEXT, "answer": "4829"},
        {"text": TEXT.replace("{{question}}", ""), "answer": "4829"},
    ]
    after = POOLED | {"when": "after_context"}
    task = {"kind": "custom", "prompts": two}
    field, message = told(tokenizer, task=task, samples=2, memory=after, protocol="lengthen")
    assert field == "task.prompts"
    assert message.startswith("prompt 2: after_context")


def test_thousands_of_sentences_are_refused_by_their_number(tokenizer):
    field, message = told(tokenizer, task=CODE | {"before": 4000, "after": 4000})
    assert field == "task.before"
    assert message.startswith("8,000 sentences have more than 96,000 tokens")


def test_a_prompt_too_long_by_its_system_message_is_told_there():
    long = OWN | {"chat": True, "system": "word " * 9000}
    assert told(make_tokenizer(), task=long, samples=1)[0] == "task.system"
