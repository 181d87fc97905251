"""Commands about what there is: models, memories, tasks, runs and their rows.

Knows which question each command asks the service.  Computes nothing.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.commands import kvpress, shown
from engine.commands.printing import cell, print_json, print_table, print_text, say

VIEW = re.compile("[0-9a-f]{10}|[0-9a-f]{20}|[0-9a-f]{64}")  # as views are named; a run has 12
AsJson = Annotated[bool, typer.Option("--json", help="one JSON object on standard output")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="a run's key, or preset:NAME")]


def add_to(app: typer.Typer) -> None:
    for command in (models, memories, tasks, runs, show, tokens, cancel, delete, export):
        app.command()(command)
    app.command("import")(bring_in)


@contextlib.contextmanager
def ask() -> Iterator[Any]:
    """A client of the running service or of an embedded one."""
    from engine.client import service

    with service(say) as client:
        yield client


def key_of(text: str) -> str:
    """preset:NAME stands for its spec's key."""
    if not text.startswith("preset:"):
        return text
    from engine.client import expand
    from engine.kinds import read_spec

    return read_spec(expand(text)).key


def models(as_json: AsJson = False) -> None:
    """The models that can be pulled by name, the controlled ones, and which are here."""
    from engine import offers
    from engine.models import catalog

    rows = [
        {
            "name": entry.name,
            "label": entry.label,
            "help": entry.help,
            "size_mb": entry.size_mb,
            "installed": catalog.installed(entry.name),
        }
        for entry in catalog.CATALOG.values()
    ]
    rows += [{name: about.get(name) for name in rows[0]} for about in offers.controlled_models()]
    if as_json:
        print_json({"models": rows})
        return
    print_table(list(rows[0]), [list(row.values()) for row in rows])
    print_text("Any Hugging Face id or local folder with safetensors works too.")


def memories(as_json: AsJson = False) -> None:
    """The kinds of memory and their options; which of them evict, for decode runs."""
    from engine import offers

    _kinds("memories", offers.memories(), as_json)


def tasks(as_json: AsJson = False) -> None:
    """The kinds of task and their options; those of decode runs are prompts."""
    from engine.eviction.prompts.base import PROMPTS
    from engine.registry import TASKS

    found, prompts = TASKS.schema(), PROMPTS.schema()
    for name, about in found.items():
        about["protocols"] = list(TASKS[name]().protocols())
    if as_json:
        print_json({"tasks": found, "prompts": prompts})
        return
    _kinds("tasks", found, False)
    _kinds("prompts", {f"{kind} (decode)": about for kind, about in prompts.items()}, False)


def _kinds(name: str, kinds: dict, as_json: bool) -> None:
    if as_json:
        print_json({name: kinds})
        return
    for kind, about in kinds.items():
        evicts = " (evicts)" if about.get("evicts") else ""
        print_text(f"{kind}{evicts}: {about['help']}", "bold")
        rows = []
        for field in about["fields"]:
            bounds = ", ".join(field["choices"]) or _bounds(field)
            rows.append([f"  {field['name']}", cell(field["default"]), bounds, field["help"]])
        print_table(["  option", "default", "values", "meaning"], rows)


def _bounds(field: dict) -> str:
    low, high = field["low"], field["high"]
    if low is None and high is None:
        return field["type"]
    return f"{'' if low is None else low} … {'' if high is None else high}"


def runs(as_json: AsJson = False) -> None:
    """All runs, newest first."""
    with ask() as client:
        found = client.runs()
    if as_json:
        print_json({"runs": found})
    else:
        shown.lines(found)


def show(key: Key, as_json: AsJson = False) -> None:
    """One run: what was found, and the numbers behind it."""
    with ask() as client:
        run = client.run(key_of(key))
    if as_json:
        print_json(run)
    else:
        shown.show(run)


def tokens(
    key: Key,
    sample: Annotated[int, typer.Option(help="which logical sample")] = 0,
    shift: Annotated[int, typer.Option(help="which of its copies")] = 0,
    control: Annotated[bool, typer.Option(help="the control's rows")] = False,
    as_json: AsJson = False,
) -> None:
    """Token rows of one copy: probability, rank, entropy, likeliest tokens."""
    key = key_of(key)
    with ask() as client:
        _check_copy(client.run(key), sample, shift)
        rows = client.tokens(key, sample=sample, shift=shift, control=control)
    if as_json:
        records = json.loads(rows.to_json(orient="records"))
        print_json({"key": key, "sample": sample, "shift": shift, "tokens": records})
        return
    columns = ["position", "text", "role", "logprob", "rank", "entropy"]
    print_table(columns, rows[columns].to_numpy(object).tolist())


def _check_copy(run: dict, sample: int, shift: int) -> None:
    """SpecError where a sweep has no such copy."""
    from engine.registry import FieldError, SpecError

    spec = run["spec"] if run["kind"] == "sweep" else {}
    for name, value, count in (
        ("sample", sample, spec.get("samples")),
        ("shift", shift, spec.get("modulus")),
    ):
        if count and not 0 <= value < count:
            raise SpecError(FieldError(name, f"must be from 0 to {count - 1}, not {value}"))


def cancel(key: Key, as_json: AsJson = False) -> None:
    """Stop a run that waits or is at work; its rows are kept."""
    key = key_of(key)
    with ask() as client:
        done = client.cancel(key)
    if as_json:
        print_json({"key": key, **done})
    else:
        print_text(f"{key}: {'cancelled' if done['cancelled'] else 'was not at work'}")


def delete(key: Key, as_json: AsJson = False) -> None:
    """Delete a run and its rows."""
    key = key_of(key)
    with ask() as client:
        done = client.delete(key)
    if as_json:
        print_json(done)
    else:
        print_text(f"{key}: deleted")


