"""The service as Python methods: all that a page or a command line knows of the engine.

One method per endpoint; refusals, missing things and a missing service are three exceptions.
Imports no torch and no database.
"""

from __future__ import annotations

import contextlib
import io
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from engine import serving
from engine.forms import FORMULA
from engine.presets import find, read_toml
from engine.presets import presets as read_presets
from engine.transport import NotFound, Refused, ServiceFailed, Transport, Unavailable

TEXT = ("object", "string", "category")  # columns of a frame that can hold text

__all__ = [
    "Client",
    "NotFound",
    "Refused",
    "ServiceFailed",
    "Unavailable",
    "connect",
    "embedded",
    "expand",
    "presets",
    "table",
]


class Client(Transport):
    """One running service, a method an endpoint.  May be shared by threads."""

    def health(self) -> dict:
        return self._json("GET", "/health")

    def schema(self) -> dict:
        return self._json("GET", "/schema")

    def preview(self, spec: dict) -> dict:
        return self._json("POST", "/preview", **self._body(spec))

    def spec(self, key: str) -> dict:
        return self._json("GET", f"/specs/{_safe(key)}")

    def submit(self, spec: dict, title: str = "") -> dict:
        """{key, job}"""
        return self._json("POST", "/runs", **self._body({**spec, "title": title}))

    def runs(self) -> list[dict]:
        return self._json("GET", "/runs")

    def run(self, key: str) -> dict:
        return self._json("GET", f"/runs/{_safe(key)}")

    def depth(self, key: str) -> dict | None:
        """Accuracy of a benchmark by distance to the query and by records in the same window."""
        return self._json("GET", f"/runs/{_safe(key)}/depth")

    def gate(
        self,
        key: str,
        worst: float | None = None,
        gap: float | None = None,
        mean: float | None = None,
        alpha: float = 0.05,
    ) -> dict:
        """A finished sweep's intervals judged against thresholds, from its stored rows."""
        asked = {"worst": worst, "gap": gap, "mean": mean, "alpha": alpha}
        params = {name: value for name, value in asked.items() if value is not None}
        return self._json("GET", f"/runs/{_safe(key)}/gate", params=params)

    def answers(self, key: str, control: bool = False, scan: bool = False):
        return self._frame(f"/runs/{_safe(key)}/answers", control=control, scan=scan)

    def tokens(
        self,
        key: str,
        sample: int | None = None,
        shift: int | None = None,
        control: bool = False,
    ):
        path = f"/runs/{_safe(key)}/tokens"
        return self._frame(path, sample=sample, shift=shift, control=control)

    def names(self, key: str, ids: list[int]) -> dict[int, str]:
        """Token id → raw text, in the run's own tokenizer."""
        found = self._json(
            "GET", f"/runs/{_safe(key)}/names", params={"ids": ",".join(map(str, ids))}
        )
        return {int(token): text for token, text in found.items()}

    def token_means(self, key: str, sample: int = 0, control: bool = False):
        return self._frame(f"/runs/{_safe(key)}/token_means", sample=sample, control=control)

    def cancel(self, key: str) -> dict:
        return self._json("POST", f"/runs/{_safe(key)}/cancel")

    def attention(
        self,
        key: str,
        layer: int,
        head: int,
        sample: int = 0,
        shift: int = 0,
        queries: list[int] | None = None,
        keys: list[int] | None = None,
        control: bool = False,
    ) -> dict:
        """The map's cells, or {"pending": True} while the worker makes it."""
        place = {"layer": layer, "head": head, "sample": sample, "shift": shift}
        part = {"queries": queries, "keys": keys, "control": control}
        return self._json("POST", f"/runs/{_safe(key)}/attention", json=place | part)

    def decode(self, key: str, table: str, arm: int | None = None, sample: int | None = None):
        """One table of a decode run (steps, answers, marks, costs, texts) as a DataFrame."""
        return self._frame(
            f"/runs/{_safe(key)}/decode/{_name(table, 'table')}", arm=arm, sample=sample
        )

    def trace(
        self, key: str, arm: int, sample: int, layer: int, kv_head: int, **global_if: int
    ) -> dict:
        """One head's evictions in one sample, or {"pending": True} while the worker reads it, with
        the seconds since it was asked and the tokens `done` of `total`.

        global_if: `top` and `far`, the thresholds of a global query, where they are not the usual.
        """
        place = {"arm": arm, "sample": sample, "layer": layer, "kv_head": kv_head}
        return self._json("POST", f"/runs/{_safe(key)}/trace", json=place | global_if)

    def stop_trace(self, key: str, **asked: int) -> dict:
        """Nobody waits for that trace any more; `asked` as of `trace`."""
        return self._json("POST", f"/runs/{_safe(key)}/trace/stop", json=asked)

    def benchmark(self, wait: bool = True) -> dict:
        """{members, published}: the controlled family with its numbers.

        Their stored results are read once; without `wait` {"coming": {done, total}} meanwhile.
        """
        return self._json("GET", "/benchmark", params={"wait": wait})

    def trainings(self) -> dict:
        """{runs, ended}: trainings with their progress, and the ledger of those that ended."""
        return self._json("GET", "/training")

    def stop_training(self, name: str) -> dict:
        return self._json("POST", f"/training/{_name(name)}/stop")

    def delete(self, key: str) -> dict:
        return self._json("DELETE", f"/runs/{_safe(key)}")

    def jobs(self) -> list[dict]:
        return self._json("GET", "/jobs")

    def job(self, id: int) -> dict:
        return self._json("GET", f"/jobs/{int(id)}")

    def export(self, key: str, alone: bool = False) -> bytes:
        """The run and its control as a zip; `alone` leaves the control out."""
        return self._ask("GET", f"/runs/{_safe(key)}/bundle", params={"alone": alone}).content

    # ---- views, notes and the library

    def library(self) -> dict:
        """{runs, views, deleted, disk, retention_days}"""
        return self._json("GET", "/library")

    def views(self) -> list[dict]:
        return self._json("GET", "/views")

    def view(self, id: str) -> dict:
        """A view with its runs as they are now."""
        return self._json("GET", f"/views/{_safe(id, 'view')}")

    def save_view(
        self,
        page: str,
        state: dict[str, str],
        name: str,
        note: str = "",
        tags: list[str] | None = None,
        parent: str | None = None,
        author: str = "",
    ) -> dict:
        """{id, added, view}; `parent`: the view that this one is forked from."""
        values = {"page": page, "state": state, "name": name, "note": note, "tags": tags or []}
        values |= {"parent": parent}
        return self._json("POST", "/views", json=values, headers=_by(author))

    def edit_view(self, id: str, version: int, **changes: Any) -> dict:
        """Change name, note, tags, locked or deleted; Refused where somebody else wrote since."""
        return self._json(
            "PATCH", f"/views/{_safe(id, 'view')}", json={"version": version} | changes
        )

    def note(self, key: str) -> dict:
        return self._json("GET", f"/runs/{_safe(key)}/note")

    def write_note(self, key: str, version: int, author: str = "", **changes: Any) -> dict:
        """Change the note or the tags of a run; `version` as `note` gave it."""
        values = {"version": version} | changes
        path = f"/runs/{_safe(key)}/note"
        return self._json("PATCH", path, json=values, headers=_by(author))

    def losses(self, key: str) -> dict:
        """What deleting a run would take from views and from other runs."""
        return self._json("GET", f"/runs/{_safe(key)}/losses")

    def keep_for(self, days: int | None, was: int | None, now: bool = False) -> dict:
        """{days, deleted}: how long unmarked runs are kept, None for ever; `was`: what was read."""
        return self._json("PUT", "/retention", json={"days": days, "was": was, "now": now})

    # ---- bundles

    def bring_in(self, bundle: bytes, file: str = "") -> dict:
        """{key, added} of the first run, {runs, view} of all; `file`: the bundle's name."""
        return self._json("POST", "/import", content=bundle, params={"file": file})

    def bundle(self, keys: list[str], maps: bool = True, view: dict | None = None) -> bytes:
        """Several runs with their controls, attention maps and a view as one zip."""
        body = {"keys": keys, "maps": maps, "view": view}
        return self._ask("POST", "/bundle", json=body).content

    # ---- comparisons

    def compare(self, keys: list[str], base: str | None = None) -> dict:
        """Two to eight runs side by side, or one beside its control; `base`: the baseline's key."""
        params = {"keys": ",".join(map(_safe, keys))} | ({"base": _safe(base)} if base else {})
        return self._json("GET", "/compare", params=params)

    def vary(self, spec: dict, field: str, values: list, submit: bool = False) -> dict:
        """{specs, modulus}: one spec a value of a dotted field; with `submit` queued, and jobs."""
        asked = {"spec": spec, "field": field, "values": values, "submit": submit}
        return self._json("POST", "/vary", **self._body(asked))

    def compare_text(self, a: str, b: str, outputs: str | None = None, **place: int) -> dict:
        """{a, b, ops, reason}: tokens of one copy (sample, shift) in two runs, of what they wrote
        at their "worst" or "best" phase, or "decoded" (sample, arm_a, arm_b) behind a prompt."""
        params = {"a": _safe(a), "b": _safe(b), **place}
        params |= {"outputs": outputs} if outputs else {}
        return self._json("GET", "/compare/text", params=params)

    def model_card(self, key: str) -> dict:
        """{markdown}: the section of a model card on this run's phases."""
        return self._json("GET", f"/runs/{_safe(key)}/model_card")

    def rows(self, key: str, table: str, form: str, **filters: Any) -> bytes:
        """A run's table as "json", "csv" or "parquet"; a decode run's as "decode/steps".

        filters: sample, shift, control, scan; of a decode run arm, sample; and _size, _offset.
        """
        path = "/".join(_name(part, "table") for part in table.split("/"))
        params = {name: value for name, value in filters.items() if value is not None}
        address = f"/runs/{_safe(key)}/{path}.{_name(form, 'form')}"
        return self._ask("GET", address, params=params).content

    def predictions(self, key: str, sample: int | None = None):
        """Rows of an imported evaluation; `sample` is a row's place."""
        return self._frame(f"/runs/{_safe(key)}/predictions", sample=sample)

    def import_kvpress(self, files: dict[str, str], folder: str = "") -> dict:
        """{key, added} of a kvpress results folder: its files' texts by name."""
        return self._json("POST", "/import/kvpress", json={**files, "folder": folder})

    def export_kvpress(self, key: str) -> list[dict]:
        """{label, press_name, yaml, notes, reason}: the run's memory, or each arm's, as kvpress
        would be told it; yaml is None where kvpress has no such press."""
        return self._json("GET", f"/runs/{_safe(key)}/kvpress")["configurations"]


