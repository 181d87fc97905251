"""The fact tables: answers and tokens, as Arrow in and as frames or Arrow out.

Knows the two row schemas of `engine.rows`.  Knows nothing of jobs, statistics or models.
"""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
import pyarrow as pa

from engine.rows import ANSWERS, TOKENS
from engine.store.database import Database

_ANSWERS = ", ".join(ANSWERS.names)
_TOKENS = ", ".join(TOKENS.names)


class Counts(NamedTuple):
    answers: int
    tokens: int


class Facts(Database):
    """Rows of measured facts by run id."""

    _of_run = ("answers", "tokens", "reports", "maps")  # tables whose rows end with their run

    def add(
        self, run: int, answers: pa.Table, tokens: pa.Table | None, replace: bool = False
    ) -> None:
        """Commit one batch in one transaction.  `replace` first drops what a broken batch left."""
        with self.writing() as cursor:
            self._insert(cursor, run, answers, tokens, replace)

    def _insert(self, cursor, run, answers, tokens, replace) -> None:
        cursor.register("new_answers", answers.select(ANSWERS.names))
        if replace:
            cursor.execute(
                "delete from answers where run = ? and (sample, shift, layer) in "
                "(select (sample, shift, layer) from new_answers)",
                [run],
            )
            if tokens is not None:
                cursor.execute(
                    "delete from tokens where run = ? and (sample, shift) in "
                    "(select (sample, shift) from new_answers)",
                    [run],
                )
        cursor.execute(
            f"insert into answers by name select ? as run, {_ANSWERS} from new_answers", [run]
        )
        cursor.unregister("new_answers")
        if tokens is not None:
            cursor.register("new_tokens", tokens.select(TOKENS.names))
            cursor.execute(
                f"insert into tokens by name select ? as run, {_TOKENS} from new_tokens", [run]
            )
            cursor.unregister("new_tokens")

    def stored(self, run: int) -> set[tuple[int, int, int]]:
        """(sample, shift, layer) of every copy that has its answer row."""
        return set(self.ask("select sample, shift, layer from answers where run = ?", [run]))

    def counts(self, run: int) -> Counts:
        return Counts(
            self.ask("select count(*) from answers where run = ?", [run])[0][0],
            self.ask("select count(*) from tokens where run = ?", [run])[0][0],
        )

    def answers(self, run: int, scan: bool = False) -> pd.DataFrame:
        """Columns of rows.ANSWERS: the run itself (layer -1), or its layer scan (layer >= 0)."""
        return self.answers_table(run, scan).to_pandas()

    def answers_table(self, run: int, scan: bool = False) -> pa.Table:
        which = "layer >= 0" if scan else "layer = -1"
        sql = f"select {_ANSWERS} from answers where run = ? and {which}"
        return self.table(f"{sql} order by layer, sample, shift", [run]).cast(ANSWERS)

    def answer_count(self, run: int) -> int:
        sql = "select count(*) from answers where run = ? and layer = -1"
        return self.ask(sql, [run])[0][0]

    def tokens(self, run: int, sample: int | None = None, shift: int | None = None) -> pa.Table:
        sql = f"select {_TOKENS} from tokens where run = ?"
        values = [run]
        for column, value in (("sample", sample), ("shift", shift)):
            if value is not None:
                sql += f" and {column} = ?"
                values.append(value)
        return self.table(f"{sql} order by sample, shift, position", values).cast(TOKENS)

    def token_means(self, run: int, sample: int, stride: int) -> pa.Table:
        """Mean log-probability of each token of a sample by phase of the target.

        Fillers differ between copies, so tokens are aligned by their rank among the others, from
        the end: a copy that padding opens has a row more, of the prompt's first token.
        Columns index, token_id, text, role, phase, logprob, n.
        """
        return self.table(
            """
            with own as (
                select shift, residue % ? as phase, token_id, text, role, logprob,
                    row_number() over (partition by shift order by position desc) as back
                from tokens where run = ? and sample = ? and role <> 'pad'
            ), placed as (select *, max(back) over () - back as index from own)
            select index::integer as index, first(token_id) as token_id, first(text) as text,
                first(role) as role, phase::integer as phase, avg(logprob) as logprob,
                count(*)::integer as n
            from placed group by index, phase order by index, phase
            """,
            [stride, run, sample],
        )

    def _delete_rows(self, cursor, run: int) -> None:
        for name in self._of_run:
            cursor.execute(f"delete from {name} where run = ?", [run])
