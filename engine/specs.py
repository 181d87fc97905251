"""What a run is: frozen, self-checking, hashed.

A spec's dict form is the same in TOML, in JSON over the wire and in the store.  Its key is the hash
of all fields with every default written out, so one key names one set of numbers; the title is no
field.  Knows the registries; knows nothing of tensors, pages or the database.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass, fields, replace
from typing import Any

from engine.models.controlled import shelf
from engine.registry import (
    MEMORIES,
    TASKS,
    FieldError,
    SpecError,
    fields_schema,
    from_options,
    option,
    short,
    shown,
    suggest,
    to_options,
)

MEASURES = ("joint", "token", "accuracy")
DEVICE = re.compile("cpu|mps|cuda(:[0-9]{1,3})?")
MAX_MODULUS = 4096
PROTOCOLS = ("outer", "in_sequence", "grid_origin", "lengthen", "pair")


@dataclass(frozen=True)
class ModelSpec:
    """Which weights answer, in which number format, where."""

    id: str = option(
        "smollm2-135m", "a catalog name, a Hugging Face id, or a local folder", label="Model"
    )
    revision: str = option("", "commit or tag of a hub model; empty is its main branch")
    dtype: str = option(
        "float32",
        "number format of weights and activations",
        choices=("float32", "bfloat16", "float16", "float64"),
    )
    device: str = option("cpu", "cpu, cuda, cuda:1 or mps")

    kind = "model"

    @classmethod
    def normalise(cls, values: dict) -> dict:
        if "torch_dtype" in values:
            values["dtype"] = values.pop("torch_dtype")
        short = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}
        if isinstance(values.get("dtype"), str):
            name = values["dtype"].removeprefix("torch.")
            values["dtype"] = short.get(name, name)
        return values

    def check(self) -> list[FieldError]:
        errors = []
        if not self.id.strip():
            errors.append(FieldError("id", "is empty; give a catalog name, a hub id or a folder"))
        if not DEVICE.fullmatch(self.device):
            told = f"must be cpu, cuda, cuda:N or mps, not {shown(self.device)}"
            errors.append(FieldError("device", told))
        return errors


@dataclass(frozen=True)
class Settings:
    """The sweep's own numbers: which copies, how many, how scored (SCIENCE §2, §3)."""

    protocol: str = option(
        "", "how copies differ: what is padded or moved", choices=("", *PROTOCOLS)
    )
    modulus: int = option(
        0, "residues R; 0 takes the larger of lcm of the strides and 2S", low=0, high=MAX_MODULUS
    )
    samples: int = option(12, "logical samples, each seen at every residue", low=1, high=10**9)
    seed: int = option(
        0, "seed of prompts; the same seed gives the same tokens", low=0, high=2**31 - 1
    )
    measure: str = option("joint", "what mean, worst and gap are of", choices=MEASURES)
    batch: int = option(
        4, "copies in one forward; part of the key, so that bits repeat", low=1, high=256
    )
    rows: str = option(
        "all",
        "which token rows are stored; answers stores none",
        choices=("all", "scored", "answers"),
    )
    scan: bool = option(False, "compress one layer at a time and report each (layer sensitivity)")

    kind = "settings"


@dataclass(frozen=True)
class SweepSpec:
    """One run: a model with a memory answers phase copies of a task's samples."""

    model: ModelSpec
    memory: Any
    task: Any
    settings: Settings
    control: SweepSpec | None = None

    @classmethod
    def from_dict(cls, values: dict) -> SweepSpec:
        """Build and check from the dict form; raises SpecError naming each bad field.

        Defaults are resolved here (protocol, modulus, control), so that the key is definite.
        """
        import engine.memory
        import engine.tasks  # noqa: F401  (fill the registries)

        if not isinstance(values, dict):
            raise SpecError(FieldError("spec", f"must be a table, not {shown(values)}"))
        own = {f.name for f in fields(Settings)}
        known = own | {"model", "memory", "task", "control"}
        errors = [
            FieldError(short(name), f"unknown key{suggest(name, known)}")
            for name in values
            if name not in known
        ]
        parts = {}
        makers = {
            "model": lambda v: from_options(ModelSpec, _table(v, "model"), "model"),
            "memory": MEMORIES.build,
            "task": TASKS.build,
        }
        given = {"model": {}, "memory": {"kind": "full"}, "task": {"kind": "access_code"}} | values
        for name, make in makers.items():
            try:
                parts[name] = make(given[name])
            except SpecError as error:
                errors += error.errors
        try:
            settings = from_options(Settings, {k: v for k, v in values.items() if k in own}, "")
        except SpecError as error:
            errors += [FieldError(e.field.removeprefix("."), e.message) for e in error.errors]
        if errors:
            raise SpecError(*errors)
        parts["memory"] = _fitting(parts["model"], parts["memory"], "memory" in values)
        spec = cls(settings=_resolve(settings, parts["memory"], parts["task"]), **parts)
        return replace(spec, control=_control(spec, values.get("control")))

    def to_dict(self) -> dict:
        own = {f.name: getattr(self.settings, f.name) for f in fields(Settings)}
        parts = {"model": _without_kind(self.model), "memory": to_options(self.memory)}
        control = self.control and {
            "model": _without_kind(self.control.model),
            "memory": to_options(self.control.memory),
        }
        return {**parts, "task": to_options(self.task), **own, "control": control}

    @property
    def key(self) -> str:
        """Twelve hex digits naming this run.  Changing the dict form renames every run."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()

    @property
    def stride(self) -> int | None:
        """lcm of the memory's strides: the configured period; None for a memory without a grid."""
        strides = self.memory.strides()
        return math.lcm(*strides) if strides else None


