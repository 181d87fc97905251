"""What the service's endpoints share: text that any file can hold, and tables as Arrow."""

from __future__ import annotations

import json

import pyarrow as pa
from fastapi import Response

from engine.registry import FieldError, SpecError

ARROW = "application/vnd.apache.arrow.stream"


def check_text(values: dict) -> dict:
    """Refuse text that no file or page could hold: half of a surrogate pair."""
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        text = "holds a broken character (half of a surrogate pair); paste the text again as UTF-8"
        raise SpecError(FieldError("spec", text)) from None
    return values


def arrow(table: pa.Table) -> Response:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")
    ) as out:
        out.write_table(table)
    return Response(sink.getvalue().to_pybytes(), media_type=ARROW)
