"""What is kept on the disk and for how long; bundles that come in."""

from __future__ import annotations

import streamlit as st

from app import services_sharing, state
from app.library import views
from app.style import text
from app.words import cache_size, count, sentence


def bring_in() -> None:
    """A bundle from a teammate; what is wrong with it is told, and nothing of it stays."""
    with st.popover("Import", icon=":material/upload:"):
        file = st.file_uploader("A bundle (zip)", type="zip", key="library-import")
        if file is None:
            text("note", "An export of Phasescope. Importing twice adds nothing.")
            return
        mark = (file.name, file.size, file.file_id)
        if st.session_state.get("library-imported") != mark:
            st.session_state["library-imported"] = mark
            st.session_state["library-import-told"] = services_sharing.bring_in(
                file.getvalue(), file.name
            )
        told = st.session_state["library-import-told"]
        if told.error:
            text("error", f"{file.name}: {sentence(told.error)}")
            return
        text("note", _added(told.value))
        if found := told.value.get("view"):
            text("note", "It came with a view:" if found["added"] else "Its view was here already:")
            views.link(found["view"])


def _added(value: dict) -> str:
    runs = value.get("runs") or [value]
    new = sum(bool(run.get("added")) for run in runs)
    known = len(runs) - new
    told = [f"{count(new, 'run')} added." if new else "Nothing was added."]
    if known:
        told.append(f"{count(known, 'run')} of it was here already.")
    return " ".join(told)


def keeping(library: dict) -> None:
    """Size on the disk and retention."""
    disk = library["disk"]
    total = cache_size(sum(disk.values()))
    with st.popover(f"{total} on disk", icon=":material/database:"):
        parts = {"database": "rows and reports", "maps": "attention maps", "traces": "traces"}
        lines = [f"{cache_size(disk[name])} {words}" for name, words in parts.items()]
        text("note", "; ".join(lines) + ".")
        if state.read_only():
            return
        days = st.session_state.setdefault("library-days-read", library["retention_days"])
        kept = st.number_input(
            "Keep unmarked runs for days",
            min_value=1,
            max_value=36_500,
            value=days,
            placeholder="for ever",
            key="library-days",
            help="Older own and imported runs are deleted when the service starts, unless they "
            "have a note, a tag or a view. Empty keeps all.",
        )
        now = st.checkbox("Delete what is older at once", key="library-now", disabled=kept is None)
        if st.button("Set", key="library-keep"):
            told = services_sharing.keep_for(kept, days, bool(now and kept))
            del st.session_state["library-days-read"]
            if told.error:  # what another set meanwhile stands in the field
                del st.session_state["library-days"]
            gone = count(len(told.value["deleted"]), "run") if told.value else ""
            words = told.error or (f"Set; {gone} deleted" if now and kept else "Set")
            st.session_state["view-told"] = words
            st.rerun()
