"""The release gate: run a sweep or take a stored one, judge it, tell a CI system.

Knows how a verdict is asked for and which exit code it is; the rules are in `engine.analysis.gate`.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.commands import gate_files
from engine.commands.look import AsJson, ask
from engine.commands.printing import out, print_json, print_table, print_text, say
from engine.commands.sweeps import fetch_missing, make_spec, watch

KEY = re.compile("[0-9a-f]{12}")
SUMMARY = "GITHUB_STEP_SUMMARY"
NOT_MET, FAILED = 1, 3


def add_to(app: typer.Typer) -> None:
    app.command()(gate)


def gate(
    source: Annotated[
        str,
        typer.Argument(
            metavar="KEY|SPEC.toml", help="a stored run's key, a spec to run, or preset:NAME"
        ),
    ],
    worst: Annotated[
        float | None, typer.Option(help="least value of the worst phase, as 0.8")
    ] = None,
    gap: Annotated[
        float | None, typer.Option(help="largest gap between phases, less what chance shows")
    ] = None,
    mean: Annotated[float | None, typer.Option(help="least mean over all residues")] = None,
    alpha: Annotated[
        float, typer.Option(help="1 minus the intervals' level; an end errs in half of it")
    ] = 0.05,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="an undecided condition does not fail the gate")
    ] = False,
    imported: Annotated[
        bool,
        typer.Option("--imported", help="take an imported run's rows, which others computed"),
    ] = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="as in samples=384")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="write the verdict as JUnit XML")] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(help=f"write it as Markdown; the file of ${SUMMARY} is added to"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Judge a sweep's intervals against thresholds: exit 0 if all are met, 1 if not.

    A run that was imported is no evidence without --imported.
    """
    from engine.gating import Limits, check

    limits = check(Limits(worst, gap, mean, alpha))
    for name, path in (("junit", junit), ("markdown", markdown)):
        _writable(name, path)
    start = time.monotonic()
    with ask() as client:
        if KEY.fullmatch(source):
            result = _stored(client, source, limits, set_ or [], imported)
        else:
            result = _fresh(client, _spec(source, set_ or []), limits)
    result |= {"lenient": lenient, "passed": passed(result, lenient)}
    if junit:
        _write("junit", junit, gate_files.junit(result, time.monotonic() - start))
    if markdown:
        _write("markdown", markdown, gate_files.markdown(result))
    print_json(result) if as_json else show(result)
    if result["status"] != "done":
        say(f"{result['key']} is {result['status']}: {result['reason']}")
        raise typer.Exit(FAILED)
    if not result["passed"]:
        raise typer.Exit(NOT_MET)


def passed(result: dict, lenient: bool) -> bool:
    """Zero means shown: an undecided condition passes only where that was asked for."""
    good = ("met", "undecided") if lenient else ("met",)
    return result["state"] in good


def _spec(source: str, sets: list[str]) -> dict:
    """The spec to run, refused where a gate has nothing to say on its kind."""
    from engine.gating import check_kind
    from engine.kinds import read_spec

    spec = make_spec(source, sets, "", "", "", None)
    check_kind(read_spec({name: value for name, value in spec.items() if name != "title"}))
    return spec


def _fresh(client: Any, spec: dict, limits: Any) -> dict:
    """Run the spec, or take the rows that this code has computed here, and judge them."""
    title = spec.pop("title", "")
    fetch_missing(spec)
    asked = client.submit(spec, title=str(title))
    watch(client, asked["key"], asked["job"])
    run = client.run(asked["key"])
    if run["status"] != "done":
        kept = {name: run[name] for name in ("key", "title", "status", "reason")}
        return kept | {"state": None, "conditions": [], "notes": []}
    return client.gate(asked["key"], **limits._asdict())


def _stored(client: Any, key: str, limits: Any, sets: list[str], imported: bool) -> dict:
    """Judge a stored run; what this code did not make is no evidence for a release."""
    from engine.registry import FieldError, SpecError

    if sets:
        told = "a stored run has its spec; --set needs a SPEC.toml or preset:NAME"
        raise SpecError(FieldError("set", told))
    result = client.gate(key, **limits._asdict())
    if result["source"] == "preset":
        told = f"{key} is a result that came with a preset; gate preset:NAME computes it here"
        raise SpecError(FieldError("key", told))
    if result["stale"]:
        told = f"{key} is of other code or weights than the ones here; run it again"
        raise SpecError(FieldError("key", told))
    if result["source"] == "import":
        origin = result["origin"] or {}
        came = f"was imported from {origin.get('file') or 'a file without a name'}"
        if not imported:
            told = f"{key} {came}, and its rows were not computed here; --imported accepts it"
            raise SpecError(FieldError("key", told))
        result["notes"].append(f"The run {came}; its rows were not computed here.")
    return result


def show(result: dict) -> None:
    """The verdict, its conditions, and what is left to say of those that are not met."""
    if result["state"] is None:
        return
    print_text(f"{result['title']}  [{result['key']}]")
    print_text(gate_files.about(result))
    out.print()
    print_table(list(gate_files.COLUMNS), gate_files.rows(result))
    out.print()
    for condition in result["conditions"]:
        if condition["state"] != "met":
            print_text(condition["text"])
    for note in result["notes"]:
        print_text(f"note: {note}")
    print_text(gate_files.headline(result), "bold")


def _writable(name: str, path: Path | None) -> None:
    """Refused before anything is computed."""
    from engine.registry import FieldError, SpecError

    if path is None:
        return
    try:
        fine = path.expanduser().parent.is_dir() and not path.expanduser().is_dir()
    except (OSError, RuntimeError):  # no such user, a name too long
        fine = False
    if not fine:
        raise SpecError(FieldError(name, f"{path} is no file in a folder that exists"))


def _write(name: str, path: Path, text: str) -> None:
    """GitHub's summary may hold what other commands of the step wrote; other files are new."""
    from engine.registry import FieldError, SpecError

    adds = name == "markdown" and str(path) == os.environ.get(SUMMARY)
    try:
        with path.expanduser().open("a" if adds else "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise SpecError(FieldError(name, f"{path} cannot be written: {error.strerror}")) from None
