"""The BeaconKV paper's tables beside this run: never on one scale, always said which is which."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import streamlit as st

from app import export
from app.eviction.subject import Subject
from app.figures.published import Panel, beside
from app.figures.theme import Look
from app.style import text
from app.words import count, joined

BEACON = "beacon"
OURS = "Measured here"


def published(subject: Subject, look: Look) -> None:
    rows = (subject.report or {}).get("published") or []
    made = [figure for maker in MAKERS if (figure := maker(subject, rows))]
    if not made:
        return
    st.space("small")
    text("section", "As published, beside what was measured here", tag="h2")
    text(
        "doubt",
        "Left of each pair: figures of the BeaconKV paper, BKV (hollow), large reasoning models on "
        "AIME 2024 and others, not measured here. Right: this run (solid), another model and "
        "another task; only the direction can be compared.",
    )
    wide = [figure for figure in made if not figure[2].ordered]  # names need room
    slim = [figure for figure in made if figure[2].ordered]
    for column, figure in zip(st.columns(2, gap="large"), slim, strict=False):
        with column:
            _draw(figure, look)
    for figure in wide:
        _draw(figure, look)


def _draw(figure: tuple[str, str, Panel, Panel], look: Look) -> None:
    name, title, theirs, ours = figure
    fig = beside(title, theirs, ours, look=look)
    parts = [theirs.frame.assign(source="published"), ours.frame.assign(source="here")]
    alt = f"Two panels: {title}, as published and as measured here"
    export.chart(fig, pd.concat(parts), f"published-{name}", look, alt=alt)


def of(rows: list[dict], table: str) -> list[dict]:
    return [row for row in rows if row.get("table") == table]


def head(rows: list[dict]) -> str:
    """Whose figures, each table once: `Published, BKV Tables 4 and 5`."""
    sources = list(dict.fromkeys(str(r.get("source") or "") for r in rows))
    parts = [re.fullmatch(r"(.*\bTable) (\d+(?:(?:, | and )\d+)*)", source) for source in sources]
    if len(sources) > 1 and all(parts) and len({part[1] for part in parts}) == 1:
        tables = sorted({int(n) for part in parts for n in re.findall(r"\d+", part[2])})
        return f"Published, {parts[0][1]}s {joined([str(n) for n in tables])}"
    return f"Published, {', '.join(sources)}"


def value(row: dict, name: str) -> float | None:
    """A number of a CSV row; None where the table has a gap."""
    told = row.get(name)
    return None if told in (None, "") else float(told)


def frame(points: list[tuple[str, str, Any]]) -> pd.DataFrame:
    """x, series, value: what is known of them."""
    known = [p for p in points if p[2] is not None]
    return pd.DataFrame(known, columns=["x", "series", "value"])


def here(arms: list[tuple[str, str, dict]]) -> pd.DataFrame:
    """x, series, value, low, high: recall of this run's arms."""
    rows = [
        (x, series, a["recall"], a.get("recall_low"), a.get("recall_high"))
        for x, series, a in arms
        if a.get("recall") is not None
    ]
    return pd.DataFrame(rows, columns=["x", "series", "value", "low", "high"])


def beacons(subject: Subject, budget: int | None = None) -> list[dict]:
    """BeaconKV's arms, at one budget where it is given."""
    own = [a for a in subject.arms if a["method"] == BEACON]
    return [a for a in own if budget is None or int(a["budget"]) == budget]


def middle(subject: Subject) -> int:
    """The budget at which ours are shown: the smallest, where methods differ most."""
    return min((int(a["budget"]) for a in subject.arms), default=0)


def _options(arm: dict) -> dict:
    return arm.get("options") or {}


