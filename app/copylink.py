"""A button that copies the page's address, where every state is, or a view's short link.

Inline JavaScript of the page's own: only the browser knows the full address and the clipboard.
"""

from __future__ import annotations

import streamlit as st

HTML = '<button type="button" aria-live="polite"><span>Copy link</span></button>'
CSS = """
button { display: inline-flex; align-items: center; gap: .5rem; white-space: nowrap;
  font: 400 .875rem var(--st-font); color: var(--st-text-color); background: transparent;
  border: 1px solid var(--st-border-color); border-radius: var(--st-button-radius);
  padding: .25rem .75rem; min-height: 2.5rem; cursor: pointer; line-height: 1.6; }
button:hover, button:focus-visible { border-color: var(--st-primary-color);
  color: var(--st-primary-color); }
"""
JS = """
export default function ({ parentElement, data }) {
  const button = parentElement.querySelector("button"), label = button.querySelector("span");
  label.textContent = "Copy link";
  button.onclick = async () => {
    const root = window.location.href.split(/[?#]/)[0].replace(/[^/]*$/, "");
    const address = data && data.view ? root + "?view=" + data.view : window.location.href;
    try { await navigator.clipboard.writeText(address); }
    catch (refused) {
      const field = document.createElement("textarea");
      field.value = address; document.body.appendChild(field); field.select();
      document.execCommand("copy"); field.remove();
    }
    label.textContent = "Copied";
    setTimeout(() => { label.textContent = "Copy link"; }, 1600);
  };
}
"""

_component = st.components.v2.component("phasescope_copy_link", html=HTML, css=CSS, js=JS)


def button(view: str = "") -> None:
    """`view`: copy the short link of that view, else the whole address."""
    _component(key=f"copylink-{view}", data={"view": view}, width="content")
