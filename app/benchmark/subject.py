"""What is open below the panels: a member of the family, or a run of one's own by its key."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from app import services, state
from app.benchmark import family


@dataclass(frozen=True)
class Opened:
    """One run, planned, running or measured.  `member` is None for a run of one's own."""

    key: str
    label: str
    spec: dict
    run: dict | None
    member: dict | None

    @property
    def status(self) -> str:
        return (self.run or self.member or {}).get("status") or "none"

    @property
    def active(self) -> bool:
        return self.status in services.ACTIVE

    @property
    def report(self) -> dict:
        """The run's numbers, the member's where the run has none; {} without any."""
        if self.run and self.run.get("residues"):
            return self.run
        return family.numbers(self.member or {})

    @property
    def stride(self) -> int | None:
        configured = (self.report.get("period") or {}).get("configured")
        own = (self.member or {}).get("stride") or (self.spec.get("memory") or {}).get("stride")
        value = configured or own
        return int(value) if value else None

    @property
    def modulus(self) -> int:
        return int(self.report.get("modulus") or self.spec.get("modulus") or 24)

    def control(self, measure: str) -> pd.DataFrame:
        """residue, value of the control; empty for a full cache."""
        block = (self.run or {}).get("control") or {}
        rows = block.get("residues") or (self.member or {}).get("control_residues")
        return family.residues(rows, measure)

    def control_report(self) -> dict:
        return (self.run or {}).get("control") or {}


class Missing(Exception):
    """The address names no member and no run; the argument is what it named."""


def find(members: list[dict], seen: list[dict]) -> Opened | None:
    """What the address opens; without one the section's first memory with W = S.

    None where nothing is measured yet.  Raises Missing for an unknown name or key.
    """
    key, name = state.opened()
    if key:
        return of_key(members, key)
    if name:
        member = family.named(members).get(name)
        if member is None:
            raise Missing(name)
        return of_member(member)
    own = [m for m in seen if family.measured(m) and family.stride(m)]
    own = sorted(own, key=lambda m: family.numbers(m).get("within_gap") is None)
    return of_member(own[0]) if own else None


def of_key(members: list[dict], key: str) -> Opened:
    """A run of one's own by its key, or the member that the key names."""
    member = next((m for m in members if m.get("key") == key), None)
    if member:
        return of_member(member)
    if not state.well_formed(key):
        raise Missing(key)
    run = services.run(key)
    spec = (run or {}).get("spec") or services.spec(key)
    if spec is None:
        raise Missing(key)
    model = (spec.get("model") or {}).get("id") or "model"
    label = (run or {}).get("title") or f"{model}, {(run or {}).get('phrase') or 'run'}"
    return Opened(key, label, spec, run, None)


def of_member(member: dict) -> Opened:
    """A member of the family; its run's own page has more than the family's list."""
    begun = (member.get("status") or "none") not in ("none", "missing")
    run = services.run(member["key"]) if begun and member.get("key") else None
    return Opened(member.get("key") or "", member["label"], member["spec"], run, member)
