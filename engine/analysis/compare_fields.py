"""Specs side by side: the table of fields, and names by what differs.

Knows specs as dicts.  Computes no statistic and knows no registry: labels come with the call.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

SHOWN = 120  # characters of a value that a table shows
LONGEST = 48  # characters of a name
# Order of a table's groups.
FIRST = ("memory", "press", "methods", "budgets", "unit", "model", "task")
# Fields that say what a memory is: shown where one run has them and another does not.
ALWAYS = frozenset(f"memory.{name}" for name in ("kind", "window", "stride", "budget"))
DIGEST = "results"  # of an import: names its numbers and sets nothing
# Fields whose values are names of choices, and those names that a reader knows by other words.
CHOSEN = frozenset(
    ("protocol", "measure", "rows", "task.kind", "memory.kind", "memory.gate", "memory.when")
)
SPOKEN = {"onehot": "one-hot", "joint": "joint probability", "token": "token probability"}
LAST = frozenset(("batch", "rows", "scan", "model.device"))  # that a name tells if nothing else


def flat(spec: dict) -> dict[str, Any]:
    """Dotted field → value.  A control is one field, and a list is one value."""
    found: dict[str, Any] = {"kind": "sweep"}
    for name, value in spec.items():
        if isinstance(value, dict) and name != "control":
            found |= {f"{name}.{inner}": one for inner, one in value.items()}
        else:
            found[name] = value
    return found


def table(specs: list[dict], labels: dict[str, str], defaults: dict[str, Any]) -> list[dict]:
    """[{field, label, values, differs}], one row a field of any spec, memory first.

    A field that a run lacks counts as a difference only where the others changed it from its
    default (`defaults`: "memory.pooled.window" → value), or where it says what the memory is.
    """
    flats = [flat(spec) for spec in specs]
    fields = sorted({name: None for one in flats for name in one}, key=_place)
    return [
        {
            "field": name,
            "label": labels.get(name) or label_of(name),
            "values": [shown(one.get(name)) for one in flats],
            "differs": differs(name, flats, defaults),
        }
        for name in fields
    ]


def differs(name: str, flats: list[dict], defaults: dict[str, Any]) -> bool:
    if name == DIGEST:
        return False
    have = [one for one in flats if one.get(name) is not None]
    if len({_text(one[name]) for one in have}) > 1:
        return True
    kinds = {one["kind"] for one in have}
    alike = [one for one in flats if one["kind"] in kinds]
    if len(have) == len(alike) or name == "control":
        return False  # runs of another kind have other fields, and a control has none of its own
    if name in ALWAYS:
        return True
    part, _, option = name.partition(".")
    usual = (defaults.get(f"{part}.{one.get(f'{part}.kind')}.{option}") for one in have)
    return any(_text(one[name]) != _text(was) for one, was in zip(have, usual, strict=True))


def unlike(first: dict, second: dict, fields: tuple[str, ...]) -> list[str]:
    """Which of the fields, or of their options, differ between two specs."""
    a, b = flat(first), flat(second)
    known = dict.fromkeys((*a, *b))
    found = (n for one in fields for n in known if one in (n, n.split(".")[0]))
    return [n for n in found if _text(a.get(n)) != _text(b.get(n))]


def reason(first: dict, second: dict, names: list[str], labels: dict[str, str]) -> str:
    """ "records 64, and 32 in the baseline", by the labels that a form gives to fields."""
    a, b = flat(first), flat(second)
    if "task.kind" in names:
        names = ["task.kind"]
    name, *more = names
    called = [labels.get(each, each.rpartition(".")[2]) for each in (name, *more)]
    called = [each[:1].lower() + each[1:] for each in called]
    told = f"{called[0]} {_said(a, name)}, and {_said(b, name)} in the baseline"
    if not more:
        return told
    return f"{told}; {', '.join(called[1:])} differ{'' if more[1:] else 's'} too"


def names(specs: list[dict], starts: list[str], keys: list[str]) -> list[str]:
    """Short and unique: `starts`, a memory in few words, and where these are alike what differs."""
    found = [clip(start) for start in starts]
    flats = [flat(spec) for spec in specs]
    for start, count in Counter(found).items():
        if count == 1:
            continue
        group = [i for i, name in enumerate(found) if name == start]
        told = _telling([flats[i] for i in group])
        for place, i in enumerate(group):
            parts = [start, *(_option(name, flats[i].get(name)) for name in told)]
            found[i] = clip(", ".join(part for part in parts if part))
            if not told or found[i] in [found[j] for j in group[:place]]:
                found[i] = f"{clip(start, LONGEST - 6)} {keys[i][:4]}"
    return found if len(set(found)) == len(found) else _by_key(found, keys)


def _by_key(found: list[str], keys: list[str]) -> list[str]:
    counts = Counter(found)
    return [
        name if counts[name] == 1 else f"{clip(name, LONGEST - 14)} {key}"
        for name, key in zip(found, keys, strict=True)
    ]


def _telling(flats: list[dict]) -> list[str]:
    """The fewest fields, most telling first, that tell these specs apart; at most three."""
    fields = sorted({name: None for one in flats for name in one}, key=_place)
    fields = [name for name in fields if name not in ("control", DIGEST)]
    values = {n: [_text(one.get(n)) for one in flats] for n in fields}
    telling = [n for n in values if len(set(values[n])) > 1]
    chosen: list[str] = []
    for name in sorted(telling, key=lambda n: (n in LAST, -len(set(values[n])))):
        chosen.append(name)
        told = list(zip(*(values[n] for n in chosen), strict=True))
        if len(set(told)) == len(flats) or len(chosen) == 3:
            break
    return chosen


def _option(name: str, value: Any) -> str:
    """ "seed 1", "keys rotated"; a model or a kind speaks for itself."""
    if value in (None, ""):
        return ""
    last = name.rpartition(".")[2]
    if isinstance(value, list) and len(value) > 2:
        return f"{len(value)} {_plain(last)}"
    text = shown(value, 24)
    return (
        text if last in ("id", "kind", "dtype", "measure", "protocol") else f"{_plain(last)} {text}"
    )


def _plain(name: str) -> str:
    return name.replace("_", " ")


def label_of(field: str) -> str:
    """ "task.first" → "Task: first"."""
    part, dot, name = field.partition(".")
    return f"{_plain(part).capitalize()}: {_plain(name)}" if dot else _plain(part).capitalize()


def shown(value: Any, most: int = SHOWN) -> Any:
    """A value as a table holds it: numbers and truths as they are, long or nested ones in short."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return clip(value, most)
    if isinstance(value, list | tuple):
        if all(isinstance(item, int | float | str) for item in value):
            return clip(", ".join(map(str, value)), most)
        kinds = Counter(item.get("kind") for item in value if isinstance(item, dict))
        if kinds and all(kinds):
            told = (kind if n == 1 else f"{n} {kind}" for kind, n in kinds.items())
            return clip(", ".join(told), most)
        return f"{len(value)} entries"
    memory = value.get("memory") or {}
    words = (memory.get("kind"), (value.get("model") or {}).get("id"))
    return clip(" of ".join(str(word) for word in words if word), most)


def clip(text: str, most: int = LONGEST) -> str:
    text = " ".join(str(text).split())
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _said(values: dict, name: str) -> str:
    value = values.get(name)
    if value in (None, ""):
        return "none"
    return spoken(value) if name in CHOSEN else str(shown(value, 40))


def spoken(choice: Any) -> str:
    """The name of a choice in a sentence: "in sequence"."""
    return SPOKEN.get(choice) or _plain(str(choice))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _place(field: str) -> tuple[int, int]:
    part = field.split(".")[0]
    inside = 0 if field in ALWAYS else 1
    return (FIRST.index(part) if part in FIRST else len(FIRST)), inside
