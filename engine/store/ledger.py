"""What was asked and what became of it: specs, runs, jobs, reports, maps.

Knows one row per (key, code version, source) and the states a job goes through.  Knows nothing of
how a run is computed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from engine.store.predictions import PredictionFacts
from engine.store.schema import utc_now

STOPPED = "the service stopped while this ran; run it again to resume"
# Summaries that were kept before the folded numbers were in them: those are read from the report.
SUMMARIES = """
select run, summary, {}, {} from reports
""".format(
    *(
        f"""case when contains(summary, 'worst_folded') then null
        else try_cast(json_extract_string(report, '$.{name}') as double) end"""
        for name in ("worst_folded", "folded_gap")
    )
)


class Gone(LookupError):
    """The row was deleted by somebody else between two looks at it."""


@dataclass(frozen=True)
class Run:
    """One row of `runs`, fields in the table's order."""

    id: int
    key: str
    code_version: str
    source: str
    title: str
    asked: bool
    control_run: int | None
    status: str
    reason: str
    created: datetime
    finished: datetime | None
    copies: int
    answers_expected: int
    tokens_expected: int
    answers_stored: int
    tokens_stored: int
    noise_floor: float | None
    kind: str  # sweep, decode or kvpress
    provenance: dict
    written: dict | None
    origin: dict | None  # of an imported run: where it came from

    @classmethod
    def from_row(cls, row: tuple) -> Run:
        *plain, provenance, written, origin = row
        made = json.loads(provenance or "{}")
        return cls(*plain, made, *(text and json.loads(text) for text in (written, origin)))


@dataclass(frozen=True)
class Job:
    """One row of `jobs`."""

    id: int
    run: int
    key: str
    state: str
    reason: str
    created: datetime
    started: datetime | None
    finished: datetime | None


_RUN = (
    "id, key, code_version, source, title, asked, control_run, status, reason, created, finished, "
    "copies, answers_expected, tokens_expected, answers_stored, tokens_stored, noise_floor, kind, "
    "provenance, written, origin"
)
_JOB = "id, run, key, state, reason, created, started, finished"
_JSON = ("provenance", "written", "origin")
_SETTABLE = frozenset(_RUN.split(", ")) - {"id", "key", "code_version", "source", "kind"}


