"""What repairs give: one pair a seed, without the repair and with it."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import export, state
from app.benchmark import claims, family
from app.figures.dots import paired
from app.figures.marks import mark
from app.figures.theme import look_of
from app.style import text

TITLES = {"mean": "Mean", "worst": "Worst residue"}


def repairs(members: list[dict]) -> None:
    rows = claims.repair_rows(members)
    text("section", claims.repairs(rows), tag="h2")
    if not rows:
        if any(m.get("group") == "repair" for m in members):
            text("note", "Run the members of the section Repairs, and their twins without it.")
        return
    text("doubt", claims.repairs_line(rows))
    look, places = look_of(state.theme()), family.places(members)
    for column, (name, title) in zip(st.columns(2, gap="medium"), TITLES.items(), strict=True):
        table = pd.DataFrame(
            [
                {
                    "group": row["group"],
                    "seed": row["seed"],
                    **{
                        f"{when}{part}": row[f"{when}_{name}{part}"]
                        for when in ("before", "after")
                        for part in ("", "_low", "_high")
                    },
                    "colour": mark(places[row["name"]], look).colour,
                    "symbol": mark(places[row["name"]], look).symbol,
                }
                for row in rows
            ]
        )
        fig = paired(table, title=title, subtitle="Hollow: without; solid: with", look=look)
        with column:
            shown = table.drop(columns=["colour", "symbol"])
            export.chart(fig, shown, f"repairs-{name}", look, alt=f"Paired dots: {title.lower()}")
