"""A table as CSV, Parquet or a page of JSON; the OpenAPI document as a plain page.

Knows forms; knows nothing of runs.  The page asks nothing of the internet: no script, no style
from elsewhere.
"""

from __future__ import annotations

import io
from html import escape
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

PAGE, MOST = 100, 10_000  # rows of a page of JSON
PARQUET = "application/vnd.apache.parquet"
# An address may hold the token: no other site is told it, no cache keeps the answer.
SAFE = {
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}
PLAIN = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}
FORMULA = "^[=+\\-@\t\r]"  # what a spreadsheet takes for the beginning of a formula
STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
h1 { font-weight: 500; } section { border-top: 1px solid #8884; padding: .6rem 0; }
code { font: 14px ui-monospace, monospace; } p { margin: .2rem 0; max-width: 48rem; }
b { display: inline-block; font-weight: 600; width: 4.5rem; } small { opacity: .75; }
"""


def csv(table: pa.Table) -> bytes:
    """UTF-8 with a header; lists as [a, b]; no text that a spreadsheet would run."""
    columns = [_plain(column) for column in table.columns]
    out = io.BytesIO()
    made = pa.table(columns, names=table.column_names)
    pyarrow.csv.write_csv(made, out, pyarrow.csv.WriteOptions(quoting_style="needed"))
    return out.getvalue()


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_list(column.type):
        inner = column.cast(pa.list_(pa.string()))
        return pc.binary_join_element_wise("[", pc.binary_join(inner, ", "), "]", "")
    if pa.types.is_string(column.type):
        return pc.replace_substring_regex(column, FORMULA, "'\\0")
    return column


def parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()


def page(document: dict[str, Any], about: str) -> str:
    """The addresses of an OpenAPI document as a page to read."""
    title = f"{document['info']['title']} {document['info']['version']}"
    parts = [
        _address(path, method, told)
        for path, methods in document["paths"].items()
        for method, told in methods.items()
    ]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style><body><h1>{escape(title)}</h1><p>{escape(about)}</p>"
        "<p>The same as a document for machines: <code>/openapi.json</code></p>"
        f"{''.join(parts)}</body></html>"
    )


def _address(path: str, method: str, told: dict[str, Any]) -> str:
    """One address with its parameters."""
    given = told.get("parameters", ())
    words = [p["name"] + (" (needed)" if p.get("required") else "") for p in given]
    takes = f"<p><small>Takes {escape(', '.join(words))}</small></p>" if words else ""
    body = "<p><small>Takes a JSON object as its body</small></p>" if "requestBody" in told else ""
    name = told.get("description") or told.get("summary", "")
    return (
        f"<section><b>{escape(method.upper())}</b><code>{escape(path)}</code>"
        f"<p>{escape(name)}</p>{takes}{body}</section>"
    )
