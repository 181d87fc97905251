"""Token by token: two prompts or two outputs, what one has and the other has not."""

from __future__ import annotations

from html import escape

import streamlit as st

from app import services_compare
from app.compare import address
from app.compare.subject import FOREIGN, Subject
from app.style import text
from app.words import count, literal

SIDES = {"prompt": "Prompts", "worst": "Outputs, worst phase", "best": "Outputs, best phase"}
NEAR, MOST = 16, 1200  # equal tokens kept beside a change; tokens drawn on a side


def difference(subject: Subject) -> None:
    """The section under the pictures: which runs, prompts or outputs, and both texts."""
    found = [run for run in subject.runs if run["kind"] != FOREIGN]
    runs = {run["key"]: run for run in found if not run.get("is_control")}
    if all(run["kind"] == "decode" for run in runs.values()):
        return  # a decode run keeps no prompt's tokens and has no phases to write at
    st.space("medium")
    text("section", "Token by token", tag="h2")
    notes = st.session_state["compare-notes"]
    keys = list(runs)
    first, second, third = st.columns([1.2, 1.2, 1.6], vertical_alignment="bottom")
    chosen = []
    for column, name, label, usual in (
        (first, "a", "First", 0),
        (second, "b", "Second", min(1, len(keys) - 1)),
    ):
        options = [keys[usual], *[k for k in keys if k != keys[usual]]]
        wanted = address.choice(name, options, notes)
        widget = address.shown(name, wanted)
        with column:
            chosen.append(
                st.selectbox(
                    label,
                    keys,
                    format_func=lambda k: runs[k]["name"],
                    key=widget,
                    on_change=address.writes(name, widget),
                )
            )
    wanted = address.choice("text", list(SIDES), notes)
    widget = address.shown("text", wanted)
    with third:
        side = st.segmented_control(
            "Texts",
            list(SIDES),
            format_func=SIDES.get,
            key=widget,
            required=True,
            on_change=address.writes("text", widget),
            label_visibility="collapsed",
        )
    asked = {"outputs": side} if side != "prompt" else _copy()
    told = services_compare.text(chosen[0], chosen[1], **asked)
    if told.get("reason"):
        text("note", subject.plain(told["reason"]))
    if told["ops"]:
        st.html(drawn(told, runs[chosen[0]]["name"], runs[chosen[1]]["name"]))


def _copy() -> dict:
    """Prompt and shift of the address, as the charts above read them."""
    out = {}
    for name, low in (("sample", 1), ("shift", 0)):
        given = st.query_params.get(name, "")
        fits = given.isascii() and given.isdigit() and len(given) < 6
        out[name] = max(low, int(given)) - low if fits else 0
    return out


def drawn(told: dict, first: str, second: str) -> str:
    """Both texts as escaped HTML, changes marked, long equal stretches left out."""
    changed = sum(op["op"] != "equal" for op in told["ops"])
    head = "The same tokens" if not changed else count(changed, "place") + " differ"
    if changed == 1:
        head = "1 place differs"
    sides = []
    for name, side, mark in ((first, "a", "ps-cut"), (second, "b", "ps-new")):
        body = _side(told[side], told["ops"], side, mark)
        sides.append(
            f'<div><div class="ps-label">{escape(name)}</div>'
            f'<div class="ps-read" translate="no">{body}</div></div>'
        )
    return f'<p class="ps-note">{head}.</p><div class="ps-two">{"".join(sides)}</div>'


def _side(tokens: list, ops: list[dict], side: str, mark: str) -> str:
    pieces, left = [], MOST
    for i, op in enumerate(ops):
        low, high = op[side]
        span = [_text(token) for token in tokens[low:high]]
        if op["op"] != "equal":
            pieces += [f'<bdi class="ps-t {mark}" dir="ltr">{literal(t)}</bdi>' for t in span]
            if not span:
                pieces.append('<span class="ps-none" title="nothing here"></span>')
        elif len(span) > 2 * NEAR + 6:
            head = span[:NEAR] if i else []
            tail = span[-NEAR:] if i < len(ops) - 1 else []
            if not head and not tail:
                head = span[:NEAR]
            hidden = len(span) - len(head) - len(tail)
            pieces += [_plain(t) for t in head]
            pieces.append(f'<span class="ps-more">{count(hidden, "token")} the same</span>')
            pieces += [_plain(t) for t in tail]
        else:
            pieces += [_plain(t) for t in span]
        left -= len(span)
        if left < 0:
            pieces.append('<span class="ps-more">and so on</span>')
            break
    return "".join(pieces)


def _plain(token: str) -> str:
    return f'<bdi class="ps-t" dir="ltr">{literal(token)}</bdi>'


def _text(token) -> str:
    """A token of the service's answer: its text, alone or with its id."""
    if isinstance(token, dict):
        return str(token.get("text") or "")
    return str(token)
