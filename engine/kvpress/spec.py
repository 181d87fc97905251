"""What a kvpress result is: a model, a dataset and a press, as kvpress's evaluation names them.

Such a run was computed elsewhere and is only read here.  Knows the names; knows no file and no row.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from engine.registry import FieldError, SpecError, is_number, short, shown, suggest

TEXT = 300  # characters of a name
MOST = 2**31 - 1
NO_PRESS = "no_press"


def _text(value: Any) -> str:
    fine = isinstance(value, str) and len(value) <= TEXT and value.isprintable()
    return "" if fine else f"must be text of at most {TEXT} printable characters"


def _name(value: Any) -> str:
    return _text(value) or ("" if value else "is empty")


def _share(value: Any) -> str:
    return "" if is_number(value) and 0 <= value <= 1 else "must be a share from 0 to 1"


def _number(value: Any) -> str:
    return "" if is_number(value) else "must be a number"


def _count(value: Any) -> str:
    fine = type(value) is int and 0 <= value <= MOST
    return "" if fine else f"must be a whole number from 0 to {MOST}"


def _flag(value: Any) -> str:
    return "" if isinstance(value, bool) else "must be true or false"


def _depth(value: Any) -> str:
    depths = value if isinstance(value, list) and 0 < len(value) <= 100 else [value]
    fine = all(type(depth) is int and 0 <= depth <= 100 for depth in depths)
    return "" if fine else "must be a depth from 0 to 100, or a list of them"


def _digest(value: Any) -> str:
    fine = isinstance(value, str) and re.fullmatch(r"[0-9a-f]{16}", value)
    return "" if fine else "must be 16 hex digits"


def _or_none(check: Callable) -> Callable:
    return lambda value: "" if value is None else check(value)


# Table → field → its check; the names are those of kvpress's config.yaml, and `kind` is its
# dataset.
SHAPE: dict[str, dict[str, Callable]] = {
    "model": {"id": _name},
    "task": {
        "kind": _name,
        "data_dir": _text,
        "fraction": _share,
        "max_new_tokens": _or_none(_count),
        "max_context_length": _or_none(_count),
        "query_aware": _flag,
        "needle_depth": _or_none(_depth),
    },
    "press": {
        "name": _name,
        "compression_ratio": _share,
        "key_channel_compression_ratio": _or_none(_share),
        "threshold": _or_none(_number),
        "compression_interval": _or_none(_count),
        "target_size": _or_none(_count),
        "hidden_states_buffer_size": _or_none(_count),
    },
}
OWN: dict[str, Callable] = {"seed": _count, "fp8": _flag, "results": _digest}


@dataclass(frozen=True)
class KVPressSpec:
    """One evaluated configuration; `results` names the numbers that came of it."""

    text: str  # JSON of the dict form, keys in order

    kind: ClassVar[str] = "kvpress"
    control: ClassVar[None] = None
    stride: ClassVar[None] = None

    @classmethod
    def from_dict(cls, values: Any) -> KVPressSpec:
        """Check the dict form; SpecError naming each bad field."""
        if not isinstance(values, dict):
            raise SpecError(FieldError("spec", f"must be a table, not {shown(values)}"))
        errors = _unknown("", values, ("kind", *SHAPE, *OWN))
        if values.get("kind") != cls.kind:
            errors.append(
                FieldError("kind", f"must be {cls.kind}, not {shown(values.get('kind'))}")
            )
        for table, fields in SHAPE.items():
            given = values.get(table)
            if not isinstance(given, dict):
                errors.append(FieldError(table, f"must be a table of options, not {shown(given)}"))
                continue
            errors += _unknown(f"{table}.", given, tuple(fields))
            errors += _wrong(f"{table}.", given, fields)
        errors += _wrong("", values, OWN)
        if errors:
            raise SpecError(*errors)
        return cls(json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True))

    def to_dict(self) -> dict:
        return json.loads(self.text)

    @property
    def key(self) -> str:
        """Twelve hex digits naming this run."""
        return hashlib.blake2b(self.text.encode(), digest_size=6).hexdigest()

    def phrase(self) -> str:
        """ "snapkv, 50 % removed"; "decoding_knorm, 2048 kept every 512 tokens"."""
        press = self.to_dict()["press"]
        name, size, every = press["name"], press["target_size"], press["compression_interval"]
        if name == NO_PRESS:
            return "full cache (no_press)"
        if name.startswith("decoding_") and size:
            return f"{name}, {size} kept" + (f" every {every} tokens" if every else "")
        if press["threshold"] is not None:
            return f"{name}, threshold {press['threshold']:g}"
        return f"{name}, {100 * press['compression_ratio']:g} % removed"


def _unknown(where: str, values: dict, known: tuple[str, ...]) -> list[FieldError]:
    return [
        FieldError(f"{where}{short(name)}", f"unknown key{suggest(name, known)}")
        for name in values
        if name not in known
    ]


def _wrong(where: str, values: dict, fields: dict[str, Callable]) -> list[FieldError]:
    errors = []
    for name, check in fields.items():
        problem = check(values[name]) if name in values else "is missing"
        if problem:
            told = f"{problem}, not {shown(values[name])}" if name in values else problem
            errors.append(FieldError(f"{where}{name}", told))
    return errors
