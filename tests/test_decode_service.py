"""A decode run over HTTP, from its spec to its numbers."""

from __future__ import annotations

import json
import os
import signal
import time

import decode_runs
import httpx
import live
import pytest

from engine.client import NotFound, Refused
from engine.eviction.rows import TABLES
from engine.eviction.spec import evicting

STREAMING = {"kind": "streaming", "budget": 24, "every": 4}


@pytest.fixture(scope="module")
def service():
    return live.shared()


@pytest.fixture(scope="module")
def client(service):
    return service.client


def spec(**changes) -> dict:
    return decode_runs.SPEC | {"model": {"id": str(live.model_folder())}} | changes


@pytest.fixture(scope="module")
def done(service, client):
    """A finished run."""
    asked = client.submit(spec(), title="looking back")
    shown = service.wait(asked["key"])
    assert (shown["status"], shown["reason"]) == ("done", "")
    return shown


def wait_for_parts(client, key: str, count: int, timeout: float = 120) -> None:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if client.run(key)["progress"]["done"] >= count:
            return
        time.sleep(0.02)
    raise AssertionError(f"{key}: {client.run(key)['progress']}")


def columns(client, key: str, table: str) -> dict:
    """A table's rows but for what a clock decides."""
    rows = client.decode(key, table)
    timed = [c for c in rows if "seconds" in c or c.endswith(("_ms", "memory_peak"))]
    return json.loads(rows.drop(columns=timed).to_json(orient="split"))


# ---- a run


def test_a_run_ends_with_methods_pairs_and_provenance(done):
    assert (done["kind"], done["title"], done["n_samples"]) == ("decode", "looking back", 3)
    assert [m["arm"] for m in done["methods"]] == list(range(5))
    full, *rest = done["methods"]
    assert (full["method"], full["budget"], full["events"]) == ("full", None, 0)
    for method in rest:
        assert method["budget"] in (64, 96)
        assert method["mean_resident"] == pytest.approx(method["budget"], abs=3)
        assert method["peak_bytes"] > method["mean_bytes"] > 0
        assert method["events"] > 0
        assert method["nll"] > 0
    assert {p["measure"] for p in done["pairs"]} == {"nll", "recall"}
    assert done["finding"]
    made = done["provenance"]
    assert made["rows_expected"] == made["rows_stored"] == {"parts": 15, "tokens": 15 * 6}
    for name in ("weights", "tokenizer", "seed", "wall_seconds", "libraries", "prompt_tokens"):
        assert made[name] not in (None, ""), name
    assert made["code_version"].split("+")[0] != ""
    assert len(made["arms"]) == 5
    assert done["progress"]["done"] == done["progress"]["total"] == 15
    assert done["stale"] is False


def test_tables_come_as_arrow(client, done):
    key = done["key"]
    for name in TABLES:
        rows = client.decode(key, name)
        assert list(rows.columns) == TABLES[name].names
        assert rows.equals(client.decode(key, name.removeprefix("decode_")))
    steps = client.decode(key, "steps")
    assert len(steps) == 15 * 6
    one = client.decode(key, "steps", arm=2, sample=1)
    assert one.equals(steps[(steps["arm"] == 2) & (steps["sample"] == 1)].reset_index(drop=True))
    same = steps.groupby(["sample", "position"])["token_id"].nunique()
    assert (same == 1).all()  # every method read what the full cache wrote
    assert len(client.decode(key, "answers")) == 15 * 2
    assert set(client.decode(key, "texts")["ended"]) <= {"stop", "cap"}
    with pytest.raises(NotFound, match="known: decode_steps"):
        client.decode(key, "runs")
    for ask in (client.answers, client.tokens, client.token_means):
        with pytest.raises(NotFound, match="decode run"):
            ask(key)


def test_a_sweep_has_no_decode_tables_and_no_traces(service, client):
    key = client.submit(live.spec(samples=1, first=800))["key"]
    service.wait(key)
    with pytest.raises(NotFound, match="is a sweep"):
        client.decode(key, "steps")
    with pytest.raises(Refused, match="traces are of decode runs"):
        client.trace(key, 0, 0, 0, 0)


def test_it_stands_in_the_list_beside_the_sweeps(client, done):
    line = next(line for line in client.runs() if line["key"] == done["key"])
    assert (line["kind"], line["task"]) == ("decode", "lookback")
    assert line["phrase"] == "beacon and streaming, 64 and 96 tokens"
    assert line["finding"] == done["finding"]
    assert client.spec(done["key"]) == done["spec"]
    assert client.depth(done["key"]) is None


