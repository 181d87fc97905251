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

DECODE = """
-- sweep: phase copies, rows in answers and tokens; decode: evicting methods, rows in decode_*.
alter table runs add column kind varchar default 'sweep';

create table decode_steps (
    run integer, arm integer, sample integer, position integer, token_id integer, text varchar,
    logprob float, rank integer, kept integer, event boolean
);
create table decode_answers (
    run integer, arm integer, sample integer, question integer, mark varchar, correct boolean,
    logprob double, tokens integer, retained double
);
create table decode_marks (
    run integer, arm integer, sample integer, seen integer, mark varchar, retained double
);
create table decode_costs (
    run integer, arm integer, sample integer, rows integer, prefill_seconds double,
    decode_seconds double, tokens integer, events integer, event_ms double[], step_ms double[],
    observe_ms double, resident_mean double, resident_peak integer, peak_bytes bigint,
    mean_bytes bigint, state_bytes bigint
);
create table decode_texts (run integer, arm integer, sample integer, text varchar, ended varchar);

-- What each arm of each sample consists of: rows of every table when its batch was stored.
create table decode_parts (
    run integer, arm integer, sample integer,
    steps integer, answers integer, marks integer, costs integer, texts integer
);

-- Parts whose rows are all there.
create view decode_whole as
with rows as (
    select run, arm, sample, 1 as s, 0 as a, 0 as m, 0 as c, 0 as t from decode_steps
    union all select run, arm, sample, 0, 1, 0, 0, 0 from decode_answers
    union all select run, arm, sample, 0, 0, 1, 0, 0 from decode_marks
    union all select run, arm, sample, 0, 0, 0, 1, 0 from decode_costs
    union all select run, arm, sample, 0, 0, 0, 0, 1 from decode_texts
), have as (
    select run, arm, sample, sum(s) as s, sum(a) as a, sum(m) as m, sum(c) as c, sum(t) as t
    from rows group by run, arm, sample
)
select p.run, p.arm, p.sample, p.steps
from decode_parts p left join have h using (run, arm, sample)
where p.steps = coalesce(s, 0) and p.answers = coalesce(a, 0) and p.marks = coalesce(m, 0)
    and p.costs = coalesce(c, 0) and p.texts = coalesce(t, 0);

-- Traces lie in side files, as attention maps do.
create table traces (
    run integer, arm integer, sample integer, layer integer, kv_head integer,
    "top" integer, far integer, file varchar
);
"""

SHARED = """
-- What readers write about a run: under its key, so that it outlives a resume and a new version.
create table run_notes (
    key varchar, note varchar, tags varchar[], version integer, changed timestamp, author varchar
);

-- A saved state of a page.  `id` is the hash of what was saved; name, note and tags may change.
create table views (
    id varchar,
    page varchar,
    state varchar,              -- JSON: the address's parameters
    keys varchar[],             -- runs that the state shows
    made_with varchar,          -- JSON: key → code version of the run that was shown
    parent varchar,             -- the view it was forked from, or null
    author varchar,
    name varchar, note varchar, tags varchar[],
    locked boolean,
    version integer,            -- counts edits: a writer names the one that it read
    created timestamp, changed timestamp, deleted timestamp
);

create table settings (name varchar, value varchar);

-- Where an imported run came from: JSON.
alter table runs add column origin varchar;
"""

PREDICTIONS = """
-- Evaluations that were computed elsewhere and imported: a row a prediction.
create table predictions (
    run integer, "row" integer, task varchar, question varchar, answer varchar, predicted varchar,
    score double, removed double
);
"""

COSTS = """
-- What choosing stored queries takes, and peaks; empty in rows of an older version.
alter table decode_costs add column fps_ms double;
alter table decode_costs add column state_peak bigint;
alter table decode_costs add column memory_peak bigint;
"""

# Append only.  Entry i turns version i into version i + 1; a shipped entry is never edited.
MIGRATIONS: tuple[str, ...] = (FIRST, DECODE, SHARED, PREDICTIONS, COSTS)


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
