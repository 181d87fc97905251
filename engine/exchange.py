"""What the service's endpoints share: text that any file can hold, and tables as Arrow."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from fastapi import Response

from engine.registry import FieldError, SpecError

ARROW = "application/vnd.apache.arrow.stream"


def check_text(values: dict) -> dict:
    """Refuse text that no file or page could hold: half of a surrogate pair."""
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        where = _broken(values) or ()
        cut = next((i for i, part in enumerate(where) if type(part) is int), len(where))
        field = ".".join(map(str, where[:cut])) or "spec"
        place = ", ".join(f"entry {p + 1}" if type(p) is int else str(p) for p in where[cut:])
        told = "holds a broken character (half of a surrogate pair); paste the text again as UTF-8"
        raise SpecError(FieldError(field, f"{place}: {told}" if place else told)) from None
    return values


def _broken(value: Any) -> tuple | None:
    """The keys and indices that lead to a text that cannot be written, or to a name that cannot."""
    if isinstance(value, str):
        return None if value.isascii() or _writes(value) else ()
    inside = enumerate(value) if isinstance(value, list) else ()
    for key, item in value.items() if isinstance(value, dict) else inside:
        if isinstance(key, str) and not _writes(key):
            return ()
        if (rest := _broken(item)) is not None:
            return (key, *rest)
    return None


def _writes(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def arrow(table: pa.Table) -> Response:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")
    ) as out:
        out.write_table(table)
    return Response(sink.getvalue().to_pybytes(), media_type=ARROW)
