"""Start: what this is, three ways in, the gallery of presets, and what was done lately."""

from html import escape
from typing import Any

import streamlit as st

from app import services, services_eviction, sharing, state
from app.figures.theme import look_of
from app.figures.thumbnails import dots, sparkline
from app.library import foreign
from app.library.rows import folded
from app.news import news as changes
from app.style import html_of, text
from app.tokens import strip
from app.words import ago, count, number, prose

SENTENCE = "A compressed cache remembers some positions better than others"
LEAD = (
    "Phasescope moves one answer through the window grid, token by token, and shows at "
    "which phase a model loses it."
)
RECENT = 6


def page() -> None:
    schema = services.schema()
    presets = schema["presets"]
    sweeps = [p for p in presets if not services_eviction.is_decode(p["spec"])]
    stored = [p for p in sweeps if p.get("stored") and p.get("curve")]
    words, button = st.columns([3, 1], vertical_alignment="top")
    words.html(
        f'<div class="ps-finding" style="max-width:30rem">{escape(SENTENCE)}</div>'
        + html_of("doubt", LEAD)
    )
    with button, st.container(horizontal=True, horizontal_alignment="right"):
        sharing.buttons()
    st.space("medium")
    cards(sweeps, stored)
    st.space("medium")
    text("section", "Gallery", tag="h2")
    gallery(presets)
    st.space("medium")
    left, right = st.columns(2, gap="large")
    with left, st.container(key="recent", gap="small"):
        recent([r for r in services.runs() if not r.get("preset")])
    with right, st.container(key="news", gap="small"):
        news(changes())


def stride_of(preset: dict) -> int | None:
    """Of its result, or of its spec where it has none."""
    if preset.get("stride"):
        return int(preset["stride"])
    memory = preset["spec"].get("memory") or {}
    return int(memory.get("stride") or 4) if memory.get("kind") == "pooled" else None


def cards(sweeps: list[dict], stored: list[dict]) -> None:
    look = look_of(state.theme())
    by_name = {p["name"]: p for p in stored}
    first_preset = next(iter(sweeps), None)
    weak = by_name.get("smollm2-onehot") or (stored[0] if stored else None)
    other = by_name.get("smollm2-mean") or next((p for p in stored if p is not weak), None)
    first, second, third = st.columns(3, gap="medium")
    with first, st.container(border=True, key="card-weak", height="stretch"):
        picture = ""
        if weak:
            picture = image(
                sparkline(
                    weak["curve"],
                    weak.get("control_curve") or (),
                    stride=stride_of(weak),
                    look=look,
                ),
                "curve",
            )
        size = f" of {count(len(weak['curve']), 'shift')}" if weak else ""
        told = f"A stored run{size}. Opens at once, needs no model."
        card(picture, "See a weak phase", told if weak else "A model that forgets by position.")
        if weak:
            st.page_link(
                state.explore(),
                label="Open the positive control",
                icon=":material/arrow_forward:",
                icon_position="right",
                query_params={"key": weak["key"]},
            )
        elif first_preset:
            st.page_link(
                state.explore(),
                label="Open it and press Run",
                icon=":material/arrow_forward:",
                icon_position="right",
                query_params={"key": first_preset["key"]},
            )
    with second, st.container(border=True, key="card-own", height="stretch"):
        card(
            strip(SAMPLE, scored=False),
            "Try your prompt",
            (
                "Mark the answer and a padding slot. Tokens, windows and the time it takes are "
                "shown before it runs."
            ),
        )
        st.page_link(
            state.explore(),
            label="Write a prompt",
            icon=":material/arrow_forward:",
            icon_position="right",
            query_params={"new": "custom"},
        )
    with third, st.container(border=True, key="card-two", height="stretch"):
        picture = ""
        if weak and other:
            picture = image(
                sparkline(
                    weak["curve"],
                    weak.get("control_curve") or (),
                    other=other["curve"],
                    stride=stride_of(weak),
                    colour=look.memory,
                    look=look,
                ),
                "two curves",
            )
        card(
            picture,
            "Two memories, one prompt",
            "The same copies, kept one token a window or averaged over it.",
        )
        if weak and other:
            st.page_link(
                state.compare(),
                label="Compare them",
                icon=":material/arrow_forward:",
                icon_position="right",
                query_params={"runs": f"{weak['key']},{other['key']}"},
            )


