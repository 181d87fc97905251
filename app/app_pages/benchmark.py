"""The controlled family: does the period follow the stride, and what does not explain it."""

import streamlit as st

from app import services
from app.benchmark import below, failed, family, form, head, opened, panels, repairs, training
from app.benchmark import scroll as into_view


def page() -> None:
    schema = services.schema()
    told = services.benchmark()
    members = told["members"]
    with st.sidebar:
        form.form(schema)
    seen, measure = [], family.MEASURES[0]
    if members:
        section, measure = head.head(members)
        groups = family.section(members, section)
        seen = family.shown(groups)
        panels.panels(members, groups, measure)
        panels.watch(seen)
    else:
        head.nothing("The service lists no controlled model. Train one: phasescope train NAME.")
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
