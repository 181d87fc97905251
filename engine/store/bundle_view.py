"""A saved view inside a bundle, as data: known names, types and sizes.

Knows the form; which pages and parameters there are is known where views are saved.
"""

from __future__ import annotations

import json
from typing import Any

from engine.registry import FieldError, SpecError
from engine.store.bundle_files import VIEW, read_json, refuse

FIELDS = ("page", "state", "keys", "name", "note", "tags")
SIZES = {"page": 60, "name": 300, "note": 20_000}  # characters
MAX_VIEW = 256 << 10  # bytes
KEYS, KEY, TAGS, TAG = 50, 64, 50, 100
PARAMETERS, PARAMETER, VALUE = 100, 60, 20_000


def pack_view(view: dict) -> bytes:
    """A view's known fields as a member; SpecError where they would not be read again."""
    content = json.dumps({n: view[n] for n in FIELDS if n in view}).encode()
    try:
        read_view(content)
    except SpecError as error:
        told = error.errors[0].message.partition("; nothing")[0]
        raise SpecError(FieldError("view", told)) from None
    return content


def read_view(content: bytes) -> dict[str, Any]:
    """page, state, keys, name, note, tags: text, and lists and a table of text."""
    view = read_json(content, VIEW, MAX_VIEW)
    if not isinstance(view, dict) or not {"page", "state"} <= set(view) <= set(FIELDS):
        raise refuse(f"{VIEW} is not as a view's: it has {', '.join(FIELDS)}")
    for name, most in SIZES.items():
        if not _text(view.get(name, ""), most):
            raise refuse(f"{VIEW}: {name} is no text of at most {most} characters")
    for name, count, most in (("keys", KEYS, KEY), ("tags", TAGS, TAG)):
        values = view.get(name, [])
        fine = isinstance(values, list) and len(values) <= count
        if not fine or not all(_text(value, most) for value in values):
            raise refuse(f"{VIEW}: {name} is no list of at most {count} short texts")
    state = view["state"]
    fine = isinstance(state, dict) and len(state) <= PARAMETERS
    if not fine or not all(_text(n, PARAMETER) and _text(v, VALUE) for n, v in state.items()):
        raise refuse(f"{VIEW}: state is no table of at most {PARAMETERS} texts")
    blank = {"keys": [], "name": "", "note": "", "tags": []}
    return blank | view


def _text(value: object, most: int) -> bool:
    return isinstance(value, str) and len(value) <= most
