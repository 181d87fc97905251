"""Run details: provenance, cost, noise floor, the same run on the command line."""

from __future__ import annotations

import json
from html import escape
from typing import Any

import streamlit as st

from app import addresses, fields, provenance, takeaway
from app.explore.prompt import answer_line
from app.explore.subject import Subject
from app.style import text
from app.words import between, count, number, seconds, size


def details(subject: Subject) -> None:
    run, plan = subject.run or {}, subject.plan or {}
    facts: list[tuple[str, Any]] = [("Run", subject.key)]
    if run:
        facts.append(
            (
                "Status",
                subject.status + (", from an older code version" if run.get("stale") else ""),
            )
        )
    if plan:
        facts.append(
            (
                "Copies",
                f"{count(plan['copies'], 'copy', 'copies')}, {count(plan['tokens'], 'token')}",
            )
        )
        low, high = plan["length"]
        facts.append(
            ("Prompt length", count(low, "token") if low == high else f"{low} to {high} tokens")
        )
        facts.append(
            (
                "Estimate",
                f"{seconds(plan['estimate'].get('seconds'))}, "
                f"{size(plan['estimate'].get('bytes'))}",
            )
        )
    report = subject.report or {}
    if report.get("noise_floor") is not None:
        facts.append(
            (
                "Noise floor",
                f"{report['noise_floor']:.2g}: the same copy alone against in its batch",
            )
        )
    if report.get("chance") is not None:
        facts.append(("Chance", number(report["chance"])))
    if report.get("boundary") is not None:
        facts.append(
            (
                "Boundary phase",
                (
                    f"{number(report['boundary'])}, gap within the window "
                    f"{number(report.get('within_gap'))}"
                ),
            )
        )
    period = report.get("period") or {}
    if period.get("comb_share") is not None:
        share, chance = number(period["comb_share"]), number(period.get("comb_chance"))
        facts.append(("Power at S and harmonics", f"{share}, by chance {chance}"))
    if report.get("folded_gap_low") is not None:
        span = between(report["folded_gap_low"], report.get("folded_gap_high"))
        facts.append(("Gap, 95 %", f"{span}, resampled by prompt"))
    if report.get("sigma") is not None:
        facts.append(("Spread over residues (sd)", number(report["sigma"])))
    facts += provenance.facts(run.get("provenance") or {})
    body = "".join(f"<dt>{escape(n)}</dt><dd>{escape(str(v))}</dd>" for n, v in facts)
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.html(f'<dl class="ps-facts">{body}</dl>')
    with right:
        if plan.get("answer"):
            st.html(answer_line(plan))
        text("note", "The same run, from the command line:")
        st.code(f"phasescope run {subject.key}.toml", language=None)
        st.download_button(
            "Spec as TOML",
            lambda: toml(fields.plain(subject.spec)).encode(),
            f"{subject.key}.toml",
            "application/toml",
            on_click="ignore",
            key="spec-toml",
        )
        if run:
            st.download_button(
                "Numbers as JSON",
                lambda: json.dumps(run, indent=1, ensure_ascii=False).encode(),
                f"{subject.key}.json",
                "application/json",
                on_click="ignore",
                key="run-json",
            )
            takeaway.buttons(subject.key)
            addresses.show(subject.key, "sweep")


def toml(spec: dict) -> str:
    """A spec dict as TOML: settings first, one table each for model, memory and task."""
    lines = [
        f"{k} = {_toml(v)}" for k, v in spec.items() if not isinstance(v, dict) and v is not None
    ]
    for name, table in spec.items():
        if isinstance(table, dict):
            lines += _table(name, table)
    return "\n".join(lines) + "\n"


def _table(name: str, values: dict) -> list[str]:
    lines = ["", f"[{name}]"]
    lines += [
        f"{k} = {_toml(v)}" for k, v in values.items() if not isinstance(v, dict) and v is not None
    ]
    for key, value in values.items():
        if isinstance(value, dict):
            lines += _table(f"{name}.{key}", value)
    return lines


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=True)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    return repr(value)
