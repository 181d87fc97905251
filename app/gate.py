"""Who may enter a dashboard that others reach: who logs in where that is configured, and who gives
the token where one is set; both where both are.

On one's own machine nobody is asked.  Knows the session and the environment; knows no page.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping

import streamlit as st

from app import comeback
from app.style import text
from app.words import prose

TOKEN = "PHASESCOPE_PAGE_TOKEN"
LOGIN = "auth"


def entered() -> bool:
    """Whether this reader may go on; else the page asks for what is missing."""
    if login_configured():
        comeback.remember(st.user.is_logged_in)
        if not _logged_in():
            return False
    wanted = os.environ.get(TOKEN, "")
    return not wanted or _gave(wanted)


def _gave(wanted: str) -> bool:
    """Whether the token was given, in the link or by hand; it never stays in the address."""
    given = [st.query_params.get("token", ""), st.session_state.get("entry", "")]
    given = [one.encode(errors="replace") for one in given if one]
    if any(secrets.compare_digest(one, wanted.encode()) for one in given):
        st.session_state["entered"] = True
    if st.session_state.get("entered"):
        st.query_params.pop("token", None)
        return True
    text("finding", "This Phasescope is shared with a token", tag="div")
    text("doubt", "Whoever shared it has the token, or a link that holds it.")
    st.text_input("Token", type="password", key="entry", width=360)
    if given:
        text("error", "That is not the token.")
    return False


def way_out(name: str) -> None:
    """The button to log out with, where somebody is logged in."""
    if login_configured() and st.user.is_logged_in:
        st.button(
            "Log out",
            key="logout",
            type="tertiary",
            on_click=st.logout,
            help=f"You are {prose(name)}",
        )


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
    for name in _providers():
        label = f"Log in with {name}" if name else "Log in"
        st.button(label, type="primary", key=f"login-{name}", on_click=st.login, args=(name,))
    return False


def _providers() -> list[str | None]:
    """Whom one may log in with: None is the one of [auth] itself, the others are [auth.NAME]."""
    auth = st.secrets[LOGIN]
    own = [None] if "client_id" in auth else []
    named = [n for n, told in auth.items() if isinstance(told, Mapping) and "client_id" in told]
    return [*own, *named] or [None]
