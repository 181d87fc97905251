"""Which code made a number: a hash of the sources that decide it, and of the libraries' versions.

A change to a page or to the service does not change it; a change to a memory does.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import threading
from importlib import metadata
from pathlib import Path
from typing import Any

ENGINE = Path(__file__).resolve().parent
# Of the models only what reads them: a list or a training changes no run.
MODELS = ("check", "facts", "head", "loader")
CONTROLLED = ("checkpoint", "config", "grid", "model", "vocabulary")
NUMERIC = (
    *("memory", "tasks", "run", "copies.py", "build.py", "specs.py", "rows.py"),
    *(f"models/{name}.py" for name in MODELS),
    *(f"models/controlled/{name}.py" for name in CONTROLLED),
    "../data/fillers",
)
EVICTION = ("eviction",)  # decides the rows of runs that evict, and of no other run
SHOWN = ("trace.py", "restore.py")  # of it, what tells of a run and makes no row
# Python 3.11 counts the depth of all threads' parsing in one place: two at once break each other.
_parsing = threading.Lock()
LIBRARIES = ("torch", "transformers", "tokenizers")


@functools.cache
def code_version(evicts: bool = False) -> str:
    """Twelve hex digits; rows of another one are stale and never reused.

    `evicts`: of runs in which entries are dropped.
    """
    parts = (*NUMERIC, *EVICTION) if evicts else NUMERIC
    return _hash(parts, [f"{name} {metadata.version(name)}" for name in LIBRARIES])


def run_version(model: Any, evicts: bool = False) -> str:
    """Of the code and of the weights that the model's name stands for here; `model` has id and
    revision.
    """
    from engine.models.prints import fingerprint

    weights, code = fingerprint(model.id, model.revision), code_version(evicts)
    return f"{code}+{weights}" if weights else code


def is_stale(version: str, model: str, revision: str = "") -> bool:
    """Whether rows of that version are of other code, or of other weights than the ones here.

    Which of the two codes made them need not be known: neither is ever the other's.
    """
    from engine.models.prints import fingerprint

    code, _, weights = version.partition("+")
    here = fingerprint(model, revision)
    return code not in (code_version(), code_version(True)) or bool(here and here != weights)


@functools.cache
def statistics_version() -> str:
    """Of the code that turns rows into numbers: kept reports of another one are computed again."""
    return _hash(("analysis",), [])


def library_versions() -> dict[str, str]:
    names = ("torch", "transformers", "numpy", "duckdb", "pyarrow")
    return {name: metadata.version(name) for name in names}


def product_version() -> str:
    try:
        return metadata.version("phasescope")
    except metadata.PackageNotFoundError:
        return "unknown"


def _meaning(file: Path) -> str:
    """A source without docstrings, comment lines and blank lines: what the code does, and the same
    text under every version of Python.  Other files as they are.
    """
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        return text
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                told |= set(range(first.lineno, first.end_lineno + 1))
    lines = (line for n, line in enumerate(text.splitlines(), 1) if n not in told)
    return "\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("#"))


def _hash(parts: tuple[str, ...], more: list[str]) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for part in parts:
        path = ENGINE / part
        files = [p for p in path.rglob("*") if p.suffix in (".py", ".txt") and p.name not in SHOWN]
        for file in sorted(files) if path.is_dir() else [path]:
            with _parsing:
                meaning = _meaning(file)
            digest.update(f"{part}/{file.name}\0{meaning}".encode())
    digest.update("\n".join(more).encode())
    return digest.hexdigest()
