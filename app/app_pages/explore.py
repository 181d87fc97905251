"""Explore a prompt: one finding, the curve that shows it, and the controls to doubt it."""

import streamlit as st

from app import controls, fields, services, services_eviction, state
from app.explore import charts, details, difference, head, heat, layers, prompt, tables, why
from app.explore.subject import Missing, Subject, settle
from app.library import foreign
from app.style import rule, text

TABS = {
    "Why this phase": why.why,
    "Attention": heat.attention,
    "Top tokens": tables.top_tokens,
    "Token difference": difference.difference,
    "Design table": tables.design,
    "Layers": layers.layers,
    "Run details": details.details,
}


def page() -> None:
    schema = services_eviction.sweeps(services.schema())
    try:
        subject = settle(schema)
    except Missing as missing:
        nothing_here(str(missing), missing.kind)
        return
    with st.sidebar:
        controls.form(schema, state.draft(), subject.errors)
        buttons(subject)
    if subject.active:
        watch(subject)
    else:
        summary(subject)
    rule()
    prompt.prompt(subject)
    rule()
    if subject.active:
        live_charts(subject)
    else:
        charts.charts(subject)
    tabs(subject)


def summary(subject: Subject) -> None:
    head.head(subject)
    head.key_numbers(subject)


def watch(subject: Subject) -> None:
    """Headline and progress, once a second, until the run ends."""

    @st.fragment(run_every="1s")
    def now() -> None:
        fresh = services.run(subject.key) or {}
        if fresh.get("status") not in services.ACTIVE:
            services.forget()
            st.rerun()
        moving = Subject(
            subject.key, subject.spec, subject.plan, fresh, subject.errors, subject.schema
        )
        head.head(moving)
        head.progress(moving)

    now()


def live_charts(subject: Subject) -> None:
    """The curve as copies finish."""

    @st.fragment(run_every="2s")
    def now() -> None:
        charts.charts(subject)

    now()


def buttons(subject: Subject) -> None:
    """Estimate, Run, Cancel."""
    if subject.plan and not subject.errors:
        text("estimate", head.estimate(subject.plan))
    left, right = st.columns([2, 1])
    blocked = bool(subject.errors) or subject.plan is None or subject.active
    blocked = blocked or state.read_only()
    label = "Run again" if subject.status in ("failed", "cancelled", "incomplete") else "Run"
    if left.button(label, type="primary", key="run", disabled=blocked, width="stretch"):
        refused = services.submit(fields.plain(subject.spec), subject.title).errors
        for _, message in refused:
            text("error", message)
        if not refused:
            st.rerun()
    if right.button("Cancel", key="cancel", disabled=not subject.active, width="stretch"):
        services.cancel(subject.key)
        st.rerun()


def tabs(subject: Subject) -> None:
    """Only the open tab is drawn; which one is open is part of the link."""
    names = list(TABS)
    opened = st.tabs(names, key="tab", bind="query-params", on_change="rerun")
    for name, tab in zip(names, opened, strict=True):
        if tab.open:
            with tab:
                TABS[name](subject)


def nothing_here(given: str, kind: str) -> None:
    if kind == foreign.KIND:
        foreign.elsewhere(given)
        return
    if kind:
        text("finding", "This is a decode run", tag="div")
        text("doubt", "It is shown on a page of its own.")
        st.page_link(
            state.eviction(),
            label="Open it on Eviction",
            icon=":material/arrow_forward:",
            icon_position="right",
            query_params={"key": given},
        )
        return
    text("finding", "No such view here", tag="div")
    text(
        "doubt",
        (
            f"This service knows no run or view under {given[:64]!r}. The link may be cut short, "
            f"or belong to another machine."
        ),
    )
    st.space("small")
    left, right, _ = st.columns([1, 1, 3])
    left.page_link(state.start(), label="Back to the gallery", icon=":material/arrow_back:")

    def afresh() -> None:
        state.forget()
        st.query_params.clear()

    right.button("Start a new prompt", on_click=afresh)


page()
