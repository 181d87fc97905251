"""The whole story in a real browser against a real service, with a picture of each step.

preset → change stride → run → progress → curve → attention cell → the link in a second browser.
Pictures go to `artifacts/`.  Skipped where there is no Chromium or no model, with the reason.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from xml.etree import ElementTree

import pytest

from engine.models import catalog

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "artifacts"
BROWSER = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
)
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
MODEL = "smollm2-135m"
REQUIRED = bool(os.environ.get("PHASESCOPE_BROWSER_REQUIRED"))  # CI: a skip would hide a failure
PATIENCE = 400_000  # ms: a machine under load measures slowly

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(
        BROWSER is None and not REQUIRED, reason="no Chromium or Chrome on this machine"
    ),
    pytest.mark.skipif(
        not catalog.installed(MODEL) and not REQUIRED, reason=f"model {MODEL} is not pulled"
    ),
]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A service with a home of its own, and the dashboard over it."""
    from engine import paths

    home = tmp_path_factory.mktemp("home")
    environment = os.environ | {
        "PHASESCOPE_HOME": str(home),
        "PHASESCOPE_MODELS": str(paths.models()),
    }
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    log = open(home / "test.log", "w")  # noqa: SIM115  (closed with the processes)
    serve = [sys.executable, "-m", "engine", "serve", "--port", "0"]
    dash = [sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.port", str(port)]
    dash += ["--server.headless", "true"]
    running = []
    try:
        for command in (serve, dash):
            running.append(
                subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
            )
        _wait(lambda: (home / "service.json").exists(), "the service", 300)
        _wait(
            lambda: urllib.request.urlopen(f"{url}/_stcore/health", timeout=2).status == 200,
            "the page",
            300,
        )
        yield url
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(timeout=60)
        log.close()


def _wait(ready, what: str, limit: float) -> None:
    end = time.monotonic() + limit
    while time.monotonic() < end:
        try:
            if ready():
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise TimeoutError(f"{what} did not come up in {limit:.0f} s")


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as driver:
        engine = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield engine
        engine.close()


@pytest.fixture
def browser(chromium):
    """One test's browser: its pages are closed behind it, an open page goes on working."""
    yield chromium
    for context in chromium.contexts:
        context.close()


def open_page(browser, width: int = 1280, height: int = 800, scheme: str = "light"):
    page = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme
    ).new_page()
    page.set_default_timeout(PATIENCE)
    return page


def picture(page, name: str, whole: bool = True) -> None:
    """A picture of the page, once its charts are drawn."""
    settled(page)
    size = page.viewport_size
    if whole:
        tall = page.evaluate("() => document.querySelector('[data-testid=stMain]').scrollHeight")
        page.set_viewport_size({"width": size["width"], "height": max(size["height"], int(tall))})
        page.wait_for_timeout(400)
    page.screenshot(path=PICTURES / f"{name}.png")
    page.set_viewport_size(size)


def drawn(page, chart: str) -> list:
    """Names of the traces that Plotly drew in one chart."""
    place = f".st-key-chart-{chart} .js-plotly-plot"
    page.wait_for_function("p => document.querySelector(p)?._fullData?.length", arg=place)
    return page.evaluate("p => document.querySelector(p)._fullData.map(t => t.name)", place)


def settled(page) -> None:
    """Wait until the script has ended and nothing of its last run is left on the page."""
    page.wait_for_function(
        "() => document.querySelector('[data-testid=stApp]')?.dataset.testScriptState"
        " === 'notRunning' && document.fonts.status === 'loaded'"
        " && !document.querySelector('[data-stale=true], [data-testid=stSkeleton]')"
    )


def set_number(page, label: str, value: int) -> None:
    settled(page)
    field = page.get_by_label(label, exact=True)
    field.fill(str(value))
    field.press("Enter")


