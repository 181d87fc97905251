"""One DuckDB connection for the whole process: a cursor a call, one writer at a time.

Knows how to ask and how to write safely from many threads.  Knows no table.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa

from engine.store.schema import MIGRATIONS, open_database


class Database:
    """The open file.  Results are fetched whole: a half-read one holds up the next statement."""

    def __init__(self, path: Path, migrations: Sequence[str] = MIGRATIONS):
        self.path = Path(path)
        self._connection = open_database(self.path, migrations)
        self._writer = threading.RLock()

    def close(self) -> None:
        with self._writer:
            self._connection.close()

    def ask(self, sql: str, values: Sequence[Any] = ()) -> list[tuple]:
        with self._connection.cursor() as cursor:
            return cursor.execute(sql, list(values)).fetchall()

    def frame(self, sql: str, values: Sequence[Any] = ()) -> pd.DataFrame:
        with self._connection.cursor() as cursor:
            return cursor.execute(sql, list(values)).df()

    def table(self, sql: str, values: Sequence[Any] = ()) -> pa.Table:
        with self._connection.cursor() as cursor:
            return cursor.sql(sql, params=list(values)).to_arrow_table()

    @contextmanager
    def writing(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction: all of it or nothing.  Writers take turns, so none meets a conflict."""
        with self._writer, self._connection.cursor() as cursor:
            cursor.begin()
            try:
                yield cursor
            except BaseException:
                cursor.rollback()
                raise
            cursor.commit()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else writes for the length of the with: what was read there still holds."""
        with self._writer:
            yield

    def checkpoint(self) -> None:
        """Fold the write-ahead log into the file: what a damaged log could lose ends here."""
        with self._writer, self._connection.cursor() as cursor:
            # Readers may be at work; then the next finished job folds it in.
            try:
                cursor.execute("checkpoint")
            except duckdb.TransactionException:
                return
