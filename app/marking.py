"""Marks put into a prompt by selecting in its text area, and a file of prompts as samples.

Knows the marks `{{target}}…{{/target}}`, `{{pad}}`, `{{question}}` and lines of JSON.  The service
judges whether they make a sample; this module only moves them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple

import streamlit as st

from app import state
from app.style import text
from app.words import count, sentence

MARK = re.compile(r"\{\{\s*(pad|target|/target|question|reply)\s*\}\}")
BUTTONS = {
    "target": "Mark as target",
    "pad": "Padding here",
    "question": "Question begins here",
    "answer": "Use as answer",
    "clear": "Remove marks",
}
MOST_PADS = 2
MOST_PASTED = 5_000_000  # characters; fewer go into the text, and the service judges them
AREA = ".st-key-editor textarea"

HTML = "".join(
    f'<button type="button" data-mark="{name}">{label}</button>' for name, label in BUTTONS.items()
)
CSS = """
:host, div { display: flex; flex-wrap: wrap; gap: .4rem; }
button { font: 400 .87rem var(--st-font); color: var(--st-text-color); cursor: pointer;
  background: transparent; border: 1px solid var(--st-border-color);
  border-radius: var(--st-button-radius); padding: .28rem .6rem; }
button:hover, button:focus-visible { border-color: var(--st-primary-color);
  color: var(--st-primary-color); }
"""
# A press must not take the selection from the text area, so the button's own focus is prevented.
# A paste of hundreds of megabytes would freeze the browser: its length alone goes to the service.
JS = """
export default function ({ data, parentElement, setTriggerValue }) {
  for (const button of parentElement.querySelectorAll("button")) {
    button.onmousedown = (event) => event.preventDefault();
    button.onclick = () => {
      const area = document.querySelector(data.area);
      if (!area) return;
      setTriggerValue("mark", { name: button.dataset.mark, text: area.value,
                                start: area.selectionStart, end: area.selectionEnd });
    };
  }
  document.onpaste = (event) => {
    if (!event.target.closest?.(data.area)) return;
    const length = event.clipboardData.getData("text").length;
    if (length <= data.most) return;
    event.preventDefault();
    setTriggerValue("paste", length);
  };
}
"""
_buttons = st.components.v2.component("phasescope_marks", html=f"<div>{HTML}</div>", css=CSS, js=JS)


class Bare(NamedTuple):
    """A text without its marks, and where they stood in it."""

    text: str
    marks: list[tuple[int, str]]  # (offset in text, name), in order


def strip_marks(marked: str) -> Bare:
    bare, marks, done = "", [], 0
    for found in MARK.finditer(marked):
        bare += marked[done : found.start()]
        done = found.end()
        marks.append((len(bare), found[1]))
    return Bare(bare + marked[done:], marks)


def offset(marked: str, place: int) -> int:
    """A place in the marked text as an offset in the bare text; inside a mark: where it stands."""
    out = place
    for found in MARK.finditer(marked):
        if found.start() >= place:
            break
        out -= min(place, found.end()) - found.start()
    return out


def put_mark(marked: str, name: str, start: int, end: int) -> str:
    """The text with one more mark at a selection; a target or question marked before moves there.

    A third padding place takes the place of the nearer of the two.  `clear` removes all marks.
    """
    bare, marks = strip_marks(marked)
    low, high = offset(marked, min(start, end)), offset(marked, max(start, end))
    if name == "clear":
        marks = []
    elif name == "target":
        if low == high:
            return marked
        marks = [m for m in marks if m[1] not in ("target", "/target")]
        marks += [(low, "target"), (high, "/target")]
    elif name == "pad":
        pads = [m for m in marks if m[1] == "pad"]
        if len(pads) >= MOST_PADS:
            marks.remove(min(pads, key=lambda m: abs(m[0] - low)))
        marks.append((low, "pad"))
    else:
        marks = [m for m in marks if m[1] != name] + [(low, name)]
    order = {"/target": 0, "pad": 1, "question": 2, "reply": 3, "target": 4}
    out, done = "", 0
    for place, kind in sorted(marks, key=lambda m: (m[0], order[m[1]])):
        out += bare[done:place] + "{{" + kind + "}}"
        done = place
    return out + bare[done:]


def by_selection(text_widget: str, answer_widget: str, too_long: Callable[[int], str]) -> None:
    """Buttons that mark what is selected in the prompt's text area; guards it from a huge paste.

    `too_long`: why a text of so many characters is refused.
    """

    def apply() -> None:
        told = state.value("marks", {}).get("mark")
        if not told:
            return
        now, name = str(told["text"]), str(told["name"])
        start, end = int(told["start"]), int(told["end"])
        if name == "answer":
            chosen = MARK.sub("", now[start:end])
            if chosen:
                state.put(answer_widget, chosen)
            state.put(text_widget, now)
        elif name in BUTTONS:
            state.put(text_widget, put_mark(now, name, start, end))

    def refuse() -> None:
        length = int(state.value("marks", {}).get("paste") or 0)
        told = too_long(length) or f"{length:,} characters are too many for one paste"
        state.put("pasted", (state.value(text_widget, ""), told))

    data = {"area": AREA, "most": MOST_PASTED}
    before, told = state.value("pasted", ("", ""))
    if told and before == state.value(text_widget, ""):  # until the text is changed
        text("error", sentence(told))
    _buttons(key="marks", data=data, on_mark_change=apply, on_paste_change=refuse)
    st.caption("Select in the text above, then press: the marks are put in for you.")


def upload(prompts_widget: str, samples_widget: str, present: list) -> None:
    """A JSONL of prompts, each line one sample; the service checks every line."""
    if present:
        text(
            "note", f"{count(len(present), 'prompt')} from a file stand in place of the text above."
        )

        def drop() -> None:
            state.put(prompts_widget, [])
            state.put(samples_widget, 1)

        st.button("Remove the file's prompts", key="drop-prompts", on_click=drop)
    given = st.file_uploader(
        "Or your own prompts, one JSON object a line",
        type=["jsonl", "json", "ndjson", "txt"],
        key="prompts-file",
        max_upload_size=64,
        help="Keys of a line: text, answer, rivals, slots, target, question. Slots and "
        "target are character "
        "offsets; marks in the text do the same.",
    )
    if given is None:
        return
    if state.value("prompts-read", None) == given.file_id:
        return
    prompts, problem = read_lines(given.getvalue())
    if problem:
        text("error", problem)
        return

    def use() -> None:
        state.put(prompts_widget, prompts)
        state.put(samples_widget, len(prompts))
        state.put("prompts-read", given.file_id)

    st.button(
        f"Use these {count(len(prompts), 'prompt')}",
        key="use-prompts",
        on_click=use,
        type="primary",
    )


def read_lines(data: bytes) -> tuple[list[dict], str]:
    """(prompts, "") or ([], what is wrong, with its line)."""
    try:
        lines = data.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        return [], f"Line {line} is not UTF-8; save the file as UTF-8."
    prompts = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            return [], f"Line {number} is no JSON object: {error.msg}."
        except RecursionError:
            return [], f"Line {number} is no JSON object: nested too deeply."
        except ValueError:  # Python reads no integer of more than some thousand digits
            return [], f"Line {number} holds a whole number of thousands of digits."
        if not isinstance(value, dict):
            return (
                [],
                f"Line {number} is no JSON object but {sentence(type(value).__name__).lower()}.",
            )
        prompts.append(value)
    return (
        (prompts, "")
        if prompts
        else ([], "The file holds no prompt; one JSON object a line is read.")
    )
