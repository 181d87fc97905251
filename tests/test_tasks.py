"""From texts to samples: places, answers, fillers and chats, on tokenizers of several kinds."""

from __future__ import annotations

import json

import pytest
from conftest import make_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

import engine.tasks  # noqa: F401  (fill the registry)
from engine.copies import phase_copies
from engine.registry import TASKS, SpecError
from engine.tasks.access_code import sentences
from engine.tasks.custom import read_jsonl
from engine.tasks.records import symbols
from engine.tasks.text import Chat, Marked, build_sample, encode, piece

TEXT = (
    "{{pad}} The code of the door is {{target}}4829{{/target}}. The window is well then."
    "{{question}}\nQuestion: the code of the door?\nAnswer: it is "
)
OWN = {"kind": "custom", "text": TEXT, "answer": "4829", "rivals": ["7", "5"]}
SMALL = {
    "access_code": {"before": 1, "after": 1, "others": 2},
    "document_pair": {"repeats": 1},
    "banner": {},
    "records": {"records": 4},
    "custom": {k: v for k, v in OWN.items() if k != "kind"},
}

BANNER = (  # the published page, its banner left open
    '"""{banner}\nTiling helpers for the decode kernel.\n----------------\n"""\n\n'
    "HEAD_DIM = 128\nBLOCK_N = 8\nSTAGES = 32\n\ndef plan(seq_len):\n"
    "    blocks = (seq_len + BLOCK_N - 1) // BLOCK_N\n    return blocks\n\n\ndef check():\n"
    "    assert HEAD_DIM == 128\n    assert STAGES == 32\n    assert BLOCK_N == "
)


def built(tokenizer, task: dict, n: int = 1, seed: int = 0):
    return TASKS.build(task).samples(tokenizer, n, seed)


def refused(tokenizer, **changes) -> tuple[str, str]:
    with pytest.raises(SpecError) as caught:
        built(tokenizer, OWN | changes)
    first = caught.value.errors[0]
    return first.field, first.message


def read(tokenizer, tokens) -> str:
    return "".join(piece(tokenizer, token) for token in tokens)


@pytest.mark.parametrize("kind", sorted(SMALL))
def test_every_task_on_every_tokenizer(any_tokenizer, kind):
    """The target reads as the answer, the tokens are the text's own, and each protocol works."""
    task = TASKS.build({"kind": kind} | SMALL[kind])
    for sample in task.samples(any_tokenizer, 3, 0):
        if kind == "custom" and sample.index:
            break
        said = read(any_tokenizer, sample.tokens[slice(*sample.target)]).strip()
        assert said == read(any_tokenizer, sample.answer).strip() == sample.answer_text.strip()
        assert {sample.roles[t] for t in range(*sample.target)} == {"target"}
        assert sample.answer[0] not in sample.rivals
        assert sample.target[1] <= sample.context_end < len(sample.tokens)
        for protocol in task.protocols():
            copies = phase_copies(sample, protocol, 2 if protocol == "pair" else 8)
            assert len(copies) == (2 if protocol == "pair" else 8)


@pytest.mark.parametrize("kind", sorted(SMALL))
def test_a_sample_does_not_depend_on_how_many_are_asked(tokenizer, kind):
    task = TASKS.build({"kind": kind} | SMALL[kind])
    assert task.samples(tokenizer, 4, 7)[:2] == task.samples(tokenizer, 2, 7)
    if kind != "custom":
        assert task.samples(tokenizer, 3, 7)[-1] != task.samples(tokenizer, 3, 8)[-1]


@pytest.mark.parametrize("kind", ["access_code", "document_pair", "banner", "custom"])
def test_padding_on_ids_is_padding_of_the_text(any_tokenizer, kind):
    """The copies' ids equal tokenising the padded text: nothing merged, in any slot."""
    task = TASKS.build({"kind": kind} | SMALL[kind])
    sample = task.samples(any_tokenizer, 1, 0)[0]
    filler = piece(any_tokenizer, sample.filler)
    for protocol in task.protocols():
        for copy in phase_copies(sample, protocol, 2 if protocol == "pair" else 9):
            text = "".join(
                filler if role == "pad" else piece(any_tokenizer, token)
                for token, role in zip(copy.tokens, copy.roles, strict=True)
                if role != "template"
            )
            # A tokenizer may put a space in front of a text: one more is shown than was written.
            ways = [tuple(encode(any_tokenizer, text[k:], chat=False).ids) for k in (0, 1)]
            assert copy.tokens in ways


