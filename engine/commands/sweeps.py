"""Commands that compute: pull, run, bench.

Knows how a run is asked for, watched and cancelled.  The numbers come from the service.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.commands import shown, words
from engine.commands.look import AsJson, ask
from engine.commands.printing import err, print_json, print_text, say, seconds
from engine.registry import FieldError, SpecError

POLL = 0.25
FIELD = re.compile(r"[a-z_]+(\.[a-z_]+)*: ")  # the start of a refusal


def add_to(app: typer.Typer) -> None:
    for command in (pull, run, bench):
        app.command()(command)


def pull(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="a catalog name")],
    as_json: AsJson = False,
) -> None:
    """Fetch a catalog model, verify its checksum and convert it once."""
    from engine.models import catalog

    folder = catalog.pull(model, say)
    if as_json:
        print_json({"model": model, "folder": str(folder)})
    else:
        print_text(f"{model}: {folder}")


def run(
    source: Annotated[str, typer.Argument(metavar="SPEC.toml", help="or preset:NAME")] = "",
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="as in memory.stride=8")
    ] = None,
    model: Annotated[str, typer.Option(help="catalog name, Hugging Face id or folder")] = "",
    memory: Annotated[str, typer.Option(help="as in pooled:window=8,stride=4,local=16")] = "",
    task: Annotated[str, typer.Option(help="as in access_code, or banner:base=16")] = "",
    prompts: Annotated[
        Path | None,
        typer.Option(help="JSONL of your own prompts, for custom, or reasoning in a decode run"),
    ] = None,
    title: Annotated[str, typer.Option(help="a name for the run")] = "",
    dry: Annotated[
        bool, typer.Option("--dry", help="show what would run, and run nothing")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a spec, over its phases or decoding; computes only what is not stored yet."""
    spec = make_spec(source, set_ or [], model, memory, task, prompts)
    title = title or spec.pop("title", "")
    spec.pop("title", None)
    fetch_missing(spec)
    with ask() as client:
        if dry:
            made = client.preview(spec)
            print_json(made) if as_json else shown.plan(made)
            return
        asked = client.submit(spec, title=str(title))
        watch(client, asked["key"], asked["job"], unit="parts" if _decodes(spec) else "copies")
        result = client.run(asked["key"])
    print_json(result) if as_json else shown.show(result)
    if result["status"] != "done":
        if refused(result):  # by what only the weights tell
            say(result["reason"])
            raise typer.Exit(2)
        say(f"{result['key']} is {result['status']}: {result['reason']}")
        raise typer.Exit(3)


def refused(result: dict) -> bool:
    """Whether a run failed on bad input, at a field, before any row."""
    stored = sum((result["provenance"].get("rows_stored") or {}).values())
    return result["status"] == "failed" and not stored and bool(FIELD.match(result["reason"]))


def make_spec(
    source: str, sets: list[str], model: str, memory: str, task: str, prompts: Path | None
) -> dict:
    """The file or preset, then the options, then every --set in order."""
    from engine.client import expand

    spec, typed = expand(source) if source else {}, {}
    if model:
        spec["model"] = {**_table(spec.get("model")), "id": model}
    if memory:
        spec["memory"] = words.choice(memory, "memory", typed)
    if task:
        spec["task"] = words.choice(task, "task", typed)
    if prompts:
        decodes = _decodes(spec)
        kind = "reasoning" if decodes else "custom"
        found = words.reasoning(prompts) if decodes else words.prompts(prompts)
        given = _table(spec.get("task"))
        if task and given.get("kind") != kind:
            told = f"is {given.get('kind')}, but --prompts are read by {kind}: give one of them"
            raise SpecError(FieldError("task", told))
        own = given if given.get("kind", kind) == kind else {}
        spec["task"] = {**own, "kind": kind, "prompts": found}
        spec["samples"] = len(found)
    for assignment in sets:
        words.put(spec, assignment, typed)
    if typed:
        words.as_text(spec, typed)
    return spec


def _decodes(spec: dict) -> bool:
    return spec.get("kind") == "decode"


def _table(value: Any) -> dict:
    return value if isinstance(value, dict) else {}


def fetch_missing(spec: dict) -> None:
    """Pull the catalog models that the spec names and that are not here, if the spec is sound."""
    from engine.models import catalog
    from engine.specs import ModelSpec

    control = _table(spec.get("control"))
    models = [
        _table(spec.get("model")),
        *([_table(control["model"])] if "model" in control else []),
    ]
    names = {str(values.get("id", ModelSpec().id)).strip() for values in models}
    missing = [
        name for name in sorted(names) if name in catalog.CATALOG and not catalog.installed(name)
    ]
    if missing:
        from engine.kinds import read_spec

        read_spec(spec)  # refused before anything is fetched
        for name in missing:
            catalog.pull(name, say)


def watch(client: Any, key: str, job: int, unit: str = "copies") -> None:
    """Follow a job to its end, telling progress on stderr; Ctrl-C cancels it and waits for that."""
    teller = Teller(unit)
    asked_to_stop = False
    while True:
        try:
            now = client.job(job)
            teller.tell(now)
            if now["state"] not in ("queued", "running"):
                return
            time.sleep(POLL)
        except KeyboardInterrupt:
            if asked_to_stop:
                raise
            asked_to_stop = True
            say("cancelling; the rows computed so far are kept")
            client.cancel(key)


class Teller:
    """Progress on stderr: one line that is rewritten in a terminal, few lines elsewhere."""

    def __init__(self, unit: str):
        self.last, self.when, self.unit = "", 0.0, unit

    def tell(self, job: dict) -> None:
        text = self.text(job)
        if text == self.last:
            return
        if err.is_terminal:
            err.file.write(f"\r\x1b[K{text}")
            if job["state"] not in ("queued", "running"):
                err.file.write("\n")
            err.file.flush()
        elif time.monotonic() - self.when > 5 or job["state"] not in ("queued", "running"):
            self.when = time.monotonic()
            say(text)
        else:
            return
        self.last = text

    def text(self, job: dict) -> str:
        if job["state"] != "running":
            return job["state"]
        progress = job["progress"]
        if not progress["total"]:
            return "preparing"
        if progress["done"] == progress["total"]:
            return f"{progress['done']} of {progress['total']} {self.unit}, finishing"
        left = progress["seconds_left"]
        when = f", {seconds(left)} left" if left is not None else ""
        return f"{progress['done']} of {progress['total']} {self.unit}{when}"


def bench(as_json: AsJson = False) -> None:
    """Measure the numbers this product promises, on this machine."""
    from engine.bench import run as bench_module

    found = bench_module.bench(say)
    if as_json:
        print_json(found)
        return
    from engine.commands.printing import print_table

    columns = ["name", "value", "unit", "goal", "ok"]
    print_table(columns, [[row[name] for name in columns] for row in found["rows"]])
