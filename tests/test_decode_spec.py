"""A decode spec: one dict form, one key, every bad field named; its arms and its plan."""

from __future__ import annotations

import dataclasses
import json

import decode_runs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import version
from engine.eviction.arms import arms
from engine.eviction.schedule import least, resident
from engine.eviction.spec import MOST_METHODS, SHARED, DecodeSpec, decode_schema, evicting, joined
from engine.kinds import evicts, kind_of, read_spec
from engine.registry import MEMORIES, Registry, SpecError


def refusals(values: dict) -> dict[str, str]:
    with pytest.raises(SpecError) as caught:
        DecodeSpec.from_dict(values)
    return dict(caught.value.errors)


# ---- the dict form and the key


shares = st.floats(0.001, 0.999, allow_nan=False)
budget_lists = st.one_of(
    st.tuples(
        st.just("tokens"),
        st.lists(st.integers(200, 100_000), min_size=1, max_size=8, unique=True),
    ),
    st.tuples(
        st.sampled_from(["kept", "removed"]),
        st.lists(shares, min_size=1, max_size=8, unique=True),
    ),
)


@given(
    budgets=budget_lists,
    methods=st.lists(
        st.sampled_from(sorted(evicting())), min_size=1, max_size=MOST_METHODS, unique=True
    ),
    fair=st.sampled_from(["time_average", "own"]),
    prefill=st.sampled_from(["whole", "streamed"]),
    mode=st.sampled_from(["forced", "free"]),
    steps=st.integers(1, 100_000),
    temperature=st.floats(0, 2),
    top_p=st.floats(0.01, 1),
    seed=st.integers(0, 2**31 - 1),
    named=st.booleans(),
)
def test_a_spec_comes_back_from_its_dict_form(budgets, methods, named, **settings):
    unit, values = budgets
    if settings["prefill"] == "streamed":  # what compresses a prompt once takes it whole
        methods = [name for name in methods if not evicting()[name]().once] or ["beacon"]
    full = [{"kind": "full"}] if named else []
    spec = DecodeSpec.from_dict(
        {
            "kind": "decode",
            "methods": [*({"kind": name} for name in methods), *full],
            "budgets": values,
            "unit": unit,
            **settings,
        }
    )
    told = spec.to_dict()
    again = DecodeSpec.from_dict(json.loads(json.dumps(told)))
    assert again == spec
    assert again.key == spec.key
    assert told["methods"][0] == {"kind": "full"}
    assert spec.arm_count == 1 + len(methods) * len(values)
    assert not any(name in method for method in told["methods"] for name in SHARED)


def test_the_full_cache_is_arm_zero_named_or_not():
    methods = decode_runs.METHODS
    first = decode_runs.make()
    for named in ([{"kind": "full"}, *methods], [*methods, {"kind": "no_press"}]):
        assert decode_runs.make(methods=named).key == first.key
    made = arms(first, 400)
    assert [arm.memory.kind for arm in made] == ["full", *["beacon"] * 2, *["streaming"] * 2]
    assert (made[0].budget, made[1].budget, made[2].budget) == (None, 64, 96)
    assert [arm.index for arm in made] == list(range(5))
    assert made[3].label == "streaming, sinks 2"


def test_every_field_is_part_of_the_key():
    changes = {
        "model": {"id": "smollm2-135m", "dtype": "float64"},
        "task": decode_runs.SPEC["task"] | {"length": 401},
        "methods": decode_runs.METHODS[:1],
        "budgets": [64, 97],
        "unit": "kept",
        "fair": "own",
        "prefill": "streamed",
        "evict": "prompt",
        "mode": "free",
        "steps": 7,
        "temperature": 0.5,
        "top_p": 0.9,
        "samples": 4,
        "seed": 1,
        "batch": 3,
    }
    assert set(changes) == set(decode_runs.make().to_dict()) - {"kind"}
    changes["unit"] = "kept"
    keys = [
        decode_runs.make(**({"budgets": [0.2]} if name == "unit" else {}) | {name: value}).key
        for name, value in changes.items()
    ]
    assert len({*keys, decode_runs.make().key}) == len(changes) + 1


