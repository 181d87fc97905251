"""One list per kind of thing; the form, the command line, the tests and the README derive from it.

A registered class is a frozen dataclass whose fields are made by `option`: the field carries its
own bounds and help, so that a page can draw it and a spec can check it without a second list.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

MOST = 20  # errors that are told at once
SHOWN = 80  # characters of a refused value or name that an error repeats


class FieldError(NamedTuple):
    """What is wrong, at which dotted field of the spec."""

    field: str
    message: str


class SpecError(ValueError):
    """Bad input.  Carries one sentence per field; nothing was run and nothing was changed."""

    def __init__(self, *errors: FieldError):
        self.errors = tuple(errors)[:MOST]
        super().__init__("; ".join(f"{e.field}: {e.message}" for e in self.errors))


def option(
    default: Any,
    help: str,
    *,
    label: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] = (),
    when: str = "",
    long: bool = False,
) -> Any:
    """A dataclass field with its form: label, bounds, choices, and `when` ("gate=onehot") it
    matters.

    The type of `default` (bool, int, float, str, tuple) is the type of the field; a tuple is a list
    in JSON.  `long` asks for a text area.
    """
    meta = dict(
        help=help, label=label, low=low, high=high, choices=tuple(choices), when=when, long=long
    )
    return dataclasses.field(default=default, metadata=meta)


class Registry(Mapping):
    """name → frozen dataclass.  `kind` names what is listed: "memory", "task".

    `packages` hold what is listed and register it when they are imported, which the first look at
    the list sees to: whoever asks need not know where the kinds are.

    A name may be written as others write it: in any case, with or without - and _ ("Full_KV"), an
    alias, or with a preset behind a dot ("snapkv.original").
    """

    def __init__(self, kind: str, *packages: str):
        self.kind = kind
        self.aliases: dict[str, str] = {}
        self.presets: dict[str, dict] = {}  # "kind.preset" → options, of kinds without `preset`
        self._classes: dict[str, type] = {}
        self._waiting = list(packages)
        self._filling = False
        self._lock = threading.RLock()  # another thread waits; the importing one may look again

    def _filled(self) -> dict[str, type]:
        with self._lock:
            if self._waiting and not self._filling:
                self._filling = True
                try:
                    while self._waiting:
                        importlib.import_module(self._waiting[0])
                        del self._waiting[0]
                finally:
                    self._filling = False
        return self._classes

    def __getitem__(self, name: str) -> type:
        return self._filled()[self._own(name)[0]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._filled())

    def __len__(self) -> int:
        return len(self._filled())

    def register(self, name: str, *aliases: str):
        """Decorator; `aliases` are other tools' names for it, accepted and written as `name`."""

        def add(cls):
            cls.kind = name
            self._classes[name] = cls
            self.aliases.update(dict.fromkeys(aliases, name))
            return cls

        return add

    def alias(self, target: str, *aliases: str):
        """Decorator; other tools' names for a kind with one of its presets, "kind.preset"."""

        def add(cls):
            self.aliases.update(dict.fromkeys(aliases, target))
            return cls

        return add

    def find(self, name: Any) -> type:
        """The class of that name, or a SpecError that lists what exists."""
        return self._named(name)[0]

    def _named(self, name: Any) -> tuple[type, dict]:
        """The class of a name and the options that the name stands for."""
        known = self._filled()
        kind, preset = self._own(name)
        dotted = f"{kind}.{preset}"
        if kind in known and not preset:
            return known[kind], {}
        if dotted in self.presets:
            return known[kind], self.presets[dotted]
        if "preset" in getattr(known.get(kind), "__dataclass_fields__", {}):
            return known[kind], {"preset": preset}
        told = f"unknown {self.kind} {shown(name)}{suggest(kind or name, known)}"
        if kind in known:
            own = [n for n in self.presets if n.startswith(f"{kind}.")]
            near = suggest(dotted, own) if own else f"; write {kind}"
            told = f"{kind} has no preset {shown(preset)}{near}"
        raise SpecError(FieldError(f"{self.kind}.kind", told))

    def _own(self, name: Any) -> tuple[str, str]:
        """Our spelling of a name, and the preset behind its dot; ("", "") of what is no text."""
        if not isinstance(name, str):
            return "", ""
        kind, _, preset = name.strip().lower().partition(".")
        spelled = {_plain(a): own for a, own in self.aliases.items()}
        spelled |= {_plain(own): own for own in self._filled()}
        own, _, implied = spelled.get(_plain(kind), kind).partition(".")
        return own, preset or implied

    def build(self, values: Any) -> Any:
        """A checked instance from its dict form `{"kind": name, **options}`; errors name each
        field.
        """
        if not isinstance(values, dict):
            text = f"must be a table of options, not {shown(values)}"
            raise SpecError(FieldError(self.kind, text))
        if "kind" not in values:
            raise SpecError(FieldError(f"{self.kind}.kind", f"is missing{suggest('', self)}"))
        cls, named = self._named(values["kind"])
        options = {name: value for name, value in values.items() if name != "kind"}
        if twice := next((name for name in named if name in options), None):
            told = f"is said by {shown(values['kind'])} already; leave one of them out"
            raise SpecError(FieldError(f"{self.kind}.{twice}", told))
        return from_options(cls, options | named, self.kind)

    def schema(self) -> dict[str, dict]:
        """JSON form of the whole list, for the page and the command line."""
        return {
            name: {"help": (cls.__doc__ or "").strip().split("\n")[0], "fields": fields_schema(cls)}
            for name, cls in self.items()
        }


