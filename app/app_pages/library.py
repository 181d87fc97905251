"""Library: all views and runs, found, sorted, marked, exported, deleted."""

from datetime import date
from typing import Any

import pandas as pd
import streamlit as st

from app import gate, services_sharing, sharing, state
from app.library import chosen, keeping, rows, table, views
from app.style import html_of, text

DAYS = {"after": "From", "before": "To"}
FIRST_DAY = date(2000, 1, 1)


def page() -> None:
    library = services_sharing.library()
    every = rows.frame(library["runs"])
    head, buttons = st.columns([3, 2], vertical_alignment="bottom")
    finding, doubt = rows.finding(every)
    with head:
        st.html(html_of("finding", finding, tag="div") + html_of("doubt", doubt))
    place = buttons.container(horizontal=True, horizontal_alignment="right", gap="small")
    st.space("small")
    words, kinds, order, more = controls()
    wanted = filters(library, every, more)
    found = rows.frame(rows.of_kind(library["runs"], kinds))
    shown = rows.of_any_time(found, wanted)
    found = rows.ordered(rows.narrowed(rows.search(found, words), wanted), order)
    st.space("small")
    heading, save = st.columns([3, 2], vertical_alignment="bottom")
    with heading:
        text("section", "Views", tag="h2")
    with save, st.container(horizontal=True, horizontal_alignment="right", gap="small"):
        sharing.buttons()
    chosen_some = kinds or any(wanted[name] for name in rows.OF_A_RUN)
    views.views(library, words, wanted, set(shown["key"]) if chosen_some else None)
    views.deleted(library, words)
    st.space("small")
    text("section", "Runs", tag="h2")
    if found.empty:
        told = "No run fits. Clear the search or a filter." if len(every) else "None yet."
        text("note", told)
        picked = found
    else:
        picked = table.table(found, order)
        chosen.actions(picked)
    with place:
        keeping.keeping(library)
        if not state.read_only():
            keeping.bring_in()
        chosen.compare_button(picked)
        gate.way_out(services_sharing.who())


def controls() -> tuple[str, list[str], str, Any]:
    """Search, kinds and order, all of them in the address; and where the filters go."""
    left, middle, right = st.columns([3, 5, 4], vertical_alignment="center")
    words = left.text_input(
        "Search",
        key="q",
        bind="query-params",
        placeholder="Search name, model, memory, tag",
        label_visibility="collapsed",
        icon=":material/search:",
    )
    kinds = middle.pills(
        "Kind",
        list(rows.KINDS),
        selection_mode="multi",
        key="kinds",
        bind="query-params",
        label_visibility="collapsed",
    )
    with right, st.container(horizontal=True, horizontal_alignment="right", gap="small"):
        more = st.container(width="content")
        order = st.selectbox(
            "Order",
            list(rows.SORTS),
            key="order",
            bind="query-params",
            label_visibility="collapsed",
            width=160,
        )
    return words or "", list(kinds or ()), order or "Recent", more


def filters(library: dict, every: pd.DataFrame, place: Any) -> dict[str, Any]:
    """Model, memory, task, status, tag and dates, behind one button."""
    tags = [*every["tags"], *(view["tags"] for view in library["views"])]
    offers = {
        "model": sorted(set(every["model"]) - {""}),
        "memory": sorted(set(every["memory"].map(rows.memory_kind)) - {""}),
        "task": sorted(set(every["task"]) - {""}),
        "status": sorted(set(every["status"])),
        "tag": sorted({tag for some in tags for tag in some}),
    }
    made: dict[str, Any] = {}
    with place, st.popover("Filters", icon=":material/filter_list:"):
        for name, options in offers.items():
            state.within(name, options)
            chosen_one = st.selectbox(
                name.capitalize(), options, index=None, placeholder="any", key=name,
                bind="query-params",
            )  # fmt: skip
            made[name] = chosen_one or ""
        made["since"] = st.selectbox("Since", list(rows.SINCE), key="since", bind="query-params")
        for column, (name, told) in zip(st.columns(2), DAYS.items(), strict=True):
            made[name] = column.date_input(
                told, None, key=name, bind="query-params", min_value=FIRST_DAY,
            )  # fmt: skip
    return made


page()
