"""Top of the page: context, finding, doubt, which section, and how it is measured."""

from __future__ import annotations

import streamlit as st

from app import sharing, state
from app.benchmark import family, findings
from app.style import html_of, text

METHOD = """
**Models.** Small decoders trained on one task. A control is a full-cache model of the same shape,
trained on the same data. Members of one control differ in the memory alone, but for these: the one
without RoPE (its control has RoPE), KL (a term of the training) and seeds. KV heads have a control
for each shape: heads and their size differ, and M is 32 or 40.

**Task.** Adjacent key and value tokens over one set of 64 symbols; the value of one key is asked.
A guess is right 1 in 64.

**Copies.** One prompt is seen at 24 residues of its target's position, padded in sequence: spacers
between the other records move so that the target's phase alone changes. The spacers follow the
law of the training, conditioned on a record at the target's place, so that no copy is easier to
read than those trained on.

**Placement.** Each residue has the same mean of the target's position where the prompts are a
multiple of 24, and the same variance where they are a multiple of 576. With those of the family
the variances lie within 15 % of that, within 21 % for the three coverage members with 96 prompts;
the opened memory shows the table.

**Density.** Records in a window, printed beside each curve. Only memories of equal records per
place are compared, so with one M; a sentence that counts memories of several says so.

**Numbers.** Mean, worst and residue gap are over the 24 residues; an opened memory shows the gap
over the phases of its stride. The ribbon is a Wilson 95 % interval of
each residue alone. The period is the smallest whose fold explains the mean curve beyond chance, or
a multiple of it that adds to that; p is of there being any period. Max-T permutation test of
residues within prompts.

**Boundary.** With W = S one phase splits key and value into two windows. It and the phases
inside the window are always reported apart.
"""


def head(members: list[dict]) -> tuple[str, str]:
    """Draw the head; returns the chosen section and measure."""
    state.within("section", list(family.SECTIONS))
    state.within("measure", list(family.MEASURES))
    top = st.container()  # its words are those of the section chosen below
    section = _section()
    measure = measure_choice()
    with top:
        _words(section, family.shown(family.section(members, section)))
    return section, measure


def _words(section: str, seen: list[dict]) -> None:
    words, side = st.columns([3.6, 1], vertical_alignment="top")
    with words:
        st.html(
            html_of("context", findings.context(seen))
            + html_of("finding", findings.headline(section, seen), tag="div")
            + html_of("doubt", findings.doubt(seen))
        )
    with side, st.container(horizontal=True, horizontal_alignment="right", gap="small"):
        sharing.buttons()
        with st.popover("How this is measured", icon=":material/help:", type="tertiary"):
            st.markdown(METHOD)


def _section() -> str:
    chosen = st.segmented_control(
        "Section",
        family.SECTIONS,
        default=family.GRID,
        key="section",
        bind="query-params",
        required=True,
        label_visibility="collapsed",
    )
    return chosen or family.GRID


def measure_choice() -> str:
    """Legend at the left, which measure at the right."""
    left, right = st.columns([3, 1.4], vertical_alignment="center")
    left.html(
        '<div class="ps-legend">'
        '<span class="ps-item"><span class="ps-dash"></span>full cache</span>'
        '<span class="ps-item"><span class="ps-square"></span>one stride</span>'
        '<span class="ps-item"><span class="ps-dash ps-dotted"></span>chance, 1 in 64</span>'
        '<span class="ps-item">ribbon: 95 %</span></div>'
    )
    with right, st.container(horizontal=True, horizontal_alignment="right"):
        chosen = st.segmented_control(
            "Measure",
            family.MEASURES,
            default=family.MEASURES[0],
            key="measure",
            bind="query-params",
            required=True,
            label_visibility="collapsed",
        )
    return chosen or family.MEASURES[0]


def opening() -> None:
    """What the page is about, before any number is there."""
    text("finding", "Does the period follow the stride?", tag="div")


def nothing(told: str) -> None:
    text("finding", "No family here yet", tag="div")
    text("doubt", told)
