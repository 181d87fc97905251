"""Benchmarks of what a team shares: a library of 2 000 runs, a saved view of eight, many readers.

Runs are made up: only their number and shape matter here.  Readers are a process of their own.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine import paths
from engine.bench.store import MODULUS, _fill, made_spec

NAMED = "eight runs"  # the saved view
RUNS, SHOWN, ROWS = 2_000, 8, 52  # runs; runs of a view; tokens a copy: 99 840 rows each
READERS, EVERY, SPAN = 50, 2.0, 20.0  # clients; seconds between two of a client's polls; seconds
# A reader process: argv = url, token, path; prints the seconds of every poll.
POLL = f"""
import json, sys, threading, time, httpx
url, token, path = sys.argv[1:4]
told = []
def reader(place):
    with httpx.Client(headers={{"authorization": f"Bearer {{token}}"}}, trust_env=False) as http:
        time.sleep(place * {EVERY} / {READERS})
        end = time.monotonic() + {SPAN}
        while time.monotonic() < end:
            start = time.monotonic()
            http.get(url + path, timeout=60).raise_for_status()
            took = time.monotonic() - start
            told.append(took)
            time.sleep(max(0, {EVERY} - took))
threads = [threading.Thread(target=reader, args=(i,)) for i in range({READERS})]
[t.start() for t in threads]; [t.join() for t in threads]
print(json.dumps(told))
"""
# Milliseconds since the navigation began, once a line of a chart is there.
DRAWN = """(() => {
  const look = () => document.querySelector('.js-plotly-plot .trace')
    ? (window.drawn = performance.now()) : requestAnimationFrame(look);
  look();
})()"""


def measure() -> list[tuple]:
    """Rows (name, value, unit, goal, ok) of `phasescope bench`."""
    with tempfile.TemporaryDirectory() as folder:
        keys = seed(Path(folder))
        return [*_served(Path(folder), keys)]


def seed(home: Path) -> list[str]:
    """2 000 finished runs with their numbers, eight of them with 1e5 token rows; keys of these."""
    from engine.kinds import read_spec
    from engine.results import NOTHING, summary
    from engine.store import Store
    from engine.version import code_version

    store, keys = Store(home), []
    try:
        memories = [{"window": 4, "stride": 4, "local": local} for local in range(SHOWN)]
        control = None
        for memory in memories:
            spec = read_spec(made_spec(memory))
            if control is None:
                control, _ = _fill(store, spec.control, "control", 0.0, ROWS)
            run, _ = _fill(store, spec, f"local {memory['local']}", 0.4, ROWS)
            store.change(run, control_run=control)
            keys.append(spec.key)
        blank = NOTHING | {"finding": "made up", "worst": 0.4, "gap": 0.3}
        curve = [0.5 + 0.02 * (i % 4) for i in range(MODULUS)]
        told = summary(blank) | {"curve": curve, "control_curve": curve}
        for number in range(RUNS - SHOWN):
            spec = read_spec(made_spec({"window": 4, "stride": 4}) | {"seed": number + 1})
            store.remember(spec)
            run = store.open_run(spec.key, code_version(), asked=True, title=f"run {number}")
            store.keep_report(run.id, "made", blank, told)
            store.change(run.id, status="done")
    finally:
        store.close()
    return keys


def _served(home: Path, keys: list[str]) -> list[tuple]:
    """Over HTTP, against a service in a process of its own."""
    from engine.client import Client

    with service(home) as (url, token):
        client = Client(url, token)
        client.library()
        listing = statistics.median(_seconds(client.library) for _ in range(5))
        first = _seconds(lambda: client.compare(keys))
        again = statistics.median(_seconds(lambda: client.compare(keys)) for _ in range(5))
        view = client.save_view("compare", {"runs": ",".join(keys)}, NAMED)["id"]
        calm = _poll(url, token, f"/views/{view}")
        rows = [
            (f"library of {RUNS:,} runs over HTTP", listing, "s", "≤ 0.5", listing <= 0.5),
            ("eight runs of 1e5 token rows compared, first time", first, "s", "", None),
            ("the same again", again, "s", "≤ 0.5", again <= 0.5),
            (f"{READERS} readers of a view, p95, nothing running", calm, "ms", "", None),
        ]
        rows += _while_sweeping(client, url, token, view)
        total = len(client.library()["runs"])  # the presets and the sweeps among them
        client.close()
    return rows + _opened(home, view, total)


def _opened(home: Path, view: str, total: int) -> list[tuple]:
    """The view's short link and the library in a browser that has been here before, or has not."""
    from engine.bench.pages import BROWSERS, FLAGS, dashboard, missing

    if missing():
        return []
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        path = next(filter(None, map(shutil.which, BROWSERS)))
        browser = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            with dashboard(home) as url:
                page = browser.new_page()
                page.set_default_timeout(120_000)
                link = statistics.median(_first_chart(page, f"{url}/?view={view}", 8)[1:])
                new = [browser.new_context() for _ in range(3)]
                first = statistics.median(
                    _first_chart(one.new_page(), f"{url}/?view={view}", 1)[0] for one in new
                )
                opened = statistics.median(_from_library(page, f"{url}/library", 6)[1:])
                order = statistics.median(_orders(page, f"{url}/library", total))
        finally:
            browser.close()
    told = f"view of {SHOWN} runs of 1e5 token rows, to its first chart"
    return [
        (f"{told}, from the library", opened, "s", "≤ 1.5", opened <= 1.5),
        (f"{told}, its link in an empty tab", link, "s", "≤ 1.5", link <= 1.5),
        (f"{told}, in a browser that was never here", first, "s", "", None),
        (f"library page of {RUNS:,} runs, filter", order, "s", "≤ 0.5", order <= 0.5),
    ]


