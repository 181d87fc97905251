"""Saved views, notes on runs and the library, over HTTP against a real store."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from urllib.parse import quote

import made_rows
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from engine import library, views
from engine.kinds import read_spec
from engine.owner import Engine
from engine.service import make_app
from engine.store.schema import utc_now
from engine.views import NAME, check_words, keys_in, link

TOKEN = "t" * 32
PAIRS = [(sample, shift) for sample in range(3) for shift in range(8)]


def add_run(engine: Engine, age_days: int = 0, **changes) -> str:
    """A finished run of made rows; its key."""
    spec = read_spec(made_rows.SPEC | changes)
    store = engine.store
    store.remember(spec)
    run = store.open_run(spec.key, "0" * 12, asked=True, title="made")
    store.add(run.id, made_rows.answers(PAIRS), made_rows.tokens(PAIRS))
    tokens = store.counts(run.id).tokens
    when = utc_now() - timedelta(days=age_days)
    counts = {"answers_expected": len(PAIRS), "tokens_expected": tokens, "copies": len(PAIRS)}
    store.change(run.id, status="done", created=when, finished=when, **counts)
    store.verify(run.id)
    return spec.key


@pytest.fixture
def engine(tmp_path):
    made = Engine(tmp_path, stays=False)
    made.ready.set()
    yield made
    made.store.close()


@pytest.fixture
def http(engine):
    # No start: neither a worker nor presets are wanted here.
    client = TestClient(make_app(engine, TOKEN), base_url="http://127.0.0.1")
    client.headers["authorization"] = f"Bearer {TOKEN}"
    return client


def saved(http, **changes) -> dict:
    values = {"page": "explore", "state": {"key": "ab" * 8, "tab": "Layers"}, "name": "One"}
    answer = http.post("/views", json=values | changes)
    assert answer.status_code == 200, answer.text
    return answer.json()


def told(answer, status: int) -> str:
    assert answer.status_code == status, answer.text
    return "; ".join(f"{e['field']}: {e['message']}" for e in answer.json()["errors"])


# ---- links


def test_the_same_state_has_the_same_link_whatever_its_name(http):
    first, second = saved(http), saved(http, name="Two")
    assert first["added"]
    assert not second["added"]
    assert first["id"] == second["id"]
    assert second["view"]["name"] == "One"
    assert len(first["id"]) == 10


def test_another_state_has_another_link(http):
    assert saved(http)["id"] != saved(http, state={"key": "ab" * 8, "tab": "Attention"})["id"]


def test_two_states_whose_short_links_are_the_same_get_two_links(http, monkeypatch):
    monkeypatch.setattr(views, "LINK", 1)
    made = [saved(http, state={"x": str(i)}) for i in range(40)]
    assert len({one["id"] for one in made}) == 40
    for i, one in enumerate(made):
        assert http.get(f"/views/{one['id']}").json()["state"] == {"x": str(i)}
    assert not saved(http, state={"x": "39"})["added"]


def test_what_is_of_an_address_alone_is_not_saved(http):
    state = {"q": "a", "view": "0123456789", "token": "secret", "Embed": "true"}
    assert saved(http, state=state)["view"]["state"] == {"q": "a"}


def test_a_link_opens_what_was_saved_after_its_name_changed_and_after_a_restart(tmp_path):
    engine = Engine(tmp_path, stays=False)
    engine.ready.set()
    client = TestClient(make_app(engine, TOKEN), base_url="http://127.0.0.1")
    client.headers["authorization"] = f"Bearer {TOKEN}"
    made = saved(client, state={"key": add_run(engine), "x": "residue"})
    client.patch(f"/views/{made['id']}", json={"version": 1, "name": "New name"})
    engine.store.close()
    again = Engine(tmp_path, stays=False)
    again.ready.set()
    client = TestClient(make_app(again, TOKEN), base_url="http://127.0.0.1")
    client.headers["authorization"] = f"Bearer {TOKEN}"
    view = client.get(f"/views/{made['id']}").json()
    assert view["state"] == made["view"]["state"]
    assert view["name"] == "New name"
    assert [run["title"] for run in view["runs"]] == ["made"]
    again.store.close()


def test_a_view_says_when_its_run_was_made_anew_by_other_code_or_is_gone(http, engine):
    key = add_run(engine)
    id = saved(http, state={"key": key})["id"]
    assert http.get(f"/views/{id}").json()["runs"][0]["changed"] is False
    newer = engine.store.open_run(key, "1" * 12, asked=True)
    engine.store.change(newer.id, status="done")
    assert http.get(f"/views/{id}").json()["runs"][0]["changed"] is True
    assert http.get(f"/runs/{key}/losses").json()["views"] == [{"id": id, "name": "One"}]
    assert http.delete(f"/runs/{key}").status_code == 200
    assert http.get(f"/views/{id}").json()["runs"][0]["status"] == "missing"


def test_a_fork_is_a_view_of_its_own(http):
    first = saved(http)
    fork = saved(http, parent=first["id"], name="Mine")
    assert fork["id"] != first["id"]
    assert fork["view"]["parent"] == first["id"]
    assert saved(http, parent=first["id"], name="Hers")["id"] != fork["id"]
    http.patch(f"/views/{fork['id']}", json={"version": 1, "name": "Mine, changed"})
    assert http.get(f"/views/{first['id']}").json()["name"] == "One"


# ---- edits


def test_two_writers_never_overwrite_each_other(http):
    id = saved(http)["id"]
    assert http.patch(f"/views/{id}", json={"version": 1, "note": "first"}).status_code == 200
    words = told(http.patch(f"/views/{id}", json={"version": 1, "note": "second"}), 409)
    assert "changed elsewhere" in words
    assert http.get(f"/views/{id}").json()["note"] == "first"


def test_a_locked_view_is_only_unlocked(http):
    id = saved(http)["id"]
    assert http.patch(f"/views/{id}", json={"version": 1, "locked": True}).json()["locked"]
    around = [{"locked": False} | more for more in ({"name": "x"}, {"deleted": True})]
    for change in ({}, {"name": "x"}, {"deleted": True}, {"locked": True}, *around):
        assert "is locked" in told(http.patch(f"/views/{id}", json={"version": 2} | change), 422)
    assert http.get(f"/views/{id}").json()["version"] == 2
    assert http.patch(f"/views/{id}", json={"version": 2, "locked": False}).status_code == 200
    assert http.patch(f"/views/{id}", json={"version": 3, "name": "x"}).json()["name"] == "x"


def test_a_deleted_view_is_only_brought_back(http):
    id = saved(http)["id"]
    http.patch(f"/views/{id}", json={"version": 1, "deleted": True})
    around = [{"deleted": False} | more for more in ({"name": "x"}, {"locked": True})]
    for change in ({"name": "x"}, {"locked": True}, {"deleted": True}, *around):
        assert "was deleted" in told(http.patch(f"/views/{id}", json={"version": 2} | change), 422)
    view = http.patch(f"/views/{id}", json={"version": 2, "deleted": False}).json()
    assert (view["name"], view["version"], view["deleted"]) == ("One", 3, None)


def test_a_deleted_view_says_so_and_comes_back(http):
    id = saved(http)["id"]
    assert http.patch(f"/views/{id}", json={"version": 1, "deleted": True}).status_code == 200
    assert "was deleted" in told(http.get(f"/views/{id}"), 404)
    assert http.get("/views").json() == []
    assert http.patch(f"/views/{id}", json={"version": 2, "deleted": False}).status_code == 200
    assert [view["id"] for view in http.get("/views").json()] == [id]


def test_a_deleted_view_saved_again_comes_back_as_given(http):
    id = saved(http)["id"]
    http.patch(f"/views/{id}", json={"version": 1, "deleted": True})
    again = saved(http, name="Again")
    assert (again["id"], again["added"], again["view"]["name"]) == (id, True, "Again")


def test_who_read_a_deleted_view_does_not_overwrite_the_one_in_its_place(http):
    id = saved(http)["id"]
    http.patch(f"/views/{id}", json={"version": 1, "deleted": True})
    again = saved(http, name="Again")["view"]["version"]
    for version in (1, 2):
        told(http.patch(f"/views/{id}", json={"version": version, "name": "Mine"}), 409)
    assert http.patch(f"/views/{id}", json={"version": again, "note": "n"}).status_code == 200


def test_tags_are_what_pages_show_between_commas(http):
    tags = ["a,b", " c ", "\u200b", ",", "a"]
    assert saved(http, tags=tags)["view"]["tags"] == ["a", "b", "c"]


def test_who_made_a_view_is_kept_in_any_script(http):
    who = quote("Ада Лавлейс")
    made = http.post(
        "/views",
        json={"page": "compare", "state": {"runs": "ab" * 8}, "name": "n"},
        headers={"phasescope-author": who},
    )
    assert made.json()["view"]["author"] == "Ада Лавлейс"


# ---- bad input changes nothing


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"page": "../etc"}, "page"),
        ({"page": None}, "page"),
        ({"state": []}, "state"),
        ({"state": {"a": 1}}, "state.a"),
        ({"state": {"a": "x" * 9000}}, "state.a"),
        ({"state": {f"p{i}": "" for i in range(101)}}, "state"),
        ({"state": {f"p{i}": "x" * 7000 for i in range(3)}}, "state"),
        ({"name": ""}, "name"),
        ({"name": " \n\t "}, "name"),
        ({"name": "\u200b\u200f\u2060 \u202e"}, "name"),
        ({"state": {"runs": ",".join(f"{i:08x}" for i in range(51))}}, "state"),
        ({"name": "x" * 121}, "name"),
        ({"name": 3}, "name"),
        ({"note": "x" * 5001}, "note"),
        ({"tags": "control"}, "tags"),
        ({"tags": [f"t{i}" for i in range(21)]}, "tags"),
        ({"tags": ["x" * 41]}, "tags"),
    ],
)
def test_what_cannot_be_saved_is_refused_by_field(http, changes, field):
    values = {"page": "explore", "state": {}, "name": "One"} | changes
    assert told(http.post("/views", json=values), 422).startswith(f"{field}: ")
    assert http.get("/views").json() == []


def test_half_a_surrogate_pair_is_refused(http):
    body = '{"page": "explore", "state": {}, "name": "\\ud800"}'
    answer = http.post("/views", content=body, headers={"content-type": "application/json"})
    assert "surrogate" in told(answer, 422)


def test_unknown_views_and_bad_edits(http):
    assert "no view" in told(http.get("/views/0123456789"), 404)
    assert "no view" in told(http.patch("/views/0123456789", json={"version": 1}), 404)
    id = saved(http)["id"]
    assert "version" in told(http.patch(f"/views/{id}", json={"name": "x"}), 422)
    assert "page" in told(http.patch(f"/views/{id}", json={"version": 1, "page": "x"}), 422)
    assert "no view" in told(
        http.post("/views", json={"page": "explore", "state": {}, "name": "x", "parent": "f" * 10}),
        404,
    )


@given(st.text(max_size=NAME).filter(lambda t: t.isprintable() and t.strip()))
def test_any_printable_name_is_kept(name):
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    assert check_words({"name": name})["name"] == " ".join(name.split())


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=40), max_size=6))
def test_links_are_stable_and_short(state):
    first = link("explore", state, None, "a")
    again = link("explore", json.loads(json.dumps(state)), None, "b")
    assert first == again
    assert len(first) == 10


def test_the_runs_of_a_state_are_found_once_each():
    a, b = "a1" * 8, "b2" * 8
    assert keys_in({"runs": f"{a}, {b}"}) == [a, b]
    assert keys_in({"runs": f"{a},{b},,zz", "base": a, "key": "../x"}) == [a, b]


# ---- notes, the library, retention


def test_notes_and_tags_of_a_run_outlive_another_version_of_it(http, engine):
    key = add_run(engine)
    answer = http.patch(f"/runs/{key}/note", json={"version": 0, "note": "weak", "tags": ["a"]})
    assert answer.status_code == 200
    assert "changed elsewhere" in told(
        http.patch(f"/runs/{key}/note", json={"version": 0, "note": "other"}), 409
    )
    http.patch(f"/runs/{key}/note", json={"version": 1, "tags": ["a", "b", "a"]})
    engine.store.open_run(key, "1" * 12, asked=True)
    note = http.get(f"/runs/{key}/note").json()
    assert (note["note"], note["tags"], note["version"]) == ("weak", ["a", "b"], 2)
    line = next(line for line in http.get("/library").json()["runs"] if line["key"] == key)
    assert (line["note"], line["tags"]) == ("weak", ["a", "b"])
    assert line["rows"] == len(PAIRS) + engine.store.counts(engine.store.runs_of(key)[-1].id).tokens


def test_retention_takes_what_is_old_and_unmarked(http, engine):
    old = add_run(engine, age_days=40)
    young = add_run(engine, age_days=2, samples=4)
    tagged = add_run(engine, age_days=40, samples=5)
    viewed = add_run(engine, age_days=40, samples=6)
    http.patch(f"/runs/{tagged}/note", json={"version": 0, "tags": ["keep"]})
    saved(http, state={"key": viewed})
    assert library.sweep_out(engine) == []  # nothing goes before somebody asks for it
    answer = http.put("/retention", json={"days": 30, "was": None, "now": True}).json()
    assert answer == {"days": 30, "deleted": [old]}
    assert {line["key"] for line in http.get("/library").json()["runs"]} == {young, tagged, viewed}
    assert "whole number" in told(http.put("/retention", json={"days": 0, "was": 30}), 422)
    assert http.get("/library").json()["retention_days"] == 30
    assert http.put("/retention", json={"days": None, "was": 30}).json()["days"] is None


def test_the_second_of_two_who_set_the_retention_is_told(http):
    http.put("/retention", json={"days": 30, "was": None})
    answer = http.put("/retention", json={"days": 7, "was": None, "now": True})
    assert "retention_days was changed elsewhere" in told(answer, 409)
    assert http.get("/library").json()["retention_days"] == 30


@pytest.mark.parametrize(
    "body",
    [{}, {"now": True}, {"dayz": 3}, {"days": 9}, {"days": 9, "was": 30, "now": "yes"}],
)
def test_retention_is_set_by_what_names_it_alone(http, body):
    http.put("/retention", json={"days": 30, "was": None})
    assert "asks for days" in told(http.put("/retention", json=body), 422)
    assert http.get("/library").json()["retention_days"] == 30


def test_retention_looks_closely_at_old_runs_alone(http, engine, monkeypatch):
    add_run(engine, age_days=2)
    old = add_run(engine, age_days=40, samples=4)
    http.put("/retention", json={"days": 30, "was": None})
    looked, look = [], engine.store.runs_of
    monkeypatch.setattr(engine.store, "runs_of", lambda key: looked.append(key) or look(key))
    assert library.sweep_out(engine) == [old]
    assert set(looked) == {old}


def meanwhile(act) -> threading.Thread:
    """Begun, and given the time to come to its end unless something holds it up."""
    thread = threading.Thread(target=act)
    thread.start()
    thread.join(timeout=0.3)
    return thread


def test_a_view_saved_while_retention_looks_keeps_its_run_or_comes_after(http, engine, monkeypatch):
    key = add_run(engine, age_days=40)
    http.put("/retention", json={"days": 30, "was": None})
    look, others = engine.store.leaning, []

    def slowly(of: str) -> list[str]:
        if not others:
            others.append(meanwhile(lambda: others.append(saved(http, state={"key": key}))))
        return look(of)

    monkeypatch.setattr(engine.store, "leaning", slowly)
    gone = library.sweep_out(engine)
    others[0].join()
    view = http.get(f"/views/{others[1]['id']}").json()
    assert gone == [key]
    assert view["made_with"] == {} or view["runs"][0]["status"] != "missing"


def test_a_run_queued_while_it_is_deleted_keeps_its_rows(http, engine, monkeypatch):
    key = add_run(engine)
    enqueue, others = engine.store.enqueue, []

    def slowly(run):
        others.append(meanwhile(lambda: others.append(http.delete(f"/runs/{key}"))))
        return enqueue(run)

    monkeypatch.setattr(engine.store, "enqueue", slowly)
    job = engine.queue.submit(read_spec(made_rows.SPEC))
    others[0].join()
    assert "at work" in told(others[1], 422)
    assert engine.store.run(job.run).key == key


def test_a_run_that_goes_while_it_is_shown_is_not_found(http, engine, monkeypatch):
    key, gone = add_run(engine), add_run(engine, samples=4)
    control = engine.store.runs_of(gone)[0].id
    engine.store.change(engine.store.runs_of(key)[0].id, control_run=control)
    with engine.store.writing() as cursor:
        cursor.execute("delete from runs where id = ?", [control])
    assert "deleted in the meantime" in told(http.get(f"/runs/{key}"), 404)


def test_the_library_tells_its_size(http, engine):
    add_run(engine)
    engine.store.checkpoint()
    assert http.get("/library").json()["disk"]["database"] > 10_000
