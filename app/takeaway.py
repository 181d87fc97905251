"""What can be taken away of a run: a report that works offline, a section for a model card."""

from __future__ import annotations

import streamlit as st

from app import services, services_compare


def buttons(key: str) -> None:
    """Made only when pressed: a report draws every chart."""
    st.download_button(
        "Report (HTML)",
        lambda: services_compare.report((key,)).encode(),
        f"phasescope-{key}.html",
        "text/html",
        on_click="ignore",
        key="run-report",
        help="One file with the finding, the charts, the spec and the provenance; works offline",
    )
    st.download_button(
        "Model card (Markdown)",
        lambda: services.ask("model_card", key)["markdown"].encode(),
        f"phasescope-{key}.md",
        "text/markdown",
        on_click="ignore",
        key="run-card",
        help="Stride, phases covered, prompts a phase, intervals, worst phase",
    )
