"""Arrow keys and the buttons beside the slider: from event to event.

Inline JavaScript of the page's own: Streamlit gives no keys to the script.
"""

from __future__ import annotations

import streamlit as st

from app import state

EVENT = "event"  # the slider's key, in the address too

JS = """
export default function ({ data, setTriggerValue }) {
  const busy = "input, textarea, select, [contenteditable=true], [role=slider], [role=tab], " +
    "[role=listbox], [role=option], [role=combobox], [role=radio]";
  const press = (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || event.target.closest?.(busy)) return;
    if (!document.querySelector(data.place)) return;
    event.preventDefault();
    setTriggerValue("by", by);
  };
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}
"""
_keys = st.components.v2.component("phasescope_steps", html="<span></span>", js=JS)


def move(by: int, most: int) -> None:
    """To the next or the former event; not beyond the first and the last."""
    now = int(state.value(EVENT, 1) or 1)
    state.put(EVENT, min(most, max(1, now + by)))
    state.chosen(EVENT)


def steps(most: int) -> int:
    """Slider and buttons over events 1 to `most`; returns the chosen one."""
    told = state.unfit(EVENT, list(range(1, most + 1)))
    now = int(state.value(EVENT, None) or 1)
    back, slide, on = st.columns([1, 12, 1], vertical_alignment="bottom")
    back.button(
        "",
        icon=":material/chevron_left:",
        key="event-back",
        help="Former event (←)",
        disabled=now <= 1,
        on_click=move,
        args=(-1, most),
        width="stretch",
    )
    with slide:
        if most > 1:
            now = st.slider(
                f"Event, 1 to {most}",
                1,
                most,
                key=EVENT,
                bind="query-params",
                on_change=state.chosen,
                args=(EVENT,),
            )
        else:
            st.caption("The only event of this run")
            now = 1
    on.button(
        "",
        icon=":material/chevron_right:",
        key="event-on",
        help="Next event (→)",
        disabled=now >= most,
        on_click=move,
        args=(1, most),
        width="stretch",
    )

    def pressed() -> None:
        by = state.value("event-keys", {}).get("by")
        if by:
            move(int(by), most)

    data = {"place": ".st-key-event-on"}
    _keys(key="event-keys", data=data, height=1, on_by_change=pressed)
    if told is not None:
        st.html(
            f'<p class="ps-note ps-text">The link named an event that is not among the {most} '
            "here; the first is shown.</p>"
        )
    return now
