"""The list of shipped models beside their files: what each is, how it was trained, its hash.

Derived from the family and the checkpoints; written by `make family`, compared by a test.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from engine.models.controlled import checkpoint
from engine.models.controlled.config import to_dict
from engine.models.controlled.family import family


def describe(folder: Path) -> list[dict]:
    """One entry for each member of the family whose file is in the folder."""
    entries = []
    for member in family().values():
        path = folder / f"{member.name}.safetensors"
        if not path.is_file():
            continue
        found = checkpoint.header(path)
        entries.append(
            {
                "name": member.name,
                "label": member.label,
                "control": member.control,
                "config": to_dict(found.config),
                "recipe": to_dict(found.recipe),
                "seed": found.recipe.seed,
                "steps": found.notes["steps"],
                "training_accuracy": found.notes["accuracy"],
                "cpu_seconds": found.notes["cpu_seconds"],
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
        )
    return entries


def write(folder: Path) -> None:
    text = json.dumps({"models": describe(folder)}, indent=1)
    (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    from engine.models.controlled.shelf import shipped_folder

    write(shipped_folder())
