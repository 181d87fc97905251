"""Attention of one layer and head: computed when asked for, a cell named when chosen.

A heatmap gives no clicks back through Streamlit's chart, so a small component of the page's own
listens to Plotly's click on it and sends the cell's indices.
"""

from __future__ import annotations

from html import escape

import numpy as np
import pandas as pd
import streamlit as st

from app import export, frames, services, state
from app.explore.subject import Subject
from app.explore.tables import needs_run, sample_choice
from app.figures.attention import attention as attention_figure
from app.figures.attention import weight
from app.figures.theme import look_of, plain
from app.style import text
from app.words import count, visible

CLICK = """
export default function ({ data, setTriggerValue }) {
  let chart = null, tries = 0, timer = null;
  const send = (event) => {
    const point = event.points && event.points[0];
    if (point) setTriggerValue("cell", [...point.pointNumber]);
  };
  const attach = () => {
    const found = document.querySelector(data.chart + " .js-plotly-plot");
    if (found && found.on) {
      chart = found;
      chart.on("plotly_click", send);
      chart.dataset.clicks = "on";
      return;
    }
    if (tries++ < 200) timer = setTimeout(attach, 50);
  };
  attach();
  return () => {
    clearTimeout(timer);
    if (chart && chart.removeListener) chart.removeListener("plotly_click", send);
  };
}
"""
_clicks = st.components.v2.component("phasescope_heatmap_clicks", js=CLICK)


def attention(subject: Subject) -> None:
    if not needs_run(subject, "Attention is computed on demand"):
        return
    asked = _choose(subject)
    if not asked:
        return
    _map(subject, asked)


def _choose(subject: Subject) -> dict | None:
    """Layer, head, phase, prompt and ranges; all of them in the address."""
    facts = model_facts(subject)
    if facts is None:
        text("note", "A map needs the model on this machine; see the message at the model's field.")
        return None
    columns = st.columns(5)
    layers, heads = list(range(facts["layers"])), list(range(facts["heads"]))
    stride = subject.stride
    for name, options in (("layer", layers), ("head", heads)):
        state.within(name, options)
    with columns[0]:
        layer = st.selectbox(
            "Layer", layers, key="layer", bind="query-params", index=min(4, len(layers) - 1)
        )
    with columns[1]:
        head = st.selectbox("Head", heads, key="head", bind="query-params")
    with columns[2]:
        phases = list(range(stride or subject.modulus))
        state.within("at", phases)
        report = subject.report or {}
        start = report.get("worst_phase") if report.get("worst_phase") in phases else 0
        noun = "Phase" if stride else "Document" if subject.protocol == "pair" else "Residue"
        phase = st.selectbox(noun, phases, key="at", bind="query-params", index=int(start))
    with columns[3]:
        sample = sample_choice(subject, "The map is of one copy of this prompt")
    answers = frames.usable(services.answers(subject.key, settled=not subject.active))
    rows = answers[
        (answers["sample"] == sample) & (answers["residue"] % (stride or subject.modulus) == phase)
    ]
    if not len(rows):
        text("note", "No copy of this prompt was measured at this phase.")
        return None
    row = rows.sort_values("shift", kind="stable").iloc[0]
    length = int(row["length"])
    ranges = {}
    with columns[4], st.popover("Range", icon=":material/zoom_in:", width="stretch"):
        for name, label in (("queries", "Queries"), ("keys", "Keys")):
            low, high = st.slider(label, 0, length, (0, length), key=name, bind="query-params")
            ranges[name] = None if (low, high) == (0, length) or high <= low else [low, high]
    return {
        "layer": layer,
        "head": head,
        "sample": sample,
        "shift": int(row["shift"]),
        "queries": ranges["queries"],
        "keys": ranges["keys"],
    }


def model_facts(subject: Subject) -> dict | None:
    """Layers and query heads of the model, as the plan tells them; None without a plan."""
    told = (subject.plan or {}).get("model")
    return told and {"layers": int(told["n_layers"]), "heads": int(told["q_heads"])}


