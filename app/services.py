"""The only way from a page to the engine, and the only place that caches.

Every call goes through one client of the running service.  Pages get plain dicts and frames; a
key that the service does not know is None; refusals are values that a page shows at a field.
Knows `engine.client` and nothing else of the engine.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import streamlit as st

from engine import client as engine_client
from engine.client import NotFound, Refused, ServiceFailed, Unavailable, table

ACTIVE = ("queued", "running")
STOPPING = "stopping"  # in the session: the key of the run whose end was asked for last
STOPS = "Stopping behind its next step; what is computed so far is kept"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

__all__ = ["ACTIVE", "NotFound", "Refused", "Unavailable"]


class Preview(NamedTuple):
    """What would run, or why it cannot: one of `plan` and `errors` is empty."""

    plan: dict | None
    errors: tuple[tuple[str, str], ...]  # (dotted field, sentence)


def connect() -> Any:
    """A client of the running service; raises Unavailable.  Tests put their own in its place."""
    return engine_client.connect()


@st.cache_resource(show_spinner=False)
def _client() -> Any:
    return connect()


def ask(method: str, /, *args: Any, **options: Any) -> Any:
    """Call a method of the client; a service that was restarted is found again once."""
    try:
        return getattr(_client(), method)(*args, **options)
    except Unavailable:
        _client.clear()
        return getattr(_client(), method)(*args, **options)


@st.cache_data(ttl=30, show_spinner=False)  # a run's end clears it
def schema() -> dict:
    return ask("schema")


def address() -> str:
    """The service's own address, as this machine reaches it."""
    return str(getattr(_client(), "url", ""))


@st.cache_data(ttl=30, show_spinner=False)
def read_only() -> bool:
    """Whether the service is shared for reading alone."""
    return bool(ask("health").get("read_only"))


@st.cache_data(ttl=2, show_spinner=False)
def runs() -> list[dict]:
    return list(ask("runs"))


@st.cache_data(ttl=3, show_spinner=False)
def _family_now() -> dict:
    return ask("benchmark", wait=False)


@st.cache_data(ttl=30, show_spinner=False)  # a run's end clears it
def _family() -> dict:
    told = _family_now()
    if told.get("coming"):
        _family_now.clear()
        raise Pending(told["coming"])
    if any(m.get("status") in ACTIVE for m in told["members"]):
        raise _Moving(told)
    return told


def benchmark() -> dict:
    """The family's members with their numbers, and the published rows."""
    try:
        return _family()
    except Pending:
        return ask("benchmark")
    except _Moving as moving:
        return moving.shown
    except NotFound:  # a service of an older version
        return {"members": [], "published": []}


def coming() -> dict:
    """{done, total} of the family's results while the service brings them in; then empty."""
    try:
        _family()
    except Pending as pending:
        return pending.told
    except (_Moving, NotFound):
        pass
    return {}


@st.cache_data(ttl=3600, max_entries=60, show_spinner=False)
def depth(key: str) -> dict | None:
    """Accuracy by distance and by density of a finished run; its copies are made again for it."""
    try:
        return ask("depth", key)
    except (NotFound, Refused, ServiceFailed):
        return None


@st.cache_data(ttl=2, show_spinner=False)
def trainings() -> dict:
    try:
        return ask("trainings")
    except NotFound:
        return {"runs": [], "ended": []}


def stop_training(name: str) -> str:
    """Ask for an end; why it is refused, or ""."""
    refusal = ""
    try:
        ask("stop_training", name)
    except NotFound:
        pass  # it ended in the meantime
    except Refused as refused:
        refusal = reasons(refused)
    trainings.clear()
    return refusal


@st.cache_data(ttl=60, max_entries=200, show_spinner=False)  # a speed is measured meanwhile
def _preview(text: str) -> Preview:
    return Preview(ask("preview", json.loads(text)), ())


def preview(spec: dict) -> Preview:
    """What would run.  A refusal is never kept: a model may be pulled, a network come back."""
    try:
        return _preview(json.dumps(spec, sort_keys=True))
    except Refused as refused:
        return Preview(None, tuple(_pair(e) for e in refused.errors))


def too_long(spec: dict, field: str, characters: int) -> str:
    """Why a text of that length is refused, or ""; the text itself stays in the browser."""
    try:
        ask("lengths", spec, field, [characters])
    except Refused as refused:
        return _pair(refused.errors[0])[1]
    return ""


@st.cache_data(ttl=3600, max_entries=500, show_spinner=False)
def _spec(key: str) -> dict:
    return ask("spec", key)


def spec(key: str) -> dict | None:
    """The spec that a key stands for, or None."""
    try:
        return _spec(key)
    except NotFound:
        return None


@st.cache_data(ttl=60, max_entries=100, show_spinner=False)
def _settled(key: str) -> dict:
    shown = ask("run", key)
    if shown.get("status") in ACTIVE:
        raise _Moving(shown)
    return shown


class _Moving(Exception):
    """Carries a run that is still changing past the cache."""

    def __init__(self, shown: dict):
        self.shown = shown


def run(key: str) -> dict | None:
    """What is known of a run now; a finished one comes from the cache.  None: never submitted."""
    try:
        return _settled(key)
    except _Moving as moving:
        return moving.shown
    except NotFound:
        return None


def submit(spec: dict, title: str) -> Preview:
    """Queue a spec; `errors` where it is refused."""
    try:
        answer = ask("submit", spec, title=title)
    except Refused as refused:
        return Preview(None, tuple(_pair(e) for e in refused.errors))
    forget()
    return Preview(dict(answer), ())


