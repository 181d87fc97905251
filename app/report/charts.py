"""A report's charts: the pages' own figures, in light, with a sentence for who cannot see them.

Pure: material in, figures out.
"""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
import plotly.graph_objects as go

from app import frames
from app.compare import claims
from app.compare import frames as sides
from app.compare.address import Asked
from app.compare.subject import Subject
from app.eviction import frames as decoded
from app.figures import compare as figures
from app.figures.budget import against_budget, pareto
from app.figures.curve import phase_curve
from app.figures.folded import by_residue, folded
from app.figures.paired import differences
from app.figures.pairs import paired
from app.figures.pareto import against_bytes
from app.figures.spectrum import spectrum
from app.figures.theme import LIGHT
from app.report.material import Material
from app.words import number

TITLES = {"joint": "answer", "token": "answer tokens", "accuracy": "first choice being right"}
FRACTIONS = ("mean", "worst", "gap", "recall")


class Chart(NamedTuple):
    """A figure with what it shows in words; `heading` and `note` stand over it where given."""

    figure: go.Figure
    spoken: str
    heading: str = ""
    note: str = ""
    half: bool = False  # two such stand beside each other


def charts(material: Material) -> list[Chart]:
    """All charts of a report, in the order of its page."""
    if material.told:
        return compared(subject_of(material))
    if len(material.runs) > 1:
        return []
    if material.decode:
        return decode(material.runs[0])
    return sweep(material) if material.runs[0].get("residues") else []


def subject_of(material: Material) -> Subject:
    """The comparison as the page's parts read it."""
    return Subject(Asked((), ""), material.told, ())


def compared(subject: Subject) -> list[Chart]:
    out = []
    control = sides.rows(subject.base, "residues")
    lines = sides.panels(subject, "residues", LIGHT)
    if any(len(panel.frame) for panel in lines):
        same = {panel.size for panel in lines if len(panel.frame)} <= {subject.base.get("modulus")}
        fig = figures.curves(lines, control=control if same else None, chance=sides.chance(subject))
        spoken = sides.described(subject)
        heading, note = claims.charts(subject, "curves"), claims.note(subject, "curves")
        out.append(Chart(fig, spoken, heading, f"{note} {subject.apart('curve')}".strip()))
        fig = figures.folds(
            sides.panels(subject, "folded", LIGHT), control=sides.rows(subject.base, "folded")
        )
        note = claims.note(subject, "residues")
        out.append(Chart(fig, "Points: the measure by phase", claims.PLAIN["residues"], note))
        fig = figures.spectra(sides.panels(subject, "spectrum", LIGHT))
        note = claims.note(subject, "spectra")
        out.append(Chart(fig, "Stems: share of variance by period", claims.PLAIN["spectra"], note))
    frame = sides.paired(sides.differences(subject, FRACTIONS, LIGHT))
    told = f"Paired by prompt, 95 %. Hollow: p ≥ .05 after {subject.told.get('adjusted') or 'none'}"
    if len(frame):
        name = claims.base_name(subject)
        title = f"Difference from {name}"
        fig = differences(frame, title=title, subtitle=told, unit="difference")
        spoken = "; ".join(
            f"{row.name}, {row.measure}: {number(row.diff)}" for row in frame.itertuples()
        )
        note = claims.folding(subject)
        out.append(Chart(fig, spoken, claims.differences(subject), note, half=True))
    sizes = sides.sizes(subject, LIGHT)
    if len(sizes):
        each = bool(sizes["per_token"].iloc[0])
        axis = "cache, bytes per token, log scale" if each else "cache, bytes, log scale"
        fig = against_bytes(sizes, axis=axis, quality=sides.quality(subject))
        out.append(Chart(fig, "Dots: worst phase and mean against bytes", half=True))
    return out


def sweep(material: Material) -> list[Chart]:
    """Curve, fold and spectrum, as on Explore."""
    run = material.runs[0]
    spec, period = run["spec"], run.get("period") or {}
    stride = int(period.get("configured") or 0) or None
    protocol, measure = spec.get("protocol") or "", spec.get("measure") or "joint"
    modulus = int(spec.get("modulus") or 2)
    axis = frames.natural_axis(material.answers, protocol)
    origin = int((spec.get("memory") or {}).get("origin") or 0)
    gold = frames.curve(material.answers, axis, measure, stride)
    gold = frames.with_intervals(gold, run, axis)
    flat = frames.curve(material.control, axis, measure, stride)
    told = (material.plan or {}).get("rivals") or []
    fig = phase_curve(
        gold,
        axis=axis,
        count=modulus,
        stride=stride,
        first=frames.first_boundary(material.answers, None, stride, axis, origin),
        control=flat,
        rivals=frames.rivals(material.answers, rivals(material), axis),
        first_token=frames.first_tokens(material.answers, told),
        answers=TITLES.get(measure, "answer"),
    )
    low, high = (gold["value"].min(), gold["value"].max()) if len(gold) else (0.0, 0.0)
    spoken = f"Line: the measure by {axis}, from {number(low, 2)} to {number(high, 2)}"
    out = [Chart(fig, spoken)]
    if protocol == "pair":
        return out
    if stride:
        fold = frames.folded(run)
        fig = folded(
            fold,
            stride=stride,
            dots=frames.residue_dots(material.answers, stride, measure),
            control=frames.folded(run.get("control")),
        )
        out.append(Chart(fig, "Points: the measure at each phase", half=True))
    else:
        table = pd.DataFrame(run["residues"])[["residue", "accuracy", "low", "high", "n"]]
        fig = by_residue(table.astype(float), modulus=modulus, stride=None, height=284)
        out.append(Chart(fig, "Points: accuracy by residue", half=True))
    fig = spectrum(
        frames.spectrum(run),
        configured=stride,
        detected=period.get("detected"),
        chance=frames.bar_chance(modulus),
    )
    out.append(Chart(fig, "Bars: share of variance by period", half=True))
    return out


def rivals(material: Material) -> list[str]:
    """Names of the rivals, in the order of their columns: numbers where prompts have their own."""
    spec = material.runs[0]["spec"]
    held = material.answers.get("rival_logprobs")
    columns = int(held.map(len).max()) if held is not None and len(held) else 0
    told = (material.plan or {}).get("rivals") or []
    if len(told) != columns or int(spec.get("samples") or 1) > 1:
        return [str(n + 1) for n in range(columns)]
    return [rival["text"] for rival in told]


def decode(run: dict) -> list[Chart]:
    """Quality against budget and bytes, and differences in pairs, as on Eviction."""
    methods = run.get("methods") or []
    arms = [row for row in methods if row["method"] != "full"]
    full = next((row for row in methods if row["method"] == "full"), None)
    labels = list(dict.fromkeys(row["label"] for row in arms))
    names = {int(row["arm"]): row["label"] for row in arms}
    own = run["spec"].get("mode") == "free"
    out = []
    for measure in ("recall", "nll"):
        if (measure == "nll" and own) or all(arm.get(measure) is None for arm in arms):
            continue
        frame = decoded.measured(arms, labels, measure, LIGHT)
        control = decoded.control(full, measure)
        fig = against_budget(frame, control, measure=measure)
        out.append(Chart(fig, f"Lines: {measure} over mean resident tokens", half=True))
        fig = pareto(frame, control, measure=measure)
        out.append(Chart(fig, f"Dots: {measure} over bytes", half=True))
        pairs = decoded.pairs(run.get("pairs") or [], names, labels, measure, LIGHT)
        if len(pairs):
            out.append(
                Chart(paired(pairs, measure=measure), f"Dots: differences in {measure} in pairs")
            )
    return out
