"""The Eviction page for tests: opened with a fake client, and what stands on it."""

from __future__ import annotations

import re
from pathlib import Path

import streamlit as st
from fake_eviction import FakeEviction
from streamlit.testing.v1 import AppTest

from app import services

MAIN = str(Path(__file__).parent.parent / "app" / "main.py")


def use(monkeypatch, fake: FakeEviction) -> FakeEviction:
    st.cache_data.clear()
    st.cache_resource.clear()
    monkeypatch.setattr(services, "connect", lambda: fake)
    return fake


def page(**address: str) -> AppTest:
    at = AppTest.from_file(MAIN, default_timeout=120).run()
    for key, value in address.items():
        at.query_params[key] = value
    at.switch_page("app_pages/eviction.py").run()
    assert not at.exception
    return at


def html(at: AppTest) -> str:
    bodies = [e.proto.body for e in at.get("html")]
    told = "\n".join(b for b in bodies if not b.startswith("<style>"))
    assert "could not be drawn" not in told
    return told


def spec_of(at: AppTest, client: FakeEviction) -> dict:
    """The spec that the address names."""
    key = at.query_params["key"]
    return client.specs[key if isinstance(key, str) else key[0]]


def specs(at: AppTest) -> str:
    return "\n".join(c.proto.spec for c in at.get("plotly_chart"))


def text_of(at: AppTest, kind: str) -> set[int]:
    """Positions of the tokens of one fate in the text strip."""
    strip = next(b for b in html(at).split('<div class="ps-read"')[1:])
    found = re.findall(rf'class="ps-t ps-{kind}" dir="ltr" data-position="(\d+)"', strip)
    return {int(p) for p in found}


def listed(at: AppTest, name: str) -> list[int]:
    """Positions in the list of kept or evicted tokens: the two lists stand in that order."""
    lists = html(at).split("ps-read ps-list")[1:]
    part = lists[0 if name == "evicted" else 1].split("</div>")[0]
    return [int(p) for p in re.findall(r'data-position="(\d+)"', part)]


def trace_of(client: FakeEviction, **place: int) -> dict:
    asked = {"arm": 1, "sample": 0, "layer": 3, "kv_head": 0} | place
    return client.trace(client.stored, **asked)
