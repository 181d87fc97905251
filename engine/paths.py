"""Where state lives: one folder, which PHASESCOPE_HOME overrides."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_data_path


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
