"""Plans: what is shown before a run is what will run; what cannot run is refused with numbers."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pytest
from conftest import make_tokenizer

from engine import estimate as cost
from engine.build import build
from engine.commands.shown import plan as show_plan
from engine.models.facts import Facts
from engine.plan import plan, shares
from engine.presets import presets
from engine.registry import SpecError
from engine.specs import SweepSpec

FACTS = Facts(30, tuple(range(30)), 9, 3, 64, 576, 134_515_008, 49_152, 8_192, 4, "llama")
POOLED = {"kind": "pooled", "window": 4, "stride": 4, "gate": "onehot", "local": 16}
TEXT = (
    "{{pad}} The code is {{target}}4829{{/target}}."
    + " The window is well." * 8
    + "{{question}} It is "
)
OWN = {"kind": "custom", "text": TEXT, "answer": "4829"}
CODE = {"kind": "access_code", "before": 1, "after": 1}


def spec_of(**values) -> SweepSpec:
    return SweepSpec.from_dict({"memory": POOLED, "task": CODE, "samples": 3} | values)


def refused(tokenizer, facts=FACTS, **values) -> tuple[str, str]:
    with pytest.raises(SpecError) as caught:
        build(spec_of(**values), tokenizer, facts)
    first = caught.value.errors[0]
    return first.field, first.message


def test_the_plan_is_what_will_run(tokenizer):
    spec = spec_of(modulus=8, protocol="in_sequence")
    copies, shown = build(spec, tokenizer, FACTS), plan(spec, tokenizer, FACTS)
    assert json.loads(json.dumps(shown)) == shown
    assert (shown["key"], shown["copies"]) == (spec.key, len(copies))
    assert [(c.sample, c.shift) for c in copies] == [(i, r) for i in range(3) for r in range(8)]
    lengths = [len(c.tokens) for c in copies]
    assert shown["length"] == [min(lengths), max(lengths)]
    assert abs(shown["tokens"] - sum(len(c.tokens) + len(c.answer) for c in copies)) <= 1
    assert [t["id"] for t in shown["strip"]["tokens"]] == list(copies[0].tokens)
    assert "".join(t["text"] for t in shown["answer"]["tokens"]) == shown["answer"]["text"]
    rows = shown["design"]
    assert [row["residue"] for row in rows] == list(range(8))
    for row in rows:
        group = [c for c in copies if c.target[0] % 8 == row["residue"]]
        assert row["n"] == len(group) == 3
        assert row["target_mean"] == pytest.approx(sum(c.target[0] for c in group) / 3)


def test_the_strip_draws_the_grid_and_the_slots(tokenizer):
    for protocol, names in (
        ("outer", ["front", "back"]),
        ("in_sequence", ["before", "after"]),
        ("grid_origin", []),
        ("lengthen", ["pad"]),
    ):
        strip = plan(spec_of(protocol=protocol), tokenizer, FACTS)["strip"]
        assert [slot["name"] for slot in strip["slots"]] == names
        assert (strip["stride"], strip["window"], strip["origin"]) == (4, 4, 0)
        for t, token in enumerate(strip["tokens"]):
            assert (token["position"], token["phase"], token["window"]) == (t, t % 4, t // 4)
        said = "".join(token["text"] for token in strip["tokens"] if token["target"])
        assert said.isdigit()
        assert len(said) == 6
    full = plan(spec_of(memory={"kind": "full"}), tokenizer, FACTS)["strip"]
    assert {token["phase"] for token in full["tokens"]} == {None}


def test_token_texts_are_raw_and_fragments_in_byte_form(any_tokenizer):
    """Text that looks like markup or is half a character reaches the page as it is."""
    nasty = "<b>$x$\u200f\u200d <img src=x onerror=alert(1)>"
    task = OWN | {"text": TEXT.replace("{{pad}}", "{{pad}} " + nasty)}
    tokens = plan(spec_of(task=task, samples=1), any_tokenizer, FACTS)["strip"]["tokens"]
    assert "\ufffd" not in "".join(token["text"] for token in tokens)
    assert all(token["text"] for token in tokens)
    for piece in ("<", "b", ">", "$", " The"):
        assert any(token["text"] == piece for token in tokens)


def test_a_prompt_longer_than_the_positions_tells_by_how_much(tokenizer):
    spec = spec_of(task=OWN, samples=1)
    longest = max(len(c.tokens) + len(c.answer) for c in build(spec, tokenizer, FACTS))
    build(spec, tokenizer, replace(FACTS, positions=longest))
    field, message = refused(tokenizer, replace(FACTS, positions=longest - 3), task=OWN, samples=1)
    assert field == "task.text"
    assert f"{longest} tokens" in message
    assert f"takes {longest - 3} positions: 3 too many" in message


def test_a_long_task_is_refused_at_the_option_that_makes_it_long(tokenizer):
    short = replace(FACTS, positions=100)
    for task, field in (
        (CODE, "task.before"),
        ({"kind": "records", "records": 40}, "task.records"),
        ({"kind": "document_pair"}, "task.repeats"),
        ({"kind": "banner"}, "task.base"),
    ):
        assert refused(tokenizer, short, task=task)[0] == field


def test_one_of_many_prompts_too_long_is_told_at_the_prompts(tokenizer):
    own = [{"text": TEXT + "y" * length, "answer": "4829"} for length in (0, 400_000)]
    task = {"kind": "custom", "prompts": own}
    short = replace(FACTS, positions=100)
    assert refused(tokenizer, short, task=task, samples=2)[0] == "task.prompts"
    task["prompts"] = own[:1]
    assert refused(tokenizer, replace(FACTS, positions=3), task=task)[0] == "task.prompts"


def test_many_prompts_are_no_single_long_one(tokenizer):
    """Their characters were once added up to one length, whose mask took terabytes."""
    prompts = [{"text": TEXT + "y" * 2000, "answer": "4829"}] * 40
    asked = spec_of(task={"kind": "custom", "prompts": prompts}, samples=40)
    cost.check_characters(asked.task.characters(), asked, FACTS, "task.text")


def test_a_huge_paste_is_refused_before_it_is_tokenised(tokenizer):
    text = TEXT + "y" * 300_000_000
    spec_of()  # imports are not what is timed
    begun = time.perf_counter()
    spec = spec_of(task=OWN | {"text": text})
    with pytest.raises(SpecError) as caught:
        build(spec, None, FACTS)  # no tokenizer: it would fail if it were asked
    assert time.perf_counter() - begun < 5
    field, message = caught.value.errors[0]
    assert field == "task.text"
    for told in (
        "300,000,",
        "about 75,000,",
        "8,192 positions",
        "too many",
        "days",
        "TB of memory",
    ):
        assert told in message
    assert len(message) < 400


def test_a_million_samples_are_refused_with_estimate_and_cap(tokenizer):
    field, message = refused(tokenizer, samples=1_000_000)
    assert field == "samples"
    for told in (
        "8,000,000 copies",
        "tokens",
        "days",
        "GB of memory",
        "the cap is 1,000,000 copies",
    ):
        assert told in message
    assert "at most 125,000 samples" in message


def test_time_and_memory_have_caps(tokenizer, monkeypatch):
    monkeypatch.setattr(cost, "memory_limit", lambda: 500_000_000)
    told = refused(tokenizer)[1].split("the cap on this machine is 450 MB of memory: ")[1]
    assert told.startswith("the model alone does not fit")
    monkeypatch.setattr(cost, "memory_cap", lambda: 1_000_000_000)
    told = refused(tokenizer)[1].split("of memory: ")[1]
    assert told.startswith("a batch of ")
    monkeypatch.undo()
    monkeypatch.setattr(cost, "memory_limit", lambda: 10**15)
    field, message = refused(tokenizer, replace(FACTS, parameters=70_000_000_000), samples=60_000)
    assert "the cap is 14 days" in message
    assert field == "samples"


def test_the_estimate_counts_control_scan_and_a_measured_speed(tokenizer):
    def seconds(**values) -> float:
        shown = plan(spec_of(**values), tokenizer, FACTS, speed=1000.0)
        assert shown["estimate"]["speed_source"] == "measured here"
        return shown["estimate"]["seconds"] / shown["tokens"]

    assert seconds(memory={"kind": "full"}) == pytest.approx(0.001, rel=0.01)
    assert seconds() == pytest.approx(0.002, rel=0.01)
    assert seconds(scan=True) == pytest.approx(0.017, rel=0.01)  # a scan reads half the shifts
    guess = plan(spec_of(), tokenizer, FACTS)["estimate"]
    assert guess["speed_source"] == "guess"
    assert 5e8 < guess["bytes"] < 3e9


def test_a_plan_of_a_large_run_is_made_from_its_first_copies(tokenizer, monkeypatch):
    monkeypatch.setattr("engine.plan.PREVIEWED", 16)
    shown = plan(spec_of(samples=50), tokenizer, FACTS)
    assert shown["copies"] == 400
    assert [row["n"] for row in shown["design"]] == [2] * 8
    assert shown["designed"] == 2


@pytest.mark.parametrize("protocol", ["in_sequence", "outer"])
def test_the_design_of_pairs_is_of_all_prompts_though_few_are_made(
    tokenizer, monkeypatch, protocol
):
    task = {"kind": "pairs", "records": 8, "symbols": 16, "places": 60, "first": 8}
    spec = spec_of(task=task, samples=64, modulus=8, protocol=protocol)
    whole = plan(spec, tokenizer, FACTS)
    monkeypatch.setattr("engine.plan.PREVIEWED", 16)
    shown = plan(spec, tokenizer, FACTS)
    copies = build(spec, tokenizer, FACTS)
    assert shown["designed"] == 64
    assert shown["design"] == whole["design"]
    for row in shown["design"]:
        at = [c.target[0] for c in copies if c.residue == row["residue"]]
        assert row["n"] == len(at) == 64
        assert row["target_mean"] == pytest.approx(np.mean(at))
        assert row["target_var"] == pytest.approx(np.var(at)) == pytest.approx(15.75)


def test_a_design_of_part_of_the_prompts_says_so(tokenizer, monkeypatch, capsys):
    words = "of the first 2 of 50 prompts"
    show_plan(plan(spec_of(samples=50), tokenizer, FACTS))
    assert words not in capsys.readouterr().out
    monkeypatch.setattr("engine.plan.PREVIEWED", 16)
    show_plan(plan(spec_of(samples=50), tokenizer, FACTS))
    told = capsys.readouterr().out
    assert words in told
    assert "target_var" in told


def test_layers_that_the_model_has_not_are_refused_at_the_field(tokenizer):
    assert refused(tokenizer, memory=POOLED | {"layers": "0-99"})[0] == "memory.layers"


def test_after_context_needs_to_know_where_the_question_begins(tokenizer):
    memory = POOLED | {"when": "after_context"}
    field, message = refused(
        tokenizer, memory=memory, task=OWN | {"text": TEXT.replace("{{question}}", "")}
    )
    assert (field, "{{question}}" in message) == ("task.text", True)


def test_samples_of_own_prompts_are_as_many_as_prompts(tokenizer):
    assert spec_of(task=OWN, samples=12).settings.samples == 1
    assert spec_of(task=OWN, samples=12) == spec_of(task=OWN, samples=1)
    many = {"kind": "custom", "prompts": [{"text": TEXT, "answer": "4829"}] * 5}
    spec = spec_of(task=many, samples=12)
    assert spec.settings.samples == 5
    assert SweepSpec.from_dict(spec.to_dict()).key == spec.key
    assert len(build(spec, tokenizer, FACTS)) == 5 * spec.settings.modulus


def warned(tokenizer, words: str, **values) -> bool:
    return any(words in text for text in plan(spec_of(**values), tokenizer, FACTS)["warnings"])


def test_warnings_say_when_nothing_compressed_is_asked(tokenizer):
    exact = "exact in every copy"
    assert not warned(tokenizer, exact)
    assert warned(tokenizer, exact, memory=POOLED | {"local": 4000})
    assert warned(tokenizer, exact, memory=POOLED | {"sinks": 4000})
    for protocol in ("grid_origin", "outer"):
        assert warned(tokenizer, exact, memory=POOLED | {"local": 4000}, protocol=protocol)
    assert not warned(tokenizer, "exact", memory={"kind": "full"})


def test_warnings_about_prompts_protocol_and_template(tokenizer):
    assert warned(tokenizer, "One prompt", task=OWN)
    assert warned(tokenizer, "Only 3 samples")
    assert not warned(tokenizer, "samples", samples=12)
    assert warned(tokenizer, "weakest protocol", task=OWN)
    assert not warned(tokenizer, "weakest protocol")
    chat = plan(spec_of(task=CODE | {"chat": True}), tokenizer, FACTS)
    lead = next(t["position"] for t in chat["strip"]["tokens"] if t["role"] != "template")
    assert any(f"puts {lead} tokens in front" in w for w in chat["warnings"])
    assert any(f"phase {lead % 4} of 4" in w for w in chat["warnings"])
    assert warned(tokenizer, "lock them there", task={"kind": "records", "records": 4}, samples=6)


def test_a_pair_says_by_how_many_tokens_it_differs(tokenizer, smol):
    for each, prefix, told in (
        (smol, "Okay ", "one token longer"),
        (smol, "Well then, ", "3 tokens longer"),
        (tokenizer, "Okay ", "tokens longer, not one"),
        (smol, " ", "no phase moves"),
    ):
        task = {"kind": "document_pair", "prefix": prefix, "repeats": 1}
        shown = plan(spec_of(task=task), each, FACTS)
        assert any(told in text for text in shown["warnings"])
        assert (shown["pair"]["tokens"] > 0) == (prefix != " ")


def test_residue_groups_differ_little_in_mean_position(tokenizer):
    rows = plan(spec_of(samples=16, modulus=16), tokenizer, FACTS)["design"]
    alone = plan(spec_of(samples=1, modulus=16), tokenizer, FACTS)["design"]

    def spread(table: list[dict]) -> float:
        means = [row["target_mean"] for row in table]
        return max(means) - min(means)

    assert spread(alone) == 15
    assert spread(rows) < 8


def test_every_preset_builds_and_says_what_it_is(smol):
    known = presets()
    wanted = {"smollm2-onehot", "smollm2-mean", "banner", "document-pair", "smollm2-full"}
    assert wanted <= set(known)
    for name in wanted:
        preset = known[name]
        assert preset.title
        assert preset.caption
        shown = plan(SweepSpec.from_dict(preset.spec), smol, FACTS)
        assert shown["copies"] == (24 if name == "document-pair" else 192)
        assert not any("exact in every copy" in text for text in shown["warnings"])
    assert "decimation" in known["smollm2-onehot"].note


def test_a_model_without_a_template_is_told_in_the_plan():
    bare = make_tokenizer()
    bare.chat_template = None
    assert refused(bare, task=CODE | {"chat": True})[0] == "task.chat"


def test_a_prompt_without_the_others_pad_marks_is_named(tokenizer):
    texts = [
        f"{{{{pad}}}}Room {i} has code {{{{target}}}}{i}{{{{/target}}}}. It is " for i in "4829"
    ]
    two, bare = texts[1].replace(" It", "{{pad}} It"), texts[1].replace("{{pad}}", "")

    def told(*texts, **values):
        task = {"kind": "custom", "prompts": [{"text": t, "answer": "4"} for t in texts]}
        shown = plan(spec_of(task=task, **values), tokenizer, FACTS)
        return [w for w in shown["warnings"] if "{{pad}}" in w]

    assert not told(*texts)
    assert told(texts[0], two, bare, texts[2])[0].startswith("Prompt 3 has not the {{pad}}")
    assert told(texts[0], texts[2], two)[0].startswith("Prompt 3 ")
    assert not told(bare, bare)


def test_shares_are_the_gates_folded_to_the_stride(tokenizer):
    """What the page says of a phase is read off the memory's plan, keys and values apart."""

    def of(**options):
        spec = SweepSpec.from_dict({"memory": {"kind": "pooled", "sinks": 2, **options}})
        return shares(spec, FACTS)

    one = of(window=4, stride=4, gate="onehot", offset=1)
    assert one == {"keys": [0, 1, 0, 0], "values": [0, 1, 0, 0]}
    apart = of(window=4, stride=4, gate="onehot", offset=1, v_gate="hand", v_weights=[0, 1, 2, 4])
    assert apart == {"keys": [0, 1, 0, 0], "values": [0, 0.25, 0.5, 1]}
    overlap = of(window=6, stride=4, gate="hand", weights=[1, 0, 0, 0, 3, 0])
    assert overlap["keys"] == pytest.approx([1, 0, 0, 0])  # offsets 0 and 4 are one phase
    moved = of(window=4, stride=4, gate="onehot", offset=0, origin=3)
    assert moved["keys"] == [1, 0, 0, 0]  # offsets count from the grid's origin


def test_the_phase_is_t_mod_s_wherever_the_grid_starts(tokenizer):
    strip = plan(spec_of(memory=POOLED | {"origin": 2}), tokenizer, FACTS)["strip"]
    assert strip["origin"] == 2
    assert [t["phase"] for t in strip["tokens"][:6]] == [0, 1, 2, 3, 0, 1]
    assert [t["window"] for t in strip["tokens"][:7]] == [None, None, 0, 0, 0, 0, 1]
