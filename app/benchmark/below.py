"""Under the opened memory: depth and density, two phases for one answer, design, cost."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import pandas as pd
import streamlit as st

from app import addresses, export, services, state, takeaway
from app.benchmark import claims, family
from app.benchmark.opened import fold, spec_download
from app.benchmark.subject import Opened
from app.figures.dots import cloud
from app.figures.marks import mark
from app.figures.theme import look_of
from app.style import text
from app.words import NOTHING, between, cache_size, count, number, p_value, seconds

AXES = {
    "distance": ("Distance to the query", "tokens"),
    "pairs": ("Pairs in the same window", "pairs"),
}


def depth(subject: Opened, members: list[dict]) -> None:
    """Whether accuracy by residue goes with depth or density rather than with the phase."""
    if subject.status != "done" or not subject.key or not subject.stride:
        return
    told = services.depth(subject.key)
    if not told:
        return
    look = look_of(state.theme())
    place = family.places(members).get((subject.member or {}).get("name", ""), 0)
    st.space("medium")
    text("section", claims.depth(told), tag="h2")
    text(
        "doubt",
        claims.depth_doubt(told),
    )
    for column, (name, (title, axis)) in zip(
        st.columns(2, gap="medium"), AXES.items(), strict=True
    ):
        block = told.get(name)
        if not block:
            continue
        frame = pd.DataFrame(block.get("points") or [], columns=["x", "accuracy", "n"])
        if frame["x"].nunique() == 1:
            with column:
                text("chart-title", title, tag="div")
                same = f"{number(float(frame['x'].iloc[0]), 1)} {axis}"
                text("note", f"The same for every residue, {same}: nothing to correlate.")
            continue
        with column:
            fig = cloud(
                frame.astype(float),
                title=title,
                axis=axis,
                rho=block.get("rho"),
                p=block.get("p"),
                mark=mark(place, look),
                look=look,
            )
            alt = f"Dots: accuracy over {title.lower()}, {p_value(block.get('p'))}"
            export.chart(fig, frame.rename(columns={"x": axis}), f"depth-{name}", look, alt=alt)


def answers(subject: Opened) -> None:
    """Two phases run and combined into one answer: a table a rule."""
    rows = (subject.run or {}).get("combined")
    if not rows:
        return
    st.space("small")
    text("section", claims.combined(rows), tag="h2")
    text("note", claims.combined_note(rows, subject.report))
    table = [
        [
            row["rule"],
            with_span(row, "mean"),
            NOTHING if claims.jittered(row) else with_span(row, "worst"),
            with_span(row, "worst_case"),
            number(row.get("answered")),
            *_cost_of_one(subject, row.get("forwards")),
        ]
        for row in rows
    ]
    heads = ("Rule", "Mean", "Worst residue", "Right at every residue", "Answered")
    html_table((*heads, "Forwards", "Tokens", "Cache", "Time"), table)


def _cost_of_one(subject: Opened, forwards: int | None) -> list[str]:
    """Forwards of one question, their tokens, the keys and values they read, and their time."""
    cost, report = (subject.run or {}).get("cost") or {}, subject.report
    copies = (report.get("n_samples") or 0) * subject.modulus
    each = (forwards or 0) / copies if copies else 0
    tokens, held, spent = (cost.get(name) for name in ("tokens", "kv_bytes", "seconds"))
    return [
        str(forwards or NOTHING),
        number(tokens * each, 0) if tokens and each else NOTHING,
        cache_size(held * forwards) if held and forwards else NOTHING,
        f"{number(1000 * spent * each, 1)}\u00a0ms" if spent and each else NOTHING,
    ]


def with_span(row: dict, name: str) -> str:
    """`.846 (.83 to .86)`."""
    span = between(row.get(f"{name}_low"), row.get(f"{name}_high"))
    return number(row.get(name)) + (f" ({span})" if span else "")


def html_table(heads: Sequence[str], rows: Sequence[Sequence[Any]], *, words: int = 1) -> None:
    """A small table in the house's numbers; the first `words` columns are text, the rest right."""

    def line(cells: Sequence[Any], tag: str) -> str:
        out = []
        for i, cell in enumerate(cells):
            side = "" if i < words else ' class="ps-right"'
            out.append(f"<{tag}{side}>{escape(str(cell))}</{tag}>")
        return "<tr>" + "".join(out) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    st.html(f'<table class="ps-table">{line(heads, "th")}{body}</table>')


