"""Key numbers, specs and provenance of a report, as escaped HTML."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from app import provenance
from app.report.material import Material
from app.words import NOTHING, between, cache_size, count, number, p_value, seconds, visible

# Sweeps whose spec is long (own prompts) are cut: the whole of it is in the run's bundle.
LONGEST = 20_000


def key_numbers(material: Material) -> str:
    """Five numbers of a sweep, or a table of a decode run's methods."""
    if len(material.runs) > 1:
        return ""
    run = material.runs[0]
    if material.decode:
        return methods(run)
    if not run.get("residues"):
        return ""
    period = run.get("period") or {}
    told = [
        ("Mean", number(run.get("mean")), between(run.get("mean_low"), run.get("mean_high"))),
        ("Worst phase", number(_first(run, "worst_folded", "worst")), _phase(run)),
        ("Gap", number(_first(run, "folded_gap", "gap")), _by_chance(run)),
        (
            "Period",
            str(period.get("detected") or ("none" if period.get("p") is not None else NOTHING)),
            _configured(period),
        ),
    ]
    control = run.get("control") or {}
    if control:
        flat = number(_first(control, "folded_gap", "gap"))
        told.append(("Full cache, gap", flat, f"mean {number(control.get('mean'))}"))
    cells = "".join(
        f"<div><span>{escape(name)}</span><b>{escape(value)}</b><small>{escape(more)}</small></div>"
        for name, value, more in told
    )
    return f'<section class="numbers">{cells}</section>'


def _first(told: dict, *names: str) -> float | None:
    return next((told[n] for n in names if told.get(n) is not None), None)


def _phase(run: dict) -> str:
    span = between(run.get("worst_low"), run.get("worst_high"))
    if run.get("worst_phase") is None:
        return span
    return f"phase {run['worst_phase']}" + (f", {span}" if span else "")


def _by_chance(run: dict) -> str:
    if run.get("gap_null") is None:
        return ""
    return f"{number(run['gap_null'])} by chance, {p_value(run.get('gap_p'))}"


def _configured(period: dict) -> str:
    told = [f"configured {period['configured']}"] if period.get("configured") else []
    told += [p_value(period["p"])] if period.get("p") is not None else []
    return ", ".join(told)


METHODS = {
    "label": "Method",
    "budget": "Budget",
    "mean_resident": "Mean tokens",
    "mean_bytes": "Mean bytes",
    "recall": "Recall",
    "nll": "NLL, nats",
    "retention": "Retention",
    "n": "Prompts",
}


def methods(run: dict) -> str:
    """One row an arm."""
    rows = run.get("methods") or []
    held = [name for name in METHODS if any(row.get(name) is not None for row in rows)]
    if not rows:
        return ""
    head = "".join(f"<th>{escape(METHODS[name])}</th>" for name in held)
    body = ""
    for row in rows:
        cells = "".join(f"<td>{escape(_cell(name, row.get(name)))}</td>" for name in held)
        body += f"<tr>{cells}</tr>"
    return f'<section class="wide"><table><tr>{head}</tr>{body}</table></section>'


def _cell(name: str, value: Any) -> str:
    if name.endswith("bytes"):
        return cache_size(value)
    if isinstance(value, float) and name in ("recall", "nll", "retention"):
        return number(value)
    if isinstance(value, float):
        return number(value, 1)
    return NOTHING if value is None else str(value)


def details(run: dict) -> str:
    """Spec, cost and provenance of one run; closed until asked for."""
    title = run.get("title") or run.get("phrase") or run["key"]
    facts = [
        ("Run", run["key"]),
        ("Memory", str(run.get("phrase") or NOTHING)),
        ("Status", status(run)),
        ("Prompts", str(run.get("n_samples") or NOTHING)),
        ("Created", str(run.get("created") or NOTHING)),
    ]
    cost = run.get("cost") or {}
    if cost.get("seconds") is not None:
        facts.append(("Computed in", seconds(cost["seconds"])))
    if cost.get("kv_bytes"):
        facts.append(("Cache", cache_size(cost["kv_bytes"])))
    facts += provenance.facts(run.get("provenance") or {})
    body = "".join(f"<dt>{escape(n)}</dt><dd>{escape(v)}</dd>" for n, v in facts)
    spec = json.dumps(run.get("spec") or {}, indent=1, ensure_ascii=False)
    if len(spec) > LONGEST:
        spec = spec[:LONGEST] + f"\n… {count(len(spec) - LONGEST, 'more character')}"
    return (
        f"<section><h2>{escape(str(title))}</h2>{prompt(run)}<dl>{body}</dl>"
        f"<details><summary>Spec</summary><pre>{escape(spec)}</pre></details></section>"
    )


def prompt(run: dict) -> str:
    """The own prompt that a run is of, the first of several; drawn prompts are not in the spec."""
    task = (run.get("spec") or {}).get("task") or {}
    written = task.get("prompts") or ([task] if task.get("text") else [])
    first = written[0] if written else {}
    if not isinstance(first, dict) or not first.get("text"):
        return ""
    rivals = [visible(str(rival)) for rival in first.get("rivals") or ()]
    told = [f"Prompt 1 of {len(written)}"] if len(written) > 1 else []
    told += [f"answer {visible(str(first.get('answer') or ''))}"]
    told += [f"rival{'s' if rivals[1:] else ''} {', '.join(rivals)}"] if rivals else []
    line = ", ".join(told)
    shown = str(first["text"])[:LONGEST]
    return f'<pre>{escape(shown)}</pre><p class="note">{escape(line[:1].upper() + line[1:])}</p>'


def status(run: dict) -> str:
    told = str(run.get("status") or NOTHING)
    if run.get("stale"):
        told += ", of older code or other weights than the ones here"
    return told
