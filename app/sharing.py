"""Views on every page: save what is looked at, open it by a short link, fork, edit, lock, delete.

A view's link opens what was saved; the address then keeps its id beside the state, so that the page
knows whose view it shows.  Knows addresses and the service's answers; knows no page's content.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import streamlit as st

from app import addresses, copylink, services, services_sharing, state
from app.style import html_of, text
from app.words import ago, sentence

MISSING = "No such view here"
GALLERY = "start"  # its name in a view; its address has none
OPENED = "view-opened"  # the view that the session has gone to
NO_NAME = "Give the view a name."
TAGS = "Words separated by commas."


def resolve() -> bool:
    """Go where a short link points; False where it points nowhere, and the page has said so.

    Once a view: who clears a page's last parameter is not taken back to what was saved.  The
    gallery has no state of its own: there a link counts whatever a messenger has added to it.
    """
    id = st.query_params.get("view")
    if not id:
        return True
    first = st.session_state.get(OPENED) != id
    alone = set(st.query_params.to_dict()) == {"view"}
    if not first and not state.page_name():
        return True  # come back: forwarded again, the reader could never leave
    if state.page_name() and not (first and alone):
        st.session_state[OPENED] = id
        return True
    told = services_sharing.view(id)
    if told.value is None:
        text("finding", MISSING, tag="div")
        text("doubt", told.error)
        st.page_link(state.start(), label="Back to the gallery", icon=":material/arrow_back:")
        return False
    st.session_state[OPENED] = id
    page = state.page_named(told.value["page"])
    there = page.url_path == state.page_name() and not told.value["state"]
    if page.url_path and not there:  # a page that this version lacks has no path
        st.switch_page(page, query_params=state.query(told.value))
    return True


def opened(keys: Sequence[str] = ()) -> dict | None:
    """The view that the page was opened by; where keys are given, only if it is of these runs."""
    id = st.query_params.get("view")
    view = services_sharing.view(id).value if id else None
    return view if view and set(keys) <= set(view["keys"]) else None


def bar() -> None:
    """Above a page that a view opened: whose it is, and what may be done with it."""
    id = st.query_params.get("view")
    if not id:
        return
    told = services_sharing.view(id)
    with st.container(key="viewbar", horizontal=True, vertical_alignment="center", gap="small"):
        if told.value is None:
            text("note", f"{told.error} The page shows what its address says.")
            return
        view = told.value
        own = state.page_named(view["page"])
        if own.url_path and not state.page_name():  # the gallery, come back to
            words = {"query_params": state.query(view), "label": "Open the view again"}
            st.page_link(own, **words, icon=":material/arrow_forward:")
            return
        st.html(_words(view))
        copylink.button(view["id"])
        with st.popover("Export", help="As one file with its runs, or its address for scripts"):
            _bundle(view)
            addresses.of_view(view["id"])
        if not state.read_only():
            if st.button("Fork", key="view-fork", help="A view of your own from what is shown now"):
                _ask_name(view["id"], f"{view['name']}, fork")
            with st.popover("Edit", help="Name, note, tags, lock, delete"):
                _edit(view)


def _bundle(view: dict) -> None:
    """The view as one file with its runs: those that are here and at rest."""
    at_rest = [r for r in view["runs"] if r["status"] not in ("missing", *services.ACTIVE)]
    if at_rest:
        st.download_button(
            "Bundle",
            lambda: services_sharing.export([run["key"] for run in at_rest], view),
            f"phasescope-{view['id']}.zip",
            "application/zip",
            on_click="ignore",
            key="view-export",
            help="This view and its runs as one bundle",
        )


def _words(view: dict) -> str:
    parts = [f"View “{view['name']}”"]
    parts += [f"by {view['author']}"] if view["author"] else []
    when = ago(view["created"])
    parts += [f"saved {when} ago" if when != "now" else "saved now"]
    parts += ["locked"] if view["locked"] else []
    parts += view["tags"]
    flags = []
    if state.kept() != view["state"]:
        flags.append("changed here since; the link still opens what was saved")
    missing = [run["title"] for run in view["runs"] if run["status"] == "missing"]
    if missing:
        flags.append(f"no longer here: {', '.join(missing)}")
    changed = [run["title"] for run in view["runs"] if run["changed"]]
    if changed:
        flags.append(f"run anew by another version since: {', '.join(changed)}")
    line = " · ".join(escape(part) for part in parts)
    line += "".join(f'<span class="ps-flag">{escape(flag)}</span>' for flag in flags)
    note = html_of("note", view["note"]) if view["note"] else ""
    return f'<p class="ps-context ps-text">{line}</p>{note}'


def buttons() -> None:
    """Save and Copy link, at the head of a page that no view opened: the view's bar has both."""
    if st.query_params.get("view"):
        return
    if not state.read_only() and st.button("Save view", key="view-save"):
        _ask_name(None, "")
    copylink.button()


