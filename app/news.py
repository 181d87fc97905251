"""What changed lately, from the changelog.  Knows its form; knows no page."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import streamlit as st


@st.cache_data(ttl=3600, show_spinner=False)
def news(most: int = 4) -> list[tuple[str, str]]:
    """(version, change) of the newest entries of the changelog; empty where there is none."""
    file = Path(__file__).parent.parent / "CHANGELOG.md"
    version, out = "", []
    for line in file.read_text("utf-8").splitlines() if file.is_file() else ():
        if line.startswith("## "):
            version = line[3:].strip().split()[0].strip("[]")
            version = "new" if version.lower() == "unreleased" else version
        elif line.startswith("- ") and version:
            out.append((version, line[2:]))
        elif line.startswith("  ") and line.strip() and out:
            out[-1] = (out[-1][0], out[-1][1] + " " + line.strip())
    plain = [(version, words.replace("`", "")) for version, words in out[:most]]
    return [(version, opening(words)) for version, words in plain]


def opening(words: str, most: int = 220) -> str:
    """The first sentences of an entry, whole ones; only one that is longer is cut."""
    parts, shown = re.split(r"(?<=[.;:]) ", words), ""
    for part in parts:
        if shown and len(shown) + len(part) >= most:
            break
        shown = f"{shown} {part}".strip()
    shown = shown.rstrip(";:. ") + "."
    return shown if len(shown) <= most else textwrap.shorten(shown, most, placeholder="…")
