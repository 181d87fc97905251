"""What is looked at: method, budget, sample, layer and KV head, each in the address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from app import state
from app.eviction.subject import Subject
from app.style import text
from app.words import count, joined

POOLED = "pooled"  # drops what it has averaged: nobody votes
NOUNS = {
    "method": "method",
    "budget": "budget",
    "sample": "sample",
    "layer": "layer",
    "head": "KV head",
}


@dataclass(frozen=True)
class Pick:
    """One arm of the run, one sample, and one KV head of one layer."""

    arm: dict
    sample: int
    layer: int
    head: int

    @property
    def asked(self) -> dict[str, int]:
        """What a trace is asked by."""
        return {
            "arm": int(self.arm["arm"]),
            "sample": self.sample,
            "layer": self.layer,
            "kv_head": self.head,
        }


def choose(subject: Subject) -> Pick | None:
    """Draw the five lists; a value of the link that is not here falls back, with a sentence."""
    arms = [arm for arm in subject.arms if arm["method"] != POOLED]
    labels = {arm["named"]: arm["label"] for arm in arms}
    if not labels:
        alone = "pools tokens and judges none" if subject.arms else "has the full cache alone"
        text("note", f"This run {alone}: no event is to be shown.")
        return None
    layers = subject.layers
    heads = list(range(subject.model.get("kv_heads") or subject.model.get("q_heads") or 1))
    samples = list(range(int(subject.spec.get("samples") or 1)))
    told: list[str] = []
    columns = st.columns([5, 3, 2.4, 2.4, 2.4], gap="small")

    def one(column: Any, name: str, label: str, options: list, start: int = 0, **more) -> Any:
        given = state.unfit(name, options)
        if given is not None:
            told.append(f"no {NOUNS[name]} “{given[:40]}”")
        with column:
            return st.selectbox(
                label,
                options,
                index=min(start, len(options) - 1),
                key=name,
                bind="query-params",
                on_change=state.chosen,
                args=(name,),
                **more,
            )

    named = one(columns[0], "method", "Method", list(labels), format_func=labels.get)
    label, own = labels[named], [arm for arm in arms if arm["named"] == named]
    budgets = sorted({int(arm["budget"]) for arm in own})
    budget = one(columns[1], "budget", "Budget, tokens", budgets)
    sample = one(columns[2], "sample", "Sample", samples)
    layer = one(columns[3], "layer", "Layer", layers, start=len(layers) // 2)
    head = one(columns[4], "head", "KV head", heads)
    if told:
        shown = f"{label} at {count(budget, 'token')}, sample {sample}, layer {layer}, head {head}"
        text("note", f"This run has {joined(told)}. Shown: {shown}.")
    arm = next(arm for arm in own if int(arm["budget"]) == budget)
    return Pick(arm, int(sample), int(layer), int(head))
