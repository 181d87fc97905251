"""The family's members as the page groups them: sections, twins, controls, words, marks.

Pure: the service's dicts in, dicts and words out.  Knows no Streamlit and no chart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pandas as pd

from app.words import number

GRID, GATE, ROPE, HEADS = "Stride and window", "Gate", "Position encoding", "KV heads"
PAYLOAD, REPAIRS, SEEDS = "Payload", "Repairs", "Seeds"
SECTIONS = (GRID, GATE, ROPE, HEADS, PAYLOAD, REPAIRS, SEEDS)
GROUPS = {GRID: "grid", GATE: "gate", ROPE: "rope", HEADS: "heads", PAYLOAD: "payload"}
ACTIVE = ("queued", "running")
VARIES = ("gate", "payload", "rope", "local", "stagger", "beside", "coverage", "phases")
PLAIN: dict[str, Any] = {"gate": "scalar", "payload": "own", "rope": True, "local": 1}
PLAIN |= {"stagger": 0, "beside": False, "coverage": 0.0, "phases": "random"}
# (window, stride) of plain memories that keep one colour everywhere.
FIRST = ((8, 8), (8, 6), (12, 12), (4, 4), (8, 4), (6, 6), (12, 4))
HUES = 5
MEASURES = ("Accuracy", "Gold probability")
OWN = {"joint": "Joint probability", "token": "Token probability"}  # of a run that measured those
COLUMNS = {
    "Accuracy": ("accuracy", "low", "high"),
    "Gold probability": ("gold_prob", "gold_prob_low", "gold_prob_high"),
}


class Group(NamedTuple):
    """Panels that are read together: one control, or one variant's seeds."""

    title: str
    members: list[dict]


def numbers(member: dict) -> dict:
    return member.get("numbers") or {}


def measured(member: dict) -> bool:
    """Whether there are numbers to show, also of an older code version."""
    return bool(numbers(member).get("residues"))


def active(member: dict) -> bool:
    return member.get("status") in ACTIVE


def full(member: dict) -> bool:
    return member.get("memory") == "full"


def period(member: dict) -> int | None:
    return (numbers(member).get("period") or {}).get("detected")


def stride(member: dict) -> int | None:
    return None if full(member) else member.get("stride")


def follows(member: dict) -> bool:
    return period(member) is not None and period(member) == stride(member)


def plain(member: dict) -> bool:
    """A scalar gate, own payload, RoPE, no repair: the memory that variants are compared with."""
    return not full(member) and all(member.get(k, v) == v for k, v in PLAIN.items())


def named(members: Iterable[dict]) -> dict[str, dict]:
    return {m["name"]: m for m in members}


def control_of(members: list[dict], member: dict) -> dict | None:
    return named(members).get(member.get("control") or "")


def twin(members: list[dict], member: dict) -> dict | None:
    """The plain memory of the same data, heads and stride, of the same seed if there is one."""
    found = [
        m
        for m in members
        if plain(m)
        and m["name"] != member["name"]
        and m.get("stride") == member.get("stride")
        and m.get("records") == member.get("records")
        and m.get("kv_heads") == member.get("kv_heads")
        and m.get("group") in ("grid", "heads")
    ]

    def near(m: dict) -> tuple:
        return (
            m.get("window") != member.get("window"),
            m.get("window") != m.get("stride"),
            m.get("seed") != member.get("seed"),
            m.get("seed"),
        )

    return min(found, key=near, default=None)


# ---- words


def geometry(member: dict) -> str:
    return "full cache" if full(member) else f"W{member.get('window')} S{member.get('stride')}"


def overlap(member: dict) -> str:
    """`overlap`, `no overlap`, `no overlap, staggered`, `control`."""
    if full(member):
        return "control"
    wide = (member.get("window") or 0) > (member.get("stride") or 0)
    told = "overlap" if wide else "no overlap"
    if member.get("beside"):
        told += ", entries beside"
    return told + (", staggered" if member.get("stagger") else "")


def density(member: dict) -> str:
    """`density 3.3 records a window`; a full cache has no window."""
    if member.get("density") is None:
        return f"{member.get('records')} records in {member.get('places')} places"
    told = number(member["density"], 1)
    return f"density {told} record{'' if told == '1' else 's'} a window"


# ---- sections


def heads_of(members: list[dict]) -> list[dict]:
    """One member a variant: of those measured the one with the plain name, else its lowest seed."""
    first: dict[str, dict] = {}
    for member in members:
        base = member.get("base") or member["name"]
        if base not in first or _lead(member) < _lead(first[base]):
            first[base] = member
    return list(first.values())


def _lead(member: dict) -> tuple:
    """A plain name may be that of a later seed: the middle one of several."""
    plain_name = member["name"] == (member.get("base") or member["name"])
    return not measured(member), not plain_name, member.get("seed") or 0


def section(members: list[dict], name: str) -> list[Group]:
    """The panels of a section, controls first; the plain twin stands before its variants."""
    if name == SEEDS:
        return _seeds(members)
    heads = heads_of(members)
    if name == REPAIRS:
        return _by_control(members, _with_twins(members, _group(heads, "repair")))
    chosen = _group(heads, GROUPS.get(name, "grid"))
    if name not in (GRID, HEADS):
        chosen = _with_twins(members, chosen)
    return _by_control(members, chosen)


def _group(members: list[dict], group: str) -> list[dict]:
    return [m for m in members if m.get("group") == group]


