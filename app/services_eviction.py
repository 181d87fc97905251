"""The decode lane's part of the way to the engine: schema, tables, traces.

Runs, previews and submissions are those of `services`.  A client whose service has no decode lane
answers as if nothing of it were there.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pandas as pd
import streamlit as st

from app import services
from app.services import NotFound, Refused


def schema() -> dict:
    """{models, model, methods, prompts, settings, presets}: what the page's form derives from.

    methods and prompts: kind → {help, fields}; settings and model: fields.
    """
    whole = services.schema()
    own = whole.get("decode") or {}
    return {
        "models": whole["models"],
        "model": whole["model"],
        "methods": own.get("methods") or {},
        "prompts": own.get("prompts") or {},
        "settings": own.get("settings") or [],
        "presets": [p for p in whole["presets"] if is_decode(p["spec"])],
    }


def is_decode(spec: dict | None) -> bool:
    return (spec or {}).get("kind") == "decode"


def sweeps(schema: dict) -> dict:
    """The service's schema with the presets of sweeps alone."""
    return schema | {"presets": [p for p in schema["presets"] if not is_decode(p["spec"])]}


def latest() -> str | None:
    """Key of the newest decode run that is done, or under way; None where there is none."""
    rows = [row for row in services.runs() if row.get("kind") == "decode"]
    for wanted in (("done",), services.ACTIVE):
        for row in rows:
            if row.get("status") in wanted:
                return row["key"]
    return None


@st.cache_data(ttl=600, max_entries=60, show_spinner=False)
def _table(key: str, name: str, arm: int | None, sample: int | None) -> pd.DataFrame:
    return services.frame(services.ask("decode", key, name, arm=arm, sample=sample))


def table(key: str, name: str, arm: int | None = None, sample: int | None = None) -> pd.DataFrame:
    """Rows of decode_<name> (steps, answers, marks, costs, texts); empty where there are none."""
    try:
        return _table(key, name, arm, sample)
    except (NotFound, Refused):
        return pd.DataFrame()


@st.cache_data(ttl=600, max_entries=40, show_spinner=False)
def _trace(key: str, asked: str) -> dict:
    answer = services.ask("trace", key, **json.loads(asked))
    if not answer or answer.get("pending"):
        raise services.Pending(answer)
    return answer


def trace(key: str, asked: dict[str, Any]) -> tuple[dict | None, str]:
    """(trace, "") or (None, why not); (None, "") while the worker computes it.

    asked: arm, sample, layer, kv_head; top and far only where they are not the service's own.
    """
    return asked_trace(key, asked)[:2]


def asked_trace(key: str, asked: dict[str, Any]) -> tuple[dict | None, str, dict]:
    """As `trace`, and how far the worker is: seconds since it was asked, tokens done, total."""
    try:
        return _trace(key, json.dumps(asked, sort_keys=True)), "", {}
    except services.Pending as pending:
        return None, "", pending.told
    except Refused as refused:
        return None, services.reasons(refused), {}
    except NotFound:
        return None, "This run has no such method, sample, layer or head.", {}
    except TypeError:  # a client of a service that knows no thresholds
        return None, "This service counts with 150 keys and 200 tokens only.", {}


def stop_trace(key: str, asked: dict[str, Any]) -> None:
    """Nobody waits for it any more; a service of an older version makes it all the same."""
    with contextlib.suppress(NotFound, Refused):
        services.ask("stop_trace", key, **asked)


def forget() -> None:
    """Drop what a new or ended run makes stale."""
    for cached in (_table, _trace):
        cached.clear()
    services.forget()
