"""PNG, SVG and CSV of a chart, behind a quiet menu at its corner.

CSV is the frame that was drawn.  Pictures are drawn by a browser on this machine; where there is
none the menu says so.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app import services
from app.figures.theme import Look, plain

WIDTH = 900
TITLE = 34  # more height for a title that stands above the figure on the page
CONFIG = {"displayModeBar": False, "responsive": True}


def chart(
    fig: go.Figure,
    frame: pd.DataFrame | Callable[[], pd.DataFrame],
    name: str,
    look: Look,
    *,
    alt: str,
    width: int = WIDTH,
    extra: Callable[[], None] | None = None,
) -> None:
    """Draw a figure with its menu.  `frame`: the CSV, or what makes it when it is asked for;
    `name`: widget key and file name; `extra`: more entries.
    """
    with st.container(key=f"chart-{name}"):
        st.plotly_chart(
            fig, theme=None, key=f"plot-{name}", config=CONFIG, alt=alt, width="stretch"
        )
        menu(fig, frame, name, look, width=width, extra=extra)


def menu(
    fig: go.Figure,
    frame: pd.DataFrame | Callable[[], pd.DataFrame],
    name: str,
    look: Look,
    *,
    width: int = WIDTH,
    extra: Callable[[], None] | None = None,
    title: str = "",
) -> None:
    """`title`: of the picture, where the page has it above the figure."""
    with (
        st.container(key=f"menu-{name}", width="content"),
        st.popover("", icon=":material/more_horiz:", help="Save this chart"),
    ):
        if extra:
            extra()
        found = services.browser()
        for form in ("png", "svg"):
            st.download_button(
                form.upper(),
                _picture(fig, form, look, width, title) if found else b"",
                file_name=f"phasescope-{name}.{form}",
                mime="image/png" if form == "png" else "image/svg+xml",
                key=f"{form}-{name}",
                disabled=not found,
                on_click="ignore",
                width="stretch",
            )
        st.download_button(
            "CSV",
            lambda: services.csv(frame() if callable(frame) else frame),
            file_name=f"phasescope-{name}.csv",
            mime="text/csv",
            key=f"csv-{name}",
            on_click="ignore",
            width="stretch",
        )
        if not found:
            st.caption("PNG and SVG need Chromium or Chrome on this machine; none was found.")


def _picture(fig: go.Figure, form: str, look: Look, width: int, title: str) -> Callable[[], bytes]:
    """Draws only when asked: a browser takes seconds to start."""

    def draw() -> bytes:
        solid = go.Figure(fig)
        solid.update_layout(paper_bgcolor=look.page, margin={"l": 24, "b": 20})
        height = int(fig.layout.height or 300)
        if title:
            height += TITLE
            font = {"size": 14, "color": look.ink}
            above = {"text": f"<b>{plain(title)}</b>", "y": 1, "yanchor": "top", "pad": {"t": 8}}
            solid.update_layout(title=above | {"font": font}, margin_t=TITLE, height=height)
        return services.picture(solid.to_json(), form, width, height)

    return draw
