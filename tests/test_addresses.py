"""Addresses with an ending: what each form holds, who may ask, and what a page may run."""

from __future__ import annotations

import io
import json

import decode_runs
import made_rows
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from engine import forms
from engine.client import Client, NotFound, Refused
from engine.owner import Engine
from engine.service import make_app
from engine.specs import SweepSpec

TOKEN = "a-token-of-letters"
SPEC = SweepSpec.from_dict(made_rows.SPEC)
DECODE = decode_runs.make()
NASTY = [
    "=1+1",
    "+cmd|'x'!A",
    "-2",
    "@sum",
    "\tx",
    "a,b",
    'say "so"',
    "two\nlines",
    "\u202eabc",
    "é",
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    made = Engine(tmp_path_factory.mktemp("home"))
    made_rows.fill_both(made.store, SPEC)
    decode_runs.fill(made.store, DECODE)
    made.ready.set()
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def web(engine):
    """A browser: it sends no header of ours."""
    return TestClient(make_app(engine, TOKEN), "http://127.0.0.1", raise_server_exceptions=False)


@pytest.fixture(scope="module")
def client(web):
    """The client that pages use, over the same service."""
    made = Client("http://127.0.0.1", TOKEN)
    made._http = web
    web.headers["authorization"] = ""
    return made


def get(web, path: str, **params):
    """With the token in the address."""
    return web.get(path, params={"token": TOKEN} | params)


def rows_of(web, path: str, **params) -> pa.Table:
    return pq.read_table(io.BytesIO(get(web, f"{path}.parquet", **params).content))


# ---- forms


def test_a_run_is_what_show_gives(web, engine):
    shown = get(web, f"/runs/{SPEC.key}.json").json()
    assert shown["key"] == SPEC.key
    plain = web.get(f"/runs/{SPEC.key}", headers={"authorization": f"Bearer {TOKEN}"}).json()
    assert shown == plain


@pytest.mark.parametrize("control", [False, True])
def test_the_three_forms_hold_the_same_rows(web, engine, control):
    run = engine.results.pick(SPEC.key)
    id = run.control_run if control else run.id
    asked = {"control": "true"} if control else {}
    for name, stored in (
        ("answers", engine.store.answers_table(id)),
        ("tokens", engine.store.tokens(id)),
    ):
        path = f"/runs/{SPEC.key}/{name}"
        assert rows_of(web, path, **asked).equals(stored)
        found = get(web, f"{path}.json", _size=10_000, **asked).json()
        assert found["total"] == stored.num_rows
        assert found["rows"] == stored.to_pylist()
        frame = pd.read_csv(
            io.BytesIO(get(web, f"{path}.csv", **asked).content), keep_default_na=False
        )
        assert list(frame) == stored.column_names
        assert frame["logprob"].tolist() == pytest.approx(stored["logprob"].to_pylist())
        lists = next(
            n for n in stored.column_names if pa.types.is_list(stored.schema.field(n).type)
        )
        assert [json.loads(text) for text in frame[lists]] == stored[lists].to_pylist()


def test_filters_and_pages(web, engine):
    path = f"/runs/{SPEC.key}/tokens"
    some = rows_of(web, path, sample=1, shift=2)
    assert set(some["sample"].to_pylist()) == {1}
    assert set(some["shift"].to_pylist()) == {2}
    assert rows_of(web, f"/runs/{SPEC.key}/answers", sample=2, shift=7).num_rows == 1
    whole, found, pages = rows_of(web, path), [], 0
    following = f"{path}.json?_size=70"
    while following:
        page = web.get(f"{following}&token={TOKEN}")
        found += page.json()["rows"]
        following, pages = page.json()["next"], pages + 1
    assert found == whole.to_pylist()
    assert pages == -(-whole.num_rows // 70)
    assert len(get(web, f"{path}.json").json()["rows"]) == forms.PAGE
    assert rows_of(web, path, _offset=5, _size=3).equals(whole.slice(5, 3))
    assert get(web, f"{path}.json", _offset=10**6).json()["rows"] == []


def test_decode_tables(web, engine):
    run = engine.results.pick(DECODE.key)
    for name in ("steps", "answers", "marks", "costs", "texts"):
        stored = engine.store.decode_table(run.id, f"decode_{name}")
        assert rows_of(web, f"/runs/{DECODE.key}/decode/{name}").equals(stored)
        assert get(web, f"/runs/{DECODE.key}/decode/{name}.csv").status_code == 200
        assert get(web, f"/runs/{DECODE.key}/decode/{name}.json").json()["total"] == stored.num_rows
    one = rows_of(web, f"/runs/{DECODE.key}/decode/steps", arm=1, sample=0)
    assert set(one["arm"].to_pylist()) == {1}


def test_lists_of_runs(web, engine):
    found = get(web, "/runs.json").json()
    assert {row["key"] for row in found["rows"]} == {SPEC.key, DECODE.key}
    frame = pd.read_csv(io.BytesIO(get(web, "/runs.csv").content))
    assert set(frame["key"].astype(str)) == {SPEC.key, DECODE.key}
    assert rows_of(web, "/runs").num_rows == 2
    assert get(web, "/views.json").json() == []
    assert get(web, "/views/0123456789.json").status_code == 404


def test_a_run_s_own_address_has_its_answers(web, engine):
    path, decode = f"/runs/{SPEC.key}", f"/runs/{DECODE.key}"
    assert rows_of(web, path).equals(rows_of(web, f"{path}/answers"))
    assert rows_of(web, path, sample=1).equals(rows_of(web, f"{path}/answers", sample=1))
    assert get(web, f"{path}.csv").content == get(web, f"{path}/answers.csv").content
    assert rows_of(web, decode, arm=1).equals(rows_of(web, f"{decode}/decode/answers", arm=1))
    assert get(web, f"{path}.csv", arm=1).status_code == 422
    assert get(web, "/runs/0123.csv").status_code == 404


def test_views_are_tables_too(web):
    gone, sent = "0" * 12, {"authorization": f"Bearer {TOKEN}"}
    state = {"runs": f"{DECODE.key},{gone},{SPEC.key}"}
    body = {"page": "compare", "state": state, "name": "=1+1", "tags": ["a", "b"]}
    id = web.post("/views", json=body, headers=sent).json()["id"]
    try:
        every = rows_of(web, "/views").to_pylist()
        assert [(v["id"], v["tags"], json.loads(v["state"])) for v in every] == [
            (id, ["a", "b"], state)
        ]
        assert "'=1+1" in get(web, "/views.csv").text
        runs = rows_of(web, f"/views/{id}")
        assert runs["key"].to_pylist() == [DECODE.key, gone, SPEC.key]
        assert runs["status"].to_pylist() == ["done", "missing", "done"]
        known = {row["key"]: row for row in rows_of(web, "/runs").to_pylist()}
        assert runs.to_pylist()[2] == known[SPEC.key]
        assert rows_of(web, f"/views/{id}", _offset=2).num_rows == 1
        assert len(get(web, f"/views/{id}.csv").text.splitlines()) == 4
        assert get(web, "/views/0123456789.csv").status_code == 404
    finally:
        web.patch(f"/views/{id}", json={"version": 1, "deleted": True}, headers=sent)


@pytest.mark.parametrize("path", ["/runs.csv", f"/runs/{SPEC.key}.json", "/docs"])
def test_a_head_is_a_get_without_its_body(web, path):
    whole, head = get(web, path), web.head(path, params={"token": TOKEN})
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.content))
    assert web.head(path).status_code == 401
    sent = {"authorization": f"Bearer {TOKEN}"}
    assert web.head("/health", headers=sent).status_code == 200
    assert web.head("/import", headers=sent).status_code == 405
    assert web.head("/runs/0123", headers=sent).status_code == 404


