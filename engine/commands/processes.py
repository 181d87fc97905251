"""Commands that start processes: serve and dash.

Knows ports, children and how both are stopped.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from engine.commands.printing import say

DASHBOARD_PORT = 8501
ASKS = "PHASESCOPE_PAGE_TOKEN"  # what the page asks its readers for, told to its process alone
APP = Path(__file__).resolve().parents[2] / "app" / "main.py"


def add_to(app: typer.Typer) -> None:
    for command in (serve, dash):
        app.command()(command)


Host = Annotated[
    str,
    typer.Option(help="address to listen on; others than 127.0.0.1 need a token or a login"),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="a file with the token that others give; or set PHASESCOPE_TOKEN"),
]
ReadOnly = Annotated[
    bool, typer.Option("--read-only", help="others look: nothing is run, deleted or imported")
]
Demo = Annotated[bool, typer.Option("--demo", help="small runs alone; nothing deleted or imported")]


def serve(
    port: Annotated[int, typer.Option(help="0 takes a free one", min=0, max=65535)] = 8787,
    host: Host = "127.0.0.1",
    token_file: TokenFile = None,
    read_only: ReadOnly = False,
    demo: Demo = False,
) -> None:
    """The engine service alone until Ctrl-C, on 127.0.0.1 unless it is shared."""
    from engine import serving
    from engine.access import Access, check_host, chosen_token
    from engine.client import Unavailable, connect
    from engine.store import StoreLocked

    token = chosen_token(token_file)
    check_host(host, token)
    with contextlib.suppress(Unavailable):
        say(f"a service is running already, at {connect().url}")
        raise typer.Exit(0)
    try:
        serving.serve(port, say, Access(host, read_only, demo), token)
    except StoreLocked as locked:
        say(str(locked))
        raise typer.Exit(3) from None
    except KeyboardInterrupt:
        say("stopped")


def dash(
    port: Annotated[
        int, typer.Option(help="the dashboard's; a free one where it is taken", min=0, max=65535)
    ] = DASHBOARD_PORT,
    host: Host = "127.0.0.1",
    token_file: TokenFile = None,
    read_only: ReadOnly = False,
    demo: Demo = False,
) -> None:
    """The service and the dashboard until Ctrl-C, on 127.0.0.1 unless shared; stops both.

    The service itself stays on 127.0.0.1: others reach the dashboard alone.
    """
    from engine import serving
    from engine.access import check_host, chosen_token, is_loopback

    token = chosen_token(token_file)
    check_host(host, token)
    flags = [flag for flag, on in (("--read-only", read_only), ("--demo", demo)) if on]
    asks = token if token and not is_loopback(host) else ""
    children: list[subprocess.Popen] = []
    try:
        _service(children, flags)
        chosen = serving.free_port(port, host)
        children.append(_dashboard(chosen, host, asks))
        _wait_for(chosen, children, host)
        say(f"Phasescope is at http://{in_address(host)}:{chosen} (Ctrl-C stops it)")
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


def _service(children: list[subprocess.Popen], flags: list[str]) -> None:
    """Start the service unless one runs; wait until it answers."""
    from engine.client import Unavailable, connect
    from engine.registry import FieldError, SpecError

    try:
        running = connect()
    except Unavailable:
        children.append(_child([sys.executable, "-m", "engine", "serve", *flags]))
    else:
        health = running.health()
        on = {f"--{name.replace('_', '-')}" for name in ("read_only", "demo") if health.get(name)}
        if on != set(flags):
            told = f"the service at {running.url} runs with {' '.join(sorted(on)) or 'no limits'}"
            raise SpecError(FieldError("dash", f"{told}; stop it first, or ask for the same"))
        say(f"using the service at {running.url}")
        return
    while children[0].poll() is None:
        with contextlib.suppress(Unavailable):
            connect().close()
            return
        time.sleep(0.1)
    raise typer.Exit(children[0].returncode or 3)


def _dashboard(port: int, host: str, asks: str) -> subprocess.Popen:
    """`asks`: the token that the page asks every reader for; "" where it asks for none."""
    from engine.access import LOOPBACK, login_files

    options = {
        "server.address": host,
        "server.port": str(port),
        "server.headless": "true",
        "browser.gatherUsageStats": "false",
    }
    command = [sys.executable, "-m", "streamlit", "run", str(APP)]
    # A page that asks nobody who he is answers to this machine's names alone: a site that has its
    # own name point here (DNS rebinding) would else drive it.
    for name in ("*",) if asks or login_files() else (*LOOPBACK, host):
        command += ["--server.allowedHosts", name]
    for name, value in options.items():
        command += [f"--{name}", value]
    return _child(command, {ASKS: asks})


def _child(command: list[str], more: dict[str, str] | None = None) -> subprocess.Popen:
    """A child in a session of its own: Ctrl-C comes to us alone, and we stop it in order.

    It starts where we did, so that a login's `.streamlit/secrets.toml` is found.
    """
    env = {**os.environ, "PYTHONPATH": _with_root(), **(more or {})}
    return subprocess.Popen(command, env=env, stdout=sys.stderr, start_new_session=True)


def _with_root() -> str:
    given = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(filter(None, (str(APP.parents[1]), given)))


def in_address(host: str) -> str:
    """A host as an address spells it: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def _wait_for(port: int, children: list[subprocess.Popen], host: str) -> None:
    import httpx

    name = "127.0.0.1" if host == "0.0.0.0" else in_address(host)
    url = f"http://{name}:{port}/_stcore/health"
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
