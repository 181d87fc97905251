"""Layer scan: compress one layer at a time, then use what it suggests.

The scan is a run of its own: the same spec with `scan` on, of a few prompts.
"""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import export, fields, services, state
from app.explore.head import estimate
from app.explore.subject import Subject
from app.figures.layers import layer_scan
from app.figures.theme import look_of
from app.style import text
from app.words import seconds

SAMPLES = 3  # prompts that a scan reads: every layer is read anew for each


def layers(subject: Subject) -> None:
    if subject.spec["memory"]["kind"] == "full":
        text(
            "note", "The full cache compresses no layer. Choose pooled windows to scan its layers."
        )
        return
    spec = fields.plain(subject.spec)
    spec |= {"scan": True, "samples": min(spec["samples"], SAMPLES), "rows": "scored"}
    answer = services.preview(spec)
    if not answer.plan:
        for _, message in answer.errors:
            text("error", message)
        return
    key = answer.plan["key"]
    run = subject.run if key == subject.key else services.run(key)
    status = (run or {}).get("status")
    if run and status in services.ACTIVE:
        _watch(key)
    elif run and run.get("scan"):
        _result(subject, run["scan"])
    else:
        text(
            "note",
            "Compresses one layer at a time and reports the probability of the answer for "
            "each, so that the layers "
            f"whose compression costs most can be left exact. {estimate(answer.plan)}.",
        )
        if status in ("failed", "cancelled"):
            text("error", run.get("reason") or f"The scan was {status}.")
        if st.button("Run layer scan", key="scan", icon=":material/layers:"):
            refused = services.submit(spec, f"{subject.title}, layer scan").errors
            for _, message in refused:
                text("error", message)
            if not refused:
                st.rerun()


def _watch(key: str) -> None:
    @st.fragment(run_every="1s")
    def bar() -> None:
        run = services.run(key) or {}
        if run.get("status") not in services.ACTIVE:
            services.forget()
            st.rerun()
        told = run.get("progress") or {}
        done, total, left = (
            told.get("done") or 0,
            max(1, told.get("total") or 1),
            told.get("seconds_left"),
        )
        line = f"Layer scan: {done} of {total} copies" + (
            "" if left is None else f", about {seconds(left)} left"
        )
        st.progress(min(1.0, done / total), text=line)
        if st.button("Cancel the scan", key="cancel-scan"):
            services.cancel(key)

    bar()


def _result(subject: Subject, scan: dict) -> None:
    frame = pd.DataFrame(scan["layers"]).rename(columns={"gold_prob": "value"}).astype(float)
    if not {"low", "high"} <= set(frame.columns):
        frame = frame.assign(low=frame["value"], high=frame["value"])
    keep = [int(i) for i in scan.get("keep") or ()]
    control = (scan.get("control") or {}).get("gold_prob")
    look = look_of(state.theme())
    fig = layer_scan(frame, control=control, keep=keep, look=look)
    export.chart(
        fig,
        frame,
        "layers",
        look,
        alt="Points: probability of the answer by compressed layer",
        width=1200,
    )
    suggestion = scan["suggestion"]
    told = f"Compress {suggestion}: the others cost most."
    text("note", told if keep else "No layer stands out: none costs much more than the others.")
    place = fields.widget_key("memory", subject.spec["memory"]["kind"], "layers")

    def use() -> None:
        state.put(place, suggestion)

    same = subject.spec["memory"].get("layers") == suggestion
    if keep or not same:
        st.button("Use these layers", key="use-layers", on_click=use, disabled=same)
