"""The Compare page's part of the address: which runs, the baseline, what is looked at.

Every value comes from the address on every run of the page, so that a link, the Back button and a
click all lead the same way.  What does not fit is left out and told in a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import streamlit as st

from app import state
from app.services_compare import MOST
from app.words import count

LONGEST = 64 * MOST + MOST  # characters of `runs`
KEPT = "compare-runs"  # what was compared last in this session


@dataclass(frozen=True)
class Asked:
    """What the address asks for.  `notes`: a sentence for each part that was left out."""

    keys: tuple[str, ...]
    base: str
    notes: tuple[str, ...] = field(default=())


def read() -> Asked:
    """Runs and baseline of the address, or those last compared where it names none."""
    given, notes = st.query_params.get("runs"), []
    if given is None:
        given = ",".join(st.session_state.get(KEPT, ()))
        if given:
            st.query_params["runs"] = given
    if len(given) > LONGEST:
        notes.append(f"The link names more than fits in {count(LONGEST, 'character')}.")
        given = given[:LONGEST].rpartition(",")[0]
    words = [word.strip() for word in given.split(",") if word.strip()]
    known = list(dict.fromkeys(word for word in words if state.well_formed(word)))
    odd = [word for word in words if not state.well_formed(word)]
    if odd:
        told = ", ".join(f"“{word[:24]}”" for word in odd[:3])
        notes.append(f"{told} is no key of a run and is left out.")
    if len(known) > MOST:
        notes.append(f"At most {MOST} runs stand side by side: the first {MOST} are shown.")
    keys = tuple(known[:MOST])
    base = st.query_params.get("base", "")
    if base and not state.well_formed(base):
        notes.append(f"The baseline “{base[:24]}” is no key of a run; the usual one is taken.")
        base = ""
    st.session_state[KEPT] = keys
    return Asked(keys, base, tuple(notes))


def write(keys: Sequence[str], base: str | None = None) -> None:
    """Put runs into the address, and the baseline where one is given ("": the usual one)."""
    st.session_state[KEPT] = tuple(keys)
    if keys:
        st.query_params["runs"] = ",".join(keys)
    else:
        st.query_params.pop("runs", None)
    before = st.query_params.get("base", "")
    kept = before if base is None and before in keys else base
    if kept:
        st.query_params["base"] = kept
    else:
        st.query_params.pop("base", None)


def link(keys: Sequence[str]) -> dict[str, str]:
    """The query of a link to a comparison."""
    return {"runs": ",".join(keys)}


def choice(name: str, options: Sequence[str], notes: list[str]) -> str:
    """One of a few words, the first where the address has none."""
    given = st.query_params.get(name)
    if given is None or given in options:
        return given or options[0]
    notes.append(f"There is no “{given[:24]}” for {name} here; {options[0]} is shown.")
    return options[0]


def whole(name: str, low: int, high: int, usual: int, notes: list[str]) -> int:
    """A whole number from `low` to `high`."""
    given = st.query_params.get(name)
    if given is None:
        return min(max(usual, low), high)
    fits = given.isascii() and given.isdigit() and len(given) < 10 and low <= int(given) <= high
    if fits:
        return int(given)
    notes.append(f"There is no {name} “{given[:24]}” here: it goes from {low} to {high}.")
    return min(max(usual, low), high)


def writes(name: str, widget: str) -> Callable[[], None]:
    """A callback that puts a widget's value into the address."""

    def changed() -> None:
        value = st.session_state.get(widget)
        if value is None:
            st.query_params.pop(name, None)
        else:
            st.query_params[name] = str(value)

    return changed


def shown(name: str, value: object) -> str:
    """Give the widget of a name the address's value; returns its key."""
    widget = f"c:{name}"
    st.session_state[widget] = value
    return widget