def test_the_same_spec_again_computes_nothing(service, client, done):
    asked = client.submit(spec(methods=[{"kind": "full"}, *decode_runs.METHODS]))
    assert asked["key"] == done["key"]
    again = service.wait(asked["key"])
    assert again["status"] == "done"
    assert again["provenance"]["wall_seconds"] == done["provenance"]["wall_seconds"]


def test_the_same_spec_twice_gives_the_same_rows(service, client):
    tables = []
    for _ in range(2):
        key = client.submit(spec(seed=11))["key"]
        assert service.wait(key)["status"] == "done"
        tables.append([columns(client, key, name) for name in TABLES])
        client.delete(key)
    assert tables[0] == tables[1]


def test_a_run_can_be_cancelled_and_goes_on_where_it_was(service, client):
    slow = spec(samples=24, batch=1, steps=64, seed=3)
    key = client.submit(slow)["key"]
    wait_for_parts(client, key, 3)
    with pytest.raises(Refused):
        client.delete(key)
    began = time.monotonic()
    client.cancel(key)
    stopped = service.wait(key, timeout=20)
    assert stopped["status"] == "cancelled"
    assert time.monotonic() - began < 9  # between two forwards, not after the grace
    kept = client.decode(key, "steps")
    assert 0 < len(kept) < 24 * 5 * 64
    client.submit(slow)
    wait_for_parts(client, key, stopped["progress"]["done"] + 2)
    client.cancel(key)
    service.wait(key, timeout=20)
    more = client.decode(key, "steps")
    place = ["arm", "sample", "position", "logprob"]
    assert len(more.merge(kept[place], on=place)) == len(kept) < len(more)
    client.delete(key)
    with pytest.raises(NotFound):
        client.run(key)


def test_a_killed_worker_fails_the_run_and_loses_no_part(tmp_path_factory):
    service = live.Live(tmp_path_factory.mktemp("killed")).start()
    try:
        slow = spec(samples=24, batch=1, steps=64)
        key = service.client.submit(slow)["key"]
        wait_for_parts(service.client, key, 3)
        os.kill(service.worker_pid(), signal.SIGKILL)
        failed = service.wait(key)
        assert failed["status"] == "failed"
        assert "signal 9" in failed["reason"]
        assert "for lack of memory: the run's estimate is" in failed["reason"]
        assert failed["progress"]["done"] >= 3
        assert failed["methods"]  # what is there is shown
    finally:
        service.stop()


# ---- what is refused


BAD = [
    ({"budgets": [20]}, "budgets[0]"),
    ({"budgets": [64, 0.5]}, "budgets[1]"),
    ({"methods": [{"kind": "trained"}]}, "methods[0].kind"),
    ({"methods": [{"kind": "beacon", "n_becon": 4}]}, "methods[0].n_becon"),
    ({"model": {"id": "w8s8-dense"}}, "model.id"),
    ({"model": {"id": "/nowhere/at/all"}}, "model.id"),
    ({"steps": 50_000}, "task.length"),
    ({"task": {"kind": "lookback", "length": 40}}, "task.length"),
    ({"task": {"kind": "access_code"}}, "task.kind"),
    ({"kind": "decoed"}, "kind"),
    ({"control": {}}, "control"),
    ({"title": 7}, "title"),
]


@pytest.mark.parametrize(("change", "field"), BAD, ids=[f"{i}-{f}" for i, (_, f) in enumerate(BAD)])
def test_bad_specs_are_refused_at_their_field_and_nothing_is_kept(client, change, field):
    before = client.runs(), client.jobs()
    for ask in (client.preview, client.submit):
        if field == "title" and ask == client.preview:
            continue
        values = spec() | change
        title = values.pop("title", "")
        with pytest.raises(Refused) as caught:
            ask(values, **({"title": title} if ask == client.submit else {}))
        assert field in [e.field for e in caught.value.errors], caught.value.errors
        assert all(e.message and "\n" not in e.message for e in caught.value.errors)
    assert (client.runs(), client.jobs()) == before


def test_a_preview_tells_arms_and_remembers_the_spec(client):
    plan = client.preview(spec(seed=77))
    assert (plan["kind"], plan["copies"], len(plan["arms"])) == ("decode", 15, 5)
    assert plan["estimate"]["seconds"] > 0
    assert client.spec(plan["key"]) == plan["spec"]
    with pytest.raises(NotFound):
        client.run(plan["key"])