def test_text_in_a_csv_is_text(tmp_path):
    table = pa.table({"text": NASTY, "n": range(len(NASTY)), "list": [[1, 2]] * len(NASTY)})
    made = forms.csv(table)
    back = pyarrow.csv.read_csv(
        io.BytesIO(made), parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True)
    )
    assert back["text"].to_pylist() == [f"'{t}" if t[0] in "=+-@\t" else t for t in NASTY]
    assert back["n"].to_pylist() == list(range(len(NASTY)))
    assert back["list"].to_pylist() == ["[1, 2]"] * len(NASTY)


def test_the_clients_way(client, engine):
    client._http.headers["authorization"] = f"Bearer {TOKEN}"
    try:
        tokens = client.rows(SPEC.key, "tokens", "parquet", sample=0)
        assert pq.read_table(io.BytesIO(tokens)).num_rows > 0
        assert client.rows(DECODE.key, "decode/steps", "csv", arm=1, sample=None).startswith(
            b'"arm"'
        )
        for key, table, form in (
            (SPEC.key, "../x", "csv"), ("../x", "answers", "csv"), (SPEC.key, "answers", "../x"),
            (SPEC.key, "marks", "csv"), (DECODE.key, "answers", "csv"), ("0" * 12, "tokens", "csv"),
        ):  # fmt: skip
            with pytest.raises(NotFound):
                client.rows(key, table, form)
        with pytest.raises(Refused, match="form"):
            client.rows(SPEC.key, "answers", "xlsx")
    finally:
        client._http.headers["authorization"] = ""


# ---- refusals