def cancel(key: str) -> None:
    """Ask for an end; a refusal is told once, as a toast, and the page goes on."""
    try:
        ask("cancel", key)
    except NotFound:
        pass  # it ended in the meantime
    except Refused as refused:
        st.session_state["view-told"] = reasons(refused)
        return
    forget()
    st.session_state[STOPPING] = key


def stopping(key: str) -> bool:
    """Whether this session has asked for the run's end, which comes behind its next step."""
    return st.session_state.get(STOPPING) == key


def csv(frame: pd.DataFrame) -> bytes:
    """A table to take away, with no text that a spreadsheet would run."""
    return table(frame, "csv")


def forget() -> None:
    """Drop what a new or ended run makes stale."""
    st.session_state.pop(STOPPING, None)
    moving = (_preview, _settled, runs, schema, _family, _family_now)
    for cached in (*moving, answers_cached, tokens_cached):
        cached.clear()


@st.cache_data(ttl=600, max_entries=30, show_spinner=False)
def answers_cached(key: str, control: bool) -> pd.DataFrame:
    return frame(ask("answers", key, control=control))


@st.cache_data(ttl=600, max_entries=60, show_spinner=False)
def tokens_cached(key: str, sample: int, shift: int | None, control: bool) -> pd.DataFrame:
    return frame(ask("tokens", key, sample=sample, shift=shift, control=control))


def answers(key: str, *, control: bool = False, settled: bool = True) -> pd.DataFrame:
    """Rows of `answers`; empty where there are none.  `settled` runs come from the cache."""
    try:
        if settled:
            return answers_cached(key, control)
        return frame(ask("answers", key, control=control))
    except NotFound:
        return pd.DataFrame()


def tokens(
    key: str, sample: int, shift: int | None = None, *, control: bool = False
) -> pd.DataFrame:
    """Token rows of one sample (all its copies, or one); empty where none are stored."""
    try:
        return tokens_cached(key, sample, shift, control)
    except NotFound:
        return pd.DataFrame()


@st.cache_data(ttl=3600, max_entries=100, show_spinner=False)
def names(key: str, ids: tuple[int, ...]) -> dict[int, str]:
    """Token id → text; empty where the run's tokenizer is not on this machine."""
    try:
        return ask("names", key, list(ids)) if ids else {}
    except (NotFound, Refused):
        return {}


class Pending(Exception):
    """The worker has not computed it yet: nothing to cache.  `told`: how far it is."""

    def __init__(self, told: dict | None = None):
        super().__init__()
        self.told = told or {}


class AttentionMap(NamedTuple):
    cells: np.ndarray  # float32 [queries, keys]
    query_ranges: list[tuple[int, int]]
    key_labels: list[dict]
    max: bool


@st.cache_data(ttl=600, max_entries=60, show_spinner=False)
def _attention(key: str, asked: str) -> AttentionMap:
    answer = ask("attention", key, **json.loads(asked))
    if not answer or answer.get("pending"):
        raise Pending
    rows, columns = answer["shape"]
    cells = np.frombuffer(base64.b64decode(answer["cells"]), dtype=np.float32)
    ranges = [tuple(r) for r in answer["query_ranges"]]
    return AttentionMap(
        cells.reshape(rows, columns), ranges, list(answer["key_labels"]), bool(answer.get("max"))
    )


def attention(key: str, asked: dict) -> AttentionMap | None:
    """The map that was asked for; None while the worker computes it.  Raises Refused, NotFound."""
    try:
        return _attention(key, json.dumps(asked, sort_keys=True))
    except Pending:
        return None


NO_COPY = "This run has no such copy, layer or head."


def attention_or_reason(key: str, asked: dict) -> tuple[AttentionMap | None, str]:
    """(map, "") or (None, why not); (None, "") while it is computed."""
    try:
        return attention(key, asked), ""
    except Refused as refused:
        return None, reasons(refused)
    except NotFound:
        return None, NO_COPY


def reasons(refused: Refused) -> str:
    """The sentences of a refusal, in one line."""
    return " ".join(_pair(e)[1] for e in refused.errors)


def reason(error: Exception) -> str:
    """One sentence about an error that a page did not foresee."""
    if isinstance(error, ServiceFailed | Refused | NotFound):
        told = str(error).strip().rstrip(".")
        return (told[:1].upper() + told[1:] + ".") if told else "The service gave no reason."
    return f"An unforeseen error ({type(error).__name__})."


def browser() -> str | None:
    """The browser that draws PNG and SVG, or None."""
    named = os.environ.get("BROWSER_PATH")
    return named or next((path for name in BROWSERS if (path := shutil.which(name))), None)


@st.cache_data(ttl=600, max_entries=40, show_spinner=False)
def picture(figure: str, form: str, width: int, height: int) -> bytes:
    """A figure's JSON as PNG or SVG bytes, drawn by a browser on this machine."""
    import plotly.io as pio

    scale = 2 if form == "png" else 1
    fig = pio.from_json(figure)
    return pio.to_image(fig, format=form, width=width, height=height, scale=scale)


def _pair(error: Any) -> tuple[str, str]:
    if isinstance(error, dict):
        return str(error.get("field", "")), str(error.get("message", ""))
    return str(error[0]), str(error[1])


def frame(table: Any) -> pd.DataFrame:
    return table.to_pandas() if hasattr(table, "to_pandas") else pd.DataFrame(table)