def test_the_schema_carries_the_form_of_a_decode_run(client):
    schema = client.schema()
    assert set(schema["decode"]) >= {"settings", "methods", "prompts"}
    assert set(schema["decode"]["methods"]) == {*evicting(), "pooled"}
    assert schema["memories"]["beacon"]["evicts"] is True
    assert schema["memories"]["pooled"]["evicts"] is False


# ---- traces


def traced(client, key: str, **place) -> dict:
    for _ in range(600):
        answer = client.trace(key, **place)
        if not answer.get("pending"):
            return answer
        time.sleep(0.1)
    raise AssertionError("the trace never came")


def test_a_trace_comes_when_it_is_made_and_is_made_once(service, client, done):
    place = {"arm": 1, "sample": 2, "layer": 1, "kv_head": 0}
    told = traced(client, done["key"], **place)
    assert {name: told[name] for name in place} == place
    assert len(told["tokens"]) >= 400
    event = told["events"][0]
    assert len(event["present"]) == len(event["scores"])
    assert set(event["kept"]) < set(event["present"])
    files = list((service.home / "traces").glob("*.json.gz"))
    assert traced(client, done["key"], **place) == told
    assert list((service.home / "traces").glob("*.json.gz")) == files
    other = traced(client, done["key"], **place, far=2)
    assert other["events"] == told["events"]
    assert len(list((service.home / "traces").glob("*.json.gz"))) == len(files) + 1


def test_a_trace_is_pending_first_and_the_full_cache_has_no_event(service, client, done):
    body = {"arm": 0, "sample": 0, "layer": 0, "kv_head": 0}
    address = service.address()
    answer = httpx.post(
        f"{address.url}/runs/{done['key']}/trace",
        json=body,
        headers={"authorization": f"Bearer {address.token}"},
        timeout=60,
        trust_env=False,
    )
    told = answer.json()
    assert (answer.status_code, told.pop("pending")) == (202, True)
    assert set(told) == {"seconds", "done", "total"}
    assert traced(client, done["key"], **body)["events"] == []


def test_a_trace_that_is_dropped_can_be_asked_again(client, done):
    """It is begun anew when it is asked again."""
    place = {"arm": 1, "sample": 1, "layer": 1, "kv_head": 1}
    assert client.trace(done["key"], **place)["seconds"] < 10
    assert client.stop_trace(done["key"], **place) == {"dropped": True}
    assert traced(client, done["key"], **place)["events"]
    with pytest.raises(Refused):
        client.stop_trace(done["key"], **place | {"arm": 9})


def test_names_of_numbers_that_no_tokenizer_has(client, done):
    assert client.names(done["key"], ["9" * 5000, 10**9, 7]).keys() == {7}


def test_a_trace_of_no_place_is_refused_at_its_field(client, done):
    place = {"arm": 1, "sample": 2, "layer": 1, "kv_head": 0}
    wrong = {"arm": 5, "sample": 3, "layer": 2, "kv_head": 2, "top": -1, "far": 10**9}
    for name, value in wrong.items():
        for bad in (value, -1, "1", None, True, 1.5):
            with pytest.raises(Refused) as caught:
                client.trace(done["key"], **place | {name: bad})
            assert caught.value.errors[0].field == name
    with pytest.raises(Refused) as caught:
        client.trace(done["key"], **place, head=1)
    assert caught.value.errors[0].field == "head"


def test_no_attention_map_is_made_of_a_run_that_evicts(service, client, done):
    sweep = live.spec(samples=1, memory=STREAMING, first=900)
    asked = client.submit(sweep)["key"]
    shown = service.wait(asked)
    assert (shown["status"], shown["reason"]) == ("done", "")
    for key in (asked, done["key"]):
        with pytest.raises(Refused, match="drops entries"):
            client.attention(key, 0, 0)


# ---- a sweep over the phases of eviction


def test_a_sweep_with_a_memory_that_evicts(service, client):
    shown = service.wait(client.submit(live.spec(samples=2, memory=STREAMING))["key"])
    assert (shown["status"], shown["reason"], shown["kind"]) == ("done", "", "sweep")
    assert len(shown["residues"]) == 8
    assert set(shown["written"]) == {"worst", "best"}
    assert shown["control"]["n_samples"] == 2
    plain = service.wait(client.submit(live.spec(samples=2))["key"])
    own, other = (s["provenance"]["code_version"].split("+")[0] for s in (shown, plain))
    assert own != other
