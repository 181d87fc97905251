"""Saved views as cards: a picture of the first run, the name, and a sentence."""

from __future__ import annotations

from html import escape

import streamlit as st

from app import services_sharing, state
from app.figures.theme import look_of
from app.figures.thumbnails import sparkline
from app.library import rows
from app.style import text
from app.words import ago, count, prose

FEW = 8
MOST_DELETED = 20


def views(library: dict, words: str, wanted: dict, keys: set[str] | None) -> None:
    """The views that fit search and filters, eight until all are asked for.

    `keys`: runs of the chosen kind, model, memory, task and status, None where nothing is chosen.
    """
    found = [view for view in library["views"] if fits(view, words)]
    found = [view for view in found if fits_filters(view, wanted, keys)]
    if not found:
        told = (
            "No view fits."
            if library["views"]
            else ("No view yet. Save view on any page keeps what it shows under a short link.")
        )
        st.html(f'<p class="ps-note ps-text">{escape(told)}</p>')
        return
    every = len(found) <= FEW or st.toggle(
        f"All {len(found)} views", key="all-views", bind="query-params"
    )
    runs = {run["key"]: run for run in library["runs"]}
    for start in range(0, len(found) if every else FEW, 4):
        for column, view in zip(
            st.columns(4, gap="medium"), found[start : start + 4], strict=False
        ):
            with column, st.container(border=True, key=f"view-card-{view['id']}", height="stretch"):
                card(view, runs)


def fits(view: dict, words: str) -> bool:
    """Whether every word occurs in name, note, tags, page or author."""
    text = " ".join([view["name"], view["note"], *view["tags"], view["page"], view["author"]])
    return all(word in text.casefold() for word in words.casefold().split())


def fits_filters(view: dict, wanted: dict, keys: set[str] | None) -> bool:
    """Whether a view has the tag, was changed between the dates and shows a run that fits."""
    if wanted["tag"] and wanted["tag"] not in view["tags"]:
        return False
    if keys is not None and not keys & set(view["keys"]):
        return False
    return rows.between(view["changed"], wanted)


def card(view: dict, runs: dict[str, dict]) -> None:
    look = look_of(state.theme())
    known = [runs[key] for key in view["keys"] if key in runs]
    first = next((run for run in known if run.get("curve")), None)
    if first:
        source = sparkline(
            first["curve"],
            first.get("control_curve") or (),
            stride=first.get("stride"),
            height=56,
            look=look,
        )
        st.html(f'<div class="ps-gallery"><img src="{source}" alt=""></div>')
    link(view)
    told = view["note"] or (known[0].get("finding") if known else "") or ""
    when = ago(view["changed"])
    more = [view["page"], when if when == "now" else f"{when} ago", *view["tags"]]
    more += ["locked"] if view["locked"] else []
    more += [f"by {view['author']}"] if view["author"] else []
    st.html(
        f'<div class="ps-gallery"><p>{escape(told[:160])}</p></div>'
        f'<p class="ps-note ps-text">{escape(" · ".join(more))}</p>'
    )


def link(view: dict) -> None:
    """By its name, in which nothing is Markdown."""
    page = state.page_named(view["page"])
    st.page_link(page, label=prose(view["name"]), query_params=state.query(view))


def deleted(library: dict, words: str) -> None:
    """Views that were deleted, each with the way back; folded away."""
    found = [view for view in library.get("deleted") or () if fits(view, words)]
    if not found or state.read_only():
        return
    with st.expander("Deleted views", key="library-deleted"):
        for view in found[:MOST_DELETED]:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                when = ago(view["deleted"])
                told = [view["name"], view["page"], when if when == "now" else f"{when} ago"]
                text("note", " · ".join(told))
                if st.button("Restore", key=f"view-restore-{view['id']}", type="tertiary"):
                    back = services_sharing.edit(view["id"], view["version"], deleted=False)
                    st.session_state["view-told"] = back.error or "It is back"
                    st.rerun()
        if more := len(found[MOST_DELETED:]):
            text("note", f"{count(more, 'older one')} can be found by the search.")
