"""What a report is made of: runs, their comparison and rows, as the service tells them.

Knows a client's methods.  Knows nothing of HTML, and no cache: a page hands in its own client.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import pandas as pd

from app import frames
from engine.client import NotFound, Refused

MOST = 8


class Wrong(NamedTuple):
    """What is wrong with what was asked for."""

    field: str
    message: str


class Client(Protocol):
    """The part of `engine.client.Client` that a report needs."""

    def run(self, key: str) -> dict: ...

    def compare(self, keys: list[str], base: str | None = None) -> dict: ...

    def answers(self, key: str, control: bool = False) -> Any: ...

    def view(self, id: str) -> dict: ...

    def preview(self, spec: dict) -> dict: ...


@dataclass(frozen=True)
class Material:
    """runs: in the order asked.  told: their comparison, None where there is none."""

    runs: list[dict]
    told: dict | None = None
    reason: str = ""  # why several runs are not compared
    answers: pd.DataFrame = field(default_factory=pd.DataFrame)  # of one sweep
    control: pd.DataFrame = field(default_factory=pd.DataFrame)
    view: dict | None = None
    plan: dict | None = None  # of one sweep with rivals: their names

    @property
    def decode(self) -> bool:
        return is_decode(self.runs[0])


def gather(client: Client, keys: list[str], base: str = "", view: str = "") -> Material:
    """Ask for everything at once; NotFound names a key that is unknown, Refused what is wrong."""
    told_view = client.view(view) if view else None
    if told_view and not keys:
        keys, base = of_view(told_view)
    keys = list(dict.fromkeys(keys))
    if not keys:
        raise Refused(Wrong("keys", "name at least one run"))
    if len(keys) > MOST:
        raise Refused(Wrong("keys", f"name at most {MOST} runs, not {len(keys)}"))
    runs = [client.run(key) for key in keys]
    if len(runs) > 1:
        try:
            return Material(runs, client.compare(keys, base=base or None), view=told_view)
        except Refused as refused:
            return Material(runs, reason=sentence(refused), view=told_view)
    run = runs[0]
    if is_decode(run) or not run.get("residues"):
        return Material(runs, view=told_view)
    answers = frames.usable(frame(client.answers(keys[0])))
    control = pd.DataFrame()
    if run.get("control"):
        try:
            control = frames.usable(frame(client.answers(keys[0], control=True)))
        except NotFound:
            control = pd.DataFrame()
    planned = plan(client, run, answers)
    return Material(runs, answers=answers, control=control, view=told_view, plan=planned)


def plan(client: Client, run: dict, answers: pd.DataFrame) -> dict | None:
    """The plan of a run whose rows hold rivals; None where its model is not here."""
    if "rival_logprobs" not in answers or not answers["rival_logprobs"].map(len).any():
        return None
    try:
        return client.preview(run["spec"])
    except Refused:
        return None


def is_decode(run: dict) -> bool:
    return (run.get("spec") or {}).get("kind") == "decode"


def of_view(view: dict) -> tuple[list[str], str]:
    """Keys and baseline that a saved view is of."""
    state = view.get("state") or {}
    named = state.get("runs") or state.get("key") or state.get("run") or ""
    keys = [key.strip() for key in str(named).split(",") if key.strip()]
    return keys, str(state.get("base") or "")


def sentence(refused: Refused) -> str:
    error = refused.errors[0]
    return str(error.get("message") if isinstance(error, dict) else error[1])


def frame(table: Any) -> pd.DataFrame:
    return table.to_pandas() if hasattr(table, "to_pandas") else pd.DataFrame(table)
