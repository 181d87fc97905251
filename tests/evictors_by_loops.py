"""Every evicting method by plain loops, from SCIENCE §6 and the public codes' descriptions."""

import math

import numpy as np
import torch
from eviction_by_loops import Run, clusters, combine, cosine, farthest, softmax, turned


def pooled(scores, positions, kernel, how, corrected):
    """Each score with its neighbours along the candidates, in their order."""
    found = {}
    for i, p in enumerate(positions):
        near = [
            scores[positions[j]]
            for j in range(i - kernel // 2, i + kernel // 2 + 1)
            if 0 <= j < len(positions)
        ]
        size = len(near) if corrected else kernel
        found[p] = max(near) if how == "max" else sum(near) / size
    return found


class Window(Run):
    """Methods in which the last queries vote."""

    def protected(self):
        return 0, self.o["obs_window"]

    def voters(self):
        return range(max(0, self.seen - self.o["obs_window"]), self.seen)

    def shares(self, kv, head, t, over_all):
        """{candidate: weight} of one query."""
        own = [p for p in self.cached[kv] if p <= t] if over_all else self.free(kv)
        share = self.attention(self.turned_q[head][t], kv, own)
        return {p: share[p] for p in self.free(kv)}

    def merged_shares(self, kv, t, over_all=False):
        """The largest logit of the group's heads comes before the softmax."""
        own = [p for p in self.cached[kv] if p <= t] if over_all else self.free(kv)
        asked = [self.turned_q[h][t] for h in self.of_group(kv)]
        share = softmax({p: max(self.logit(x, kv, p) for x in asked) for p in own})
        return {p: share[p] for p in self.free(kv)}

    def aggregated(self, shares, how):
        return {p: combine((share[p] for share in shares), how) for p in shares[0]}


class SnapKV(Window):
    def peak(self, prompt_end):
        if self.o["every"] == 0:
            return self.o["budget"] + 1 if prompt_end else math.inf
        return super().peak(prompt_end)

    def scores(self, kv):
        o, free = self.o, self.free(kv)
        over_all = o["softmax"] == "all"
        if o["heads"] == "max_logits":
            every = [[self.merged_shares(kv, t, over_all) for t in self.voters()]]
        else:
            every = [
                [self.shares(kv, h, t, over_all) for t in self.voters()] for h in self.of_group(kv)
            ]
        votes = [self.aggregated(shares, o["over_queries"]) for shares in every]
        edge = o["edge_corrected"]
        votes = [pooled(vote, free, o["kernel"], o["pool"], edge) for vote in votes]
        return self.aggregated(votes, "mean" if o["heads"] == "mean" else "max")


class RKV(Window):
    def redundancy(self, kv):
        """{entry: …} over all entries, from the table of all pairs, written out."""
        own, keys = self.cached[kv], self.turned_k[kv]
        table = [[0.0 if a == b else cosine(keys[a], keys[b]) for b in own] for a in own]
        for i, row in enumerate(table):
            close = [j for j, c in enumerate(row) if j != i and c > self.o["threshold"]]
            if close:
                row[close[-1]] = 0.0
            elif self.o["quirk"]:
                row[0] = 0.0
        count = len(own)
        return softmax({p: sum(row[j] for row in table) / count for j, p in enumerate(own)})

    def scores(self, kv):
        free, mix = self.free(kv), self.o["mix"]
        shares = [self.merged_shares(kv, t) for t in self.voters()]
        important = pooled(self.aggregated(shares, "mean"), free, self.o["kernel"], "max", True)
        redundant = self.redundancy(kv)
        return {p: mix * important[p] - (1 - mix) * redundant[p] for p in free}


class RPC(Window):
    def part(self):
        return self.o["budget"] // self.o["ratio"]

    def peak(self, prompt_end):
        if not self.o["grows"]:
            return self.o["budget"]
        whole = max(self.prompt, self.o["prefix"])
        return whole + self.events * self.part() + self.o["obs_window"] + self.o["budget"]

    def floor(self):
        if not self.o["grows"]:
            return 7 * self.o["budget"] // 8
        whole = max(self.prompt, self.o["prefix"])
        return whole + (self.events + 1) * self.part() + self.o["obs_window"]

    def protected(self):
        whole = max(self.prompt, self.o["prefix"]) if self.o["grows"] else self.o["prefix"]
        return whole, self.o["obs_window"]

    def by_head(self, kv):
        """A group's heads, each {place among the candidates: vote}."""
        return [
            self.aggregated(
                [self.shares(kv, h, t, False) for t in self.voters()], self.o["over_queries"]
            )
            for h in self.of_group(kv)
        ]

    def scores(self, kv):
        free = self.free(kv)
        if self.o["over_heads"] == "all":
            every = [
                list(v.values()) for other in range(self.kv_heads) for v in self.by_head(other)
            ]
            score = {p: combine((v[i] for v in every), "mean") for i, p in enumerate(free)}
        else:
            score = self.aggregated(self.by_head(kv), self.o["over_heads"])
        return pooled(score, free, self.o["kernel"], "avg", self.o["edge_corrected"])


class H2O(Run):
    def __init__(self, *given):
        super().__init__(*given)
        self.received = [{} for _ in range(self.heads)]

    def token(self, t):
        for kv in range(self.kv_heads):
            for h in self.of_group(kv):
                share = self.attention(self.turned_q[h][t], kv, self.cached[kv])
                for p, weight in share.items():
                    self.received[h][p] = self.received[h].get(p, 0.0) + weight

    def protected(self):
        return 0, self.o["recent"] or self.o["budget"] // 2

    def scores(self, kv):
        how = "max" if self.o["over_heads"] == "max" else "sum"
        return {
            p: combine((self.received[h][p] for h in self.of_group(kv)), how)
            for p in self.free(kv)
        }  # fmt: skip


class Streaming(Run):
    def peak(self, prompt_end):
        return self.o["budget"] + self.o["every"]

    def protected(self):
        return self.o["sinks"], 0

    def scores(self, kv):
        return {p: float(p) for p in self.free(kv)}


class TOVA(Run):
    def protected(self):
        return 0, 1

    def scores(self, kv):
        last, found = self.seen - 1, []
        for other in range(self.kv_heads):
            for h in self.of_group(other):
                share = self.attention(self.turned_q[h][last], other, self.cached[other])
                found.append([share[p] for p in self.cached[other]])
        return {p: sum(f[i] for f in found) / len(found) for i, p in enumerate(self.free(kv))}


class KeyDiff(Run):
    def scores(self, kv):
        own = {p: self.turned_k[kv][p] for p in self.cached[kv]}
        anchor = sum(key / np.linalg.norm(key) for key in own.values()) / len(own)
        return {p: -cosine(key, anchor) for p, key in own.items()}


class Knorm(Run):
    def scores(self, kv):
        return {p: -float(np.linalg.norm(self.turned_k[kv][p])) for p in self.cached[kv]}


class Beacon(Run):
    """Buffers, beacons and recents of each query head (SCIENCE §6.1)."""

    def __init__(self, *given):
        super().__init__(*given)
        plain = self.o["selector"] == "recent" or not self.o["n_beacon"]
        self.n_beacon = 0 if plain else self.o["n_beacon"]
        self.n_recent = self.o["n_recent"] + (self.o["n_beacon"] if plain else 0)
        self.plain = plain
        self.buffer = [[] for _ in range(self.heads)]
        self.frozen = None
        self.recent = []  # positions

    def peak(self, prompt_end):
        return self.o["budget"]

    def floor(self):
        return self.o["budget"] - self.o["event"] if self.o["event"] else 7 * self.o["budget"] // 8

    def protected(self):
        return self.o["prefix"], self.o["protect"]

    def token(self, t):
        if t < self.prompt:  # read at once: `prompt_read` samples
            return
        if len(self.cached[0]) > self.peak(False) - self.n_recent:
            self.freeze(t)
            self.recent = [*self.recent, t][-self.n_recent :]
            return
        if self.o["selector"] not in ("continual", "initial"):
            return
        for h, own in enumerate(self.buffer):
            if self.o["selector"] == "initial":
                self.buffer[h] = [*own, self.q[h][t]][: self.n_beacon]
                continue
            own.append(self.q[h][t])
            if self.n_beacon and len(own) >= self.n_beacon + max(1, self.n_recent):
                self.buffer[h] = [own[i] for i in farthest(own, self.n_beacon)]

    def prompt_read(self):
        for h in range(self.heads):
            own = list(self.q[h][: self.prompt])
            first = self.o["selector"] == "initial"
            some = range(self.n_beacon) if first else farthest(own, self.n_beacon)
            self.buffer[h] = [own[i] for i in some if i < len(own)]
        late = max(0, self.prompt - (self.peak(True) - self.n_recent))
        late = min(late, self.n_recent, self.prompt)
        if late:
            self.freeze(self.prompt)
            self.recent = list(range(self.prompt - late, self.prompt))

    def freeze(self, until):
        """The beacons of this cycle; those of the whole history, of the tokens before `until`."""
        if self.frozen is not None:
            return
        self.frozen = []
        for h in range(self.heads):
            past, kind, count = list(self.q[h][:until]), self.o["selector"], self.n_beacon
            if not count or (not past and kind in ("naive", "centroids", "nearest", "random")):
                own = []
            elif kind == "naive":
                own = [past[i] for i in farthest(past, count)]
            elif kind == "random":
                own = [past[i] for i in self.drawn(h, until)]
            elif kind == "centroids":
                own = clusters(past, count)[0]
            elif kind == "nearest":
                own = [past[i] for i in clusters(past, count)[1]]
            else:
                own = list(self.buffer[h])
            self.frozen.append(own)

    def drawn(self, head, until):
        """Places of the largest numbers of the row's own stream, as many as there are beacons."""
        stream = torch.Generator().manual_seed(self.o["row"] * 1_000_003 + until)
        noise = torch.rand(self.o["layers"], self.heads, until, generator=stream)
        own = noise[self.o["layer"], head].tolist()
        return sorted(sorted(range(until), key=lambda i: -own[i])[: self.n_beacon])

    def scores(self, kv):
        self.freeze(self.seen)
        by_head = []
        for h in self.of_group(kv):
            asked = [turned(x, self.seen - 1) for x in self.frozen[h]]
            asked += [self.turned_q[h][t] for t in self.recent]
            shares = [self.attention(x, kv, self.cached[kv]) for x in asked]
            by_head.append(
                {
                    p: combine((share[p] for share in shares), self.o["over_queries"])
                    for p in self.cached[kv]
                }
            )
        return {
            p: combine((votes[p] for votes in by_head), self.o["over_heads"])
            for p in self.cached[kv]
        }  # fmt: skip

    def after_event(self):
        for h in range(self.heads):
            if self.o["selector"] == "continual" and self.n_beacon:
                both = self.frozen[h] + [self.q[h][t] for t in self.recent]
                self.buffer[h] = [both[i] for i in farthest(both, self.n_beacon)]
        self.frozen = None
        if not self.plain:
            self.recent = []


METHODS = {
    "beacon": Beacon,
    "snapkv": SnapKV,
    "rkv": RKV,
    "rpc": RPC,
    "h2o": H2O,
    "streaming": Streaming,
    "tova": TOVA,
    "keydiff": KeyDiff,
    "knorm": Knorm,
}
