"""The dashboard's frame: navigation, logo, style, and what to say when the service is away.

Run by `streamlit run app/main.py`.  A client of the service like any other.
"""

import logging
import sys
from pathlib import Path

import streamlit as st

ROOT = Path(__file__).resolve().parent
if str(ROOT.parent) not in sys.path:  # Streamlit puts this folder on the path, not its parent
    sys.path.insert(0, str(ROOT.parent))

from app import gate, heap, services, sharing, state, style  # noqa: E402

log = logging.getLogger("phasescope")
LOST = "The engine service is not running"
HOW = (
    "This page is a client of it. Start it with `make run` or `phasescope serve`, then "
    "press Try again."
)


def main() -> None:
    st.set_page_config(
        page_title="Phasescope",
        page_icon=str(ROOT / "assets" / "icon.svg"),
        layout="wide",
        initial_sidebar_state=288,
    )
    style.apply()
    st.logo(str(style.logo()), size="large")
    chosen = st.navigation(state.pages(), position="top")
    state.stand_on(chosen)
    try:
        if not gate.entered():
            return
        state.set_read_only(services.read_only())
        if sharing.resolve():
            sharing.bar()
            chosen.run()
            sharing.notices()
            heap.settle(chosen.url_path)
    except services.Unavailable:
        style.text("finding", LOST, tag="div")
        st.markdown(HOW)
        st.button("Try again", type="primary")
    except Exception as error:  # a reader gets a sentence, the log the whole of it
        log.exception("page failed")
        style.text("finding", "This page could not be drawn", tag="div")
        style.text("doubt", f"{services.reason(error)} The dashboard's log has the details.")
        st.button("Try again", type="primary")


main()
