"""Every evicting method with small options, from the registry; and tiny models to run it on."""

import functools
from dataclasses import replace
from types import SimpleNamespace

import torch
from decoders import READ, ours
from transformers import DynamicCache

from engine.eviction.decode import Decoder
from engine.eviction.schedule import least
from engine.models.facts import facts_of
from engine.registry import MEMORIES

EVICTING = [name for name, cls in MEMORIES.items() if getattr(cls, "evicts", False)]
SMALL = {"every": 5, "obs_window": 6, "n_beacon": 4, "n_recent": 4, "protect": 6, "recent": 7}
MORE = {
    "snapkv-original": {"preset": "original", "every": 0},
    "snapkv-kvpress": {"preset": "kvpress", "every": 0},
    "rpc-paper": {"preset": "paper"},
    "rpc-max": {"over_queries": "max", "over_heads": "max"},
    "h2o-query": {"over_heads": "per_query_head"},
    "streaming-cache": {"positions": "cache"},
    "beacon-naive": {"selector": "naive"},
    "beacon-random": {"selector": "random"},
    "beacon-short": {"event": 3},
}
CASES = [*EVICTING, *MORE]


def memory(case, budget=0, **options):
    """A method with small options; without a budget, a little above the least that works."""
    kind = case.split("-")[0]
    names = {name: value for name, value in SMALL.items() if name in fields(kind)}
    made = MEMORIES.build({"kind": kind, **names, **MORE.get(case, {}), **options, "budget": 4096})
    return replace(made, budget=budget or least(made) + 3)


def fields(kind):
    return MEMORIES[kind].__dataclass_fields__


@functools.cache
def loaded(name="llama", dtype=torch.float64):
    """What a decoder asks of a loaded model; two layers, but gemma3's three of two kinds."""
    config = READ[name]
    if name != "gemma3":
        options = {**config.to_dict(), "num_hidden_layers": 2}
        options.pop("layer_types", None)
        config = config.__class__(**options)
    model = ours(config, dtype=dtype)
    known = facts_of(model.config, str(dtype).removeprefix("torch."))
    cache = functools.partial(DynamicCache, config=model.config)
    return SimpleNamespace(model=model, facts=known, own_memory=False, new_cache=cache)


def tokens(rows=2, length=90, seed=3):
    return torch.randint(0, 97, (rows, length), generator=torch.Generator().manual_seed(seed))


def run(method, ids, prompt=0, pieces=1000, model=None, **more):
    """(states (B, T, d), decoder) of a prompt read at once and the rest in pieces."""
    decoder = Decoder(model or loaded(), method, len(ids), **more)
    states = [decoder.prefill(ids[:, :prompt])] if prompt else []
    for start in range(prompt, ids.shape[1], pieces):
        states.append(decoder.read(ids[:, start : start + pieces]))
    return torch.cat(states, 1), decoder


@functools.cache
def in_full(length, prompt, name="llama"):
    """(states, decoder) of `tokens` under the full cache."""
    return run(MEMORIES.build({"kind": "full"}), tokens(length=length), prompt, model=loaded(name))


def held(decoder):
    """Positions kept, (L, B, K, n)."""
    return torch.stack([layer.positions for layer in decoder.kept_layers])
