"""What the page is about: the comparison as the service tells it, with each run's mark."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from app import services, services_compare
from app.compare import address
from app.figures.marks import Mark, mark
from app.figures.theme import Look
from app.words import joined, sentence

FOREIGN = "kvpress"  # kind of run that has no phases and no rows by copy
NAMES = "compare-names"  # key → name, so that a run can be named once it is gone


@dataclass(frozen=True)
class Subject:
    """A comparison now; `told` is the service's answer and None where there is nothing to show."""

    asked: address.Asked
    told: dict | None
    notes: tuple[str, ...]

    @property
    def runs(self) -> list[dict]:
        """Baseline first."""
        return (self.told or {}).get("runs") or []

    @property
    def base(self) -> dict:
        return self.runs[0]

    @property
    def others(self) -> list[dict]:
        return self.runs[1:]

    @property
    def foreign(self) -> bool:
        """Whether all of them were computed elsewhere: means without phases."""
        return bool(self.runs) and all(run["kind"] == FOREIGN for run in self.runs)

    @property
    def active(self) -> bool:
        return any(moving(run) for run in self.runs)

    @property
    def single(self) -> bool:
        """One run alone, without even a control to stand beside."""
        return len(self.runs) < 2

    def mark(self, run: dict, look: Look) -> Mark:
        """Grey for the baseline; the others take colours and symbols in order."""
        if run is self.base or run["key"] == self.base["key"]:
            return mark(None, look)
        return mark([r["key"] for r in self.others].index(run["key"]), look)

    def apart(self, axis: str) -> str:
        """Which runs a picture does not compare and why, or ""; runs of one reason together."""
        groups: dict[str, list[str]] = {}
        for part in (self._axis(axis).get("reason") or "").split("; "):
            name, _, why = part.rpartition(": ")
            groups.setdefault(why.rstrip("."), []).append(name)
        told = []
        for why, names in groups.items():
            if why and len(names) == len(self.runs):
                told.append(sentence(why) + ".")
            elif why:
                who = joined(names) if len(names) < 4 else f"{', '.join(names[:3])} and others"
                told.append(f"{who}: {why}.".removeprefix(": "))
        return " ".join(told)

    def plain(self, reason: str) -> str:
        """A sentence of the service with runs by their names."""
        told = reason
        for run in self.runs:
            told = told.replace(run["key"], run["name"])
        return sentence(told).rstrip(".") + "." if told else ""

    def on(self, axis: str) -> list[dict]:
        """Runs that share a picture, baseline first; one at work keeps its place."""
        keys = self._axis(axis).get("keys")
        return [run for run in self.runs if keys is None or run["key"] in keys or moving(run)]

    def _axis(self, name: str) -> dict:
        return ((self.told or {}).get("axes") or {}).get(name) or {}


def moving(run: dict) -> bool:
    return run.get("status") in services.ACTIVE


def settle(asked: address.Asked) -> Subject:
    """Ask the service of what the address names; runs that are gone are named and left out."""
    if not asked.keys:
        return Subject(asked, None, asked.notes)
    return fresh(asked)


def fresh(asked: address.Asked) -> Subject:
    """The same comparison as the service tells it now."""
    answer = services_compare.compare(asked.keys, asked.base)
    names = st.session_state.setdefault(NAMES, {})
    notes = list(asked.notes)
    for key in answer.missing:
        name = f"{names[key]} ({key})" if key in names else f"Run {key}"
        notes.append(f"{name} is not here any more and is left out.")
    if answer.reason:
        notes.append(answer.reason[:1].upper() + answer.reason[1:].rstrip(".") + ".")
    if answer.told:
        names |= {run["key"]: run["name"] for run in answer.told["runs"]}
    return Subject(asked, answer.told, tuple(notes))