def _ask_name(parent: str | None, name: str) -> None:
    """A dialog that saves what the page shows now."""
    page = state.page_name() or GALLERY

    @st.dialog("Fork this view" if parent else "Save this view")
    def ask() -> None:
        given = st.text_input("Name", name, max_chars=120, key="view-name")
        under = st.empty()
        note = st.text_area("Note", key="view-note", max_chars=5000, height=90)
        tags = st.text_input("Tags", key="view-tags", help=TAGS)
        if not st.button("Save", type="primary", key="view-save-now"):
            return
        if not given.strip():
            with under:
                text("error", NO_NAME)
            return
        told = services_sharing.save(page, state.kept(), given, note, split(tags), parent)
        if told.error:
            text("error", sentence(told.error))
            return
        if not told.value["added"]:
            st.session_state["view-told"] = f"Saved already, as “{told.value['view']['name']}”"
        st.query_params["view"] = told.value["id"]
        st.rerun()

    ask()


def split(tags: str) -> list[str]:
    return [tag.strip() for tag in tags.split(",") if tag.strip()]


def _edit(view: dict) -> None:
    """The form keeps the version that it was filled from: a change elsewhere is told, not lost."""
    place = f"view-edit-{view['id']}"
    read = st.session_state.setdefault(place, view)
    if refused := st.session_state.get(f"{place}-error"):
        text("error", sentence(refused))
        if st.button("Reload", key=f"{place}-reload"):
            _refill(place)
            st.rerun()
    if view["locked"]:
        text("note", "Locked: unlock it to change or delete it.")
        if st.button("Unlock", key=f"{place}-unlock"):
            _change(place, view, view["version"], "Unlocked", locked=False)
        return
    name = st.text_input("Name", read["name"], max_chars=120, key=f"{place}-name")
    if not name.strip():
        text("error", NO_NAME)
    note = st.text_area("Note", read["note"], max_chars=5000, key=f"{place}-note", height=90)
    tags = st.text_input("Tags", ", ".join(read["tags"]), key=f"{place}-tags", help=TAGS)
    with st.container(horizontal=True, gap="small"):
        if st.button("Save", type="primary", key=f"{place}-save", disabled=not name.strip()):
            words = {"name": name, "note": note, "tags": split(tags)}
            _change(place, view, read["version"], "Saved", **words)
        if st.button("Lock", key=f"{place}-lock", help="Nobody changes it until it is unlocked"):
            _change(place, view, read["version"], "Locked", locked=True)
        if st.button("Delete", key=f"{place}-delete"):
            _change(place, view, read["version"], "", deleted=True)


def _change(place: str, view: dict, version: int, words: str, **changes) -> None:
    """Edit and draw anew; a refusal stays on the form until it is reloaded."""
    told = services_sharing.edit(view["id"], version, **changes)
    if told.error:
        st.session_state[f"{place}-error"] = told.error
        st.rerun()
    _refill(place)
    if words:
        st.session_state["view-told"] = words
    if changes.get("deleted"):
        st.session_state["view-deleted"] = told.value
        st.query_params.pop("view", None)
    st.rerun()


def _refill(place: str) -> None:
    for name in [k for k in st.session_state if str(k).startswith(place)]:
        del st.session_state[name]


def notices() -> None:
    """What the last press did, once; and the way back after a view was deleted."""
    if told := st.session_state.pop("view-told", ""):
        st.toast(told)
    gone = st.session_state.get("view-deleted")
    if not gone:
        return
    with st.container(key="undobar", horizontal=True, vertical_alignment="center", gap="small"):
        text("note", f"The view “{gone['name']}” was deleted.")
        if st.button("Undo", key="view-undo"):
            told = services_sharing.edit(gone["id"], gone["version"], deleted=False)
            del st.session_state["view-deleted"]
            st.session_state["view-told"] = told.error or "It is back"
            st.rerun()
        if st.button("Dismiss", key="view-gone", type="tertiary"):
            del st.session_state["view-deleted"]
            st.rerun()
