"""What an arm's options make of it: who votes in it, and which published figures belong to it.

Knows options by name and the shipped tables of BeaconKV; knows nothing about rows.
"""

from __future__ import annotations

import csv
from functools import lru_cache
from typing import Any

from engine import paths

WINDOW = ("n_beacon", "n_recent", "selector")  # what tells two observation sets apart
OWN = (*WINDOW, "budget", "kind")
TABLES = ("split", "aggregation", "initial_recent", "system")


# ---- roles


def role(arm: dict) -> str:
    """ "beacon", "recent", "initial" or "random" by which queries vote; "" for any other method.

    "recent" is plain max over recent queries: a beacon memory without beacons, or RPC's selector at
    a fixed budget, both with the maximum over queries and over heads.
    """
    options, kind = arm.get("options") or {}, arm["kind"]
    maximum = set(aggregation(options)) <= {"max"}
    if kind == "rpc":
        grows = options.get("grows", options.get("preset") == "paper")
        return "recent" if maximum and aggregation(options) and not grows else ""
    if kind != "beacon":
        return ""
    selector = options.get("selector", "continual")
    if options.get("n_beacon") == 0 or selector == "recent":
        return "recent" if maximum else ""
    return selector if selector in ("initial", "random") else "beacon"


def aggregation(options: dict) -> list[str]:
    """Over queries and over heads: max, mean or another word."""
    return [options[name] for name in ("over_queries", "over_heads") if name in options]


def beacon_and_recent(arms: list[dict], budget: float) -> tuple[dict, dict] | None:
    """An arm with beacons and one with plain max over recent queries that differ least otherwise.

    Both of that budget; of several splits the most even one, as the paper recommends; None where
    one is missing.
    """
    own = [arm for arm in arms if arm["budget"] == budget]
    beacons = [arm for arm in own if role(arm) == "beacon"]
    recents = [arm for arm in own if role(arm) == "recent"]
    matched = [(b, r) for b in beacons for r in recents]
    return min(matched, key=_order, default=None)


def _order(pair: tuple[dict, dict]) -> tuple:
    recent, beacons = _divided(pair[0])
    return _distance(*pair), abs(recent - beacons), *(arm["index"] for arm in pair)


def split_of(arm: dict) -> str:
    """ "16 + 16", beacons first."""
    recent, beacons = _divided(arm)
    return f"{beacons} + {recent}"


def _distance(a: dict, b: dict) -> tuple[bool, int]:
    return a["kind"] != b["kind"], len(unlike(a, b))


def unlike(a: dict, b: dict) -> list[str]:
    """What besides the observation set two arms do not share, for a sentence."""
    if a["kind"] != b["kind"]:
        return ["method"]
    first, second = a.get("options") or {}, b.get("options") or {}
    shared = sorted({*first, *second} - {*OWN})
    told = [n.replace("_", " ") for n in shared if first.get(n) != second.get(n)]
    queries = [sum(o.get(n, 0) for n in ("n_beacon", "n_recent")) for o in (first, second)]
    return told + (["number of queries"] if queries[0] != queries[1] else [])


# ---- published figures


def published(arms: list[dict]) -> dict[str, list[dict]]:
    """Table → rows of BeaconKV's figures that belong to a run with these arms; only tables that do.

    Per cent as printed (`_pct`).  Each row carries its `source` and, in `arms`, the numbers of the
    arms whose setting it names: they are drawn beside ours, never among them.
    """
    found = {
        "split": _split(arms),
        "aggregation": _aggregation(arms),
        "initial_recent": _initial_recent(arms),
        "system": _system(arms),
    }
    return {name: rows for name, rows in found.items() if rows}


def _beacons(arms: list[dict]) -> list[dict]:
    return [arm for arm in arms if arm["kind"] == "beacon"]


def _split(arms: list[dict]) -> list[dict]:
    """Table 1: thirty-two observing queries, divided between recent ones and beacons."""
    voting = [arm for arm in _beacons(arms) if role(arm) in ("beacon", "recent")]
    splits = {arm["index"]: _divided(arm) for arm in voting}
    if len(set(splits.values())) < 2:
        return []
    return [
        row | {"arms": [i for i, s in splits.items() if s == _of_row(row)]}
        for row in table("split")
    ]


def _divided(arm: dict) -> tuple[int, int]:
    """(recent, beacon) queries that vote."""
    options = arm.get("options") or {}
    recent, beacons = options.get("n_recent", 0), options.get("n_beacon", 0)
    return (recent + beacons, 0) if role(arm) == "recent" else (recent, beacons)


def _of_row(row: dict) -> tuple[int, int]:
    return row["recent_queries"], row["beacon_queries"]


def _aggregation(arms: list[dict]) -> list[dict]:
    """Table 2: maximum or mean, over queries and heads at once."""
    ways = {arm["index"]: tuple(aggregation(arm.get("options") or {})) for arm in _beacons(arms)}
    if len(set(ways.values())) < 2:
        return []
    own = [i for i, way in ways.items() if way in (("max", "max"), ("mean", "mean"))]
    return [row | {"arms": own} for row in table("aggregation")]


def _initial_recent(arms: list[dict]) -> list[dict]:
    """Table 3: the first queries of the history instead of chosen ones."""
    roles = {arm["index"]: role(arm) for arm in arms}
    if not {"beacon", "initial"} <= set(roles.values()):
        return []
    own = [i for i, name in roles.items() if name in ("beacon", "initial")]
    return [row | {"arms": own} for row in table("initial_recent")]


def _system(arms: list[dict]) -> list[dict]:
    """Tables 4 and 5: rows of the methods that the run has, where it has beacons and one other."""
    kinds: dict[str, list[int]] = {}
    for arm in arms:
        name = "beaconkv" if role(arm) == "beacon" else arm["kind"]
        kinds.setdefault(name, []).append(arm["index"])
    rows = [
        row | {"arms": kinds[row["method"]]} for row in table("system") if row["method"] in kinds
    ]
    rivals = {row["method"] for row in rows} & {"rpc", "snapkv"}
    return rows if "beaconkv" in kinds and rivals else []


@lru_cache(maxsize=len(TABLES))
def _read(name: str) -> tuple[dict, ...]:
    path = paths.data() / "published" / f"beaconkv_{name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(dict(map(_cell, row.items())) for row in csv.DictReader(file))


def table(name: str) -> list[dict]:
    """One published table under its own column names; None where a cell is empty."""
    return [dict(row) for row in _read(name)]


def _cell(item: tuple[str, str]) -> tuple[str, Any]:
    name, text = item
    try:
        number = float(text)
    except ValueError:
        return name, text or None
    return name, int(number) if "." not in text else number
