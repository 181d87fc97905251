"""Why this phase: the windows around the target at the best and at the worst phase.

Knows how a pooled entry weighs the tokens of its window, from the spec alone.
"""

from __future__ import annotations

from html import escape

import streamlit as st

from app import frames, services, tokens
from app.explore.subject import Subject
from app.style import text
from app.words import number, visible

AROUND = 6


def why(subject: Subject) -> None:
    stride, plan = subject.stride, subject.plan
    if not plan:
        text("note", "The windows appear when the form is valid.")
        return
    if not stride:
        text(
            "note",
            "The full cache keeps every token exact: there is no window and no phase to explain.",
        )
        return
    for title, phase, numbers in _phases(subject, stride):
        members = around_target(plan["strip"], stride, phase)
        shares = offsets(subject.spec["memory"])
        exact = exact_positions(subject.spec["memory"], plan["strip"])
        st.html(
            f'<p class="ps-phase-line"><b>{escape(title)}</b>'
            f"{escape(story(subject.spec['memory'], members, phase, stride))} {escape(numbers)}</p>"
            + tokens.windows_at(members, stride, shares, exact=exact)
        )
    text("note", reminder(subject.spec["memory"]))
    written(subject)


def _phases(subject: Subject, stride: int) -> list[tuple[str, int, str]]:
    report = subject.report
    if report and report.get("best_phase") is not None and report.get("worst_phase") is not None:
        wanted = [int(report["best_phase"]), int(report["worst_phase"])]
    else:
        target = next((t for t in subject.plan["strip"]["tokens"] if t.get("target")), {})
        wanted = [int(target.get("phase") or 0)]
    rival = _rival_means(subject, stride)
    known = {int(r["phase"]): r["value"] for r in (report or {}).get("folded") or ()}
    out = []
    for phase in dict.fromkeys(wanted):
        parts = []
        if phase in known:
            parts.append(f"Gold {number(known[phase], 2)}")
            if phase in rival:
                parts.append(f"rival {visible(rival[phase][0])} {number(rival[phase][1], 2)}")
        out.append((f"Phase {phase}", phase, ", ".join(parts)))
    return out


def _rival_means(subject: Subject, stride: int) -> dict[int, tuple[str, float]]:
    """Phase → the likeliest rival there and its mean probability."""
    if subject.run is None or not subject.rivals:
        return {}
    answers = frames.usable(services.answers(subject.key, settled=not subject.active))
    table = frames.rivals(answers, subject.rivals, "residue")
    if not len(table):
        return {}
    table["phase"] = table["x"].astype(int) % stride
    means = table.groupby(["phase", "name"])["value"].mean().reset_index()
    best = means.loc[means.groupby("phase")["value"].idxmax()]
    return {
        int(r.phase): (r.name_, float(r.value))
        for r in best.rename(columns={"name": "name_"}).itertuples()
    }


def around_target(strip: dict, stride: int, phase: int) -> list[dict]:
    """Tokens near the target as they stand when the target's first token has that phase."""
    rows = strip["tokens"]
    at = next((i for i, t in enumerate(rows) if t.get("target")), 0)
    end = next((i for i in range(len(rows) - 1, -1, -1) if rows[i].get("target")), at)
    move = (phase - (rows[at].get("phase") or 0)) % stride
    origin = strip.get("origin") or 0
    first, last = max(0, at - AROUND), min(len(rows), end + AROUND + 1)
    out = []
    for token in rows[first:last]:
        place = token["position"] + move
        if place < origin:
            continue
        out.append(
            dict(
                token,
                position=place,
                phase=(place - origin) % stride,
                window=(place - origin) // stride,
            )
        )
    keep = {t["window"] for t in out if t.get("target")}
    keep |= {w for k in keep for w in (k - 1, k + 1)}
    return [t for t in out if t["window"] in keep]


def offsets(memory: dict) -> list[float]:
    """Weight of each offset of a window in its entry's key, as a share of the largest.

    With overlapping windows a token lies in several; the strip shows the window it starts in, and a
    token kept by any of them counts as kept.
    """
    window, stride = int(memory.get("window") or 1), int(memory.get("stride") or 1)
    gate = memory.get("gate") or "mean"
    raw = [1.0] * window
    if gate == "onehot":
        raw = [float(i == int(memory.get("offset") or 0)) for i in range(window)]
    elif gate == "hand":
        raw = [float(w) for w in memory.get("weights") or ()] or raw
    top = max(raw) or 1.0
    return [
        max(raw[i] for i in range(p, len(raw), stride)) / top if p < len(raw) else 0.0
        for p in range(stride)
    ]


def exact_positions(memory: dict, strip: dict) -> frozenset[int]:
    """Positions that are never pooled: the sinks.  (Local ones are exact to late queries only.)"""
    return frozenset(range(int(memory.get("sinks") or 0)))


def story(memory: dict, members: list[dict], phase: int, stride: int) -> str:
    """One sentence: what the gate does to the target at this phase."""
    gate, shares = memory.get("gate") or "mean", offsets(memory)
    targets = [t for t in members if t.get("target")]
    kept = sum(shares[t["phase"] % len(shares)] > 0.02 for t in targets)
    what = "the target" if len(targets) == 1 else f"{kept} of {len(targets)} target tokens"
    if gate == "onehot":
        offset = int(memory.get("offset") or 0)
        if len(targets) > 1:
            return f"The gate keeps offset {offset} of each window: {what} survive."
        if kept:
            return f"The gate keeps offset {offset} of each window: {what} survives."
        return (
            f"The gate keeps offset {offset}; the target is at offset {phase} and is "
            f"dropped with its window."
        )
    if gate == "hand":
        return (
            f"At offset {phase} the target has {number(shares[phase % len(shares)], 2)} "
            f"of the largest weight."
        )
    at = "first" if phase == 0 else "last" if phase == stride - 1 else f"number {phase + 1}"
    return (
        f"Each entry is the mean of {memory.get('window')} tokens; the target is {at} of "
        f"its stride."
    )


def reminder(memory: dict) -> str:
    if (memory.get("gate") or "mean") == "onehot":
        return (
            "A one-hot gate is decimation: it keeps one token of each window, so a period "
            "equal to the stride is expected."
        )
    return (
        "Tokens nearer to the query than the local window, and the sinks, are exact "
        "whatever their phase."
    )


def written(subject: Subject) -> None:
    """What the model writes at its worst and at its best phase, for the first prompt."""
    told = (subject.run or {}).get("written") or {}
    for name, label in (("best", "best"), ("worst", "worst")):
        part = told.get(name)
        if part and part.get("text") is not None:
            st.html(
                f'<p class="ps-phase-line"><b>Written at the {label} phase, '
                f"{escape(str(part.get('phase')))}</b></p>"
                f'<pre class="ps-written" dir="auto">{escape(str(part["text"]))}</pre>'
            )
