"""Explanations that fail: four, each a sentence and two pictures."""

from __future__ import annotations

from collections import defaultdict

import pandas as pd
import streamlit as st

from app import export, state
from app.benchmark import claims, family, findings
from app.benchmark.family import measured, numbers
from app.figures.dots import followed
from app.figures.marks import mark
from app.figures.residues import Line, by_residue
from app.figures.theme import PAIR, Look, look_of
from app.figures.within import within
from app.style import text
from app.words import number

FIXED_WINDOW = 8


def failed(members: list[dict]) -> None:
    look = look_of(state.theme())
    places = family.places(members)
    text("section", "Explanations that fail", tag="h2")
    _boundary(members, places, look)
    _rope(members, places, look)
    _gates(members, places, look)
    _width(members, places, look)


def _sub(sentence: str) -> None:
    st.space("small")
    text("sub", sentence, tag="h3")


def _boundary(members: list[dict], places: dict, look: Look) -> None:
    """The window's inside alone, for the two memories with the most inside it."""
    _sub(claims.boundary_only(members))
    own = claims.split_members(members)
    own = sorted(own, key=lambda m: -(numbers(m)["within_gap"] or 0))[:2]
    if not own:
        text("note", "Run a memory with W = S.")
        return
    for column, member in zip(st.columns(2, gap="medium"), own, strict=False):
        report, stride = numbers(member), member["stride"]
        frame = family.folded(report)
        flat = family.residues(member.get("control_residues"))
        fig = within(
            frame,
            stride=stride,
            mark=mark(places[member["name"]], look),
            windows=int(report.get("modulus") or 24) // stride,
            boundary=False,
            control=family.fold(flat, stride),
            height=PAIR,
            title=f"Without the boundary, {member['label']}",
            look=look,
        )
        with column:
            inner = frame[frame["phase"] < stride - 1]
            alt = f"Points: accuracy inside the window, spread {number(report['within_gap'])}"
            export.chart(fig, inner, f"inside-{member['name']}", look, alt=alt)


def _curves(chosen: list[dict], title: str, name: str, places: dict, look: Look) -> None:
    """One chart with the curves of one to three members over their control."""
    lines = [
        Line(m["label"], family.curve(numbers(m)), mark(places[m["name"]], look)) for m in chosen
    ]
    flat = family.residues(chosen[0].get("control_residues"))
    told = f"{family.told_data(chosen[0])}. Ribbon: Wilson 95 %"
    fig = by_residue(
        lines,
        title=title,
        subtitle=told,
        modulus=24,
        stride=chosen[0].get("stride"),
        control=flat,
        chance=numbers(chosen[0]).get("chance"),
        height=PAIR,
        look=look,
    )
    table = pd.concat(
        [line.frame.assign(member=m["name"]) for line, m in zip(lines, chosen, strict=True)]
    )
    export.chart(fig, table, name, look, alt=f"Lines: {title}")


def _pair(left: list[dict], right: list[dict], titles: tuple[str, str], name: str, *rest) -> None:
    first, second = st.columns(2, gap="medium")
    with first:
        _curves(left, titles[0], f"{name}-a", *rest)
    with second:
        _curves(right, titles[1], f"{name}-b", *rest)


def _rope(members: list[dict], places: dict, look: Look) -> None:
    bare = _first(members, lambda m: not m.get("rope") and not family.full(m))
    other = family.twin(members, bare) if bare else None
    _sub(claims.rope(bare, other))
    if not _ready([bare, other], "a model without RoPE and its twin"):
        return
    _pair([bare], [other], ("Without RoPE", "With RoPE"), "rope", places, look)


def _gates(members: list[dict], places: dict, look: Look) -> None:
    uniform = _first(members, lambda m: m.get("gate") == "uniform")
    vector = _first(members, lambda m: m.get("gate") == "vector" and m.get("group") == "gate")
    scalar = family.twin(members, uniform) if uniform else None
    learned = [m for m in (scalar, vector) if m]
    _sub(claims.gates(uniform, learned))
    if not _ready([uniform, *learned], "a model with a uniform gate and its twin"):
        return
    _pair([uniform], learned, ("Uniform mean", "Learned gates"), "gates", places, look)


def _ready(chosen: list[dict | None], what: str) -> bool:
    """Whether one of them is measured; else it is said what to run."""
    if any(m and measured(m) for m in chosen):
        return True
    names = [m["label"] for m in chosen if m]
    text("note", f"Run {' and '.join(names) if names else what} to compare them.")
    return False


def _first(members: list[dict], test) -> dict | None:
    return next((m for m in family.heads_of(members) if test(m)), None)


def width_rows(members: list[dict]) -> tuple[list[dict], dict[int, list[dict]]]:
    """Measured plain memories with one control: W fixed at 8, and by S those of several W.

    A control shares training data and shape; where several have two windows, the one with most.
    """
    own = [
        m
        for m in family.heads_of(members)
        if measured(m) and family.plain(m) and m.get("group") in ("grid", "repair")
    ]
    alike: dict[tuple, list[dict]] = defaultdict(list)
    for member in sorted(own, key=lambda m: m["window"]):
        alike[member["stride"], member.get("control")].append(member)
    at_stride: dict[int, list[dict]] = {}
    for (stride, _), found in sorted(alike.items(), key=lambda item: item[0][0]):
        if len(found) > max(1, len(at_stride.get(stride, ()))):
            at_stride[stride] = found
    controls = [m.get("control") for m in own if m["window"] == FIXED_WINDOW]
    common = max(dict.fromkeys(controls), key=controls.count, default=None)
    at_window = [m for m in own if m["window"] == FIXED_WINDOW and m.get("control") == common]
    return sorted(at_window, key=lambda m: m["stride"]), at_stride


def _width(members: list[dict], places: dict, look: Look) -> None:
    at_window, at_stride = width_rows(members)
    _sub(claims.width(at_window, at_stride))
    left, right = st.columns(2, gap="medium")
    every = [m for found in at_stride.values() for m in found]
    cases = (
        (left, at_window, "stride", f"W fixed at {FIXED_WINDOW}, S varied", "stride S"),
        (right, every, "window", f"S fixed at {_strides(at_stride)}, W varied", "window W"),
    )
    for column, chosen, varied, title, axis in cases:
        with column:
            if not chosen:
                text("note", f"{title}: not measured yet.")
                continue
            rows = pd.DataFrame(
                {
                    "label": [family.geometry(m) for m in chosen],
                    "x": [float(m[varied]) for m in chosen],
                    "detected": pd.Series([family.period(m) for m in chosen], dtype=float),
                    "stride": [float(m["stride"]) for m in chosen],
                    "colour": [mark(places[m["name"]], look).colour for m in chosen],
                    "symbol": [mark(places[m["name"]], look).symbol for m in chosen],
                    "line": ["" if varied == "stride" else str(m["stride"]) for m in chosen],
                }
            )
            fig = followed(
                rows,
                varied=axis,
                title=title,
                subtitle="Period found; dashed: the stride",
                look=look,
            )
            table = rows[["label", "x", "detected"]].rename(columns={"x": varied})
            export.chart(fig, table, f"period-by-{varied}", look, alt=f"Dots: {title}")


def _strides(at_stride: dict[int, list[dict]]) -> str:
    return findings.listed([str(stride) for stride in at_stride]) if at_stride else "one value"
