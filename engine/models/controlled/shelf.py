"""Where checkpoints of controlled models stand, and what a model's name means.

Shipped ones in the data folder, the user's own in the models folder, or any file that is one.
Reads headers only; imports no torch.
"""

from __future__ import annotations

import contextlib
import functools
import re
from pathlib import Path

from engine import paths
from engine.models.controlled import checkpoint, tensors
from engine.models.controlled.checkpoint import Header
from engine.models.controlled.family import family
from engine.registry import SpecError

NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")


def own_folder() -> Path:
    """Where models trained here are kept."""
    return paths.models() / "controlled"


def shipped_folder() -> Path:
    return paths.data() / "models"


def find(name: str) -> Path | None:
    """The checkpoint that a model id names, or None: another kind of model, or not trained yet."""
    name = name.strip()
    if NAME.fullmatch(name):
        for folder in (own_folder(), shipped_folder()):
            path = folder / f"{name}.safetensors"
            if path.is_file():
                return path
    if name.endswith(".safetensors"):
        with contextlib.suppress(OSError, RuntimeError):  # too long a name, no such user
            path = Path(name).expanduser()
            if path.is_file() and checkpoint.is_ours(path):
                return path
    return None


def describe(name: str) -> Header | None:
    """Config, recipe and notes of a controlled model by id; None where it is none or not here.

    SpecError where the file is damaged or its tensors are not those of its config.
    """
    path = find(name)
    if path is None:
        return None
    stat = path.stat()
    return _header(str(path), stat.st_mtime_ns, stat.st_size)


@functools.lru_cache(maxsize=256)
def _header(path: str, changed: int, size: int) -> Header:
    found = checkpoint.header(Path(path))
    tensors.check(Path(path), found.config)
    return found


def missing(name: str) -> bool:
    """Whether the id is a member of the family that is not trained here."""
    return name.strip() in family() and find(name) is None


def listed() -> dict[str, Header]:
    """name → header of every controlled model that is here, the family's order first; one that is
    damaged is left out.
    """
    here = [p.stem for folder in (shipped_folder(), own_folder()) for p in _files(folder)]
    order = {name: i for i, name in enumerate(family())}
    found = sorted(set(here), key=lambda name: (order.get(name, len(order)), name))
    return {name: header for name in found if (header := _sound(name))}


def _sound(name: str) -> Header | None:
    try:
        return describe(name)
    except SpecError:
        return None


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors")) if folder.is_dir() else []


def control_of(name: str) -> str:
    """The full model that a controlled one is compared with, "" where none is here."""
    base = re.sub(r"-seed[0-9]+$", "", name.strip())
    member = family().get(base)
    control = member.control if member else ""
    return control if control and find(control) else ""