def test_the_whole_story(address, browser):
    page = open_page(browser)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    page.get_by_text("some positions better than others").wait_for()
    picture(page, "1-start")

    # a preset from the gallery opens at once, with its finding
    page.get_by_text("Open the positive control").first.click()
    page.get_by_text("Every fourth token the answer").first.wait_for()
    assert "full cache" in drawn(page, "curve")
    before = page.url
    picture(page, "1-preset")

    # a bad value is told at its field
    set_number(page, "Stride S", 9)
    page.get_by_text("windows would leave gaps").wait_for()
    page.locator(".st-key-run button[disabled]").first.wait_for()
    picture(page, "2-refused")

    # another stride, few prompts
    set_number(page, "Stride S", 2)
    page.get_by_text("configured 2").first.wait_for()
    set_number(page, "Prompts n", 2)
    page.get_by_text(re.compile(r"^32 copies")).first.wait_for()
    set_number(page, "Residues R", 4)
    page.get_by_text(re.compile(r"^8 copies")).first.wait_for()
    page.get_by_text("not measured yet").first.wait_for()
    assert page.url != before
    picture(page, "3-before")

    # run, progress, a reload in the middle, the curve
    settled(page)
    page.locator(".st-key-run button:not([disabled])").click()
    page.get_by_text(re.compile("Measuring|Waiting for the worker")).first.wait_for()
    link = page.url
    page.reload()
    page.get_by_text(re.compile(r"\d+ of \d+ copies|Full cache, gap")).first.wait_for()
    picture(page, "4-running")
    page.get_by_text("Full cache, gap").first.wait_for()
    names = drawn(page, "curve")
    assert "full cache" in names
    assert any(name.startswith("gold") for name in names)
    assert page.url == link
    picture(page, "5-done")

    # an attention cell by a click on the map
    settled(page)
    page.get_by_role("tab", name="Attention").click()
    page.locator(".st-key-chart-attention .js-plotly-plot[data-clicks=on]").wait_for()
    area = page.locator(".st-key-chart-attention .nsewdrag").first
    area.scroll_into_view_if_needed()
    size = area.bounding_box()
    area.click(position={"x": size["width"] * 0.1, "y": size["height"] * 0.6})
    page.get_by_text(re.compile(r"Query \d+ .* reads key .* with weight")).wait_for()
    told = page.locator("[data-cell]").inner_text()
    page.wait_for_url(re.compile("cq=.*ck=|ck=.*cq="))
    picture(page, "6-attention")

    # the link in a second browser
    other = open_page(browser, 1920, 1080, "dark")
    other.goto(page.url)
    other.get_by_text(re.compile(r"Query \d+ .* reads key")).wait_for()
    assert other.locator("[data-cell]").inner_text() == told
    assert other.locator(".ps-finding").inner_text() == page.locator(".ps-finding").inner_text()
    picture(other, "7-second-browser-dark")
    assert not errors


def test_every_tab_is_a_link(address, browser):
    page = open_page(browser)
    page.goto(address)
    page.get_by_text("Recent runs").first.wait_for()
    page.locator(".st-key-recent a").first.click()
    page.get_by_text("Power by period").first.wait_for()
    fresh = open_page(browser)
    for tab in ("Top tokens", "Token difference", "Design table", "Layers", "Run details"):
        settled(page)
        before = page.url
        page.get_by_role("tab", name=tab).click()
        page.wait_for_function("before => location.href !== before", arg=before)
        assert "tab=" in page.url
        fresh.goto(page.url)
        fresh.wait_for_function(
            "n => document.querySelector('[role=tab][aria-selected=true]')?.innerText.trim() === n",
            arg=tab,
        )
        settled(fresh)
        assert fresh.get_by_text("could not be drawn").count() == 0
        picture(fresh, f"8-{tab.lower().replace(' ', '-')}")


def test_own_prompt_is_marked_by_selection(address, browser):
    page = open_page(browser)
    page.goto(f"{address}/explore?new=custom")
    area = page.locator(".st-key-editor textarea")
    area.wait_for()
    page.get_by_text("not measured yet").first.wait_for()
    settled(page)
    area.evaluate(
        "(a) => { const at = a.value.indexOf('AX31'); a.focus(); a.setSelectionRange(at, at + 4); }"
    )
    page.get_by_role("button", name="Mark as target").click()
    page.wait_for_function(
        "() => document.querySelector('.st-key-editor "
        "textarea').value.includes('{{target}}AX31{{/target}}')"
    )
    picture(page, "9-own-prompt")
    assert area.input_value().count("{{target}}") == 1  # the former mark is gone


