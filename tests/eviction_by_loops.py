"""Eviction by plain loops, written from SCIENCE §6 and the public codes' descriptions.

One row of one layer, token by token: queries (H, T, D) and keys (K, T, D) before RoPE go in, the
events come out.  Nothing here knows how the engine computes any of it.
"""

import math

import numpy as np


def turned(x, position, base=10_000.0):
    """R(position) x by complex numbers."""
    half = len(x) // 2
    z = (x[:half] + 1j * x[half:]) * np.exp(1j * position * base ** (-np.arange(half) / half))
    return np.concatenate([z.real, z.imag])


def cosine(a, b):
    return float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))


def softmax(values):
    """Of a dict or a list, in its own form."""
    names = list(values) if isinstance(values, dict) else range(len(values))
    top = max(values[n] for n in names)
    raised = {n: math.exp(values[n] - top) for n in names}
    total = sum(raised.values())
    share = {n: x / total for n, x in raised.items()}
    return share if isinstance(values, dict) else [share[n] for n in names]


def combine(values, how):
    values = list(values)
    return max(values) if how == "max" else sum(values) / (len(values) if how == "mean" else 1)


# ---- farthest points


def cosines(a, b):
    """Of each of a to each of b, as lists."""
    return (np.array([x / np.linalg.norm(x) for x in a])
            @ np.array([x / np.linalg.norm(x) for x in b]).T).tolist()  # fmt: skip


def farthest(points, count):
    """Indices, ascending, of a farthest-point sample by cosine; ties go to the lower index."""
    total = len(points)
    if count >= total:
        return list(range(total))
    similar = cosines(points, points)
    means = [sum(row) / total for row in similar]
    chosen = [means.index(min(means))]
    while len(chosen) < count:
        nearest = {i: max(similar[i][j] for j in chosen) for i in range(total) if i not in chosen}
        chosen.append(min(nearest, key=lambda i: (nearest[i], i)))
    return sorted(chosen)


def clusters(points, count, rounds=10):
    """(centroids, indices of the real point nearest to each): spherical k-means from FPS."""
    count = min(count, len(points))
    centres = [points[i] for i in farthest(points, count)]
    for _ in range(rounds):
        own = [row.index(max(row)) for row in cosines(points, centres)]
        for c in range(count):
            members = [p for p, mine in zip(points, own, strict=True) if mine == c]
            if members:
                centres[c] = sum(members) / len(members)
    near = [row.index(max(row)) for row in cosines(centres, points)]
    return centres, sorted(near)


# ---- what a method scores with


class Run:
    """One row of one layer: what is cached per KV head, and what has been read."""

    def __init__(self, q, k, options, prompt):
        self.q, self.k, self.o, self.prompt = q, k, options, prompt
        self.heads, self.kv_heads, self.size = len(q), len(k), q.shape[-1]
        self.group = self.heads // self.kv_heads
        self.cached = [[] for _ in range(self.kv_heads)]
        self.seen, self.events = 0, 0
        self.turned_q = [[turned(x, t) for t, x in enumerate(head)] for head in q]
        self.turned_k = [[turned(x, t) for t, x in enumerate(head)] for head in k]

    def of_group(self, kv):
        return range(kv * self.group, (kv + 1) * self.group)

    def logit(self, query, kv, position):
        return float(query @ self.turned_k[kv][position]) / math.sqrt(self.size)

    def attention(self, query, kv, positions):
        """{position: weight} of one query, already rotated."""
        return softmax({p: self.logit(query, kv, p) for p in positions})

    def read(self):
        """One token: it enters the cache, then its query attends to all of it, itself included."""
        for own in self.cached:
            own.append(self.seen)
        self.seen += 1
        self.token(self.seen - 1)

    def token(self, t):
        """A method takes note of a query."""

    def prompt_read(self):
        """The whole prompt has been read at once."""

    def after_event(self):
        pass

    # counts: a budget that stays, an event every so many tokens
    def peak(self, prompt_end):
        return self.o["budget"] + (1 if prompt_end else self.o["every"])

    def floor(self):
        return self.o["budget"]

    def protected(self):
        """(leading positions, latest entries)."""
        return 0, 0

    def scores(self, kv):
        """{position: score} of the entries that may be dropped."""
        raise NotImplementedError

    def free(self, kv):
        prefix, latest = self.protected()
        own = self.cached[kv]
        return [p for p in own[: len(own) - latest] if p >= prefix]

    def event(self):
        """Protected entries and the top of the rest stay; of equals, the earlier one."""
        told = []
        for kv in range(self.kv_heads):
            free, score = self.free(kv), self.scores(kv)
            room = self.floor() - (len(self.cached[kv]) - len(free))
            best = sorted(free, key=lambda p: (-score[p], p))[:room]
            kept = [p for p in self.cached[kv] if p not in free or p in best]
            told.append((kept, score))
        self.cached = [list(kept) for kept, _ in told]
        self.after_event()
        return {
            "seen": self.seen,
            "kept": [kept for kept, _ in told],
            "scores": [score for _, score in told],
        }


def replay(run, total):
    """Events over `total` tokens; `run.prompt` of them are read at once."""
    found = []

    def check(prompt_end=False):
        if len(run.cached[0]) >= run.peak(prompt_end):
            if run.floor() < len(run.cached[0]):
                found.append(run.event())
            run.events += 1

    for _ in range(run.prompt):
        run.read()
    if run.prompt:
        run.prompt_read()
        check(prompt_end=True)
    while run.seen < total:
        run.read()
        check()
    return found
