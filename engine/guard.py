"""What stands before every endpoint: host names, the token, and the size of a body.

Knows HTTP headers.  Knows nothing of runs.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
from urllib.parse import unquote_to_bytes

from engine.access import Access, is_loopback
from engine.paths import CHARACTERS

LOCAL = {"127.0.0.1", "localhost", "[::1]"}
MAX_BODY = 32_000_000
MAX_BUNDLE = 512_000_000
# Addresses for reading alone, which take the token as ?token= too: see `engine.addresses`.
READABLE = re.compile(
    r"/(docs|openapi\.json|(runs|views)(/[0-9A-Za-z]{1,64})?\.(json|csv|parquet)"
    r"|runs/[0-9A-Za-z]{1,64}/([a-z]{1,20}/)?[a-z_]{1,20}\.(json|csv|parquet))"
)


class TooLarge(Exception):
    """The body grew past its cap while it was read."""


class Guard:
    """ASGI middleware.  A page on another site must reach nothing: not by name, not by guessing."""

    def __init__(self, app, token: str, access: Access | None = None):
        self.app, self.token, self.access = app, token.encode(), access or Access()

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            scope, send = scope | {"method": "GET"}, without_body(send)
        headers = {name.lower(): value for name, value in scope["headers"]}
        # A foreign name that resolves to 127.0.0.1 (DNS rebinding) still says who it is.
        host = headers.get(b"host", b"").decode("latin-1").rsplit(":", 1)[0]
        if self.access.local and not (host in LOCAL or is_loopback(host)):
            await refuse(send, 403, "host", "this service answers to 127.0.0.1 alone")
            return
        given = headers.get(b"authorization", b"").removeprefix(b"Bearer ")
        if b"token=" in scope.get("query_string", b""):
            scope, in_address = without_token(scope)
            given = given or in_address
        if not secrets.compare_digest(given, self.token):
            await refuse(send, 401, "authorization", "the token is missing or wrong")
            return
        if refusal := self.access.refusal(scope["method"], scope["path"]):
            await refuse(send, 403, "", refusal)
            return
        cap = MAX_BUNDLE if scope["path"] == "/import" else MAX_BODY
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > cap:
            await too_large(send, cap, int(length) if length.isdigit() else 0)
            return
        await self._capped(scope, receive, send, cap)

    async def _capped(self, scope, receive, send, cap: int) -> None:
        read = 0
        over = started = False

        async def counted():
            nonlocal read, over
            message = await receive()
            read += len(message.get("body", b""))
            if read > cap:
                over = True
                raise TooLarge
            return message

        async def noted(message):
            nonlocal started
            # A framework may turn the interruption into an answer of its own: ours takes its place.
            if not over:
                started = True
                await send(message)

        with contextlib.suppress(TooLarge):
            await self.app(scope, counted, noted)
        if over and not started:
            await too_large(send, cap)


def without_token(scope: dict) -> tuple[dict, bytes]:
    """The scope as the service sees it, whose address holds no token, and the token that it held.

    A browser sends no header of its own: an address for reading may carry the token.
    """
    kept, found = [], b""
    for part in scope["query_string"].split(b"&"):
        name, _, value = part.partition(b"=")
        if name == b"token":
            found = unquote_to_bytes(value)
        else:
            kept.append(part)
    reads = scope["method"] == "GET" and READABLE.fullmatch(scope["path"])
    return scope | {"query_string": b"&".join(kept)}, found if reads else b""


def without_body(send):
    """HEAD is answered as GET is, by its status and headers alone."""

    async def sent(message):
        await send(message | ({"body": b""} if "body" in message else {}))

    return sent


async def too_large(send, cap: int, length: int = 0) -> None:
    """`length`: bytes that were announced; 0 where the cap was met while reading."""
    told = f"has {megabytes(length)}" if length else f"is larger than {megabytes(cap)}"
    if cap == MAX_BUNDLE:
        text = f"the file {told}; the cap is {megabytes(cap)}"
    else:
        text = (
            f"the request {told}, about {(length or cap) // CHARACTERS:,} tokens of text; the cap "
            f"is {megabytes(cap)}: a prompt of that size fits no model"
        )
    await refuse(send, 413, "bundle" if cap == MAX_BUNDLE else "spec", text)


def megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"


async def refuse(send, status: int, field: str, message: str) -> None:
    body = json.dumps({"errors": [{"field": field, "message": message}]}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
