"""Attention maps of one layer and head, and kept timelines, a panel a run; made when asked for."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import export, services, services_eviction, state
from app.compare import address, frames
from app.compare.subject import Subject
from app.compare.table import arm_name
from app.eviction import frames as decoded
from app.figures.compare import Panel
from app.figures.compare_maps import Cells, maps
from app.figures.compare_maps import timelines as timelines_figure
from app.figures.theme import Look, look_of
from app.figures.timeline import STATES, colours
from app.style import text
from app.words import joined

REFUSED = "compare-refused"  # in the session: run and place → why there is no map


def place(subject: Subject, runs: list[dict], *, copies: bool, heads: str = "q_heads") -> dict:
    """Layer, head, prompt and shift, each from the address; only those that the picture needs."""
    notes = st.session_state["compare-notes"]
    spans: dict[str, tuple[str, int, int, int]] = {}
    if heads:
        layers, count = limits(runs, heads)
        noun = "Head" if heads == "q_heads" else "KV head"
        spans["layer"] = ("Layer", 0, layers - 1, min(4, layers - 1))
        spans["head"] = (noun, 0, count - 1, 0)
    samples = min((int(run.get("n_samples") or 1) for run in runs), default=1)
    spans["sample"] = (f"Prompt, 1 to {samples}", 1, samples, 1)
    if copies:
        modulus = min((int(run.get("modulus") or 1) for run in runs), default=1)
        spans["shift"] = ("Shift", 0, modulus - 1, 0)
    out = {}
    columns = st.columns([1] * len(spans) + [max(1, 6 - len(spans))])
    for column, (name, (label, low, high, usual)) in zip(columns, spans.items(), strict=False):
        wanted = address.whole(name, low, high, usual, notes)
        widget = address.shown(name, wanted)
        with column:
            out[name] = int(
                st.number_input(
                    label, low, max(low, high), key=widget, on_change=address.writes(name, widget)
                )
            )
    out["sample"] -= 1
    return out


@st.cache_data(ttl=600, max_entries=100, show_spinner=False)
def _model(key: str) -> dict:
    spec = services.spec(key)
    plan = services.preview(spec).plan if spec else None
    return (plan or {}).get("model") or {}


def limits(runs: list[dict], heads: str) -> tuple[int, int]:
    """Layers and heads that all the runs' models have; 1 where a model is not here."""
    told = [_model(run.get("of") or run["key"]) for run in runs]
    layers = min((int(m.get("n_layers") or 1) for m in told), default=1)
    return layers, min((int(m.get(heads) or 1) for m in told), default=1)


def source(run: dict) -> tuple[str, bool]:
    """(key, control) under which a run's rows and maps are asked for."""
    return run.get("of") or run["key"], bool(run.get("is_control"))


def attention(subject: Subject) -> None:
    runs = [run for run in subject.on("attention") if run["kind"] != "decode"]
    if not runs:
        return
    controls = st.empty()
    with controls.container():
        at = place(subject, runs, copies=True)
    look = look_of(state.theme())
    panels, cells, reasons, waits = [], [], {}, False
    for run in list(runs):
        found, reason = _map(run, at)
        waits = waits or (found is None and not reason)
        if reason:
            reasons.setdefault(worded(reason), []).append(run["name"])
            runs.remove(run)
            continue
        drawn = _cells(found) if found is not None else None
        cells.append(drawn)
        told = "" if found is not None else "computing this map"
        frame = pd.DataFrame({"x": [0]}) if drawn else pd.DataFrame()
        panels.append(
            Panel(run["name"], run.get("subtitle") or "", subject.mark(run, look), (), frame, told)
        )
    if panels:
        fig = maps(panels, cells, look=look)
        table = _long(runs, cells)
        alt = f"Heatmaps: attention of layer {at['layer']}, head {at['head']}, a run each"
        export.chart(fig, table, "compare-attention", look, alt=alt, width=1200)
    elif services.NO_COPY not in reasons:
        controls.empty()  # no other place has a map either
    for reason, names in reasons.items():
        text("note", f"{joined(names)}: {reason}")
    if waits:
        _poll(runs, at)


def _map(run: dict, at: dict) -> tuple[services.AttentionMap | None, str]:
    """A run's map, or why there is none: the service tells that once, and would then try anew."""
    key, control = source(run)
    asked = at | {"queries": None, "keys": None} | ({"control": True} if control else {})
    told = st.session_state.setdefault(REFUSED, {})
    place = (key, *asked.items())
    if place in told:
        return None, told[place]
    found, reason = services.attention_or_reason(key, asked)
    if reason:
        told[place] = reason
    return found, reason


def worded(reason: str) -> str:
    """A refusal of a field as a sentence with a subject."""
    told = reason.removeprefix("attention: ").removeprefix("model.id: ")
    return f"the model {told}" if told.startswith("is ") else told


