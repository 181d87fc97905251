"""Specs side by side: what differs, names that stay short and apart, and edits between texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.analysis import compare_fields, compare_text
from engine.analysis.compare_fields import LONGEST, names, reason, table, unlike
from engine.specs import SweepSpec

DEFAULTS = {
    "memory.pooled.window": 4,
    "memory.pooled.local": 16,
    "memory.pooled.anchor": "weighted",
}


def spec(memory: dict | None = None, **more) -> dict:
    values = {"model": {"id": "m"}, "task": {"kind": "access_code"}, "modulus": 24, "seed": 0}
    return values | {"memory": memory or {"kind": "full"}} | more


def pooled(**options) -> dict:
    return {"kind": "pooled", "window": 8, "stride": 8, "local": 16, "anchor": "weighted"} | options


def rows(*specs: dict) -> dict[str, dict]:
    return {row["field"]: row for row in table(list(specs), {"model.id": "Model"}, DEFAULTS)}


# ---- the table


def test_fields_of_any_run_stand_in_the_table_memory_first():
    found = rows(spec(), spec(pooled()))
    assert next(iter(found)) == "memory.kind"
    assert found["memory.window"]["values"] == [None, 8]
    assert found["model.id"]["label"] == "Model"
    assert found["task.kind"]["label"] == "Task: kind"
    assert set(found) >= {"seed", "modulus", "memory.local"}


def test_only_real_differences_differ():
    found = rows(spec(pooled()), spec(pooled(stride=6), seed=1))
    assert [name for name, row in found.items() if row["differs"]] == ["memory.stride", "seed"]


def test_an_option_that_a_run_lacks_differs_only_where_it_was_changed():
    """The full cache has no local window: that all others have the usual one tells nothing."""
    found = rows(spec(), spec(pooled()), spec(pooled()))
    assert found["memory.window"]["differs"]
    assert found["memory.stride"]["differs"]
    assert not found["memory.local"]["differs"]
    assert rows(spec(), spec(pooled(local=4)))["memory.local"]["differs"]


def test_a_missing_control_and_another_kinds_fields_are_no_difference():
    control = {"model": {"id": "m"}, "memory": {"kind": "full"}}
    decode = {"kind": "decode", "model": {"id": "m"}, "steps": 8, "methods": [{"kind": "full"}]}
    found = rows(spec(control=None), spec(pooled(), control=control), decode)
    assert not found["control"]["differs"]
    assert found["control"]["values"][1] == "full of m"
    assert not found["steps"]["differs"]
    assert found["kind"]["values"] == ["sweep", "sweep", "decode"]


def test_long_values_are_compared_whole_and_shown_in_short():
    first, second = "x" * 5000 + "1", "x" * 5000 + "2"
    found = rows(
        spec(task={"kind": "custom", "text": first}), spec(task={"kind": "custom", "text": second})
    )
    row = found["task.text"]
    assert row["differs"]
    assert all(len(value) <= compare_fields.SHOWN for value in row["values"])
    prompts = [{"text": "a"}, {"text": "b"}]
    assert rows(spec(task={"prompts": prompts}))["task.prompts"]["values"] == ["2 entries"]
    methods = [{"kind": "full"}, {"kind": "beacon"}, {"kind": "beacon"}]
    assert rows({"methods": methods})["methods"]["values"] == ["full, 2 beacon"]


def test_what_keeps_two_runs_from_being_paired_is_named():
    first, second = spec(seed=1), spec(task={"kind": "access_code", "digits": 4})
    found = unlike(first, second, ("task", "seed", "modulus"))
    assert found == ["task.digits", "seed"]
    called = {"task.digits": "Digits", "task.kind": "Task"}
    assert reason(first, second, found, called) == (
        "digits none, and 4 in the baseline; seed differs too"
    )
    names = ["task.digits", "seed", "modulus"]
    assert "; seed, modulus differ too" in reason(spec(seed=1, modulus=8), second, names, called)
    assert reason(spec(task={"kind": "a", "x": 1}), spec(), ["task.x", "task.kind"], called) == (
        "task a, and access code in the baseline"
    )


# ---- names


def test_names_are_the_memories_where_these_differ():
    specs = [spec(), spec(pooled()), spec(pooled(stride=6))]
    assert names(specs, ["Full cache", "W8 S8", "W8 S6"], list("abc")) == [
        "Full cache",
        "W8 S8",
        "W8 S6",
    ]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"seed": 1}, "W8 S8, seed 1"),
        ({"model": {"id": "other"}}, "W8 S8, other"),
        ({"measure": "joint"}, "W8 S8, joint"),
        ({"memory": pooled(keys="rotated")}, "W8 S8, keys rotated"),
        ({"budgets": [1, 2, 3]}, "W8 S8, 3 budgets"),
    ],
)
def test_names_tell_what_differs(change, name):
    found = names([spec(pooled()), spec(pooled()) | change], ["W8 S8"] * 2, ["a", "b"])
    assert found[1] == name
    assert found[0] != name


def test_names_of_equal_specs_end_in_their_keys():
    found = names([spec(), spec()], ["Full cache"] * 2, ["abcdef", "fedcba"])
    assert len(set(found)) == 2
    assert found[1] == "Full cache fedc"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["W8 S8", "W8 S6", "x" * 80]), st.integers(0, 2), st.text(max_size=60)
        ),
        min_size=1,
        max_size=8,
    )
)
def test_names_are_unique_and_short_whatever_the_specs(drawn):
    specs = [spec(pooled(), seed=seed, model={"id": model}) for _, seed, model in drawn]
    keys = [f"{i:012x}" for i in range(len(drawn))]
    found = names(specs, [start for start, _, _ in drawn], keys)
    assert len(set(found)) == len(found)
    assert all(0 < len(name) <= LONGEST for name in found)


def test_every_field_of_a_real_spec_has_a_label():
    from engine.comparing.lines import defaults, labels

    values = SweepSpec.from_dict({"memory": pooled()}).to_dict()
    found = {row["field"]: row["label"] for row in table([values], labels(), defaults())}
    assert found["memory.window"] == "Window W"
    assert found["model.id"] == "Model"
    assert all(text and "_" not in text for text in found.values())
    assert defaults()["memory.pooled.window"] == 4


# ---- texts


def apply(made: dict) -> list[str]:
    """b, built from a and the edits."""
    out = []
    for op in made["ops"]:
        (i, j), (k, m) = op["a"], op["b"]
        out += made["a"][i:j] if op["op"] == "equal" else made["b"][k:m]
    return out


@given(st.lists(st.sampled_from("abc"), max_size=30), st.lists(st.sampled_from("abc"), max_size=30))
def test_edits_turn_one_into_the_other_and_leave_nothing_out(a, b):
    made = compare_text.diff(a, b)
    assert apply(made) == b
    ends = (0, 0)
    for op in made["ops"]:
        assert (op["a"][0], op["b"][0]) == ends
        assert op["op"] in ("equal", "replace", "delete", "insert")
        ends = op["a"][1], op["b"][1]
    assert ends == (len(a), len(b))


def test_ids_decide_where_they_are_given():
    made = compare_text.diff(["x", "x"], ["x", "x"], by=([1, 2], [1, 3]))
    assert [op["op"] for op in made["ops"]] == ["equal", "replace"]


def test_texts_too_long_to_match_are_one_replacement_or_refused():
    a, b = ["a", *map(str, range(3000)), "z"], ["a", *map(str, range(5000, 8000)), "z"]
    made = compare_text.diff(a, b)
    assert [op["op"] for op in made["ops"]] == ["equal", "replace", "equal"]
    assert "too much to be matched" in made["reason"]
    assert compare_text.diff(["a"] * 20_001, b)["ops"] == []
    assert "at most 20,000" in compare_text.diff(["a"] * 20_001, b)["reason"]


@given(st.text())
def test_words_joined_are_the_text_again(text):
    assert "".join(compare_text.words(text)) == text


def test_words_keep_their_space_in_front_and_cut_chinese_by_character():
    assert compare_text.words("The code\nis 7 答案 ") == [
        "The",
        " code",
        "\nis",
        " 7",
        " 答",
        "案",
        " ",
    ]
