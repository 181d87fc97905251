"""One file that carries a run to another machine: a zip of Parquet, run.json and a sha256 manifest.

Everything in a bundle that comes from elsewhere is doubted: names, sizes, hashes, columns, the key
of the spec.  Knows the format; knows nothing of HTTP or of how a run is computed.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.kinds import DECODE, kind_of, read_spec
from engine.registry import FieldError, SpecError
from engine.rows import ANSWERS, TOKENS
from engine.specs import SweepSpec
from engine.store import decode_bundles
from engine.store.ledger import Run
from engine.store.store import Store

FORMAT = 1
MANIFEST = "manifest.json"
PARTS = ("run", "control")
MEMBERS = {"run.json"} | {f"{p}_{t}.parquet" for p in PARTS for t in ("answers", "tokens")}
MEMBERS |= {f"run_{table}.parquet" for table in decode_bundles.NAMES}
MAX_UNPACKED = 2 << 30
MAX_MEMBERS = 16
SCHEMAS = {"answers": ANSWERS, "tokens": TOKENS}
CARRIED = (
    "title", "status", "copies", "answers_expected", "tokens_expected", "noise_floor",
    "provenance", "written",
)  # fmt: skip


class Part(NamedTuple):
    """A run inside a bundle: its own or its control's."""

    about: dict
    spec: Any  # SweepSpec or DecodeSpec
    tables: dict[str, pa.Table]


def refuse(message: str) -> SpecError:
    return SpecError(FieldError("bundle", message))


# ---- out


def export_run(store: Store, run: Run, alone: bool = False) -> bytes:
    """The run and its control as one zip; `alone` leaves the control out."""
    parts = {"run": run}
    if run.control_run is not None and not alone:
        parts["control"] = store.run(run.control_run)
    files, about = {}, {}
    for name, part in parts.items():
        spec = store.spec(part.key)
        about[name] = {"key": part.key, "spec": spec, "code_version": part.code_version}
        about[name] |= {field: getattr(part, field) for field in CARRIED}
        files |= {f"{name}_{t}.parquet": _parquet(rows) for t, rows in _tables(store, part).items()}
    files["run.json"] = json.dumps(about, indent=1).encode()
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    files[MANIFEST] = json.dumps({"format": FORMAT, "sha256": hashes}, indent=1).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted(files.items()):
            # A fixed date: the same run exports to the same bytes.
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            archive.writestr(info, content)
    return out.getvalue()


def _tables(store: Store, run: Run) -> dict[str, pa.Table]:
    if run.kind == DECODE:
        return decode_bundles.tables(store, run)
    own, scan = (store.answers_table(run.id, scan) for scan in (False, True))
    return {"answers": pa.concat_tables([own, scan]), "tokens": store.tokens(run.id)}


def _parquet(table: pa.Table) -> bytes:
    """Zstandard over Parquet; floats by their bytes' places, which takes a third off their size."""
    floats, others = [], []
    for field in table.schema:
        inner = field.type.value_type if pa.types.is_list(field.type) else field.type
        path = field.name if inner is field.type else f"{field.name}.list.element"
        (floats if pa.types.is_floating(inner) else others).append(path)
    out = io.BytesIO()
    pq.write_table(
        table,
        out,
        compression="zstd",
        compression_level=9,
        use_dictionary=others,
        column_encoding=dict.fromkeys(floats, "BYTE_STREAM_SPLIT"),
    )
    return out.getvalue()


# ---- in


def import_run(store: Store, bundle: bytes, source: str = "import") -> dict:
    """Check a bundle, then add its runs in one transaction: {key, added}.

    Adds nothing when the same key and code version is stored already; raises SpecError naming the
    file that is wrong.
    """
    parts = read(bundle, shipped=source == "preset")
    own = parts["run"].about
    for have in store.runs_of(own["key"]):
        # A shipped result and the user's own stand side by side: only like hides like.
        like = (have.source == "preset") == (source == "preset")
        # Another bundle's control may have the same key; it is not this run and has no text.
        whole = have.asked and have.status == "done"
        if like and whole and have.code_version == own["code_version"]:
            return {"key": own["key"], "added": False}
    with store.writing() as cursor:
        _clear(store, cursor, own, source)
        # The control travels with its run and is not shared: another machine's may differ in bits.
        control = _add(store, cursor, parts["control"], source) if "control" in parts else None
        run = _add(store, cursor, parts["run"], source)
        store._change(cursor, run, {"control_run": control, "asked": True})
    for id in {run, control} - {None}:
        if not store.verify(id):
            store.change(id, status="incomplete", reason="the bundle held fewer rows than expected")
    for part in parts.values():
        store.remember(part.spec)
    return {"key": own["key"], "added": True}


