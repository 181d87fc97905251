"""kvpress at the command line: its results folders in, its configurations out, its numbers shown.

Knows files and what to print.  Computes nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.commands.printing import print_json, print_table, print_text, say
from engine.registry import FieldError, SpecError

FILES = ("config.yaml", "metrics.json", "predictions.csv")
MOST = 28_000_000  # bytes of the three together


def read(folder: Path) -> dict[str, str]:
    """The three files of a results folder as text; SpecError naming the one that cannot be read."""
    found, left = {}, MOST
    for name in FILES:
        try:
            with (folder / name).open("rb") as file:
                content = file.read(left + 1)
            found[name] = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise SpecError(FieldError(name, f"{folder / name} is no UTF-8")) from None
        except OSError as error:
            told = f"{folder / name} cannot be read: {error.strerror}; kvpress writes "
            raise SpecError(FieldError(name, told + f"{', '.join(FILES)} together")) from None
        left -= len(content)
        if left < 0:
            told = f"{folder} holds more than {MOST / 1e6:g} MB in {', '.join(FILES)}"
            raise SpecError(FieldError(name, told))
    return found


def bring_in(client: Any, folder: Path, as_json: bool) -> None:
    """Import a results folder."""
    done = client.import_kvpress(read(folder), folder.name)
    if as_json:
        print_json(done)
    else:
        print_text(f"{done['key']}: {'added' if done['added'] else 'was here already'}")


def write(client: Any, key: str, to: Path, as_json: bool) -> None:
    """A run's memory as kvpress configurations: one file, or one for each arm of a decode run."""
    found = client.export_kvpress(key)
    made = [told for told in found if told["yaml"]]
    for told in found:
        if told["reason"]:
            say(f"{told['label']}: {told['reason']}")
    if not made:
        raise SpecError(FieldError("to", "kvpress has no press for this run; nothing was written"))
    files = []
    for number, told in enumerate(made, 1):
        file = to if len(made) == 1 else to.with_name(f"{to.stem}-{number}{to.suffix}")
        try:
            file.write_text(told["yaml"], encoding="utf-8")
        except OSError as error:
            told = f"{file} cannot be written: {error.strerror}"
            raise SpecError(FieldError("to", told)) from None
        files.append({"file": str(file), "press_name": told["press_name"], "notes": told["notes"]})
    if as_json:
        print_json({"key": key, "files": files})
        return
    for told in files:
        print_text(f"{told['file']}: {told['press_name']}")
        for note in told["notes"]:
            print_text(f"note: {note}.")


def numbers(run: dict) -> None:
    """An imported evaluation's tasks and metrics."""
    columns = ["task", "n", "score", "low", "high"]
    if run["tasks"]:
        print_table(columns, [[row[name] for name in columns] for row in run["tasks"]])
    elif run["metrics"] is not None:
        metrics = run["metrics"] if isinstance(run["metrics"], dict) else {"": run["metrics"]}
        print_table(["metric", "value"], [[name, str(v)] for name, v in metrics.items()])
