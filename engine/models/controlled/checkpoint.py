"""Checkpoints of controlled models: safetensors with their frozen config inside.

The header is read without torch.  Every refusal says what is wrong with the file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from engine.models.controlled.config import VERSION, Config, ConfigError, Recipe, to_dict
from engine.models.controlled.config import read as parse
from engine.registry import FieldError, SpecError

MARK = "phasescope"  # the metadata key that tells these files from other safetensors
MAX_HEADER = 1 << 20


class Header(NamedTuple):
    """What a file says of itself; `notes` are the training's own (accuracy, curve, …)."""

    config: Config
    recipe: Recipe
    notes: dict[str, Any]


class Checkpoint(NamedTuple):
    """A header and its tensors."""

    config: Config
    recipe: Recipe
    notes: dict[str, Any]
    tensors: dict[str, Any]


def refuse(path: Path, told: str) -> SpecError:
    return SpecError(FieldError("model.id", f"{path.name} is no controlled model: {told}"))


def is_ours(path: Path) -> bool:
    """Whether a file is a safetensors file with our mark in its header."""
    try:
        return MARK in _metadata(path)
    except SpecError:
        return False


def header(path: Path) -> Header:
    """Config and notes of a checkpoint; SpecError where it is damaged or of a newer version."""
    told = _metadata(path).get(MARK)
    if told is None:
        raise refuse(path, "its header holds no config")
    try:
        values = json.loads(told)
        version = values["version"]
        if type(version) is not int or version > VERSION:
            raise refuse(
                path, f"its config is of version {version!r} and this program knows {VERSION}"
            )
        config, recipe = parse(Config, values["config"]), parse(Recipe, values["recipe"])
        return Header(config, recipe, dict(values["notes"]))
    except SpecError:  # a ValueError as well
        raise
    except ConfigError as error:
        raise refuse(path, str(error)) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise refuse(path, "its config is damaged") from None


def _metadata(path: Path) -> dict[str, str]:
    """The header's metadata: eight bytes of length, then JSON."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if not 2 <= size <= MAX_HEADER:
                raise refuse(path, "it is no safetensors file")
            return dict(json.loads(file.read(size)).get("__metadata__") or {})
    except SpecError:  # a ValueError as well
        raise
    except OSError as error:
        raise refuse(path, error.strerror or str(error)) from None
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise refuse(path, "its header is damaged") from None


def write(
    path: Path, tensors: dict[str, Any], config: Config, recipe: Recipe, notes: dict[str, Any]
) -> None:
    """Write a file whole or not at all."""
    from safetensors.torch import save_file

    told = {
        "version": VERSION,
        "config": to_dict(config),
        "recipe": to_dict(recipe),
        "notes": notes,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    save_file(held, scratch, metadata={MARK: json.dumps(told)})
    os.replace(scratch, path)


def read(path: Path) -> Checkpoint:
    """All tensors, as stored."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    found = header(path)
    try:
        return Checkpoint(*found, load_file(path))
    except (SafetensorError, OSError) as error:
        raise refuse(path, f"its tensors are damaged ({error})") from None


def save_model(path: Path, model: Any, recipe: Recipe, notes: dict[str, Any]) -> None:
    """Weights in half precision; the tied head is left out."""
    import torch

    named = {n: p.to(torch.float16) for n, p in model.named_parameters()}
    write(path, named, model.shape, recipe, notes)


def load_model(path: Path, dtype: str = "float32") -> Any:
    """The model of a file, on the CPU; SpecError names a tensor that is missing, too many, of
    another shape, of whole numbers or not finite.
    """
    import torch

    from engine.models.controlled.model import Controlled

    found = read(path)
    with torch.device("meta"):  # shapes alone: what a config claims may not fit the memory
        wanted = dict(Controlled(found.config).named_parameters())
    if lacking := sorted(wanted.keys() - found.tensors.keys()):
        raise refuse(path, f"it lacks {len(lacking)} of its tensors ({lacking[0]})")
    if extra := sorted(found.tensors.keys() - wanted.keys()):
        raise refuse(path, f"it holds {len(extra)} tensors too many ({extra[0]})")
    for name, parameter in wanted.items():
        tensor = found.tensors[name]
        if tensor.shape != parameter.shape:
            shapes = f"{tuple(tensor.shape)}, not {tuple(parameter.shape)}"
            raise refuse(path, f"the shape of {name} is {shapes}")
        if not tensor.is_floating_point():
            held = str(tensor.dtype).removeprefix("torch.")
            raise refuse(path, f"{name} is of dtype {held}; a floating-point one works")
        if not bool(torch.isfinite(tensor).all()):
            raise refuse(path, f"{name} holds numbers that are not finite")
    model = Controlled(found.config)
    for name, parameter in model.named_parameters():
        parameter.data = found.tensors[name].to(torch.float32)
    model.lm_head.weight = model.model.embed_tokens.weight
    return model.to(getattr(torch, dtype)).eval().requires_grad_(False)
