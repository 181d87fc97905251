"""Rows of decode runs: whole parts (an arm on a sample) in, Arrow tables out; and their traces.

A part's receipt says how many rows it has in every table, so that a lost row shows.  Knows the
schemas of `engine.eviction.rows`.  Knows nothing of jobs, statistics or models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pyarrow as pa

from engine.store.facts import Counts, Facts

PARTS = pa.schema(
    [(n, pa.int32()) for n in ("arm", "sample", "steps", "answers", "marks", "costs", "texts")]
)


def schemas() -> dict[str, pa.Schema]:
    """Table → columns.  Imported when asked for: it takes the methods' code, and torch, with it."""
    from engine.eviction.rows import TABLES

    return TABLES


class DecodeFacts(Facts):
    """Rows of measured facts by run id, those of decode runs among them."""

    _of_run = (
        *Facts._of_run,
        *("decode_steps", "decode_answers", "decode_marks", "decode_costs", "decode_texts"),
        *("decode_parts", "traces"),
    )

    def add_decode(
        self, run: int, arm: int, samples: Iterable[int], tables: Mapping[str, pa.Table]
    ) -> None:
        """Commit one batch in one transaction, in place of whatever was there of these parts."""
        places = [(arm, int(sample)) for sample in samples]
        with self.writing() as cursor:
            for name in (*schemas(), "decode_parts"):
                cursor.executemany(
                    f"delete from {name} where run = ? and arm = ? and sample = ?",
                    [[run, *place] for place in places],
                )
            self._insert_decode(cursor, run, tables, receipts(tables, places))

    def _insert_decode(
        self, cursor, run: int, tables: Mapping[str, pa.Table], parts: pa.Table
    ) -> None:
        for name, schema in {**schemas(), "decode_parts": PARTS}.items():
            rows = parts if name == "decode_parts" else tables[name]
            cursor.register("new_rows", rows.select(schema.names).cast(schema))
            columns = ", ".join(schema.names)
            cursor.execute(
                f"insert into {name} by name select ? as run, {columns} from new_rows", [run]
            )
            cursor.unregister("new_rows")

    def decode_stored(self, run: int) -> set[tuple[int, int]]:
        """(arm, sample) of every part whose rows are all there."""
        return set(self.ask("select arm, sample from decode_whole where run = ?", [run]))

    def counts(self, run: int) -> Counts:
        """Of a decode run: whole parts, and the tokens decoded in them."""
        rows = super().counts(run)
        parts, steps = self.ask(
            "select count(*), coalesce(sum(steps), 0)::bigint from decode_whole where run = ?",
            [run],
        )[0]
        return Counts(rows.answers + parts, rows.tokens + steps)

    def decode_table(
        self, run: int, name: str, arm: int | None = None, sample: int | None = None
    ) -> pa.Table:
        """One table of a decode run, all of it or of one arm or sample; KeyError for no table."""
        from engine.eviction.rows import WITHIN

        schema = schemas()[name]
        where, values = "run = ?", [run]
        for column, value in (("arm", arm), ("sample", sample)):
            if value is not None:
                where += f" and {column} = ?"
                values.append(value)
        order = ", ".join(("arm", "sample", *WITHIN[name]))
        columns = ", ".join(schema.names)
        sql = f"select {columns} from {name} where {where} order by {order}"
        return self.table(sql, values).cast(schema)

    def decode_parts(self, run: int) -> pa.Table:
        """The receipts, as columns of PARTS."""
        columns = ", ".join(PARTS.names)
        sql = f"select {columns} from decode_parts where run = ? order by arm, sample"
        return self.table(sql, [run]).cast(PARTS)

    # ---- traces

    def trace_file(self, place: tuple[int, ...]) -> str | None:
        """`place`: run, arm, sample, layer, KV head, and the two thresholds of a global query."""
        rows = self.ask(
            "select file from traces where run = ? and arm = ? and sample = ? and layer = ? "
            'and kv_head = ? and "top" = ? and far = ?',
            place,
        )
        return rows[0][0] if rows else None

    def keep_trace(self, place: tuple[int, ...], file: str) -> None:
        with self.writing() as cursor:
            cursor.execute("insert into traces values (?, ?, ?, ?, ?, ?, ?, ?)", [*place, file])


def receipts(tables: Mapping[str, pa.Table], places: Iterable[tuple[int, int]]) -> pa.Table:
    """How many rows each part has in every table, as columns of PARTS."""
    counted = {
        name: Counter(zip(rows["arm"].to_pylist(), rows["sample"].to_pylist(), strict=True))
        for name, rows in tables.items()
    }
    found = [
        [*place, *(counted[f"decode_{name}"][place] for name in PARTS.names[2:])]
        for place in places
    ]
    columns = list(zip(*found, strict=True)) or [[] for _ in PARTS.names]
    arrays = [pa.array(column, pa.int32()) for column in columns]
    return pa.Table.from_arrays(arrays, schema=PARTS)
