"""Rows of imported evaluations: one prediction each.

Knows their columns.  Knows nothing of the files they came from.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from engine.store.decode import DecodeFacts
from engine.store.facts import Counts

PREDICTIONS = pa.schema(
    [
        ("row", pa.int32()),  # place in the file, which is that in the dataset
        ("task", pa.string()),  # part of the dataset, "" where it has none
        ("question", pa.string()),
        ("answer", pa.string()),  # gold, as the file has it
        ("predicted", pa.string()),
        (
            "score",
            pa.float64(),
        ),  # 0 to 1 by the dataset's metric; null where it is not known by row
        ("removed", pa.float64()),  # share of the cache that was dropped; null where not told
    ]
)
MAY_BE_NULL = ("score", "removed")
MOST = 1 << 20  # rows of one evaluation


class PredictionFacts(DecodeFacts):
    """Rows of measured facts by run id, predictions among them."""

    _of_run = (*DecodeFacts._of_run, "predictions")

    def predictions(self, run: int, sample: int | None = None, task: str | None = None) -> pa.Table:
        """Columns of PREDICTIONS, in the dataset's order; `sample` is a row's place."""
        where, values = "run = ?", [run]
        for column, value in (('"row"', sample), ("task", task)):
            if value is not None:
                where += f" and {column} = ?"
                values.append(value)
        columns = ", ".join(f'"{name}"' for name in PREDICTIONS.names)
        sql = f'select {columns} from predictions where {where} order by "row"'
        return self.table(sql, values).cast(PREDICTIONS)

    def _insert_predictions(self, cursor, run: int, rows: pa.Table) -> None:
        cursor.register("new_rows", rows.select(PREDICTIONS.names).cast(PREDICTIONS))
        columns = ", ".join(f'"{name}"' for name in PREDICTIONS.names)
        sql = f"insert into predictions by name select ? as run, {columns} from new_rows"
        cursor.execute(sql, [run])
        cursor.unregister("new_rows")

    def counts(self, run: int) -> Counts:
        """Of an imported evaluation: its predictions, beside the answers of other runs."""
        found = super().counts(run)
        own = self.ask("select count(*) from predictions where run = ?", [run])[0][0]
        return Counts(found.answers + own, found.tokens)


def unsound(rows: pa.Table) -> str:
    """What no evaluation could have given, or ""."""
    if not 0 < rows.num_rows <= MOST:
        return f"there must be 1 to {MOST} rows, not {rows.num_rows}"
    if rows["row"].to_pylist() != list(range(rows.num_rows)):
        return "row is not 0, 1, 2 and so on"
    for name in rows.column_names:
        column = rows[name]
        if column.null_count and name not in MAY_BE_NULL:
            return f"{name} has empty cells"
        found = pc.drop_null(column)
        if name in MAY_BE_NULL and len(found):
            ends = pc.min_max(found).as_py()
            if not pc.all(pc.is_finite(found)).as_py() or ends["min"] < 0 or ends["max"] > 1:
                return f"{name} is no share"
    if 0 < rows["score"].null_count < rows.num_rows:
        return "score is known for some rows only"
    return ""
