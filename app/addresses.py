"""Where a run's numbers lie on the service, for a script or a spreadsheet: links, not fetched."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app import services
from app.style import text
from app.words import prose

TABLES = {
    "sweep": ("answers", "tokens"),
    "decode": ("decode/steps", "decode/answers", "decode/marks", "decode/costs", "decode/texts"),
    "kvpress": ("predictions",),
}
FORMS = ("json", "csv", "parquet")
TOLD = (
    "Each asks for the service's token, in the header or as ?token=. It lies in service.json of "
    "the state folder, readable by its owner alone. All addresses are listed at /docs. The service "
    "answers on the machine that it runs on, also where this page is shared with others."
)


def show(key: str, kind: str) -> None:
    """A quiet list behind one press."""
    show_each([("", key, kind)])


def show_each(runs: Sequence[tuple[str, str, str]]) -> None:
    """The same of several runs: (name, key, kind)."""
    with st.expander("Addresses for scripts"):
        for name, key, kind in runs:
            if name:
                text("label", name)
            st.markdown(of_run(key, kind))
        text("note", TOLD)


def of_run(key: str, kind: str) -> str:
    """Links to a run's numbers: the run as json, and a line for each table in every form."""
    own = f"/runs/{key}"
    lines = [_line(own, FORMS[:1])]
    return "  \n".join(lines + [_line(f"{own}/{name}", FORMS) for name in TABLES.get(kind, ())])


def of_view(id: str) -> None:
    """Where a view lies as data, for whoever sees the page."""
    for form in FORMS:
        address = f"{services.address()}/views/{id}.{form}"
        st.link_button(form.upper(), address, type="tertiary", help=f"For scripts. {TOLD}")


def _line(path: str, forms: Sequence[str]) -> str:
    ends = " · ".join(f"[.{form}]({services.address()}{path}.{form})" for form in forms)
    return f"{prose(path)} {ends}"
