"""The only reader and writer of the address: every state of a page is a plain link.

`?key=K` names a spec or a run; the other parameters are those of bound widgets  and
carry what is looked at.  Between reruns the session keeps a draft that is not yet a valid spec.
Knows Streamlit's session and address.  Knows nothing about the engine or how a page looks.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import streamlit as st

KEY = re.compile(r"[0-9a-f]{8,64}")
WHOLE = re.compile(r"[0-9]{1,9}")
# Widgets bound to the address by Streamlit: tab, x, a, b, sample, layer, head, at, q, k, full.
CELL = ("cq", "ck")  # the chosen cell, as two indices
SEVERAL = "\x1f"  # between several values of one parameter
FORM = "f:"  # prefix of every form widget's key
PAGES = Path(__file__).with_name("app_pages")


def start() -> Any:
    """The gallery.  The default page has no path of its own, so no link to it holds a state."""
    return _page("start.py", title="Start", default=True)


def explore() -> Any:
    return _page("explore.py", title="Explore", url_path="explore")


def _page(file: str, **options: Any) -> Any:
    """Made once a session: its path is looked up on the disk, and Start has a dozen links."""
    made = st.session_state.setdefault("pages", {})
    if file not in made:
        made[file] = st.Page(PAGES / file, **options)
    return made[file]


def benchmark() -> Any:
    """The family of controlled models."""
    return st.Page(PAGES / "benchmark.py", title="Benchmark", url_path="benchmark")


def eviction() -> Any:
    """What a cache forgets while it decodes."""
    return _page("eviction.py", title="Eviction", url_path="eviction")


def compare() -> Any:
    """Runs side by side."""
    return _page("compare.py", title="Compare", url_path="compare")


def library() -> Any:
    """All runs and views."""
    return _page("library.py", title="Library", url_path="library")


def pages() -> list[Any]:
    """All pages, in the order of the navigation."""
    return [start(), explore(), benchmark(), eviction(), compare(), library()]


def page_named(path: str) -> Any:
    """The page of an address's last part; the gallery where there is none."""
    return next((page for page in pages() if page.url_path == path), start())


def stand_on(page: Any) -> None:
    st.session_state["page"] = page.url_path


def page_name() -> str:
    """The address's last part of the page that is shown; "" for the gallery."""
    return st.session_state.get("page", "")


def kept() -> dict[str, str]:
    """The address's parameters as a view keeps them; several values of one are one text."""
    names = [name for name in st.query_params if name != "view"]
    return {name: SEVERAL.join(st.query_params.get_all(name)) for name in names}


def query(view: dict) -> dict[str, str | list[str]]:
    """The query of a link that opens a view."""
    held = {n: v.split(SEVERAL) if SEVERAL in v else v for n, v in view["state"].items()}
    return held | {"view": view["id"]}


def opened() -> tuple[str, str]:
    """(run key, member name) that the Benchmark page has open; "" where the address has none."""
    return st.query_params.get("run", ""), st.query_params.get("open", "")


def open_below(*, run: str = "", member: str = "") -> None:
    """Open a run or a member on the Benchmark page, in place of what was open."""
    for name, given in (("run", run), ("open", member)):
        if given:
            st.query_params[name] = given
        else:
            st.query_params.pop(name, None)
    if run or member:
        st.session_state["scrolls"] = scrolls() + 1


def scrolls() -> int:
    """How often something was opened in this session: what was opened comes into view once."""
    return st.session_state.get("scrolls", 0)


def key() -> str | None:
    """The key in the address as it was given, or the one last looked at; None at first."""
    given = st.query_params.get("key")
    if given is not None:
        return given
    return None if wanted_task() else st.session_state.get("key") or None


def well_formed(text: str) -> bool:
    return bool(KEY.fullmatch(text))


def wanted_task() -> str | None:
    """`?new=custom`: a fresh form with that task."""
    return st.query_params.get("new")


def go(new: str, spec: dict) -> None:
    """Make a valid spec the page's subject, its values in the form in place of what was typed."""
    point_at(new)
    load(new, spec)


def adopt(new: str, spec: dict, corrected: list[str]) -> None:
    """Make what the form says the page's subject; only `corrected` widgets take the spec's value.

    The others are left alone: a reader may be changing one of them at this moment, and a value
    set from here would win over that change.
    """
    point_at(new)
    for widget in corrected:
        st.session_state.pop(widget, None)
    _remember(new, spec)


def point_at(new: str) -> None:
    """Name the page's subject in the address, where the navigation leaves it out."""
    st.session_state["key"] = new
    if st.query_params.get("key") != new:
        st.query_params["key"] = new
        for name in CELL:  # a cell of the former subject
            st.query_params.pop(name, None)
            st.session_state.pop(name, None)
    st.query_params.pop("new", None)


def load(name: str, spec: dict) -> None:
    """Fill the form from a spec, dropping what was typed."""
    for widget in [k for k in st.session_state if str(k).startswith(FORM)]:
        del st.session_state[widget]
    forget_padding()
    _remember(name, spec)


def _remember(name: str, spec: dict) -> None:
    st.session_state["loaded"] = name
    st.session_state["base"] = copy.deepcopy(spec)
    st.session_state["draft"] = copy.deepcopy(spec)


def change_padding(former: str, now: str) -> None:
    """The page put a padding in place of the one that the prompt's marks no longer allow."""
    st.session_state["padding"] = (former, now)


def changed_padding() -> tuple[str, str]:
    """(former, present) padding where the page changed it; twice "" where it did not."""
    return st.session_state.get("padding", ("", ""))


