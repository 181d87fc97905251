"""Prompts of one's own, uploaded or pasted as JSONL; the service checks every line."""

from __future__ import annotations

import streamlit as st

from app import state
from app.marking import read_lines
from app.style import text
from app.words import count, sentence

MOST = 5_000_000  # characters of one paste


def own(field: dict, where: str, base: list) -> None:
    """`where`: the key under which the prompts stand in the session, a list of dicts."""
    state.seed(where, list(base))
    held = state.value(where, [])
    told = count(len(held), "prompt") if held else "No prompts yet"
    with st.expander(f"{told}: JSONL", expanded=not held):
        text("note", sentence(field.get("help") or "one JSON object a line"))
        given = st.file_uploader(
            "A file, one JSON object a line",
            type=["jsonl", "json", "ndjson", "txt"],
            key=f"{where}-file",
            max_upload_size=64,
            label_visibility="collapsed",
        )
        pasted = st.text_area(
            "Or paste lines",
            key=f"{where}-text",
            height=100,
            max_chars=MOST,
            placeholder="One JSON object a line",
        )
        found, problem = [], ""
        if given is not None:
            found, problem = read_lines(given.getvalue())
        elif pasted and pasted.strip():
            found, problem = read_lines(pasted.encode("utf-8", "replace"))
        if problem:
            text("error", problem)
        left, right = st.columns(2)
        left.button(
            f"Use {count(len(found), 'prompt')}" if found else "Use them",
            key=f"{where}-use",
            disabled=not found or found == held,
            on_click=state.put,
            args=(where, found),
            width="stretch",
        )
        right.button(
            "Remove",
            key=f"{where}-none",
            disabled=not held,
            on_click=state.put,
            args=(where, []),
            width="stretch",
        )
