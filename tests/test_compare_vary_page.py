"""Compare's form of one field's values, over a real service: nothing that it offers is refused."""

from __future__ import annotations

import comparing
import decode_runs
import pytest
import streamlit as st
from comparing import curve, spec, store_run
from inprocess import html, opened

from app import services
from app.compare.address import Asked
from app.compare.subject import Subject
from app.compare.vary import fields, first, grid, own, reason
from engine.version import run_version

SPECS = {
    "pooled": spec(4, 4),
    "wide": spec(memory={"kind": "pooled", "window": 8, "stride": 8, "gate": "onehot"}, modulus=16),
    "hand": spec(memory={"kind": "pooled", "gate": "hand", "weights": [0.7, 0.1, 0.1, 0.1]}),
    "evicting": spec(memory={"kind": "h2o", "budget": 48}),
    "full": spec(memory={"kind": "full"}),
    "decode": decode_runs.make(),
    "small": decode_runs.make(methods=[{"kind": "streaming"}], budgets=[8]),
    "shares": decode_runs.make(unit="kept", budgets=[0.5]),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory, smol):
    found = comparing.Here(tmp_path_factory.mktemp("vary-page-home"))
    store_run(found.store, SPECS["pooled"], curve(4, 0.2))
    store_run(found.store, SPECS["full"], curve(4, 0.0))
    made = SPECS["decode"]  # its spec is enough for the form
    found.store.remember(made)
    run = found.store.open_run(made.key, run_version(made.model), asked=True, kind="decode")
    found.store.change(run.id, status="cancelled")
    yield found
    found.close()


@pytest.fixture
def pages(here, monkeypatch):
    st.cache_data.clear()
    st.cache_resource.clear()
    monkeypatch.setattr(services, "connect", lambda: here.client)
    yield here
    st.cache_data.clear()
    st.cache_resource.clear()


@pytest.mark.parametrize("name", list(SPECS))
def test_no_value_that_a_field_begins_with_is_refused(pages, name):
    made = SPECS[name].to_dict()
    offered = fields(made)
    assert ("memory.kind" in offered or "method" in offered) == (name in ALSO_METHODS)
    for field, (_, known) in offered.items():
        values = first(made, field, known)
        assert values
        _, answer = grid(made, field, values)
        assert [row["errors"] for row in answer["specs"]] == [[]] * len(values), field
        if field in ("memory.kind", "method", "budget", "memory.budget") and name != "shares":
            assert len(values) > 1


ALSO_METHODS = ("evicting", "decode", "small", "shares")


@pytest.mark.parametrize(("name", "field"), [("decode", "method"), ("pooled", "memory.gate")])
def test_the_form_offers_them(pages, name, field):
    key = SPECS[name].key
    at = opened("compare", runs=",".join(SPECS[kept].key for kept in ("pooled", "decode")))
    at.session_state["c:open-tune"] = True
    at.run()
    at.selectbox(key="c:vary-run").set_value(key).run()
    at.selectbox(key="c:vary-field").set_value(field).run()
    assert not at.exception
    given = at.text_input(key=f"c:vary-values-{key}-{field}").value
    (frame,) = [f.value for f in at.dataframe if "Makes" in f.value]
    assert len(frame) == len(given.split(",")) > 1
    assert "refused" not in set(frame["Status"])


def test_a_refusal_names_its_field_below_the_table(pages):
    key = SPECS["pooled"].key
    at = opened("compare", runs=",".join(SPECS[kept].key for kept in ("pooled", "decode")))
    at.session_state["c:open-tune"] = True
    at.run()
    at.selectbox(key="c:vary-run").set_value(key).run()
    at.selectbox(key="c:vary-field").set_value("memory.stride").run()
    at.text_input(key=f"c:vary-values-{key}-memory.stride").set_value("4, x").run()
    (frame,) = [f.value for f in at.dataframe if "Makes" in f.value]
    assert list(frame.columns) == ["Stride S", "Makes", "Status"]
    assert list(frame["Makes"])[1] == "–"
    assert reason(("memory.stride", "exceeds"), "memory.window") == "Stride S exceeds"
    assert reason(("memory.stride", "stride must be"), "memory.window") == "stride must be"
    assert "Stride S x: stride must be a whole number" in html(at)


def test_a_run_that_stands_alone_is_varied_too(pages):
    """What the popover offers on a page that has nothing to compare yet."""
    key = SPECS["full"].key
    at = opened("compare", runs=key)
    assert "alone has no control" in html(at)
    alone = Subject(Asked((key,), ""), None, ())
    assert list(own(alone)) == [key]
    assert "seed" in fields(services.spec(key))
    assert own(Subject(Asked(("0" * 12,), ""), None, ())) == {}
