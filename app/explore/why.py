"""Why this phase: the windows around the target at the best and at the worst phase.

What a phase keeps comes with the plan, from the memory itself.
"""

from __future__ import annotations

from html import escape

import streamlit as st

from app import frames, services, tokens
from app.explore.subject import Subject
from app.style import text
from app.words import number, visible

AROUND = 6
KEPT = 0.02  # share of the largest weight from which a token counts as kept


def why(subject: Subject) -> None:
    stride, plan = subject.stride, subject.plan
    if not plan:
        text("note", "The windows appear when the form is valid.")
        return
    kind = subject.schema["memories"].get(subject.spec["memory"]["kind"]) or {}
    if kind.get("evicts"):
        text(
            "note",
            "This memory drops whole entries and pools none: there is no window around the target "
            "to show.",
        )
        written(subject)
        return
    if not stride:
        text(
            "note",
            "The full cache keeps every token exact: there is no window and no phase to explain.",
        )
        written(subject)
        return
    if plan["strip"]["shares"] is None:
        text("note", "Its gates are learned: what an entry keeps is in the weights, not in a spec.")
        written(subject)
        return
    for title, phase, numbers in _phases(subject, stride):
        members = around_target(plan["strip"], stride, phase)
        shares = [max(pair) for pair in zip(*plan["strip"]["shares"].values(), strict=True)]
        exact = exact_positions(subject.spec["memory"], plan["strip"])
        told = f"{story(subject.spec['memory'], plan['strip'], members, phase)} {numbers}"
        st.html(
            f'<p class="ps-phase-line"><b>{escape(title)}</b>{escape(told)}</p>'
            + tokens.windows_at(members, stride, shares, exact=exact)
        )
    text("note", f"{reminder(subject.spec['memory'])} {where(plan['strip'])}")
    written(subject)


def _phases(subject: Subject, stride: int) -> list[tuple[str, int, str]]:
    report = subject.report
    if report and report.get("best_phase") is not None and report.get("worst_phase") is not None:
        wanted = [int(report["best_phase"]), int(report["worst_phase"])]
    else:
        target = next((t for t in subject.plan["strip"]["tokens"] if t.get("target")), {})
        wanted = [int(target.get("phase") or 0)]
    rival, alone = _rival_means(subject, stride)
    known = {int(r["phase"]): r["value"] for r in (report or {}).get("folded") or ()}
    out = []
    for phase in dict.fromkeys(wanted):
        parts = []
        if phase in known:
            parts.append(f"Gold {number(known[phase], 2)}")
            if phase in rival:
                name, value = rival[phase]
                parts.append(f"rival {visible(name)}{alone} {number(value, 2)}")
        out.append((f"Phase {phase}", phase, ", ".join(parts)))
    return out


def _rival_means(subject: Subject, stride: int) -> tuple[dict[int, tuple[str, float]], str]:
    """Phase → the likeliest rival there and its mean probability; and what of it was read."""
    if subject.run is None or not subject.rivals:
        return {}, ""
    answers = frames.usable(services.answers(subject.key, settled=not subject.active))
    table = frames.rivals(answers, subject.rivals, "residue")
    if not len(table):
        return {}, ""
    first = frames.first_tokens(answers, subject.plan.get("rivals") or [])
    table["phase"] = table["x"].astype(int) % stride
    means = table.groupby(["phase", "name"])["value"].mean().reset_index()
    best = means.loc[means.groupby("phase")["value"].idxmax()]
    found = {
        int(r.phase): (r.name_, float(r.value))
        for r in best.rename(columns={"name": "name_"}).itertuples()
    }
    return found, ", first token" if first else ""


def around_target(strip: dict, stride: int, phase: int) -> list[dict]:
    """Tokens near the target as they stand when the target's first token has that phase."""
    rows = strip["tokens"]
    at = next((i for i, t in enumerate(rows) if t.get("target")), 0)
    end = next((i for i in range(len(rows) - 1, -1, -1) if rows[i].get("target")), at)
    move = (phase - (rows[at].get("phase") or 0)) % stride
    origin = strip.get("origin") or 0  # of the windows; phases count from position 0
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
                phase=((token.get("phase") or 0) + move) % stride,
                offset=(place - origin) % stride,
                window=(place - origin) // stride,
            )
        )
    keep = {t["window"] for t in out if t.get("target")}
    keep |= {w for k in keep for w in (k - 1, k + 1)}
    return [t for t in out if t["window"] in keep]


def exact_positions(memory: dict, strip: dict) -> frozenset[int]:
    """Positions that are never pooled: the sinks.  (Local ones are exact to late queries only.)"""
    return frozenset(range(int(memory.get("sinks") or 0)))


def story(memory: dict, strip: dict, members: list[dict], phase: int) -> str:
    """One sentence: what is left of the target's keys and values at this phase."""
    shares, targets = strip["shares"], [t for t in members if t.get("target")]
    keys, values = shares["keys"], shares["values"]
    if not targets:
        return "The target stands before the first window and is exact."
    offset = targets[0]["offset"]
    if len(set(keys)) == 1 and len(set(values)) == 1:
        last = offset == len(keys) - 1
        at = "first" if offset == 0 else "last" if last else f"number {offset + 1}"
        return (
            f"Each entry is the mean of {memory.get('window')} tokens; the target is {at} of "
            "its stride."
        )
    if memory.get("gate") == "hand" and keys == values and len(targets) == 1:
        return f"At phase {phase} the target has {number(keys[offset], 2)} of the largest weight."
    kept = [sum(share[t["offset"]] > KEPT for t in targets) for share in (keys, values)]
    if keys != values:
        key, value = (_of(n, len(targets)) for n in kept)
        return f"The entries keep the keys of {key} and the values of {value}."
    if len(targets) == 1:
        return f"The gate {'keeps the target' if kept[0] else 'drops the target with its window'}."
    return f"The gate keeps {_of(kept[0], len(targets))}."


def _of(kept: int, count: int) -> str:
    if count == 1:
        return "the target" if kept else "no target token"
    return f"{kept} of {count} target tokens"


def where(strip: dict) -> str:
    """In how many layers that is so."""
    some, layers = strip.get("layers") or (0, 0)
    return (
        f"In {some} of {layers} layers; the others read every token exactly."
        if some < layers
        else ""
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
    place = "document" if subject.protocol == "pair" else "phase" if subject.stride else "residue"

    def name_of(phase: int) -> str:
        return "AB"[int(phase)] if subject.protocol == "pair" else str(phase)

    parts = {name: part for name in ("best", "worst") if (part := told.get(name))}
    parts = {name: part for name, part in parts.items() if part.get("text") is not None}
    texts = {part["text"] for part in parts.values()}
    heads = [f"the {name} {place}, {name_of(part.get('phase'))}" for name, part in parts.items()]
    if len(heads) == 2 and len(texts) == 1:
        heads = [f"{', and at '.join(heads)}: the same text"]
    for told_at, part in zip(heads, parts.values(), strict=False):
        st.html(
            f'<p class="ps-phase-line"><b>Written at {escape(told_at)}</b></p>'
            f'<pre class="ps-written" dir="auto">{escape(str(part["text"]))}</pre>'
        )
