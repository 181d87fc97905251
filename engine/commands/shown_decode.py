"""A decode run and its plan as tables in a terminal.

Knows the `show` object of a decode run; knows nothing of how it is made.
"""

from __future__ import annotations

from typing import Any

from engine.commands.printing import cell, estimate, out, print_table, print_text


def numbers(run: dict) -> None:
    """What each method lost and what it cost, then which differences are more than chance."""
    if not run["methods"]:
        return
    out.print()
    columns = ["method", "budget", "kept", "removed"]
    columns += ["nll", "low", "high", "recall", "low", "high", "n"]
    rows = [
        [
            m["label"],
            m["budget"],
            m["kept_share"],
            m["removed_share"],
            *(m.get(name) for name in ("nll", "nll_low", "nll_high")),
            *(m.get(name) for name in ("recall", "recall_low", "recall_high")),
            m["n"],
        ]
        for m in run["methods"]
    ]
    print_table(
        columns, rows, "quality: mean NLL of what was written (nats), recall of what is asked"
    )
    if len({m["budget"] for m in run["methods"]} - {None}) > 1:
        out.print()
        names = ("nll", "nll_low", "nll_high", "recall", "recall_low", "recall_high")
        rows = [[m["label"], *(m[name] for name in names)] for m in run["overall"]]
        columns = ["method", "nll", "low", "high", "recall", "low", "high"]
        print_table(columns, rows, "over all budgets, the best first: an order, not a test")
    out.print()
    columns = ["method", "budget", "own", "mean", "peak", "kB mean", "kB peak", "kB state"]
    rows = [
        [
            *(m["label"], m["budget"], m["own_budget"]),
            *(m.get("mean_resident"), m.get("peak_resident")),
            *map(_kilobytes, (m.get("mean_bytes"), m.get("peak_bytes"), m.get("state_bytes"))),
        ]
        for m in run["methods"]
    ]
    print_table(columns, [_short(row) for row in rows], "entries per KV head, bytes of one row")
    out.print()
    columns = [
        "method",
        "budget",
        "tokens/s",
        "step ms",
        "event ms",
        "p99",
        "events",
        "upkeep",
        "FPS",
    ]
    names = ("tokens_per_s", "step_ms_p50", "event_ms_p50", "event_ms_p99", "events")
    rows = [
        [m["label"], m["budget"], *(m.get(name) for name in (*names, "upkeep_share", "fps_share"))]
        for m in run["methods"]
    ]
    print_table(columns, [_short(row) for row in rows], "time: medians, and one in a hundred")
    if run["pairs"]:
        _pairs(run)


def _pairs(run: dict) -> None:
    out.print()
    columns = ["budget", "measure", "a", "b", "a − b", "low", "high", "p", "p corrected"]
    names = {m["arm"]: m["label"] for m in run["methods"]}
    rows = [
        [
            *(pair["budget"], pair["measure"]),
            *(names.get(pair[side], pair[side]) for side in ("a", "b")),
            *(pair.get(name) for name in ("diff", "low", "high", "p", "p_corrected")),
        ]
        for pair in run["pairs"]
    ]
    print_table(columns, rows, "differences at one budget, over prompts")


def plan(made: dict) -> None:
    """What would run: the first prompt's end and questions, the arms, the estimate."""
    low, high = made["length"]
    length = f"{low}" if low == high else f"{low} to {high}"
    print_text(f"{made['key']}  {made['phrase']}", "bold")
    print_text(
        f"{made['copies']} parts (a method on a prompt): prompts of {length} tokens, "
        f"{made['steps']} steps, {made['tokens']} tokens in all"
    )
    out.print()
    sample = made["sample"]
    print_text(cell("".join(token["text"] for token in sample["tokens"])))
    for question in sample["questions"]:
        print_text(f"question: {cell(question['text'])} → {cell(question['answer'])}")
    out.print()
    columns = [
        *("arm", "method", "budget", "kept", "removed", "kB", "own budget"),
        *("mean entries", "peak", "events"),
    ]
    rows = [
        [
            *(arm["arm"], arm["label"], arm["budget"]),
            *(arm["kept_share"], arm["removed_share"], _kilobytes(arm["bytes"])),
            *(arm["own_budget"], arm["mean_resident"], arm["peak_resident"], arm["events"]),
        ]
        for arm in made["arms"]
    ]
    print_table(columns, [_short(row) for row in rows])
    out.print()
    estimate(made)


def _kilobytes(count: float | None) -> float | None:
    return None if count is None else count / 1e3


def _short(row: list[Any]) -> list[Any]:
    """Large numbers need no thousandths."""
    return [round(v) if isinstance(v, float) and abs(v) >= 100 else v for v in row]