def test_fresh_codes_and_sentences_hold_no_second_answer(tokenizer):
    samples = built(tokenizer, {"kind": "access_code", "others": 3}, 6)
    answers = [sample.answer_text for sample in samples]
    assert len(set(answers)) == 6
    for sample in samples:
        assert read(tokenizer, sample.tokens).count(sample.answer_text) == 1
    assert not any(c.isdigit() for sentence in sentences() for c in sentence)
    assert len(set(sentences())) == len(sentences()) > 20


def test_answers_in_context_take_the_space_where_the_tokenizer_has_it():
    """Where digits merge with their space the prompt must end without one."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    base = Tokenizer(models.BPE())
    base.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    base.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet, show_progress=False)
    base.train_from_iterator(["is 4 is 48 is 4829 is 9 and 8 or 2 okay okay" * 3], trainer)
    merging = PreTrainedTokenizerFast(tokenizer_object=base)
    field, message = refused(merging)
    assert field == "task.answer"
    assert "merges with the text's last token" in message
    assert (
        "remove the white space at the end of the text and begin the answer with a space" in message
    )
    sample = built(merging, OWN | {"text": TEXT.rstrip(), "answer": " 4829", "rivals": []})[0]
    assert read(merging, sample.answer) == " 4829"
    pair = built(merging, {"kind": "document_pair", "repeats": 1})[0]
    assert read(merging, pair.tokens).endswith(" is")
    assert read(merging, pair.answer) == " 482915"


@pytest.mark.parametrize(
    "filler",
    [
        " ",
        "aaa",
        "=",
        "\n",
        "\U0001f469\u200d\U0001f467",
        "\u0301",
        "\u200d",
        "\u200f",
        "no such word",
        "哦",
    ],
)
def test_a_filler_that_merges_is_refused_with_three_that_do(tokenizer, smol, filler):
    """Three that are offered must work themselves."""
    for each in (tokenizer, smol):
        field, message = refused(each, filler=filler)
        assert field == "task.filler"
        assert "does not add exactly one token each time" in message
        offered = [eval(word) for word in message.split("; ")[1].removesuffix(" do").split(", ")]
        assert len(offered) == 3
        for good in offered:
            sample = built(each, OWN | {"filler": good})[0]
            assert piece(each, sample.filler) == good


def test_a_filler_is_checked_over_long_runs():
    """Runs of eight signs are one token here: three fillers alone would look innocent."""
    tokenizer = make_tokenizer()
    with pytest.raises(SpecError, match="does not add exactly one token"):
        built(tokenizer, {"kind": "banner", "filler": "="})
    with pytest.raises(SpecError, match="one token is never longer"):
        built(tokenizer, OWN | {"filler": "a" * 1000})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        (" \n\t ", "only white space"),
        ("{{pad}}", "only marks"),
        (" {{pad}} {{target}}{{/target}} ", "only marks"),
        ("The code is 4829.", "has no target"),
        ("is {{target}}4829", "it has 1 and 0"),
        ("{{/target}}is{{target}} 4829", "ends before it begins"),
        ("is {{target}} {{/target}} 4829", "only white space"),
        ("is {{target}}4829{{/target}}. {{pad}} x", "could not move it"),
        ("{{pad}}is {{pad}}{{target}}4829{{/target}}", "must stand behind the target"),
        ("{{pad}}{{pad}}{{pad}}is {{target}}4829{{/target}}", "at most 2"),
        ("{{question}}is {{target}}4829{{/target}}", "must stand behind the target"),
        ("{{pad}}x {{target}}4{{/target}}{{question}} y {{pad}}", "before {{question}}"),
        ("is {{target}}\ud800{{/target}}", "half a surrogate pair"),
    ],
)
def test_what_is_missing_in_a_prompt_is_told(tokenizer, text, told):
    field, message = refused(tokenizer, text=text)
    assert field in ("task.text", "task.slots")
    assert told in message


def test_places_inside_a_token_are_told_with_where_to_move_them(tokenizer):
    field, message = refused(tokenizer, text=TEXT.replace("{{pad}} The", " Th{{pad}}e"))
    assert (field, "inside the token ' The'" in message) == ("task.text", True)
    assert "at the very start or right before ' code of the'" in message
    text = "{{pad}} The code is well, win{{target}}dow{{/target}} the "
    field, message = refused(tokenizer, text=text)
    assert "target begins inside the token ' window'" in message


def test_a_target_may_leave_its_tokens_space_outside(any_tokenizer):
    for fact in (
        " {{target}}window{{/target}} is",
        "{{target}} window{{/target}} is",
        " {{target}}window {{/target}}is",
    ):
        task = OWN | {"text": f"The{fact} the", "answer": " okay", "rivals": []}
        sample = built(any_tokenizer, task)[0]
        assert read(any_tokenizer, sample.tokens[slice(*sample.target)]) == " window"


def test_places_as_offsets_mean_what_marks_mean(any_tokenizer):
    bare = TEXT
    for mark in ("{{pad}}", "{{target}}", "{{/target}}", "{{question}}"):
        bare = bare.replace(mark, "")
    start, question = bare.index("4829"), bare.index("\nQuestion")
    given = OWN | {"text": bare, "slots": [0], "target": [start, start + 4], "question": question}
    assert built(any_tokenizer, given) == built(any_tokenizer, OWN)
    assert refused(any_tokenizer, slots=[0])[0] == "task.slots"
    assert refused(any_tokenizer, text=bare, target=[5, 999])[0] == "task.target"
    assert refused(any_tokenizer, text=bare, target=[True, "x"])[0] == "task.target"


def test_rivals_are_first_tokens_told_apart_and_merged(tokenizer):
    sample = built(tokenizer, OWN | {"rivals": ["7", "71", "5"]})[0]
    assert sample.rival_texts == ("7", "5")
    field, message = refused(tokenizer, rivals=["7", "41"])
    assert field == "task.rivals"
    assert "begins with the same token as the answer '4829': the single token '4'" in message


def test_slots_decide_the_protocol():
    def protocols(text: str) -> tuple[str, ...]:
        return TASKS.build(OWN | {"text": text}).protocols()

    fact = "is {{target}}4829{{/target}}. "
    assert protocols(fact) == ("grid_origin",)
    assert protocols("{{pad}}" + fact) == ("lengthen", "grid_origin")
    assert protocols("{{pad}}" + fact + "{{pad}} x") == ("outer", "grid_origin")
    assert protocols("x {{pad}}" + fact + "{{pad}} x") == ("in_sequence", "grid_origin")


def test_a_chat_is_drawn_as_template_and_counted(any_tokenizer):
    """Content is found again although the template trims it; the model's turn may be begun."""
    text = "\n" + TEXT.replace("Answer:", "{{reply}}Answer:")
    plain = built(any_tokenizer, OWN | {"text": text})[0]
    chat = built(any_tokenizer, OWN | {"text": text, "chat": True, "system": "the door"})[0]
    own = [r for r in chat.roles if r != "template"]
    assert chat.roles[0] == "template"
    assert "target" in own
    assert read(any_tokenizer, chat.tokens[slice(*chat.target)]).strip() == "4829"
    whole = read(any_tokenizer, chat.tokens)
    assert "the door<|im_end|>" in whole
    assert whole.rstrip().endswith("<|im_start|>assistant\nAnswer: it is")
    assert chat.target[0] > plain.target[0]
    for protocol in ("lengthen", "grid_origin"):
        phase_copies(chat, protocol, 8)