def _plain(name: str) -> str:
    """A name without what its spellings differ in."""
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


def suggest(name: Any, known: Sequence[str]) -> str:
    """ "; did you mean …" or "; known: …", for the end of an error."""
    close = difflib.get_close_matches(str(name)[:SHOWN], list(known), n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(sorted(known)) or 'none'}"


def shown(value: Any) -> str:
    """A refused value as its error quotes it: short, whatever was sent."""
    if isinstance(value, int) and abs(value) >= 10**SHOWN:  # Python prints no number of any length
        return f"a number of more than {SHOWN} digits"
    if isinstance(value, str) and len(value) > SHOWN:
        return f"{value[:SHOWN]!r}…"
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__}"
    return text if len(text) <= 2 * SHOWN else f"{text[:SHOWN]}…"


def short(name: Any) -> str:
    """A key's name in an error."""
    text = str(name)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def fields_schema(cls: type) -> list[dict]:
    return [
        {
            "name": f.name,
            "type": type(f.default).__name__,
            "default": jsonable(f.default),
            **f.metadata,
        }
        for f in dataclasses.fields(cls)
    ]


def jsonable(value: Any) -> Any:
    return [jsonable(v) for v in value] if isinstance(value, tuple | list) else value


def frozen(value: Any) -> Any:
    return tuple(frozen(v) for v in value) if isinstance(value, list | tuple) else value


def to_options(item: Any) -> dict:
    """The dict form of a registered instance, all fields, `kind` first."""
    pairs = {f.name: jsonable(getattr(item, f.name)) for f in dataclasses.fields(item)}
    return {"kind": item.kind, **pairs}


def from_options(cls: type, values: dict, prefix: str) -> Any:
    """Check types, bounds and names of every option, then build; `cls.check()` adds joint rules.

    `cls.normalise(values)`, where it exists, may rewrite friendlier spellings first.
    """
    if hasattr(cls, "normalise"):
        values = cls.normalise(dict(values))
    fields = {f.name: f for f in dataclasses.fields(cls)}
    errors, clean = [], {}
    for name, value in values.items():
        if name not in fields:
            told = f"unknown option{suggest(name, fields)}"
            errors.append(FieldError(f"{prefix}.{short(name)}", told))
            continue
        problem, value = check_value(fields[name], value)
        if problem:
            errors.append(FieldError(f"{prefix}.{name}", problem))
        clean[name] = value
    if not errors:
        item = cls(**clean)
        errors = [
            FieldError(f"{prefix}.{e.field}", e.message) for e in getattr(item, "check", list)()
        ]
        if not errors:
            return item
    raise SpecError(*errors)


def check_value(field: dataclasses.Field, value: Any) -> tuple[str, Any]:
    """("", value in the field's type) or (what is wrong, value)."""
    kind, meta = type(field.default), field.metadata
    low, high, choices = meta.get("low"), meta.get("high"), meta.get("choices")
    if kind is bool:
        return (
            ("", value)
            if isinstance(value, bool)
            else (f"must be true or false, not {shown(value)}", value)
        )
    if kind in (int, float):
        name = "a whole number" if kind is int else "a number"
        span = bounds_text(low, high)
        told = f"must be {name}{span}, not {shown(value)}"
        if not is_number(value) or (kind is int and value != int(value)):
            return told, value
        if (low is not None and value < low) or (high is not None and value > high):
            return told, value
        return "", kind(value)
    if kind is tuple:
        if not isinstance(value, list | tuple):
            return f"must be a list, not {shown(value)}", value
        return "", frozen(value)
    if not isinstance(value, str):
        return f"must be text, not {shown(value)}", value
    try:
        value.encode()
    except UnicodeEncodeError as error:
        return f"is no valid Unicode at character {error.start}: half a surrogate pair", value
    if choices and value not in choices:
        return f"must be one of {', '.join(filter(None, choices))}, not {shown(value)}", value
    return "", value


def is_number(value: Any) -> bool:
    """Whether a value is finite and small enough to be a float; true and false are no numbers."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) < 10**300


def bounds_text(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f" from {low} to {high}"
    return (
        f" of at least {low}"
        if low is not None
        else f" of at most {high}"
        if high is not None
        else ""
    )


MEMORIES = Registry("memory", "engine.memory", "engine.eviction")
TASKS = Registry("task", "engine.tasks")