def _cells(found: services.AttentionMap) -> Cells:
    weights, down, across = frames.coarse(found.cells)
    keys = [(int(label["start"]), int(label["stop"])) for label in found.key_labels]
    return Cells(weights, frames.edges(found.query_ranges, down), frames.edges(keys, across))


def _long(runs: list[dict], cells: list[Cells | None]) -> pd.DataFrame:
    """run, query, key, weight of every drawn cell that is not nothing."""
    out = []
    for run, held in zip(runs, cells, strict=True):
        if held is None:
            continue
        rows, columns = (held.weights > 1e-4).nonzero()
        out.append(
            pd.DataFrame(
                {
                    "run": run["name"],
                    "query": held.rows[rows] + 0.5,
                    "key": held.columns[columns] + 0.5,
                    "weight": held.weights[rows, columns],
                }
            )
        )
    columns = ["run", "query", "key", "weight"]
    return pd.concat(out, ignore_index=True) if out else pd.DataFrame(columns=columns)


def _poll(runs: list[dict], at: dict) -> None:
    """Look again once a second; the page is drawn anew when one more map is there."""

    @st.fragment(run_every="1s")
    def now() -> None:
        ready = 0
        for run in runs:
            found, reason = _map(run, at)
            ready += found is not None or bool(reason)
        before = st.session_state.get("compare-ready", -1)
        st.session_state["compare-ready"] = ready
        if ready == len(runs) or before not in (-1, ready):
            st.session_state.pop("compare-ready", None)
            st.rerun()
        text("note", "The worker computes these maps; a model is loaded first if it is not yet.")

    now()


def timelines(subject: Subject) -> None:
    runs = [run for run in subject.on("timeline") if run["kind"] == "decode"]
    if not runs:
        return
    chosen = method(runs)
    at = place(subject, runs, copies=False, heads="kv_heads")
    look = look_of(state.theme())
    panels, events, waits, table = [], [], False, []
    for run in runs:
        told = {"arm": arm(run, chosen), "sample": at["sample"], "layer": at["layer"]}
        trace, reason = services_eviction.trace(run["key"], told | {"kv_head": at["head"]})
        waits = waits or (trace is None and not reason)
        frame = decoded.segments(trace) if trace else pd.DataFrame()
        events.append([int(e["seen"]) for e in (trace or {}).get("events") or ()])
        panels.append(
            Panel(
                run["name"],
                named(run, chosen),
                subject.mark(run, look),
                (),
                frame,
                reason or ("" if trace else "reading this trace"),
            )
        )
        table.append(frame.assign(run=run["name"]))
    fig = timelines_figure(panels, events, look=look)
    alt = "Rows of tokens over tokens read, a run each"
    held = pd.concat(table, ignore_index=True)
    export.chart(fig, held, "compare-timelines", look, alt=alt, width=1200)
    st.html(legend(look))
    if waits:
        _poll_traces(runs, at, chosen)


def legend(look: Look) -> str:
    """What the shades of a timeline mean."""
    shade = colours(look)
    items = "".join(
        f'<span class="ps-item"><span class="ps-square" style="background:{shade[state]}"></span>'
        f"{words}</span>"
        for state, words in STATES.items()
    )
    return f'<div class="ps-legend">{items}</div>'


def methods(run: dict) -> dict[str, int]:
    """Name of each method of a decode run at its budget → its arm; the full cache last."""
    told = run.get("arms") or (services.run(run["key"]) or {}).get("methods") or []
    found = {arm_name(arm): int(arm["arm"]) for arm in told}
    return dict(sorted(found.items(), key=lambda pair: pair[1] == 0))


def method(runs: list[dict]) -> str:
    """Which method's timeline is drawn; a run without it shows its first."""
    names = list(dict.fromkeys(name for run in runs for name in methods(run)))
    if len(names) < 2:
        return names[0] if names else ""
    wanted = address.choice("arm", names, st.session_state["compare-notes"])
    widget = address.shown("arm", wanted)
    chosen = st.selectbox(
        "Method", names, key=widget, on_change=address.writes("arm", widget), width=360
    )
    return chosen or names[0]


def arm(run: dict, chosen: str) -> int:
    """The arm of a decode run that has the chosen method, or its first."""
    found = methods(run)
    return found.get(chosen, next(iter(found.values()), 0))


def named(run: dict, chosen: str) -> str:
    """The method that a panel shows, where it is not the chosen one."""
    found = methods(run)
    return "" if chosen in found else next(iter(found), "")


def _poll_traces(runs: list[dict], at: dict, chosen: str) -> None:
    @st.fragment(run_every="1s")
    def now() -> None:
        told = [{"arm": arm(r, chosen), "sample": at["sample"], "layer": at["layer"]} for r in runs]
        found = [
            services_eviction.trace(run["key"], asked | {"kv_head": at["head"]})
            for run, asked in zip(runs, told, strict=True)
        ]
        if all(trace is not None or reason for trace, reason in found):
            st.rerun()
        text("note", "The worker reads these traces.")

    now()
