"""The service over HTTP: who may ask, what is refused, and a run from its spec to its numbers."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import stat
import threading
import time

import httpx
import live
import numpy as np
import pytest

from engine import serving
from engine.client import NotFound, Refused
from engine.guard import MAX_BODY


@pytest.fixture(scope="module")
def service():
    return live.shared()


@pytest.fixture(scope="module")
def client(service):
    return service.client


@pytest.fixture(scope="module")
def done(service, client):
    """A finished run."""
    asked = client.submit(live.spec(samples=3), title="two rooms")
    shown = service.wait(asked["key"])
    assert (shown["status"], shown["reason"]) == ("done", "")
    return shown


def raw(service, method="GET", path="/health", token=None, **options):
    address = service.address()
    headers = {"authorization": f"Bearer {address.token if token is None else token}"}
    headers |= options.pop("headers", {})
    return httpx.request(
        method, address.url + path, headers=headers, timeout=60, trust_env=False, **options
    )


# ---- who may ask


def test_only_the_owner_reads_the_address(service):
    mode = (service.home / "service.json").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600
    assert service.address().url.startswith("http://127.0.0.1:")


def test_answers_do_not_wait_for_acknowledgements():
    """asyncio sets TCP_NODELAY on sockets of a named protocol alone; without, a call took 40 ms."""
    with contextlib.closing(serving.bind(0)) as sock:
        assert sock.proto == socket.IPPROTO_TCP


@pytest.mark.parametrize("path", ["/health", "/runs", "/docs", "/openapi.json", "/nowhere"])
def test_nothing_is_told_without_the_token(service, path):
    for token in ("x", "wrong", service.address().token[:-1]):
        answer = raw(service, path=path, token=token)
        assert answer.status_code == 401
        assert set(answer.json()) == {"errors"}


def test_a_foreign_host_name_is_refused_even_with_the_token(service):
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example"):
        assert raw(service, headers={"host": host}).status_code == 403
    port = service.address().url.rsplit(":", 1)[1]
    assert raw(service, headers={"host": f"localhost:{port}"}).status_code == 200


# ---- what is refused


BODIES = {
    "no json": b"{",
    "a list": b"[]",
    "a number": b"7",
    "nothing": b"",
    "deep": b"[" * 50_000 + b"]" * 50_000,
    "not utf-8": b'{"model": "\xff"}',
    "a number without end": b'{"seed": ' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize("name", BODIES)
def test_malformed_bodies_are_a_sentence(service, name):
    headers = {"content-type": "application/json"}
    answer = raw(service, "POST", "/preview", content=BODIES[name], headers=headers)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["field"] == "spec"
    assert "JSON object" in error["message"] or error["message"] == "is missing"


def test_a_number_in_an_address_that_fits_no_database_leads_nowhere(service):
    assert raw(service, path="/jobs/" + "9" * 40).status_code == 404


def test_a_body_past_the_cap_is_refused_told_or_untold(service):
    headers = {"content-type": "application/json"}
    big = b'{"title": "' + b"x" * MAX_BODY + b'"}'
    told = raw(service, "POST", "/preview", content=big, headers=headers)
    untold = raw(
        service, "POST", "/preview", content=iter([big[:1000], big[1000:]]), headers=headers
    )
    for answer in (told, untold):
        assert answer.status_code == 413
        assert "32 MB, about 8,000,0" in answer.json()["errors"][0]["message"]
        assert "the cap is 32 MB" in answer.json()["errors"][0]["message"]


def test_a_huge_prompt_is_refused_at_its_field_and_never_sent(client, monkeypatch):
    sent = []
    ask = client._http.request
    monkeypatch.setattr(
        client._http, "request", lambda *a, **o: sent.append(str(o)[:10_000]) or ask(*a, **o)
    )
    huge = "{{pad}}It is {{target}}7{{/target}}. " + "x" * 300_000_000
    begun = time.monotonic()
    with pytest.raises(Refused) as caught:
        client.preview(live.spec() | {"task": {"kind": "custom", "text": huge, "answer": "7"}})
    assert time.monotonic() - begun < 30
    assert len(sent) == 1
    assert "xxx" not in sent[0]
    field, message = caught.value.errors[0]
    assert field == "task.text"
    for told in ("300,000,0", "about 75,000,0", "the model takes 4,096 positions", "of memory"):
        assert told in message
    many = [{"text": "x" * 4000, "answer": "7"}] * 10_000
    with pytest.raises(Refused) as caught:
        client.submit(live.spec() | {"samples": 2, "task": {"kind": "custom", "prompts": many}})
    assert caught.value.errors[0].field == "task.prompts"
    assert "40,000,000 characters" in caught.value.errors[0].message


def test_lengths_are_whole_numbers_of_texts(service):
    for bad in (None, "9", [-1], [True], [1.5]):
        answer = raw(service, "POST", "/lengths", json={"characters": bad})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == "characters"


BAD = [
    ({"memory": {"kind": "pooled", "stride": 0, "window": 4}}, "memory.stride"),
    ({"memory": {"kind": "pooled", "stride": -4, "window": 4}}, "memory.stride"),
    ({"memory": {"kind": "pooled", "stride": 2.5, "window": 4}}, "memory.stride"),
    ({"memory": {"kind": "pooled", "stride": "four", "window": 4}}, "memory.stride"),
    ({"memory": {"kind": "pooled", "stride": 8, "window": 4}}, "memory.stride"),
    ({"memory": {"kind": "poled"}}, "memory.kind"),
    ({"memory": {"kind": "pooled", "layers": "7"}}, "memory.layers"),
    ({"modulus": 10}, "modulus"),
    ({"samples": 10**9, "task": {"kind": "access_code"}}, "samples"),
    ({"sample": 3}, "sample"),
    ({"model": {"id": "smolm2-135m"}}, "model.id"),
    ({"model": {"id": "/nowhere/at/all"}}, "model.id"),
    ({"model": {"id": "org/that-is-not-here"}}, "model.id"),
    ({"task": {"kind": "custom", "text": "", "answer": "x"}}, "task.text"),
    ({"task": {"kind": "custom", "text": "a" * 3_000_000, "answer": "x"}}, "task.text"),
    ({"task": {"kind": "custom", "text": "\ud800", "answer": "x"}}, "task.text"),
    ({"title": 7}, "title"),
    ({"title": "\ud800"}, "title"),
    ({"task": {"kind": "custom", "prompts": [{"text": "a"}, {"text": "\udfff"}]}}, "task.prompts"),
    ({"task": {"\ud800": 1}}, "task"),
    ({"memory": {"kind": "pooled", "stride": float("inf")}}, "memory.stride"),
    ({"model": {"id": "a" * 5000}}, "model.id"),
    ({"control": {"model": {"id": "/nowhere/at/all"}}}, "control.model.id"),
    ({"control": {"memory": {"kind": "pooled", "layers": "99"}}}, "control.memory.layers"),
]


@pytest.mark.parametrize(("change", "field"), BAD, ids=[f"{i}-{f}" for i, (_, f) in enumerate(BAD)])
def test_bad_specs_are_refused_at_their_field_and_nothing_is_kept(service, client, change, field):
    before = client.runs(), client.jobs()
    body = json.dumps(live.spec() | change).encode()
    headers = {"content-type": "application/json"}
    answer = raw(service, "POST", "/runs", content=body, headers=headers)
    assert answer.status_code == 422, answer.text
    errors = answer.json()["errors"]
    assert field in [e["field"] for e in errors], errors
    assert all(e["message"] and "\n" not in e["message"] for e in errors)
    assert (client.runs(), client.jobs()) == before


def test_unknown_keys_lead_nowhere(client):
    for key in ("000000000000", "x", "../jobs", "a" * 1000, "%2e%2e", ""):
        for ask in (client.run, client.spec, client.answers, client.cancel, client.delete):
            with pytest.raises(NotFound):
                ask(key)


# ---- what there is


def test_the_schema_carries_every_form(client):
    schema = client.schema()
    assert {"full", "pooled"} <= set(schema["memories"])
    assert {"custom", "access_code"} <= set(schema["tasks"])
    stride = next(f for f in schema["memories"]["pooled"]["fields"] if f["name"] == "stride")
    assert stride["type"] == "int"
    assert stride["help"]
    assert all(task["protocols"] for task in schema["tasks"].values())
    assert "smollm2-135m" in [model["name"] for model in schema["models"]]
    assert {f["name"] for f in schema["settings"]} >= {"samples", "modulus", "measure"}


def test_a_preview_tells_the_plan_and_remembers_the_spec(client):
    plan = client.preview(live.spec(first=50))
    assert plan["copies"] == 16
    assert client.spec(plan["key"]) == plan["spec"]
    with pytest.raises(NotFound):
        client.run(plan["key"])


# ---- a run


def test_a_run_ends_with_numbers_provenance_and_text(done):
    assert done["n_samples"] == 3
    assert len(done["residues"]) == 8
    assert done["control"]["n_samples"] == 3
    assert done["title"] == "two rooms"
    assert done["finding"]
    assert done["progress"]["done"] == done["progress"]["total"] == 48
    made = done["provenance"]
    assert made["rows_expected"] == made["rows_stored"]
    assert made["rows_stored"]["answers"] == 24
    for name in ("weights", "tokenizer", "dtype", "device", "seed", "wall_seconds", "libraries"):
        assert made[name] not in (None, ""), name
    assert made["peak_memory_bytes"] > 50e6
    assert set(done["written"]) == {"worst", "best"}
    assert done["stale"] is False


def test_rows_come_as_arrow(client, done):
    answers, control = client.answers(done["key"]), client.answers(done["key"], control=True)
    assert answers[["sample", "shift"]].equals(control[["sample", "shift"]])
    assert len(answers) == 24
    copy = client.tokens(done["key"], sample=1, shift=3)
    assert copy["position"].tolist() == list(range(1, len(copy) + 1))
    last = copy[copy["role"] == "answer"]
    row = answers[(answers["sample"] == 1) & (answers["shift"] == 3)].iloc[0]
    assert row["logprob"] == pytest.approx(last["logprob"].sum(), rel=1e-5)
    means = client.token_means(done["key"], sample=1)
    assert set(means["phase"]) == {0, 1, 2, 3}


def test_the_same_spec_again_computes_nothing(service, client, done):
    asked = client.submit(live.spec(samples=3))
    assert asked["key"] == done["key"]
    again = service.wait(asked["key"])
    assert again["status"] == "done"
    assert again["title"] == "two rooms"
    assert again["provenance"]["wall_seconds"] == done["provenance"]["wall_seconds"]


def test_another_memory_reuses_the_control(service, client, done):
    memory = {"kind": "pooled", "window": 4, "stride": 2, "local": 4, "sinks": 1}
    shown = service.wait(client.submit(live.spec(samples=3, memory=memory))["key"])
    assert shown["status"] == "done"
    own, both = (
        client.answers(shown["key"], control=True),
        client.answers(done["key"], control=True),
    )
    assert own.equals(both)
    assert done["key"] in [line["key"] for line in client.runs()]
    mine = [line for line in client.runs() if not line["preset"]]
    control_keys = {line["key"] for line in mine if line["phrase"].startswith("full")}
    assert control_keys == set()  # a control that nobody asked for is not listed


def test_a_layer_scan_has_a_row_for_each_layer(service, client):
    shown = service.wait(client.submit(live.spec(samples=1, first=20, scan=True))["key"])
    assert shown["status"] == "done"
    assert [row["layer"] for row in shown["scan"]["layers"]] == [0, 1]
    assert shown["n_samples"] == 1
    assert len(client.answers(shown["key"], scan=True)) == 8  # one cycle of four, two layers
    assert shown["provenance"]["rows_stored"]["answers"] == 16


def test_an_attention_map_comes_when_it_is_made(client, done):
    place = {"layer": 1, "head": 2, "sample": 0, "shift": 3}
    answer = client.attention(done["key"], **place)
    for _ in range(600):
        if not answer.get("pending"):
            break
        threading.Event().wait(0.1)
        answer = client.attention(done["key"], **place)
    values = np.frombuffer(base64.b64decode(answer["cells"]), "<f4").reshape(answer["shape"])
    assert values.shape == (len(answer["query_ranges"]), len(answer["key_labels"]))
    assert np.allclose(values.sum(axis=1), 1, atol=0.02)  # no cell joins two keys here
    part = client.attention(done["key"], **place, queries=[4, 6])
    assert np.array_equal(
        np.frombuffer(base64.b64decode(part["cells"]), "<f4").reshape(part["shape"]), values[4:6]
    )
    for wrong in ({"layer": 2}, {"head": 4}, {"sample": 3}, {"shift": 8}, {"queries": [5, 5]}):
        with pytest.raises(Refused) as refused:
            client.attention(done["key"], **{**place, **wrong})
        assert refused.value.errors[0].field == next(iter(wrong))


def test_two_clients_at_once_get_one_job_and_the_same_numbers(service, client):
    spec, got = live.spec(samples=2, first=30), []
    threads = [threading.Thread(target=lambda: got.append(client.submit(spec))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(asked["key"], asked["job"]) for asked in got}) == 1
    assert service.wait(got[0]["key"])["status"] == "done"
    assert len([job for job in client.jobs() if job["key"] == got[0]["key"]]) == 1


def test_a_run_can_be_cancelled_waiting_or_at_work_and_resumed(service, client):
    slow, behind = live.spec(samples=40, first=100, batch=1), live.spec(samples=2, first=60)
    first, second = client.submit(slow), client.submit(behind)
    service.wait_for_rows(first["key"])
    client.cancel(second["key"])
    assert client.run(second["key"])["status"] == "cancelled"
    with pytest.raises(Refused):
        client.delete(first["key"])
    client.cancel(first["key"])
    stopped = service.wait(first["key"], timeout=20)
    assert stopped["status"] == "cancelled"
    kept = client.answers(first["key"])
    assert 0 < len(kept) < 320
    client.submit(slow)
    service.wait_for_rows(first["key"], len(kept) + 1)
    client.cancel(first["key"])
    service.wait(first["key"], timeout=20)
    more = client.answers(first["key"])
    same = more.merge(kept[["sample", "shift", "logprob"]], on=["sample", "shift", "logprob"])
    assert len(same) == len(kept) < len(more)  # what was stored was left as it was
    client.delete(first["key"])
    with pytest.raises(NotFound):
        client.run(first["key"])


def test_the_same_spec_twice_gives_the_same_bytes(service, client, tmp_path):
    """Stored, deleted and computed again, after other work on the same warm model."""
    spec = live.spec(samples=2, first=70)
    tables = []
    for _ in range(2):
        key = client.submit(spec)["key"]
        assert service.wait(key)["status"] == "done"
        paths = [f"/runs/{key}/{name}" for name in ("answers", "tokens")]
        tables.append([client.table(p, control=c) for p in paths for c in (False, True)])
        client.delete(key)
    for one, other in zip(*tables, strict=True):
        assert one.num_rows > 0
        assert one.equals(other)
