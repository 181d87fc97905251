"""`phasescope train`: controlled models, one or the whole family, with progress on the terminal.

Runs by itself, beside a service or without one; the page shows the same progress.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.commands.look import AsJson
from engine.commands.printing import err, print_json, print_table, print_text, say, seconds
from engine.registry import FieldError, SpecError


def add_to(app: typer.Typer) -> None:
    app.command()(train)


def train(
    name: Annotated[str, typer.Argument(metavar="NAME", help="as in w8s8-dense")] = "",
    family: Annotated[
        bool, typer.Option("--family", help="every one that is not trained here yet")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="another seed; the file's name tells it")] = None,
    workers: Annotated[int, typer.Option(help="models at once; 0: one a core")] = 0,
    device: Annotated[str, typer.Option(help="cpu, or cuda: one model at a time")] = "cpu",
    to: Annotated[Path | None, typer.Option(help="another folder for the models")] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="what can be trained, and the ledger")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a controlled model; a stopped training goes on where it was."""
    from engine.models.controlled import family as members
    from engine.models.controlled import school, shelf
    from engine.specs import ModelSpec

    if list_:
        return _list(as_json)
    if bool(name) == family:
        raise SpecError(FieldError("name", "give one name, or --family; --list shows the names"))
    if seed is not None and not 0 <= seed < 2**31:
        raise SpecError(FieldError("seed", f"must be from 0 to {2**31 - 1}, not {seed}"))
    if seed is not None and family:
        raise SpecError(FieldError("seed", "goes with one name; --family has its own seeds"))
    if seed is not None and "-seed" in name:
        raise SpecError(FieldError("seed", f"the name tells a seed already: {name}"))
    if workers < 0:
        raise SpecError(FieldError("workers", f"must not be negative, not {workers}"))
    if family:
        chosen = list(members.family().values())
    else:
        member = members.find(name)
        chosen = [member if seed is None else members.with_seed(member, seed)]
    for problem in ModelSpec(device=device).check():
        raise SpecError(FieldError("device", problem.message))
    if device != "cpu":
        from engine.models.loader import check_device

        check_device(ModelSpec(device=device))
    into = to or shelf.own_folder()
    if family:  # started again, it goes on where it was
        every, chosen = chosen, [m for m in chosen if not school.taught(m, into)]
        if left := len(every) - len(chosen):
            say(f"{left} of {len(every)} are trained already and are left as they are")
    teller = Teller()
    ends = school.teach(chosen, into, workers or school.default_workers(), device, teller.tell)
    made = [{k: v for k, v in end.items() if k != "pid"} for end in ends]
    if as_json:
        print_json({"runs": made})
    elif made:
        _table(made)
    if any(end["state"] != "done" for end in ends):
        raise typer.Exit(3)


def _list(as_json: bool) -> None:
    from engine.models.controlled import ledger, shelf
    from engine.models.controlled.family import family

    here = shelf.listed()
    rows = [
        {
            "name": member.name,
            "label": member.label,
            "here": member.name in here,
            "accuracy": here[member.name].notes.get("accuracy") if member.name in here else None,
            "steps": member.recipe.steps,
            "control": member.control,
        }
        for member in family().values()
    ]
    if as_json:
        return print_json({"family": rows, "ended": ledger.ended()})
    print_table(list(rows[0]), [list(row.values()) for row in rows])
    if ended := ledger.ended():
        print_text("Ledger", "bold")
        _table(ended)


def _table(runs: list[dict]) -> None:
    columns = ["name", "state", "seed", "step", "steps", "accuracy", "cpu_seconds", "reason"]
    print_table(columns, [[_shown(run.get(column)) for column in columns] for run in runs])


def _shown(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else "" if value is None else value


class Teller:
    """How the trainings stand, on stderr: one rewritten line in a terminal, few lines elsewhere."""

    def __init__(self):
        self.last, self.when, self.began = "", 0.0, time.monotonic()

    def tell(self, now: list[dict]) -> None:
        text = self.text(now)
        if text == self.last:
            return
        if err.is_terminal:
            err.file.write(f"\r\x1b[K{text}")
            err.file.flush()
        elif time.monotonic() - self.when > 10:
            self.when = time.monotonic()
            say(text)
        else:
            return
        self.last = text

    def text(self, now: list[dict]) -> str:
        done = sum(run["state"] == "done" for run in now)
        parts = [f"{done} of {len(now)} trained"] if len(now) > 1 else []
        for run in now:
            if run["state"] != "running" or not run["curve"]:
                continue
            step, loss, accuracy = run["curve"][-1]
            rate = run["cpu_seconds"] / max(step, 1)
            left = seconds(rate * (run["steps"] - step))
            parts.append(
                f"{run['name']} {step} of {run['steps']}, loss {loss:.3f}, "
                f"accuracy {accuracy:.3f}, {left} left"
            )
        return "; ".join(parts) or "starting"
