"""A sweep as a section of a model card in Markdown: what was measured, at which phases, how surely.

Text of users and models is escaped: a title stays a title.  Knows the `show` object; computes no
statistic.
"""

from __future__ import annotations

import html
import re
from typing import Any

from engine.analysis.words import number, p_value, prompts, two

OBEYED = re.compile(r"([\\`*_\[\]|#~<>$!])")
CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u200b-\u200f\u202a-\u202e\u2066-\u2069]"
)
MEASURES = {
    "accuracy": "accuracy, the whole answer as first choice",
    "joint": "probability of the whole answer",
    "token": "mean probability of an answer token",
}
PROTOCOLS = {
    "outer": "fillers in front and behind; every record shifts",
    "in_sequence": "spacers between records; only the target's phase moves",
    "grid_origin": "the window grid's origin moves; tokens stay",
    "lengthen": "fillers in one slot; length and query position move too, the weakest protocol",
    "pair": "two documents that differ by one token",
}


def card(run: dict) -> str:
    """The section, of a run as `GET /runs/{key}` tells it; it ends in a newline."""
    spec, memory = run["spec"], run["spec"].get("memory") or {}
    period = run.get("period") or {}
    stride = period.get("configured")
    parts = [
        "## Phase sensitivity",
        f"{_plain(run['finding'] or 'No answers yet')}.",
        _table(("", ""), _about(run, spec, memory, stride)),
        _coverage(run, memory, stride),
        _table(("measure", "value", "95 % interval"), _numbers(run, period, stride)),
    ]
    if run.get("folded"):
        parts.append(_phases(run["folded"], run.get("control")))
    told = [run["doubt"], *run["warnings"]]
    parts += ["\n".join(f"- {_plain(text)}" for text in told if text)]
    parts.append(_provenance(run))
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(run: dict, spec: dict, memory: dict, stride: int | None) -> list[list[str]]:
    model, task = spec.get("model") or {}, spec.get("task") or {}
    lines = [
        ["Model", f"{_plain(model.get('id', ''))}, {_plain(model.get('dtype', ''))}"],
        ["Memory", _plain(run["phrase"])],
        ["Window W", str(memory.get("window") or "none")],
        ["Stride S", str(stride or memory.get("stride") or "none")],
        ["Task", _plain(str(task.get("kind", "")).replace("_", " "))],
        ["Copies", _plain(PROTOCOLS.get(spec.get("protocol", ""), spec.get("protocol", "")))],
        ["Measure", MEASURES.get(spec.get("measure", ""), _plain(spec.get("measure", "")))],
        ["Prompts", f"{run['n_samples']}, each at {run.get('modulus') or 0} residues"],
    ]
    return lines


def _coverage(run: dict, memory: dict, stride: int | None) -> str:
    """Which phases were seen, and by how many answers; and what follows where some were not."""
    if spec_pair(run):
        return "Phases are not covered: two documents were compared, no sweep over positions."
    folded, size = run.get("folded") or [], run.get("modulus") or 0
    known = [row for row in run["residues"] if row["n"]]
    if not known:
        return "No phase is covered yet: there are no answers."
    told = _open(run)
    if not stride:
        counts = _span([row["n"] for row in known])
        own = memory.get("stride")
        why = (
            f"{size} residues are no multiple of the stride {own}, so no phase of it is averaged"
            if own and own > 1
            else "This memory has no grid, so there are no phases of its own"
        )
        some = f"{len(known)} of {size} residues were measured, n = {counts} each"
        missing = size - len(known)
        more = " The worst of them says nothing of the others." if missing else ""
        return f"{why}; {some}.{more}{told}"
    missing = [row["phase"] for row in folded if not row["n"]]
    counts = _span([row["n"] for row in folded if row["n"]])
    if missing:
        names = ", ".join(map(str, missing))
        were = f"Phase {names} was" if len(missing) == 1 else f"Phases {names} were"
        return (
            f"**{stride - len(missing)} of {stride} phases are covered**, n = {counts} each. "
            f"{were} not measured: the worst phase below is the worst of those seen, and the true "
            f"one may be worse.{told}"
        )
    holes = size - len(known)
    verb = "is" if holes == 1 else "are"
    part = f" {holes} of {size} residues {verb} missing." if holes else ""
    return f"All {stride} phases are covered, n = {counts} each.{part}{told}"


def spec_pair(run: dict) -> bool:
    return run["spec"].get("protocol") == "pair"


