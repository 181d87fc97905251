"""Token strips of one copy, a run under the other, each token's difference from the baseline."""

from __future__ import annotations

from html import escape

import pandas as pd
import streamlit as st

from app import services, state, tokens
from app.compare import maps
from app.compare.subject import Subject
from app.figures.marks import swatch
from app.figures.theme import look_of
from app.style import text
from app.words import joined, number

LIMIT = 84  # tokens of a strip drawn in full
FULL = 4.0  # nats that are drawn in full colour; smaller where no difference is as large


def tokens_of(run: dict, sample: int, shift: int) -> pd.DataFrame:
    """Token rows of one copy of a run, or of a run's control; by position."""
    key, control = maps.source(run)
    rows = services.tokens(key, sample, shift, control=control)
    return rows.sort_values("position", ignore_index=True) if len(rows) else rows


def strips(subject: Subject) -> None:
    runs = [run for run in subject.on("tokens") if run["kind"] != "decode"]
    if not runs:
        return
    at = maps.place(subject, runs, copies=True, heads="")
    look = look_of(state.theme())
    held = {run["key"]: tokens_of(run, at["sample"], at["shift"]) for run in runs}
    base = held.get(subject.base["key"], pd.DataFrame())
    widest, shades = _differences(base, held)
    pieces, table, missing = [], [], []
    for run in runs:
        rows = held[run["key"]]
        if not len(rows):
            missing.append(run["name"])
            continue
        pieces.append(_one(subject, run, rows, shades.get(run["key"], {}), widest, look))
        own = shades.get(run["key"], {})
        table.append(
            rows[["position", "text", "role", "logprob"]].assign(
                run=run["name"], difference=rows["position"].map(own)
            )
        )
    if missing:
        text("note", f"No token rows of this copy in {joined(missing)}.")
    if not pieces:
        return
    st.html("".join(pieces) + _legend(widest, subject.base["name"]))
    frame = pd.concat(table, ignore_index=True)
    st.download_button(
        "CSV",
        lambda: services.csv(frame),
        "phasescope-compare-tokens.csv",
        "text/csv",
        key="compare-tokens-csv",
        on_click="ignore",
    )


def _differences(
    base: pd.DataFrame, held: dict[str, pd.DataFrame]
) -> tuple[float, dict[str, dict[int, float]]]:
    """Largest difference, and per run position → nats over the baseline, where tokens agree."""
    out: dict[str, dict[int, float]] = {}
    if not len(base):
        return FULL, out
    first = base[["position", "token_id", "logprob"]]
    widest = 0.0
    for key, rows in held.items():
        if not len(rows):
            continue
        both = rows[["position", "token_id", "logprob"]].merge(first, on=["position", "token_id"])
        change = both["logprob_x"].astype(float) - both["logprob_y"].astype(float)
        out[key] = dict(zip(both["position"].astype(int), change, strict=True))
        widest = max(widest, float(change.abs().max() or 0.0))
    return min(FULL, widest) or FULL, out


def _one(
    subject: Subject, run: dict, rows: pd.DataFrame, own: dict[int, float], widest: float, look
) -> str:
    """A run's head and strip as HTML; windows and phases are its own."""
    stride = int(run["stride"]) if run.get("stride") else None
    listed = [
        {
            "position": int(row.position),
            "id": int(row.token_id),
            "text": row.text,
            "role": row.role,
            "phase": int(row.position) % stride if stride else None,
            "window": int(row.position) // stride if stride else None,
            "target": row.role == "target",
            "pad": row.role in ("pad", "filler-pad"),
        }
        for row in rows.itertuples()
        if row.role != "answer"
    ]
    answer = rows[rows["role"] == "answer"]
    told = ""
    if len(answer):
        total = float(answer["logprob"].sum())
        told = f"answer log-probability {number(total, 2)}"
    is_base = run["key"] == subject.base["key"]
    shades = {} if is_base else {p: d / widest for p, d in own.items()}
    notes = {} if is_base else {p: f"difference {number(d)} nats" for p, d in own.items()}
    head = (
        f'<div class="ps-panel ps-strip-head"><img src="{swatch(subject.mark(run, look))}" alt="">'
        f"<b>{escape(run['name'])}</b><span>{escape(told)}</span></div>"
    )
    drawn = {"tokens": listed, "stride": stride}
    return head + tokens.strip(drawn, limit=LIMIT, scored=False, shades=shades, notes=notes)


def _legend(widest: float, base: str) -> str:
    return (
        '<div class="ps-legend"><span class="ps-item"><bdi class="ps-tok ps-up" style="--s:1">a'
        f"</bdi> likelier than in {escape(base)}, {number(widest, 1)} nats and more</span>"
        '<span class="ps-item"><bdi class="ps-tok ps-down" style="--s:1">a</bdi> less likely'
        "</span></div>"
    )
