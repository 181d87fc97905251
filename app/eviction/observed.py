"""The observation set of an event: cosine, components, cover of the queries that follow."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import export
from app.eviction import claims, frames
from app.figures.observed import cosine, coverage, pca
from app.figures.theme import Look
from app.style import text
from app.words import count

OWN = "this method's own"  # as the trace names the set that the method itself keeps


def observed(trace: dict, place: int, look: Look) -> None:
    told = trace["events"][place]
    observers = frames.watched(told, frames.texts(trace))
    cover = frames.coverage(told)
    if not len(observers) and not len(cover):
        return
    st.space("small")
    text("section", claims.cover(cover), tag="h2")
    text(
        "note",
        "Queries before RoPE, of the first query head of this KV head. Cover of one query is its "
        "highest cosine to the set."
        + (
            " This method keeps no queries: the latest stand for what it saw."
            if len(observers) and "latest" in set(observers["kind"])
            else ""
        ),
    )
    first, second, third = st.columns([6, 5, 7], gap="medium")
    points, history = frames.components(told, observers)
    cells = frames.cosine(told, observers)
    with first:
        fig = cosine(cells, observers, look=look)
        alt = f"Heatmap: cosine of {count(len(observers), 'query', 'queries')}"
        names = [f"{o.kind} {o.position}" for o in observers.itertuples()]
        table = pd.DataFrame(cells, columns=names[: cells.shape[1]])
        table.insert(0, "query", names[: cells.shape[0]])
        export.chart(fig, table, "cosine", look, alt=alt, width=460)
    with second:
        fig = pca(points, history, look=look)
        alt = "Dots: the first two components of queries, beacons as diamonds"
        export.chart(fig, points, "components", look, alt=alt, width=420)
    with third:
        fig = coverage(cover, own=OWN, look=look)
        alt = "Dots: highest cosine of each following query to each set"
        export.chart(fig, cover, "coverage", look, alt=alt, width=560)
