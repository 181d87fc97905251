"""Code whose decoration shifts it: a banner moves a constant that is asked later (PWS Fig. 1).

Knows a page of code and its constants.  The one slot is the banner, so the protocol is `lengthen`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from engine.copies import LogicalSample
from engine.registry import TASKS, FieldError, option
from engine.tasks.access_code import generator
from engine.tasks.filler import CANDIDATES
from engine.tasks.text import Marked, build_prompt, join, piece

FIXED = "-" * 16
SIGNS = (" =", " -", " *", " #", "=", "-", "*", "#", "~", *CANDIDATES)
PLAN = """def plan(seq_len):
    blocks = (seq_len + {tile} - 1) // {tile}
    return blocks


"""
TOPICS = ("Tiling", "Layout", "Caching", "Padding", "Launch", "Reduction", "Transpose", "Softmax")
WIDTHS = ("HEAD_DIM", "ROW_DIM", "MODEL_DIM", "LANE_DIM", "TILE_DIM", "FRAME_DIM")
TILES = ("BLOCK_N", "GROUP_M", "UNROLL_K", "SPLIT_Q", "WARP_N", "BATCH_M")
DEPTHS = ("STAGES", "ROUNDS", "SLOTS", "LANES", "PASSES", "BANKS")


@dataclass(frozen=True)
class Constants:
    """Names and values of one page of code; `tile` is what the last line asks for."""

    topic: str = "Tiling"
    width: tuple[str, int] = ("HEAD_DIM", 128)
    tile: tuple[str, int] = ("BLOCK_N", 8)
    depth: tuple[str, int] = ("STAGES", 32)
    other: int = 4  # a value that stands nowhere in the code

    @classmethod
    def drawn(cls, rng: random.Random) -> Constants:
        """Fresh names and values; the first digits differ, so that rivals can be told apart."""
        while True:
            tile, width = (
                rng.choice((2, 4, 5, 6, 7, 8, 9)),
                rng.choice((64, 96, 128, 192, 256, 512)),
            )
            depth, other = rng.choice((12, 16, 24, 32, 48, 64)), rng.choice((2, 3, 4, 5, 6, 7, 9))
            firsts = {str(tile)[0], str(depth)[0], str(other)[0]}
            if len(firsts) == 3 and depth != width:
                break
        return cls(
            rng.choice(TOPICS),
            (rng.choice(WIDTHS), width),
            (rng.choice(TILES), tile),
            (rng.choice(DEPTHS), depth),
            other,
        )


@TASKS.register("banner")
@dataclass(frozen=True)
class Banner:
    """Code completion after a decorative banner of growing length."""

    filler: str = option(
        "", "what the banner is made of, one token each; empty takes the first sign that fits"
    )
    base: int = option(
        0, "banner signs that stand there at shift 0", label="Shortest banner", low=0, high=2000
    )

    size_field = "base"

    def protocols(self) -> tuple[str, ...]:
        return ("lengthen", "grid_origin")

    def check(self) -> list[FieldError]:
        return []

    def samples(self, tokenizer: Any, n: int, seed: int) -> list[LogicalSample]:
        """Sample 0 is the published page; later ones vary names and constants."""
        pages = [Constants()] + [Constants.drawn(generator(seed, i, "banner")) for i in range(1, n)]
        return [self._sample(tokenizer, i, page) for i, page in enumerate(pages[:n])]

    def _sample(self, tokenizer: Any, index: int, page: Constants) -> LogicalSample:
        if self.filler or not self.base:
            return self._built(tokenizer, index, page, self.filler)
        sign = piece(tokenizer, self._built(tokenizer, index, page, "").filler)
        return self._built(tokenizer, index, page, sign)

    def _built(self, tokenizer: Any, index: int, page: Constants, filler: str) -> LogicalSample:
        (width, w), (tile, t), (depth, d) = page.width, page.tile, page.depth
        text, at = join(
            [
                ("open", '"""'),
                ("banner", filler * self.base),
                ("title", f'\n{page.topic} helpers for the decode kernel.\n{FIXED}\n"""\n\n'),
                ("width", f"{width} = {w}\n"),
                ("tile", f"{tile} = "),
                ("value", str(t)),
                ("depth", f"\n{depth} = {d}\n\n"),
                ("plan", PLAN.format(tile=tile)),
                ("asked", f"def check():\n    assert {width} == {w}\n    assert {depth} == {d}\n"),
                ("last", f"    assert {tile} == "),
            ]
        )
        marked = Marked(
            text=text,
            target=at["value"],
            answer=str(t),
            rivals=(str(d), str(d)[0], str(page.other)),
            slots=(("pad", at["banner"][1]),),
            question=at["asked"][0],
            spans=(
                (*at["banner"], "filler"),
                (*at["tile"], "record"),
                (*at["asked"], "query"),
                (*at["last"], "query"),
            ),
        )
        return build_prompt(tokenizer, marked, index, filler, candidates=SIGNS)
