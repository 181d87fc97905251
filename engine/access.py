"""Who may do what on a service that others reach: the address, the token, reading only, a demo.

A service on one's own machine is open to its owner alone.  One that is shared names a token or sits
behind a dashboard with a login, and may be for reading, or for small runs.  Knows requests' methods
and paths; knows nothing of what they do.
"""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.registry import FieldError, SpecError

TOKEN = "PHASESCOPE_TOKEN"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
LEAST = 16  # characters of a token that somebody chose
LOGIN = ("redirect_uri", "cookie_secret", "client_id", "client_secret", "server_metadata_url")
# What a reader sends that changes nothing.
ASKS = re.compile(r"/(preview|lengths|bundle|vary|runs/[0-9A-Za-z]{1,64}/(attention|trace))")
# What nobody may do in a demo, which strangers share.
OWNERS = re.compile(r"/(import(/.*)?|retention|training/.*|runs/[^/]+/cancel)")
READ_ONLY = "this service is shared for reading: runs, views and notes stay as they are"
DEMO = "this is a demo that others use too: nothing is edited, deleted or imported here"
DEMO_SAMPLES, DEMO_TOKENS, DEMO_COPIES = 8, 60_000, 256


@dataclass(frozen=True)
class Access:
    """How a service is shared."""

    host: str = "127.0.0.1"
    read_only: bool = False
    demo: bool = False

    @property
    def local(self) -> bool:
        return is_loopback(self.host)

    def refusal(self, method: str, path: str) -> str:
        """Why such a request is not answered here, or ""."""
        if method in ("GET", "HEAD"):
            return ""
        if self.read_only and not (method == "POST" and ASKS.fullmatch(path)):
            return READ_ONLY
        if self.demo and (method in ("DELETE", "PUT", "PATCH") or OWNERS.fullmatch(path)):
            return DEMO
        return ""

    def check(self, spec: Any, plan: dict) -> None:
        """SpecError where a run is not to be started here, or is larger than a demo allows."""
        if self.read_only:
            raise SpecError(FieldError("", READ_ONLY))
        if not self.demo:
            return
        settings = getattr(spec, "settings", spec)
        copies, tokens = plan["copies"], plan["tokens"]
        if settings.samples > DEMO_SAMPLES:
            told = f"a demo takes at most {DEMO_SAMPLES} prompts, not {settings.samples}"
            raise SpecError(FieldError("samples", told))
        if copies > DEMO_COPIES or tokens > DEMO_TOKENS:
            told = (
                f"a demo takes at most {DEMO_COPIES} copies and {DEMO_TOKENS:,} tokens; this run "
                f"has {copies:,} and {tokens:,}: fewer prompts or a shorter text fit"
            )
            raise SpecError(FieldError("samples", told))


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def chosen_token(file: Path | None = None) -> str | None:
    """The token that the owner chose, in a file or the environment; SpecError if it is weak."""
    if file is not None:
        try:
            given = file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(FieldError("token-file", f"{file} cannot be read: {error}")) from None
    else:
        given = os.environ.get(TOKEN, "").strip()
        if not given:
            return None
    if len(given) < LEAST or not given.isascii() or any(c.isspace() for c in given):
        told = (
            f"must be at least {LEAST} ASCII characters without spaces; "
            f"`python -c 'import secrets; print(secrets.token_urlsafe(24))'` makes one"
        )
        raise SpecError(FieldError("token", told))
    return given


def check_host(host: str, token: str | None) -> None:
    """SpecError for an address that others reach without a token or a login."""
    if is_loopback(host) or token or login_files():
        return
    raise SpecError(
        FieldError(
            "host",
            f"{host} can be reached from other machines: set {TOKEN} (or --token-file) to a secret "
            "of your own, or configure a login ([auth] in .streamlit/secrets.toml); without either "
            "only 127.0.0.1 is served",
        )
    )


def login_files(folders: tuple[Path, ...] | None = None) -> list[Path]:
    """Secrets files with a whole OIDC login ([auth], as Streamlit reads it)."""
    places = folders or (Path.home() / ".streamlit", Path.cwd() / ".streamlit")
    return [f for place in places if _has_login(f := place / "secrets.toml")]


def _has_login(file: Path) -> bool:
    try:
        auth = tomllib.loads(file.read_text("utf-8")).get("auth")
    except (OSError, ValueError):
        return False
    if not isinstance(auth, dict):
        return False
    named = [value for value in auth.values() if isinstance(value, dict)]  # [auth.NAME] providers
    return any(all(n in auth or n in own for n in LOGIN) for own in named or [{}])


def new_token() -> str:
    return secrets.token_urlsafe(32)
