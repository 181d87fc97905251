"""What readers keep: saved views, notes and tags on runs, and settings.

Every edit names the version that its writer read, so that two writers never overwrite each other
silently.  Knows tables; what a view may hold is checked in `engine.views`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from engine.store.ledger import Ledger
from engine.store.schema import utc_now


class Stale(RuntimeError):
    """Somebody else wrote since; the message says who and when."""


@dataclass(frozen=True)
class View:
    """One row of `views`, fields in the table's order."""

    id: str
    page: str
    state: dict[str, str]
    keys: list[str]
    made_with: dict[str, str]
    parent: str | None
    author: str
    name: str
    note: str
    tags: list[str]
    locked: bool
    version: int
    created: datetime
    changed: datetime
    deleted: datetime | None

    def to_dict(self) -> dict:
        values = asdict(self)
        for name in ("created", "changed", "deleted"):
            values[name] = values[name] and values[name].isoformat(timespec="seconds") + "Z"
        return values


@dataclass(frozen=True)
class RunNote:
    """What readers wrote about the run of a key."""

    key: str
    note: str = ""
    tags: tuple[str, ...] = ()
    version: int = 0
    changed: datetime | None = None
    author: str = ""

    def to_dict(self) -> dict:
        changed = self.changed and self.changed.isoformat(timespec="seconds") + "Z"
        return asdict(self) | {"tags": list(self.tags), "changed": changed}


_VIEW = (
    "id, page, state, keys, made_with, parent, author, name, note, tags, locked, version, created, "
    "changed, deleted"
)
_NOTE = "key, note, tags, version, changed, author"


def _view(row: tuple) -> View:
    id, page, state, keys, made_with, *rest = row
    return View(id, page, json.loads(state), keys, json.loads(made_with), *rest)


def _note(row: tuple) -> RunNote:
    key, note, tags, *rest = row
    return RunNote(key, note, tuple(tags), *rest)


class Views(Ledger):
    """Views, notes and settings."""

    # ---- views

    def view(self, id: str) -> View | None:
        rows = self.ask(f"select {_VIEW} from views where id = ?", [id])
        return _view(rows[0]) if rows else None

    def views(self, deleted: bool = False) -> list[View]:
        """All that are not deleted, or all that are; the one changed last first."""
        kept = "is not null" if deleted else "is null"
        sql = f"select {_VIEW} from views where deleted {kept} order by changed desc, id"
        return [_view(row) for row in self.ask(sql)]

    def views_of(self, key: str) -> list[View]:
        """The views that show a run."""
        sql = f"select {_VIEW} from views where deleted is null and list_contains(keys, ?)"
        return [_view(row) for row in self.ask(sql, [key])]

    def add_view(self, view: View) -> bool:
        """False where the same content is saved already; a deleted one comes back as given."""
        with self.writing() as cursor:
            have = self.view(view.id)
            if have and not have.deleted:
                return False
            cursor.execute("delete from views where id = ?", [view.id])
            values = asdict(view)
            # Counted on: who read the deleted one must not overwrite what came in its place.
            values["version"] = have.version + 1 if have else view.version
            values |= {name: json.dumps(values[name]) for name in ("state", "made_with")}
            marks = ", ".join("?" * len(values))
            cursor.execute(f"insert into views values ({marks})", list(values.values()))
        return True

    def change_view(self, id: str, version: int, **values: Any) -> View:
        """Edit name, note, tags, locked or deleted; Stale unless `version` is the stored one."""
        unknown = set(values) - {"name", "note", "tags", "locked", "deleted"}
        if unknown:
            raise ValueError(f"no such columns of a view: {sorted(unknown)}")
        with self.writing() as cursor:
            have = self.view(id)
            if have is None:
                raise LookupError(id)
            if have.version != version:
                raise Stale(_elsewhere(f"the view “{have.name}”", have.changed))
            sets = "".join(f"{name} = ?, " for name in values)
            cursor.execute(
                f"update views set {sets} version = version + 1, changed = ? where id = ?",
                [*values.values(), utc_now(), id],
            )
        return self.view(id)

    # ---- notes on runs

    def run_note(self, key: str) -> RunNote:
        rows = self.ask(f"select {_NOTE} from run_notes where key = ?", [key])
        return _note(rows[0]) if rows else RunNote(key)

    def run_notes(self) -> dict[str, RunNote]:
        return {row[0]: _note(row) for row in self.ask(f"select {_NOTE} from run_notes")}

    def write_note(
        self, key: str, version: int, note: str, tags: list[str], author: str
    ) -> RunNote:
        """Stale unless `version` is the stored one; 0 where nothing was written yet."""
        with self.writing() as cursor:
            have = self.run_note(key)
            if have.version != version:
                raise Stale(_elsewhere("the note of this run", have.changed, have.author))
            cursor.execute("delete from run_notes where key = ?", [key])
            cursor.execute(
                "insert into run_notes values (?, ?, ?, ?, ?, ?)",
                [key, note, tags, version + 1, utc_now(), author],
            )
        return self.run_note(key)

    # ---- settings

    def setting(self, name: str) -> Any:
        rows = self.ask("select value from settings where name = ?", [name])
        return json.loads(rows[0][0]) if rows else None

    def keep_setting(self, name: str, value: Any, was: Any) -> None:
        """Stale unless `was` is the stored one; None where nothing was set yet."""
        with self.writing() as cursor:
            if self.setting(name) != was:
                raise Stale(_elsewhere(f"the setting {name}", None))
            cursor.execute("delete from settings where name = ?", [name])
            cursor.execute("insert into settings values (?, ?)", [name, json.dumps(value)])

    # ---- what there is, and what deleting would take

    def row_counts(self) -> dict[str, int]:
        """key → rows stored for its runs."""
        sql = "select key, sum(answers_stored + tokens_stored)::bigint from runs group by key"
        return dict(self.ask(sql))

    def leaning(self, key: str) -> list[str]:
        """Keys of asked runs whose control is a run of this key: its rows would stay for them."""
        rows = self.ask(
            "select distinct a.key from runs a join runs c on a.control_run = c.id "
            "where c.key = ? and a.key <> ? and a.asked",
            [key, key],
        )
        return [row[0] for row in rows]

    def delete(self, key: str) -> list[str]:
        """Delete a key's runs; its notes go when no run of the key is left."""
        files = super().delete(key)
        if not any(run.asked for run in self.runs_of(key)):
            with self.writing() as cursor:
                cursor.execute("delete from run_notes where key = ?", [key])
        return files


def _elsewhere(what: str, when: datetime | None, who: str = "") -> str:
    by = f" by {who}" if who else ""
    at = f" at {when:%H:%M} UTC" if when else ""
    return f"{what} was changed elsewhere{by}{at}; nothing was saved: reload, then edit it again"
