"""Where a run's numbers lie on the service, for a script or a spreadsheet; shown, not fetched."""

from __future__ import annotations

import streamlit as st

from app import services
from app.style import text

TABLES = {
    "sweep": ("answers", "tokens"),
    "decode": ("decode/steps", "decode/answers", "decode/marks", "decode/costs", "decode/texts"),
    "kvpress": ("predictions",),
}
FORMS = ("json", "csv", "parquet")
TOLD = (
    "Each asks for the service's token, in the header or as ?token=. It lies in service.json of "
    "the state folder, readable by its owner alone. All addresses are listed at /docs."
)


def of_run(key: str, kind: str) -> list[str]:
    """Paths of a run's numbers: `/runs/KEY.json`, `/runs/KEY/answers.csv`, …"""
    rows = [f"/runs/{key}/{table}.{FORMS[-1]}" for table in TABLES.get(kind, ())]
    return [f"/runs/{key}.json", *rows]


def of_view(id: str) -> None:
    """Where a view lies as data."""
    text("note", f"For scripts: {services.address()}/views/{id}.json, with the service's token.")


def show(key: str, kind: str) -> None:
    """A quiet list behind one press."""
    with st.expander("Addresses for scripts"):
        root = services.address()
        st.code("\n".join(root + path for path in of_run(key, kind)), language=None)
        text("note", f"Tables end in .csv or .json as well. {TOLD}")
