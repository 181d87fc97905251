"""Top of the page: context, finding, doubt, and the runs as chips with what can be done to them."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from app import services, sharing, state, takeaway
from app.compare import address, vary
from app.compare.subject import NAMES, Subject
from app.services_compare import MOST
from app.style import html_of, text
from app.words import ago, count, prose

FOUND = 12  # runs listed of a search
RECENT = "compare-recent"  # chips that were taken away stay at hand


def top(subject: Subject, live: Callable[[Callable[[Subject], None]], None]) -> None:
    """Words at the left; at the right what can be taken away: a view, the link, a report."""
    left, right = st.columns([3, 1.15], vertical_alignment="top")
    with left:
        live(words)
    with right, st.container(horizontal=True, horizontal_alignment="right", gap="small"):
        keys, base = subject.asked.keys, subject.asked.base
        takeaway.report(keys, base, of="this comparison")
        sharing.buttons()


def coming(keys: tuple[str, ...]) -> None:
    """What stands there while the service compares.  Asks it nothing: a link is to open at once."""
    text("context", "Comparison")
    text("finding", f"Comparing {count(len(keys), 'run')}", tag="div")
    text("note", "Their prompts are paired and tested; the first time takes some seconds.")


def words(subject: Subject) -> None:
    """Context, finding, doubt; notes on what the link asked for and could not be given."""
    told = subject.told or {}
    finding = told.get("finding") or "Nothing to compare yet"
    if subject.active and not told.get("finding"):
        finding = "Measuring"
    doubt = told.get("doubt") or ""
    st.html(
        html_of("context", context(subject))
        + html_of("finding", finding, tag="div")
        + (html_of("doubt", doubt) if doubt else "")
        + "".join(html_of("note", subject.plain(note)) for note in warned(subject))
    )


def warned(subject: Subject) -> list[str]:
    """The service's warnings; not while runs move: progress stands in the table."""
    return [] if subject.active else (subject.told or {}).get("warnings") or []


def notes(told: tuple[str, ...] | list[str]) -> None:
    """Sentences on what was left out; the page itself stays."""
    if told:
        st.html("".join(html_of("note", note) for note in dict.fromkeys(told)))


def context(subject: Subject) -> str:
    """`access_code · 4 runs · baseline: full cache`."""
    runs = subject.runs
    tasks = list(dict.fromkeys(run["task"] for run in runs))
    models = list(dict.fromkeys(run["model"] for run in runs))
    parts = [title(tasks[0]) if len(tasks) == 1 else count(len(tasks), "task")]
    if len(models) == 1:
        parts.append(short(models[0]))
    else:
        parts.append(count(len(models), "model"))
    prompts = {run["n_samples"] for run in runs if run.get("n_samples")}
    if len(prompts) == 1:
        parts.append(count(int(prompts.pop()), "question" if subject.foreign else "prompt"))
    parts.append(count(len(runs), "run"))
    name = subject.base["name"]
    parts.append(f"baseline: {name[:1].lower() + name[1:] if name == 'Full cache' else name}")
    return " · ".join(parts)


def title(kind: str) -> str:
    known = {"pairs": "Controlled retrieval", "document_pair": "Document pair"}
    return known.get(kind, kind.replace("_", " ").capitalize())


def short(model: str) -> str:
    """A model's name without the folders before it."""
    return model.rstrip("/").rpartition("/")[2][:40]


def chips(subject: Subject) -> str:
    """Runs to take or leave, add, choose the baseline, vary; returns which fields are shown."""
    with st.container(
        key="compare-chips",
        horizontal=True,
        vertical_alignment="center",
        gap="small",
    ):
        chosen(subject)
        drawer("Add a run", "add", add, subject)
        if subject.told:
            drawer("Baseline", "straighten", _baseline, subject)
            if not state.read_only() and not subject.foreign:
                drawer("Vary", "tune", vary.vary, subject)
        st.space("stretch")
        return _fields()


def drawer(
    label: str, icon: str, draw: Callable[[Subject], None], subject: Subject, kind: str = "tertiary"
) -> None:
    """A popover whose content is made once it is open: a page that is read pays for none."""
    place = st.popover(
        label,
        icon=f":material/{icon}:",
        type=kind,
        key=f"c:open-{icon}",
        on_change="rerun",
    )
    if place.open:
        with place:
            draw(subject)


