"""Named sets of options: a method as one public code or paper has it.

A spec holds every option as a number or word, never a name alone, so that its key says what was
run; the name that stands beside them is that of the set they make up, or `custom`.
"""

from __future__ import annotations

from typing import Any

CUSTOM = "custom"


def settled(
    values: dict, presets: dict[str, dict], default: str, aliases: dict[str, str] | None = None
) -> dict:
    """Options written out: those not given come from the preset named, `default` without a name.

    A form sends all of its options at once: where they are together another preset's own, and one
    is named, the name is what was chosen.
    """
    named = values.get("preset") or ""
    name = (aliases or {}).get(named, named) if isinstance(named, str) else named
    if name not in ("", CUSTOM, *presets):
        return values  # which the list of choices refuses
    options = presets[default]
    given = {option: values[option] for option in options if option in values}
    if name in presets and len(given) == len(options) and matching(given, presets) != CUSTOM:
        given = {}
    whole = presets.get(name, options) | given
    return values | whole | {"preset": matching(whole, presets)}


def matching(options: dict[str, Any], presets: dict[str, dict]) -> str:
    """The preset that these options are, or `custom`."""
    for name, own in presets.items():
        if all(_same(options[option], own[option]) for option in own):
            return name
    return CUSTOM


def _same(a: Any, b: Any) -> bool:
    return a == b and isinstance(a, bool) == isinstance(b, bool)
