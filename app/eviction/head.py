"""Top of the page: context, finding, doubt, progress.

Finding and doubt are the service's sentences; this module writes only what stands there before a
run has numbers.
"""

from __future__ import annotations

from html import escape

import streamlit as st

from app import services, sharing, takeaway
from app.eviction import recipe
from app.eviction.subject import Subject
from app.style import html_of, opening
from app.words import count, joined, seconds, sentence

STATUS = {
    "queued": "Waiting for the worker",
    "running": "Decoding",
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
            + opening("doubt", doubt(subject), more="More about these numbers")
            + (html_of("note", told) if (told := warnings(subject)) else "")
        )
    with button, st.container(horizontal=True, horizontal_alignment="right"):
        if subject.report:
            takeaway.report((subject.key,))
        sharing.buttons()


def _context(subject: Subject) -> str:
    spec = subject.spec
    names = {m["name"]: m.get("label") or m["name"] for m in subject.schema["models"]}
    model = spec["model"]["id"]
    fair = {"time_average": "equal mean memory", "own": "each its own budget"}
    prefill = {"whole": "prompt read whole", "streamed": "prompt read as if written"}
    evict = {"prompt": "evicted at the prompt alone", "decode": "evicted while decoding alone"}
    parts = [
        subject.title,
        names.get(model, model),
        f"{count(int(spec.get('samples') or 0), 'prompt')}, "
        f"{count(int(spec.get('steps') or 0), 'step')}",
        fair.get(spec.get("fair"), ""),
        prefill.get(spec.get("prefill"), ""),
        evict.get(spec.get("evict"), ""),
    ]
    line = " · ".join(escape(str(p)) for p in parts if p)
    flags = ["from an older code version"] if (subject.run or {}).get("stale") else []
    if subject.status in ("incomplete", "cancelled", "failed"):
        told = (subject.run or {}).get("progress") or {}
        part = f" after {told['done']} of {told['total']} parts" if told.get("total") else ""
        flags.append(subject.status + part)
    line += "".join(f'<span class="ps-flag">{escape(f)}</span>' for f in flags)
    return f'<p class="ps-context ps-text">{line}</p>'


def finding(subject: Subject) -> str:
    """The headline."""
    run = subject.run or {}
    if subject.report and run.get("finding"):
        return run["finding"]
    if subject.status in STATUS:
        return STATUS[subject.status]
    if not subject.plan:
        return "Nothing to run yet"
    methods = recipe.plain(subject.spec)["methods"]
    names = [m["kind"] for m in methods]
    told = joined(list(dict.fromkeys(names))) or "Nothing"
    return f"{sentence(told)} against the full cache, not measured yet"


def doubt(subject: Subject) -> str:
    """One or two sentences under the headline."""
    run, plan = subject.run or {}, subject.plan or {}
    if subject.active:
        return (
            "The full cache comes first; every method then reads the same text. The page may be "
            "closed: the run goes on."
            if subject.spec.get("mode") != "free"
            else "Each method writes its own text. The page may be closed: the run goes on."
        )
    if subject.report:
        told = [run.get("doubt") or ""]
        if subject.status != "done" and run.get("reason"):
            told.insert(0, sentence(run["reason"]))
        return _joined(told)
    if subject.status in STATUS:
        reason = sentence(run.get("reason") or "No reason was given").rstrip(".")
        return f"{reason}. Run starts it again and keeps what is stored."
    if not plan:
        return "Correct the fields marked at the left; nothing runs until then."
    return "Run shows what each cache forgets, and what that costs."


def warnings(subject: Subject) -> str:
    """What a reader should know besides: of the run, or of what would run."""
    source = subject.report or (None if subject.active else subject.plan) or {}
    return _joined([sentence(w) for w in source.get("warnings") or ()])


def _joined(told: list[str]) -> str:
    return " ".join(t if t.endswith((".", "?")) else t + "." for t in told if t)


def progress(subject: Subject) -> None:
    """A bar with the time left."""
    told = (subject.run or {}).get("progress") or {}
    done, total = int(told.get("done") or 0), int(told.get("total") or 0)
    left = told.get("seconds_left")
    line = f"{done} of {total} parts: a prompt with one method at one budget each"
    if subject.status == "queued":
        line = "Waiting for the worker to take it"
    elif services.stopping(subject.key):
        line = services.STOPS
    elif not total:
        line = "Loading the model"
    elif not done and left is None:
        line = f"Loading the model: {line}"
    elif left is not None:
        line += f", about {seconds(left)} left"
    with st.container(key="progress"):
        st.progress(min(1.0, done / max(1, total)), text=line)