def details(subject: Opened, schema: dict, members: list[dict], measure: str) -> None:
    """Numbers in full, cost, the fold, and where else the run can be opened; then the design."""
    split = subject.report.get("within_gap") is not None and bool(subject.stride)
    told = facts(subject)
    st.space("small")
    left, right = st.columns([1, 1], gap="large")
    with left:
        text("chart-title", "Numbers and cost", tag="div")
        _facts(told if split else told[: (len(told) + 1) // 2])
    with right:
        if split:
            look = look_of(state.theme())
            place = family.places(members).get((subject.member or {}).get("name", ""), 0)
            fold(subject, mark(place, look), measure, look)
        else:
            text("chart-title", "\u00a0", tag="div")
            _facts(told[(len(told) + 1) // 2 :])
    with st.container(horizontal=True, vertical_alignment="center"):
        if (subject.spec.get("task") or {}).get("kind") in schema.get("tasks", {}):
            st.page_link(
                state.explore(),
                label="Open on Explore",
                icon=":material/arrow_forward:",
                icon_position="right",
                query_params={"key": subject.key},
            )
        spec_download(subject)
        if subject.run:
            takeaway.report((subject.key,))
    if subject.run:
        addresses.show(subject.key, "sweep")
    table = st.expander(
        "Design table: where the targets stand", key="design-table", on_change="rerun"
    )
    if table.open:  # the copies are planned only when asked for
        with table:
            _design(subject)


def _facts(told: list[tuple[str, str]]) -> None:
    body = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in told)
    st.html(f'<dl class="ps-facts">{body}</dl>')


def facts(subject: Opened) -> list[tuple[str, str]]:
    report, cost = subject.report, (subject.run or {}).get("cost") or {}
    out = [("Gap over residues", number(report.get("gap")))]
    if report.get("folded_gap") is not None:
        told = f"{number(report['folded_gap'])}, {number(report.get('gap_null'), 2)} by chance, "
        out.append(("Gap over phases", told + p_value(report.get("gap_p"))))
        sure = between(report.get("excess_low"), report.get("excess_high"))
        out.append(("Its 95 %, without the bias", sure or NOTHING))
    out.append(("Spread over residues (sd)", number(report.get("sigma"))))
    if report.get("within_gap") is not None:
        out.append(("Within the window", number(report["within_gap"])))
        out.append(("Boundary phase", number(report["boundary"])))
    out.append(("Chance", number(report.get("chance"))))
    period = report.get("period") or {}
    out.append(("Period", f"{period.get('detected') or 'none'}, {p_value(period.get('p'))}"))
    if density := density_of(subject):
        out.append(("Density", density))
    if report.get("n_samples"):
        out.append(("Prompts", f"{report['n_samples']} at each of {subject.modulus} residues"))
    if cost.get("seconds") is not None:
        told = seconds(cost["seconds"])
        if cost.get("tokens"):
            told += f", {count(int(cost['tokens']), 'token')}"
        out.append(("Computed in", told))
    if cost.get("kv_bytes") and cost.get("kv_bytes_full"):
        share = cost["kv_bytes"] / cost["kv_bytes_full"]
        told = f"{cache_size(cost['kv_bytes'])}, {number(share, 2)} of the full "
        out.append(("Cache", told + cache_size(cost["kv_bytes_full"])))
    out.append(("Run", subject.key))
    return out


def density_of(subject: Opened) -> str:
    """A member's, or what the run of one's own tells; "" where its task has no records."""
    if subject.member:
        return family.density(subject.member).removeprefix("density ")
    told = (subject.run or {}).get("density") or {}
    if told.get("here") is None:
        return ""
    places = f"{number(told['here'])} records a place"
    return f"{number(told['window'], 1)} records a window, {places}" if told["window"] else places


def span(values: pd.Series) -> str:
    """`46.5` where all are equal, else `45.6 to 46.9`."""
    low, high = number(values.min(), 1), number(values.max(), 1)
    return low if low == high else f"{low} to {high}"


def _design(subject: Opened) -> None:
    """Mean and spread of the target's position in each residue group."""
    plan = services.preview(subject.spec).plan
    if not plan or not plan.get("design"):
        text("note", "The design table needs the model on this machine.")
        return
    frame = pd.DataFrame(plan["design"])
    text("chart-title", "Where the targets stand", tag="div")
    means, spreads = frame["target_mean"], frame["target_var"]
    done, asked = plan.get("designed"), plan["spec"].get("samples")
    part = f" These are the first {done} of {asked} prompts." if done and done < asked else ""
    text(
        "note",
        f"Target position by residue: means {span(means)}, variances {span(spreads)}. They should "
        f"be equal.{part}",
    )
    shown = pd.DataFrame(
        {
            "residue": frame["residue"],
            "copies": frame["n"],
            "target, mean": frame["target_mean"].map(lambda v: number(v, 1)),
            "target, variance": frame["target_var"].map(lambda v: number(v, 1)),
            "target, sd": frame["target_sd"].map(lambda v: number(v, 2)),
        }
    )
    st.dataframe(shown, hide_index=True, width="stretch", height=260, key="opened-design")
    st.download_button(
        "CSV",
        lambda: services.csv(frame),
        f"phasescope-design-{subject.key}.csv",
        "text/csv",
        on_click="ignore",
        key="opened-design-csv",
    )