def test_theme_switch_redraws_the_charts(address, browser):
    page = open_page(browser)
    page.goto(f"{address}/explore")
    page.get_by_text("Probability of the answer over").first.wait_for()
    colour = (
        "() => document.querySelector('.st-key-chart-curve "
        ".js-plotly-plot').layout.title.font.color"
    )
    page.wait_for_function("() => document.querySelector('.st-key-chart-curve .js-plotly-plot')")
    assert page.evaluate(colour) == "#1D2025"
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"() => ({colour})() === '#E9EAEC'")
    picture(page, "10-dark")


def test_an_unknown_link_has_a_way_back(address, browser):
    page = open_page(browser)
    page.goto(f"{address}/explore?key=deadbeef0000")
    page.get_by_text("No such view here").wait_for()
    picture(page, "11-unknown")
    page.get_by_text("Back to the gallery").click()
    page.get_by_text("some positions better than others").wait_for()
    assert "deadbeef" not in page.url
    assert page.get_by_text("No such view here").count() == 0


def test_a_chart_is_saved_as_picture_and_table(address, browser, tmp_path):
    page = open_page(browser)
    page.goto(address)
    page.get_by_text("Open the positive control").first.click()
    drawn(page, "curve")
    settled(page)
    saved = {}
    for form in ("PNG", "SVG", "CSV"):
        if not page.locator(f".st-key-{form.lower()}-curve button").is_visible():
            page.locator(".st-key-menu-curve button").first.click()
        with page.expect_download(timeout=PATIENCE) as caught:
            page.locator(f".st-key-{form.lower()}-curve button").click()
        assert caught.value.suggested_filename == f"phasescope-curve.{form.lower()}"
        caught.value.save_as(tmp_path / form)
        saved[form] = (tmp_path / form).read_bytes()
    assert saved["PNG"].startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(saved["PNG"][at : at + 4], "big") for at in (16, 20))
    assert width >= 1200
    assert height >= 400
    assert ElementTree.fromstring(saved["SVG"]).tag == "{http://www.w3.org/2000/svg}svg"
    header, *lines = saved["CSV"].decode().splitlines()
    assert {"gold", "full_cache"} <= set(header.split(","))
    assert len(lines) >= 16


def test_a_file_of_own_prompts_becomes_the_samples(address, browser):
    codes = (482915, 730164, 559021)
    lines = [
        {
            "text": f"{{{{pad}}}}The code is {{{{target}}}}{code}{{{{/target}}}}. "
            "The lift is slow. {{question}}The code is ",
            "answer": str(code),
        }
        for code in codes
    ]
    content = "\n".join(map(json.dumps, lines)).encode()
    page = open_page(browser)
    page.goto(f"{address}/explore?new=custom")
    page.locator(".st-key-editor textarea").wait_for()
    page.get_by_text("not measured yet").first.wait_for()
    settled(page)
    file = {"name": "own.jsonl", "mimeType": "application/json", "buffer": content}
    page.locator(".st-key-prompts-file input[type=file]").set_input_files(file)
    page.get_by_role("button", name="Use these 3 prompts").click()
    page.get_by_text("3 prompts from a file stand in place of the text above").wait_for()
    page.get_by_text(re.compile(r"^24 copies")).first.wait_for()  # 3 prompts, 8 residues
    settled(page)
    assert page.get_by_label("Prompts n", exact=True).input_value() == "3"
    assert page.locator(".st-key-prompt").inner_text().count("4") >= 1
    picture(page, "12-own-file")


def test_a_huge_paste_is_refused_at_the_editor_and_stays_out(address, browser):
    page = open_page(browser)
    page.goto(f"{address}/explore?new=custom")
    area = page.locator(".st-key-editor textarea")
    area.wait_for()
    page.get_by_text("Select in the text above").wait_for()
    settled(page)
    before = area.input_value()
    area.evaluate(
        """(area) => {
          const held = new DataTransfer();
          held.setData("text/plain", "word ".repeat(60_000_000));
          area.focus();
          area.dispatchEvent(new ClipboardEvent("paste",
            { clipboardData: held, bubbles: true, cancelable: true }));
        }"""
    )
    told = page.get_by_text("The prompt has 300,000,000 characters, about 75,000,000 tokens")
    told.wait_for()
    assert "the model takes 8,192 positions" in told.inner_text()
    assert area.input_value() == before