@pytest.mark.parametrize(
    ("path", "params", "field"),
    [
        ("answers.csv", {"samples": 3}, "samples"),
        ("answers.csv", {"sample": "x"}, "sample"),
        ("answers.csv", {"sample": "9" * 30}, "sample"),
        ("answers.csv", {"sample": "٣"}, "sample"),
        ("answers.csv", {"control": "perhaps"}, "control"),
        ("answers.json", {"_size": -1}, "_size"),
        ("answers.json", {"_size": 10**9}, "_size"),
        ("answers.json", {"_offset": "1.5"}, "_offset"),
        ("tokens.csv", {"scan": "true"}, "scan"),
        ("tokens.csv", {"arm": 1}, "arm"),
    ],
)
def test_what_no_address_takes_is_told_at_its_name(web, path, params, field):
    answer = get(web, f"/runs/{SPEC.key}/{path}", **params)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


@pytest.mark.parametrize(
    "path",
    [
        "/runs/{key}/nothing.csv",
        "/runs/0123/answers.csv",
        "/runs/{key}/decode/steps.csv",
        "/runs/0123.json",
    ],
)
def test_what_is_not_there_is_told(web, path):
    answer = get(web, path.format(key=SPEC.key))
    assert answer.status_code == 404
    assert answer.json()["errors"][0]["message"]


# ---- who may ask


READ = [
    "/docs",
    "/openapi.json",
    "/runs.json",
    f"/runs/{SPEC.key}.json",
    f"/runs/{SPEC.key}/answers.csv",
]


@pytest.mark.parametrize("path", READ)
def test_an_address_for_reading_takes_the_token_in_itself(web, path):
    assert get(web, path).status_code == 200
    for params in ({}, {"token": ""}, {"token": "wrong"}, {"token": TOKEN[:-1]}, {"Token": TOKEN}):
        assert web.get(path, params=params).status_code == 401
    assert web.get(path, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert (
        web.get(path, params={"token": TOKEN}, headers={"host": "evil.example"}).status_code == 403
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/runs"),
        ("GET", "/jobs"),
        ("GET", "/health"),
        ("GET", f"/runs/{SPEC.key}"),
        ("GET", f"/runs/{SPEC.key}/bundle"),
        ("GET", f"/runs/{SPEC.key}/answers"),
        ("GET", "/docs/x"),
        ("GET", "/runs.json/"),
        ("GET", "/runs/../jobs.json/x"),
        ("POST", "/runs.json"),
        ("POST", "/import"),
        ("DELETE", f"/runs/{SPEC.key}"),
        ("DELETE", f"/runs/{SPEC.key}.json"),
    ],
)
def test_no_other_address_does(web, method, path):
    answer = web.request(method, path, params={"token": TOKEN})
    assert answer.status_code == 401


def test_a_chosen_token_may_hold_any_sign(engine):
    token = "a+b&c=d%20/e" * 2
    web = TestClient(make_app(engine, token), "http://127.0.0.1")
    assert web.get("/runs.json", params={"token": token}).status_code == 200
    assert web.get(f"/runs.json?token={token}").status_code == 401  # cut at the ampersand


def test_a_wrong_header_is_not_made_good_by_the_address(web):
    answer = web.get("/runs.json", params={"token": TOKEN}, headers={"authorization": "Bearer x"})
    assert answer.status_code == 401


def test_the_token_is_told_to_nobody(web, engine, caplog, monkeypatch):
    def broken():
        raise RuntimeError("made to fail")

    monkeypatch.setattr(engine.results, "lines", broken)
    with caplog.at_level("DEBUG"):
        answer = get(web, "/runs.json")
    assert answer.status_code == 500
    ours = [record for record in caplog.records if not record.name.startswith("http")]
    assert ours
    assert TOKEN not in answer.text + "".join(map(str, (r.getMessage() for r in ours)))
    page = web.get(f"/runs/{SPEC.key}/tokens.json?token={TOKEN}&_size=5")
    assert TOKEN not in page.text
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["x-content-type-options"] == "nosniff"


# ---- the list of addresses


def test_every_address_stands_in_the_document_and_on_its_page(web):
    document = get(web, "/openapi.json").json()
    page = get(web, "/docs")
    for path in (
        "/runs.{form}",
        "/views.{form}",
        "/views/{id}.{form}",
        "/runs/{key}.json",
        "/runs/{key}.{form}",
        "/runs/{key}/{table}.{form}",
        "/runs/{key}/decode/{table}.{form}",
    ):
        assert "get" in document["paths"][path]
    for path in document["paths"]:
        assert f"<code>{path}</code>" in page.text
    assert "http" not in page.text.replace("text/html", "")  # nothing comes from elsewhere
    assert "<script" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["content-type"].startswith("text/html")


def test_what_a_document_says_is_shown_as_text():
    told = {
        "get": {"summary": "<script>x</script>", "parameters": [{"name": "<b>", "required": True}]}
    }
    page = forms.page({"info": {"title": "<i>", "version": "1"}, "paths": {"/<a>": told}}, "<u>")
    for raw in ("<script", "<b>&", "<i>", "<a>", "<u>"):
        assert raw not in page
