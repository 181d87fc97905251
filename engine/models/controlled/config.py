"""What a controlled model is: architecture, memory, and the task it was trained on.

Frozen into every checkpoint.  Imports no torch: a spec reads the grid from here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

VERSION = 1  # of this form; a checkpoint of a later one is refused
GATES = ("uniform", "scalar", "vector")
PAYLOADS = ("own", "shared", "offset", "lane")
PHASES = ("random", "zero", "all")


class ConfigError(ValueError):
    """What of a config makes no sense."""


@dataclass(frozen=True)
class Config:
    """A Qwen3-style decoder and its memory (SCIENCE §1; recipe of PWS's controlled models).

    `memory` "full" keeps every token.  "chunked": window j covers [origin + jS, origin + jS + W);
    `stagger` moves the origin of odd layers.  Gates are trained: `gate` none (uniform), one number
    a
    head (scalar) or one a channel (vector).  `payload`: the projection that is pooled, its own, the
    tokens' (shared), one per offset, or one per half of the window (lane).  Entries are normed
    after pooling and rotated to `anchor`.
    """

    layers: int = 2
    width: int = 64
    q_heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    ff: int = 128
    rope: bool = True
    rope_base: float = 1000.0
    memory: str = "chunked"
    window: int = 8
    stride: int = 8
    gate: str = "scalar"
    payload: str = "own"
    anchor: str = "centre"
    local: int = 1
    beside: bool = False
    origin: int = 0
    stagger: int = 0
    fillers: int = 16
    symbols: int = 64

    @property
    def vocab(self) -> int:
        """Token 0 is unknown, then fillers, then symbols."""
        return 1 + self.fillers + self.symbols

    @property
    def chunked(self) -> bool:
        return self.memory == "chunked"

    def start(self, layer: int) -> int:
        """Where the window grid of a layer begins."""
        return self.origin + (self.stagger if layer % 2 else 0)


@dataclass(frozen=True)
class Recipe:
    """How a model is trained: by steps, never by the clock (spike recipe, MEASURED §13).

    M `records` of adjacent key and value among random fillers in `places` places, `queries` of them
    asked.  `phases`: records anywhere (random), or one every `pitch` places, from place 0 (zero) or
    from
    a place drawn per sequence (all).  `coverage` weighs KL(mean gate of a layer's heads ‖ uniform).
    """

    seed: int = 0
    steps: int = 2500
    records: int = 40
    places: int = 96
    queries: int = 16
    phases: str = "random"
    pitch: int = 8
    batch: int = 16
    rate: float = 3e-3
    warmup: int = 100
    decay: float = 0.1
    clip: float = 1.0
    first_records: int = 4
    coverage: float = 0.0


def read(kind: type, values: Any) -> Any:
    """A Config or Recipe from a checkpoint's JSON; ConfigError names what does not fit."""
    if not isinstance(values, dict):
        raise ConfigError(f"{kind.__name__.lower()} is no table")
    known = {f.name: f for f in fields(kind)}
    if extra := sorted(values.keys() - known.keys()):
        raise ConfigError(f"{extra[0]!r} is not known here (from a newer version?)")
    if lacking := sorted(known.keys() - values.keys()):
        raise ConfigError(f"{lacking[0]!r} is missing")
    for name, field in known.items():
        wanted = type(field.default)
        if type(values[name]) is not wanted and not (wanted is float and type(values[name]) is int):
            raise ConfigError(f"{name} must be of type {wanted.__name__}, not {values[name]!r}")
    made = kind(**values)
    problem = _config_problem(made) if kind is Config else _recipe_problem(made)
    if problem:
        raise ConfigError(problem)
    return made


def to_dict(part: Config | Recipe) -> dict[str, Any]:
    return asdict(part)


def _config_problem(config: Config) -> str:
    sizes = ("layers", "width", "q_heads", "kv_heads", "head_dim", "ff", "fillers", "symbols")
    for name in (*sizes, "window", "stride"):
        if not 1 <= getattr(config, name) <= 4096:
            return f"{name} is {getattr(config, name)}; from 1 to 4096 is possible"
    if config.q_heads % config.kv_heads:
        return f"{config.q_heads} query heads cannot share {config.kv_heads} KV heads evenly"
    if config.head_dim % 2:
        return "head_dim must be even, for RoPE"
    for name, known in (
        ("memory", ("full", "chunked")),
        ("gate", GATES),
        ("payload", PAYLOADS),
        ("anchor", ("centre", "first", "last")),
    ):
        if getattr(config, name) not in known:
            return f"{name} is {getattr(config, name)!r}; known: {', '.join(known)}"
    if config.stride > config.window:
        return f"stride {config.stride} exceeds window {config.window}"
    if config.payload == "lane" and config.window != 2 * config.stride:
        return "payload by lane needs a window of two strides"
    if not -config.window < config.origin <= 4096 or not 0 <= config.stagger <= 4096:
        return "origin must lie above minus the window, and stagger must not be negative"
    if not 0 <= config.local <= 4096 or not config.rope_base > 0:
        return "local must not be negative, and rope_base must be above 0"
    return ""


def _recipe_problem(recipe: Recipe) -> str:
    for name in ("steps", "records", "places", "queries", "batch", "pitch", "first_records"):
        if not 1 <= getattr(recipe, name) <= 10**7:
            return f"{name} is {getattr(recipe, name)}; it must be at least 1"
    if recipe.phases not in PHASES:
        return f"phases is {recipe.phases!r}; known: {', '.join(PHASES)}"
    return ""
