"""The style sheet, and the cure for charts after a theme switch.  Knows no content."""

from __future__ import annotations

from html import escape
from pathlib import Path

import streamlit as st

from app import state

SHEET = Path(__file__).with_name("style.css").read_text("utf-8")
LOGOS = Path(__file__).with_name("assets")


def apply() -> None:
    """Put the style sheet on the page and watch the light/dark switch."""
    st.html(f"<style>{SHEET}</style>")
    _watch(state.theme())


def logo() -> Path:
    return LOGOS / f"logo-{state.theme()}.svg"


def _watch(drawn: str) -> None:
    """The switch in the menu does not rerun the script, and charts are drawn for one theme."""

    @st.fragment(run_every="2s")
    def compare() -> None:
        if state.theme() != drawn:
            st.rerun()

    compare()


def text(kind: str, content: str, *, tag: str = "p") -> None:
    """One paragraph of a class of the style sheet; the content is shown literally."""
    st.html(html_of(kind, content, tag=tag))


def html_of(kind: str, content: str, *, tag: str = "p") -> str:
    return f'<{tag} class="ps-{kind} ps-text">{escape(content)}</{tag}>'


def rule() -> None:
    st.html('<hr class="ps-rule">')