def _clear(store: Store, cursor, about: dict, source: str) -> None:
    """Make room: an incomplete earlier import, and a preset's results of older code."""
    for have in store.runs_of(about["key"]):
        same = have.code_version == about["code_version"]
        if have.asked and have.source == source and (same or source == "preset"):
            store._drop(cursor, have.id)
            control = have.control_run and store.run(have.control_run)
            if control and not control.asked:  # else it is a result of its own
                store._drop(cursor, control.id)


def _add(store: Store, cursor, part: Part, source: str) -> int:
    about = part.about
    kind, words = kind_of(part.spec), (about["code_version"], source, about["title"])
    run = store._new_run(cursor, about["key"], *words, False, kind)
    if kind == DECODE:
        rows = dict(part.tables)
        store._insert_decode(cursor, run, rows, rows.pop("decode_parts"))
    else:
        store._insert(cursor, run, part.tables["answers"], part.tables["tokens"], False)
    store._change(cursor, run, {field: about[field] for field in CARRIED} | {"reason": ""})
    return run


def read(bundle: bytes, shipped: bool = False) -> dict[str, Part]:
    """Every check that needs no store; a shipped result may lack its control."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(bundle))
        files = _unpack(archive)
    except SpecError:
        raise
    except Exception as error:
        # A made-up archive can break a reader in any of a dozen ways; all of them mean the same.
        kind = type(error).__name__
        raise refuse(f"is no readable zip file ({kind}: {error}); nothing was imported") from None
    about = _json(files["run.json"], "run.json")
    if not isinstance(about, dict) or "run" not in about or not set(about) <= set(PARTS):
        raise refuse("run.json must describe a run and at most its control; nothing was imported")
    parts = {name: _part(name, about[name], files) for name in about}
    used = {f"{name}_{table}.parquet" for name, part in parts.items() for table in part.tables}
    for name in sorted(set(files) - used - {"run.json"}):
        raise refuse(f"holds {name!r}, which belongs to no run in it; nothing was imported")
    control = read_spec(parts["run"].about["spec"]).control
    expected = control.key if control else None
    found = parts["control"].about["key"] if "control" in parts else None
    if found != expected and not (shipped and found is None):
        raise refuse(f"its control is {found}, the spec asks for {expected}; nothing was imported")
    return parts


def _unpack(archive: zipfile.ZipFile) -> dict[str, bytes]:
    infos = archive.infolist()
    names = [info.filename for info in infos]
    strange = [name for name in names if name not in MEMBERS | {MANIFEST}]
    if strange:
        raise refuse(f"holds a file that no bundle has: {strange[0][:80]!r}; nothing was imported")
    if len(infos) > MAX_MEMBERS or len(set(names)) != len(names):
        raise refuse("holds a name twice; nothing was imported")
    if MANIFEST not in names:
        raise refuse("has no manifest.json; is it a Phasescope export? nothing was imported")
    _size(sum(info.file_size for info in infos))
    manifest = _json(_member(archive, MANIFEST, 1 << 20), MANIFEST)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("sha256"), dict):
        raise refuse("manifest.json is not as a bundle's; nothing was imported")
    if manifest.get("format") != FORMAT:
        raise refuse(
            f"has format {manifest.get('format')!r}, this Phasescope reads {FORMAT}; update it, or "
            "export again from there; nothing was imported"
        )
    wanted = manifest["sha256"]
    for name in sorted(set(wanted) - set(names)):
        raise refuse(f"lacks {str(name)[:80]!r}, which its manifest names; nothing was imported")
    for name in sorted(set(names) - set(wanted) - {MANIFEST}):
        raise refuse(f"holds {name!r}, which its manifest does not name; nothing was imported")
    if "run.json" not in wanted:
        raise refuse("has no run.json; nothing was imported")
    files, left = {}, MAX_UNPACKED
    for name, digest in wanted.items():
        # The declared size may lie: stop reading at the cap, whatever the header says.
        files[name] = _member(archive, name, left)
        left -= len(files[name])
        if hashlib.sha256(files[name]).hexdigest() != digest:
            raise refuse(
                f"{name} was changed: its sha256 is not the manifest's; nothing was imported"
            )
    return files


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    with archive.open(name) as file:
        content = file.read(most + 1)
    _size(len(content), most)
    return content


def _size(found: int, most: int = MAX_UNPACKED) -> None:
    if found > most:
        cap = f"{MAX_UNPACKED >> 30} GB"
        raise refuse(f"unpacks to more than the cap of {cap}; nothing was imported")


def _json(content: bytes, name: str) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise refuse(f"{name} is no JSON; nothing was imported") from None


def _part(name: str, about: object, files: dict[str, bytes]) -> Part:
    needed = {"key", "spec", "code_version", *CARRIED}
    if not isinstance(about, dict) or not needed <= set(about):
        raise refuse(f"run.json lacks fields of the {name}; nothing was imported")
    _types(about)
    try:
        spec = read_spec(about["spec"])
    except SpecError as error:
        raise refuse(f"the {name}'s spec is refused: {error}; nothing was imported") from None
    decode = kind_of(spec) == DECODE
    if decode and name != "run":
        raise refuse("a decode run is no other run's control; nothing was imported")
    if spec.key != about["key"] and not decode:
        spec = SweepSpec(**{**vars(spec), "control": None})
    if spec.key != about["key"]:
        raise refuse(
            f"the {name}'s key {about['key']!r} is not that of its spec; nothing was imported"
        )
    columns = decode_bundles.columns() if decode else SCHEMAS
    tables = {t: _table(f"{name}_{t}.parquet", columns[t], files) for t in columns}
    part = Part(about, spec, tables)
    if decode:
        problem = decode_bundles.unsound(tables, about, spec)
    else:
        problem = next(filter(None, (unsound(rows, spec) for rows in tables.values())), "")
    if problem:
        raise refuse(
            f"the {name}'s rows are not those of its spec: {problem}; nothing was imported"
        )
    return part


def unsound(rows: pa.Table, spec: SweepSpec) -> str:
    """What no sweep of this spec could have written, or "": statistics must trust stored rows."""
    asked = spec.settings
    residues = 2 if asked.protocol == "pair" else asked.modulus
    limits = {"sample": asked.samples, "shift": residues, "residue": residues}
    if not rows.num_rows:
        return ""
    for name in rows.column_names:
        column = rows.column(name)
        lists = pa.types.is_list(column.type)
        if column.null_count or (lists and pc.list_flatten(column).null_count):
            return f"{name} has empty cells"
        if name in limits:
            low, high = pc.min_max(column).as_py().values()
            if low < 0 or high >= limits[name]:
                return f"{name} is not from 0 to {limits[name] - 1}"
        if pa.types.is_floating(column.type) and not pc.all(pc.is_finite(column)).as_py():
            return f"{name} is not finite"
    key = ["sample", "shift", "layer" if "layer" in rows.column_names else "position"]
    if rows.group_by(key).aggregate([]).num_rows != rows.num_rows:
        return "a copy is there twice"
    if "token_ranks" in rows.column_names:
        names = ("token_ranks", "token_logprobs", "token_residues")
        first, *others = [pc.list_value_length(rows.column(name)) for name in names]
        if pc.min(first).as_py() == 0 or any(not other.equals(first) for other in others):
            return "the columns of answer tokens differ in length or are empty"
    return ""


def _types(about: dict) -> None:
    kinds = {
        "title": str, "status": str, "code_version": str, "copies": int, "answers_expected": int,
        "tokens_expected": int, "noise_floor": float | int | None, "provenance": dict,
        "written": dict | None,
    }  # fmt: skip
    for field, kind in kinds.items():
        if not isinstance(about[field], kind) or isinstance(about[field], bool):
            raise refuse(f"run.json: {field} is of the wrong type; nothing was imported")
    for field in ("copies", "answers_expected", "tokens_expected"):
        if not 0 <= about[field] < 2**31:
            raise refuse(f"run.json: {field} is out of range; nothing was imported")
    if about["status"] not in ("done", "incomplete", "cancelled", "failed"):
        raise refuse(f"run.json: status {about['status'][:40]!r} is unknown; nothing was imported")


def _table(member: str, schema: pa.Schema, files: dict[str, bytes]) -> pa.Table:
    if member not in files:
        raise refuse(f"lacks {member}; nothing was imported")
    try:
        # Sizes inside Parquet are compressed again: ask before unpacking.
        reader = pq.ParquetFile(io.BytesIO(files[member]))
        meta = reader.metadata
        _size(sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups)))
        if reader.schema_arrow.names != schema.names:
            raise refuse(f"{member} has other columns than this version; nothing was imported")
        return reader.read().cast(schema)
    except SpecError:
        raise
    except Exception:
        raise refuse(f"{member} is no readable Parquet table; nothing was imported") from None
