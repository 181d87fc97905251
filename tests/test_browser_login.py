"""A dashboard with a login: whose view it is, and a link that survives the way to the provider."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request

import pytest
from test_browser import (  # noqa: F401  (fixtures and the marks of every browser test)
    ROOT,
    _wait,
    browser,
    chromium,
    free_port,
    open_page,
    pytestmark,
)
from test_browser_share import save

SECRETS = """[auth]
redirect_uri = "{page}/oauth2callback"
cookie_secret = "only a test's, and long enough for a cookie"
client_id = "phasescope"
client_secret = "hush"
server_metadata_url = "{provider}/.well-known/openid-configuration"
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The dashboard with its service, and a provider of names beside it."""
    work = tmp_path_factory.mktemp("login")
    ports = free_port(), free_port()
    page, provider = (f"http://localhost:{port}" for port in ports)
    (work / ".streamlit").mkdir()
    (work / ".streamlit" / "secrets.toml").write_text(SECRETS.format(page=page, provider=provider))
    environment = os.environ | {"PHASESCOPE_HOME": str(work / "home"), "PYTHONPATH": str(ROOT)}
    log = open(work / "test.log", "w")  # noqa: SIM115  (closed with the processes)
    told = {"cwd": work, "env": environment, "stdout": log, "stderr": log}
    names = [sys.executable, str(ROOT / "tests" / "oidc_provider.py"), str(ports[1])]
    dash = [sys.executable, "-m", "engine", "dash", "--port", str(ports[0])]
    running = [subprocess.Popen(command, **told) for command in (names, dash)]
    try:
        for url in (f"{provider}/jwks", f"{page}/_stcore/health"):
            _wait(lambda url=url: urllib.request.urlopen(url, timeout=2).status == 200, url, 300)
        yield page
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(timeout=60)
        log.close()


def log_in(page, name: str) -> None:
    page.get_by_role("button", name="Log in").click()
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Sign in").click()


def test_a_link_leads_through_the_login_to_a_view_with_its_author(address, browser):  # noqa: F811
    ada = open_page(browser)
    ada.goto(f"{address}/library?q=one-hot")
    log_in(ada, "Ada <i>")
    ada.get_by_role("button", name="Save view").wait_for()
    assert ada.url == f"{address}/library?q=one-hot"
    id = save(ada, "Save view", "Ada's")

    grace = open_page(browser)
    grace.goto(f"{address}/?view={id}")
    grace.get_by_text("Log in to look").wait_for()
    assert not grace.get_by_text("Ada's").count()
    log_in(grace, "Grace")
    grace.get_by_text("View “Ada's” · by Ada <i>").first.wait_for()
    assert "q=one-hot" in grace.url

    grace.get_by_role("button", name="Log out").click()
    grace.get_by_text("Log in to look").wait_for()
    stranger = open_page(browser)
    stranger.goto(f"{address}/")
    log_in(stranger, "Someone")
    stranger.get_by_text("Open the positive control").first.wait_for()