@pytest.mark.parametrize("alias", sorted(a for a, n in MEMORIES.aliases.items() if n in evicting()))
def test_other_tools_names_are_taken(alias):
    name = MEMORIES.aliases[alias]
    named = decode_runs.make(methods=[{"kind": alias}], budgets=[300])
    assert named.methods[1].kind == name
    assert named.key == decode_runs.make(methods=[{"kind": name}], budgets=[300]).key


def test_whole_numbers_are_whole_in_any_spelling():
    assert decode_runs.make(budgets=[64.0, 96]).key == decode_runs.make().key


BAD = [
    ({"budgets": []}, "budgets", "1 to 8"),
    ({"budgets": list(range(100, 109))}, "budgets", "1 to 8"),
    ({"budgets": 128}, "budgets", "list"),
    ({"budgets": [128, "x"]}, "budgets[1]", "whole number"),
    ({"budgets": [128, 0.5]}, "budgets[1]", "unit kept"),
    ({"budgets": [128, True]}, "budgets[1]", "whole number"),
    ({"budgets": [0]}, "budgets[0]", "from 1"),
    ({"budgets": [128, 128.0]}, "budgets[1]", "twice"),
    ({"budgets": [[128]]}, "budgets[0]", "whole number"),
    ({"budgets": [10**400]}, "budgets[0]", "more than 80 digits"),
    ({"budgets": [float("nan")]}, "budgets[0]", "whole number"),
    ({"unit": "kept", "budgets": [0]}, "budgets[0]", "share above 0"),
    ({"unit": "kept", "budgets": [1.5]}, "budgets[0]", "at most 1"),
    ({"unit": "removed", "budgets": [1]}, "budgets[0]", "removes every entry"),
    ({"unit": "keep"}, "unit", "tokens, kept, removed"),
    ({"fair": "x"}, "fair", "time_average"),
    ({"mode": None}, "mode", "text"),
    ({"prefill": "none"}, "prefill", "whole"),
    ({"steps": 0}, "steps", "from 1 to 100000"),
    ({"steps": 100_001}, "steps", "from 1 to 100000"),
    ({"temperature": 2.1}, "temperature", "from 0 to 2"),
    ({"temperature": -1}, "temperature", "from 0 to 2"),
    ({"top_p": 0}, "top_p", "above 0"),
    ({"top_p": 1.1}, "top_p", "to 1"),
    ({"samples": 0}, "samples", "from 1"),
    ({"batch": 257}, "batch", "to 256"),
    ({"methods": []}, "methods", "known: beacon"),
    ({"methods": [{"kind": "knorm"}] * 17}, "methods", "1 to 16"),
    ({"methods": "beacon"}, "methods", "list of tables"),
    ({"methods": ["beacon"]}, "methods[0]", "table of options"),
    ({"methods": [{}]}, "methods[0].kind", "missing"),
    ({"methods": [{"kind": "beacn"}]}, "methods[0].kind", "did you mean 'beacon'?"),
    ({"methods": [{"kind": "pooled", "budget": 9}]}, "methods[0].budget", "unknown"),
    ({"methods": [{"kind": "trained"}]}, "methods[0].kind", "drops nothing"),
    ({"methods": [{"kind": "full", "x": 1}]}, "methods[0].x", "unknown option"),
    ({"methods": [{"kind": "beacon", "n_becon": 1}]}, "methods[0].n_becon", "'n_beacon'?"),
    ({"methods": [{"kind": "beacon", "prefix": -1}]}, "methods[0].prefix", "at least 0"),
    ({"methods": [{"kind": "beacon", "budget": 64}]}, "methods[0].budget", "budgets of the run"),
    ({"methods": [{"kind": "beacon", "when": "streamed"}]}, "methods[0].when", "prefill"),
    ({"methods": [{"kind": "beacon"}, {"kind": "beaconkv"}]}, "methods[1]", "twice"),
    ({"metods": []}, "metods", "did you mean 'methods'?"),
    ({"memory": {"kind": "beacon"}}, "memory", "unknown key"),
    ({"task": {"kind": "lookbak"}}, "task.kind", "did you mean 'lookback'?"),
    ({"task": {"length": 400}}, "task.kind", "missing"),
    ({"task": {"kind": "lookback", "length": 1}}, "task.length", "from 16"),
    ({"task": 3}, "task", "table"),
    ({"model": {"id": "w8s8-dense"}}, "model.id", "writes no text"),
    ({"model": {"id": ""}}, "model.id", "empty"),
    ({"model": {"device": "tpu"}}, "model.device", "cuda"),
    ({"model": 3}, "model", "table"),
    ({"fair": "own", "budgets": [20]}, "budgets[0]", "is the least"),
]


