"""The presets in data/presets: named specs with a caption, as TOML.

Knows files and the words around a spec (title, caption, note).  Does not check the spec.
"""

from __future__ import annotations

import functools
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from engine import paths
from engine.registry import FieldError, SpecError, suggest

# Members whose benchmark has a name of its own; the others are controlled-NAME.
BENCHMARKS = {
    "w8s8-dense": "controlled-w8s8",
    "w8s8-8kv-dense": "contrast-8kv",
    "full-dense": "controlled-full",
}
# Members that the start page shows, in their words.
FEATURED = {
    "w8s8-dense": (
        "Trained with its memory, and uneven still",
        "A small model learned its gates from scratch. It reads key and value well at some phases "
        "of its window and hardly at others.",
    ),
    "w8s8-8kv-dense": (
        "A good mean that hides a hole",
        "Eight KV heads come close to the full cache on average. One phase does not.",
    ),
    "w8s8-staggered": (
        "The same memory with staggered grids",
        "The second layer's windows start half a window later. As many entries, other phases.",
    ),
}
# Prompts of a benchmark.  The full model at M = 40 is the least sure of those that a gate is shown
# with: 192 leave its worst residue undecided at .8.  What coverage does is of the size of one.
SAMPLES, MORE, FEW = 192, 288, 96
ABOUT = ("title", "caption", "note")
MAX_TOML = 32_000_000  # bytes


class Preset(NamedTuple):
    """`bundle` is the stored result beside it, if one is shipped; `gallery`: on the start page."""

    name: str
    title: str
    caption: str
    note: str
    spec: dict
    bundle: Path | None
    gallery: bool = True


def presets() -> dict[str, Preset]:
    """All presets by name: the files of data/presets, then the controlled family's benchmarks."""
    return from_files() | {preset.name: preset for preset in family_presets().values()}


@functools.cache
def family_presets() -> dict[str, Preset]:
    """Controlled model → its benchmark: one list names the models, their presets follow."""
    from engine.models.controlled.family import family

    return {name: _benchmark(member) for name, member in family().items()}


def _benchmark(member: Any) -> Preset:
    recipe, even = member.recipe, member.recipe.phases != "random"
    base, dash, seed = member.name.partition("-seed")
    name = BENCHMARKS.get(base) or f"controlled-{base.removeprefix('w8s8-')}"
    name = base if member.group == "coverage" else f"{name}{dash}{seed}"
    task = {"kind": "pairs", "records": recipe.records, "places": recipe.places}
    spec = {
        "model": {"id": member.name},
        "memory": {"kind": "trained" if member.config.chunked else "full"},
        "task": task | {"pitch": recipe.pitch if even else 0},
        "protocol": "outer" if even else "in_sequence",
        "modulus": 24,
        "samples": _prompts(member),
        "measure": "accuracy",
        "batch": 24,
        "rows": "answers",
    }
    bundle = paths.data() / "presets" / f"{name}.zip"
    stored = bundle if bundle.exists() else None
    title, caption = FEATURED.get(member.name, (member.label, ""))
    featured = member.name in FEATURED
    return Preset(name, title, caption, "", spec=spec, bundle=stored, gallery=featured)


def _prompts(member: Any) -> int:
    if member.group == "coverage":
        return FEW
    return MORE if "full-dense" in (member.name, member.control) else SAMPLES


def from_files() -> dict[str, Preset]:
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
        content = paths.read_capped(path, MAX_TOML)
    except ValueError as error:
        raise _refused(str(error)) from None
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


def shipping(known: list[Preset]) -> list[str]:
    """How `export` ships each result: `NAME`, with ` --alone` where its control is a preset too, or
    where it has none."""
    from engine.kinds import SWEEP, kind_of, read_spec

    keys = {read_spec(preset.spec).key for preset in presets().values()}
    lines = []
    for preset in known:
        spec = read_spec(preset.spec)
        control = spec.control if kind_of(spec) == SWEEP else None
        alone = control is None or control.key in keys
        lines.append(f"{preset.name} --alone" if alone else preset.name)
    return lines


if __name__ == "__main__":  # for `make presets` and `make benchmarks`
    asked = from_files() if sys.argv[1] == "files" else family_presets()
    print("\n".join(shipping(list(asked.values()))))
