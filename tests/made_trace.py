"""A made-up decode run: texts, events and traces in the shapes that the service gives.

Queries drift and, now and then, look back at a marked span; methods choose what stays from those
queries, so that coverage, regret and votes hang together.  No model.  Fixed by a seed.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

import numpy as np

WILD = ("<b>", "<img src=x onerror=alert(1)>", "$\\alpha$", "\u200f", "**x**", " a\u0301")
PREMISE = (
    "Working log. The code of each door is written down when it is found. All codes are needed "
    "again at the end."
)
PLAN = (
    "\n\nPlan:\nStep 1 is to count the lamps.\nStep 2 is to weigh the bottles.\nStep 3 is to "
    "compare both."
)
FACTS = {
    "north gate": " The code for the north gate is 4829.",
    "old tower": " The code for the old tower is 7301.",
    "east cellar": " The code for the east cellar is 5590.",
}
WORKING = (
    " First 23 and 41 make 64.",
    " Let me go over this line once more.",
    " Twice 17 is 34, so this line is in order.",
    " Wait, that line should be read again.",
    " 7 times 12 is 84, and nothing is left over.",
    " It is better to do one thing at a time.",
    " I write 96 under 31 and draw a line.",
    " Nothing has changed, so I go on.",
    " Between 14 and 60 there are 46 steps.",
    " Good, this agrees with what I had before.",
)
DIM, LAYERS, KV_HEADS, GROUP = 24, 6, 3, 3
PROTECT, PREFIX, RECENT, BEACONS = 16, 4, 12, 12
SILENT = ("streaming", "random")  # methods that ask no queries


def pieces(text: str) -> list[str]:
    return re.findall(r"\n+| ?[A-Za-z]+| ?\d|[^\w\s]|\s", text)


def prompt(sample: int = 0, wild: bool = False) -> list[dict]:
    """Tokens of a prompt: premise, plan, and facts among some working out."""
    parts = [(PREMISE, "premise"), (PLAN, "plan"), ("\n\nLog:", None)]
    for i, (name, text) in enumerate(FACTS.items()):
        parts += [(WORKING[(2 * i + sample) % 10], None), (text, name)]
        parts.append((WORKING[(2 * i + 1 + sample) % 10], None))
    found = [(t, mark) for text, mark in parts for t in pieces(text)]
    if wild:
        found[8:8] = [(t, None) for t in WILD]
    return [
        {"position": i, "text": t, "role": "prompt", "mark": mark}
        for i, (t, mark) in enumerate(found)
    ]


def written(start: int, steps: int, sample: int = 0) -> list[dict]:
    """A continuation of `steps` tokens that says some facts again."""
    told, i = [], sample
    again = [f" Looking back,{text[0] + text[1].lower() + text[2:]}" for text in FACTS.values()]
    while len(told) < steps:
        told += pieces(WORKING[(3 * i) % 10] + WORKING[(3 * i + 1) % 10] + again[i % 3])
        i += 1
    return [
        {"position": start + i, "text": t, "role": "written", "mark": None}
        for i, t in enumerate(told[:steps])
    ]


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-9)


@lru_cache(maxsize=32)
def attention(sample: int, layer: int, head: int, length: int, steps: int):
    """(queries [T, D], weights [G, T, T]) of a full run; every 29th query looks back."""
    rng = np.random.default_rng([sample, layer, head, 11])
    total = length + steps
    drift = np.zeros((total, DIM))
    for t in range(1, total):
        drift[t] = 0.94 * drift[t - 1] + 0.34 * rng.normal(size=DIM)
    topics = unit(rng.normal(size=(5, DIM)))
    looks = (np.arange(total) % 29 < 2) & (np.arange(total) > 4)
    queries = unit(drift + 0.2 * rng.normal(size=drift.shape))
    topic = (np.arange(total) // 29) % 5
    queries[looks] = unit(topics[topic[looks]] + 0.1 * rng.normal(size=(looks.sum(), DIM)))
    keys = unit(drift + 0.9 * rng.normal(size=drift.shape))
    for k, at in enumerate(np.linspace(12, length - 12, 5).astype(int)):
        keys[at : at + 8] = unit(topics[k] + 0.3 * rng.normal(size=(8, DIM)))
    ages = np.arange(total)[:, None] - np.arange(total)[None, :]
    weights = []
    for g in range(GROUP):
        logits = (6.0 + g) * queries @ keys.T - 0.012 * ages * (~looks)[:, None]
        logits[:, :4] += 3.0
        logits[ages < 0] = -np.inf
        weight = np.exp(logits - logits.max(-1, keepdims=True))
        weights.append(weight / weight.sum(-1, keepdims=True))
    return queries, np.stack(weights)


def farthest(queries: np.ndarray, count: int) -> np.ndarray:
    """Indices of a farthest-point sample by cosine."""
    chosen = [int((queries @ unit(queries.mean(0))).argmin())]
    near = queries @ queries[chosen[0]]
    while len(chosen) < min(count, len(queries)):
        near[chosen] = np.inf
        chosen.append(int(near.argmin()))
        near = np.maximum(near, queries @ queries[chosen[-1]])
    return np.sort(chosen)


def trace(
    *,
    arm: int,
    method: str,
    budget: int,
    sample: int,
    layer: int,
    kv_head: int,
    steps: int,
    wild: bool = False,
    far: int = 200,
) -> dict:
    """One arm, sample, layer and KV head: events, votes, and what was lost by them."""
    tokens = prompt(sample, wild)
    start = len(tokens)
    tokens += written(start, steps, sample)
    queries, weights = attention(sample, layer, kv_head, start, steps)
    rng = np.random.default_rng([arm, sample, layer, kv_head])
    total, floor = len(tokens), budget * 7 // 8
    present, events, gone = list(range(start)), [], np.full(total, total + 1)
    for seen in range(start, total + 1):
        if seen > start:
            present.append(seen - 1)
        if method == "full" or len(present) < budget:
            continue
        event = judge(method, queries, weights, present, seen, floor, kv_head, rng)
        events.append(event)
        out = sorted(set(present) - set(event["kept"]))
        gone[out] = seen
        present = event["kept"][:]
    for i, event in enumerate(events):
        stop = events[i + 1]["seen"] if i + 1 < len(events) else total
        own = event.pop("asked")
        event |= coverage(queries, event["seen"], stop, own, rng)
    now = np.arange(total)
    lost = (gone[None, :] <= now[:, None]) & (now[:, None] >= start)
    regret = (weights.mean(0) * lost).sum(-1)
    mine, full = logprobs(regret, total, sample, arm)
    each = 4 * DIM * KV_HEADS * LAYERS
    counts = [int((~(gone <= t) & (now <= t)).sum()) for t in range(total)]
    spots = list(range(start, total))
    return {
        "arm": arm,
        "sample": sample,
        "layer": layer,
        "kv_head": kv_head,
        "tokens": tokens,
        "events": events,
        "nll": [[p, mine[p], full[p]] for p in spots],
        "bytes": [[p, counts[p] * each, (p + 1) * each] for p in spots],
        "regret": [[p, float(regret[p])] for p in spots],
        "restored": restored(tokens, gone, total, sample, arm),
        "distances": distances(far),
    }


def judge(method, queries, weights, present, seen, floor, kv_head, rng) -> dict:
    """One event: scores of what is present, what stays, and who voted."""
    held, silent = np.array(present), method in SILENT
    count = RECENT if method == "beacon" else BEACONS + RECENT
    recent = np.arange(max(0, seen - count), seen)
    beacons = farthest(queries[: seen - RECENT], BEACONS) if method == "beacon" else recent[:0]
    asking = np.concatenate([beacons, recent])
    table = weights[:, asking][:, :, held]  # G, m, n
    scores = table.max((0, 1)) if method == "beacon" else table.mean((0, 1))
    if method == "h2o":
        scores = weights.mean(0)[:seen][:, held].sum(0)
    elif method == "rkv":
        scores = 0.1 * scores / scores.max() - 0.9 * rng.random(len(held)) / len(held)
    elif silent:
        scores = held.astype(float) if method == "streaming" else rng.random(len(held))
    safe = (held < PREFIX) | (held >= seen - PROTECT)
    order = np.argsort(-np.where(safe, np.inf, scores), kind="stable")
    flat = table.reshape(-1, len(held)).argmax(0)
    who = np.full(len(held), -1) if silent else flat % len(asking)
    heads = np.zeros(len(held), int) if silent else flat // len(asking)
    history = queries[np.linspace(0, seen - 1, min(160, seen)).astype(int)]
    base = np.linalg.svd(history - history.mean(0), full_matrices=False)[2][:2].T
    kinds = ["beacon"] * len(beacons) + ["recent"] * len(recent)
    asked = [
        {"kind": k, "position": int(p) if k == "recent" else -1, "head": kv_head * GROUP}
        for k, p in zip(kinds, asking, strict=True)  # a beacon's position is not kept
    ]
    u = unit(queries[asking])
    return {
        "seen": seen,
        "present": held.tolist(),
        "scores": [None] * len(held) if silent else [float(s) for s in scores],
        "kept": np.sort(held[order[:floor]]).tolist(),
        "protected": held[safe].tolist(),
        "winner_query": who.tolist(),
        "winner_head": (kv_head * GROUP + heads).tolist(),
        "observers": [] if silent else asked,
        "cosine": (u @ u.T).tolist(),
        "pca": ((queries[asking] - history.mean(0)) @ base).tolist(),
        "asked": [] if silent else asking.tolist(),
        "pca_all": ((history - history.mean(0)) @ base).tolist(),
    }


def coverage(queries: np.ndarray, seen: int, stop: int, own: list[int], rng) -> dict:
    """Highest cosine of each following query to sets chosen in several ways."""
    after, past, count = queries[seen:stop], queries[:seen], BEACONS + RECENT
    recent = past[-RECENT:]
    sets = {
        "12 recent": recent,
        "24 recent": past[-count:],
        "12 recent + random": np.concatenate([past[rng.permutation(seen)[:BEACONS]], recent]),
        "12 recent + farthest": np.concatenate([past[farthest(past[:-RECENT], BEACONS)], recent]),
        "12 recent + initial": np.concatenate([past[:BEACONS], recent]),
        "this method's own": past[own],
    }
    sets = {name: chosen for name, chosen in sets.items() if len(chosen)}
    cosines = {name: (after @ chosen.T) for name, chosen in sets.items()}
    return {
        "coverage": {name: c.max(-1).tolist() if len(c) else [] for name, c in cosines.items()},
        "coverage_positions": list(range(seen, stop)),
    }


def logprobs(regret: np.ndarray, total: int, sample: int, arm: int):
    full = -np.abs(np.random.default_rng([sample, 5]).gamma(0.6, 1.4, total))
    own = np.random.default_rng([sample, arm, 6])
    mine = full - 1.6 * regret * own.random(total) + 0.02 * own.normal(size=total)
    return np.minimum(mine, 0).tolist(), full.tolist()


def restored(tokens, gone, total, sample, arm) -> list[dict]:
    rng, out = np.random.default_rng([arm, sample, 9]), []
    for i, name in enumerate(FACTS):
        spots = [t["position"] for t in tokens if t["mark"] == name]
        share, full = float((gone[spots] > total).mean()), -0.3 - 0.4 * rng.random()
        before = full - 4.5 * (1 - share) * (0.6 + 0.4 * rng.random())
        after = before + (full - before) * 0.85
        row = {"mark": name, "question": i, "before": before, "after": after}
        out.append(row | {"full": full})
    return out


def distances(far: int) -> list[list]:
    share = np.random.default_rng(4).beta(0.8, 3.0, (LAYERS, KV_HEADS * GROUP))
    share = np.minimum(1, share * math.exp(-(far - 200) / 300))
    return [[i, h, float(share[i, h])] for i in range(LAYERS) for h in range(KV_HEADS * GROUP)]
