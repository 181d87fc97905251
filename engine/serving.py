"""How a service comes up and is found: the port, the token, the address file, the log.

Knows sockets and files.  What the service answers is in `engine.service`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import NamedTuple

from engine import paths
from engine.access import Access, check_host, new_token
from engine.registry import FieldError, SpecError

HOST = "127.0.0.1"
PORT = 8787
ADDRESS = "service.json"


class Address(NamedTuple):
    url: str
    token: str
    pid: int


def address_file() -> Path:
    return paths.home() / ADDRESS


def read_address() -> Address | None:
    """Where the last service said it is; it may be gone."""
    try:
        values = json.loads(address_file().read_text())
        return Address(str(values["url"]), str(values["token"]), int(values["pid"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_address(address: Address) -> None:
    """Mode 600 from its first byte on: who can read it can use the service."""
    part = address_file().with_suffix(f".{os.getpid()}.part")
    file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "w") as out:
        json.dump(address._asdict(), out)
    os.replace(part, address_file())


def forget_address() -> None:
    """Remove the address file if it is still ours."""
    found = read_address()
    if found and found.pid == os.getpid():
        address_file().unlink(missing_ok=True)


def bind(port: int, host: str = HOST) -> socket.socket:
    """A listening socket; port 0 takes a free one.  OSError if it is taken."""
    # The protocol is named: of sockets without one asyncio sets no TCP_NODELAY, and every answer
    # then waits 40 ms for a delayed acknowledgement.
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock


def free_port(wanted: int, host: str = HOST) -> int:
    """The wanted port, or a free one where it is taken."""
    for port in (wanted, 0):
        with contextlib.suppress(OSError), contextlib.closing(bind(port, host)) as sock:
            return sock.getsockname()[1]
    raise SpecError(
        FieldError("host", f"{host} is no address of this machine, or has no free port")
    )


def open_log() -> None:
    """Tracebacks go to service.log in the home folder; users get a sentence and an id."""
    log = logging.getLogger("phasescope")
    file = paths.home() / "service.log"
    if [getattr(handler, "baseFilename", "") for handler in log.handlers] != [str(file)]:
        log.handlers.clear()
        handler = RotatingFileHandler(file, maxBytes=4 << 20, backupCount=1, delay=True)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False


def make_server(token: str, stays: bool, access: Access | None = None):
    """A uvicorn server over a freshly opened engine; StoreError where the data cannot be had."""
    import uvicorn

    from engine.owner import Engine
    from engine.service import make_app

    open_log()
    engine = Engine(paths.home(), stays, access)
    config = uvicorn.Config(
        make_app(engine, token),
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=3,
        server_header=False,
    )
    # The framework's log goes where ours goes: standard output is the command line's.
    framework = logging.getLogger("uvicorn")
    framework.handlers, framework.propagate = logging.getLogger("phasescope").handlers, False
    return uvicorn.Server(config)


def serve(
    port: int = PORT, say=print, access: Access | None = None, token: str | None = None
) -> None:
    """Run the service until it is stopped; a taken port gives way to a free one.

    token: the owner's own; without one a new one is made, which the address file tells.
    """
    access = access or Access()
    check_host(access.host, token)
    try:
        sock = bind(port, access.host)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise SpecError(FieldError("host", f"{access.host}: {error.strerror}")) from None
        sock = bind(0, access.host)
    token = token or new_token()
    server = make_server(token, True, access)
    number = sock.getsockname()[1]
    everywhere = access.host in ("0.0.0.0", "")
    write_address(
        Address(f"http://{HOST if everywhere else access.host}:{number}", token, os.getpid())
    )
    say(f"Phasescope service at http://{access.host}:{number} (home {paths.home()})")
    try:
        server.run(sockets=[sock])
    finally:
        forget_address()


@contextlib.contextmanager
def running() -> Iterator[Address]:
    """The same service on a thread of this process, for the length of a with."""
    sock, token = bind(0), new_token()
    try:
        server = make_server(token, False)
    except BaseException:
        sock.close()
        raise
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the service did not start; service.log says why")
            time.sleep(0.01)
        yield Address(f"http://{HOST}:{sock.getsockname()[1]}", token, os.getpid())
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        sock.close()