def _by(author: str) -> dict[str, str]:
    """A header carries Latin letters alone: any other script is percent-encoded."""
    return {"phasescope-author": quote(author)} if author else {}


def _safe(key: str, what: str = "run") -> str:
    """A key is hex digits; anything else names nothing, and must not become a path."""
    if not (isinstance(key, str) and key.isalnum() and key.isascii() and len(key) <= 64):
        hint = "; `phasescope runs` lists what there is" if what == "run" else ""
        raise NotFound(f"no {what} {str(key)[:40]!r} here{hint}")
    return key


def _name(name: str, what: str = "training") -> str:
    """A name is letters, digits, hyphens and underscores, and must not become a path."""
    if not (name.isascii() and name.replace("-", "").replace("_", "").isalnum()):
        raise NotFound(f"no {what} {name[:40]!r} here")
    return name


def table(rows: Any, form: str) -> bytes:
    """A frame as "csv" or "parquet" bytes; in CSV no text that a spreadsheet would run."""
    out = io.BytesIO()
    if form == "csv":
        told = rows.assign(**{n: rows[n].map(_inert) for n in rows.select_dtypes(TEXT).columns})
        told.rename(columns=_inert).to_csv(out, index=False)
    else:
        rows.to_parquet(out, index=False)
    return out.getvalue()


