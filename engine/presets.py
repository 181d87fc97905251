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
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        reason = error.strerror or "cannot be read"
        raise SpecError(FieldError("spec", f"{path} cannot be read: {reason}")) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(FieldError("spec", f"{path} is no valid TOML: {error}")) from None
