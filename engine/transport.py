"""How a client speaks to the service: requests, bodies, tables, and refusals as exceptions.

Knows HTTP and Arrow.  Which endpoints there are is in `engine.client`.  Imports no torch and no
database.
"""

from __future__ import annotations

import json
from typing import Any

import httpx

from engine.guard import MAX_BODY, megabytes
from engine.registry import FieldError, SpecError


class Refused(SpecError):
    """The service refused the input: `errors` are (field, message) pairs."""


class NotFound(LookupError):
    """No such run, spec or job here."""


class Unavailable(ConnectionError):
    """No service answers."""


class ServiceFailed(RuntimeError):
    """The service met an error of its own; the message names where its log has it."""


class Transport:
    """A connection to one running service.  May be shared by threads."""

    def __init__(self, url: str, token: str, timeout: float = 120.0):
        self.url = url
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(timeout, connect=5.0),
            trust_env=False,  # a proxy has no business with 127.0.0.1
        )

    def close(self) -> None:
        self._http.close()

    def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, **options)
        except httpx.TransportError as error:
            raise Unavailable(
                f"the service at {self.url} does not answer ({type(error).__name__})"
            ) from None
        if answer.status_code < 400:
            return answer
        try:
            pairs = [FieldError(e["field"], e["message"]) for e in answer.json()["errors"]]
        except (ValueError, KeyError, TypeError):
            pairs = [FieldError("", f"the service answered {answer.status_code}")]
        if answer.status_code == 404:
            raise NotFound(pairs[0].message)
        if answer.status_code == 401:
            raise Unavailable(f"the service at {self.url} has another token; was it restarted?")
        if answer.status_code >= 500:
            raise ServiceFailed(pairs[0].message)
        raise Refused(*pairs)

    def _json(self, method: str, path: str, **options: Any) -> Any:
        return self._ask(method, path, **options).json()

    def _body(self, values: dict) -> dict:
        """A spec as a JSON body.  A date, which JSON lacks, goes as text that no field takes.

        A text that no request can carry stays here: the service is told its length alone.
        """
        content = json.dumps(values, default=str).encode()
        if len(content) > MAX_BODY:
            field, sizes = _lengths(values.get("task"))
            self.lengths(values, field, sizes)
            size, cap = megabytes(len(content)), megabytes(MAX_BODY)
            told = f"{sum(sizes):,} characters, {size} as sent; the cap of one request is {cap}"
            raise Refused(FieldError(field, told))
        return {"content": content, "headers": {"content-type": "application/json"}}

    def _frame(self, path: str, **params: Any):
        """An Arrow stream as a DataFrame."""
        return self.table(path, **params).to_pandas()

    def table(self, path: str, **params: Any):
        """An Arrow stream as a pyarrow Table."""
        import pyarrow as pa

        params = {name: value for name, value in params.items() if value is not None}
        answer = self._ask("GET", path, params=params)
        return pa.ipc.open_stream(answer.content).read_all()

    def lengths(self, spec: dict, field: str, sizes: list[int]) -> None:
        """Refused if texts of so many characters fit no model's positions; none of them is sent."""
        known = ("model", "memory", "modulus", "samples", "batch")
        rest = {name: spec[name] for name in known if name in spec}
        self._json("POST", "/lengths", json={**rest, "field": field, "characters": sizes})


def _lengths(task: Any) -> tuple[str, list[int]]:
    """The field of the longest texts, and their characters."""
    task = task if isinstance(task, dict) else {}
    if prompts := [p for p in _listed(task.get("prompts")) if isinstance(p, dict)]:
        texts = ([len(v) for v in p.values() if isinstance(v, str)] for p in prompts)
        return "task.prompts", [max(sizes, default=0) for sizes in texts]
    texts = {name: len(value) for name, value in task.items() if isinstance(value, str)}
    longest = max(texts, key=texts.get, default="text")
    return f"task.{longest}", [texts.get(longest, 0)]


def _listed(value: Any) -> list:
    return list(value) if isinstance(value, list | tuple) else []
