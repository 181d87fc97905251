"""Pages through AppTest against a real store and service in this process, without a socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import streamlit as st
from starlette.testclient import TestClient
from streamlit.testing.v1 import AppTest
from test_views import TOKEN

from app import services
from engine.client import Client
from engine.owner import Engine
from engine.service import make_app

MAIN = str(Path(__file__).parent.parent / "app" / "main.py")


class InProcess(Client):
    def __init__(self, engine: Engine):
        self.url = "http://127.0.0.1:8787"
        self._http = TestClient(make_app(engine, TOKEN), base_url="http://127.0.0.1")
        self._http.headers["authorization"] = f"Bearer {TOKEN}"


@contextmanager
def owner(home: Path) -> Iterator[Engine]:
    made = Engine(home, stays=False)
    made.ready.set()
    yield made
    made.store.close()


@contextmanager
def connected(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcess]:
    """Pages that are opened in the with ask this service, with nothing kept of another's."""
    st.cache_data.clear()
    st.cache_resource.clear()
    made = InProcess(engine)
    monkeypatch.setattr(services, "connect", lambda: made)
    yield made
    st.cache_data.clear()
    st.cache_resource.clear()


def opened(page: str, **address: str) -> AppTest:
    at = AppTest.from_file(MAIN, default_timeout=90).run()
    for name, value in address.items():
        at.query_params[name] = value
    at.switch_page(f"app_pages/{page}.py").run()
    assert not at.exception
    return at


def html(at: AppTest) -> str:
    bodies = [e.proto.body for e in at.get("html")]
    return "\n".join(b for b in bodies if not b.startswith("<style>"))