def _open(run: dict) -> str:
    """What an unfinished run, or whole prompts that are few, take from the numbers."""
    told = []
    if run["status"] != "done":
        told.append(f"The run is {run['status']}: numbers are of the rows stored so far.")
    lacking = run["n_samples"] - run.get("n_complete", run["n_samples"])
    if lacking:
        verbs = ("lacks", "is") if lacking == 1 else ("lack", "are")
        told.append(f"{prompts(lacking)} {verbs[0]} residues and {verbs[1]} left out of the tests.")
    if run["n_samples"] == 1:
        told.append("One prompt: how prompts differ is unknown.")
    return "".join(f" {text}" for text in told)


def _span(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _numbers(run: dict, period: dict, stride: int | None) -> list[list[str]]:
    by, place = ("phase", "worst_phase") if stride else ("residue", "worst_residue")
    worst = next((r for r in run.get("folded") or () if r["phase"] == run.get("worst_phase")), {})
    low, high = (
        (worst.get("low"), worst.get("high"))
        if stride
        else (run.get("worst_low"), run.get("worst_high"))
    )
    value = run.get("worst_folded") if stride else run.get("worst")
    at = run.get(place)
    lines = [
        ["Mean", number(run["mean"], 3), _ends(run["mean_low"], run["mean_high"])],
        [f"Worst {by}{'' if at is None else f' ({at})'}", number(value, 3), _ends(low, high)],
    ]
    if spec_pair(run):
        return lines[:1]
    gap = run.get("folded_gap") if stride else run.get("gap")
    ends = _ends(run.get("folded_gap_low"), run.get("folded_gap_high")) if stride else ""
    lines.append(["Gap, best less worst", number(gap, 3), ends])
    lines.append(
        ["Gap that chance shows", number(run.get("gap_null"), 3), p_value(run.get("gap_p"))]
    )
    if stride:
        lines.append(["Gap less chance", number(run.get("excess"), 3), ""])
    found = period.get("detected")
    lines.append(["Period found", str(found or "none"), p_value(period.get("p"))])
    control = run.get("control")
    if control:
        own = control.get("worst_folded") if stride else control.get("worst")
        ends = _ends(control["mean_low"], control["mean_high"])
        lines.append(["Control, mean", number(control["mean"], 3), ends])
        lines.append([f"Control, worst {by}", number(own, 3), ""])
    else:
        lines.append(["Control", "none", ""])
    return lines


def _phases(folded: list[dict], control: dict | None) -> str:
    other = {row["phase"]: row["value"] for row in (control or {}).get("folded") or ()}
    lines = [
        [str(row["phase"]), str(row["n"]), number(row["value"], 3), _ends(row["low"], row["high"])]
        + ([number(other.get(row["phase"]), 3)] if other else [])
        for row in folded
    ]
    columns = ("phase", "n", "value", "95 % interval") + (("control",) if other else ())
    return _table(columns, lines)


def _ends(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else " to ".join(_pair(low, high))


def _pair(low: float, high: float) -> tuple[str, str]:
    found = number(low, 3), number(high, 3)
    return two(low, high) if found[0] == found[1] and low != high else found


def _provenance(run: dict) -> str:
    made = run["provenance"]
    libraries = made.get("libraries") or {}
    versions = ", ".join(f"{n} {libraries[n]}" for n in ("torch", "transformers") if n in libraries)
    sources = {"own": "computed here", "preset": "shipped with a preset"}
    source = str(made.get("source") or "")
    parts = [
        f"Run `{run['key']}`, {run['created'][:10]}, {sources.get(source, 'imported')}.",
        f"Code {_plain(', '.join(filter(None, (made.get('code_version'), versions))))}.",
        f"Weights {_plain(made['weights'])}." if made.get("weights") else "",
        f"Seed {run['spec'].get('seed')}.",
        "Of an older code version or other weights than the ones here." if run["stale"] else "",
    ]
    return f"*{' '.join(part for part in parts if part)}*"


def _table(columns: tuple[str, ...], lines: list[list[str]]) -> str:
    head = [list(columns), ["---"] * len(columns)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [*head, *lines])


def _plain(text: Any) -> str:
    """Text that Markdown and HTML show as it is, on one line."""
    visible = CONTROLS.sub("\N{REPLACEMENT CHARACTER}", str(text))
    return OBEYED.sub(r"\\\1", html.escape(" ".join(visible.split()), quote=False))
