"""The token strip: prompts as escaped HTML, one element a token, one band a window.

Knows the plan's strip (position, text, role, phase, window, target, pad) and the class names of the
style sheet.  Knows nothing about widgets, models or where the plan came from.  Token text goes
through `words.literal` and into a `<bdi>`: it is shown, never interpreted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby

from app.words import count, literal, number

HEAD, TAIL, AROUND = 12, 10, 7  # tokens kept at the start, at the end, around the target


def chip(
    token: dict, stride: int | None, *, mark: str = "", shade: float | None = None, note: str = ""
) -> str:
    """One token.  `mark` adds classes, `shade` in [−1, 1] colours it (difference, kept weight)."""
    classes = ["ps-tok"]
    if token.get("target"):
        classes.append("ps-target")
    if token.get("pad"):
        classes.append("ps-pad")
    if token.get("role") == "template":
        classes.append("ps-template")
    if mark:
        classes.append(mark)
    style = ""
    phase = token.get("phase")
    if stride and phase is not None:
        share = 1.0 if stride == 1 else 0.12 + 0.88 * phase / (stride - 1)
        style = f"--p:{share:.3f};"
    if shade is not None:
        classes.append("ps-up" if shade >= 0 else "ps-down")
        style += f"--s:{min(1.0, abs(shade)):.3f};"
    title = describe(token, stride) + (f", {note}" if note else "")
    styled = f' style="{style}"' if style else ""
    names = " ".join(classes)
    return (
        f'<bdi class="{names}" dir="ltr" title="{escape(title)}"{styled}>'
        f"{literal(token.get('text'))}</bdi>"
    )


def describe(token: dict, stride: int | None) -> str:
    """`position 12, t mod 4 = 0, window 3, target` for a tooltip."""
    parts = [f"position {token.get('position')}"]
    if stride and token.get("phase") is not None:
        parts.append(f"t mod {stride} = {token['phase']}")
    if token.get("window") is not None:
        parts.append(f"window {token['window']}")
    if token.get("role"):
        parts.append("padding" if token.get("pad") else str(token["role"]))
    if token.get("id") is not None:
        parts.append(f"id {token['id']}")
    return ", ".join(parts)


def groups(tokens: Sequence[dict]) -> Iterable[tuple[int | None, list[dict]]]:
    """Neighbouring tokens of one window."""
    for window, members in groupby(tokens, key=lambda t: t.get("window")):
        yield window, list(members)


def elide(tokens: Sequence[dict], limit: int) -> list[list[dict] | int]:
    """Runs of tokens to draw, with the number left out between them; nothing is cut below `limit`.

    Windows stay whole: one is drawn if any of its tokens is near the start, the target or the end.
    """
    if len(tokens) <= limit:
        return [list(tokens)]
    near = set(range(HEAD)) | set(range(len(tokens) - TAIL, len(tokens)))
    for index, token in enumerate(tokens):
        if token.get("target"):
            near |= set(range(index - AROUND, index + AROUND + 1))
    keep, index = [], 0
    for window, members in groups(tokens):
        span = range(index, index + len(members))
        if window is None:
            keep += [i in near for i in span]
        else:
            keep += [any(i in near for i in span)] * len(members)
        index += len(members)
    parts: list[list[dict] | int] = []
    for shown, run in groupby(range(len(tokens)), key=lambda i: keep[i]):
        run = list(run)
        if shown or len(run) < 4:
            if parts and isinstance(parts[-1], list):
                parts[-1] += [tokens[i] for i in run]
            else:
                parts.append([tokens[i] for i in run])
        else:
            parts.append(len(run))
    return parts


def band(members: Sequence[dict], window: int | None, inner: str, tinted: bool = True) -> str:
    if window is None:
        return f'<span class="ps-win ps-free">{inner}</span>'
    shade = "ps-even" if window % 2 == 0 or not tinted else "ps-odd"
    return f'<span class="ps-win {shade}">{inner}</span>'


def strip(
    plan_strip: dict,
    *,
    limit: int = 72,
    scored: bool = True,
    shades: dict[int, float] | None = None,
    notes: dict[int, str] | None = None,
) -> str:
    """The whole prompt.  `shades`, `notes`: by position.  A dotted sign marks an empty slot."""
    tokens, stride = plan_strip["tokens"], plan_strip.get("stride")
    shades, notes = shades or {}, notes or {}
    empty = open_slots(plan_strip)
    pieces = []
    for part in elide(tokens, limit):
        if isinstance(part, int):
            pieces.append(f'<span class="ps-more">{count(part, "token")}</span>')
            continue
        for window, members in groups(part):
            inner = ""
            for token in members:
                place = token["position"]
                if place in empty:
                    inner += slot_sign(empty[place])
                inner += chip(token, stride, shade=shades.get(place), note=notes.get(place, ""))
            pieces.append(band(members, window, inner))
    end = tokens[-1]["position"] + 1 if tokens else 0
    if end in empty:
        pieces.append(slot_sign(empty[end]))
    if scored:
        pieces.append(
            '<span class="ps-scored" title="scored here: the answer is predicted">?</span>'
        )
    return f'<div class="ps-strip" translate="no">{"".join(pieces)}</div>'


def open_slots(plan_strip: dict) -> dict[int, str]:
    """Position → name of each slot that holds no padding at this shift.

    A slot stands before token `at` of the prompt without padding; padding drawn so far moves it.
    """
    tokens = plan_strip["tokens"]
    pads = {t["position"] for t in tokens if t.get("pad")}
    bare = [t["position"] for t in tokens if not t.get("pad")]
    end = tokens[-1]["position"] + 1 if tokens else 0
    signs = {}
    for slot in plan_strip.get("slots", []):
        at = slot["at"]
        place = bare[at] if at < len(bare) else end
        if place - 1 not in pads and place not in pads:
            signs[place] = slot["name"]
    return signs


def slot_sign(name: str) -> str:
    return f'<span class="ps-slot" title="{escape(f"padding goes here ({name})")}"></span>'


def legend(plan_strip: dict, *, answer: str, filler: str, modulus: int, protocol: str) -> str:
    """What the marks of the strip mean, in one line."""
    stride = plan_strip.get("stride")
    items = [f'<bdi class="ps-tok ps-target">{literal(answer)}</bdi> target']
    if protocol in ("grid_origin", "pair"):
        note = (
            "the grid moves, the tokens stay" if protocol == "grid_origin" else "document A of two"
        )
        items.append(f"<span>{note}</span>")
    else:
        items.append(
            f'<bdi class="ps-tok ps-pad">{literal(filler)}</bdi> padding, 0 to {modulus - 1} more'
        )
    items.append('<span class="ps-scored">?</span> scored here')
    if any(t.get("role") == "template" for t in plan_strip["tokens"]):
        items.append('<bdi class="ps-tok ps-template">tag</bdi> chat template')
    if stride and stride > 1:
        steps = range(stride) if stride <= 8 else (0, stride // 2, stride - 1)
        keys = "".join(
            f'<i class="ps-key" style="--p:{0.12 + 0.88 * k / (stride - 1):.3f}"></i>{k}'
            for k in steps
        )
        items.append(f"phase {keys}")
    body = "".join(f'<span class="ps-item">{item}</span>' for item in items)
    return f'<div class="ps-legend">{body}</div>'


def windows_at(
    tokens: Sequence[dict],
    stride: int,
    weights: Sequence[float],
    *,
    exact: frozenset[int] = frozenset(),
) -> str:
    """Windows with each token's weight in its window's entry; a target that is lost is dashed.

    `weights`: by offset in the window's own stride, as shares of the largest.  `exact`: positions
    that the memory keeps as they are.
    """
    pieces = []
    for window, members in groups(tokens):
        inner = ""
        for token in members:
            share = 1.0 if token["position"] in exact else weights[token["offset"] % len(weights)]
            kept = share > 0.02
            mark = "ps-kept" if kept else "ps-lost" if token.get("target") else "ps-drop"
            inner += chip(
                token, stride, mark=mark, note=f"weight {number(share, 2)} of the largest"
            ).replace("--p:", f"--k:{share:.3f};--p:", 1)
        pieces.append(band(members, window, inner))
    return f'<div class="ps-strip ps-why" translate="no">{"".join(pieces)}</div>'
