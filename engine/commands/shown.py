"""A run, a plan and a list of runs as tables in a terminal.

Knows the `show` object and the plan; knows nothing of how they are made.
"""

from __future__ import annotations

from typing import Any

from engine.commands import kvpress, shown_decode
from engine.commands.printing import cell, estimate, out, print_table, print_text, seconds


def show(run: dict) -> None:
    """The finding first, then the numbers that prove it, then what may be doubted."""
    print_text(f"{run['title']}  [{run['key']}]  {run['phrase']}", "bold")
    print_text(f"{run['status']}{': ' + run['reason'] if run['reason'] else ''}")
    if run["stale"]:
        print_text("These rows are of an older code version; run it again for current ones.")
    if run["finding"]:
        out.print()
        print_text(run["finding"], "bold")
    if run["doubt"]:
        print_text(run["doubt"])
    for warning in run["warnings"]:
        print_text(f"note: {warning}")
    if run.get("kind") == "decode":
        shown_decode.numbers(run)
        return
    if run.get("kind") == "kvpress":
        kvpress.numbers(run)
        return
    if not run["residues"]:
        return
    out.print()
    _numbers(run)
    _density(run)
    _costs(run)
    out.print()
    columns = ["residue", "n", "accuracy", "low", "high", "gold_prob", "value"]
    print_table(columns, [[row.get(name) for name in columns] for row in run["residues"]])
    for name in ("worst", "best"):
        text = (run["written"] or {}).get(name)
        if text:
            out.print()
            print_text(f"written at the {name} phase ({text['phase']}): {cell(text['text'])}")
    _scan(run.get("scan"))


def _density(told: dict) -> None:
    """How many records stand in one window, beside what the model was trained on."""
    if density := told.get("density"):
        window = density["window"]
        each = f"{window:.2f} records a window, " if window else ""
        trained = f"; trained at {density['trained']:.3f}" if density["trained"] else ""
        print_text(f"density: {each}{density['here']:.3f} a place{trained}")


def _costs(run: dict) -> None:
    cost, told = run.get("cost") or {}, []
    if isinstance(spent := cost.get("seconds"), int | float):
        told.append(seconds(spent))
    if isinstance(tokens := cost.get("tokens"), int):
        told.append(f"{tokens} tokens read")
    if told:
        print_text(f"cost: {', '.join(told)}")
    if cost.get("kv_bytes"):
        saved = f"{cost['kv_bytes'] / 1e3:.1f} kB of {cost['kv_bytes_full'] / 1e3:.1f}"
        print_text(f"keys and values at the question: {saved} with the full cache")


def _numbers(run: dict) -> None:
    names = ("mean", "worst", "gap", "sigma", "gap_null", "gap_p", "folded_gap", "within_gap")
    names += ("boundary", "chance")
    rows = [[name, run.get(name), (run["control"] or {}).get(name)] for name in names]
    period = [(part or {}).get("period") or {} for part in (run, run["control"])]
    rows += [[f"period {n}", *(p.get(n) for p in period)] for n in ("detected", "configured", "p")]
    print_table([f"measure: {run.get('measure', '')}", "run", "control"], rows)


def _scan(scan: dict | None) -> None:
    if scan:
        out.print()
        columns = ["layer", "gold_prob", "low", "high"]
        rows = [[row.get(name) for name in columns] for row in scan["layers"]]
        print_table(columns, rows, "one layer compressed at a time")
        print_text(f"suggestion: layers = {scan['suggestion']}")


def plan(made: dict) -> None:
    """What would run: the strip in windows, the design table, the estimate."""
    if made.get("kind") == "decode":
        shown_decode.plan(made)
        return
    low, high = made["length"]
    length = f"{low}" if low == high else f"{low} to {high}"
    print_text(f"{made['key']}  {made['phrase']}", "bold")
    print_text(f"{made['copies']} copies of {length} tokens, {made['tokens']} tokens in all")
    out.print()
    print_text(strip(made["strip"]))
    out.print()
    answer = " · ".join(cell(token["text"]) for token in made["answer"]["tokens"])
    print_text(f"answer: {answer}")
    for rival in made["rivals"]:
        print_text(f"rival: {cell(rival['text'])} → {cell(rival['token'])}")
    print_text(f"filler: {cell(made['filler']['text'])}")
    out.print()
    _density(made)
    columns = ["residue", "n", "target_mean", "target_sd", "target_var", "query_mean", "length"]
    done, asked = made["designed"], made["spec"]["samples"]
    told = f"of the first {done} of {asked} prompts" if done < asked else ""
    print_table(columns, [[row[name] for name in columns] for row in made["design"]], told)
    out.print()
    estimate(made)


def strip(made: dict) -> str:
    """Tokens with a bar where a window starts; the target in «…», fillers as dots."""
    text, inside = "", False
    for token in made["tokens"]:
        if made["stride"] and token["phase"] == 0:
            text += "|"
        if token["target"] != inside:
            inside = token["target"]
            text += "«" if inside else "»"
        text += "·" if token["pad"] else cell(token["text"])
    return text + ("»" if inside else "")


def lines(runs: list[dict]) -> None:
    numbers = ("mean", "worst", "gap", "period")
    columns = ["key", "title", "memory", "model", "task", "status", *numbers]
    rows: list[list[Any]] = []
    for run in runs:
        state = run["status"] + (" (stale)" if run["stale"] else "")
        state += " (preset)" if run["preset"] else ""
        head = [run["key"], run["title"], run["phrase"], run["model"], run["task"], state]
        folded = {"worst": run.get("worst_folded"), "gap": run.get("folded_gap")}
        told = (run.get(n) if folded.get(n) is None else folded[n] for n in numbers)
        rows.append([*head, *told])
    print_table(columns, rows)
