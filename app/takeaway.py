"""What can be taken away of a run: a report that works offline, a section for a model card."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app import services, sharing


class _Asking:
    """The client's methods by `services.ask`, which finds a restarted service again."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: services.ask(name, *args, **options)


def report(keys: tuple[str, ...], base: str = "", *, of: str = "this run") -> None:
    """Made only when pressed: a report draws every chart.  In a view of these runs it has the
    view's name and note."""
    view = (sharing.opened(keys) or {}).get("id", "")
    st.download_button(
        "Report",
        lambda: _made(keys, base, view).encode(),
        f"phasescope-{keys[0] if len(keys) == 1 else '-'.join(key[:6] for key in keys)}.html",
        "text/html",
        on_click="ignore",
        key="report",
        help=f"One HTML file with {of}'s finding, charts, numbers and spec; works offline",
    )


def _made(keys: tuple[str, ...], base: str, view: str) -> str:
    from app.report import report as made

    return made(_Asking(), list(keys), base=base, view=view)


def buttons(key: str) -> None:
    """A report, and a section for a model card."""
    report((key,))
    st.download_button(
        "Model card (Markdown)",
        lambda: services.ask("model_card", key)["markdown"].encode(),
        f"phasescope-{key}.md",
        "text/markdown",
        on_click="ignore",
        key="run-card",
        help="Stride, phases covered, prompts a phase, intervals, worst phase",
    )