def _map(subject: Subject, asked: dict) -> None:
    found, reason = services.attention_or_reason(subject.key, asked)
    if reason:
        text("error", reason)
        return
    if found is None:
        _wait(subject.key, asked)
        return
    rows = services.tokens(subject.key, asked["sample"], asked["shift"])
    names = token_texts(rows, first_text(subject, rows, asked["sample"], asked["shift"]))
    queries = [query_name(r, names) for r in found.query_ranges]
    keys = [key_name(label, names) for label in found.key_labels]
    look = look_of(state.theme())
    chosen = _chosen(queries, keys)
    entries = sum(label["kind"] == "entry" for label in found.key_labels)
    sub = (
        f"{count(len(keys) - entries, 'exact token')}, "
        f"{count(entries, 'pooled entry', 'pooled entries')}"
    )
    if found.max:
        sub += ". Each cell is the largest weight of its range: choose a range to see more"
    fig = attention_figure(
        found.cells,
        [_short(q) for q in queries],
        [_short(k) for k in keys],
        title=f"Attention, layer {asked['layer']}, head {asked['head']}",
        subtitle=sub,
        chosen=chosen,
        names=(queries, keys),
        look=look,
    )
    frame = _long(found, queries, keys)
    export.chart(
        fig, frame, "attention", look, alt="Heatmap: attention weight by query and key", width=1200
    )
    clicked = _clicks(
        key="clicks", data={"chart": ".st-key-chart-attention"}, on_cell_change=lambda: None
    )
    if clicked.cell:
        row, column = (int(v) for v in clicked.cell)
        if [row, column] != list(chosen or ()):
            st.session_state["pending-cell"] = (row, column)
            st.rerun()
    told = "Click a cell, or choose a query and a key, to read its weight."
    if chosen is not None:
        row, column = chosen
        told = (
            f"Query {queries[row]} reads key {keys[column]} with weight "
            f"{weight(float(found.cells[row, column]))}."
        )
    st.html(f'<p class="ps-doubt ps-text" data-cell="1">{escape(told)}</p>')


def _chosen(queries: list[str], keys: list[str]) -> tuple[int, int] | None:
    """The chosen cell, by two lists that a click sets and that the address carries."""
    pending = st.session_state.pop("pending-cell", None)
    if pending:
        state.put("cq", pending[0])
        state.put("ck", pending[1])
    left, right = st.columns(2)
    rows, columns = list(range(len(queries))), list(range(len(keys)))
    state.cell((len(rows), len(columns)))
    with left:
        row = st.selectbox(
            "Query",
            rows,
            index=None,
            key="cq",
            format_func=lambda i: queries[i],
            placeholder="any",
        )
    with right:
        column = st.selectbox(
            "Key",
            columns,
            index=None,
            key="ck",
            format_func=lambda i: keys[i],
            placeholder="any",
        )
    state.keep_cell()
    return None if row is None or column is None else (row, column)


def _wait(key: str, asked: dict) -> None:
    @st.fragment(run_every="1s")
    def poll() -> None:
        found, reason = services.attention_or_reason(key, asked)
        if found is not None or reason:
            st.rerun()
        text("note", "Computing this map. The model is loaded first if it is not yet.")

    poll()


def token_texts(rows: pd.DataFrame, first: str | None) -> dict[int, str]:
    """Position → text at the chosen copy.  `first`: of position 0, which is in no row."""
    names = {} if first is None else {0: first}
    return names | (
        dict(zip(rows["position"].astype(int), rows["text"], strict=True)) if len(rows) else {}
    )


def first_text(subject: Subject, rows: pd.DataFrame, sample: int, shift: int) -> str | None:
    """What stands at position 0 of a copy, where that can be told: padding, or the prompt's own."""
    strip = (subject.plan or {}).get("strip") or {}
    if not strip.get("tokens"):
        return None
    first = strip["tokens"][0]
    if subject.opens_with_padding and subject.modulus > 1 and len(rows):
        last = services.tokens(subject.key, sample, subject.modulus - 1)  # padding opens that one
        own = last[last["role"] != "pad"].sort_values("position", kind="stable")
        if len(own) == int((rows["role"] != "pad").sum()):
            return subject.plan["filler"]["text"]
        return str(own["text"].iloc[0]) if len(own) else None
    if first["role"] == "template":
        return first["text"]
    moves = subject.protocol == "pair" or not (
        strip.get("slots") or subject.protocol == "grid_origin"
    )
    known = sample == 0 and (shift == strip.get("shift") or not moves)
    return first["text"] if known else None


def query_name(span: tuple[int, int], names: dict[int, str]) -> str:
    """`12 “8”`, or a range of positions."""
    low, high = span
    if high - low > 1:
        return f"positions {low} to {high - 1}"
    return f"{low} “{visible(names.get(low))}”" if low in names else f"position {low}"


def key_name(label: dict, names: dict[int, str]) -> str:
    """An exact token by position and text; a pooled entry by its window's tokens."""
    low, high = int(label["start"]), int(label["stop"])
    if label["kind"] == "token":
        return query_name((low, high), names)
    told = "".join(
        visible(names.get(i, "")) if i in names else "…" for i in range(low, min(high, low + 12))
    )
    return f"window {low} to {high - 1} “{told}”"


def _short(name: str) -> str:
    """A name for a tick: the token, or the window's positions."""
    head, _, tail = name.partition("“")
    word = tail.rstrip("”")
    if word and not head.startswith("window"):
        return plain(word if len(word) <= 9 else word[:8] + "…")
    return plain(
        head.strip().removeprefix("window ").removeprefix("positions ").replace(" to ", "–")
    )


def _long(found: services.AttentionMap, queries: list[str], keys: list[str]) -> pd.DataFrame:
    """The drawn cells as a table: one row a cell."""
    rows, columns = found.cells.shape
    return pd.DataFrame(
        {
            "query": np.repeat(queries, columns),
            "key": np.tile(keys, rows),
            "weight": found.cells.ravel(),
        }
    )
