"""Leads back, after a login, to the link that was opened: the provider returns to the root alone.

Inline JavaScript of the page's own: only the browser's tab outlives the way through the provider.
"""

from __future__ import annotations

import streamlit as st

JS = """
export default function ({ data }) {
  const key = "phasescope.opened", here = window.location.pathname + window.location.search;
  try {
    if (!data.entered) {
      if (here !== "/") window.sessionStorage.setItem(key, here);
      return;
    }
    const opened = window.sessionStorage.getItem(key);
    window.sessionStorage.removeItem(key);
    if (opened && opened !== here && /^\\/(?!\\/)/.test(opened)) window.location.replace(opened);
  } catch (refused) { return; }  // a browser that keeps nothing: the link is opened again by hand
}
"""

_component = st.components.v2.component("phasescope_comeback", html="<span></span>", js=JS)


def remember(entered: bool) -> None:
    """Not entered: keep the address of this tab; entered: go to the one that was kept."""
    _component(key="comeback", data={"entered": entered}, height=1)
