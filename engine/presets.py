"""The presets in data/presets: named specs with a caption, as TOML.

Knows files and the words around a spec (title, caption, note).  Does not check the spec.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

from engine import paths
from engine.registry import FieldError, SpecError, suggest

ABOUT = ("title", "caption", "note")
MAX_TOML = 32 << 20  # bytes


class Preset(NamedTuple):
    """`bundle` is the stored result beside it, if one is shipped."""

    name: str
    title: str
    caption: str
    note: str
    spec: dict
    bundle: Path | None


def presets() -> dict[str, Preset]:
    """name → preset, in the gallery's order (by file name; `order` in the file wins)."""
    found = []
    for path in sorted((paths.data() / "presets").glob("*.toml")):
        values = read_toml(path)
        order = values.pop("order", 100)
        words = {name: values.pop(name, "") for name in ABOUT}
        bundle = path.with_suffix(".zip")
        preset = Preset(path.stem, **words, spec=values, bundle=bundle if bundle.exists() else None)
        found.append((order, preset))
    return {preset.name: preset for _, preset in sorted(found, key=lambda pair: pair[0])}


def find(name: str) -> Preset:
    known = presets()
    if name not in known:
        raise SpecError(FieldError("preset", f"no preset {name!r}{suggest(name, known)}"))
    return known[name]


def read_toml(path: Path) -> dict:
    """A spec file as a dict; SpecError with the line where it is no TOML."""
    try:
        path = path.expanduser()
        with path.open("rb") as file:  # no more than a spec can hold: it may be /dev/zero
            content = file.read(MAX_TOML + 1)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _refused(f"{path} cannot be read: {reason}") from None
    if len(content) > MAX_TOML:
        raise _refused(f"{path} is larger than {MAX_TOML >> 20} MB")
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise _refused(f"{path} is no UTF-8 at byte {error.start}; save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise _refused(f"{path} is no valid TOML: {error}") from None
    except (RecursionError, ValueError):
        told = "is nested too deeply, or holds a number of thousands of digits"
        raise _refused(f"{path} {told}") from None


def _refused(message: str) -> SpecError:
    return SpecError(FieldError("spec", message))
