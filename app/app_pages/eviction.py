"""Eviction: what a cache forgets while a model writes, and what that costs."""

import streamlit as st

from app import addresses, services, services_eviction, state
from app.eviction import forgotten, form, head, quality, strip
from app.eviction.subject import Missing, Subject, settle
from app.library import foreign
from app.style import rule, text

TABS = {"What was forgotten": forgotten.forgotten, "Quality against budget": quality.quality}


def page() -> None:
    schema = services_eviction.schema()
    if not schema["methods"] or not schema["prompts"]:
        text("finding", "This service decodes nothing", tag="div")
        text("doubt", "It is of an older version. Restart it with `phasescope serve`.")
        return
    try:
        subject = settle(schema)
    except Missing as missing:
        nothing_here(missing)
        return
    with st.sidebar:
        form.form(subject)
    if subject.active:
        watch(subject)
    else:
        head.head(subject)
    if subject.report:
        tabs(subject)
        addresses.show(subject.key, "decode")
        return
    rule()
    before(subject)


def watch(subject: Subject) -> None:
    """Headline and progress, once a second, until the run ends."""

    @st.fragment(run_every="1s")
    def now() -> None:
        fresh = services.run(subject.key) or {}
        if fresh.get("status") not in services.ACTIVE:
            services_eviction.forget()
            st.rerun()
        moving = Subject(
            subject.key, subject.spec, subject.plan, fresh, subject.errors, subject.schema
        )
        head.head(moving)
        head.progress(moving)

    now()


def before(subject: Subject) -> None:
    """The first prompt, with what is marked in it: there is nothing to replay yet."""
    tokens = ((subject.plan or {}).get("sample") or {}).get("tokens") or []
    if not tokens:
        return
    text("section", "The first prompt, with what is asked again at the end", tag="h2")
    with st.container(key="text"):
        st.html(strip.text(tokens, {}) + strip.legend(event=False))


def tabs(subject: Subject) -> None:
    """Only the open tab is drawn; which one is open is part of the link."""
    names = list(TABS)
    given = state.unfit("tab", names)
    if given is not None:
        text("note", f"This page has no tab “{given[:40]}”; the first is open.")
    opened = st.tabs(names, key="tab", bind="query-params", on_change=lambda: state.chosen("tab"))
    for name, tab in zip(names, opened, strict=True):
        if tab.open:
            with tab:
                TABS[name](subject)


def nothing_here(missing: Missing) -> None:
    key = str(missing)[:64]
    if missing.other and foreign.is_foreign(services.spec(key)):
        foreign.elsewhere(key)
        return
    if missing.other:
        text("finding", "This is a phase sweep, not a decode run", tag="div")
        text("doubt", "It has a page of its own.")
        st.page_link(
            state.explore(),
            label="Open it on Explore",
            icon=":material/arrow_forward:",
            icon_position="right",
            query_params={"key": key},
        )
    else:
        text("finding", "No such run here", tag="div")
        text(
            "doubt",
            f"This service knows no decode run under {key!r}. The link may be cut short, or "
            "belong to another machine.",
        )

    def afresh() -> None:
        state.decode.forget()
        st.query_params.clear()

    st.button("Start a new one", on_click=afresh, key="afresh")


page()
