"""While a trace is made: how far it is, and an end to it."""

from __future__ import annotations

import streamlit as st

from app import services_eviction
from app.style import text
from app.words import count, seconds

OFF = "trace-off"  # the trace that was cancelled here
WAITING = "Waiting for the worker; it loads the model first if it is not yet"
READING = "Reading the sample again with every score kept"
KEPT = "The page may be closed: the trace goes on, is kept, and is here when you come back."


def traced(key: str, asked: dict) -> dict | None:
    """The trace; None where it is refused, was cancelled here, or is waited for, which is told."""
    if st.session_state.get(OFF) == (key, asked):
        text("note", "This trace was cancelled.")
        st.button("Compute it", key="trace-on", on_click=lambda: st.session_state.pop(OFF, None))
        return None
    found, reason = services_eviction.trace(key, asked)
    if reason:
        text("error", reason)
    elif found is None:
        _poll(key, asked)
    return found


def _poll(key: str, asked: dict) -> None:
    """Ask once a second until the worker has it; nothing polls after that."""

    def end() -> None:
        services_eviction.stop_trace(key, asked)
        st.session_state[OFF] = key, asked

    @st.fragment(run_every="1s")
    def now() -> None:
        if st.session_state.get(OFF) == (key, asked):
            st.rerun()
        found, reason, told = services_eviction.asked_trace(key, asked)
        if found is not None or reason:
            st.rerun()
        left, right = st.columns([9, 1], vertical_alignment="center")
        done, total = told.get("done") or 0, told.get("total") or 0
        with left, st.container(key="progress"):
            st.progress(min(1.0, done / max(1, total)), text=line(told))
        right.button("Cancel", key="trace-end", type="tertiary", on_click=end)
        text("note", KEPT)

    now()


def line(told: dict) -> str:
    """What the worker is at, and for how long it was asked."""
    done, total = told.get("done") or 0, told.get("total") or 0
    part = f": {done:,} of {count(total, 'token')}".replace(",", "\u202f") if total else ""
    since = told.get("seconds")
    return (READING if total else WAITING) + part + (f", {seconds(since)}" if since else "")