def test_a_chat_that_the_model_has_not_is_told(tokenizer):
    bare = make_tokenizer()
    bare.chat_template = None
    assert refused(bare, chat=True) == (
        "task.chat",
        "this model has no chat template; set chat off",
    )
    bare.chat_template = "{{ raise_exception('no system role here') }}"
    assert refused(bare, chat=True, system="x")[0] == "task.system"


def test_records_say_how_many_single_tokens_there_are(tokenizer):
    have = len(symbols(tokenizer))
    with pytest.raises(SpecError, match=f"has {have}: at most {have // 2} records"):
        built(tokenizer, {"kind": "records", "records": have})
    sample = built(tokenizer, {"kind": "records", "records": 4})[0]
    keys = sample.tokens[: sample.context_end : 4]
    assert len({*keys, *sample.tokens[2 : sample.context_end : 4]}) == 8
    assert (
        sample.tokens[sample.target[0] - 2] == sample.tokens[-2]
    )  # the asked key stands before it


def test_the_banner_is_the_published_page(smol):
    samples = built(smol, {"kind": "banner", "base": 3}, 8)
    assert read(smol, samples[0].tokens) == BANNER.replace("{banner}", " = = =")
    assert samples[0].rival_texts == ("32", "4")  # 32 and 3 begin with one token: merged
    assert len({len(sample.rivals) for sample in samples}) == 1
    assert len({read(smol, sample.tokens) for sample in samples}) == 8


