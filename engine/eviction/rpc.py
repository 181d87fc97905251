"""RPC: the last queries of a reasoning path vote on it (BASELINES 5.8).

`paper` keeps the prompt whole and shortens what is written to a part of its length, so that the
cache grows; `fixed_budget` is the same selector with BeaconKV's budget, which BKV compares with.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.eviction.base import Clock, Evicting, Setting, Votes
from engine.eviction.named import CUSTOM, settled
from engine.eviction.periodic import LatestState, spread
from engine.eviction.window import candidates, pool, reduced, weights
from engine.registry import MEMORIES, FieldError, option

NAMES = ("grows", "prefix", "edge_corrected")
PRESETS = {"fixed_budget": (False, 4, True), "paper": (True, 0, False)}
PRESETS = {name: dict(zip(NAMES, own, strict=True)) for name, own in PRESETS.items()}
ALIASES = {"fixed": "fixed_budget", "beaconkv": "fixed_budget", "original": "paper"}


@MEMORIES.register("rpc", "RPC", "rpc_press")
@dataclass(frozen=True)
class RPC(Evicting):
    """RPC: the last queries vote, all heads together."""

    preset: str = option(
        "fixed_budget",
        "fixed_budget: the budget is the peak, as BeaconKV's; paper: the prompt stays whole, and "
        "after every `budget` tokens a part of what was written",
        label="Preset",
        choices=(*PRESETS, CUSTOM),
    )
    obs_window: int = option(
        32,
        "last queries that vote; as many entries are protected",
        label="Queries",
        low=1,
        high=4096,
    )
    over_queries: str = option(
        "mean", "over the voting queries", label="Over queries", choices=("mean", "max")
    )
    over_heads: str = option(
        "all",
        "all: mean over the layer's heads, one set for them; mean, max: over each group's heads",
        label="Over heads",
        choices=("all", "mean", "max"),
    )
    kernel: int = option(
        7, "entries averaged together, an odd number; 1 none", label="Kernel", low=1, high=999
    )
    grows: bool = option(
        False, "the cache grows by a part of what was written; else the budget is its peak"
    )
    ratio: int = option(
        4,
        "what is written is shortened by this",
        label="Ratio",
        low=2,
        high=1024,
        when="grows=true",
    )
    prefix: int = option(
        4, "first positions that are never dropped; with `grows`, the prompt too", low=0
    )
    edge_corrected: bool = option(
        True,
        "an average at an edge is over the entries that exist; off, zeros are counted too, as in "
        "the public code",
        label="Edge corrected",
    )

    @classmethod
    def normalise(cls, values: dict) -> dict:
        values = settled(values, PRESETS, "fixed_budget", ALIASES)
        values.setdefault("when", "after_context" if values.get("grows") else "streamed")
        return values

    @property
    def reads_whole(self) -> bool:
        return self.grows

    def _held(self, clock: Clock) -> int:
        """Leading entries that no event drops."""
        return max(self.prefix, clock.prompt) if self.grows else self.prefix

    def peak(self, clock: Clock) -> int:
        if not self.grows:
            return self.budget
        return self._held(clock) + clock.events * self._part + self.obs_window + self.budget

    def floor(self, clock: Clock) -> int:
        if not self.grows:
            return 7 * self.budget // 8
        return self._held(clock) + (clock.events + 1) * self._part + self.obs_window

    @property
    def _part(self) -> int:
        return self.budget // self.ratio

    @property
    def period(self) -> int:
        return self.budget if self.grows else self.budget - 7 * self.budget // 8

    def protected(self, clock: Clock) -> tuple[int, int]:
        return self._held(clock), self.obs_window

    def check(self) -> list[FieldError]:
        errors = []
        if self.grows and self.budget < self.ratio:
            told = f"nothing is left of {self.budget} tokens at 1 in {self.ratio}"
            errors.append(FieldError("budget", f"{told}; {self.ratio} is the least"))
        if not self.grows:
            held = self.prefix + self.obs_window + 1
            least = next(b for b in range(held, 8 * held + 8) if held <= 7 * b // 8 < b)
            parts = f"a prefix of {self.prefix} and {self.obs_window} queries after an event"
            errors += self.too_small(least, parts)
        if self.grows and self.when == "streamed":
            told = "keeps the prompt whole, so it must know where it ends: after_context works"
            errors.append(FieldError("when", told))
        if self.kernel % 2 == 0:
            told = f"must be odd, so that no entry shifts; {self.kernel + 1} works"
            errors.append(FieldError("kernel", told))
        return errors

    def usual(self) -> dict:
        return super().usual() | PRESETS.get(self.preset, {})

    def phrase(self) -> str:
        words = f"{self.obs_window} queries, {self.over_queries} over {self.over_heads} heads"
        return f"rpc {self.budget}, {self.preset.replace('_', ' ')}, {words}"

    def state(self, setting: Setting) -> LatestState:
        return LatestState(self, setting, self.obs_window)

    def judge(
        self,
        queries: Tensor,
        query_positions: Tensor,
        keys: Tensor,
        positions: Tensor,
        clock: Clock,
        scale: float,
    ) -> Votes:
        """Score (B, K, n): weights over the candidates, over queries, over heads, then pooled."""
        some = candidates(positions, *self.protected(clock))
        found, winner = weights(
            *(queries, query_positions, keys, positions, scale, some), over_all=False
        )
        votes = reduced(found, self.over_queries, 3)  # (B, K, G, c)
        if self.over_heads == "all":
            score = votes.mean((1, 2))[:, None].expand(-1, keys.shape[1], -1)
        else:
            score = reduced(votes, self.over_heads, 2)
        score = pool(score, self.kernel, "avg", self.edge_corrected)
        return Votes(spread(score, some.start, self.obs_window), winner)
