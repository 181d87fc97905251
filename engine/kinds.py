"""The kinds of run: a sweep over phases, a decode run of methods that evict, or an evaluation that
kvpress computed elsewhere.

All have a dict form, a key, a model and a place in the same queue and list.  Knows which spec a
dict form names; imports a decode run's code where one is asked for.
"""

from __future__ import annotations

from typing import Any

from engine.registry import FieldError, SpecError, shown, suggest
from engine.specs import SweepSpec

DECODE, SWEEP, KVPRESS = "decode", "sweep", "kvpress"


def read_spec(values: Any) -> Any:
    """The SweepSpec, DecodeSpec or KVPressSpec of a dict form; SpecError naming each bad field."""
    kind = values.get("kind", SWEEP) if isinstance(values, dict) else SWEEP
    if kind == DECODE:
        from engine.eviction.spec import DecodeSpec

        return DecodeSpec.from_dict(values)
    if kind == KVPRESS:
        from engine.kvpress.spec import KVPressSpec

        return KVPressSpec.from_dict(values)
    if kind != SWEEP:
        hint = suggest(kind, (DECODE, SWEEP))
        raise SpecError(FieldError("kind", f"no kind of run is {shown(kind)}{hint}"))
    if isinstance(values, dict):
        values = {name: value for name, value in values.items() if name != "kind"}
    return SweepSpec.from_dict(values)


def check_spec(values: Any) -> Any:
    """The spec of something that can be run here."""
    spec = read_spec(values)
    if kind_of(spec) == KVPRESS:
        told = "kvpress computes these; import its results folder instead"
        raise SpecError(FieldError("kind", told))
    return spec


def kind_of(spec: Any) -> str:
    return getattr(spec, "kind", SWEEP)


def evicts(spec: Any) -> bool:
    """Whether a run drops entries: all but a sweep whose memory keeps them."""
    return kind_of(spec) != SWEEP or getattr(spec.memory, "evicts", False)
