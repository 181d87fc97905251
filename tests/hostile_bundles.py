"""Bundles as somebody would make them up: each with words that its refusal must hold."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from test_bundles import parquet
from test_bundles_many import LABELS, VIEW

INFINITE = b'{"a": 1e999}'


def pack(found: dict[str, bytes], infos: dict | None = None, more: tuple = (), **manifest) -> bytes:
    """A zip whose manifest fits; `infos` name → attributes of its entry, `more` extra entries."""
    hashes = {n: hashlib.sha256(c).hexdigest() for n, c in found.items() if n != "manifest.json"}
    told = {"format": 2, "sha256": hashes} | manifest
    found = found | {"manifest.json": json.dumps(told).encode()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in [*found.items(), *more]:
            info = zipfile.ZipInfo(name)
            for field, value in (infos or {}).get(name, {}).items():
                setattr(info, field, value)
            archive.writestr(info, content, info.compress_type)
    return out.getvalue()


def signed(f: dict, **changes: bytes) -> bytes:
    """Members replaced ("map0_npy" for map0.npy) and the manifest made to fit."""
    names = {name.replace(".", "_"): name for name in f}
    new = {names[name]: content for name, content in changes.items()}
    return pack({n: c for n, c in f.items() if n != "manifest.json"} | new)


def told(f: dict, edit=None, **values) -> bytes:
    """run.json changed by `edit`, or with other values of its own."""
    about = json.loads(f["run.json"])
    (edit or dict.update)(about, **values)
    return signed(f, run_json=json.dumps(about).encode())


def part(f: dict, **values) -> bytes:
    return told(f, lambda about: about["parts"][0].update(values))


def placed(f: dict, at: int = 0, **values) -> bytes:
    """A map said to be of another place."""
    return told(f, lambda about: about["maps"][at].update(values))


def labels(f: dict, **values) -> bytes:
    return signed(f, map0_json=json.dumps(LABELS | values).encode())


def view(f: dict, **values) -> bytes:
    return signed(f, view_json=json.dumps(VIEW | values).encode())


def without(f: dict, name: str, **manifest) -> bytes:
    return pack({n: c for n, c in f.items() if n != name}, **manifest)


def hashes(f: dict) -> dict:
    return json.loads(f["manifest.json"])["sha256"]


def numbers(f: dict, values) -> bytes:
    """The first map's array replaced."""
    return signed(f, map0_npy=array(values))


def headed(f: dict, descr: str, shape: str, content: bytes = b"") -> bytes:
    """The first map's array with a header of one's own."""
    told = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}"
    return signed(f, map0_npy=header(told, content))


def array(values: np.ndarray, pickled: bool = False) -> bytes:
    out = io.BytesIO()
    np.save(out, values, allow_pickle=pickled)
    return out.getvalue()


def pickled() -> bytes:
    return array(np.array([[{}]], object), True)


def header(text: str, content: bytes = b"") -> bytes:
    body = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(body)) + body + content


def rows(f: dict, name: str, edit) -> bytes:
    """A table changed and signed anew."""
    found = pq.read_table(io.BytesIO(f[f"{name}.parquet"]))
    return signed(f, **{f"{name}_parquet": parquet(edit(found))})


def cells(f: dict, name: str, column: str, made, kind=None) -> bytes:
    """A column replaced: by a function of it, or by one value in every row."""

    def edit(table: pa.Table) -> pa.Table:
        at, old = table.schema.get_field_index(column), table.column(column)
        new = made(old) if callable(made) else pa.array([made] * len(old), kind)
        return table.set_column(at, column, new)

    return rows(f, name, edit)


def encrypted(f: dict) -> bytes:
    made = bytearray(pack(f))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = made.rindex(mark)
        made[place + at] |= 1
    return bytes(made)


