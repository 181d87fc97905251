"""Compare: what differs between runs, the same picture of each, and what it is worth."""

from collections.abc import Callable

import streamlit as st

from app import addresses, services, state
from app.compare import address, below, charts, claims, empty, head, table, textual
from app.compare.subject import Subject, fresh, settle
from app.figures.theme import look_of
from app.style import text

SEEN = "compare-seen"  # the runs that the page was drawn of last


def page() -> None:
    st.session_state["compare-notes"] = []
    asked = address.read()
    waiting = st.empty()
    if asked.keys and st.session_state.get(SEEN) != (asked.keys, asked.base):
        with waiting.container():
            head.coming(asked.keys)
    subject = settle(asked)
    st.session_state[SEEN] = (asked.keys, asked.base)
    waiting.empty()
    if subject.told is None:
        empty.empty(subject)
        return
    live = Live(subject)
    head.top(subject, live.draw)
    late = st.empty()  # notes of widgets below, told where they are read first
    fields = head.chips(subject)
    live.draw(lambda now: differences(now, every=fields == "all"))
    st.space("medium")
    chart = charts.choice(subject)
    if chart and charts.shared(subject, chart):
        text("note", claims.note(subject, chart))
    if chart in ("tokens", "attention", "timelines"):
        charts.draw(subject, chart)
    elif chart:
        live.draw(lambda now: charts.draw(now, chart))
    st.space("medium")
    live.draw(below.below)
    textual.difference(subject)
    runs = [run for run in subject.runs if not run.get("is_control")]
    addresses.show_each([(run["name"], run["key"], run["kind"]) for run in runs])
    live.end()
    told = [*subject.notes, *st.session_state["compare-notes"]]
    if told:
        with late.container():
            head.notes(told)


class Live:
    """Draws parts of the page: once a second while a run is at work, once otherwise."""

    def __init__(self, subject: Subject):
        self.subject = subject

    def draw(self, part: Callable[[Subject], None]) -> None:
        if not self.subject.active:
            part(self.subject)
            return

        @st.fragment(run_every="1s")
        def now() -> None:
            seen = fresh(self.subject.asked)
            if seen.told is None or not seen.active:
                st.rerun()
            part(seen)

        now()

    def end(self) -> None:
        """What was cached while runs moved is not kept."""
        if self.subject.active:
            services.runs.clear()


def differences(subject: Subject, *, every: bool) -> None:
    """The table; progress stands under the names of runs at work."""
    progress = {
        run["key"]: (services.run(run["key"]) or {}).get("progress") or {}
        for run in subject.runs
        if run.get("status") in services.ACTIVE
    }
    look = look_of(state.theme())
    st.html(table.table(subject, look, every=every, progress=progress))


page()
