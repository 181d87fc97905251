"""Sharing a service: who may reach it, what a reader may not do, what a demo takes."""

from __future__ import annotations

from pathlib import Path

import decode_runs
import made_rows
import pytest
import streamlit as st
import test_decode_plan
import test_plan
import tiny
from fake_client import FakeClient
from starlette.testclient import TestClient
from streamlit.testing.v1 import AppTest
from test_views import TOKEN, add_run, saved, told
from typer.testing import CliRunner

from app import services
from engine import access, cli, owner
from engine.access import Access, check_host, chosen_token, login_files
from engine.commands import processes
from engine.decode import plan as decode_plan
from engine.owner import Engine
from engine.plan import plan
from engine.registry import SpecError
from engine.service import make_app

MAIN = str(Path(__file__).parent.parent / "app" / "main.py")
LOGIN = """[auth]
redirect_uri = "http://h/oauth2callback"
cookie_secret = "c"
client_id = "i"
client_secret = "s"
server_metadata_url = "https://issuer/.well-known/openid-configuration"
"""


def shared(tmp_path, **how) -> tuple[Engine, TestClient]:
    engine = Engine(tmp_path, stays=False, access=Access(**how))
    engine.ready.set()
    client = TestClient(make_app(engine, TOKEN), base_url="http://127.0.0.1")
    client.headers["authorization"] = f"Bearer {TOKEN}"
    return engine, client


# ---- addresses and tokens


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.0.0.9"])
def test_one_s_own_machine_needs_nothing(host, monkeypatch):
    monkeypatch.setattr(access, "login_files", lambda: [])
    check_host(host, None)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.org", ""])
def test_an_address_that_others_reach_needs_a_token_or_a_login(host, monkeypatch):
    monkeypatch.setattr(access, "login_files", lambda: [])
    with pytest.raises(SpecError, match="PHASESCOPE_TOKEN"):
        check_host(host, None)
    check_host(host, "a" * 20)
    monkeypatch.setattr(access, "login_files", lambda: [Path("secrets.toml")])
    check_host(host, None)


@pytest.mark.parametrize("given", ["short", "with a space in the middle", "ключ" * 6])
def test_a_weak_token_is_refused(given, monkeypatch, tmp_path):
    monkeypatch.setenv(access.TOKEN, given)
    with pytest.raises(SpecError, match="at least 16"):
        chosen_token()
    (tmp_path / "token").write_text(given)
    with pytest.raises(SpecError, match="at least 16"):
        chosen_token(tmp_path / "token")


def test_a_token_comes_from_the_file_or_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv(access.TOKEN, "e" * 20)
    assert chosen_token() == "e" * 20
    (tmp_path / "token").write_text("f" * 20 + "\n")
    assert chosen_token(tmp_path / "token") == "f" * 20
    with pytest.raises(SpecError, match="cannot be read"):
        chosen_token(tmp_path / "none")
    monkeypatch.delenv(access.TOKEN)
    assert chosen_token() is None


def test_a_login_counts_when_it_is_whole(tmp_path):
    file = tmp_path / "secrets.toml"
    assert login_files((tmp_path,)) == []
    for text in ("not toml [", "[auth]\ncookie_secret = 'c'", "auth = 3"):
        file.write_text(text)
        assert login_files((tmp_path,)) == []
    file.write_text(LOGIN)
    assert login_files((tmp_path,)) == [file]
    head, _, rest = LOGIN.partition("client_id")
    file.write_text(f"{head}[auth.okta]\nclient_id{rest}")
    assert login_files((tmp_path,)) == [file]


