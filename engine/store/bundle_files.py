"""The files inside a bundle: what of a zip may be unpacked, and what of JSON and Parquet is read.

Everything here comes from elsewhere and is doubted: names, sizes, hashes, numbers.  Knows archives
and their members; knows nothing of what a member means.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import math
import re
import stat
import tempfile
import zipfile
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.registry import FieldError, SpecError

MANIFEST, ABOUT, VIEW = "manifest.json", "run.json", "view.json"
FORMATS = (1, 2)  # of these the older carries one run and its control
MEMBER = re.compile(
    r"(manifest|run|view)\.json|map[0-9]{1,4}\.(npy|json)"
    r"|(run|control|part[0-9]{1,3})_(answers|tokens|predictions|decode_[a-z]{1,12})\.parquet"
)
MAX_UNPACKED = 2 << 30  # bytes of all members, and of all tables once they are read
MAX_MEMBERS = 5000
MAX_MANIFEST, MAX_JSON = 1 << 20, 64 << 20
SUM, TERMS = "logprob", "token_logprobs"  # of an answer, and of each of its tokens
SAID_ONCE = b"left_out"
DEPTH = 24  # of nested lists and objects; a spec needs six
DECLARED = """
    select sum(total_uncompressed_size), sum(num_values),
        min(least(total_uncompressed_size, num_values))
    from parquet_metadata(?)
"""
DIRECTORY = b"PK\x01\x02"  # starts an entry of a zip's directory
ENCRYPTED = 1


def refuse(message: str) -> SpecError:
    return SpecError(FieldError("bundle", f"{message}; nothing was imported"))


def unpack(bundle: bytes) -> tuple[int, dict[str, bytes]]:
    """The format and all members but the manifest, as they were when they were packed."""
    if bundle.count(DIRECTORY) > 2 * MAX_MEMBERS:
        raise refuse(f"holds more than {MAX_MEMBERS} files, which no bundle does")
    try:
        archive = zipfile.ZipFile(io.BytesIO(bundle))
        infos = archive.infolist()
    except Exception as error:
        # A made-up archive can break a reader in any of a dozen ways; all of them mean the same.
        told = f"is no readable zip file ({type(error).__name__}: {str(error)[:200]})"
        raise refuse(told) from None
    _check_infos(infos)
    names = [info.filename for info in infos]
    if MANIFEST not in names:
        raise refuse("has no manifest.json; is it a Phasescope export?")
    manifest = read_json(_member(archive, MANIFEST, MAX_MANIFEST, "1 MB"), MANIFEST)
    wanted = manifest.get("sha256") if isinstance(manifest, dict) else None
    if not isinstance(wanted, dict):
        raise refuse("manifest.json is not as a bundle's")
    if (found := manifest.get("format")) not in FORMATS or isinstance(found, bool):
        raise refuse(
            f"manifest.json has format {str(found)[:20]!r}, this Phasescope reads up to "
            f"{FORMATS[-1]}; update it, or export again from there"
        )
    for name in sorted(set(wanted) - set(names)):
        raise refuse(f"lacks {name[:80]!r}, which its manifest names")
    for name in sorted(set(names) - set(wanted) - {MANIFEST}):
        raise refuse(f"holds {name!r}, which its manifest does not name")
    if ABOUT not in wanted:
        raise refuse("has no run.json")
    files, left = {}, MAX_UNPACKED
    for name, digest in wanted.items():
        # The declared size may lie: stop reading at the cap, whatever the header says.
        files[name] = _member(archive, name, left)
        left -= len(files[name])
        if hashlib.sha256(files[name]).hexdigest() != digest:
            raise refuse(f"{name} was changed: its sha256 is not the manifest's")
    return int(found), files


def _check_infos(infos: list[zipfile.ZipInfo]) -> None:
    if len(infos) > MAX_MEMBERS:
        raise refuse(f"holds {len(infos)} files; a bundle has at most {MAX_MEMBERS}")
    known = set()
    for info in infos:
        name = info.filename
        if not MEMBER.fullmatch(name):
            raise refuse(f"holds a file that no bundle has: {name[:80]!r}")
        if name in known:
            raise refuse(f"holds {name} twice")
        known.add(name)
        if stat.S_ISLNK(info.external_attr >> 16):
            raise refuse(f"holds {name} as a link to another file")
        if info.flag_bits & ENCRYPTED:
            raise refuse(f"holds {name} encrypted; a bundle has no password")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise refuse(f"holds {name} packed in a way that no bundle uses")
    check_size(sum(info.file_size for info in infos))


def _member(archive: zipfile.ZipFile, name: str, most: int, cap: str = "") -> bytes:
    try:
        with archive.open(name) as file:
            content = file.read(most + 1)
    except Exception as error:
        told = f"{name} cannot be unpacked ({type(error).__name__}: {str(error)[:200]})"
        raise refuse(told) from None
    if cap and len(content) > most:
        raise refuse(f"{name} is larger than {cap}")
    check_size(len(content), most)
    return content


def check_size(found: int, most: int | None = None) -> None:
    if found > (MAX_UNPACKED if most is None else most):
        raise refuse(f"unpacks to more than the cap of {MAX_UNPACKED / 2**30:.3g} GB")


# ---- JSON


def read_json(content: bytes, name: str, most: int = MAX_JSON) -> Any:
    """JSON without NaN, endless numbers, half characters or depths that no reader of ours takes."""
    if len(content) > most:
        raise refuse(f"{name} is larger than {most / 2**20:g} MB")
    try:
        found = json.loads(content, parse_constant=_never, parse_float=_finite, parse_int=_whole)
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        why = f" ({error})" if isinstance(error, _Number) else ""
        raise refuse(f"{name} is no JSON that can be read{why}") from None
    if _deep(found):
        raise refuse(f"{name} is nested more than {DEPTH} deep")
    return found


class _Number(ValueError):
    """A number that no file of ours holds."""


def _never(text: str) -> float:
    raise _Number(f"it holds {text}")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _never(text[:40])


def _whole(text: str) -> int:
    return int(text) if len(text) < 20 else _never(f"a number of {len(text)} digits")


def _deep(value: Any) -> bool:
    level, depth = [value], 0
    while level:
        depth += 1
        level = [
            item
            for part in level
            if isinstance(part, dict | list)
            for item in (part.values() if isinstance(part, dict) else part)
        ]
        if depth > DEPTH:
            return True
    return False


# ---- Parquet


def parquet(table: pa.Table, level: int = 3) -> bytes:
    """Zstandard over Parquet; floats by their bytes' places, which takes a third off their size."""
    table = _said_once(table)
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
        compression_level=level,
        use_dictionary=others,
        column_encoding=dict.fromkeys(floats, "BYTE_STREAM_SPLIT"),
    )
    return out.getvalue()


