"""A run inside a bundle: its description and its tables, checked against its own spec.

Statistics must trust stored rows, so what no run of a spec could have written is refused.  Knows
kinds of run and their tables; knows nothing of archives.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.kinds import DECODE, KVPRESS, kind_of, read_spec
from engine.registry import SpecError
from engine.rows import ANSWERS, TOKENS
from engine.specs import SweepSpec
from engine.store import decode_bundles, predictions
from engine.store.bundle_files import read_table, refuse
from engine.store.bundle_maps import CarriedMap
from engine.store.ledger import Run
from engine.store.store import Store

SCHEMAS = {"answers": ANSWERS, "tokens": TOKENS}
CARRIED = (
    "title", "status", "copies", "answers_expected", "tokens_expected", "noise_floor",
    "provenance", "written",
)  # fmt: skip
TYPES = {
    "key": str, "title": str, "status": str, "code_version": str, "copies": int,
    "answers_expected": int, "tokens_expected": int, "noise_floor": float | int | None,
    "provenance": dict, "written": dict | None,
}  # fmt: skip
STATUSES = ("done", "incomplete", "cancelled", "failed")
NUMBERS = (
    "overall", "tokens", "wall_seconds", "tokens_per_second", "jobs", "peak_memory_bytes",
    "threads", "seed",
)  # fmt: skip
WORDS = (
    "model", "revision", "weights", "tokenizer", "dtype", "device", "code_version", "python",
    "platform",
)  # fmt: skip
TABLES = {"libraries": str, "self_check": float | int}  # of texts, of numbers
VERSION = re.compile(r"[0-9a-z]{1,40}(\+[0-9a-z]{1,40})?")
TITLE, TEXT = 300, 100_000  # characters


class Part(NamedTuple):
    """A run as it travels: `about` is its row of the ledger."""

    about: dict
    spec: Any
    tables: dict[str, pa.Table]
    maps: tuple[CarriedMap, ...] = ()


# ---- out


def describe(store: Store, run: Run) -> dict:
    """What is told of a run beside its rows."""
    about = {"key": run.key, "spec": store.spec(run.key), "code_version": run.code_version}
    about |= {field: getattr(run, field) for field in CARRIED}
    if run.status not in STATUSES:  # a control that is at work again
        about["status"] = "incomplete"
    return about


def tables(store: Store, run: Run) -> dict[str, pa.Table]:
    """Table → everything that is stored of a run."""
    if run.kind == DECODE:
        return decode_bundles.tables(store, run)
    if run.kind == KVPRESS:
        return {"predictions": store.predictions(run.id)}
    own, scan = (store.answers_table(run.id, scan) for scan in (False, True))
    return {"answers": pa.concat_tables([own, scan]), "tokens": store.tokens(run.id)}


# ---- in


def insert(store: Store, cursor, run: int, part: Part) -> None:
    """The part's rows under a run's id, within a transaction."""
    if kind_of(part.spec) == DECODE:
        rows = dict(part.tables)
        store._insert_decode(cursor, run, rows, rows.pop("decode_parts"))
    elif kind_of(part.spec) == KVPRESS:
        store._insert_predictions(cursor, run, part.tables["predictions"])
    else:
        store._insert(cursor, run, part.tables["answers"], part.tables["tokens"], False)


def read_part(name: str, told: str, about: object, files: dict[str, bytes], leads: bool) -> Part:
    """The part whose files begin with `name`; `told` names it in refusals.

    leads: false for a part that is only another run's control.
    """
    _check_about(told, about)
    try:
        spec = read_spec(about["spec"])
    except SpecError as error:
        raise refuse(f"run.json: the spec of {told} is refused: {error}") from None
    kind = kind_of(spec)
    if kind in (DECODE, KVPRESS) and not leads:
        raise refuse(f"run.json: a {kind} run is no other run's control")
    if spec.key != about["key"] and isinstance(spec, SweepSpec):
        spec = SweepSpec(**{**vars(spec), "control": None})
    if spec.key != about["key"]:
        raise refuse(f"run.json: the key {about['key'][:40]!r} of {told} is not that of its spec")
    columns = {DECODE: decode_bundles.columns, KVPRESS: _predictions}.get(kind, lambda: SCHEMAS)()
    rows = {t: read_table(f"{name}_{t}.parquet", columns[t], files) for t in columns}
    if kind == DECODE:
        problem = decode_bundles.unsound(rows, about, spec)
    elif kind == KVPRESS:
        problem = predictions.unsound(rows["predictions"])
    else:
        found = ((f"{name}_{t}.parquet: ", unsound(table, spec)) for t, table in rows.items())
        problem = next((where + what for where, what in found if what), "")
    if problem:
        raise refuse(f"the rows of {told} are not those of its spec: {problem}")
    return Part(about, spec, rows)


def _predictions() -> dict[str, pa.Schema]:
    return {"predictions": predictions.PREDICTIONS}


def whole(part: Part) -> int:
    """How many answers (parts of a decode run) a whole run has, by its spec and not by its word."""
    if kind_of(part.spec) == DECODE:
        return part.spec.parts
    if kind_of(part.spec) == KVPRESS:
        return part.tables["predictions"].num_rows
    scan = pc.sum(pc.not_equal(part.tables["answers"]["layer"], -1)).as_py() or 0
    return part.spec.settings.samples * _residues(part.spec) + scan


def _residues(spec: SweepSpec) -> int:
    return 2 if spec.settings.protocol == "pair" else spec.settings.modulus


def unsound(rows: pa.Table, spec: SweepSpec) -> str:
    """What no sweep of this spec could have written, or ""."""
    residues = _residues(spec)
    limits = {"sample": spec.settings.samples, "shift": residues, "residue": residues}
    if not rows.num_rows:
        return ""
    for name in rows.column_names:
        column = rows.column(name)
        lists = pa.types.is_list(column.type)
        flat = pc.list_flatten(column) if lists else column
        if column.null_count or flat.null_count:
            return f"{name} has empty cells"
        if name in limits:
            low, high = pc.min_max(column).as_py().values()
            if low < 0 or high >= limits[name]:
                return f"{name} is not from 0 to {limits[name] - 1}"
        if pa.types.is_floating(flat.type) and not _finite(flat):
            return f"{name} is not finite"
        if "logprob" in name and (pc.max(flat).as_py() or 0) > decode_bundles.CERTAIN:
            return f"{name} is above 0"
    key = ["sample", "shift", "layer" if "layer" in rows.column_names else "position"]
    if not _rising(rows, key) and rows.group_by(key).aggregate([]).num_rows != rows.num_rows:
        return "a copy is there twice"
    if "token_ranks" in rows.column_names:
        names = ("token_ranks", "token_logprobs", "token_residues")
        first, *others = [pc.list_value_length(rows.column(name)) for name in names]
        if pc.min(first).as_py() == 0 or any(not other.equals(first) for other in others):
            return "the columns of answer tokens differ in length or are empty"
    return ""


def _finite(values: pa.ChunkedArray) -> bool:
    return len(values) == 0 or bool(pc.all(pc.is_finite(values)).as_py())


def _rising(rows: pa.Table, key: list[str]) -> bool:
    """Whether the rows are in order of three whole numbers, no two alike: as they are exported."""
    sample, shift, last = (rows.column(name).to_numpy().astype(np.int64) for name in key)
    if max(sample.max(), shift.max()) >= 1 << 15 or last.min() < -1:
        return False
    place = (sample << 48) + (shift << 33) + last
    return bool((np.diff(place) > 0).all())


def _check_about(told: str, about: object) -> None:
    if not isinstance(about, dict) or not {*TYPES, "spec"} <= set(about):
        raise refuse(f"run.json lacks fields of {told}")
    for field, kind in TYPES.items():
        if not _is(about[field], kind):
            raise refuse(f"run.json: {field} is of the wrong type")
    for field in ("copies", "answers_expected", "tokens_expected"):
        if not 0 <= about[field] < 2**31:
            raise refuse(f"run.json: {field} is out of range")
    if about["status"] not in STATUSES:
        raise refuse(f"run.json: status {about['status'][:40]!r} is unknown")
    if len(about["title"]) > TITLE:
        raise refuse(f"run.json: the title of {told} has more than {TITLE} characters")
    if not VERSION.fullmatch(about["code_version"]):
        raise refuse(f"run.json: code_version of {told} is none")
    _check_made(told, about["provenance"])
    _check_written(told, about["written"])


def _check_made(told: str, made: dict) -> None:
    """What is known of a run's making has its type where it is given; pages rely on it."""
    for names, kind, what in ((NUMBERS, float | int, "number"), (WORDS, str, "text")):
        for name in names:
            if made.get(name) is not None and not _is(made[name], kind):
                raise refuse(f"run.json: provenance.{name} of {told} is no {what}")
    for name, kind in TABLES.items():
        values = made.get(name)
        if values is None:
            continue
        if not isinstance(values, dict) or not all(_is(value, kind) for value in values.values()):
            what = "texts" if kind is str else "numbers"
            raise refuse(f"run.json: provenance.{name} of {told} is no table of {what}")


def _is(value: object, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _check_written(told: str, written: dict | None) -> None:
    """Texts at the worst and the best phase, as the queue keeps them."""
    for name, found in (written or {}).items():
        fine = (
            name in ("worst", "best")
            and isinstance(found, dict)
            and set(found) == {"phase", "text"}
            and type(found["phase"]) is int
            and isinstance(found["text"], str)
            and len(found["text"]) <= TEXT
        )
        if not fine:
            raise refuse(f"run.json: written of {told} is not as a run's")