def forget_padding() -> None:
    st.session_state.pop("padding", None)


def loaded() -> str | None:
    return st.session_state.get("loaded")


def base() -> dict:
    """The valid spec that the form was last filled from."""
    return st.session_state["base"]


def draft() -> dict:
    """What the form said at the end of the last run of the page."""
    return st.session_state["draft"]


def keep_draft(spec: dict) -> None:
    st.session_state["draft"] = spec


def forget() -> None:
    """Leave the present subject, so that a page without a key starts afresh."""
    for name in ("key", "loaded", "base", "draft"):
        st.session_state.pop(name, None)


class Edited:
    """A spec that a page's form edits under a key in the address, apart from other pages' forms.

    `prefix` begins every key of the form's widgets; `name` is the page's place in the session;
    `parameter` holds the key in the address.
    """

    def __init__(self, prefix: str, name: str, parameter: str = "key"):
        self.prefix, self.name, self.parameter = prefix, name, parameter

    def key(self) -> str | None:
        """The key in the address as it was given, or the one last looked at; None at first."""
        given = st.query_params.get(self.parameter)
        return given if given is not None else st.session_state.get(f"{self.name}-key")

    def point_at(self, key: str) -> None:
        st.session_state[f"{self.name}-key"] = key
        if st.query_params.get(self.parameter) != key:
            st.query_params[self.parameter] = key

    def load(self, key: str, spec: dict) -> None:
        """Fill the form from a spec, dropping what was typed."""
        for widget in [k for k in st.session_state if str(k).startswith(self.prefix)]:
            del st.session_state[widget]
        st.session_state.pop("unfit", None)
        self.remember(key, spec)

    def remember(self, key: str, spec: dict) -> None:
        st.session_state[f"{self.name}-loaded"] = key
        st.session_state[f"{self.name}-base"] = copy.deepcopy(spec)

    def loaded(self) -> str | None:
        return st.session_state.get(f"{self.name}-loaded")

    def base(self) -> dict:
        """The valid spec that the form was last filled from."""
        return st.session_state[f"{self.name}-base"]

    def drawn(self) -> bool:
        """Whether the form's widgets hold anything."""
        return any(str(k).startswith(self.prefix) for k in st.session_state)

    def forget(self) -> None:
        st.query_params.pop(self.parameter, None)
        for part in ("key", "loaded", "base"):
            st.session_state.pop(f"{self.name}-{part}", None)


decode = Edited("e:", "decode")
measured = Edited("b:", "measured", "form")  # the Benchmark page's form


def unfit(name: str, options: list) -> str | None:
    """What the address gave a bound widget that this run does not offer; None where it fits.

    Streamlit takes such a value out of the address, so it is kept here until the reader chooses.
    """
    given = st.query_params.get(name)
    kept = st.session_state.setdefault("unfit", {})
    if given is not None and given not in [str(o) for o in options]:
        kept[name] = given
    within(name, options)
    return kept.get(name)


def chosen(name: str) -> None:
    """The reader chose: what the address had given is no longer told."""
    st.session_state.get("unfit", {}).pop(name, None)


def drop(widget: str) -> None:
    st.session_state.pop(widget, None)


def seed(widget: str, value: Any) -> None:
    """Give a widget its value before it is drawn, unless it has one."""
    if widget not in st.session_state:
        st.session_state[widget] = value


def value(widget: str, default: Any) -> Any:
    return st.session_state.get(widget, default)


def put(widget: str, value: Any) -> None:
    st.session_state[widget] = value


def cell(limits: tuple[int, int]) -> None:
    """Seed the two lists of the chosen cell from the address; what does not fit is dropped."""
    for name, limit in zip(CELL, limits, strict=True):
        given = st.query_params.get(name, "")
        if name not in st.session_state and WHOLE.fullmatch(given):
            st.session_state[name] = int(given)
        if not isinstance(st.session_state.get(name), int) or st.session_state[name] >= limit:
            st.session_state[name] = None


def whole(name: str) -> None:
    """Before a bound number is drawn: take out of the address what is no whole number of its size.

    Streamlit reads `inf` and `1e999` as a number that no whole one can be made of.  It takes what
    a page began with, so the page begins again.
    """
    if not all(WHOLE.fullmatch(given) for given in st.query_params.get_all(name)):
        del st.query_params[name]
        st.rerun()


def keep_cell() -> None:
    """Write the chosen cell into the address."""
    for name in CELL:
        value = st.session_state.get(name)
        if value is None:
            if name in st.query_params:
                del st.query_params[name]
        elif st.query_params.get(name) != str(value):
            st.query_params[name] = str(value)


def within(widget: str, options: list) -> None:
    """Drop a bound widget's value that this run does not offer (an old link, another model)."""
    if widget in st.session_state and st.session_state[widget] not in options:
        del st.session_state[widget]


def number(name: str, default: int) -> int:
    """A whole number of at least 1 in the address; what is none is the default."""
    given = st.query_params.get(name, "")
    return max(1, int(given[:6])) if given.isascii() and given.isdigit() else default


def set_number(name: str, value: int) -> None:
    st.query_params[name] = str(value)


def set_read_only(on: bool) -> None:
    st.session_state["read-only"] = on


def read_only() -> bool:
    """Whether readers of this service may only look."""
    return bool(st.session_state.get("read-only"))


def theme() -> str:
    """`light` or `dark`, as the reader's browser shows it now."""
    return getattr(st.context.theme, "type", None) or "light"