def split(subject: Subject, rows: list[dict]):
    """Recent and beacon queries, 32 in all."""
    own = of(rows, "split")
    if not own:
        return None
    points = [
        (f"{r['recent_queries']} + {r['beacon_queries']}", "", value(r, "aime24_pct")) for r in own
    ]
    theirs = Panel(frame(points), head(own), "AIME 2024, %", "recent + beacon queries")
    budget = middle(subject)
    arms = [
        (f"{_options(a).get('n_recent')} + {_options(a).get('n_beacon')}", "", a)
        for a in beacons(subject, budget)
        if "n_recent" in _options(a) and _options(a).get("selector") in (None, "continual")
    ]
    arms = list({x: (x, s, a) for x, s, a in reversed(arms)}.values())
    arms.sort(key=lambda row: -int(_options(row[2])["n_recent"]))
    ours = _ours(here(arms), f"recall, {count(budget, 'token')}", "recent + beacon queries")
    return "split", "Recent against beacon queries", theirs, ours


def aggregation(subject: Subject, rows: list[dict]):
    """The maximum over queries and heads against their mean."""
    own = of(rows, "aggregation")
    if not own:
        return None
    own = sorted(own, key=lambda r: int(r["kv_budget"]))
    points = [(str(r["kv_budget"]), "max", value(r, "max_pct")) for r in own]
    points += [(str(r["kv_budget"]), "mean", value(r, "mean_pct")) for r in own]
    theirs = Panel(frame(points), head(own), "AIME 2024, %", "KV budget, tokens")
    arms = []
    for name in ("max", "mean"):
        held = [a for a in beacons(subject) if _aggregates(a) == name]
        arms += [(str(a["budget"]), name, a) for a in sorted(held, key=lambda a: a["budget"])]
    ours = _ours(here(arms), "recall", "budget, tokens")
    return "aggregation", "Maximum against mean", theirs, ours


def _aggregates(arm: dict) -> str | None:
    told = {_options(arm).get("over_queries"), _options(arm).get("over_heads")}
    return next(iter(told)) if len(told) == 1 else None


def initial(subject: Subject, rows: list[dict]):
    """Initial and recent queries in place of beacons."""
    own = of(rows, "initial_recent")
    if not own:
        return None
    names = [f"{r['task']}, {r['model'].removeprefix('R1-Distill-')}" for r in own]
    both = list(zip(names, own, strict=True))
    points = [(n, "beacons", value(r, "beaconkv_pct")) for n, r in both]
    points += [(n, "initial + recent", value(r, "initial_recent_pct")) for n, r in both]
    theirs = Panel(frame(points), head(own), "accuracy, %", "", ordered=False)
    wanted = {"continual": "beacons", "initial": "initial + recent"}
    arms = []
    for option, name in wanted.items():
        held = [a for a in beacons(subject) if _options(a).get("selector") == option]
        arms += [(str(a["budget"]), name, a) for a in sorted(held, key=lambda a: a["budget"])]
    ours = _ours(here(arms), "recall", "budget, tokens")
    return "initial", "Initial and recent queries against beacons", theirs, ours


def system(subject: Subject, rows: list[dict]):
    """Speed of decoding; batches differ, so each is named."""
    own = of(rows, "system")
    if not own:
        return None
    points = [(f"{r['method']}, batch {r['batch']}", "", value(r, "tokens_per_s")) for r in own]
    theirs = Panel(frame(points), head(own), "tokens/s", "", ordered=False)
    budget = middle(subject)
    arms = {a["method"]: a for a in reversed(subject.arms) if int(a["budget"]) == budget}
    full = [subject.full | {"label": "full cache"}] if subject.full else []
    points = [(a["label"], "", a.get("tokens_per_s")) for a in [*full, *reversed(arms.values())]]
    axis = f"budget {count(budget, 'token')}, batch {subject.spec.get('batch')}"
    ours = _ours(frame(points), "tokens/s", axis, ordered=False)
    return "system", "Speed of decoding", theirs, ours


def _ours(points: pd.DataFrame, unit: str, axis: str, *, ordered: bool = True) -> Panel:
    return Panel(points, OURS, unit, axis, "This run has no such arm", ordered)


MAKERS = (split, aggregation, initial, system)
