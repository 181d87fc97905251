"""The parts of the dashboard that need no page: words, tokens, form values, marks, frames."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from fake_client import WILD, FakeClient
from hypothesis import given
from hypothesis import strategies as st

from app import fields, frames, marking, tokens, words
from app.explore import why
from app.explore.details import toml


@pytest.fixture(scope="module")
def client():
    return FakeClient()


# ---- words


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.301, ".301"), (-0.05, "−.05"), (1.0, "1"), (0.0, "0"), (12.5, "12.5"), (None, "–")],
)
def test_numbers_have_no_leading_zero_and_a_true_minus(value, text):
    assert words.number(value, 3 if value == 0.301 else 2) == text


def test_p_values_are_cut_at_a_thousandth():
    assert words.p_value(0.0004) == "p < .001"
    assert words.p_value(0.64) == "p = .64"
    assert words.p_value(0.038) == "p = .038"  # as the sentences of the engine have it
    assert words.p_value(None) == "p –"


def test_how_long_ago():
    now = datetime(2026, 11, 29, 12, tzinfo=UTC)
    assert words.ago("2026-11-29T11:48:00Z", now) == "12 min"
    assert words.ago("2026-11-28T11:00:00Z", now) == "1 d"
    assert words.ago("not a time", now) == ""


@given(st.text(max_size=40))
def test_token_text_is_never_mark_up(raw):
    shown = words.literal(raw)
    assert not set(shown) & set("<>\"'$")
    assert all(char.isprintable() for char in words.visible(raw))


@pytest.mark.parametrize("code", [0x3164, 0x115F, 0x1160, 0xFFA0, 0x2800, 0x180E, 0x34F])
def test_a_letter_that_is_drawn_as_nothing_is_told_by_its_number(code):
    assert words.visible(f"a{chr(code)}b") == f"a⟨U+{code:04X}⟩b"


@pytest.mark.parametrize("raw", WILD)
def test_wild_tokens_are_shown_as_text_in_the_strip(raw):
    token = {"position": 3, "id": 1, "text": raw, "role": "text", "phase": 3, "window": 0}
    html = tokens.strip({"tokens": [token], "stride": 4})
    body = html.split('class="ps-tok"')[1].split("</bdi>")[0].split(">", 1)[1]
    assert body == words.literal(raw)
    assert "<" not in body
    assert "\u200f" not in html
    assert "\u200d" not in html


# ---- the strip


def prompt(count: int, stride: int = 4, target: int = 60) -> dict:
    rows = [
        {
            "position": i,
            "id": i,
            "text": f"t{i}",
            "role": "text",
            "phase": i % stride,
            "window": i // stride,
        }
        | {"target": i == target, "pad": False}
        for i in range(count)
    ]
    return {"tokens": rows, "stride": stride, "slots": [{"name": "pad", "at": 2}], "origin": 0}


@given(st.integers(1, 400), st.integers(1, 9), st.integers(0, 399))
def test_a_long_prompt_keeps_start_target_end_and_counts_the_rest(count, stride, target):
    strip = prompt(count, stride, target)
    parts = tokens.elide(strip["tokens"], 72)
    shown = [t["position"] for part in parts if not isinstance(part, int) for t in part]
    assert len(shown) + sum(p for p in parts if isinstance(p, int)) == count
    assert shown == sorted(set(shown))
    assert {0, count - 1} <= set(shown)
    if target < count:
        assert target in shown


def test_short_prompts_are_whole_and_windows_are_bands():
    html = tokens.strip(prompt(8, target=5))
    assert html.count("ps-even") == 1
    assert html.count("ps-odd") == 1
    assert html.count("ps-target") == 1
    assert html.count("ps-slot") == 1
    assert html.count("ps-scored") == 1
    assert "t mod 4 = 1, window 1" in html


def test_the_phase_shows_as_a_line_from_faint_to_full():
    html = tokens.strip(prompt(4, target=9))
    assert [float(part.split(";")[0]) for part in html.split("--p:")[1:]] == [
        0.12,
        0.413,
        0.707,
        1.0,
    ]


def test_a_dropped_target_is_dashed_and_a_kept_one_filled():
    kept = [0, 0, 1, 0]
    memory, strip = {"gate": "onehot"}, {"shares": {"keys": kept, "values": kept}}
    for phase, mark in ((2, "ps-kept"), (0, "ps-lost")):
        members = why.around_target(prompt(80, target=30), 4, phase)
        html = tokens.windows_at(members, 4, kept)
        cell = next(part for part in html.split("<bdi") if "ps-target" in part)
        assert mark in cell
        story = why.story(memory, strip, members, phase)
        assert ("keeps" in story) == (phase == 2)
        assert ("drops" in story) == (phase == 0)


def test_a_grid_that_starts_elsewhere_moves_the_windows_and_no_phase():
    """Origin 2, S = 4, the gate keeps offset 2: that is position 34, phase 2 + 2 = 0."""
    kept = [0, 0, 1, 0]
    memory, strip = {"gate": "onehot"}, {"shares": {"keys": kept, "values": kept}}
    for phase, offset in ((0, 2), (2, 0)):
        members = why.around_target(prompt(80, target=30) | {"origin": 2}, 4, phase)
        target = next(t for t in members if t["target"])
        assert (target["position"] % 4, target["phase"], target["offset"]) == (phase, phase, offset)
        assert ("keeps" in why.story(memory, strip, members, phase)) == (offset == 2)
        cell = next(p for p in tokens.windows_at(members, 4, kept).split("<bdi") if "target" in p)
        assert ("ps-kept" in cell) == (offset == 2)
        assert f"t mod 4 = {phase}" in cell
    early = why.around_target(prompt(80, target=3) | {"origin": 9}, 4, 1)
    assert "before the first window" in why.story(memory, strip, early, 1)


def test_keys_and_values_that_part_are_told_apart():
    """A value that survives its key is not "dropped with its window"."""
    strip = {"shares": {"keys": [1, 0, 0, 0], "values": [0, 1, 0, 0]}, "layers": [27, 30]}
    members = why.around_target(prompt(80, target=30), 4, 1)
    story = why.story({"gate": "onehot"}, strip, members, 1)
    assert story == "The entries keep the keys of no target token and the values of the target."
    assert why.where(strip).startswith("In 27 of 30 layers")
    assert why.where({"layers": [30, 30]}) == ""


# ---- form values


def test_when_decides_what_is_shown():
    field = {"when": "gate=onehot|hand, v_gate!=same"}
    assert fields.shown(field, {"gate": "hand", "v_gate": "mean"})
    assert not fields.shown(field, {"gate": "hand", "v_gate": "same"})
    assert not fields.shown(field, {"gate": "mean", "v_gate": "mean"})
    assert fields.shown({"when": "chat=true"}, {"chat": True})


def test_lists_survive_the_text_box():
    values = ["32", " 3", 'a "b"', "x, y", "\\"]
    assert fields.items(fields.listed(values), numbers=False) == values
    assert fields.items("0.5, 1,2", numbers=True) == [0.5, 1.0, 2.0]
    assert fields.items("1, four", numbers=True) == [1.0, "four"]
    assert fields.items("", numbers=False) == []


@given(st.lists(st.text(min_size=1, max_size=8).filter(lambda t: t.isprintable())))
def test_any_list_of_texts_survives_the_text_box(values):
    assert fields.items(fields.listed(values), numbers=False) == values


def test_the_default_control_is_not_part_of_the_form(client):
    spec = client.presets[0][2].to_dict()
    assert "control" not in fields.plain(spec)
    other = spec | {"control": spec["control"] | {"memory": {"kind": "pooled"}}}
    assert "control" in fields.plain(other)


def test_a_fresh_custom_form_is_accepted(client):
    plan = client.preview(fields.default(client.schema(), "custom"))
    assert plan["spec"]["task"]["answer"] == "482915"
    assert plan["spec"]["samples"] == 1


def test_spec_as_toml_is_the_spec(client):
    import tomllib

    spec = fields.plain(client.presets[0][2].to_dict())
    read = tomllib.loads(toml(spec))
    assert client.preview(read)["key"] == client.presets[0][2].key


# ---- marks


MARKED = "Notes:{{pad}} the code is {{target}}4829{{/target}}. {{question}}What?"


def test_a_mark_moves_to_the_selection():
    bare = marking.strip_marks(MARKED).text
    start = MARKED.index("code")
    moved = marking.put_mark(MARKED, "target", start, start + 4)
    assert "{{target}}code{{/target}} is 4829." in moved
    assert marking.strip_marks(moved).text == bare
    assert marking.put_mark(MARKED, "target", start, start) == MARKED
    assert marking.put_mark(MARKED, "clear", 0, 0) == bare


def test_a_third_padding_place_replaces_the_nearer():
    two = marking.put_mark(MARKED, "pad", len(MARKED), len(MARKED))
    assert two.count("{{pad}}") == 2
    three = marking.put_mark(two, "pad", 2, 2)
    assert three.startswith("No{{pad}}tes: the")
    assert three.endswith("{{pad}}")


@given(st.text("abc \n", min_size=1, max_size=30), st.data())
def test_marking_never_changes_the_text(plain, data):
    marked = plain
    for _ in range(4):
        name = data.draw(st.sampled_from(["target", "pad", "question", "clear"]))
        start = data.draw(st.integers(0, len(marked)))
        marked = marking.put_mark(marked, name, start, data.draw(st.integers(start, len(marked))))
        assert marking.strip_marks(marked).text == plain
    opened = [name for _, name in marking.strip_marks(marked).marks]
    assert opened.count("target") == opened.count("/target") <= 1
    if "target" in opened:
        assert opened.index("target") < opened.index("/target")
    assert opened.count("pad") <= 2


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"text": "a", "answer": "b"}\n\n{"text": "c", "answer": "d"}', ""),
        (b'{"text": 1}\n{', "Line 2 is no JSON object"),
        (b"[1]", "Line 1 is no JSON object"),
        (b'{"text": "a"}\n{"slots": [' + b"9" * 5000 + b"]}", "Line 2 holds a whole number"),
        (b"\xff\xfe", "Line 1 is not UTF-8"),
        (b" \n", "holds no prompt"),
    ],
)
def test_a_file_of_prompts_is_read_line_by_line(data, problem):
    prompts, told = marking.read_lines(data)
    assert problem in told
    assert bool(prompts) == (problem == "")


# ---- frames


def test_frames_agree_with_the_report(client):
    key = client.presets[0][2].key
    rows, shown = client.answers(key), client.show(key)
    drawn = frames.curve(rows, "residue", "joint", 4)
    assert np.allclose(drawn["value"], [r["value"] for r in shown["residues"]])
    folded = frames.fold(rows, 4, "joint")
    assert np.allclose(folded["value"], [r["value"] for r in shown["folded"]])
    known = frames.with_intervals(drawn, shown, "residue")
    assert (known["low"] <= known["value"]).all()
    assert (known["value"] <= known["high"]).all()


def test_the_axis_is_the_residue_where_samples_start_elsewhere(client):
    rows = client.answers(client.presets[0][2].key)
    assert frames.natural_axis(rows, "outer") == "shift"
    moved = rows.assign(residue=(rows["residue"] + rows["sample"]) % 16)
    assert frames.natural_axis(moved, "outer") == "residue"
    assert frames.natural_axis(rows, "pair") == "document"
    fixed, spread = [{"target_sd": 0.0}], [{"target_sd": 0.0}, {"target_sd": 2.0}]
    assert frames.natural_axis(moved, "outer", fixed) == "shift"
    assert frames.natural_axis(rows.head(0), "outer", spread) == "residue"


def test_a_stride_begins_where_the_target_has_phase_zero():
    rows = pd.DataFrame({"shift": [0, 1], "residue": [3, 4]})
    assert frames.first_boundary(rows, None, 4, "shift") == 1
    assert frames.first_boundary(rows, None, 4, "residue") == 0
    for axis, first in (("shift", 3), ("residue", 2)):
        assert frames.first_boundary(rows, None, 4, axis, origin=2) == first
    assert frames.first_boundary(rows.head(0), prompt(80, target=31), 4, "shift", origin=2) == 3


def test_token_difference_aligns_copies_without_their_padding():
    rows = []
    for shift, value in ((0, -1.0), (1, -3.0)):
        for place in range(5 + shift):
            pad = place < shift
            last = place == 4 + shift
            rows.append(
                {
                    "shift": shift,
                    "residue": shift,
                    "position": place + 1,
                    "role": "pad" if pad else "text",
                }
                | {"text": "x" if pad else f"t{place - shift}", "logprob": value if last else -2.0}
            )
    frame = frames.difference(pd.DataFrame(rows), 2, 0, 1)
    assert frame["text"].tolist() == ["t0", "t1", "t2", "t3", "t4"]
    assert frame["difference"].tolist() == [0, 0, 0, 0, 2.0]
    assert not len(frames.difference(pd.DataFrame(rows), 2, 0, 3))


def test_token_difference_knows_where_each_copys_grid_starts():
    """Grid origin: at phase 1 the first copy is the one whose grid was moved by 3."""
    rows = pd.DataFrame(
        [
            {"shift": r, "residue": (4 - r) % 4, "position": t, "role": "text"}
            | {"text": f"t{t}", "logprob": -1.0 - r}
            for r in range(4)
            for t in range(1, 9)
        ]
    )
    frame = frames.difference(rows, 4, 1, 0, "grid_origin")
    assert set(frame["origin"]) == {3}
    assert frame["phase"].tolist() == [(t - 3) % 4 for t in range(1, 9)]
    assert frames.difference(rows, 4, 1, 0)["phase"].tolist() == [t % 4 for t in range(1, 9)]


def test_top_tokens_are_means_over_the_copies_of_a_phase(client):
    key = client.presets[0][2].key
    rows = client.tokens(key, sample=0)
    frame = frames.top_tokens(rows, 4, {7: "8", 9: "32"})
    best = frame[frame["place"] == 1].set_index("phase")
    gold = rows[rows["role"] == "answer"]
    expected = np.exp(gold["logprob"]).groupby(gold["residue"] % 4).mean()
    assert best["token"].tolist() == ["8"] * 4
    assert np.allclose(best["probability"], expected)
    assert set(frame["token"]) == {"8", "32", "id 3"}


def test_answer_tokens_stand_at_their_own_phases_with_the_joint_below():
    rows = pd.DataFrame(
        {
            "shift": [0, 1],
            "residue": [0, 1],
            "logprob": np.log([0.5, 0.1]),
            "token_logprobs": [np.log([1.0, 0.5]), np.log([0.2, 0.5])],
            "token_residues": [[0, 1], [1, 2]],
        }
    )
    frame = frames.answer_tokens(rows, 2, pair=False)
    assert frame["token"].tolist() == [0, 0, 1, 1, -1, -1]
    assert np.allclose(frame["probability"], [1.0, 0.2, 0.5, 0.5, 0.5, 0.1])
    assert frame["group"].tolist() == [0, 1, 0, 1, 0, 1]