def export(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="a run's key, preset:NAME, or a saved view's id")
    ],
    to: Annotated[
        Path, typer.Option(help="a .zip (everything), .parquet, .csv, .html, .md or .yaml file")
    ],
    table: Annotated[
        str,
        typer.Option(
            help="for parquet and csv: answers or tokens; of a decode run steps, answers, marks, "
            "costs or texts"
        ),
    ] = "answers",
    control: Annotated[bool, typer.Option(help="for parquet and csv: the control's")] = False,
    alone: Annotated[
        bool, typer.Option(help="for zip: without the control, as shipped results are")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a run to a file; a .zip can be imported elsewhere, a .html is a report that works
    offline (either of several runs too: KEY,KEY, or of a saved view), a .md is a model card's
    section, a .yaml the memory as kvpress is told it.
    """
    from engine import client as service
    from engine.registry import FieldError, SpecError

    form = to.suffix.lower().removeprefix(".")
    if form not in ("zip", "parquet", "csv", "html", "md", "yaml"):
        told = f"{to} must end in .zip, .parquet, .csv, .html, .md or .yaml"
        raise SpecError(FieldError("to", told))
    try:
        to = to.expanduser()
        writable = to.parent.is_dir() and not to.is_dir()
    except (OSError, RuntimeError):  # no such user, a name too long
        writable = False
    if not writable:
        raise SpecError(FieldError("to", f"{to} is no file in a folder that exists"))
    key = ",".join(map(key_of, key.split(",")))
    viewed = VIEW.fullmatch(key) is not None
    if viewed and form not in ("zip", "html"):
        told = f"{to} must end in .zip or .html, for {key} is a saved view and no run"
        raise SpecError(FieldError("to", told))
    with contextlib.nullcontext() if form == "html" else ask() as client:
        if form == "yaml":
            kvpress.write(client, key, to, as_json)
            return
        if form == "html":
            content = _report(key, viewed)
        elif viewed:
            content = _bundle_of(client, key)
        elif form == "zip":
            many = "," in key
            content = client.bundle(key.split(",")) if many else client.export(key, alone)
        elif form == "md":
            content = client.model_card(key)["markdown"].encode()
        else:
            content = service.table(_rows(client, key, table, control), form)
    try:
        to.write_bytes(content)
    except OSError as error:
        raise SpecError(FieldError("to", f"{to} cannot be written: {error.strerror}")) from None
    if as_json:
        print_json({"key": key, "file": str(to), "bytes": len(content)})
    else:
        print_text(f"{to}: {len(content)} bytes")


def _bundle_of(client: Any, id: str) -> bytes:
    """The runs that a saved view shows, and the view."""
    from engine.registry import FieldError, SpecError

    view = client.view(id)
    keys = [run["key"] for run in view["runs"] if run["status"] != "missing"]
    if not keys:
        told = f"the view {id} shows no run that is here, so there is nothing to write"
        raise SpecError(FieldError("key", told))
    if gone := len(view["runs"]) - len(keys):
        say(f"without {gone} of its runs, which {'is' if gone == 1 else 'are'} not here any more")
    return client.bundle(keys, view=view)


def _report(keys: str, viewed: bool) -> bytes:
    """The HTML report, made by the dashboard's side in a process of its own."""
    from engine.client import ServiceFailed
    from engine.commands.processes import APP
    from engine.registry import FieldError, SpecError

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        asked = ["--view", keys] if viewed else ["--", keys]
        command = [sys.executable, "-m", "app.report", "--to", str(file), *asked]
        done = subprocess.run(command, cwd=APP.parents[1], capture_output=True, text=True)
        if done.returncode == 0:
            return file.read_bytes()
    told = done.stderr.strip().splitlines() or ["no reason was given"]
    if done.returncode == 2:
        raise SpecError(FieldError("", told[-1]))
    raise ServiceFailed(f"the report was not made: {told[-1]}")


def _rows(client: Any, key: str, table: str, control: bool) -> Any:
    """A table of a run as a frame, by its kind."""
    from engine.registry import FieldError, SpecError

    kind = client.run(key)["kind"]
    decode = kind == "decode"
    known = ("steps", "answers", "marks", "costs", "texts") if decode else ("answers", "tokens")
    if kind == "kvpress":
        return client.predictions(key)
    if table not in known:
        told = f"must be {', '.join(known[:-1])} or {known[-1]} for this run, not {table!r}"
        raise SpecError(FieldError("table", told))
    if decode and control:
        raise SpecError(FieldError("control", "the full cache is arm 0 of a decode run itself"))
    return client.decode(key, table) if decode else getattr(client, table)(key, control=control)


def bring_in(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="an exported .zip, or kvpress's folder")
    ],
    as_json: AsJson = False,
) -> None:
    """Bring in runs that were exported elsewhere, or a folder of kvpress's results."""
    from engine.registry import FieldError, SpecError

    try:
        file = file.expanduser()
        if file.is_dir():
            with ask() as client:
                kvpress.bring_in(client, file, as_json)
            return
        content = file.read_bytes()
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError(FieldError("bundle", f"{file} cannot be read: {reason}")) from None
    with ask() as client:
        done = client.bring_in(content, file.name)
    if as_json:
        many = len(done["runs"]) > 1 or done["view"]
        print_json(done if many else done["runs"][0])
        return
    for run in done["runs"]:
        print_text(f"{run['key']}: {'added' if run['added'] else 'was here already'}")
    if done["view"]:
        view = done["view"]["view"]
        print_text(f"view {view['id']}: {view['name']}, of {view['page']}")
