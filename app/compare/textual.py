"""Token by token: two prompts or two outputs, what one has and the other has not."""

from __future__ import annotations

from html import escape

import streamlit as st

from app import services, services_compare
from app.compare import address
from app.compare.maps import methods
from app.compare.subject import FOREIGN, Subject
from app.style import text
from app.words import count, literal

SIDES = {"prompt": "Prompts", "worst": "Outputs, worst phase", "best": "Outputs, best phase"}
NEAR, MOST = 16, 1200  # equal tokens kept beside a change; tokens drawn on a side


def difference(subject: Subject) -> None:
    """The section under the pictures: which runs, prompts or outputs, and both texts."""
    found = [run for run in subject.runs if run["kind"] != FOREIGN and not run.get("is_control")]
    decode = all(run["kind"] == "decode" for run in found)
    names = _decoded(found) if decode else {run["key"]: run["name"] for run in found}
    if not names or (decode and len(names) < 2):
        return
    st.space("medium")
    text("section", "Token by token", tag="h2")
    columns = st.columns([1.2, 1.2, 1.6], vertical_alignment="bottom")
    first = _side_of(columns[0], "a", "First", names, 0)
    second = _side_of(columns[1], "b", "Second", names, min(1, len(names) - 1))
    if decode:
        (a, arm_a), (b, arm_b) = (side.rsplit(".", 1) for side in (first, second))
        asked = {"outputs": "decoded", "sample": _copy()["sample"]}
        told = services_compare.text(a, b, **asked, arm_a=int(arm_a), arm_b=int(arm_b))
        text("note", f"What was read or written behind prompt {asked['sample'] + 1}.")
    else:
        with columns[2]:
            side = _texts()
        asked = {"outputs": side} if side != "prompt" else _copy()
        told = services_compare.text(first, second, **asked)
    if told.get("reason"):
        text("note", subject.plain(told["reason"]))
    if told["ops"]:
        st.html(drawn(told, names[first], names[second]))


def _decoded(runs: list[dict]) -> dict[str, str]:
    """`KEY.ARM` → name.  Methods that read a given continuation all have its tokens: one of them
    stands for the run.
    """
    out = {}
    for run in runs:
        free = (services.spec(run["key"]) or {}).get("mode") == "free"
        for name, arm in methods(run).items():
            if free or arm == 0:
                told = f"{name}, {run['name']}" if len(runs) > 1 else name
                out[f"{run['key']}.{arm}"] = told if free else run["name"]
    return out


def _side_of(column, name: str, label: str, names: dict[str, str], usual: int) -> str:
    """Which text stands on one side; part of the link."""
    options = list(names)
    options = [options[usual], *(key for key in options if key != options[usual])]
    wanted = address.choice(name, options, st.session_state["compare-notes"])
    widget = address.shown(name, wanted)
    with column:
        return st.selectbox(
            label,
            list(names),
            format_func=names.get,
            key=widget,
            on_change=address.writes(name, widget),
        )


def _texts() -> str:
    """Prompts, or what was written at the worst or the best phase."""
    wanted = address.choice("text", list(SIDES), st.session_state["compare-notes"])
    widget = address.shown("text", wanted)
    return st.segmented_control(
        "Texts",
        list(SIDES),
        format_func=SIDES.get,
        key=widget,
        required=True,
        on_change=address.writes("text", widget),
        label_visibility="collapsed",
    )


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