def _said_once(table: pa.Table) -> pa.Table:
    """Without the sums of one-token answers, which their only token's number is again."""
    if not {SUM, TERMS} <= set(table.column_names) or not len(table):
        return table
    terms, sums = pc.list_flatten(table[TERMS]), table[SUM]
    single = pc.all(pc.equal(pc.list_value_length(table[TERMS]), 1)).as_py()
    if not single or sums.null_count or not terms.equals(sums):
        return table
    at = table.column_names.index(SUM)
    left_out = table.set_column(at, table.field(SUM), pa.nulls(len(table), sums.type))
    return left_out.replace_schema_metadata({SAID_ONCE: SUM})


def _said_again(rows: pa.Table) -> pa.Table:
    """What `_said_once` left out; rows that lack it otherwise stay as they are, and are refused."""
    terms, at = pc.list_flatten(rows[TERMS]), rows.column_names.index(SUM)
    if len(terms) != len(rows) or rows[SUM].null_count != len(rows):
        return rows
    return rows.set_column(at, rows.field(SUM), terms)


def read_table(member: str, schema: pa.Schema, files: dict[str, bytes]) -> pa.Table:
    """A member's rows, which must have exactly these columns and types."""
    if member not in files:
        raise refuse(f"lacks {member}")
    try:
        return _rows(member, schema, files[member])
    except SpecError:
        raise
    except Exception:
        raise refuse(f"{member} is no readable Parquet table") from None


def _rows(member: str, schema: pa.Schema, content: bytes) -> pa.Table:
    found = pq.ParquetFile(io.BytesIO(content)).schema_arrow
    if found.names != schema.names:
        raise refuse(f"{member} has other columns than this version")
    for name in schema.names:
        if found.field(name).type != schema.field(name).type:
            told = f"{member}: {name} is {found.field(name).type}, not {schema.field(name).type}"
            raise refuse(told)
    # Packed again inside Parquet: ask before unpacking, of bytes and of values, which may be
    # encoded in fewer bits than they take in memory.
    size, values, least = _declared(content)
    if least < 0:
        raise refuse(f"{member} is no readable Parquet table")
    check_size(size)
    check_size(8 * values)
    # A long text may stand in a table once and in a million rows: it is measured before that.
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    rows = pq.ParquetFile(io.BytesIO(content), read_dictionary=texts).read()
    check_size(rows.nbytes)
    for name in texts:
        at, column = schema.get_field_index(name), rows.column(name)
        check_size(sum(_unfolded(chunk) for chunk in column.chunks))
        rows = rows.set_column(at, schema.field(name), column.cast(pa.string()))
    if (found.metadata or {}).get(SAID_ONCE) == SUM.encode() and {SUM, TERMS} <= set(
        rows.column_names
    ):
        rows = _said_again(rows)
    return rows.cast(schema)


def _declared(content: bytes) -> tuple[int, int, int]:
    """Bytes unpacked and values of all column chunks as the file declares them, and the least of
    either.

    DuckDB reads them: of a damaged file pyarrow's own description ends the whole process (an
    exception in `row_group` and `column` that nothing catches), while its reading raises.
    """
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        file.write(content)
        file.flush()
        told = _reader().cursor().execute(DECLARED, [file.name]).fetchone()
    size, values, least = (int(number or 0) for number in told)
    return size, values, least


@functools.cache
def _reader() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"python_enable_replacements": "false", "threads": 1})


def _unfolded(chunk: pa.DictionaryArray) -> int:
    """Bytes of a column of texts once each stands in its rows."""
    if not pa.types.is_dictionary(chunk.type) or not len(chunk.dictionary):
        return chunk.nbytes
    longest = pc.max(pc.binary_length(chunk.dictionary)).as_py() or 0
    if longest * len(chunk) < MAX_UNPACKED // 8:
        return longest * len(chunk)
    return pc.sum(pc.take(pc.binary_length(chunk.dictionary), chunk.indices)).as_py() or 0
