"""Comparisons on the way to the engine: what differs, a grid of runs, token-level differences.

Runs, rows and maps are those of `services`.  A client whose service compares nothing answers as
if none of its runs were there.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import streamlit as st

from app import services
from app.services import NotFound, Refused

MOST, FEWEST = 8, 2


class Compared(NamedTuple):
    """A comparison, or why there is none; keys that the service does not know are `missing`."""

    told: dict | None
    missing: tuple[str, ...] = ()
    reason: str = ""


class _Moving(Exception):
    """Carries a comparison whose runs still change past the lasting cache."""

    def __init__(self, told: dict):
        self.told = told


@st.cache_data(ttl=5, max_entries=40, show_spinner=False)  # a run may be deleted elsewhere
def _settled(keys: tuple[str, ...], base: str) -> dict:
    told = _now(keys, base)
    if any(run.get("status") in services.ACTIVE for run in told["runs"]):
        raise _Moving(told)
    return told


@st.cache_data(ttl=0.8, max_entries=8, show_spinner=False)
def _now(keys: tuple[str, ...], base: str) -> dict:
    return services.ask("compare", list(keys), base=base or None)


def compare(keys: tuple[str, ...], base: str = "") -> Compared:
    """The runs side by side; those that are gone are left out and named."""
    try:
        return Compared(_settled(keys, base))
    except _Moving as moving:
        return Compared(moving.told)
    except Refused as refused:
        told = services.reasons(refused)
        if base and any(_field(error) == "base" for error in refused.errors):
            return compare(keys, "")._replace(reason=f"The baseline {told}")
        return Compared(None, reason=told)
    except NotFound as unknown:
        missing = tuple(key for key in keys if services.run(key) is None)
        known = tuple(key for key in keys if key not in missing)
        if not known:
            return Compared(None, missing)
        if not missing:
            return Compared(None, reason=services.reason(unknown))
        return compare(known, "" if base in missing else base)._replace(missing=missing)


def _field(error: Any) -> str:
    return str(error.get("field") if isinstance(error, dict) else error[0])


def vary(spec: dict, field: str, values: list, submit: bool = False) -> dict:
    """{specs, jobs, errors}: the grid of a spec over a field's values, queued where asked."""
    try:
        answer = dict(services.ask("vary", spec, field, values, submit=submit))
    except Refused as refused:
        told = services.reasons(refused)
        return {"specs": [], "errors": [told]}
    except NotFound as unknown:
        return {"specs": [], "errors": [services.reason(unknown)]}
    if submit:
        forget()
    return answer


@st.cache_data(ttl=60, max_entries=40, show_spinner=False)
def _text(a: str, b: str, asked: str) -> dict:
    return services.ask("compare_text", a, b, **json.loads(asked))


def text(a: str, b: str, **asked: Any) -> dict:
    """{a, b, ops, reason}: tokens of two prompts (sample, shift) or of two `outputs`."""
    try:
        return _text(a, b, json.dumps(asked, sort_keys=True))
    except Refused as refused:
        return {"a": [], "b": [], "ops": [], "reason": services.reasons(refused)}
    except NotFound as unknown:
        return {"a": [], "b": [], "ops": [], "reason": services.reason(unknown)}


def forget() -> None:
    """Drop what a new, ended or deleted run makes stale."""
    for cached in (_settled, _now, _text):
        cached.clear()
    services.forget()
