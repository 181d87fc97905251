"""The table of runs: one thumbnail a row, worst and gap beside it; what is chosen stays chosen."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import services, state
from app.figures.theme import Look, look_of
from app.figures.thumbnails import dots, sparkline
from app.library.rows import SORTS
from app.words import ago

PAGE = 50  # rows that are drawn at once
ROW, HEAD = 38, 38  # pixels
COLUMNS = (
    "name", "model", "memory", "task", "picture", "worst", "gap", "period", "when", "who", "tags",
)  # fmt: skip
MORE = ("mean", "stride", "rows", "views")  # numbers that stand there while they sort


def table(rows: pd.DataFrame, order: str = "") -> pd.DataFrame:
    """Draw a page of rows with the number they are sorted by; the chosen ones are returned."""
    look = look_of(state.theme())
    pages = max(1, -(-len(rows) // PAGE))
    page = min(state.number("page", 1), pages)
    shown = rows.iloc[(page - 1) * PAGE : page * PAGE].reset_index(drop=True)
    labels = {model["name"]: model["label"] for model in services.schema()["models"]}
    event = st.dataframe(
        drawn(shown, look, labels),
        column_order=columns(order),
        column_config=config(),
        hide_index=True,
        on_select="rerun",
        selection_mode="multi-row",
        row_height=ROW,
        height=HEAD + ROW * max(1, len(shown)) + 3,
        key=f"library-table-{page}",
        placeholder="–",
    )
    if pages > 1:
        pager(page, pages, len(rows))
    return shown.iloc[[i for i in event.selection.rows if i < len(shown)]]


def columns(order: str) -> list[str]:
    """Those that always stand there, and the number that rows are sorted by before the others."""
    by, _ = SORTS.get(order, ("", True))
    at = COLUMNS.index("worst")
    return [*COLUMNS[:at], *([by] if by in MORE else []), *COLUMNS[at:]]


def drawn(rows: pd.DataFrame, look: Look, labels: dict[str, str] | None = None) -> pd.DataFrame:
    """What the table's cells hold; a run that is not whole says so in the place of its period.

    `labels`: of models, as the form shows them.
    """
    made = rows.copy()
    named = {name: label.removesuffix(" (controlled)") for name, label in (labels or {}).items()}
    made["model"] = rows["model"].map(lambda model: named.get(model, model))
    made["name"] = [
        name.removesuffix(f", {memory}")
        for name, memory in zip(rows["name"], rows["memory"], strict=True)
    ]
    made["picture"] = [picture(row, look) for row in rows.itertuples()]
    made["when"] = [when(moment) for moment in rows["created"]]
    made["period"] = [period(row) for row in rows.itertuples()]
    made["who"] = [
        f"{who}, old code" if stale else who
        for who, stale in zip(rows["who"], rows["stale"], strict=True)
    ]
    return made[[*COLUMNS, *MORE]]


def picture(row: object, look: Look) -> str | None:
    """A run's curve, or its methods' losses, as a small SVG; none where it has neither."""
    if len(row.losses) > 1:
        return dots(row.losses, width=140, height=32, look=look)
    if not len(row.curve):
        return None
    stride = int(row.stride) if row.stride == row.stride and row.stride else None
    colour = look.gold if stride else look.control
    return sparkline(
        row.curve, row.control, stride=stride, colour=colour, width=140, height=32, look=look
    )


def period(row: object) -> str:
    if row.status != "done":
        return row.status
    if row.kind in ("decode", "kvpress"):
        return "–"
    return f"{row.period:.0f}" if row.period == row.period else "none"


def when(moment: str) -> str:
    told = ago(moment)
    return told if told in ("now", "") else f"{told} ago"


def config() -> dict:
    column = st.column_config
    return {
        "name": column.TextColumn("Name", width=200),
        "model": column.TextColumn("Model", width=158),
        "memory": column.TextColumn("Memory", width=218),
        "task": column.TextColumn("Task", width=80),
        "picture": column.ImageColumn(
            "Curve", width=150, help="0 to 1 upward; grey: full cache. Dots: loss by method"
        ),
        "mean": column.NumberColumn("Mean", format="%.3f", width=62),
        "stride": column.NumberColumn("Stride", format="%d", width=62),
        "rows": column.NumberColumn("Rows", format="localized", width=80),
        "views": column.NumberColumn("Views", format="%d", width=62),
        "worst": column.NumberColumn("Worst", format="%.3f", width=62),
        "gap": column.NumberColumn("Gap", format="%.3f", width=62),
        "period": column.TextColumn("Period", width=70, alignment="right"),
        "when": column.TextColumn("When", width=82),
        "who": column.TextColumn("Who", width=100, help="Old code: made by another version"),
        "tags": column.ListColumn("Tags", width=60),
    }


def pager(page: int, pages: int, count: int) -> None:
    with st.container(
        horizontal=True, vertical_alignment="center", gap="small", key="library-pager"
    ):
        if st.button("Earlier page", disabled=page == 1, key="library-back"):
            state.set_number("page", page - 1)
            st.rerun()
        st.html(f'<p class="ps-note ps-text">Page {page} of {pages}, {count:,} runs</p>')
        if st.button("Next page", disabled=page == pages, key="library-next"):
            state.set_number("page", page + 1)
            st.rerun()
