"""Commands that start processes: serve and dash.

Knows ports, children and how both are stopped.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from engine.commands.printing import say

DASHBOARD_PORT = 8501
APP = Path(__file__).resolve().parents[2] / "app" / "main.py"


def add_to(app: typer.Typer) -> None:
    for command in (serve, dash):
        app.command()(command)


def serve(
    port: Annotated[int, typer.Option(help="0 takes a free one", min=0, max=65535)] = 8787,
) -> None:
    """The engine service alone, on 127.0.0.1, until Ctrl-C."""
    from engine import serving
    from engine.client import Unavailable, connect
    from engine.store import StoreLocked

    with contextlib.suppress(Unavailable):
        say(f"a service is running already, at {connect().url}")
        raise typer.Exit(0)
    try:
        serving.serve(port, say)
    except StoreLocked as locked:
        say(str(locked))
        raise typer.Exit(3) from None
    except KeyboardInterrupt:
        say("stopped")


def dash(
    port: Annotated[
        int, typer.Option(help="the dashboard's; a free one where it is taken", min=0, max=65535)
    ] = DASHBOARD_PORT,
) -> None:
    """The service and the dashboard, on 127.0.0.1, until Ctrl-C; stops both."""
    from engine import serving

    children: list[subprocess.Popen] = []
    try:
        _service(children)
        chosen = serving.free_port(port)
        children.append(_dashboard(chosen))
        _wait_for(chosen, children)
        say(f"Phasescope is at http://{serving.HOST}:{chosen} (Ctrl-C stops it)")
        while all(child.poll() is None for child in children):
            time.sleep(0.3)
        say("the service or the dashboard ended; stopping the other")
        code = 3
    except KeyboardInterrupt:
        say("stopping")
        code = 0
    finally:
        stop(children)
    raise typer.Exit(code)


def _service(children: list[subprocess.Popen]) -> None:
    """Start the service unless one runs; wait until it answers."""
    from engine.client import Unavailable, connect

    try:
        say(f"using the service at {connect().url}")
        return
    except Unavailable:
        children.append(_child([sys.executable, "-m", "engine", "serve"]))
    while children[0].poll() is None:
        with contextlib.suppress(Unavailable):
            connect().close()
            return
        time.sleep(0.1)
    raise typer.Exit(children[0].returncode or 3)


def _dashboard(port: int) -> subprocess.Popen:
    from engine import serving

    options = {
        "server.address": serving.HOST,
        "server.port": str(port),
        "server.headless": "true",
        "browser.gatherUsageStats": "false",
    }
    command = [sys.executable, "-m", "streamlit", "run", str(APP)]
    for name, value in options.items():
        command += [f"--{name}", value]
    return _child(command)


def _child(command: list[str]) -> subprocess.Popen:
    """A child in a session of its own: Ctrl-C comes to us alone, and we stop it in order."""
    return subprocess.Popen(command, cwd=APP.parents[1], stdout=sys.stderr, start_new_session=True)


def _wait_for(port: int, children: list[subprocess.Popen]) -> None:
    import httpx

    from engine import serving

    url = f"http://{serving.HOST}:{port}/_stcore/health"
    while all(child.poll() is None for child in children):
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(url, trust_env=False).status_code == 200:
                return
        time.sleep(0.1)


def stop(children: list[subprocess.Popen]) -> None:
    """Ask each to end, the dashboard first; insist after ten seconds."""
    for child in reversed(children):
        if child.poll() is None:
            child.terminate()
    for child in reversed(children):
        try:
            child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