@pytest.mark.parametrize("command", ["serve", "dash"])
def test_the_command_line_refuses_an_open_address(command, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PHASESCOPE_HOME", str(tmp_path))
    monkeypatch.delenv(access.TOKEN, raising=False)
    monkeypatch.setattr(access, "login_files", lambda: [])
    result = CliRunner().invoke(cli.app, [command, "--host", "0.0.0.0"])
    assert isinstance(result.exception, SpecError)
    assert cli.tell(result.exception) == cli.BAD_INPUT
    assert "PHASESCOPE_TOKEN" in capsys.readouterr().err


def test_every_address_of_one_s_own_machine_is_answered(tmp_path):
    engine, client = shared(tmp_path, host="127.0.0.9")
    assert client.get("/health", headers={"host": "127.0.0.9:8787"}).status_code == 200
    assert client.get("/health", headers={"host": "128.0.0.9:8787"}).status_code == 403
    engine.store.close()


def test_a_foreign_host_name_is_answered_only_where_the_service_is_shared(tmp_path):
    engine, client = shared(tmp_path)
    assert client.get("/health", headers={"host": "evil.example"}).status_code == 403
    engine.store.close()
    engine, client = shared(tmp_path, host="0.0.0.0")
    assert client.get("/health", headers={"host": "box.example"}).status_code == 200
    wrong = client.get("/health", headers={"host": "box.example", "authorization": "Bearer no"})
    assert wrong.status_code == 401
    engine.store.close()


# ---- reading alone


def test_a_reader_opens_everything_and_changes_nothing(tmp_path):
    engine, client = shared(tmp_path)
    key = add_run(engine)
    id = saved(client, state={"key": key})["id"]
    engine.store.close()
    engine, client = shared(tmp_path, read_only=True)
    assert client.get("/health").json()["read_only"] is True
    assert client.get(f"/views/{id}").json()["state"] == {"key": key}
    assert client.get(f"/runs/{key}").status_code == 200
    assert client.get("/library").status_code == 200
    spec = engine.store.spec(key)
    tries = [
        client.post("/runs", json=spec),
        client.delete(f"/runs/{key}"),
        client.post("/import", content=b"x"),
        client.post("/views", json={"page": "explore", "state": {}, "name": "n"}),
        client.patch(f"/views/{id}", json={"version": 1, "name": "n"}),
        client.patch(f"/runs/{key}/note", json={"version": 0, "note": "n"}),
        client.put("/retention", json={"days": 1, "was": None, "now": True}),
        client.post(f"/runs/{key}/cancel"),
        client.post("/training/w8s8/stop"),
    ]
    for answer in tries:
        assert "shared for reading" in told(answer, 403)
    vary = client.post(
        "/vary", json={"spec": spec, "field": "memory.stride", "values": [2], "submit": True}
    )
    assert "jobs" not in vary.json() or vary.json()["jobs"] == []
    assert engine.store.jobs() == []
    assert client.get(f"/views/{id}").json()["name"] == "One"
    engine.store.close()


def test_a_reader_s_edit_has_a_link_that_opens_and_writes_nothing(tmp_path, monkeypatch):
    engine, client = shared(tmp_path, read_only=True)
    monkeypatch.setattr(engine, "plan", lambda spec: {"key": spec.key})
    monkeypatch.setattr(owner, "SPECS_KEPT", 3)
    keys = []
    for seed in range(5):
        asked = made_rows.SPEC | {"seed": seed}
        keys.append(client.post("/preview", json=asked).json()["key"])
        assert client.get(f"/specs/{keys[-1]}").json()["seed"] == seed
    assert [client.get(f"/specs/{key}").status_code for key in keys] == [404, 404, 200, 200, 200]
    monkeypatch.setattr(owner, "CHARACTERS_KEPT", 100)
    client.post("/preview", json=asked)
    assert not engine._specs
    assert engine.store.specs() == {}
    engine.store.close()


def test_every_endpoint_that_changes_something_is_closed_to_readers(tmp_path):
    """By the list of endpoints itself, so that a new one is closed until somebody opens it."""
    engine, client = shared(tmp_path, read_only=True)
    routes = client.get("/openapi.json").json()["paths"]
    open_ones = set()
    for path, methods in routes.items():
        for method in set(methods) - {"get", "head"}:
            plain = path.replace("{key}", "ab").replace("{id}", "ab").replace("{name}", "ab")
            if not engine.access.refusal(method.upper(), plain):
                open_ones.add(f"{method} {path}")
    assert open_ones == {
        "post /preview",
        "post /lengths",
        "post /bundle",
        "post /vary",
        "post /runs/{key}/attention",
        "post /runs/{key}/trace",
    }
    engine.store.close()


# ---- a demo


def test_a_demo_takes_small_runs_alone(tokenizer):
    """Of plans as a service makes them."""
    small, spec = Access(demo=True), test_plan.spec_of(samples=4, modulus=8)
    made = plan(spec, tokenizer, test_plan.FACTS)
    small.check(spec, made)
    with pytest.raises(SpecError, match="at most 8 prompts"):
        small.check(test_plan.spec_of(samples=9), made)
    many = test_plan.spec_of(samples=8, modulus=64)
    with pytest.raises(SpecError, match="a demo takes at most 256 copies"):
        small.check(many, plan(many, tokenizer, test_plan.FACTS))
    task = test_plan.CODE | {"before": 40, "after": 40}
    long = test_plan.spec_of(samples=8, modulus=8, task=task)
    with pytest.raises(SpecError, match="60,000 tokens; this run has 64 and "):
        small.check(long, plan(long, tokenizer, test_plan.FACTS))
    assert small.refusal("DELETE", "/runs/ab")
    assert small.refusal("POST", "/import")
    assert not small.refusal("POST", "/runs")
    Access().check(many, {})


def test_a_demo_counts_the_tokens_of_a_decode_run_too():
    small, spec = Access(demo=True), decode_runs.make()
    made = decode_plan.plan(spec, tiny.make_tokenizer(), test_decode_plan.FACTS)
    small.check(spec, made)
    long = decode_runs.make(steps=1500, samples=8)
    with pytest.raises(SpecError, match="fewer prompts or a shorter text fit"):
        small.check(long, decode_plan.plan(long, tiny.make_tokenizer(), test_decode_plan.FACTS))


def test_what_a_demo_keeps_is_not_for_strangers_to_change(tmp_path):
    engine, client = shared(tmp_path, demo=True)
    id = saved(client)["id"]
    for change in ({"deleted": True}, {"locked": True}, {"name": "mine"}):
        answer = client.patch(f"/views/{id}", json={"version": 1} | change)
        assert "nothing is edited, deleted" in told(answer, 403)
    assert client.get(f"/views/{id}").json()["version"] == 1
    assert "nothing is edited" in told(client.post(f"/runs/{add_run(engine)}/cancel"), 403)
    engine.store.close()


@pytest.mark.parametrize(
    ("asks", "login", "hosts"),
    [
        ("", [], ["127.0.0.1", "localhost", "::1", "127.0.0.2"]),
        ("a-token-of-sixteen", [], ["*"]),
        ("", ["secrets.toml"], ["*"]),
    ],
)
def test_a_page_that_asks_nobody_who_he_is_answers_to_local_names(monkeypatch, asks, login, hosts):
    """Else a site whose name is pointed at this machine would drive the page."""
    seen = []
    monkeypatch.setattr(processes, "_child", lambda command, more=None: seen.append(command))
    monkeypatch.setattr("engine.access.login_files", lambda: login)
    processes._dashboard(8501, "127.0.0.2", asks)
    (command,) = seen
    places = [i for i, word in enumerate(command) if word == "--server.allowedHosts"]
    assert [command[i + 1] for i in places] == hosts


def test_an_address_has_brackets_around_ipv6():
    assert [processes.in_address(h) for h in ("::1", "127.0.0.1")] == ["[::1]", "127.0.0.1"]


def test_a_demo_queues_of_many_what_it_takes_and_says_why_not_the_others(tmp_path, monkeypatch):
    engine, client = shared(tmp_path, demo=True)
    small = {"copies": 24, "tokens": 900, "estimate": {}}
    monkeypatch.setattr(engine, "plan", lambda spec: small)
    asked = {"spec": made_rows.SPEC, "field": "samples", "values": [3, 9, 4], "submit": True}
    answer = client.post("/vary", json=asked)
    assert answer.status_code == 200, answer.text
    errors = [line["errors"] for line in answer.json()["specs"]]
    assert [bool(found) for found in errors] == [False, True, False]
    assert "at most 8 prompts" in errors[1][0]["message"]
    assert len(answer.json()["jobs"]) == len(engine.store.jobs()) == 2
    engine.store.close()


# ---- the page


@pytest.fixture
def page(monkeypatch):
    st.cache_data.clear()
    st.cache_resource.clear()
    monkeypatch.setattr(services, "connect", FakeClient)
    yield lambda: AppTest.from_file(MAIN, default_timeout=60)
    st.cache_data.clear()
    st.cache_resource.clear()


def html(at: AppTest) -> str:
    return "\n".join(e.proto.body for e in at.get("html"))


def test_a_page_that_others_reach_asks_for_the_token(page, monkeypatch):
    monkeypatch.setenv("PHASESCOPE_PAGE_TOKEN", "s" * 20)
    at = page().run()
    assert "shared with a token" in html(at)
    assert "remembers some positions" not in html(at)
    at.text_input(key="entry").input("wrong").run()
    assert "That is not the token" in html(at)
    at.text_input(key="entry").input("s" * 20).run()
    assert "remembers some positions" in html(at)


def test_a_link_may_hold_the_token(page, monkeypatch):
    monkeypatch.setenv("PHASESCOPE_PAGE_TOKEN", "s" * 20)
    at = page()
    at.query_params["token"] = "s" * 20
    at.run()
    assert "remembers some positions" in html(at)
    assert "token" not in at.query_params


def test_a_wrong_token_in_the_link_leaves_room_for_the_right_one(page, monkeypatch):
    monkeypatch.setenv("PHASESCOPE_PAGE_TOKEN", "s" * 20)
    at = page()
    at.query_params["token"] = "of last week"
    at.run()
    assert "That is not the token" in html(at)
    at.text_input(key="entry").input("s" * 20).run()
    assert "remembers some positions" in html(at)
    assert "token" not in at.query_params
    at.query_params["token"] = "s" * 20  # the browser's way back
    at.run()
    assert "token" not in at.query_params


def test_a_login_is_asked_for_beside_the_token(page, monkeypatch):
    monkeypatch.setenv("PHASESCOPE_PAGE_TOKEN", "s" * 20)
    at = page()
    at.secrets["auth"] = {"redirect_uri": "u", "okta": {"client_id": "i"}, "client_kwargs": {}}
    monkeypatch.setattr(st, "user", type("User", (), {"is_logged_in": False})())
    at.query_params["token"] = "s" * 20
    at.run()
    assert "Log in to look" in html(at)
    assert "remembers some positions" not in html(at)
    assert [button.label for button in at.button] == ["Log in with okta"]


def test_a_reader_s_page_offers_no_save(page, monkeypatch):
    monkeypatch.setattr(FakeClient, "health", lambda self: {"read_only": True})
    at = page().run()
    at.switch_page("app_pages/explore.py").run()
    assert not any(button.key == "view-save" for button in at.button)
    assert at.button(key="run").disabled
