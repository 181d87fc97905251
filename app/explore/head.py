"""Top of the page: context, finding, doubt, progress, and the five key numbers.

The finding and the doubt are the service's sentences; this module writes only what stands there
before a run has numbers.
"""

from __future__ import annotations

from html import escape

import streamlit as st

from app import services, sharing
from app.explore.subject import Subject
from app.style import html_of
from app.words import NOTHING, between, count, number, p_value, seconds, sentence, size

HELP = {
    "mean": "Mean of the measure over residues, Ā = mean A_r, with a 95 % interval from resampling "
    "prompts (cluster bootstrap). The measure is {measure}.",
    "worst": "The smallest of the S folded phases: means over prompts and over the residues of one "
    "phase, t mod S. Interval: 95 %, resampled by prompt.",
    "gap": "Largest minus smallest folded phase, Δ. A maximum minus a minimum is biased upward, so "
    "what chance gives stands below: each prompt's folded curve rotated at random.",
    "period": "The smallest period whose fold explains the mean curve beyond chance, or a multiple "
    "of it that adds to that; p is of there being any period. Max-T permutation test of residues "
    "within prompts, N ≥ 2 000. The configured S stands beside it.",
    "control": "The gap of the same copies read with the full cache. A gap here is the prompt's or "
    "the numerics', not the memory's.",
}
MEASURES = {
    "joint": "the joint probability of all answer tokens",
    "token": "the mean probability of an answer token",
    "accuracy": "the share of copies whose answer is the first choice",
}
TRAINED = ("full", "trained")  # memories that a model was trained with
STATUS = {
    "queued": "Waiting for the worker",
    "running": "Measuring",
    "failed": "This run failed",
    "cancelled": "This run was cancelled",
    "incomplete": "This run is incomplete",
}


def head(subject: Subject) -> None:
    words, button = st.columns([3, 1], vertical_alignment="top")
    with words:
        st.html(
            _context(subject)
            + html_of("finding", finding(subject), tag="div")
            + html_of("doubt", doubt(subject))
        )
    with button, st.container(horizontal=True, horizontal_alignment="right"):
        sharing.buttons()


def _context(subject: Subject) -> str:
    plan = subject.plan or {}
    names = {m["name"]: m.get("label") or m["name"] for m in subject.schema["models"]}
    model = subject.spec["model"]["id"]
    phrase = (
        plan.get("phrase") or (subject.run or {}).get("phrase") or subject.spec["memory"]["kind"]
    )
    # A run without a name of its own is titled by its memory.
    parts = [subject.title, names.get(model, model), *([] if phrase in subject.title else [phrase])]
    parts += [] if subject.spec["memory"]["kind"] in TRAINED else ["training-free"]
    line = " · ".join(escape(str(p)) for p in parts)
    flags = ["last valid prompt"] if subject.outdated else []
    if (subject.run or {}).get("stale"):
        flags.append("from an older code version")
    if subject.status in ("incomplete", "cancelled", "failed"):
        told = (subject.run or {}).get("progress") or {}
        part = f" after {told['done']} of {told['total']} copies" if told.get("total") else ""
        flags.append(subject.status + part)
    line += "".join(f'<span class="ps-flag">{escape(f)}</span>' for f in flags)
    return f'<p class="ps-context ps-text">{line}</p>'


def finding(subject: Subject) -> str:
    """The headline."""
    if subject.report and subject.report.get("finding") and not subject.active:
        return subject.report["finding"]
    if subject.status in STATUS:
        return STATUS[subject.status]
    copies = (subject.plan or {}).get("copies")
    if not copies:
        return "Nothing to run yet"
    if subject.protocol == "pair":
        return "One answer in 2 documents, not measured yet"
    places = count(subject.modulus, "residue")
    if subject.stride:
        places += f", {count(subject.stride, 'phase')}"
    return f"One answer at {places}, not measured yet"


def doubt(subject: Subject) -> str:
    """One or two sentences under the headline."""
    run, plan = subject.run or {}, subject.plan or {}
    if subject.active:
        return "The curve fills in as copies finish. The page may be closed: the run goes on."
    if subject.report:
        told = [run.get("doubt") or "", *(sentence(w) for w in run.get("warnings") or ())]
        if subject.status != "done" and run.get("reason"):
            told.insert(0, sentence(run["reason"]))
        return " ".join(t if t.endswith((".", "?")) else t + "." for t in told if t)
    if subject.status in STATUS:
        reason = sentence(run.get("reason") or "No reason was given")
        return f"{reason.rstrip('.')}. Run starts it again and keeps what is stored."
    if not plan:
        return "Correct the fields marked at the left; nothing runs until then."
    if subject.outdated:
        return "What the form says now is not valid yet: correct the marked field."
    warnings = " ".join(sentence(w).rstrip(".") + "." for w in plan.get("warnings") or ())
    noun = "document" if subject.protocol == "pair" else "phase"
    told = f"Run shows whether the answer depends on the {noun}."
    return f"{estimate(plan)}. {told} {warnings}".strip()


