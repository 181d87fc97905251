"""Two people and one comparison: saved, opened elsewhere by its link, forked, undisturbed."""

from __future__ import annotations

from test_browser import (  # noqa: F401  (fixtures and the marks of every browser test)
    address,
    browser,
    chromium,
    open_page,
    picture,
    pytestmark,
    settled,
)

from engine.kinds import read_spec
from engine.presets import find

NUMBERS = """() => [...document.querySelectorAll('.js-plotly-plot')].map(
  plot => plot.data.map(line => [line.name || '', Array.from(line.y || [])]))"""


def key(preset: str) -> str:
    return read_spec(find(preset).spec).key


def drawn(page) -> list:
    """The numbers of every chart on the page, as the browser has them."""
    page.locator(".js-plotly-plot").first.wait_for()
    settled(page)
    return page.evaluate(NUMBERS)


def save(page, button: str, name: str) -> str:
    """Press Save view or Fork, give a name; returns the view's id from the address."""
    before = page.url
    page.get_by_role("button", name=button, exact=True).click()
    box = page.get_by_role("dialog")
    field = box.get_by_role("textbox", name="Name")
    field.fill(name)
    field.press("Tab")
    settled(page)
    box.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_function(
        "u => location.href !== u && location.search.includes('view=')", arg=before
    )
    page.get_by_text(f"View “{name}”").first.wait_for()
    return page.evaluate("() => new URLSearchParams(location.search).get('view')")


def test_a_comparison_is_saved_opened_elsewhere_and_forked(address, browser):  # noqa: F811
    runs = ",".join(map(key, ("smollm2-onehot", "smollm2-mean", "smollm2-full")))
    ann = open_page(browser)
    ann.goto(address)
    ann.get_by_text("Open the positive control").first.wait_for()  # stored results are in
    ann.goto(f"{address}/compare?runs={runs}&chart=residues")
    told = drawn(ann)
    assert sum(len(plot) for plot in told) >= 3
    table = ann.locator(".ps-compare").inner_text()
    id = save(ann, "Save view", "Three memories <b>& one prompt</b> – ω")
    picture(ann, "15-compare")

    ben = open_page(browser)
    ben.goto(f"{address}/?view={id}")
    ben.get_by_text("View “Three memories <b>& one prompt</b> – ω”").first.wait_for()
    assert drawn(ben) == told
    assert ben.locator(".ps-compare").inner_text() == table
    fork = save(ben, "Fork", "Ben's own")
    assert fork != id

    ann.goto(f"{address}/?view={id}")
    ann.get_by_text("View “Three memories").first.wait_for()
    assert drawn(ann) == told
    ann.goto(f"{address}/library")
    for name in ("Three memories", "Ben's own"):
        ann.get_by_role("link", name=name).first.wait_for()
    picture(ann, "16-library")
    ann.get_by_role("link", name="Ben's own").first.click()
    ann.get_by_text("View “Ben's own”").first.wait_for()
    ann.go_back()
    ann.get_by_text("lose a phase").first.wait_for()

    ben.goto(f"{address}/?view={id}")
    ben.get_by_text("View “Three memories").first.wait_for()
    ben.go_back()  # to the bare link, which does not send him forward again
    ben.get_by_text("Open the view again").first.wait_for()
