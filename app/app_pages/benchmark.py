"""The controlled family: does the period follow the stride, and what does not explain it."""

import streamlit as st

from app import services
from app.benchmark import family, head, panels


def page() -> None:
    told = services.benchmark()
    members = told["members"]
    if not members:
        head.nothing("The service lists no controlled model. Train one: phasescope train NAME.")
        return
    section, measure = head.head(members)
    panels.panels(members, family.section(members, section), measure)
    st.space("medium")


page()
