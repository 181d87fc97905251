"""Runs side by side in a terminal: what differs in their specs, and by how much in their numbers.

Knows the answer of GET /compare; computes nothing.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from engine.analysis.words import number, p_value
from engine.commands.look import AsJson, ask, key_of
from engine.commands.printing import out, print_json, print_table, print_text

KVPRESS = "kvpress"  # a kind of run: evaluations are of questions
NUMBERS = (
    ("mean", "mean"),
    ("worst", "worst phase"),
    ("gap", "gap"),
    ("gap_null", "gap by chance"),
    ("nll", "nll"),
    ("recall", "recall"),
)


def add_to(app: typer.Typer) -> None:
    app.command()(compare)


def compare(
    keys: Annotated[
        list[str], typer.Argument(metavar="KEY KEY …", help="two to eight runs, or preset:NAME")
    ],
    base: Annotated[
        str, typer.Option(help="the baseline; if not given, the control that all share")
    ] = "",
    every: Annotated[
        bool, typer.Option("--all", help="every field of the specs, not the differences alone")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Set runs side by side: what differs, paired differences with intervals, what follows."""
    found, against = [key_of(key) for key in keys], key_of(base) if base else None
    with ask() as client:
        made = client.compare(found, against)
    print_json(made) if as_json else show(made, every)


def show(made: dict, every: bool = False) -> None:
    """The finding, the specs, the numbers, the differences against the baseline."""
    print_text(made["finding"], "bold")
    if made["doubt"]:
        print_text(made["doubt"])
    for warning in made["warnings"]:
        print_text(f"note: {warning}")
    out.print()
    names = [run["name"] for run in made["runs"]]
    print_table(["", *names], [*_fields(made, every), *_numbers(made)])
    by_key = {run["key"]: run["name"] for run in made["runs"]}
    out.print()
    base = next(run for run in made["runs"] if run["key"] == made["base"])
    unit = "question" if base["kind"] == KVPRESS else "prompt"
    print_text(f"against {by_key[made['base']]}, paired by {unit} ({made['adjusted']})")
    columns = ["", "run", "difference", "95 % interval", "p", "corrected", f"{unit}s"]
    lines = [
        [measure["label"], *_difference(row, by_key)]
        for measure in made["measures"]
        for row in measure["rows"]
        if not row["reason"]
    ]
    if lines:
        print_table(columns, lines)
    for text in _unpaired(made, by_key):
        print_text(f"not compared: {text}")


def _fields(made: dict, every: bool) -> list[list[Any]]:
    return [
        [field["label"], *("–" if value is None else _cell(value) for value in field["values"])]
        for field in made["fields"]
        if every or field["differs"]
    ]


def _cell(value: Any) -> Any:
    return value if isinstance(value, bool | str) else f"{value:g}"


def _numbers(made: dict) -> list[list[Any]]:
    runs, lines = made["runs"], []
    lines.append(["key", *(run["key"] for run in runs)])
    if any(run["bytes_per_token"] for run in runs):
        held = (run["bytes_per_token"] for run in runs)
        lines.append(["bytes per token", *("–" if b is None else f"{b:,.0f}" for b in held)])
    for name, label in NUMBERS:
        values = [run["numbers"][name] for run in runs]
        if any(value is not None for value in values):
            lines.append([label, *("–" if v is None else number(v, 3) for v in values)])
    if any(run["numbers"]["period_p"] is not None for run in runs):
        lines.append(["period", *(_period(run["numbers"]) for run in runs)])
    return lines


def _period(numbers: dict) -> str:
    if numbers["period_p"] is None:
        return "–"
    return f"{numbers['period'] or 'none'}, {p_value(numbers['period_p'])}"


def _difference(row: dict, names: dict[str, str]) -> list[Any]:
    name = names[row["key"]]
    if row.get("label"):
        name = f"{row['label']} less {row['base_label']}"
    ends = "–"
    if row["low"] is not None:
        ends = f"{number(row['low'], 3)} to {number(row['high'], 3)}"
    sign = "+" if row["diff"] > 0 and number(row["diff"], 3) != number(0.0, 3) else ""
    told = [f"{sign}{number(row['diff'], 3)}", ends, p_value(row["p"]).removeprefix("p ")]
    told = [*told[:2], told[2].removeprefix("= ")]
    adjusted = p_value(row["p_adjusted"]).removeprefix("p ").removeprefix("= ")
    return [name, *told, adjusted, row["n"]]


def _unpaired(made: dict, names: dict[str, str]) -> list[str]:
    """Each reason once: a run without a pair, and what of a run has none."""
    told = {}
    for measure in made["measures"]:
        for row in measure["rows"]:
            if row["reason"]:
                what = f", {row['label']}" if row.get("label") else ""
                told[f"{names[row['key']]}{what}: {row['reason']}"] = None
    return list(told)
