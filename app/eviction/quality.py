"""The second tab: quality against budget and bytes, differences in pairs, every number."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import pandas as pd
import streamlit as st
from pandas.io.formats.style import Styler

from app import export, services, state
from app.eviction import claims, costs, frames, published, recipe
from app.eviction.subject import Subject
from app.figures.budget import MEASURES as NAMES
from app.figures.budget import against_budget, budget_panel, pareto
from app.figures.marks import mark, swatch
from app.figures.pairs import paired
from app.figures.theme import Look, look_of
from app.style import text
from app.words import NOTHING, cache_size, count, fixed

MEASURES = {"Recall": "recall", "Likelihood": "nll"}
COLUMNS = {
    "label": "Method",
    "budget": "Budget",
    "own_budget": "Own budget",
    "kept_share": "Kept",
    "removed_share": "Removed",
    "mean_resident": "Mean tokens",
    "peak_resident": "Peak tokens",
    "mean_bytes": "Mean bytes",
    "peak_bytes": "Peak bytes",
    "state_bytes": "State bytes",
    "state_peak": "State peak bytes",
    "memory_peak": "Peak memory bytes",
    "nll": "NLL, nats",
    "nll_low": "NLL low",
    "nll_high": "NLL high",
    "recall": "Recall",
    "recall_low": "Recall low",
    "recall_high": "Recall high",
    "retention": "Retention",
    "events": "Events",
    "tokens_per_s": "Tokens/s",
    "prefill_s": "Prefill, s",
    "step_ms_p50": "Step p50, ms",
    "step_ms_p99": "Step p99, ms",
    "event_ms_p50": "Event p50, ms",
    "event_ms_p99": "Event p99, ms",
    "upkeep_share": "Upkeep",
    "fps_share": "FPS",
    "n": "n",
}
MOST_LINES, MOST_PAIRS, ACROSS = 5, 16, 4
WHOLE = ("budget", "own_budget", "peak_resident", "n")


def quality(subject: Subject) -> None:
    look = look_of(state.theme())
    known = [measure for measure in MEASURES.values() if _known(subject, measure)]
    if not known:
        text("note", "No method has a quality yet: the run has no scored token.")
        return
    _budgets(subject, known, look)
    _pairs(subject, known, look)
    costs.costs(subject, look)
    _table(subject)
    published.published(subject, look)


def _known(subject: Subject, measure: str) -> bool:
    """Whether arms have it; a text of one's own has a likelihood that is no comparison."""
    own = measure == "nll" and subject.spec.get("mode") == "free"
    return not own and any(arm.get(measure) is not None for arm in subject.arms)


def _budgets(subject: Subject, known: list[str], look: Look) -> None:
    """By mean resident tokens, and by bytes; one column a measure."""
    text("section", claims.against_full(subject.arms, known[0]), tag="h2")
    told = (
        "Compared by the mean number of entries held per KV head, not by the largest: peak and "
        "bytes stand in the hover card."
    )
    if subject.spec.get("mode") == "free":
        told += " Each method wrote its own text: likelihoods are no comparison and are left out."
    text("note", told)
    ranked = [
        row | {"label": recipe.words(row["label"], subject.schema)}
        for row in (subject.report or {}).get("overall") or []
    ]
    if order := claims.overall(ranked, known[0]):
        text("note", order)
    if len(subject.labels) > MOST_LINES:
        for measure in known:
            _panels(subject, measure, look)
    for column, measure in zip(st.columns(2, gap="medium"), known, strict=False):
        frame = frames.measured(subject.arms, subject.labels, measure, look)
        full = frames.control(subject.full, measure)
        with column:
            if len(subject.labels) <= MOST_LINES:
                fig = against_budget(frame, full, measure=measure, look=look)
                alt = f"Lines: {measure} over mean resident tokens, one a method"
                export.chart(fig, frame, f"budget-{measure}", look, alt=alt, width=620)
            fig = pareto(frame, full, measure=measure, look=look)
            alt = f"Dots: {measure} over bytes; the line joins what no other setting beats"
            export.chart(fig, frame, f"pareto-{measure}", look, alt=alt, width=620)
    _legend(subject, look)


