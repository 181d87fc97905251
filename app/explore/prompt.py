"""The prompt as tokens with the window grid on it, and the editor of long task fields."""

from __future__ import annotations

import streamlit as st

from app import controls, fields, marking, services, state, tokens
from app.explore.subject import Subject
from app.style import text
from app.words import count, literal, sentence

LIMIT = 72


def prompt(subject: Subject) -> None:
    """Strip, legend with the switch to the whole prompt, and the editor."""
    plan = subject.plan
    if plan:
        total = len(plan["strip"]["tokens"])
        whole = total <= LIMIT or bool(state.value("full", False))
        legend = tokens.legend(
            plan["strip"],
            answer=first_text(plan),
            filler=plan["filler"]["text"],
            modulus=subject.modulus,
            protocol=subject.protocol,
        )
        if subject.outdated:
            text("note", "The last valid prompt; what the form says now cannot be drawn yet.")
        with st.container(key="prompt", gap="xsmall"):
            st.html(tokens.strip(plan["strip"], limit=total if whole else LIMIT))
            with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
                st.html(legend, width="content")
                if total > LIMIT:
                    st.toggle(f"Show all {count(total, 'token')}", key="full", bind="query-params")
    editor(subject)


def first_text(plan: dict) -> str:
    target = next((t["text"] for t in plan["strip"]["tokens"] if t.get("target")), "")
    return target or plan["answer"]["text"]


def editor(subject: Subject) -> None:
    """The fields of a task that the user writes; open while the prompt is new or has an error."""
    draft = state.draft()
    known = fields.sections(subject.schema, draft)["task"]
    if not fields.written(known):
        return
    kind = draft["task"]["kind"]
    asked = [f for f in known if fields.shown(f, draft["task"]) and f["name"] not in fields.EDITED]
    wrong = [(f, m) for f, m in subject.errors if f.startswith("task")]
    fresh = subject.run is None and kind == "custom"
    with (
        st.expander("Edit the prompt", expanded=bool(wrong) or fresh, icon=":material/edit:"),
        st.container(key="editor"),
    ):
        for field in [f for f in asked if f.get("long")]:
            controls.draw("task", field, draft)
            _tell(wrong, field["name"])
            if field["name"] == "text" and "target" in {f["name"] for f in known}:
                marking.by_selection(
                    fields.widget_key("task", kind, "text"),
                    fields.widget_key("task", kind, "answer"),
                    lambda characters: services.too_long(draft, "task.text", characters),
                )
        short = [f for f in asked if not f.get("long")]
        for start in range(0, len(short), 4):
            row = short[start : start + 4]
            for column, field in zip(st.columns(4), row, strict=False):
                with column:
                    controls.draw("task", field, draft)
                    _tell(wrong, field["name"])
        for name in fields.EDITED:
            _tell(wrong, name)
        if subject.plan and not subject.errors:
            st.html(answer_line(subject.plan))
        if "prompts" in {f["name"] for f in known}:
            marking.upload(
                fields.widget_key("task", kind, "prompts"),
                fields.widget_key("settings", "", "samples"),
                draft["task"].get("prompts") or [],
            )


def _tell(wrong: list[tuple[str, str]], name: str) -> None:
    for field, message in wrong:
        if field == f"task.{name}" or field.startswith(f"task.{name}."):
            text("error", sentence(message))


def answer_line(plan: dict) -> str:
    """The tokens of the gold answer and each rival's first, each in its own box."""
    gold = "".join(
        f'<bdi class="ps-tok ps-target">{literal(t["text"])}</bdi>'
        for t in plan["answer"]["tokens"]
    )
    parts = [
        (
            f'<span class="ps-item">gold&nbsp; {gold}&nbsp; '
            f"{count(len(plan['answer']['tokens']), 'token')}</span>"
        )
    ]
    for rival in plan.get("rivals") or ():
        first = rival.get("token") or rival["text"]
        box = f'<bdi class="ps-tok ps-pad">{literal(first)}</bdi>'
        whole = (
            "" if first == rival["text"] else f"&nbsp; the first token of {literal(rival['text'])}"
        )
        parts.append(f'<span class="ps-item">rival&nbsp; {box}{whole}</span>')
    told = plan.get("rivals") or ()
    long = len(plan["answer"]["tokens"]) > 1 or any(r.get("token") != r["text"] for r in told)
    if told and long:
        parts.append("<span>Gold is read whole, a rival by its first token alone</span>")
    return f'<div class="ps-legend">{"".join(parts)}</div>'