NAN = float("nan")
EIGHT = {"memory": {"kind": "pooled"}}
HOSTILE = {
    "a path upwards": (lambda f: pack(f | {"../../x": b"x"}), "../../x"),
    "an absolute path": (lambda f: pack(f | {"/etc/passwd": b"x"}), "/etc/passwd"),
    "a drive's path": (lambda f: pack(f | {"C:\\x": b"x"}), "no bundle has"),
    "a folder": (lambda f: pack(f | {"part0/": b""}), "part0/"),
    "a digit of another script": (lambda f: pack(f | {"map٣.npy": b""}), "no bundle has"),
    "a changed byte": (
        lambda f: pack(f | {"map0.npy": f["map0.npy"][:-1] + b"?"}, sha256=hashes(f)),
        "map0.npy was changed",
    ),
    "a file is gone": (lambda f: without(f, "part1_tokens.parquet"), "part1_tokens"),
    "one that is named is gone": (
        lambda f: without(f, "view.json", sha256=hashes(f)),
        "lacks 'view.json'",
    ),
    "one that nobody names": (lambda f: pack(f, more=[("map9.npy", b"x")]), "map9.npy"),
    "one that belongs to nothing": (lambda f: pack(f | {"map9.json": b"x"}), "map9.json"),
    "a name twice": (lambda f: pack(f, more=[("run.json", b"{}")]), "run.json twice"),
    "a newer format": (lambda f: pack(f, format=3), "format '3'"),
    "a format of words": (lambda f: pack(f, format="two"), "format 'two'"),
    "a format that is a list": (lambda f: pack(f, format=[2]), "format"),
    "many told as one": (lambda f: pack(f, format=1), "run.json"),
    "a link": (
        lambda f: pack(f, {"view.json": {"external_attr": 0o120777 << 16, "create_system": 3}}),
        "view.json as a link",
    ),
    "an encrypted file": (encrypted, "encrypted"),
    "another packing": (
        lambda f: pack(f, {"view.json": {"compress_type": zipfile.ZIP_LZMA}}),
        "view.json packed",
    ),
    "a huge manifest": (lambda f: pack(f, filler="x" * 2_000_000), "manifest.json is larger"),
    "a manifest without hashes": (lambda f: pack(f, sha256=[]), "manifest.json"),
    "hashes that are no text": (
        lambda f: pack(f, sha256=dict.fromkeys(hashes(f), 3)),
        "was changed",
    ),
    "too many files": (lambda f: pack({f"map{i}.npy": b"" for i in range(5100)}), "files"),
    "a directory without end": (lambda f: pack(f) + b"PK\x01\x02" * 20_000, "files"),
    "run.json is a list": (lambda f: signed(f, run_json=b"[]"), "run.json"),
    "run.json is deep": (lambda f: signed(f, run_json=b'{"a":' * 40 + b"1" + b"}" * 40), "nested"),
    "run.json is very deep": (lambda f: signed(f, run_json=b"[" * 200_000), "run.json"),
    "run.json is infinite": (lambda f: signed(f, run_json=INFINITE), "1e999"),
    "run.json is no UTF-8": (lambda f: signed(f, run_json=b'{"a": "\xff"}'), "run.json"),
    "half a character": (lambda f: signed(f, run_json=b'{"a": "\\ud800"}'), "run.json"),
    "an endless number": (lambda f: signed(f, run_json=b'{"a": ' + b"9" * 5000 + b"}"), "digits"),
    "NaN in run.json": (lambda f: part(f, noise_floor=NAN), "NaN"),
    "infinity in run.json": (lambda f: part(f, provenance={"tokens": float("inf")}), "Infinity"),
    "a count of text": (lambda f: part(f, copies="24"), "copies"),
    "a negative count": (lambda f: part(f, tokens_expected=-1), "tokens_expected"),
    "a count that is true": (lambda f: part(f, copies=True), "copies"),
    "an unknown status": (lambda f: part(f, status="running"), "status"),
    "a title without end": (lambda f: part(f, title="x" * 1000), "title"),
    "a version that is markup": (lambda f: part(f, code_version="<b>"), "code_version"),
    "a key that is none": (lambda f: part(f, key=["x"]), "key"),
    "another's key": (lambda f: part(f, key="0" * 12), "key"),
    "another's spec": (lambda f: part(f, spec=EIGHT), "key"),
    "no spec": (lambda f: part(f, spec=None), "spec"),
    "costs of text": (lambda f: part(f, provenance={"wall_seconds": "long"}), "wall_seconds"),
    "libraries of a number": (lambda f: part(f, provenance={"libraries": 5}), "libraries"),
    "a library of a number": (
        lambda f: part(f, provenance={"libraries": {"torch": 5}}),
        "no table of texts",
    ),
    "weights of lists": (lambda f: part(f, provenance={"weights": []}), "weights"),
    "a self-check of text": (lambda f: part(f, provenance={"self_check": "x"}), "self_check"),
    "texts that are none": (lambda f: part(f, written={"worst": "x"}), "written"),
    "no runs": (lambda f: told(f, runs=[]), "runs must be"),
    "a run twice": (lambda f: told(f, lambda a: a["runs"].append(a["runs"][0])), "twice"),
    "its own control": (lambda f: told(f, runs=[[0, 0], [1, 2]]), "not there"),
    "a part that is not there": (
        lambda f: told(f, lambda a: a["runs"].append([7, None])),
        "not there",
    ),
    "a place before the first": (lambda f: told(f, runs=[[-1, 2], [1, 0]]), "not there"),
    "a run without place": (lambda f: told(f, lambda a: a["runs"].append([None, 2])), "pairs"),
    "a part of no run": (lambda f: told(f, lambda a: a["runs"].pop()), "belongs to no run"),
    "a control of another kind": (lambda f: told(f, runs=[[0, 1], [1, 2]]), "control"),
    "more fields": (lambda f: told(f, more=1), "run.json must have"),
    "a maker without end": (lambda f: told(f, made_by="x" * 99), "made_by"),
    "a map of no part": (lambda f: placed(f, part=9), "map0"),
    "a map of no layer": (lambda f: placed(f, layer=-1), "layer"),
    "a map of another copy": (lambda f: placed(f, shift=8), "shift"),
    "a map twice": (lambda f: told(f, lambda a: a["maps"][1].update(a["maps"][0])), "twice"),
    "a map without place": (lambda f: told(f, maps=["x"]), "map0"),
    "a pickle": (lambda f: signed(f, map0_npy=pickled()), "map0.npy"),
    "a pickle's header": (lambda f: headed(f, "|O", "(2, 3)"), "map0.npy"),
    "code for a header": (
        lambda f: signed(f, map0_npy=header("__import__('os').system('true')")),
        "map0.npy",
    ),
    "an array of 10 GB": (lambda f: headed(f, "<f2", "(100000, 50000)"), "map0.npy"),
    "an array of negative size": (lambda f: headed(f, "<f2", "(-2, -3)", b"0" * 12), "map0.npy"),
    "an array of floats": (lambda f: numbers(f, np.zeros((2, 3))), "float16"),
    "an array by columns": (
        lambda f: numbers(f, np.asfortranarray(np.zeros((2, 3), np.float16))),
        "map0.npy",
    ),
    "an empty array": (lambda f: numbers(f, np.zeros((0, 3), np.float16)), "map0.npy"),
    "a map with NaN": (lambda f: numbers(f, np.full((2, 3), NAN, np.float16)), "map0.npy"),
    "shares above one": (lambda f: numbers(f, np.full((2, 3), 2, np.float16)), "map0.npy"),
    "no array": (lambda f: signed(f, map0_npy=b"numbers"), "map0.npy"),
    "labels that do not fit": (lambda f: labels(f, key_stop=[1]), "key_stop"),
    "labels of text": (lambda f: labels(f, key_start=["a"] * 3), "key_start"),
    "labels of another kind": (lambda f: labels(f, key_kind=[[]] * 3), "key_kind"),
    "labels that are a list": (lambda f: signed(f, map0_json=b"[]"), "map0.json"),
    "a view that is a list": (lambda f: signed(f, view_json=b"[]"), "view.json"),
    "a view of more": (lambda f: view(f, script="x"), "view.json"),
    "a view whose state is text": (lambda f: view(f, state="x"), "state"),
    "a view of numbers": (lambda f: view(f, state={"a": 1}), "state"),
    "a view of a name of lists": (lambda f: view(f, name=["x"]), "name"),
    "a view without end": (lambda f: view(f, note="x" * 300_000), "view.json"),
    "tags that are text": (lambda f: view(f, tags="abc"), "tags"),
    "wider numbers": (
        lambda f: cells(f, "part0_answers", "sample", lambda c: c.cast(pa.int64())),
        "sample is int64, not int32",
    ),
    "numbers as text": (
        lambda f: cells(f, "part0_answers", "sample", lambda c: c.cast(pa.string())),
        "part0_answers",
    ),
    "nested columns": (lambda f: cells(f, "part0_answers", "sample", {"a": 1}), "part0_answers"),
    "lists of lists": (lambda f: cells(f, "part0_answers", "token_ranks", [[1]]), "part0_answers"),
    "a column more": (
        lambda f: rows(f, "part0_tokens", lambda t: t.append_column("more", t["rank"])),
        "other columns",
    ),
    "infinite rows": (
        lambda f: cells(f, "part1_answers", "logprob", float("-inf")),
        "part1_answers.parquet: logprob",
    ),
    "NaN in a list": (
        lambda f: cells(f, "part1_answers", "token_logprobs", [NAN, 0.0]),
        "token_logprobs",
    ),
    "an answer surer than sure": (
        lambda f: cells(f, "part0_answers", "logprob", 0.01),
        "logprob is above 0",
    ),
    "a token surer than sure": (
        lambda f: cells(f, "part0_tokens", "logprob", 0.01, pa.float32()),
        "logprob is above 0",
    ),
    "answer tokens surer than sure": (
        lambda f: cells(f, "part0_answers", "token_logprobs", [-1.0, 2.0]),
        "token_logprobs is above 0",
    ),
    "empty cells in a list": (
        lambda f: cells(f, "part1_answers", "token_ranks", [None, 0], pa.list_(pa.int32())),
        "token_ranks",
    ),
    "rows of another grid": (
        lambda f: cells(f, "part2_tokens", "residue", 8, pa.int32()),
        "residue",
    ),
    "no Parquet": (lambda f: signed(f, part0_tokens_parquet=b"PAR1PAR1"), "part0_tokens"),
    "half a Parquet": (
        lambda f: signed(f, part0_tokens_parquet=f["part0_tokens.parquet"][:-50]),
        "part0_tokens",
    ),
    "a sweep's rows for another": (
        lambda f: signed(f, part0_tokens_parquet=f["part0_answers.parquet"]),
        "part0_tokens",
    ),
}