def _inert(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and re.match(FORMULA, cell) else cell


def connect() -> Client:
    """The running service, found by its address file; Unavailable if there is none."""
    address = serving.read_address()
    if address is None:
        raise Unavailable("no Phasescope service is running; start one with `phasescope dash`")
    client = Client(address.url, address.token)
    try:
        client.health()
    except Unavailable:
        client.close()
        raise Unavailable(
            f"the service that was at {address.url} is gone; start one with `phasescope dash`"
        ) from None
    return client


@contextlib.contextmanager
def embedded() -> Iterator[Client]:
    """A service inside this process for the length of the with, over the same data."""
    with serving.running() as address:
        client = Client(address.url, address.token)
        try:
            yield client
        finally:
            client.close()


@contextlib.contextmanager
def service(
    say: Callable[[str], None] = lambda text: None, patience: float = 20.0
) -> Iterator[Client]:
    """The running service, or an embedded one; waits a while for data that another holds."""
    from engine.store import StoreLocked

    deadline = None
    with contextlib.ExitStack() as stack:
        while True:
            try:
                client = connect()
                stack.callback(client.close)
                break
            except Unavailable:
                pass
            try:
                client = stack.enter_context(embedded())
                break
            except StoreLocked as locked:
                if deadline is None:
                    say(f"{locked}; waiting up to {patience:g} s")
                    deadline = time.monotonic() + patience
                elif time.monotonic() > deadline:
                    raise
                time.sleep(0.3)
        yield client


def presets() -> dict[str, dict]:
    """name → the preset's spec, as written."""
    return {name: preset.spec for name, preset in read_presets().items()}


def expand(source: str) -> dict:
    """A spec dict from "preset:NAME" or from a TOML file; SpecError if there is none."""
    if source.startswith("preset:"):
        return dict(find(source.removeprefix("preset:")).spec)
    values = read_toml(Path(source))
    return {
        name: value for name, value in values.items() if name not in ("caption", "note", "order")
    }
