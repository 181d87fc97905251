"""The controlled family: does the period follow the stride, and what does not explain it."""

import streamlit as st

from app import services
from app.benchmark import below, failed, family, form, head, opened, panels, repairs, training
from app.benchmark import scroll as into_view
from app.style import text

DRAWN = "benchmark-drawn"  # by this session


def page() -> None:
    first = st.empty()
    if not st.session_state.get(DRAWN):  # the service's first answer takes seconds
        with first.container():
            head.opening()
            text("note", "Reading the stored results.")
    if services.coming():
        first.empty()
        head.opening()
        wait()
        return
    schema, told = services.schema(), services.benchmark()
    members = told["members"]
    first.empty()
    st.session_state[DRAWN] = True
    seen, measure = [], family.MEASURES[0]
    if members:
        section, measure = head.head(members)
        groups = family.section(members, section)
        seen = family.shown(groups)
        panels.panels(members, groups, measure)
        panels.watch(seen)
    else:
        head.nothing("The service lists no controlled model. Train one: phasescope train NAME.")
    with st.sidebar:
        form.form(schema)
    subject = open_below(schema, members, seen, measure)
    later = st.container()
    if members:
        st.space("medium")
        failed.failed(members)
        st.space("medium")
        training.coverage(members)
        st.space("medium")
        repairs.repairs(members)
    st.space("medium")
    training.published(told.get("published") or [])
    training.trainings()
    if subject:
        with later:  # drawn last: its copies are made again, which may take seconds
            below.depth(subject, members)


def wait() -> None:
    """Once a second until the family's results are in; the service goes on without the page."""

    @st.fragment(run_every="1s")
    def now() -> None:
        coming = services.coming()
        if not coming:
            st.rerun()
        done, total = coming["done"], coming["total"]
        line = f"Bringing in the results that came with Phasescope: {done} of {total}"
        with st.container(key="progress"):
            st.progress(min(1.0, done / max(1, total)), text=line)
        text("note", "Once for this home folder. The page may be closed: it goes on.")

    now()


def open_below(
    schema: dict, members: list[dict], seen: list[dict], measure: str
) -> opened.Opened | None:
    """What the address opens, with all that is known of it."""
    subject = opened.settle(members, seen)
    if subject is None:
        return None
    st.space("medium")
    with st.container(key="opened"):
        opened.opened(subject, members, measure)
        if not subject.active and subject.report.get("residues"):
            below.details(subject, schema, members, measure)
            below.answers(subject)
    into_view.to_opened()
    return subject


page()