def _first_chart(page: Any, link: str, times: int) -> list[float]:
    """Seconds from the start of the navigation to the first drawn line, by the page's own clock."""
    page.set_default_timeout(120_000)
    page.add_init_script(DRAWN)
    found = []
    for _ in range(times):
        page.goto("about:blank")
        page.goto(link, wait_until="commit")
        drawn = page.wait_for_function("window.drawn", polling=100)
        found.append(drawn.json_value() / 1000)
        page.wait_for_load_state("networkidle")
    return found


def _from_library(page: Any, link: str, times: int) -> list[float]:
    """Seconds from a click on the view's card."""
    page.goto(link)
    found = []
    for _ in range(times):
        card = page.get_by_role("link", name=NAMED).first
        card.wait_for()
        page.wait_for_load_state("networkidle")
        start = time.perf_counter()
        card.click()
        page.locator(".js-plotly-plot").first.wait_for()
        found.append(time.perf_counter() - start)
        page.wait_for_load_state("networkidle")
        page.get_by_role("link", name="Library").first.click()
    return found


def _orders(page: Any, link: str, total: int) -> list[float]:
    """Seconds from a press on a filter to the table's new count of runs."""
    page.goto(link)
    page.get_by_text(f"{total:,} runs").first.wait_for()
    found = []
    for _ in range(4):
        page.wait_for_load_state("networkidle")
        start = time.perf_counter()
        page.get_by_role("button", name="Custom").click()
        page.get_by_text("No run fits").wait_for()
        found.append(time.perf_counter() - start)
        page.wait_for_load_state("networkidle")
        page.get_by_role("button", name="Custom").click()
        page.get_by_text(f"{total:,} runs").first.wait_for()
    return found[1:]


def _while_sweeping(client: Any, url: str, token: str, view: str) -> list[tuple]:
    """The same readers beside a sweep, and how much longer the sweep takes."""
    from engine.bench.eviction import MODEL, missing

    if missing():
        return []

    def sweep(seed: int) -> float:
        spec = {"model": {"id": MODEL}, "memory": {"kind": "pooled"}, "seed": seed, "samples": 2}
        spec |= {"task": {"kind": "access_code"}, "modulus": 8, "control": None}
        key = client.submit(spec)["key"]
        while (shown := client.run(key))["status"] in ("queued", "running"):
            time.sleep(0.2)
        return shown["provenance"]["wall_seconds"]

    sweep(1)  # loads the model
    alone, p95, busy = sweep(2), [], []
    readers = threading.Thread(target=lambda: p95.append(_poll(url, token, f"/views/{view}")))
    readers.start()
    busy.append(sweep(3))
    readers.join()
    slower = 100 * (busy[0] / alone - 1)
    return [
        (f"{READERS} readers of a view, p95, beside a sweep", p95[0], "ms", "≤ 200", p95[0] <= 200),
        (f"a sweep of {2 * 8} copies beside them, slower by", slower, "%", "", None),
    ]


def _poll(url: str, token: str, path: str) -> float:
    """95th percentile of the readers' waits, in milliseconds."""
    made = subprocess.run(
        [sys.executable, "-c", POLL, url, token, path], capture_output=True, text=True, check=True
    )
    waits = sorted(json.loads(made.stdout))
    return 1e3 * waits[int(0.95 * (len(waits) - 1))]


@contextlib.contextmanager
def service(home: Path) -> Iterator[tuple[str, str]]:
    """A service over a home folder for the length of a with: its address and token."""
    import httpx

    env = {**os.environ, "PHASESCOPE_HOME": str(home), "PHASESCOPE_MODELS": str(paths.models())}
    command = [sys.executable, "-m", "engine", "serve", "--port", "0"]
    root, quiet = Path(__file__).resolve().parents[2], subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=root, env=env, stdout=quiet, stderr=quiet)
    try:
        file, end = home / "service.json", time.monotonic() + 120
        while time.monotonic() < end and process.poll() is None:
            with contextlib.suppress(OSError, httpx.TransportError):
                told = json.loads(file.read_text())
                httpx.get(told["url"], trust_env=False)
                yield told["url"], told["token"]
                return
            time.sleep(0.1)
        raise RuntimeError("the service did not come up")
    finally:
        process.terminate()
        process.wait(timeout=60)


def _seconds(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    for row in measure():
        print(row)
