"""Saved views as cards: a picture of the first run, the name, and a sentence."""

from __future__ import annotations

from html import escape

import streamlit as st

from app import state
from app.figures.theme import look_of
from app.figures.thumbnails import sparkline
from app.words import ago

FEW = 8


def views(library: dict, words: str) -> None:
    """The views that fit the search, eight until all are asked for."""
    found = [view for view in library["views"] if fits(view, words)]
    if not found:
        told = (
            "No view fits the search."
            if library["views"]
            else ("No view yet. Save view on any page keeps what it shows under a short link.")
        )
        st.html(f'<p class="ps-note ps-text">{escape(told)}</p>')
        return
    every = len(found) <= FEW or st.toggle(f"All {len(found)} views", key="library-all-views")
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
    st.page_link(
        state.page_named(view["page"]),
        label=label(view["name"]),
        query_params=view["state"] | {"view": view["id"]},
    )
    told = view["note"] or (known[0].get("finding") if known else "") or ""
    when = ago(view["changed"])
    more = [view["page"], when if when == "now" else f"{when} ago", *view["tags"]]
    more += ["locked"] if view["locked"] else []
    more += [f"by {view['author']}"] if view["author"] else []
    st.html(
        f'<div class="ps-gallery"><p>{escape(told[:160])}</p></div>'
        f'<p class="ps-note ps-text">{escape(" · ".join(more))}</p>'
    )


def label(name: str) -> str:
    """A name inside a link's label: nothing in it is Markdown."""
    from app.words import prose

    return prose(name)