def _without_kind(model: ModelSpec) -> dict:
    return {k: v for k, v in to_options(model).items() if k != "kind"}


def _fitting(model: ModelSpec, memory: Any, chosen: bool = True) -> Any:
    """The memory as this model has it: a controlled model answers with the one it was trained with.

    One that was not chosen is taken from the model.
    """
    if memory.kind == "trained":
        return memory.for_model(model.id)
    found = shelf.describe(model.id)
    if found is None:
        return memory
    if found.config.chunked and not chosen:
        return MEMORIES.build({"kind": "trained"}).for_model(model.id)
    if found.config.chunked or memory.kind != "full":
        own = "trained" if found.config.chunked else "full"
        told = f"{model.id} answers with the memory that it was trained with; choose {own}"
        raise SpecError(FieldError("memory.kind", told))
    return memory


def _table(value: Any, name: str) -> dict:
    if not isinstance(value, dict):
        raise SpecError(FieldError(name, f"must be a table of options, not {shown(value)}"))
    return value


def default_modulus(strides: tuple[int, ...]) -> int:
    """The larger of lcm of the strides and twice the largest; 16 without a grid."""
    if not strides:
        return 16
    lcm = math.lcm(*strides)
    return lcm if lcm >= 2 * max(strides) else 2 * lcm


def _resolve(settings: Settings, memory: Any, task: Any) -> Settings:
    protocol = settings.protocol or task.protocols()[0]
    if size := getattr(task, "size", int)():  # a task of the user's own prompts has that many
        settings = replace(settings, samples=min(settings.samples, size))
    if settings.scan and not hasattr(memory, "layers"):
        told = f"the layers of {memory.phrase()} are not chosen; take pooled, or set scan to false"
        raise SpecError(FieldError("scan", told))
    if protocol not in task.protocols():
        allowed = ", ".join(task.protocols())
        raise SpecError(
            FieldError("protocol", f"task {task.kind!r} can be padded as {allowed}, not {protocol}")
        )
    if protocol == "grid_origin" and memory.kind == "trained":
        told = "the grid of a trained memory cannot be moved; choose outer or in_sequence"
        raise SpecError(FieldError("protocol", told))
    if protocol == "pair":
        if settings.modulus not in (0, 2):
            told = f"a pair is two copies, so it has 2 residues, not {settings.modulus}; leave it 0"
            raise SpecError(FieldError("modulus", told))
        return replace(settings, protocol=protocol, modulus=2, scan=settings.scan)
    strides = memory.strides()
    modulus = settings.modulus or default_modulus(strides)
    if strides and default_modulus(strides) > MAX_MODULUS:
        told = " and ".join(map(str, strides[:8]))
        raise SpecError(
            FieldError(
                "memory.stride",
                f"stride {told} needs {default_modulus(strides)} residues and the cap is "
                f"{MAX_MODULUS}; choose smaller strides, or strides with common factors",
            )
        )
    if strides:
        lcm, least = math.lcm(*strides), default_modulus(strides)
        named = " and ".join(map(str, strides))
        if modulus % lcm or modulus < 2 * max(strides):
            raise SpecError(
                FieldError(
                    "modulus",
                    f"{modulus} residues do not fit stride {named}: the count must be "
                    f"a multiple of {lcm} and at least {2 * max(strides)}; {least} works",
                )
            )
    elif modulus < 2:
        raise SpecError(FieldError("modulus", "a sweep needs at least 2 residues"))
    return replace(settings, protocol=protocol, modulus=modulus)


def _control(spec: SweepSpec, given: Any) -> SweepSpec | None:
    """The control as a spec of its own, so that its rows are computed once for many memories.

    Default: the same model with the full cache.  A full-cache run is its own control: None.
    """
    if given is None or given == {}:
        if spec.memory.kind == "full":
            return None
        given = {}
        if spec.memory.kind == "trained":  # the full model of its shape, if it is here
            other = shelf.control_of(spec.model.id)
            if not other:
                return None
            given = {"model": _without_kind(replace(spec.model, id=other))}
    given = _table(given, "control")
    extra = [k for k in given if k not in ("model", "memory")]
    if extra:
        told = f"unknown key{suggest(extra[0], ('memory', 'model'))}"
        raise SpecError(FieldError(f"control.{short(extra[0])}", told))
    try:
        model = (
            from_options(ModelSpec, _table(given["model"], "model"), "model")
            if given.get("model") not in (None, {})
            else spec.model
        )
        asked = given.get("memory")
        memory = MEMORIES.build({"kind": "full"} if asked in (None, {}) else asked)
        memory = _fitting(model, memory)
    except SpecError as error:
        raise SpecError(
            *(FieldError(f"control.{e.field}", e.message) for e in error.errors)
        ) from None
    modulus, pair = spec.settings.modulus, spec.settings.protocol == "pair"
    if not pair and memory.strides() and modulus % math.lcm(*memory.strides()):
        named = " and ".join(map(str, memory.strides()))
        told = f"stride {named} does not divide the {modulus} residues; choose one that does"
        raise SpecError(FieldError("control.memory.stride", told))
    control = SweepSpec(model, memory, spec.task, replace(spec.settings, scan=False))
    return None if control == replace(spec, control=None) else control


def settings_schema() -> dict:
    return {"model": fields_schema(ModelSpec), "settings": fields_schema(Settings)}
