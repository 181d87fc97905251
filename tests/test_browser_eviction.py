"""The Eviction page in a real browser against a real service: three events, and what they kept."""

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


def test_events_are_stepped_through_and_the_kept_tokens_read(address, browser):  # noqa: F811
    page = open_page(browser)
    page.goto(address)
    page.get_by_text("Open the positive control").first.wait_for()  # stored results are in
    page.get_by_text("How many beacons among 32 queries").first.click()
    page.locator(".st-key-kept").wait_for()
    settled(page)
    seen = []
    for event in (1, 2, 3):
        page.wait_for_function(
            "n => n === '1' || new URLSearchParams(location.search).get('event') === n",
            arg=str(event),
        )
        settled(page)
        kept = page.locator(".st-key-kept").inner_text()
        assert kept.strip()
        seen.append(kept)
        if event < 3:
            page.locator(".st-key-event-on").get_by_role("button", name="chevron_right").click()
    assert len(set(seen)) == 3
    picture(page, "13-eviction")
    page.get_by_role("tab", name="Quality against budget").click()
    page.get_by_text("Every number").first.wait_for()
    picture(page, "14-quality")