class Ledger(PredictionFacts):
    """Specs, runs and jobs."""

    # ---- specs

    def remember(self, spec: Any) -> None:
        """Keep a spec under its key, so that a link with the key alone restores the form."""
        with self.writing() as cursor:
            if self.spec(spec.key) is None:
                values = [spec.key, json.dumps(spec.to_dict()), phrase_of(spec), utc_now()]
                cursor.execute("insert into specs values (?, ?, ?, ?)", values)

    def spec(self, key: str) -> dict | None:
        rows = self.ask("select spec from specs where key = ? limit 1", [key])
        return json.loads(rows[0][0]) if rows else None

    def phrase(self, key: str) -> str:
        rows = self.ask("select phrase from specs where key = ? limit 1", [key])
        return rows[0][0] if rows else ""

    def specs(self, keys: Sequence[str] | None = None) -> dict[str, tuple[dict, str]]:
        """key → (spec, the memory in words), of all or of some."""
        rows = self._some("select key, spec, phrase from specs", keys)
        return {key: (json.loads(text), phrase) for key, text, phrase in rows}

    def _some(self, sql: str, keys: Sequence[str] | None, order: str = "") -> list[tuple]:
        """Rows of all keys, or of these: one question takes as long as one key's."""
        where, values = ("", []) if keys is None else (" where key in (select unnest(?))", [keys])
        return self.ask(f"{sql}{where}{order}", [list(each) for each in values])

    # ---- runs

    def run(self, id: int) -> Run:
        rows = self.ask(f"select {_RUN} from runs where id = ?", [id])
        if not rows:
            raise Gone("the run was deleted in the meantime; nothing of it is here any more")
        return Run.from_row(rows[0])

    def find_run(self, key: str, code_version: str, source: str = "own") -> Run | None:
        rows = self.ask(
            f"select {_RUN} from runs where key = ? and code_version = ? and source = ?",
            [key, code_version, source],
        )
        return Run.from_row(rows[0]) if rows else None

    def runs_of(self, key: str) -> list[Run]:
        """All rows of a key, newest first."""
        rows = self.ask(f"select {_RUN} from runs where key = ? order by id desc", [key])
        return [Run.from_row(row) for row in rows]

    def runs(self, keys: Sequence[str] | None = None) -> list[Run]:
        """Newest first, of all keys or of some."""
        rows = self._some(f"select {_RUN} from runs", keys, " order by created desc, id desc")
        return [Run.from_row(row) for row in rows]

    def booked(self, kind: str = "sweep") -> list[tuple[dict, dict]]:
        """(provenance, spec) of the newest own runs that were asked for, newest first."""
        rows = self.ask(
            "select runs.provenance, specs.spec from runs join specs using (key) where kind = ? "
            "and source = 'own' and asked and provenance is not null order by id desc limit 50",
            [kind],
        )
        return [(json.loads(made), json.loads(spec)) for made, spec in rows]

    def open_run(
        self, key: str, code_version: str, asked: bool, title: str = "", kind: str = "sweep"
    ) -> Run:
        """The own run of this key and code version, made if there is none."""
        with self.writing() as cursor:
            run = self.find_run(key, code_version)
            if run is None:
                self._new_run(cursor, key, code_version, "own", title, asked, kind)
        run = self.find_run(key, code_version)
        changes = {"asked": True} if asked and not run.asked else {}
        if title and title != run.title:
            changes["title"] = title
        if changes:
            self.change(run.id, **changes)
        return self.run(run.id)

    def _new_run(self, cursor, key, code_version, source, title, asked, kind) -> int:
        cursor.execute(
            "insert into runs (key, code_version, source, title, asked, status, reason, created, "
            "copies, answers_expected, tokens_expected, answers_stored, tokens_stored, kind) "
            "values (?, ?, ?, ?, ?, 'queued', '', ?, 0, 0, 0, 0, 0, ?) returning id",
            [key, code_version, source, title, asked, utc_now(), kind],
        )
        return cursor.fetchall()[0][0]

    def change(self, id: int, **values: Any) -> None:
        with self.writing() as cursor:
            self._change(cursor, id, values)

    def _change(self, cursor, id: int, values: dict) -> None:
        unknown = set(values) - _SETTABLE
        if unknown:
            raise ValueError(f"no such columns of a run: {sorted(unknown)}")
        values = {
            n: json.dumps(v) if n in _JSON and v is not None else v for n, v in values.items()
        }
        sets = ", ".join(f"{name} = ?" for name in values)
        cursor.execute(f"update runs set {sets} where id = ?", [*values.values(), id])

    def verify(self, id: int) -> bool:
        """Count what is stored against what was expected; True when every row is there."""
        run, have = self.run(id), self.counts(id)
        self.change(id, answers_stored=have.answers, tokens_stored=have.tokens)
        return (
            run.answers_expected > 0
            and have.answers == run.answers_expected
            and have.tokens == run.tokens_expected
        )

    def verify_all(self) -> list[str]:
        """After a start: runs called done whose rows are not all there become incomplete."""
        rows = self.ask(
            """
            with a as (
                select run, count(*) as n from answers group by run
                union all select run, count(*) from decode_whole group by run
                union all select run, count(*) from predictions group by run
            ), t as (
                select run, count(*) as n from tokens group by run
                union all select run, sum(steps) from decode_whole group by run
            )
            select id, key from runs left join a on a.run = id left join t on t.run = id
            where status in ('done', 'incomplete') and (
                answers_expected = 0 or coalesce(a.n, 0) <> answers_expected
                or coalesce(t.n, 0) <> tokens_expected)
            """
        )
        for id, _ in rows:
            self.verify(id)
            self.change(id, status="incomplete", reason=shortage(self.run(id)))
        return [key for _, key in rows]

    def delete(self, key: str) -> list[str]:
        """Delete a key's rows, and its control's when nothing else leans on them.

        Returns the names of side files (maps, traces) that no row points to any more.
        """
        files = []
        with self.writing() as cursor:
            doomed = cursor.execute(
                "select id, control_run from runs where key = ? and source <> 'preset'", [key]
            ).fetchall()
            ids = [id for id, _ in doomed]
            shared = self._leaning_on(cursor, ids)
            for id, control in doomed:
                if id in shared:
                    # Another run's control: keep the rows, take it out of the list.
                    self._change(cursor, id, {"asked": False})
                    continue
                files += self._drop(cursor, id)
                if control is not None and not self._needed(cursor, control):
                    files += self._drop(cursor, control)
        self.checkpoint()
        return files

    def _leaning_on(self, cursor, ids: list[int]) -> set[int]:
        rows = cursor.execute("select distinct control_run from runs").fetchall()
        return {row[0] for row in rows} & set(ids)

    def _needed(self, cursor, id: int) -> bool:
        return (
            cursor.execute(
                "select count(*) from runs where (id = ? and asked) or control_run = ?", [id, id]
            ).fetchall()[0][0]
            > 0
        )

    def _drop(self, cursor, id: int) -> list[str]:
        files = cursor.execute(
            "select file from maps where run = ? union all select file from traces where run = ?",
            [id, id],
        ).fetchall()
        self._delete_rows(cursor, id)
        cursor.execute("delete from jobs where run = ?", [id])
        cursor.execute("delete from runs where id = ?", [id])
        return [row[0] for row in files]

    # ---- jobs

    def enqueue(self, run: Run) -> Job:
        """A new job for the run, or the one that is already waiting or at work."""
        with self.writing() as cursor:
            rows = cursor.execute(
                f"select {_JOB} from jobs where run = ? and state in ('queued', 'running')",
                [run.id],
            ).fetchall()
            if not rows:
                rows = cursor.execute(
                    "insert into jobs (run, key, state, reason, created) "
                    f"values (?, ?, 'queued', '', ?) returning {_JOB}",
                    [run.id, run.key, utc_now()],
                ).fetchall()
                self._change(cursor, run.id, {"status": "queued", "reason": "", "finished": None})
        return Job(*rows[0])

    def next_job(self) -> Job | None:
        rows = self.ask(f"select {_JOB} from jobs where state = 'queued' order by id limit 1")
        return Job(*rows[0]) if rows else None

    def job(self, id: int) -> Job | None:
        rows = self.ask(f"select {_JOB} from jobs where id = ?", [id])
        return Job(*rows[0]) if rows else None

    def jobs(self, state: str | None = None) -> list[Job]:
        where = "where state = ?" if state else ""
        sql = f"select {_JOB} from jobs {where} order by id desc limit 1000"
        return [Job(*row) for row in self.ask(sql, [state] if state else [])]

    def start_job(self, job: Job) -> None:
        with self.writing() as cursor:
            cursor.execute(
                "update jobs set state = 'running', started = ? where id = ?", [utc_now(), job.id]
            )
            self._change(cursor, job.run, {"status": "running", "reason": ""})

    def end_job(self, job: Job, state: str, reason: str = "", status: str | None = None) -> None:
        """Close a job and its run together; `status` where the run's differs (incomplete)."""
        with self.writing() as cursor:
            cursor.execute(
                "update jobs set state = ?, reason = ?, finished = ? where id = ?",
                [state, reason, utc_now(), job.id],
            )
            values = {"status": status or state, "reason": reason, "finished": utc_now()}
            self._change(cursor, job.run, values)

    def recover(self) -> int:
        """After a start: what was running when the service stopped has failed, with its reason."""
        stopped = self.jobs("running")
        for job in stopped:
            self.end_job(job, "failed", STOPPED)
        return len(stopped)

    # ---- reports and maps

    def was_shipped(self, digest: str) -> bool:
        return bool(self.ask("select 1 from shipped where digest = ?", [digest]))

    def mark_shipped(self, digest: str) -> None:
        with self.writing() as cursor:
            cursor.execute("insert into shipped values (?)", [digest])

    def report(self, run: int, stamp: str | None = None) -> dict | None:
        """The kept report, if it is of that stamp (None: of any)."""
        rows = self.ask("select stamp, report from reports where run = ?", [run])
        return json.loads(rows[0][1]) if rows and stamp in (None, rows[0][0]) else None

    def summaries(self) -> dict[int, dict]:
        """run id → the few numbers of its kept report that a list shows."""
        return {
            run: {"worst_folded": worst, "folded_gap": gap} | json.loads(text)
            for run, text, worst, gap in self.ask(SUMMARIES)
        }

    def keep_report(self, run: int, stamp: str, report: dict, summary: dict) -> None:
        with self.writing() as cursor:
            cursor.execute("delete from reports where run = ?", [run])
            cursor.execute(
                "insert into reports values (?, ?, ?, ?)",
                [run, stamp, json.dumps(report), json.dumps(summary)],
            )

    def map_file(self, run: int, layer: int, head: int, sample: int, shift: int) -> str | None:
        rows = self.ask(
            "select file from maps where run = ? and layer = ? and head = ? and sample = ? "
            "and shift = ?",
            [run, layer, head, sample, shift],
        )
        return rows[0][0] if rows else None

    def keep_map(self, run: int, layer: int, head: int, sample: int, shift: int, file: str) -> None:
        with self.writing() as cursor:
            cursor.execute(
                "insert into maps values (?, ?, ?, ?, ?, ?)",
                [run, layer, head, sample, shift, file],
            )


def phrase_of(spec: Any) -> str:
    """A spec in a few words: its memory, or all methods of a decode run."""
    return spec.phrase() if hasattr(spec, "phrase") else spec.memory.phrase()


def shortage(run: Run) -> str:
    """What is missing, as a sentence."""
    if run.kind == "kvpress":
        return (
            f"{run.answers_stored} of {run.answers_expected} predictions are stored; delete it and "
            "import its folder again"
        )
    if run.kind == "decode":
        return (
            f"{run.answers_stored} of {run.answers_expected} parts (a method on a prompt) are "
            "stored whole; run it again to compute the rest"
        )
    return (
        f"{run.answers_stored} of {run.answers_expected} answer rows and {run.tokens_stored} of "
        f"{run.tokens_expected} token rows are stored; run it again to compute the rest"
    )
