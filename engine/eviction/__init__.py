"""Eviction while decoding: prompts, methods, caches, rows.  One file a method."""

from engine.eviction import (  # noqa: F401  (each registers itself)
    beacon,
    h2o,
    keydiff,
    knorm,
    random_keep,
    rkv,
    rpc,
    snapkv,
    streaming,
    tova,
)
from engine.registry import MEMORIES

MEMORIES.presets |= {
    "streaming.original": {"positions": "original"},
    "streaming.paper": {"positions": "cache"},
}
