"""What the page is about: the spec, what would run, and what is known of its run.

Settles the form's draft with the service: a valid draft becomes the address's key, an invalid one
keeps the last valid key and tells its errors at the fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from app import controls, fields, services, services_eviction, state
from app.library import foreign


@dataclass(frozen=True)
class Subject:
    """One run, planned or measured.  `run` is None until it was submitted."""

    key: str
    spec: dict
    plan: dict | None
    run: dict | None
    errors: tuple[tuple[str, str], ...]
    schema: dict

    @property
    def status(self) -> str:
        return (self.run or {}).get("status") or "new"

    @property
    def active(self) -> bool:
        return self.status in services.ACTIVE

    @property
    def report(self) -> dict | None:
        """The run's numbers, where it has any."""
        return self.run if self.run and self.run.get("residues") else None

    @property
    def modulus(self) -> int:
        return int(self.spec.get("modulus") or 2)

    @property
    def outdated(self) -> bool:
        """Whether the page shows the last valid prompt, as what the form says is not valid."""
        return bool(self.errors and self.plan) and state.draft() != fields.plain(self.spec)

    @property
    def stride(self) -> int | None:
        """The grid's stride, the lcm over layers; None without a grid."""
        strip = (self.plan or {}).get("strip") or {}
        configured = ((self.run or {}).get("period") or {}).get("configured")
        value = strip.get("stride") or configured or self.spec["memory"].get("stride")
        return int(value) if value else None

    @property
    def protocol(self) -> str:
        return self.spec.get("protocol") or ""

    @property
    def opens_with_padding(self) -> bool:
        """Whether padding may stand in front of the prompt's first token."""
        slots = ((self.plan or {}).get("strip") or {}).get("slots") or ()
        return any(slot["at"] == 0 for slot in slots)

    @property
    def measure(self) -> str:
        return self.spec.get("measure") or "joint"

    @property
    def answer(self) -> str:
        return ((self.plan or {}).get("answer") or {}).get("text") or ""

    @property
    def one_answer(self) -> bool:
        """Whether the plan's answer and rivals are every prompt's: drawn prompts have their own."""
        samples = int(self.spec.get("samples") or 1)
        prompts = (self.spec["task"].get("prompts") or ())[:samples]
        told = {(p["answer"], *(p.get("rivals") or ())) for p in prompts}
        return samples == 1 or len(told) == 1

    @property
    def rivals(self) -> list[str]:
        """Names of the rivals, in the order of their columns: tokens where all prompts agree."""
        told = [r["text"] for r in (self.plan or {}).get("rivals") or ()]
        return told if self.one_answer else [str(n) for n in range(1, len(told) + 1)]

    @property
    def preset(self) -> dict | None:
        return next((p for p in self.schema["presets"] if p.get("key") == self.key), None)

    @property
    def title(self) -> str:
        if self.run and self.run.get("title"):
            return self.run["title"]
        if self.preset:
            return self.preset["title"]
        return controls.kind_label("task", self.spec["task"]["kind"])


class Missing(Exception):
    """The address names nothing that the service knows, or a run that has a page of its own."""

    def __init__(self, key: str, kind: str = ""):
        super().__init__(key)
        self.kind = kind


def settle(schema: dict) -> Subject:
    """Read address and form, agree with the service, and return what the page is about.

    Raises Missing for a malformed or unknown key.  Called before the form is drawn, so that
    every widget shows what the service made of the values.
    """
    key = state.key()
    if key is None:
        key = _fresh(schema)
    elif not state.well_formed(key):
        raise Missing(key)
    if state.loaded() != key:
        spec = services.spec(key) or _of_preset(schema, key)
        if spec is None:
            raise Missing(key)
        if services_eviction.is_decode(spec) or foreign.is_foreign(spec):
            raise Missing(key, spec["kind"])
        state.go(key, spec)
    base = state.base()
    seeded = any(str(k).startswith(state.FORM) for k in st.session_state)
    draft = fields.read(schema, base) if seeded else fields.plain(state.draft())
    draft = fields.without_example(state.draft(), draft)
    state.keep_draft(draft)
    changed = draft != fields.plain(base)
    answer = _preview(draft, base, changed)
    if changed and answer.plan:
        key, base = answer.plan["key"], answer.plan["spec"]
        state.adopt(key, base, fields.corrected(schema, draft, base))
    elif key:
        state.point_at(key)
    plan = answer.plan
    if not plan and changed:  # the page goes on showing the last valid state
        plan = services.preview(fields.plain(base)).plan
    run = services.run(key) if key else None
    return Subject(key, base, plan, run, answer.errors, schema)


def _of_preset(schema: dict, key: str) -> dict | None:
    """The spec of a preset that was never opened here: the service has not seen its key yet."""
    return next((p["spec"] for p in schema["presets"] if p["key"] == key), None)


def _preview(draft: dict, base: dict, changed: bool) -> Any:
    """Ask for the plan; where only an untouched count or protocol does not fit, ask for its own."""
    answer = services.preview(draft)
    if not changed:
        return answer
    if answer.plan:
        return _padded_again(draft, answer)
    refused = {field for field, _ in answer.errors}
    stale = {
        name: auto
        for name, auto in fields.AUTO.items()
        if name in refused and draft.get(name) == base.get(name)
    }
    if stale and refused <= set(stale):
        again = services.preview(draft | stale)
        if again.plan and "protocol" in stale:
            state.change_padding(draft["protocol"], again.plan["spec"]["protocol"])
        return again if again.plan else answer
    return answer


def _padded_again(draft: dict, answer: Any) -> Any:
    """Take back a padding that the page itself put in place of one, where the marks now allow it.

    A padding that the reader chose stays.
    """
    former, now = state.changed_padding()
    if draft["protocol"] != now:
        state.forget_padding()
    elif former in fields.paddings(draft["task"]):
        own = services.preview(draft | {"protocol": former})
        if own.plan:
            state.forget_padding()
            return own
    return answer


def _fresh(schema: dict) -> str:
    """A key to begin with: a fresh form of the task asked for, or the first preset.

    "" while the service refuses the fresh form (no model yet, say): the page then shows the form
    with its errors, under no key.
    """
    task = state.wanted_task()
    if task is None and schema["presets"]:
        return schema["presets"][0]["key"]
    if state.loaded() == "":
        return ""
    kind = task if task in schema["tasks"] else next(iter(schema["tasks"]))
    spec = fields.default(schema, kind)
    answer = services.preview(spec)
    if answer.plan:
        state.go(answer.plan["key"], answer.plan["spec"])
        st.rerun()
    state.load("", spec)
    return ""
