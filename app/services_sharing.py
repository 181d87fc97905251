"""Views, notes and the library, as pages ask for them: a value, or a sentence why not.

Knows `app.services` and what its calls may raise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import streamlit as st

from app import services
from app.services import NotFound, Refused


class Told(NamedTuple):
    """What the service answered, or why it refused."""

    value: Any
    error: str = ""


def who() -> str:
    """The reader's name or mail where login is on, else nothing."""
    user = getattr(st, "user", None)
    if not getattr(user, "is_logged_in", False):
        return ""
    return str(user.get("name") or user.get("email") or "")


def _told(method: str, /, *args: Any, **options: Any) -> Told:
    try:
        return Told(services.ask(method, *args, **options))
    except Refused as refused:
        return Told(None, services.reasons(refused))
    except NotFound as missing:
        return Told(None, services.reason(missing))


@st.cache_data(ttl=2, show_spinner=False)
def view(id: str) -> Told:
    return _told("view", id)


@st.cache_data(ttl=2, show_spinner=False)
def library() -> dict:
    return services.ask("library")


def save(page: str, state: dict, name: str, note: str, tags: list, parent: str | None) -> Told:
    told = _told("save_view", page, state, name, note, tags, parent, author=who())
    forget()
    return told


def edit(id: str, version: int, **changes: Any) -> Told:
    told = _told("edit_view", id, version, **changes)
    forget()
    return told


def write_note(key: str, version: int, **changes: Any) -> Told:
    told = _told("write_note", key, version, author=who(), **changes)
    forget()
    return told


def losses(key: str) -> Told:
    return _told("losses", key)


def delete(key: str) -> Told:
    told = _told("delete", key)
    services.forget()
    forget()
    return told


def keep_for(days: int | None, was: int | None, now: bool) -> Told:
    told = _told("keep_for", days, was, now)
    services.forget()
    forget()
    return told


def bring_in(bundle: bytes, name: str) -> Told:
    told = _told("bring_in", bundle, name)
    services.forget()
    forget()
    return told


def export(keys: list[str], view: dict | None = None) -> bytes:
    """One bundle of all of them, with the view that they were seen in."""
    return services.ask("bundle", keys, view=view)


def forget() -> None:
    view.clear()
    library.clear()
