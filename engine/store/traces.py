"""Traces of one sample's eviction as side files: gzipped JSON, written once and read often.

Knows files.  Knows no SQL and no model.
"""

from __future__ import annotations

import gzip
import json
import os
import uuid
from pathlib import Path


class TraceFiles:
    """NAME.json.gz, one for each trace that was asked for."""

    def __init__(self, folder: Path):
        self.folder = folder

    def save(self, trace: dict) -> str:
        """Write one trace; the name is returned once the file is whole."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        name = uuid.uuid4().hex
        content = json.dumps(trace, allow_nan=False, separators=(",", ":")).encode()
        part = self.folder / f"{name}.json.gz.part"
        part.write_bytes(gzip.compress(content, 6, mtime=0))
        os.replace(part, self._file(name))
        return name

    def load(self, name: str) -> bytes | None:
        """The trace as JSON text, or None where the file is gone or damaged."""
        try:
            return gzip.decompress(self._file(name).read_bytes())
        except (OSError, EOFError, ValueError):
            return None

    def remove(self, name: str) -> None:
        self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.json.gz"
