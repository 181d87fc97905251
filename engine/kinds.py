"""The kinds of run: a sweep over phases, or a decode run of methods that evict.

Both have a dict form, a key, a model and a place in the same queue and list.  Knows which spec a
dict form names; imports a decode run's code where one is asked for.
"""

from __future__ import annotations

from typing import Any

from engine.registry import FieldError, SpecError, shown, suggest
from engine.specs import SweepSpec

DECODE, SWEEP = "decode", "sweep"


def read_spec(values: Any) -> Any:
    """The SweepSpec or DecodeSpec of a dict form; SpecError naming each bad field."""
    kind = values.get("kind", SWEEP) if isinstance(values, dict) else SWEEP
    if kind == DECODE:
        from engine.eviction.spec import DecodeSpec

        return DecodeSpec.from_dict(values)
    if kind != SWEEP:
        hint = suggest(kind, (DECODE, SWEEP))
        raise SpecError(FieldError("kind", f"no kind of run is {shown(kind)}{hint}"))
    if isinstance(values, dict):
        values = {name: value for name, value in values.items() if name != "kind"}
    return SweepSpec.from_dict(values)


def kind_of(spec: Any) -> str:
    return getattr(spec, "kind", SWEEP)


def evicts(spec: Any) -> bool:
    """Whether a run drops entries: every decode run, and a sweep whose memory does."""
    return kind_of(spec) == DECODE or getattr(spec.memory, "evicts", False)
