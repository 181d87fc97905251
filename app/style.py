"""The style sheet, and the cure for charts after a theme switch.  Knows no content."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

import streamlit as st

from app import state

SHEET = Path(__file__).with_name("style.css").read_text("utf-8")
LOGOS = Path(__file__).with_name("assets")
HEADLINES = ("finding", "section")
NAMES = re.compile(r"\bW\d+ S\d+|\bevery \d+|\bone-hot \d+|\bp [=<≤] \.?\d+|\b[RSWM] = \d+")
WATCH = """
export default function ({ parentElement, setTriggerValue }) {
  const place = parentElement.querySelector("span");
  const colour = () => getComputedStyle(place).getPropertyValue("--st-background-color").trim();
  let seen = colour();
  const timer = setInterval(() => {
    const now = colour();
    if (now === seen) return;
    seen = now;
    setTriggerValue("changed", now);
  }, 400);
  return () => clearInterval(timer);
}
"""
_theme = st.components.v2.component("phasescope_theme", html="<span></span>", js=WATCH)


def apply() -> None:
    """Put the style sheet on the page and watch the light/dark switch."""
    st.html(f"<style>{SHEET}</style>")
    _watch()


def logo() -> Path:
    return LOGOS / f"logo-{state.theme()}.svg"


def _watch() -> None:
    """The switch in the menu does not rerun the script, and charts are drawn for one theme.

    The browser looks, not the server: a fragment that polls costs 6 % of a core for each open page
    and drops the files of a download that is being made.
    """
    _theme(key="theme-watch", height=1, on_changed_change=lambda: None)


def text(kind: str, content: str, *, tag: str = "p") -> None:
    """One paragraph of a class of the style sheet; the content is shown literally."""
    st.html(html_of(kind, content, tag=tag))


def html_of(kind: str, content: str, *, tag: str = "p") -> str:
    content = whole_names(content) if kind in HEADLINES else content
    return f'<{tag} class="ps-{kind} ps-text">{escape(content)}</{tag}>'


def whole_names(content: str) -> str:
    """A headline in which no line ends within `W8 S8`, `(every 16)` or `p = .04`."""
    return NAMES.sub(lambda found: found[0].replace(" ", "\u00a0"), content)


def opening(kind: str, content: str, *, shown: int = 2, more: str) -> str:
    """The first sentences of a paragraph; what goes beyond one more stands behind a fold."""
    sentences = re.split(r"(?<=[.?]) (?=[A-Z]|p is )", content)
    if len(sentences) <= shown + 1:
        return html_of(kind, content)
    rest = html_of("note", " ".join(sentences[shown:]))
    fold = f'<details class="ps-more"><summary>{escape(more)}</summary>{rest}</details>'
    return html_of(kind, " ".join(sentences[:shown])) + fold


def rule() -> None:
    st.html('<hr class="ps-rule">')
