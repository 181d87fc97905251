"""The family that ships: matched models in which only the memory differs (PWS §5; SCIENCE §4, §8).

One list; the manifest, the command line, the benchmark page and the tests derive from it.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import NamedTuple

from engine.models.controlled.config import Config, Recipe
from engine.registry import FieldError, SpecError, shown, suggest

SPARSE, MIDDLE, DENSE = 24, 32, 40  # records in 96 places


class Member(NamedTuple):
    """`group` is the section of the benchmark page; `control` the full model of its shape, "" if it
    is one; `gate` the training accuracy below which the next seed is tried.
    """

    name: str
    label: str
    group: str
    config: Config
    recipe: Recipe
    control: str = ""
    gate: float = 0.0


TWO = Config()  # 2 KV heads under 4 query heads of 32
FOUR = Config(kv_heads=4)
EIGHT = Config(q_heads=8, kv_heads=8, head_dim=16)
SPARSELY, MIDDLING, DENSELY = (Recipe(records=m) for m in (SPARSE, MIDDLE, DENSE))
DEEPSEEK = replace(
    TWO,
    window=8,
    stride=4,
    origin=-4,
    gate="vector",
    payload="lane",
    anchor="first",
    local=8,
    beside=True,
)
# Coverage: records of one phase each sequence, as many steps for both (seed 001 of the sources).
EVEN = Recipe(records=11, queries=11, phases="all", pitch=8, steps=1000)


def grid(base: Config, window: int, stride: int) -> Config:
    return replace(base, window=window, stride=stride)


def _seeds(count: int, member: Member) -> list[Member]:
    """The member with seeds 0 … count − 1, its own first."""
    own = member.recipe.seed
    return [with_seed(member, seed) for seed in sorted(range(count), key=lambda s: s != own)]


def with_seed(member: Member, seed: int) -> Member:
    """The member trained from another seed; its own keeps the plain name."""
    recipe = replace(member.recipe, seed=seed)
    if seed == member.recipe.seed:
        return member
    return member._replace(
        name=f"{member.name}-seed{seed}", label=f"{member.label}, seed {seed}", recipe=recipe
    )


def _full(name: str, label: str, config: Config, recipe: Recipe) -> Member:
    return Member(name, label, "control", replace(config, memory="full"), recipe, gate=0.9)


@functools.cache
def family() -> dict[str, Member]:
    """name → member, controls first."""
    sparse, dense, middle = "full-sparse", "full-dense", "full-2kv"
    listed = [
        _full("full-dense", "Full, M = 40", TWO, DENSELY),
        *_seeds(3, Member("w8s8-dense", "W8 S8, M = 40", "grid", TWO, DENSELY, dense)),
        _full("full-8kv", "Full, 8 KV heads", EIGHT, MIDDLING),
        Member("w8s8-8kv", "W8 S8, 8 KV heads", "heads", EIGHT, MIDDLING, "full-8kv"),
        _full("full-8kv-dense", "Full, 8 KV heads, M = 40", EIGHT, DENSELY),
        # Of its three seeds the one with the median mean has the plain name.
        *_seeds(
            3,
            Member(
                "w8s8-8kv-dense",
                "W8 S8, 8 KV heads, M = 40",
                "heads",
                EIGHT,
                replace(DENSELY, seed=1),
                "full-8kv-dense",
            ),
        ),
        _full("full-sparse", "Full, M = 24", TWO, SPARSELY),
        *_seeds(3, Member("w8s8-sparse", "W8 S8, M = 24", "grid", TWO, SPARSELY, sparse)),
        Member("w4s4", "W4 S4, M = 40", "grid", grid(TWO, 4, 4), DENSELY, dense),
        Member("w4s4-sparse", "W4 S4, M = 24", "grid", grid(TWO, 4, 4), SPARSELY, sparse),
        Member("w6s6", "W6 S6", "grid", grid(TWO, 6, 6), SPARSELY, sparse),
        Member("w8s6", "W8 S6", "grid", grid(TWO, 8, 6), SPARSELY, sparse),
        Member("w8s4", "W8 S4", "grid", grid(TWO, 8, 4), SPARSELY, sparse),
        Member("w12s4", "W12 S4", "grid", grid(TWO, 12, 4), SPARSELY, sparse),
        _full("full-4kv", "Full, 4 KV heads", FOUR, MIDDLING),
        Member("w12s12-4kv", "W12 S12, 4 KV heads", "grid", grid(FOUR, 12, 12), MIDDLING)._replace(
            control="full-4kv"
        ),
        *_seeds(3, Member("w12s12", "W12 S12", "grid", grid(EIGHT, 12, 12), MIDDLING, "full-8kv")),
        *_seeds(
            3, Member("w13s12", "W13 S12", "repair", grid(EIGHT, 13, 12), MIDDLING, "full-8kv")
        ),
        Member("w8s8-norope", "W8 S8, no RoPE", "rope", replace(TWO, rope=False), SPARSELY, sparse),
        Member(
            "w8s8-uniform", "W8 S8, uniform", "gate", replace(TWO, gate="uniform"), SPARSELY, sparse
        ),
        Member(
            "w8s8-vector", "W8 S8, vector gate", "gate", replace(TWO, gate="vector"), SPARSELY
        )._replace(control=sparse),
        *_seeds(
            3,
            Member(
                "w8s8-staggered",
                "W8 S8, staggered",
                "repair",
                replace(TWO, stagger=4),
                DENSELY,
                dense,
            ),
        ),
        *_seeds(
            3,
            Member(
                "w8s8-spread", "W8 S8, KL", "repair", TWO, replace(DENSELY, coverage=0.3), dense
            ),
        ),
        Member("w8s8-2kv", "W8 S8, 2 KV heads", "heads", TWO, MIDDLING, middle),
        _full("full-2kv", "Full, 2 KV heads", TWO, MIDDLING),
        Member("w8s8-4kv", "W8 S8, 4 KV heads", "heads", FOUR, MIDDLING, "full-4kv"),
        Member(
            "w8s8-shared",
            "W8 S8, shared payload",
            "payload",
            replace(TWO, payload="shared"),
            SPARSELY,
            sparse,
        ),
        Member(
            "w8s8-offset",
            "W8 S8, payload by offset",
            "payload",
            replace(TWO, payload="offset"),
            SPARSELY,
            sparse,
        ),
        Member(
            "w8s8-local", "W8 S8, local 16", "payload", replace(TWO, local=16), SPARSELY, sparse
        ),
        Member("deepseek-w8s4", "DeepSeek layout, W8 S4", "grid", DEEPSEEK, SPARSELY, sparse),
        Member(
            "coverage-phase-zero",
            "Phase 0 only",
            "coverage",
            grid(TWO, 8, 4),
            replace(EVEN, phases="zero"),
            sparse,
        ),
        Member("coverage-all-phases", "All phases", "coverage", grid(TWO, 8, 4), EVEN, sparse),
        Member(
            "coverage-under-trained",
            "40 steps",
            "coverage",
            grid(TWO, 8, 4),
            replace(EVEN, steps=40),
            sparse,
        ),
    ]
    return {member.name: member for member in listed}


def find(name: str) -> Member:
    """A member by name, "-seedN" included; SpecError with what is close."""
    if name in family():
        return family()[name]
    base, mark, seed = name.rpartition("-seed")
    if mark and base in family() and seed.isdecimal() and int(seed) < 2**31:
        return with_seed(family()[base], int(seed))
    raise SpecError(
        FieldError("name", f"no controlled model {shown(name)}{suggest(name, family())}")
    )