def _fields() -> str:
    options = {"differences": "Differences", "all": "All fields"}
    wanted = address.choice("fields", list(options), st.session_state["compare-notes"])
    widget = address.shown("fields", wanted)
    chosen = st.segmented_control(
        "Fields",
        list(options),
        format_func=options.get,
        key=widget,
        required=True,
        label_visibility="collapsed",
        on_change=address.writes("fields", widget),
        width="content",
    )
    return chosen or "differences"


def chosen(subject: Subject) -> None:
    """The runs as pills: taking one away leaves it at hand until the page is left."""
    keys = list(subject.asked.keys)
    names = st.session_state.get(NAMES, {})
    known = [k for k in st.session_state.get(RECENT, ()) if k not in keys]
    offered = [*keys, *known][: MOST + 4]
    st.session_state[RECENT] = tuple(offered)
    widget = "c:runs"
    st.session_state[widget] = keys

    def changed() -> None:
        left = st.session_state[widget]
        address.write([k for k in offered if k in left][:MOST])

    st.pills(
        "Runs",
        offered,
        selection_mode="multi",
        format_func=lambda k: prose(names.get(k, k)),
        key=widget,
        on_change=changed,
        label_visibility="collapsed",
    )


def add(subject: Subject) -> None:
    """Search the list of runs; a press puts one beside the others."""
    keys = subject.asked.keys
    wanted = st.text_input(
        "Search the runs", key="c:search", placeholder="title, memory, model, task or key"
    )
    if len(keys) >= MOST:
        text("note", f"{MOST} runs are the most that stand side by side. Take one away first.")
        return
    found = search(offered(), wanted, keys)
    if not found:
        text("note", "No run matches." if wanted else "There is no other run here yet.")
    with st.container(key="compare-found", gap="xsmall"):
        for row in found[:FOUND]:
            st.button(
                label(row),
                key=f"c:add-{row['key']}",
                type="tertiary",
                on_click=address.write,
                args=([*keys, row["key"]],),
                help=f"{row.get('model') or ''}, {row.get('task') or ''}, {row['key']}",
            )
        if len(found) > FOUND:
            text("note", f"{len(found) - FOUND} more match: write more of the name.")


def offered() -> list[dict]:
    """All runs, and the controlled family's, which are in no list until they are opened."""
    rows = services.runs()
    known = {row["key"] for row in rows}
    family = [
        {"key": m["key"], "title": m["label"], "phrase": "", "model": m["name"], "preset": True}
        | {"task": "pairs", "status": m.get("status")}
        for m in services.benchmark()["members"]
        if m.get("key") and m["key"] not in known and m.get("numbers")
    ]
    return [*rows, *family]


def search(rows: list[dict], wanted: str, taken: tuple[str, ...]) -> list[dict]:
    """Runs that hold every word, those already shown left out; the finished first."""
    words = wanted.casefold().split()
    out = []
    for row in rows:
        held = " ".join(
            str(row.get(name) or "") for name in ("title", "phrase", "model", "task", "key")
        ).casefold()
        if row["key"] not in taken and all(word in held for word in words):
            out.append(row)
    return sorted(out, key=lambda row: row.get("status") != "done")


def label(row: dict) -> str:
    """`The positive control: pooled W4 S4, one-hot 2 (done, 3 h)`."""
    told = row.get("title") or row.get("phrase") or row["key"]
    phrase = row.get("phrase") or ""
    more = [f": {phrase}" if phrase and phrase != told else ""]
    seen = [row["status"]] if row.get("status") not in ("done", None) else []
    seen += [when] if (when := ago(row.get("created"))) and not row.get("preset") else []
    more.append(f" ({', '.join(seen)})" if seen else "")
    return prose((told + more[0])[:90] + more[1])


def _baseline(subject: Subject) -> None:
    """The usual one, or one of the runs."""
    keys = list(subject.asked.keys)
    names = {run["key"]: run["name"] for run in subject.runs}
    own = [subject.base["key"]] if subject.base.get("is_control") and subject.asked.base else []
    options = ["", *dict.fromkeys([*own, *[k for k in keys if k in names]])]
    widget = "c:base"
    wanted = subject.asked.base
    st.session_state[widget] = wanted if wanted in options else ""

    def changed() -> None:
        address.write(keys, st.session_state[widget] or "")

    usual = "The full cache on the same copies, where the runs share it"
    st.radio(
        "Differences are taken from",
        options,
        format_func=lambda k: prose(names[k]) if k else usual,
        key=widget,
        on_change=changed,
    )
