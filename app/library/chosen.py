"""What may be done with runs chosen in the table: open, compare, mark, export, delete."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import addresses, services, services_sharing, sharing, state
from app.library import foreign
from app.sharing import TAGS, split
from app.style import text
from app.words import count, joined, sentence

MOST = 8  # runs side by side
KEYS = {"head": "library-compare", "bar": "library-compare-bar"}


def compare_button(chosen: pd.DataFrame, place: str = "head") -> None:
    """The page's one strong button, dead until two runs are chosen; `bar`: below a long table."""
    n = len(chosen)
    label = f"Compare {n} runs" if n > 1 else "Compare"
    why = "Choose two to eight runs in the table" if not 2 <= n <= MOST else None
    if st.button(label, type="primary", disabled=why is not None, help=why, key=KEYS[place]):
        st.switch_page(state.compare(), query_params={"runs": ",".join(chosen["key"])})


def actions(chosen: pd.DataFrame) -> None:
    """A bar under the table for what is chosen."""
    if chosen.empty:
        text("note", "Choose a run to open it, write a note or export it; two or more to compare.")
        if key := foreign.asked():
            foreign.show(key)
        return
    keys = list(chosen["key"])
    bar = st.container(key="chosen-sticky").container(  # in sight, however long the table is
        horizontal=True, vertical_alignment="center", gap="small", key="chosen-bar"
    )
    with bar:
        row = chosen.iloc[0]
        if len(keys) == 1 and not foreign.is_foreign(row):
            page = state.eviction() if row["kind"] == "decode" else state.explore()
            st.page_link(
                page,
                label="Open",
                icon=":material/arrow_forward:",
                icon_position="right",
                query_params={"key": keys[0]},
            )
        moving = bool(chosen["status"].isin(services.ACTIVE).any())
        st.download_button(
            "Export" if len(keys) == 1 else f"Export {len(keys)} runs",
            (lambda: services_sharing.export(keys, sharing.opened())) if not moving else b"",
            disabled=moving,
            help="A run at work is exported once it has ended" if moving else None,
            file_name=f"phasescope-{keys[0] if len(keys) == 1 else 'runs'}.zip",
            mime="application/zip",
            on_click="ignore",
            key="library-export",
        )
        if len(keys) > 1:
            compare_button(chosen, "bar")
        if not state.read_only() and st.button("Delete", key="library-delete"):
            _ask_delete(chosen)
    if len(keys) == 1:
        _marks(chosen.iloc[0])
        if foreign.is_foreign(row):
            foreign.show(keys[0])
        addresses.show(keys[0], chosen.iloc[0]["kind"])


def _marks(row: pd.Series) -> None:
    """Note and tags of one run; they stay when it is resumed or run again."""
    key, place = row["key"], f"note-{row['key']}"
    if row["finding"]:
        text("doubt", row["finding"])
    have = next((r for r in services_sharing.library()["runs"] if r["key"] == key), None)
    if have is None:
        text("note", "This run was deleted elsewhere.")
        return
    read = st.session_state.setdefault(place, have)
    if state.read_only():
        text("note", read["note"] or "No note.")
        return
    if refused := st.session_state.get(f"{place}-error"):
        text("error", sentence(refused))
    left, right, button = st.columns([3, 2, 1], vertical_alignment="bottom")
    note = left.text_input("Note", read["note"], key=f"{place}-note", max_chars=5000)
    tags = right.text_input("Tags", ", ".join(read["tags"]), key=f"{place}-tags", help=TAGS)
    if button.button("Save", key=f"{place}-save", width="stretch"):
        told = services_sharing.write_note(key, read["note_version"], note=note, tags=split(tags))
        for name in [k for k in st.session_state if str(k).startswith(place)]:
            del st.session_state[name]
        if told.error:
            st.session_state[f"{place}-error"] = told.error
        else:
            st.session_state["view-told"] = "Saved"
        st.rerun()


def _ask_delete(chosen: pd.DataFrame) -> None:
    """Says what goes and what others lose by it before anything is deleted."""

    @st.dialog("Delete this run" if len(chosen) == 1 else f"Delete {len(chosen)} runs")
    def ask() -> None:
        rows = 0
        for _, row in chosen.iterrows():
            told = services_sharing.losses(row["key"])
            if told.error:
                text("error", f"{row['name']}: {told.error}")
                continue
            lost = told.value
            rows += lost["rows"]["answers"] + lost["rows"]["tokens"]
            if lost["source"] == "preset":
                text("note", f"{row['name']} came with Phasescope and stays; your own rows go.")
            if lost["views"]:
                names = joined([f"“{view['name']}”" for view in lost["views"]])
                noun = "view loses" if len(lost["views"]) == 1 else "views lose"
                text("error", f"{row['name']}: the {noun} its numbers: {names}.")
            words = [noun for noun in ("note", "tags") if lost[noun]]
            if words and lost["source"] != "preset":
                goes = "go" if "tags" in words else "goes"
                text("note", f"{row['name']}: its {joined(words)} {goes} too.")
            if lost["control_of"]:
                n = count(len(lost["control_of"]), "run")
                text("note", f"{row['name']}: its rows stay as the control of {n}.")
        text(
            "doubt", f"{count(rows, 'row')} would go. This cannot be undone; an export can be kept."
        )
        if st.button("Delete", type="primary", key="library-delete-now"):
            errors = [services_sharing.delete(key).error for key in chosen["key"]]
            failed = [error for error in errors if error]
            n = count(len(errors) - len(failed), "run")
            st.session_state["view-told"] = " ".join([f"{n} deleted.", *failed])
            services.runs.clear()
            st.rerun()

    ask()
