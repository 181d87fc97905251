"""Brings what was just opened into view: it stands below the panels, off the screen.

Inline JavaScript of the page's own: Streamlit cannot scroll.
"""

from __future__ import annotations

import streamlit as st

from app import state

JS = """
export default function ({ data, parentElement }) {
  const asked = (data && data.asked) || 0;
  if (!asked || window.phasescopeScrolled === asked) return;
  window.phasescopeScrolled = asked;
  const look = (tries) => {
    const place = document.querySelector(".st-key-opened");
    if (place) place.scrollIntoView({ behavior: "smooth", block: "start" });
    else if (tries) setTimeout(() => look(tries - 1), 150);
  };
  setTimeout(() => look(20), 200);
}
"""

_component = st.components.v2.component("phasescope_scroll", html="<span></span>", js=JS)


def to_opened() -> None:
    _component(key="scroll", data={"asked": state.scrolls()}, height=1)