def card(picture: str, title: str, words: str) -> None:
    st.html(
        f'<div class="ps-card"><div class="ps-picture">{picture}</div>'
        f"<h3>{escape(title)}</h3><p>{escape(words)}</p></div>"
    )


def image(source: str, alt: str) -> str:
    return f'<img src="{source}" alt="{escape(alt)}">'


def gallery(presets: list[dict]) -> None:
    """Every preset; one without a stored result has no picture and says so."""
    look = look_of(state.theme())
    for start in range(0, len(presets), 4):
        row = presets[start : start + 4]
        for column, preset in zip(st.columns(4, gap="medium"), row, strict=False):
            with column, st.container(key=f"gallery-{preset['name']}", gap="xsmall"):
                losses = preset.get("losses") or ()
                if len(losses) > 1:
                    picture = dots(losses, height=64, look=look)
                else:
                    picture = sparkline(
                        preset.get("curve") or (),
                        preset.get("control_curve") or (),
                        stride=stride_of(preset) if preset.get("curve") else None,
                        colour=look.gold if stride_of(preset) else look.control,
                        height=64,
                        look=look,
                    )
                words = preset.get("finding") or "Not measured here yet: open it and press Run."
                st.page_link(
                    page_of(preset["spec"]),
                    label=preset["title"],
                    query_params={"key": preset["key"]},
                )
                st.html(
                    f'<div class="ps-gallery">{image(picture, preset["title"])}'
                    f"<p>{escape(words)}</p></div>"
                )


def recent(rows: list[dict]) -> None:
    text("section", "Recent runs", tag="h2")
    if not rows:
        text("note", "None yet. Open a preset, change its stride, and press Run.")
    for row in rows[:RECENT]:
        query = foreign.link(row["key"]) if foreign.is_foreign(row) else {"key": row["key"]}
        st.page_link(page_of(row), label=line(row), query_params=query)


def page_of(told: dict) -> Any:
    """The page that shows a run, by a row of it or its spec."""
    if foreign.is_foreign(told):
        return state.library()
    return state.eviction() if services_eviction.is_decode(told) else state.explore()


def news(entries: list[tuple[str, str]]) -> None:
    """What changed lately, from the changelog."""
    if not entries:
        return
    body = "".join(f"<span>{escape(v)}</span><span>{escape(words)}</span>" for v, words in entries)
    text("section", "What is new", tag="h2")
    st.html(f'<div class="ps-rows">{body}</div>')


def line(row: dict) -> str:
    """`Banner, pooled W4 S4, one-hot 2: worst .301, period 4 · 2 h ago`, literal in Markdown."""
    title, phrase = str(row.get("title") or row.get("task")), str(row.get("phrase") or "")
    told = title if title.endswith(phrase) else f"{title}, {phrase}"
    if row.get("status") == "done" and row.get("kind") == "decode":
        told += f": {row['finding']}" if row.get("finding") else ""
    elif row.get("status") == "done" and foreign.is_foreign(row):
        told += foreign.line(row)
    elif row.get("status") == "done":
        worst = folded(row, "worst_folded", "worst")
        told += f": worst {number(worst)}, period {row.get('period') or 'none'}"
    else:
        told += f": {row.get('status')}"
    told = prose(told + (" (older code version)" if row.get("stale") else ""))
    return f"{told} :gray[· {prose(ago(row.get('created')))}]"


SAMPLE = {
    "stride": 4,
    "tokens": [
        {
            "position": i,
            "text": t,
            "phase": i % 4,
            "window": i // 4,
            "target": t == "4",
            "role": "text",
        }
        for i, t in enumerate(
            (
                "The",
                " access",
                " code",
                " for",
                " AX",
                "31",
                " is",
                " ",
                "4",
                "8",
                "2",
                "9",
                "1",
                "5",
                ".",
            )
        )
    ],
}

page()
