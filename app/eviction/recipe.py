"""From the form's widgets to a decode spec, and back.

Knows field types and the order of the methods.  Draws nothing; reads widgets through `state`.
"""

from __future__ import annotations

from typing import Any

from app import fields, state

FORM = state.decode.prefix
METHODS = f"{FORM}methods"  # rows of the methods' list: {"id", "kind", "options"}
FULL = "full"  # always the first arm; no row of the form
FIRST = ("beacon", "rkv", "streaming")  # what a fresh form compares
PROMPTS = "prompts"  # the field of a task whose prompts are the user's own


def plain(spec: dict) -> dict:
    """A spec without the full cache among its methods: the service adds it."""
    own = [m for m in spec.get("methods") or () if m.get("kind") != FULL]
    return {**spec, "methods": own}


def fresh(schema: dict) -> dict:
    """A whole spec for a first look at the page."""
    methods, prompts = schema["methods"], schema["prompts"]
    kinds = [k for k in FIRST if k in methods] or list(methods)[: len(FIRST)]
    task = next(iter(prompts))
    return {
        "kind": "decode",
        "model": {f["name"]: f["default"] for f in schema["model"]},
        "task": {"kind": task} | defaults(prompts[task]["fields"]),
        "methods": [{"kind": k} | defaults(methods[k]["fields"]) for k in kinds],
        **defaults(schema["settings"]),
    }


def defaults(known: list[dict]) -> dict[str, Any]:
    return {f["name"]: f["default"] for f in known}


def place(section: str, name: str) -> str:
    return f"{FORM}{section}.{name}"


def option(row: dict, name: str) -> str:
    """Key of the widget of one method's option."""
    return f"{FORM}m{row['id']}.{name}"


def rows(base: dict) -> list[dict]:
    """The list of methods as it stands in the form; at first as the spec has it."""
    held = state.value(METHODS, None)
    if held is None:
        held = [
            {
                "id": i,
                "kind": method["kind"],
                "options": {k: v for k, v in method.items() if k != "kind"},
            }
            for i, method in enumerate(plain(base)["methods"])
        ]
        state.put(METHODS, held)
    return held


def add(kind: str, known: dict) -> None:
    held = state.value(METHODS, [])
    number = max([row["id"] for row in held], default=-1) + 1
    row = {"id": number, "kind": kind, "options": defaults(known.get("fields") or [])}
    state.put(METHODS, [*held, row])


def remove(number: int) -> None:
    state.put(METHODS, [row for row in state.value(METHODS, []) if row["id"] != number])


def options(row: dict, schema: dict) -> dict[str, Any]:
    """A method's options as its widgets say them."""
    out = dict(row["options"])
    for field in (schema["methods"].get(row["kind"]) or {}).get("fields") or ():
        before = out.get(field["name"], field["default"])
        raw = state.value(option(row, field["name"]), None)
        out[field["name"]] = fields.parse("memory", field, raw, before)
    return out


def read(schema: dict, base: dict) -> dict:
    """The spec that the form says now; what is not drawn keeps its value of `base`."""
    spec = plain(base)
    model = dict(spec["model"])
    for field in schema["model"]:
        name = field["name"]
        raw = state.value(place("model", name), None)
        model[name] = fields.parse("model", field, raw, model.get(name, field["default"]))
    spec["model"] = model | {"id": model.get("id") or ""}
    kind = state.value(place("task", "kind"), None) or base["task"]["kind"]
    task = dict(base["task"]) if kind == base["task"]["kind"] else {"kind": kind}
    for field in (schema["prompts"].get(kind) or {}).get("fields") or ():
        name = field["name"]
        raw = state.value(place(f"task:{kind}", name), None)
        before = task.get(name, field["default"])
        task[name] = fields.parse("task", field, raw, before)
    spec["task"] = task
    held = rows(base)
    for row in held:  # kept in the row: widgets are forgotten when the reader leaves the page
        row["options"] = options(row, schema)
    spec["methods"] = [{"kind": row["kind"], **row["options"]} for row in held]
    for field in schema["settings"]:
        name = field["name"]
        raw = state.value(place("run", name), None)
        value = fields.parse("run", field, raw, base.get(name, field["default"]))
        spec[name] = numbers(value) if field["type"] == "tuple" else value
    return spec


def numbers(values: Any) -> list:
    """Whole numbers as such: `96`, not `96.0`."""
    return [int(v) if isinstance(v, float) and v == int(v) else v for v in values or ()]


def corrected(schema: dict, draft: dict, spec: dict) -> list[str]:
    """Widgets whose value the service changed: a count that a file of prompts decides, say."""
    found = [
        place("run", f["name"])
        for f in schema["settings"]
        if draft.get(f["name"]) != spec.get(f["name"])
    ]
    kind = spec["task"]["kind"]
    found += [
        place(f"task:{kind}", f["name"])
        for f in (schema["prompts"].get(kind) or {}).get("fields") or ()
        if f["name"] != PROMPTS and draft["task"].get(f["name"]) != spec["task"].get(f["name"])
    ]
    found += [
        place("model", f["name"])
        for f in schema["model"]
        if draft["model"].get(f["name"]) != spec["model"].get(f["name"])
    ]
    return found


def words(label: str, schema: dict) -> str:
    """A method's label with its options named as the form names them."""
    kind, *told = label.split(", ")
    known = (schema["methods"].get(kind) or {}).get("fields") or ()
    names = {f["name"]: (f.get("label") or f["name"].replace("_", " ")).lower() for f in known}
    options = [option.partition(" ") for option in told]
    return ", ".join([kind, *(names.get(name, name) + gap + value for name, gap, value in options)])


def changed(row: dict, schema: dict) -> list[str]:
    """Options of a method that are not as usual, as words."""
    now = options(row, schema)
    return [
        f"{(f.get('label') or f['name'].replace('_', ' ')).lower()} {now[f['name']]}"
        for f in (schema["methods"].get(row["kind"]) or {}).get("fields") or ()
        if now.get(f["name"]) != f["default"] and fields.shown(f, now)
    ]
