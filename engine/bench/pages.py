"""Benchmarks of the pages in a real browser: from a click to the curve, and between two pages.

Needs Chromium and playwright (the dev extra); without them there is nothing to measure and it says
so.  The dashboard is started as a user starts it; nothing of it is imported.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.bench.store import seed

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")
TITLE = "a million token rows"
DRAWN = "document.querySelector('.st-key-chart-curve .js-plotly-plot')?._fullData?.length"
GONE = (
    "!document.querySelector('.st-key-chart-curve') && document.querySelector('.st-key-recent a')"
)
# Seconds from a click on the link of that text to a condition, by the page's own clock.
CLICKED = """text => new Promise(told => {
  const links = [...document.querySelectorAll('a')], start = performance.now();
  links.find(link => link.innerText.includes(text)).click();
  const look = () => (CONDITION) ? told((performance.now() - start) / 1000)
                                 : requestAnimationFrame(look);
  look();
})"""
ROUNDS = 5


def missing() -> str:
    """Why pages cannot be measured here, or ""."""
    if not any(map(shutil.which, BROWSERS)):
        return "no Chromium on PATH"
    try:
        import playwright  # noqa: F401
    except ImportError:
        return "playwright is not installed (pip install -e '.[dev]')"
    return ""


def measure() -> list[tuple]:
    """Rows of the benchmark table: medians over clicks in one warm session."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        seed(Path(folder), TITLE)
        path = next(filter(None, map(shutil.which, BROWSERS)))
        browser = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            with dashboard(Path(folder)) as url:
                curve, switch = _clicks(browser.new_page(), url)
        finally:
            browser.close()
    return [
        ("click to curve, a run of 1e6 token rows", curve, "s", "≤ 1", curve <= 1),
        ("page switch, Explore to Start", switch, "s", "≤ 0.5", switch <= 0.5),
    ]


def _clicks(page: Any, url: str) -> tuple[float, float]:
    """Median seconds from a click on a recent run to its drawn curve, and back to Start."""
    page.set_default_timeout(120_000)
    page.goto(url)
    page.get_by_text("Recent runs").wait_for()
    curves, switches = [], []
    for _ in range(ROUNDS + 1):  # the first click warms caches and is not counted
        page.get_by_text(TITLE).first.wait_for()
        curves.append(page.evaluate(CLICKED.replace("CONDITION", DRAWN), TITLE))
        page.wait_for_load_state("networkidle")
        switches.append(page.evaluate(CLICKED.replace("CONDITION", GONE), "Start"))
        page.wait_for_load_state("networkidle")
    return statistics.median(curves[1:]), statistics.median(switches[1:])


@contextlib.contextmanager
def dashboard(home: Path) -> Iterator[str]:
    """Service and dashboard over a home folder, as `phasescope dash` starts them."""
    from engine.serving import free_port

    port = free_port(0)
    command = [sys.executable, "-m", "engine", "dash", "--port", str(port)]
    env = {**os.environ, "PHASESCOPE_HOME": str(home)}
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(command, cwd=root, env=env, stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            if "Phasescope is at" in line:
                yield f"http://127.0.0.1:{port}"
                return
        raise RuntimeError("the dashboard did not come up")
    finally:
        process.terminate()
        process.wait(timeout=30)