@pytest.mark.parametrize(
    ("change", "field", "told"), BAD, ids=[f"{i}-{b[1]}" for i, b in enumerate(BAD)]
)
def test_a_bad_field_is_named_in_a_sentence(change, field, told):
    errors = refusals(decode_runs.SPEC | change)
    assert told in errors[field], errors
    assert all(text and "\n" not in text for text in errors.values())


def test_all_bad_fields_are_told_at_once():
    bad = {"steps": 0, "methods": [{"kind": "x"}], "task": {"kind": "y"}, "what": 1}
    assert set(refusals(decode_runs.SPEC | bad)) == {
        "steps",
        "methods[0].kind",
        "task.kind",
        "what",
    }


@given(values=st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=5) | st.none()))
def test_any_table_is_a_spec_or_refused(values):
    with pytest.raises(SpecError):
        DecodeSpec.from_dict({**values, "kind": "decode", "methods": 0})


def test_a_given_continuation_is_as_long_as_it_is():
    task = decode_runs.SPEC["task"] | {"given": True, "continuation": 48, "questions": 1}
    assert decode_runs.make(task=task).steps == 48


def test_the_kind_decides_which_spec_it_is():
    assert kind_of(read_spec(decode_runs.SPEC)) == "decode"
    plain = read_spec({"memory": {"kind": "pooled"}})
    assert (kind_of(plain), evicts(plain)) == ("sweep", False)
    assert read_spec({"kind": "sweep", "memory": {"kind": "pooled"}}) == plain
    assert evicts(read_spec({"memory": {"kind": "beacon"}}))
    assert evicts(decode_runs.make())
    for bad in ("decod", 3, None):
        with pytest.raises(SpecError) as caught:
            read_spec({"kind": bad})
        assert caught.value.errors[0].field == "kind"
    with pytest.raises(SpecError):
        read_spec([])


# ---- the registry


@pytest.mark.parametrize(
    ("name", "own"),
    [
        *[("RKV", {"kind": "rkv"}), ("r-kv", {"kind": "rkv"}), ("FullKV", {"kind": "full"})],
        *[("full_kv", {"kind": "full"}), ("Streaming LLM", {"kind": "streaming"})],
        ("snapkv.original", {"kind": "snapkv", "preset": "original"}),
        ("SnapKV.KVPress", {"kind": "snapkv", "preset": "kvpress"}),
        ("snapkv.rkv_decode", {"kind": "snapkv", "preset": "decode"}),
        ("rpc.paper", {"kind": "rpc", "preset": "paper"}),
        ("streamingllm.paper", {"kind": "streaming", "positions": "cache"}),
    ],
)
def test_names_are_taken_as_papers_and_codes_write_them(name, own):
    assert MEMORIES.build({"kind": name}) == MEMORIES.build(own)
    assert MEMORIES[name] is MEMORIES.find(name) is MEMORIES[own["kind"]]
    assert decode_runs.make(methods=[{"kind": name}], budgets=[300]) == (
        decode_runs.make(methods=[own], budgets=[300])
    )


@pytest.mark.parametrize(
    ("given", "field", "says"),
    [
        ({"kind": "SNAPVK"}, "kind", "unknown memory 'SNAPVK'; did you mean 'snapkv'?"),
        ({"kind": "streaming.papr"}, "kind", "did you mean 'streaming.paper'?"),
        ({"kind": "full.paper"}, "kind", "full has no preset 'paper'; write full"),
        ({"kind": "SnapVK.original"}, "kind", "unknown memory 'SnapVK.original'; did you mean"),
        ({"kind": "snapkv.paper"}, "preset", "must be one of decode, original, kvpress, custom"),
        ({"kind": ""}, "kind", "unknown memory ''; known: beacon, "),
        ({"kind": 3}, "kind", "unknown memory 3; known: "),
        ({"kind": "rpc.paper", "preset": "paper"}, "preset", "is said by 'rpc.paper' already"),
    ],
)
def test_an_unknown_name_is_refused_with_what_is_close(given, field, says):
    with pytest.raises(SpecError) as caught:
        MEMORIES.build(given)
    (error,) = caught.value.errors
    assert error.field == f"memory.{field}"
    assert says in error.message


