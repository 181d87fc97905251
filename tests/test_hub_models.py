"""Models of the hub: fetched from whatever endpoint is set, whole or not at all."""

from __future__ import annotations

import http.server
import json
import threading

import live
import pytest

from engine.models import loader
from engine.registry import SpecError
from engine.specs import ModelSpec


@pytest.fixture
def port():
    """A plain http server on a port of its own, that knows no page."""
    handler = type("Nothing", (http.server.SimpleHTTPRequestHandler,), {"do_HEAD": _nothing})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def _nothing(handler) -> None:
    handler.send_error(404)


def test_an_endpoint_is_reached_by_its_own_scheme_and_port(port):
    assert loader._reachable(f"http://127.0.0.1:{port}")
    assert loader._reachable(f"http://127.0.0.1:{port}/mirror")
    assert not loader._reachable("http://127.0.0.1:9")


def test_an_endpoint_is_reached_through_a_proxy(port, monkeypatch):
    from huggingface_hub.utils import close_session

    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
    close_session()  # the proxies are read once
    try:
        assert loader._reachable("http://hub.invalid")
    finally:
        monkeypatch.undo()
        close_session()
    assert not loader._reachable("http://hub.invalid")


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A snapshot in the cache with one of two parts, and a hub that `fetch` stands for."""
    (tmp_path / "model-1-of-2.safetensors").touch()
    parts = {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    monkeypatch.setattr(loader, "_reachable", lambda endpoint: True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)

    def fetched(rest: bool) -> list:
        asked = []

        def fetch(name, local_files_only=False, **options):
            asked.append(local_files_only)
            if not local_files_only and rest:
                (tmp_path / parts["b"]).touch()
            return str(tmp_path)

        monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
        return asked

    return fetched


def test_a_download_that_broke_off_goes_on(cached):
    asked, model = cached(rest=True), ModelSpec(id="org/name")
    loader.locate(model)
    assert asked == [True], "no weights are needed for a look at the tokens"
    loader.locate(model, weights=True)
    assert asked[1:] == [True, False]
    loader.locate(model, weights=True)
    assert asked[3:] == [True]


def test_parts_that_do_not_come_are_told(cached):
    cached(rest=False)
    with pytest.raises(SpecError, match="not all of its parts came"):
        loader.locate(ModelSpec(id="org/name"), weights=True)


@pytest.mark.parametrize("name", ["smollm2-135m", "w4s4", None])
def test_a_revision_off_the_hub_is_refused(name):
    model = ModelSpec(id=name or str(live.model_folder()), revision="foo")
    with pytest.raises(SpecError, match=r"^model.revision: .* leave revision empty$"):
        loader.facts(model)