def _panels(subject: Subject, measure: str, look: Look) -> None:
    """One panel a method, on one scale: more lines than colours would not be told apart."""
    frame = frames.measured(subject.arms, subject.labels, measure, look)
    full = frames.control(subject.full, measure)
    if not len(frame):
        return
    title, _, better = NAMES[measure]
    told = f"Grey: full cache. Ribbon: 95 %, resampled by prompt; {better}"
    st.html(f'<div class="ps-chart-title">{escape(title)}<small>{escape(told)}</small></div>')
    labels = [label for label in subject.labels if (frame["label"] == label).any()]
    for at in range(0, len(labels), ACROSS):
        for column, label in zip(
            st.columns(ACROSS, gap="medium"), labels[at : at + ACROSS], strict=False
        ):
            own = frame[frame["label"] == label]
            drawn = mark(subject.labels.index(label), look)
            with column:
                st.html(
                    f'<div class="ps-method ps-panel-head"><img src="{swatch(drawn)}" alt="">'
                    f"<span>{escape(label)}</span></div>"
                )
                fig = budget_panel(own, frame, full, measure=measure, look=look)
                alt = f"Line: {measure} of {label} over mean resident tokens"
                name = f"panel-{measure}-{subject.labels.index(label)}"
                export.chart(fig, own, name, look, alt=alt, width=420)


def _pairs(subject: Subject, known: list[str], look: Look) -> None:
    """Differences at equal budget, of one measure; which one is part of the link."""
    names = [name for name, measure in MEASURES.items() if measure in known]
    given = state.unfit("quality", names)
    st.space("small")
    head, side = st.columns([3, 1.2], vertical_alignment="bottom")
    with side, st.container(horizontal=True, horizontal_alignment="right"):
        chosen = st.segmented_control(
            "Measure",
            names,
            default=names[0],
            key="quality",
            bind="query-params",
            required=True,
            label_visibility="collapsed",
            on_change=state.chosen,
            args=("quality",),
        )
    measure = MEASURES[chosen or names[0]]
    rows = (subject.report or {}).get("pairs") or []
    table = frames.pairs(rows, subject.names, subject.labels, measure, look)
    with head:
        text("section", claims.pairs(table), tag="h2")
    if given is not None:
        text("note", f"This run has no measure “{given[:40]}”; {names[0].lower()} is shown.")
    if len(table) > MOST_PAIRS:
        budgets = sorted({int(b) for b in table["budget"]})
        state.within("pairs_at", budgets)
        at = st.segmented_control(
            "Budget",
            budgets,
            default=budgets[0],
            key="pairs_at",
            bind="query-params",
            required=True,
            format_func=lambda b: count(b, "token"),
            label_visibility="collapsed",
        )
        table = table[table["budget"] == (at or budgets[0])].reset_index(drop=True)
    fig = paired(table, measure=measure, look=look)
    alt = f"Dots: differences in {measure} between methods at one budget, with intervals"
    export.chart(fig, table, "pairs", look, alt=alt)


def _legend(subject: Subject, look: Look) -> None:
    """Each method's mark and name, under the picture that names none of its points."""
    lines = [("Full cache", mark(None, look))]
    lines += [(label, mark(i, look)) for i, label in enumerate(subject.labels)]
    body = "".join(
        f'<span class="ps-item"><img src="{swatch(drawn)}" alt="">{escape(name)}</span>'
        for name, drawn in lines
    )
    st.html(f'<div class="ps-legend ps-marks">{body}</div>')


def _table(subject: Subject) -> None:
    """Every number of every arm, with its CSV."""
    full = [subject.full | {"label": "Full cache"}] if subject.full else []
    frame = pd.DataFrame([*full, *subject.arms])
    if not len(frame):
        return
    held = [name for name in COLUMNS if name in frame]
    st.space("small")
    text("section", "Every number", tag="h2")
    wide = {"Method": st.column_config.TextColumn(width=240, pinned=True)}
    st.dataframe(
        _shown(frame[held]),
        hide_index=True,
        width="stretch",
        key="numbers",
        column_config=wide,
        placeholder=NOTHING,
    )
    st.download_button(
        "CSV",
        lambda: services.csv(frame[held]),
        f"{subject.key}-methods.csv",
        "text/csv",
        key="numbers-csv",
        on_click="ignore",
    )


def _shown(frame: pd.DataFrame) -> Styler:
    """Numbers as everywhere else, so many digits a column; sorted as the numbers they are."""
    forms = {COLUMNS[name]: _form(name) for name in frame if name != "label"}
    numbers = frame.drop(columns="label").apply(pd.to_numeric, errors="coerce")
    told = pd.concat([frame["label"], numbers], axis=1).rename(columns=COLUMNS)
    return told.style.format(forms, na_rep=NOTHING)


def _form(name: str) -> Callable[[float], str]:
    if name.endswith("_bytes") or name in ("state_peak", "memory_peak"):
        return cache_size
    if name in WHOLE:
        return lambda value: f"{value:.0f}"
    digits = 3 if name.startswith(("nll", "recall")) else 2
    if name.endswith(("_p50", "_p99", "_s")) or name in ("mean_resident", "events"):
        digits = 1
    return lambda value: fixed(value, digits)