def estimate(plan: dict) -> str:
    """`64 copies and 64 of the control, about 40 s and 1 GB`; "perhaps" until a run was timed on
    this machine.
    """
    told = plan.get("estimate") or {}
    about = "perhaps" if told.get("speed_source") == "guess" else "about"
    copies = count(plan.get("copies") or 0, "copy", "copies")
    if (plan.get("spec") or {}).get("control"):
        copies += f" and {count(plan.get('copies') or 0, 'of the control', 'of the control')}"
    return f"{copies}, {about} {seconds(told.get('seconds'))} and {size(told.get('bytes'))}"


def progress(subject: Subject) -> None:
    """A bar with the time left, in the place of the key numbers."""
    told = (subject.run or {}).get("progress") or {}
    done, total = int(told.get("done") or 0), max(1, int(told.get("total") or 1))
    left = told.get("seconds_left")
    line = f"{done:,} of {total:,} copies".replace(",", "\u202f")
    if total > int((subject.plan or {}).get("copies") or total):
        line += " with the control's"
    if subject.status == "queued":
        line = "Waiting for the worker to take it"
    elif services.stopping(subject.key):
        line = services.STOPS
    elif not told.get("total"):
        line = "Loading the model"
    elif done >= total:
        line = "All copies are in; the noise floor and the written texts follow"
    elif not done and left is None:
        line = f"Loading the model: {line}"
    elif left is not None:
        line += f", about {seconds(left)} left"
    with st.container(key="progress", height=72, border=False):
        st.progress(min(1.0, done / total), text=line)


def key_numbers(subject: Subject) -> None:
    """Five numbers with what they are to be read against."""
    report = subject.report or {}
    control = report.get("control") or {}
    period = report.get("period") or {}
    stride = subject.stride
    items = [
        (
            "Mean",
            number(report.get("mean")),
            between(report.get("mean_low"), report.get("mean_high")),
            "mean",
        ),
        _worst(report, stride),
        ("Gap", number(_gap(report)), _chance(report), "gap"),
        (
            "Period",
            NOTHING if not report else str(period.get("detected") or "none"),
            _configured(period, stride),
            "period",
        ),
        ("Full cache, gap", number(_gap(control)), _chance(control), "control"),
    ]
    if subject.protocol == "pair":
        items[1] = ("Worse document", number(report.get("worst")), _document(report), "worst")
        items = [i for i in items if i[0] != "Period"]
    if report and not control:
        items = items[:-1]
    for column, (label, value, note, help_key) in zip(st.columns(5), items, strict=False):
        told = HELP[help_key].format(measure=MEASURES.get(subject.measure, subject.measure))
        column.metric(
            label, value, note or "\u00a0", delta_color="off", delta_arrow="off", help=told
        )


def _worst(report: dict, stride: int | None) -> tuple[str, str, str, str]:
    if report.get("worst_folded") is not None:
        row = next(
            (r for r in report.get("folded") or () if r["phase"] == report["worst_phase"]), {}
        )
        wide = ""
        if row.get("low") is not None and row.get("high") is not None:
            wide = f", ±{number((row['high'] - row['low']) / 2, 2)}"
        return (
            "Worst phase",
            number(report["worst_folded"]),
            f"phase {report['worst_phase']}{wide}",
            "worst",
        )
    residue = report.get("worst_residue")
    note = "" if residue is None else f"residue {residue}"
    return (
        "Worst phase" if stride else "Worst residue",
        number(report.get("worst")),
        note,
        "worst",
    )


def _document(report: dict) -> str:
    residue = report.get("worst_residue")
    return "" if residue is None else f"document {'AB'[int(residue) % 2]}"


def _gap(report: dict) -> float | None:
    return report.get("folded_gap") if report.get("folded_gap") is not None else report.get("gap")


def _chance(report: dict) -> str:
    if not report or report.get("gap_null") is None:
        return ""
    told = f"{number(report['gap_null'])} by chance"
    return told if report.get("gap_p") is None else f"{told}, {p_value(report['gap_p'])}"


def _configured(period: dict, stride: int | None) -> str:
    told = f"configured {period.get('configured') or stride or 'none'}"
    return told if period.get("p") is None else f"{told}, {p_value(period['p'])}"
