"""A trace and a report as frames for figures.

Pure: dicts and frames in, frames out.  No Streamlit, no engine, no figures.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from app.figures.marks import mark
from app.figures.theme import Look

ABSENT, WRITTEN, PRESENT, PROTECTED, EVICTED = range(5)
STATES = {
    WRITTEN: "written",
    PRESENT: "present",
    PROTECTED: "protected",
    EVICTED: "evicted",
}


def tokens(trace: dict) -> pd.DataFrame:
    """position, text, role, mark of every token, by position."""
    frame = pd.DataFrame(trace.get("tokens") or [], columns=["position", "text", "role", "mark"])
    return frame.sort_values("position", ignore_index=True)


def texts(trace: dict) -> dict[int, str]:
    return {int(t["position"]): t["text"] for t in trace.get("tokens") or ()}


def prompt_length(trace: dict) -> int:
    return sum(t.get("role") != "written" for t in trace.get("tokens") or ())


def spans(trace: dict) -> list[tuple[str, int, int]]:
    """(mark, first, last) of each run of tokens of one mark."""
    out: list[tuple[str, int, int]] = []
    for token in trace.get("tokens") or ():
        name, at = token.get("mark"), int(token["position"])
        if name and out and out[-1][0] == name and out[-1][2] == at - 1:
            out[-1] = (name, out[-1][1], at)
        elif name:
            out.append((name, at, at))
    return out


def segments(trace: dict) -> pd.DataFrame:
    """position, text, state, start, stop: what became of every token, as runs over tokens read."""
    events, told = trace.get("events") or [], texts(trace)
    total, prompt = len(told), prompt_length(trace)
    if not total:
        return pd.DataFrame(columns=["position", "text", "state", "start", "stop"])
    streamed = bool(events) and events[0]["seen"] < prompt
    lead = 0 if streamed else max(0, prompt - max(4, (total - prompt) // 16))
    edges = [lead, *[int(e["seen"]) for e in events], total]
    birth = np.arange(total)
    birth[birth < (0 if streamed else prompt)] = lead
    codes = _codes(events, edges, total, prompt, streamed)
    rows: list[tuple[int, str, int, int]] = []
    for position in range(total):
        begun, state = int(birth[position]), ABSENT
        for i in range(len(edges) - 1):
            code = int(codes[i, position])
            if code != state:
                if state != ABSENT:
                    rows.append((position, STATES[state], begun, edges[i]))
                begun, state = max(int(birth[position]), edges[i]), code
        if state != ABSENT:
            rows.append((position, STATES[state], begun, total))
    frame = pd.DataFrame(rows, columns=["position", "state", "start", "stop"])
    frame.insert(1, "text", [told.get(p, "") for p in frame["position"]])
    return frame[frame["stop"] > frame["start"]].reset_index(drop=True)


def _codes(
    events: list[dict], edges: list[int], total: int, prompt: int, streamed: bool
) -> np.ndarray:
    """[intervals, positions]: state of each token between two events."""
    position = np.arange(total)
    first = np.zeros(total, int) if not streamed else position
    first = np.where(position < prompt, first, position)
    codes = np.zeros((len(edges) - 1, total), int)
    alive = np.ones(total, bool)
    for i, (begin, stop) in enumerate(pairwise(edges)):
        born = first < max(stop, begin + 1) if i == 0 else first < stop
        new = born & (first >= begin) & ((position >= prompt) | streamed)
        codes[i] = np.where(born, np.where(new, WRITTEN, PRESENT), ABSENT)
        if i < len(events):
            safe = np.isin(position, events[i]["protected"])
            codes[i] = np.where(born & ~new & safe, PROTECTED, codes[i])
        codes[i] = np.where(born & ~alive, EVICTED, codes[i])
        if i < len(events):
            alive &= np.isin(position, events[i]["kept"]) | (first >= stop)
    return codes


def event(trace: dict, place: int) -> pd.DataFrame:
    """position, text, mark, score, fate, observer, head: what was in the cache before an event."""
    told = trace["events"][place]
    held = [int(p) for p in told["present"]]
    words, marks = texts(trace), {int(t["position"]): t.get("mark") for t in trace["tokens"]}
    kept, safe = set(told["kept"]), set(told["protected"])
    count = len(held)
    frame = pd.DataFrame(
        {
            "position": held,
            "text": [words.get(p, "") for p in held],
            "mark": [marks.get(p) for p in held],
            "score": _numbers(told.get("scores"), count),
            "fate": [
                "protected" if p in safe and p in kept else "kept" if p in kept else "evicted"
                for p in held
            ],
            "observer": [int(w) for w in told.get("winner_query") or [-1] * count],
            "head": [int(w) for w in told.get("winner_head") or [-1] * count],
        }
    )
    return frame


def _numbers(values: Any, count: int) -> np.ndarray:
    """Scores as floats; NaN where a method gives none."""
    if not values:
        return np.full(count, np.nan)
    return np.array([np.nan if v is None else float(v) for v in values])


def observers(told: dict, words: dict[int, str]) -> pd.DataFrame:
    """observer, kind, position, text of an event's queries, beacons first."""
    rows = [
        (i, str(o.get("kind")), int(o.get("position", -1)))
        for i, o in enumerate(told.get("observers") or ())
    ]
    return _named(rows, words)


