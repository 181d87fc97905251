"""From the schema and the form's widgets to a spec, and back.

Knows field types, `when`, what a fresh form holds and which values the service fills in itself.
Draws nothing; reads widgets through `state` alone.
"""

from __future__ import annotations

import re
from typing import Any

from app import examples, state
from app.marking import MARK

# Places that the prompt's editor sets: they have no widget of the schema's own.
EDITED = ("prompts", "slots", "target", "question")
# Fields that are set elsewhere on the page.
ELSEWHERE = {"settings": ("scan",), "model": ("id",)}
MOST_READ = 200  # prompts of a file whose marks are read here; the service reads them all
AUTO = {"modulus": 0, "protocol": ""}  # values that ask the service for its own choice


def sections(schema: dict, draft: dict) -> dict[str, list[dict]]:
    """Section → its fields, for the draft's memory and task."""
    return {
        "model": schema["model"],
        "memory": schema["memories"].get(draft["memory"]["kind"], {}).get("fields", []),
        "task": schema["tasks"].get(draft["task"]["kind"], {}).get("fields", []),
        "settings": list(schema["settings"]),
    }


def part(spec: dict, section: str) -> dict:
    return spec if section == "settings" else spec.get(section) or {}


def widget_key(section: str, kind: str, name: str) -> str:
    return f"{state.FORM}{section}:{kind}.{name}"


def shown(field: dict, values: dict) -> bool:
    """Whether `when` holds: "gate=onehot", alternatives with `|`, several conditions with `,`."""
    for condition in filter(None, (c.strip() for c in (field.get("when") or "").split(","))):
        name, _, wanted = condition.partition("=")
        negated, name = name.endswith("!"), name.rstrip("!").strip()
        have = str(values.get(name))
        hit = have.lower() in [w.strip().lower() for w in wanted.split("|")]
        if hit == negated:
            return False
    return True


def plain(spec: dict) -> dict:
    """A spec without what the service fills in itself: the full-cache control of its own model."""
    spec = dict(spec)
    control = spec.get("control")
    own = {k: v for k, v in (control or {}).get("model", {}).items() if k != "kind"}
    model = {k: v for k, v in spec.get("model", {}).items() if k != "kind"}
    if not control or (own == model and control.get("memory", {}).get("kind") == "full"):
        spec.pop("control", None)
    return spec


def read(schema: dict, base: dict) -> dict:
    """The spec that the form's widgets say now.

    A field hidden by `when` keeps its value of `base` if it was hidden there too, and is else at
    its default: two forms that look the same name one run.
    """
    spec = plain(base)
    kinds = {
        "memory": state.value(f"{state.FORM}memory", base["memory"]["kind"]),
        "task": state.value(f"{state.FORM}task", base["task"]["kind"]),
    }
    model = dict(base["model"], id=state.value(f"{state.FORM}model", base["model"]["id"]) or "")
    spec["model"] = model
    for section, kind in kinds.items():
        same = kind == base[section]["kind"]
        spec[section] = dict(base[section]) if same else fresh(section, kind)
    for section, fields in sections(schema, spec).items():
        origin = part(base, section)
        same = section in ("model", "settings") or origin.get("kind") == spec[section]["kind"]
        values = spec if section == "settings" else spec[section]
        origin = origin if same else dict(values)
        for field in fields:
            if field["name"] in ELSEWHERE.get(section, ()):
                continue
            before = origin.get(field["name"], field["default"])
            place = widget_key(section, kinds.get(section, ""), field["name"])
            values[field["name"]] = parse(section, field, state.value(place, None), before)
        for field in fields:
            if shown(field, values) or field["name"] in ELSEWHERE.get(section, ()):
                continue
            hidden_before = same and not shown(field, origin)
            kept = (
                origin.get(field["name"], field["default"]) if hidden_before else field["default"]
            )
            values[field["name"]] = kept
    if spec["task"]["kind"] != base["task"]["kind"]:
        kind = spec["task"]["kind"]
        if spec.get("protocol") not in protocols(schema, spec["task"]):
            spec["protocol"] = AUTO["protocol"]
        if kind in examples.SAMPLES and spec.get("samples") == base.get("samples"):
            spec["samples"] = examples.SAMPLES[kind]
    return spec


def corrected(schema: dict, draft: dict, spec: dict) -> list[str]:
    """Widgets whose value the service wrote out or changed: automatic counts, other spellings."""
    found = []
    for section, known in sections(schema, spec).items():
        mine, theirs = part(draft, section), part(spec, section)
        kind = theirs.get("kind", "") if section in ("memory", "task") else ""
        found += [
            widget_key(section, kind, f["name"])
            for f in known
            if mine.get(f["name"], f["default"]) != theirs.get(f["name"], f["default"])
        ]
    if draft["model"]["id"] != spec["model"]["id"]:
        found.append(f"{state.FORM}model")
    return found


