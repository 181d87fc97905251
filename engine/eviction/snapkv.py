"""SnapKV: the last queries vote, votes are pooled along the entries (BASELINES 5.1).

The public codes differ; each is a named preset.  `original` and `kvpress` compress a prompt once
and never again; `decode` is R-KV's periodic form with a fixed budget.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.eviction.base import NEVER, Clock, Setting, Votes
from engine.eviction.named import CUSTOM, settled
from engine.eviction.periodic import LatestState, Periodic, spread
from engine.eviction.window import POOLS, candidates, pool, reduced, weights
from engine.registry import MEMORIES, FieldError, option

NAMES = ("every", "obs_window", "over_queries", "softmax", "pool", "kernel", "heads")
PRESETS = {
    "decode": (128, 8, "mean", "candidates", "max", 7, "max_logits", True),
    "original": (0, 32, "sum", "all", "avg", 5, "per_query_head", False),
    "kvpress": (0, 64, "mean", "all", "avg", 5, "mean", False),
}
PRESETS = {
    name: dict(zip((*NAMES, "edge_corrected"), own, strict=True)) for name, own in PRESETS.items()
}
ALIASES = {"rkv_decode": "decode", "rkv": "decode", "snapkv": "original"}
HEADS = ("max_logits", "mean", "max", "per_query_head")


@MEMORIES.register("snapkv", "SnapKV", "snap_kv")
@MEMORIES.alias("snapkv.kvpress", "snapkv_press", "SnapKVPress")
@dataclass(frozen=True)
class SnapKV(Periodic):
    """SnapKV: the last queries vote on what came before them."""

    every: int = option(
        128,
        "tokens from one event to the next; 0 compresses once, at the end of the prompt",
        label="Every",
        low=0,
        high=4096,
    )
    preset: str = option(
        "decode",
        "whose SnapKV: R-KV's periodic one, the original or kvpress's; options given beside it "
        "replace its own, and it is called custom then",
        label="Preset",
        choices=(*PRESETS, CUSTOM),
    )
    obs_window: int = option(
        8,
        "last queries that vote; as many entries are protected",
        label="Queries",
        low=1,
        high=4096,
    )
    over_queries: str = option(
        "mean", "over the voting queries", label="Over queries", choices=("sum", "mean", "max")
    )
    softmax: str = option(
        "candidates",
        "over all entries, causal among the last; or over those that may be dropped",
        label="Softmax",
        choices=("all", "candidates"),
    )
    pool: str = option("max", "along the entries", label="Pooling", choices=POOLS)
    kernel: int = option(
        7, "entries pooled together, an odd number; 1 pools none", label="Kernel", low=1, high=999
    )
    heads: str = option(
        "max_logits",
        "max_logits: the group's largest logit, before the softmax; mean, max: over the group, "
        "after pooling; per_query_head: a set for each query head, at as many times the bytes",
        label="Heads",
        choices=HEADS,
    )
    edge_corrected: bool = option(
        True,
        "an average at an edge is over the entries that exist; off, zeros are counted too, as in "
        "the public codes, which lowers the first and the last",
        label="Edge corrected",
        when="pool=avg",
    )

    @classmethod
    def normalise(cls, values: dict) -> dict:
        values = settled(values, PRESETS, "decode", ALIASES)
        values.setdefault("when", "streamed" if values.get("every", 128) else "after_context")
        return values

    @property
    def per_query_head(self) -> bool:
        return self.heads == "per_query_head"

    @property
    def once(self) -> bool:
        return not self.every

    @property
    def period(self) -> int:
        return self.every

    def room(self, clock: Clock) -> int:
        return NEVER if self.once and not clock.prefilled else super().room(clock)

    def protected(self, clock: Clock) -> tuple[int, int]:
        return 0, self.obs_window

    def check(self) -> list[FieldError]:
        errors = self.too_small(self.obs_window + 1, f"a window of {self.obs_window} entries")
        if self.kernel % 2 == 0:
            told = f"must be odd, so that no entry shifts; {self.kernel + 1} works"
            errors.append(FieldError("kernel", told))
        if self.once and self.when == "streamed":
            told = "compresses once, behind a context: after_context works, or `every` of 1 or more"
            errors.append(FieldError("when", told))
        return errors

    def check_prompt(self, tokens: int) -> list[FieldError]:
        if not self.once or self.obs_window < tokens:
            return []
        told = f"{self.obs_window} queries are to vote on what came before them, and the shortest "
        told += f"prompt has {tokens} tokens; " + (
            f"{tokens - 1} works" if tokens > 1 else "lengthen it"
        )
        return [FieldError("obs_window", told)]

    def usual(self) -> dict:
        return super().usual() | PRESETS.get(self.preset, {})

    def phrase(self) -> str:
        beat = "once" if self.once else f"every {self.every}"
        return f"snapkv {self.budget}, {self.preset}, {self.obs_window} queries, {beat}"

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
        """Score (B, K, n): weights aggregated over queries, pooled, then over the group's heads."""
        some = candidates(positions, 0, self.obs_window)
        found, winner = weights(
            *(queries, query_positions, keys, positions, scale, some),
            over_all=self.softmax == "all",
            merged=self.heads == "max_logits",
        )
        votes = reduced(found, self.over_queries, 3)  # (B, K, G, c)
        votes = pool(votes, self.kernel, self.pool, self.edge_corrected)
        score = reduced(votes, "mean" if self.heads == "mean" else "max", 2)
        return Votes(spread(score, some.start, self.obs_window), winner)
