"""From the form's answers to a spec, and back to the model's own data.

Pure: dicts in, dicts out.  Knows the service's schema and the benchmark's settings.
"""

from __future__ import annotations

from typing import Any

TASKS = ("pairs", "records")
COUNTS = ("records", "places")  # fields of a task that the form asks for
BATCH = 24


def name_of(model: dict) -> str:
    return str(model.get("name") or model.get("id") or "")


def model_of(schema: dict, name: str) -> dict:
    """The catalog's entry; {} for a hub id or a folder."""
    return next((m for m in schema["models"] if name_of(m) == name), {})


def task_fields(schema: dict, kind: str) -> list[dict]:
    known = {f["name"]: f for f in (schema["tasks"].get(kind) or {}).get("fields") or ()}
    return [known[name] for name in COUNTS if name in known]


def recipe(schema: dict, asked: dict[str, Any]) -> dict:
    """A spec: a controlled model answers with its trained memory, beside the full model of its
    shape; any other model with the memory asked for, beside its own full cache.
    """
    model = model_of(schema, asked["model"])
    spec = {
        "model": {"id": asked["model"]},
        "task": dict(asked["task"]),
        "protocol": asked["protocol"],
        "modulus": asked["modulus"],
        "samples": asked["samples"],
        "measure": asked["measure"],
        "batch": BATCH if model.get("controlled") else 4,
        "rows": "scored",
    }
    if not model.get("controlled"):
        return spec | {"memory": dict(asked["memory"])}
    if model.get("pitch"):  # trained on one record every so many tokens
        spec["task"]["pitch"] = model["pitch"]
    spec["memory"] = {"kind": "trained"} if model.get("window") else {"kind": "full"}
    if model.get("control"):
        spec["control"] = {"model": {"id": model["control"]}, "memory": {"kind": "full"}}
    return spec


def answers(schema: dict, spec: dict) -> dict[str, Any]:
    """The form's answers, by its widgets' names, that make a spec."""
    model, task, memory = spec["model"]["id"], spec["task"], spec["memory"]
    found = {"model": model, "measured": spec["measure"]}
    found |= {name: spec[name] for name in ("modulus", "samples", "protocol")}
    if not model_of(schema, model).get("controlled"):
        found |= {"memory": memory["kind"], "task": task["kind"]}
    if found.get("memory") == "pooled":
        found |= {name: memory[name] for name in ("window", "stride")}
    places = {
        f["name"]: f"{model}:{task['kind']}.{f['name']}" for f in task_fields(schema, task["kind"])
    }
    return found | {place: task[name] for name, place in places.items() if name in task}