def test_a_registry_imports_what_fills_it_at_the_first_look(monkeypatch):
    import engine.registry

    asked = []
    made = Registry("thing", "one", "two")

    def load(package):
        asked.append(package)
        assert len(made) == len(asked) - 1  # what is being filled may be looked at
        made.register(package)(type(package, (), {}))

    monkeypatch.setattr(engine.registry.importlib, "import_module", load)
    assert asked == []
    with pytest.raises(SpecError, match="known: one, two"):
        made.find("nothing")
    assert (list(made), asked) == (["one", "two"], ["one", "two"])


def test_a_registry_that_could_not_be_filled_is_filled_later(monkeypatch):
    import engine.registry

    made, broken = Registry("thing", "one"), [True]

    def load(package):
        if broken.pop():
            raise ImportError("half written")
        made.register(package)(type(package, (), {}))

    monkeypatch.setattr(engine.registry.importlib, "import_module", load)
    with pytest.raises(ImportError):
        list(made)
    broken.append(False)
    assert list(made) == ["one"]


def test_the_form_offers_what_a_method_decides_itself():
    schema = decode_schema()
    assert set(schema["methods"]) == {*evicting(), "pooled"}
    for name, about in schema["methods"].items():
        held = {"budget"} if name == "pooled" else set(SHARED)  # its own options decide the rest
        assert not {f["name"] for f in about["fields"]} & held
        assert about["help"]
    assert "lookback" in schema["prompts"]
    assert {f["name"] for f in schema["settings"]} >= {"budgets", "unit", "fair", "steps"}


# ---- arms


@pytest.mark.parametrize("name", sorted(evicting()))
def test_time_average_budgets_hold_what_was_asked_on_average(name):
    """Or are refused with a least that then works."""
    spec = decode_runs.make(methods=[{"kind": name}], budgets=[128], steps=256)
    try:
        own = arms(spec, 400)[1]
    except SpecError as error:
        told = error.errors[0].message
        assert "the least that works" in told
        enough = int(told.split("; ")[1].split()[0])
        own = arms(dataclasses.replace(spec, budgets=(enough,)), 400)[1]
    held = resident(own.memory, 400, 256).mean
    step = resident(dataclasses.replace(own.memory, budget=own.memory.budget + 1), 400, 256).mean
    assert abs(held - own.budget) <= max(abs(step - held), 0.02 * own.budget + 1)
    assert not own.memory.check()


def test_a_budget_means_the_same_in_all_units():
    tokens = arms(decode_runs.make(budgets=[100], steps=100), 300)
    kept = arms(decode_runs.make(unit="kept", budgets=[0.25], steps=100), 300)
    removed = arms(decode_runs.make(unit="removed", budgets=[0.75], steps=100), 300)
    assert tokens == kept == removed
    assert tokens[1].budget == 100


def test_own_budgets_are_the_methods_own():
    made = arms(decode_runs.make(fair="own"), 400)
    assert [arm.memory.budget for arm in made[1:]] == [64, 96, 64, 96]


def test_what_no_budget_can_hold_is_refused_with_the_least_that_works():
    spec = decode_runs.make(budgets=[20, 200], steps=64)
    with pytest.raises(SpecError) as caught:
        arms(spec, 400)
    (error,) = caught.value.errors
    assert error.field == "budgets[0]"
    enough = int(error.message.split("; ")[1].split()[0])
    assert arms(dataclasses.replace(spec, budgets=(enough,)), 400)
    assert least(spec.methods[1]) > 20


# ---- code versions


def test_eviction_code_makes_only_runs_that_evict_stale(monkeypatch):
    plain = version._hash(
        version.NUMERIC, [f"{n} {version.metadata.version(n)}" for n in version.LIBRARIES]
    )
    assert version.code_version() == plain
    assert version.code_version(True) != plain
    for part in version.EVICTION:
        assert (version.ENGINE / part).exists()
    for code in (version.code_version(), version.code_version(True)):
        assert not version.is_stale(code, "nowhere")
    assert version.is_stale("0" * 12, "nowhere")


def test_words_are_joined_as_in_a_sentence():
    assert [joined(w) for w in (["a"], ["a", "b"], ["a", "b", "c"])] == [
        "a",
        "a and b",
        "a, b and c",
    ]
