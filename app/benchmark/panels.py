"""The family as small multiples on one scale, the control first, three a row."""

from __future__ import annotations

from html import escape

import streamlit as st

from app import export, services, state
from app.benchmark import family
from app.benchmark.family import Group, active, full, measured, numbers
from app.figures.marks import Mark, mark, swatch
from app.figures.panels import panel
from app.figures.theme import Look, look_of
from app.style import html_of, text
from app.words import NOTHING, count, number, p_value, seconds, sentence

ROW = 3
PICTURE = 480  # pixels across, of a panel that is saved
STATUS = {
    "none": "not run yet",
    "missing": "not trained here",
    "queued": "waiting for the worker",
    "running": "measuring",
    "failed": "the run failed",
    "cancelled": "the run was cancelled",
    "incomplete": "the run is incomplete",
}


def panels(members: list[dict], groups: list[Group], measure: str) -> None:
    """All groups; titles only where there is more than one."""
    look, marks = look_of(state.theme()), family.places(members)
    for i, group in enumerate(groups):
        if i and group.title:
            text("note", sentence(group.title))
        rows = [group.members[k : k + ROW] for k in range(0, len(group.members), ROW)]
        for row in rows:
            for column, member in zip(st.columns(ROW, gap="medium"), row, strict=False):
                with column, st.container(key=f"panel-{i}-{member['name']}", gap="xsmall"):
                    drawn = mark(marks[member["name"]], look)
                    control = family.control_of(members, member)
                    named = row is rows[-1]
                    one(member, control, drawn, f"{i}-", measure, look, named=named)


def watch(seen: list[dict]) -> None:
    """While a panel's run is at work: look for progress, draw anew when there is some."""
    before = {m["name"]: (m.get("status"), note(m)) for m in seen if active(m)}
    if not before:
        return

    @st.fragment(run_every="2s")
    def now() -> None:
        fresh = {m["name"]: m for m in services.benchmark()["members"]}
        after = {name: (fresh[name].get("status"), note(fresh[name])) for name in before}
        if after != before:
            st.rerun()

    now()


def one(
    member: dict,
    control: dict | None,
    drawn: Mark,
    place: str,
    measure: str,
    look: Look,
    *,
    named: bool,
) -> None:
    """One panel: head, row of numbers or what to do, chart."""
    report, told = numbers(member), f"{member['label']}: {measure.lower()} by residue"
    frame = family.curve(report, measure)
    flat = family.residues(member.get("control_residues"), measure)
    if not len(flat) and control:
        flat = family.curve(numbers(control), measure)
    fig = panel(
        frame,
        modulus=int(report.get("modulus") or (member.get("spec") or {}).get("modulus") or 24),
        stride=family.stride(member),
        mark=drawn,
        control=None if full(member) else flat,
        chance=report.get("chance"),
        note="measuring" if active(member) else note(member),
        named=named,
        look=look,
    )
    with st.container(
        horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"
    ):
        st.html(title(member, drawn), width="content")
        with st.container(
            horizontal=True, vertical_alignment="center", gap="xsmall", width="content"
        ):
            _action(member, place)
            if len(frame):
                name = f"panel-{place}{member['name']}"
                export.menu(fig, frame, name, look, width=PICTURE, title=told)
    words = f"{family.overlap(member)}, {family.density(member)}"
    st.html(html_of("words", words) + row_of_numbers(member, measure))
    if len(frame):
        told += f", from {frame['value'].min():.2f} to {frame['value'].max():.2f}"
    st.plotly_chart(
        fig,
        theme=None,
        key=f"panel-plot-{place}{member['name']}",
        config=export.CONFIG,
        alt=told if len(frame) else f"{member['label']}: {note(member)}",
        width="stretch",
    )


def title(member: dict, drawn: Mark) -> str:
    flag = ""
    if member.get("stale") and measured(member):
        flag = '<span class="ps-flag">older code</span>'
    return (
        f'<div class="ps-panel"><img src="{swatch(drawn)}" alt=""><b>{escape(member["label"])}</b>'
        f"{flag}</div>"
    )


def row_of_numbers(member: dict, measure: str) -> str:
    """mean, worst, gap, period with its p; what is known of the run while there are none."""
    report = numbers(member)
    if not measured(member):
        items = [("status", sentence(note(member)))]
        if member.get("status") == "missing":
            items = [("train it with", f"phasescope train {member['name']}")]
    else:
        brief = family.summary(report, measure)
        items = [(name, number(brief[name])) for name in ("mean", "worst")]
        items.append(("residue gap", number(brief["gap"])))
        items.append(("period", period_words(report)))
    body = "".join(
        f"<div><span>{escape(name)}</span><b>{escape(value)}</b></div>" for name, value in items
    )
    return f'<div class="ps-numbers">{body}</div>'


def period_words(report: dict) -> str:
    """`8, p < .001`; `none, p = .64`."""
    told = report.get("period") or {}
    if told.get("p") is None:
        return NOTHING
    return f"{told.get('detected') or 'none'}, {p_value(told['p'])}"


def note(member: dict) -> str:
    """What an empty panel says."""
    told = STATUS.get(member.get("status") or "none", "not run yet")
    progress = (services.run(member["key"]) or {}).get("progress") if active(member) else None
    if member.get("status") == "running" and progress and progress.get("total"):
        told = f"{progress['done']:,} of {count(progress['total'], 'copy', 'copies')}".replace(
            ",", "\u202f"
        )
        if services.stopping(member["key"]):
            told = "stopping; what is computed is kept"
        elif not progress["done"] and progress.get("seconds_left") is None:
            told = "loading the model"
        elif progress.get("seconds_left") is not None:
            told += f", about {seconds(progress['seconds_left'])} left"
    return told


def _action(member: dict, place: str) -> None:
    """Open, Run or Cancel, at the right of the panel's head."""
    name = member["name"]
    if active(member):
        if st.button("Cancel", key=f"panelrun-{place}{name}", type="tertiary"):
            services.cancel(member["key"])
            st.rerun()
    elif measured(member):
        st.button(
            "Open",
            key=f"open-{place}{name}",
            type="tertiary",
            icon=":material/arrow_outward:",
            icon_position="right",
            on_click=state.open_below,
            kwargs={"member": name},
        )
    elif member.get("status") != "missing" and st.button(
        "Run", key=f"panelrun-{place}{name}", type="tertiary", disabled=state.read_only()
    ):
        refused = services.submit(member["spec"], member["label"]).errors
        for _, message in refused:
            text("error", sentence(message))
        if not refused:
            st.rerun()