def fresh(section: str, kind: str) -> dict:
    """A memory or task as it is first shown: the service's defaults, or an example to edit."""
    return {"kind": kind} | (examples.TASKS.get(kind, {}) if section == "task" else {})


def protocols(schema: dict, task: dict) -> list[str]:
    """Paddings to choose from.  A prompt of the user's own allows what its marks allow."""
    about = schema["tasks"].get(task["kind"]) or {}
    if not written(about.get("fields") or []):
        return list(about.get("protocols") or [])
    field = next(f for f in schema["settings"] if f["name"] == "protocol")
    return [c for c in field["choices"] if c in paddings(task)]


def paddings(task: dict) -> set[str]:
    """Those that the marks of one's own prompts allow: the grid moves under every prompt."""
    kinds = {_padding(t) for t in (task.get("prompts") or [task])[:MOST_READ]}
    return {"grid_origin"} | (kinds if len(kinds) == 1 else set())


def _padding(task: Any) -> str:
    """By the number of places for padding, and by what stands in front of the first."""
    told = task if isinstance(task, dict) else {}
    text, slots = str(told.get("text") or ""), told.get("slots") or ()
    marked = [m.start() for m in MARK.finditer(text) if m[1] == "pad"]
    places = marked or [int(s) for s in slots if str(s).isdigit()]
    if len(places) < 2:
        return "lengthen" if places else "grid_origin"
    return "in_sequence" if MARK.sub("", text[: places[0]]).strip() else "outer"


def without_example(before: dict, draft: dict) -> dict:
    """The form's values, without the example's answer and rivals under another text of one's own.

    `before`: what the form said until now.  An answer that still stands in the text is kept.
    """
    task, kind = draft["task"], draft["task"]["kind"]
    example = examples.TASKS.get(kind)
    if not example or before["task"].get("text") == task["text"]:
        return draft
    untouched = all(list(task[n]) == list(example[n]) for n in ("answer", "rivals"))
    if not untouched or example["answer"] in task["text"]:
        return draft
    for name in ("answer", "rivals"):
        state.put(widget_key("task", kind, name), "")
    return draft | {"task": task | {"answer": "", "rivals": []}}


def default(schema: dict, kind: str) -> dict:
    """A whole spec for a fresh form."""
    spec = {f["name"]: f["default"] for f in schema["settings"]}
    spec["model"] = {f["name"]: f["default"] for f in schema["model"]}
    first = schema["presets"][0]["spec"] if schema["presets"] else {}
    memory = first.get("memory") or {"kind": next(iter(schema["memories"]))}
    spec["memory"] = dict(memory)
    if first.get("model"):
        spec["model"] |= first["model"]
    values = {f["name"]: f["default"] for f in schema["tasks"][kind]["fields"]}
    spec["task"] = {"kind": kind} | values | fresh("task", kind)
    if kind in examples.SAMPLES:
        spec["samples"] = examples.SAMPLES[kind]
    return spec


def parse(section: str, field: dict, raw: Any, before: Any) -> Any:
    """A widget's value in the field's type; `before` where the widget is empty or not drawn yet."""
    if raw is None:
        return before
    if field["type"] == "tuple" and isinstance(raw, str):
        return before if raw == listed(before) else items(raw, numbers=section != "task")
    return raw


def items(text: str, *, numbers: bool) -> list:
    """A comma-separated list; a part in double quotes keeps its spaces and commas."""
    found = re.findall(r'\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)|([^,]+)(?:,|$)', text)
    parts = [re.sub(r"\\(.)", r"\1", quoted) if quoted else bare.strip() for quoted, bare in found]
    parts = [p for p in parts if p]
    return [_number(p) for p in parts] if numbers else parts


def _number(text: str) -> Any:
    """A number where it is one; else the text, for the service to refuse in its own words."""
    try:
        return float(text)
    except ValueError:
        return text


def listed(values: Any) -> str:
    """The list as the widget shows it."""
    out = []
    for value in values or ():
        word = f"{value:g}" if isinstance(value, float) else str(value)
        if word != word.strip() or "," in word or '"' in word:
            word = '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
        out.append(word)
    return ", ".join(out)


def written(fields: list[dict]) -> bool:
    """Whether the task is written by the user: its fields then stand in the page's editor."""
    return any(f.get("long") and not f.get("when") for f in fields)