def _with_twins(members: list[dict], chosen: list[dict]) -> list[dict]:
    out: dict[str, dict] = {}
    for member in chosen:
        other = twin(members, member)
        if other:
            out.setdefault(other["name"], other)
        out[member["name"]] = member
    return list(out.values())


def _by_control(members: list[dict], chosen: list[dict]) -> list[Group]:
    """A group a control, the largest with numbers first; where each has one memory, controls are
    one row."""
    known = named(members)
    by: dict[str, list[dict]] = {}
    for member in chosen:
        by.setdefault(member.get("control") or "", []).append(member)
    order = sorted(by, key=lambda name: (not any(map(measured, by[name])), -len(by[name])))
    groups = []
    for name in order:
        front = [known[name]] if name in known else []
        groups.append(Group(told_data(by[name][0]), front + by[name]))
    if len(groups) > 1 and all(len(by[name]) == 1 for name in order):
        order = sorted(order, key=lambda name: by[name][0].get("kv_heads") or 0)
        controls = [known[name] for name in order if name in known]
        below = [m for name in order for m in by[name]]
        return [Group(groups[0].title, controls), Group("", below)] if controls else groups
    return groups


def _seeds(members: list[dict]) -> list[Group]:
    bases: dict[str, list[dict]] = {}
    for member in members:
        if not full(member) and member.get("group") != "coverage":
            bases.setdefault(member.get("base") or member["name"], []).append(member)
    several = {base: found for base, found in bases.items() if len(found) > 1}
    known = named(members)
    controls = dict.fromkeys(found[0].get("control") or "" for found in several.values())
    front = [known[name] for name in controls if name in known]
    groups = [Group("the full cache of each shape", front)] if front else []
    for found in several.values():
        found = sorted(found, key=lambda m: m.get("seed") or 0)
        groups.append(Group(f"{found[0]['label']}: {told_data(found[0])}", found))
    return groups


def told_data(member: dict) -> str:
    """`40 records in 96 places, 2 KV heads`: what members of one control have in common."""
    heads = member.get("kv_heads")
    told = f"{member.get('records')} records in {member.get('places')} places"
    return told + (f", {heads} KV heads" if heads else "")


def shown(groups: list[Group]) -> list[dict]:
    """Each member of the groups once."""
    return list({m["name"]: m for group in groups for m in group.members}.values())


# ---- marks


def places(members: list[dict]) -> dict[str, int | None]:
    """name → the memory's place in the order of colours; None for a full cache.

    Seeds and densities of one memory share a place: colour says memory, not data.
    """
    order: dict[tuple, int] = {}
    for window, step in FIRST:
        order[_identity({"window": window, "stride": step, **PLAIN})] = len(order)
    out: dict[str, int | None] = {}
    for member in members:
        if full(member):
            out[member["name"]] = None
            continue
        identity = _identity(member)
        if identity not in order:
            order[identity] = _free(order, member)
        out[member["name"]] = order[identity]
    return out


def _free(order: dict[tuple, int], member: dict) -> int:
    """The next place whose hue is not that of the plain memory it is compared with."""
    step = member.get("stride")
    other = order.get(_identity({"window": step, "stride": step, **PLAIN}))
    place = max(order.values(), default=-1) + 1
    return place + (other is not None and place % HUES == other % HUES)


def _identity(member: dict) -> tuple:
    varied = tuple(member.get(k, PLAIN[k]) for k in VARIES)
    heads = member.get("kv_heads") if member.get("group") == "heads" else None
    return (member.get("window"), member.get("stride"), heads, *varied)


# ---- frames


def drawn(report: dict, measure: str = "Accuracy") -> str:
    """What an opened run's charts show: its own measure in the place of accuracy."""
    return OWN.get(report.get("measure") or "", measure) if measure == "Accuracy" else measure


def curve(report: dict | None, measure: str = "Accuracy") -> pd.DataFrame:
    """residue, value, low, high of a report."""
    rows = (report or {}).get("residues") or []
    return residues(rows, measure)


def residues(rows: list[dict] | None, measure: str = "Accuracy") -> pd.DataFrame:
    """residue, value, low, high: accuracy, the answer's probability, or a run's own measure."""
    names = COLUMNS.get(measure, ("value", "value_low", "value_high"))
    columns = ["residue", "value", "low", "high"]
    table = [[row.get("residue"), *(row.get(n) for n in names)] for row in rows or ()]
    frame = pd.DataFrame(table, columns=columns).astype(float)
    return frame.dropna(subset=["value"]).sort_values("residue", ignore_index=True)


def folded(report: dict | None) -> pd.DataFrame:
    rows = (report or {}).get("folded") or []
    return pd.DataFrame(rows, columns=["phase", "value", "low", "high", "n"]).astype(float)


def fold(frame: pd.DataFrame, step: int) -> pd.DataFrame:
    """phase, value: plain means of a curve's residues."""
    if not len(frame):
        return pd.DataFrame({"phase": [], "value": []})
    means = frame.groupby(frame["residue"].astype(int) % step)["value"].mean()
    return means.rename_axis("phase").reset_index()


def summary(report: dict, measure: str = "Accuracy") -> dict:
    """mean, worst, gap: the service's for accuracy, plain ones for the answer's probability."""
    if measure != "Gold probability" and report.get("measure", "accuracy") == "accuracy":
        return {k: report.get(k) for k in ("mean", "worst", "gap")}
    values = curve(report, measure)["value"]
    if not len(values):
        return dict.fromkeys(("mean", "worst", "gap"))
    low, high = float(values.min()), float(values.max())
    return {"mean": float(values.mean()), "worst": low, "gap": high - low}
