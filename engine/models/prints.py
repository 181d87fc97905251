"""Which weights a model's name stands for here: a short hash that changes when the files do.

Rows are reused only under the same one.  Reads samples of files; imports no torch.
"""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from engine.models import catalog
from engine.models.controlled import shelf
from engine.registry import SpecError

SAMPLES, BYTES = 32, 4096  # of each file of weights: a training leaves none of them as it was
WHOLE = 4 << 20  # smaller files are read whole
KINDS = (".safetensors", ".gguf", ".json")


def fingerprint(name: str, revision: str = "") -> str:
    """Eight hex digits of the files behind a model id; "" for a catalog model, whose checksum is
    fixed, and for a model that is not here.
    """
    name = name.strip()
    if name in catalog.CATALOG:
        return ""
    try:
        if path := shelf.find(name):
            return _of_files((_stamp(path),))
        path = Path(name).expanduser()
        if path.is_dir():
            return _of_files(tuple(_stamp(p) for p in sorted(path.iterdir()) if _counts(p)))
        if path.is_file():
            return _of_files((_stamp(path),))
        return _commit(name, revision)[:8]
    except (OSError, ValueError, RuntimeError, SpecError):
        return ""


def _counts(path: Path) -> bool:
    return path.suffix in KINDS and path.is_file()


def _stamp(path: Path) -> tuple[str, int, int]:
    stat = path.stat()
    return str(path), stat.st_size, stat.st_mtime_ns


@functools.lru_cache(maxsize=128)
def _of_files(files: tuple[tuple[str, int, int], ...]) -> str:
    digest = hashlib.blake2b(digest_size=4)
    for path, size, _ in files:
        digest.update(f"{Path(path).name}\0{size}\0".encode())
        with open(path, "rb") as file:
            if size <= WHOLE:
                digest.update(file.read())
                continue
            for i in range(SAMPLES):
                file.seek((size - BYTES) * i // (SAMPLES - 1))
                digest.update(file.read(BYTES))
    return digest.hexdigest()


def _commit(name: str, revision: str) -> str:
    """The commit of a hub model in the local cache, "" where it was never fetched."""
    from huggingface_hub import constants

    folder = Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"
    if (folder / "snapshots" / (revision or os.devnull)).is_dir():
        return revision
    ref = folder / "refs" / (revision or "main")
    return ref.read_text().strip() if ref.is_file() else ""