def watched(told: dict, words: dict[int, str]) -> pd.DataFrame:
    """As `observers`; where a method keeps no queries, the latest that stand for what it saw."""
    found, count = observers(told, words), len(told.get("cosine") or ())
    if len(found) or not count:
        return found
    first = int(told["seen"]) - count
    return _named([(i, "latest", first + i) for i in range(count)], words)


def _named(rows: list[tuple[int, str, int]], words: dict[int, str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["observer", "kind", "position"])
    frame["text"] = [words.get(p, "") for p in frame["position"]]
    return frame.sort_values(["kind", "position"], kind="stable", ignore_index=True)


def voted(frame: pd.DataFrame) -> pd.DataFrame:
    """Entries that stayed by a vote: neither protected nor evicted, and won by a query."""
    return frame[(frame["fate"] == "kept") & (frame["observer"] >= 0)].reset_index(drop=True)


def cosine(told: dict, order: pd.DataFrame) -> np.ndarray:
    """[m, m] in the order of `observers`; empty where the event has none."""
    cells = np.array(told.get("cosine") or [], float)
    if cells.ndim != 2 or cells.shape != (len(order), len(order)):
        return np.zeros((0, 0))
    index = order["observer"].to_numpy(int)
    return cells[np.ix_(index, index)]


def components(told: dict, order: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(points: x, y, kind, position; history: x, y) of the first two components."""
    history = pd.DataFrame(told.get("pca_all") or [], columns=["x", "y"]).astype(float)
    spots = told.get("pca") or []
    if len(spots) != len(order):
        return pd.DataFrame(columns=["x", "y", "kind", "position"]), history
    points = order.copy()
    points["x"] = [float(spots[i][0]) for i in points["observer"]]
    points["y"] = [float(spots[i][1]) for i in points["observer"]]
    return points, history


def coverage(told: dict) -> pd.DataFrame:
    """selector, position, cosine: a row a following query and set."""
    spots = told.get("coverage_positions") or []
    rows = [
        {"selector": name, "position": int(p), "cosine": float(v)}
        for name, values in (told.get("coverage") or {}).items()
        for p, v in zip(spots, values, strict=False)
    ]
    return pd.DataFrame(rows, columns=["selector", "position", "cosine"])


def distances(trace: dict) -> pd.DataFrame:
    """layer, head, share of global queries."""
    return pd.DataFrame(trace.get("distances") or [], columns=["layer", "head", "share"])


def series(trace: dict, name: str, columns: tuple[str, ...]) -> pd.DataFrame:
    """position, text and `columns` of one of the trace's lists; unscored positions left out."""
    frame = pd.DataFrame(trace.get(name) or [], columns=["position", *columns]).astype(float)
    frame = frame.dropna().reset_index(drop=True)
    frame["position"] = frame["position"].astype(int)
    words = texts(trace)
    frame.insert(1, "text", [words.get(p, "") for p in frame["position"]])
    return frame


def likelihood(trace: dict) -> pd.DataFrame:
    """position, text, nll, full in nats."""
    frame = series(trace, "nll", ("nll", "full"))
    return frame.assign(nll=-frame["nll"], full=-frame["full"])


# ---- a report's arms


def measured(arms: list[dict], labels: list[str], measure: str, look: Look) -> pd.DataFrame:
    """One row an arm: label, budget and its shares, value, low, high, resident, peak, bytes,
    peak_bytes, mark.

    bytes and peak_bytes hold the method's own state too; front: beaten by no other in both.
    """
    rows = []
    for arm in arms:
        drawn = mark(labels.index(arm["label"]), look)
        state = float(arm.get("state_bytes") or 0)
        rows.append(
            {
                "arm": arm["arm"],
                "label": arm["label"],
                "budget": arm["budget"],
                "kept_share": arm.get("kept_share"),
                "removed_share": arm.get("removed_share"),
                "value": arm.get(measure),
                "low": arm.get(f"{measure}_low"),
                "high": arm.get(f"{measure}_high"),
                "resident": arm.get("mean_resident"),
                "peak": arm.get("peak_resident"),
                "bytes": (arm.get("mean_bytes") or 0) + state,
                "peak_bytes": (arm.get("peak_bytes") or 0) + state,
                "front": bool(arm.get(f"pareto_{measure}")),
                "colour": drawn.colour,
                "text": drawn.text,
                "symbol": drawn.symbol,
            }
        )
    frame = pd.DataFrame(rows)
    if not len(frame):
        return frame
    numbers = ["value", "low", "high", "resident", "peak", "bytes", "peak_bytes"]
    frame[numbers] = frame[numbers].astype(float)
    return frame.dropna(subset=["value", "resident"]).reset_index(drop=True)


def control(full: dict | None, measure: str) -> dict | None:
    """The full cache's value, interval and bytes, as figures read them."""
    if not full or full.get(measure) is None:
        return None
    state = full.get("state_bytes") or 0
    return {
        "value": full[measure],
        "low": full.get(f"{measure}_low"),
        "high": full.get(f"{measure}_high"),
        "bytes": (full.get("mean_bytes") or 0) + state,
        "peak_bytes": (full.get("peak_bytes") or 0) + state,
        "front": bool(full.get(f"pareto_{measure}")),
    }


def pairs(
    rows: list[dict], names: dict[int, str], labels: list[str], measure: str, look: Look
) -> pd.DataFrame:
    """Paired differences of one measure, with the mark of the first of the two.

    `names`: arm → label.  An interval that one prompt cannot give is NaN.
    """
    out = []
    for row in rows:
        if row.get("measure") != measure or row.get("diff") is None:
            continue
        a, b = names.get(row["arm_a"], row["a"]), names.get(row["arm_b"], row["b"])
        drawn = mark(labels.index(a) if a in labels else None, look)
        shown = {"budget": row["budget"], "a": a, "b": b, "n": row.get("n")}
        shown |= {name: row.get(name) for name in ("diff", "low", "high", "p", "p_corrected")}
        shown |= {"resolved": bool(row.get("resolved"))}
        out.append(shown | {"colour": drawn.colour, "symbol": drawn.symbol})
    frame = pd.DataFrame(out)
    if len(frame):
        numbers = ["diff", "low", "high", "p", "p_corrected"]
        frame[numbers] = frame[numbers].astype(float)
    return frame