def test_the_pair_is_the_published_one_and_differs_by_one_token(smol):
    first = built(smol, {"kind": "document_pair"})[0]
    a, b = read(smol, first.tokens), read(smol, first.shifted.tokens)
    assert a.startswith("The access code for AX31 is 482915.")
    assert b == "Okay " + a
    assert a.count("The corridor on the second floor is cleaned") == 12
    assert a.endswith(
        "Question: What is the access code for AX31?\nAnswer: The access code for AX31 is "
    )
    assert len(first.shifted.tokens) == len(first.tokens) + 1


@settings(deadline=None, max_examples=60)
@given(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=12),
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.text(st.sampled_from(" a=\n\u0301\u200d\u200f\U0001f469e1<b>$"), min_size=1, max_size=4),
)
def test_any_text_gives_a_sample_or_one_clear_refusal(fact, around, filler):
    tokenizer = make_tokenizer()
    for chat in (Chat(), Chat(True)):
        target = (len(around), len(around + fact))
        marked = Marked(around + fact + around + "?", target, "4", (("pad", 0),))
        told, sample = "", None
        try:
            sample = build_sample(tokenizer, marked, 0, filler, chat)
        except SpecError as refusal:
            told = refusal.errors[0].field
        if sample is None:
            assert told.startswith("task.")
            continue
        said = read(tokenizer, sample.tokens[slice(*sample.target)])
        assert fact.strip() in said or not said.isascii()
        phase_copies(sample, "lengthen", 5)


def test_jsonl_names_the_line():
    good = json.dumps({"text": TEXT, "answer": "4829", "rivals": ["7"]})
    prompts = read_jsonl(f"\ufeff{good}\n\n{good}\n".encode())
    assert len(prompts) == 2
    task = TASKS.build({"kind": "custom", "prompts": list(prompts)})
    assert task.size() == 2
    assert [s.index for s in task.samples(make_tokenizer(), 9, 0)] == [0, 1]
    for data, told in (
        (good + "\n{text: 1}", "line 2: is no JSON object"),
        (good + "\n[1]", "line 2: must be a table"),
        ('{"text": "x"}', "line 1: answer is missing"),
        ('{"txt": "x", "answer": "y"}', "line 1: txt is no key here; did you mean 'text'"),
        ('{"text": "x", "answer": "y", "slots": ["a"]}', "line 1: slots must be a list of whole"),
        ('{"text": 4, "answer": "y"}', "line 1: text must be text, not int"),
        ('{"text": "\\ud800", "answer": "y"}', "line 1: text is no valid Unicode"),
        (b"\n\xff\xfe", "line 2: is not UTF-8"),
        ("[" * 100_000, "line 1: is no JSON object"),
        (good + '\n{"text": "x", "question": ' + "9" * 5000 + "}", "line 2: holds a whole number"),
        ("\n \n", "holds no prompt"),
        (b" " * 65_000_000, "the cap is 64 MB"),
    ):
        with pytest.raises(SpecError) as caught:
            read_jsonl(data)
        assert caught.value.errors[0].field == "task.prompts"
        assert told in caught.value.errors[0].message


def test_a_bad_prompt_among_many_is_named(tokenizer):
    good = {"text": TEXT, "answer": "4829"}
    with pytest.raises(SpecError, match="prompt 2: text has no target"):
        TASKS.build({"kind": "custom", "prompts": [good, {"text": "x", "answer": "y"}]})
    task = TASKS.build({"kind": "custom", "prompts": [good, good | {"rivals": ["48"]}]})
    with pytest.raises(SpecError, match="prompt 2: rivals: the rival '48' begins"):
        task.samples(tokenizer, 2, 0)
