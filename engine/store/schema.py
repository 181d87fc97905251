"""The database's shape and how it grows: a list of migrations that is only ever appended to.

Knows DuckDB files, their version and their lock.  Knows nothing of what the rows mean.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import duckdb

FIRST = """
-- `phrase` names the memory in words: a list of runs needs no memory's code.
create table specs (key varchar, spec varchar, phrase varchar, seen timestamp);

-- sha256 of preset results that were brought in: done once, not at every start.
create table shipped (digest varchar);

create sequence run_ids;
create table runs (
    id integer default nextval('run_ids'),
    key varchar,
    code_version varchar,
    source varchar,             -- own, preset or import
    title varchar,
    asked boolean,              -- false: only computed as another run's control
    control_run integer,        -- the run that holds the control's rows, or null
    status varchar,             -- queued running done failed cancelled incomplete
    reason varchar,
    created timestamp,
    finished timestamp,
    copies integer,             -- copies to compute, layer scan included
    answers_expected bigint,
    tokens_expected bigint,
    answers_stored bigint,
    tokens_stored bigint,
    noise_floor double,
    provenance varchar,         -- JSON
    written varchar             -- JSON: the text at the worst and at the best phase
);

create table answers (
    run integer,
    sample integer, shift integer, residue integer, layer integer, length integer,
    target_position integer, query_position integer, origin integer, correct boolean,
    logprob double, token_logprobs double[], token_ranks integer[], token_residues integer[],
    rival_logprobs double[]
);

create table tokens (
    run integer,
    sample integer, shift integer, residue integer, position integer, token_id integer,
    text varchar, role varchar, logprob float, rank integer, entropy float,
    top_ids integer[], top_logprobs float[]
);

create sequence job_ids;
create table jobs (
    id integer default nextval('job_ids'),
    run integer,
    key varchar,
    state varchar,              -- queued running done failed cancelled
    reason varchar,
    created timestamp,
    started timestamp,
    finished timestamp
);

-- A finished run's numbers of phase; `stamp` says which rows and which statistics code they are of.
create table reports (run integer, stamp varchar, report varchar, summary varchar);

-- Attention maps lie in side files; the table says which there are.
create table maps (
    run integer, layer integer, head integer, sample integer, shift integer, file varchar
);
"""

# Append only.  Entry i turns version i into version i + 1; a shipped entry is never edited.
MIGRATIONS: tuple[str, ...] = (FIRST,)


class StoreError(RuntimeError):
    """The database cannot be used; the message is a sentence for the user."""


class StoreLocked(StoreError):
    """Another process holds the database."""


def connect(path: Path) -> duckdb.DuckDBPyConnection:
    """Open the file for this process alone; StoreLocked if another process has it."""
    try:
        # Replacement scans would let a Python variable's name pass for a table.
        return duckdb.connect(str(path), config={"python_enable_replacements": "false"})
    except duckdb.IOException as error:
        if "lock" in str(error).lower():
            raise StoreLocked(
                f"another Phasescope process is using {path}; wait for it or stop it, "
                "or set PHASESCOPE_HOME to another folder"
            ) from None
        raise StoreError(f"the database {path} cannot be opened: {_first_line(error)}") from None
    except duckdb.Error as error:
        raise StoreError(
            f"the database {path} is damaged ({_first_line(error)}); a copy from before the last "
            "format change, if any, lies beside it and ends in .backup"
        ) from None


def version(connection: duckdb.DuckDBPyConnection) -> int:
    """The format number in the file; 0 for an empty one."""
    with connection.cursor() as cursor:
        found = cursor.execute(
            "select count(*) from information_schema.tables where table_name = 'format'"
        ).fetchall()
        if not found[0][0]:
            return 0
        rows = cursor.execute("select max(version) from format").fetchall()
    return rows[0][0] or 0


def open_database(path: Path, migrations: Sequence[str] = MIGRATIONS) -> duckdb.DuckDBPyConnection:
    """Open and bring up to date; an older file is copied to NAME.vN.backup before it is changed."""
    connection = connect(path)
    have, latest = version(connection), len(migrations)
    if have > latest:
        connection.close()
        raise StoreError(
            f"the database {path} was written by a newer Phasescope (format {have}, this one knows "
            f"up to {latest}); update Phasescope, or set PHASESCOPE_HOME to another folder"
        )
    if 0 < have < latest:
        # Close first: the copy must hold what the write-ahead log still has.
        connection.execute("checkpoint")
        connection.close()
        shutil.copy2(path, path.with_name(f"{path.name}.v{have}.backup"))
        connection = connect(path)
    if have < latest:
        _migrate(connection, migrations, have)
    return connection


def _migrate(connection: duckdb.DuckDBPyConnection, migrations: Sequence[str], have: int) -> None:
    """All missing steps in one transaction: a failure leaves the old format untouched."""
    with connection.cursor() as cursor:
        cursor.begin()
        try:
            cursor.execute("create table if not exists format (version integer, applied timestamp)")
            for number, sql in enumerate(migrations[have:], have + 1):
                cursor.execute(sql)
                cursor.execute("insert into format values (?, ?)", [number, utc_now()])
            cursor.commit()
        except duckdb.Error as error:
            cursor.rollback()
            connection.close()
            raise StoreError(
                f"the database could not be brought to format {len(migrations)}: "
                f"{_first_line(error)}; it was left as it was"
            ) from None


def utc_now() -> datetime:
    """Naive UTC, as every time in the database is."""
    return datetime.now(UTC).replace(tzinfo=None)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
