"""Who may enter a dashboard that others reach: a login where one is configured, else the token.

On one's own machine nobody is asked.  Knows the session and the environment; knows no page.
"""

from __future__ import annotations

import os
import secrets

import streamlit as st

from app.style import text

TOKEN = "PHASESCOPE_PAGE_TOKEN"
LOGIN = "auth"


def entered() -> bool:
    """Whether this reader may go on; else the page asks for what is missing."""
    wanted = os.environ.get(TOKEN, "")
    if not wanted:
        return not login_configured() or _logged_in()
    if st.session_state.get("entered"):
        return True
    given = st.query_params.get("token") or st.session_state.get("entry", "")
    if given and secrets.compare_digest(given.encode(), wanted.encode()):
        st.session_state["entered"] = True
        st.query_params.pop("token", None)
        return True
    text("finding", "This Phasescope is shared with a token", tag="div")
    text("doubt", "Whoever shared it has the token, or a link that holds it.")
    st.text_input("Token", type="password", key="entry", width=360)
    if given:
        text("error", "That is not the token.")
    return False


def login_configured() -> bool:
    try:
        return LOGIN in st.secrets
    except FileNotFoundError:
        return False


def _logged_in() -> bool:
    if st.user.is_logged_in:
        return True
    text("finding", "Log in to look at these runs", tag="div")
    text("doubt", "Your name is shown beside the views that you save.")
    st.button("Log in", type="primary", on_click=st.login)
    return False
