"""What each method costs: bytes held, latency, speed; at one budget."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import export, state
from app.benchmark.below import html_table
from app.eviction import claims
from app.eviction.subject import Subject
from app.figures.costs import held, latency
from app.figures.marks import mark
from app.figures.theme import Look
from app.style import text
from app.words import NOTHING, cache_size, count, fixed, seconds

HEADS = (
    "Method",
    "Tokens/s",
    "Prefill",
    "Step p50",
    "Step p99",
    "Event p50",
    "Event p99",
    "Events",
    "Upkeep",
    "FPS",
    "State",
    "Peak memory",
)


def costs(subject: Subject, look: Look) -> None:
    budgets = sorted({int(arm["budget"]) for arm in subject.arms})
    if not budgets:
        return
    st.space("small")
    text("section", claims.upkeep(subject.arms), tag="h2")
    text(
        "note",
        "Cache and the method’s own state are counted apart; events apart from steps. Tokens/s are "
        "of the steps read one by one, with their upkeep and their part of the events. Upkeep: the "
        "share of decoding that goes into observing and judging; FPS: into choosing stored queries "
        "by farthest point sampling. Peak memory is the whole worker’s while the method ran.",
    )
    state.within("cost", budgets)
    budget = budgets[0]
    if len(budgets) > 1:
        budget = st.segmented_control(
            "Budget",
            budgets,
            default=budgets[0],
            format_func=lambda b: count(b, "token"),
            key="cost",
            bind="query-params",
            required=True,
            label_visibility="collapsed",
        )
    rows = [subject.full] if subject.full else []
    rows = [row | {"label": "Full cache"} for row in rows]
    rows += [arm for arm in subject.arms if int(arm["budget"]) == (budget or budgets[0])]
    frame = _frame(rows, subject.labels, look)
    left, right = st.columns(2, gap="medium")
    with left:
        alt = "Bars: mean bytes of the cache and of the method's state, with the peak"
        export.chart(held(frame, look=look), frame, "held", look, alt=alt, width=620)
    with right:
        alt = "Dots: median and 99th percentile of a step and of an event"
        export.chart(latency(frame, look=look), frame, "latency", look, alt=alt, width=620)
    html_table(HEADS, [_row(row) for row in rows])


def _frame(rows: list[dict], labels: list[str], look: Look) -> pd.DataFrame:
    names = {
        "mean_bytes": "mean_bytes",
        "state_bytes": "state_bytes",
        "peak_bytes": "peak_bytes",
        "step_p50": "step_ms_p50",
        "step_p99": "step_ms_p99",
        "event_p50": "event_ms_p50",
        "event_p99": "event_ms_p99",
        "tokens_per_s": "tokens_per_s",
        "prefill_s": "prefill_s",
    }
    out = []
    for row in rows:
        place = labels.index(row["label"]) if row["label"] in labels else None
        drawn = {"label": row["label"], "colour": mark(place, look).colour}
        out.append(drawn | {name: row.get(field) for name, field in names.items()})
    frame = pd.DataFrame(out)
    frame[list(names)] = frame[list(names)].astype(float)
    return frame


def _row(row: dict) -> list[str]:
    def ms(name: str) -> str:
        value = row.get(name)
        return NOTHING if value is None else f"{fixed(value, 1)}\u00a0ms"

    def share(name: str) -> str:
        value = row.get(name)
        return NOTHING if value is None else f"{fixed(100 * value, 1)}\u00a0%"

    return [
        row["label"],
        fixed(row.get("tokens_per_s"), 1),
        _short(row.get("prefill_s")),
        ms("step_ms_p50"),
        ms("step_ms_p99"),
        ms("event_ms_p50"),
        ms("event_ms_p99"),
        fixed(row.get("events"), 1),
        share("upkeep_share"),
        share("fps_share"),
        cache_size(row.get("state_bytes")),
        cache_size(row.get("memory_peak")),
    ]


def _short(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{fixed(value, 2)}\u00a0s" if value < 10 else seconds(value)
