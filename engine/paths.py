"""Where state lives: one folder, which PHASESCOPE_HOME overrides; and a file read up to a cap."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_data_path

CHARACTERS = 4  # of a token, for the size that is told


def home() -> Path:
    """The state folder (database, token, logs, side files), made readable by its owner alone."""
    folder = Path(os.environ.get("PHASESCOPE_HOME") or user_data_path("phasescope")).expanduser()
    if not folder.exists():
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    return folder


def models() -> Path:
    """Converted catalog models; PHASESCOPE_MODELS may name a folder that several users share."""
    folder = os.environ.get("PHASESCOPE_MODELS")
    path = Path(folder).expanduser() if folder else home() / "models"
    path.mkdir(parents=True, exist_ok=True)
    return path


def data() -> Path:
    """The shipped data folder beside the packages."""
    return Path(__file__).resolve().parent.parent / "data"


def read_capped(path: Path, most: int) -> bytes:
    """A file's content; ValueError with the reason where it cannot be read or is too large."""
    try:
        with path.expanduser().open("rb") as file:  # no more than is taken: it may be /dev/zero
            content, size = file.read(most + 1), os.fstat(file.fileno()).st_size
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"{path} cannot be read: {reason}") from None
    if len(content) > most:
        cap = f"{most / 1e6:.0f} MB"
        told = f"{size / 1e6:,.0f} MB, about {size // CHARACTERS:,} tokens of text"
        more = f"has {told}; the cap is {cap}" if size > most else f"is larger than {cap}"
        raise ValueError(f"{path} {more}")
    return content
