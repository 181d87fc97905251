"""Which run of a key is shown: it may have one of each code version, own and imported."""

from __future__ import annotations

from collections.abc import Sequence

from engine.kinds import KVPRESS
from engine.store import Run
from engine.version import is_stale


def stale(run: Run, values: dict) -> bool:
    """`values`: the run's spec."""
    if run.kind == KVPRESS:  # of no code of ours
        return False
    model = values.get("model", {})
    return is_stale(run.code_version, str(model.get("id", "")), str(model.get("revision", "")))


def preference(run: Run, values: dict) -> tuple:
    """Least for the run to show: the user's own of this code, whole, asked for, no import, newest.

    What a file says of itself puts nothing in the place of what was computed here or was shipped.
    """
    current, own = not stale(run, values), run.source == "own"
    whole = run.status != "done", not run.asked
    return (not (current and own), *whole, run.source == "import", not current, not own, -run.id)


def picked(runs: Sequence[Run], specs: dict[str, tuple[dict, str]]) -> dict[str, Run]:
    """Key → the run to show of it."""
    best: dict[str, Run] = {}
    for run in runs:
        values = specs.get(run.key, ({}, ""))[0]
        known = best.get(run.key)
        if known is None or preference(run, values) < preference(known, values):
            best[run.key] = run
    return best
