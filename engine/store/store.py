"""The store: the one class through which the service keeps and asks everything it has on disk.

Knows where the files lie.  Only the service's process may open it: a DuckDB file has one owner.
"""

from __future__ import annotations

from pathlib import Path

from engine.store.maps import MapFiles
from engine.store.traces import TraceFiles
from engine.store.views import Views


class Store(Views):
    """The database and the side files of one home folder."""

    def __init__(self, home: Path):
        super().__init__(Path(home) / "phasescope.duckdb")
        self.maps = MapFiles(Path(home) / "attention")
        self.traces = TraceFiles(Path(home) / "traces")

    def delete(self, key: str) -> list[str]:
        files = super().delete(key)
        for name in files:
            self.maps.remove(name)
            self.traces.remove(name)
        return files
