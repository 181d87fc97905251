"""Which tensors a controlled model has, and whether a file's header promises them.

A run is refused before it begins; that numbers are finite is seen when they are read.  Imports no
torch.
"""

from __future__ import annotations

import json
from pathlib import Path

from engine.models.controlled.checkpoint import refuse
from engine.models.controlled.config import Config

FLOATS = ("F16", "BF16", "F32", "F64")


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """name → shape of all tensors of a file; the tied head is none of them."""
    d, queries, rows = (
        config.width,
        config.q_heads * config.head_dim,
        config.kv_heads * config.head_dim,
    )
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (d,),
        "post_attention_layernorm.weight": (d,),
        "self_attn.q_proj.weight": (queries, d),
        "self_attn.k_proj.weight": (rows, d),
        "self_attn.v_proj.weight": (rows, d),
        "self_attn.o_proj.weight": (d, queries),
        "self_attn.q_norm.weight": (config.head_dim,),
        "self_attn.k_norm.weight": (config.head_dim,),
        "mlp.gate_proj.weight": (config.ff, d),
        "mlp.up_proj.weight": (config.ff, d),
        "mlp.down_proj.weight": (d, config.ff),
    }
    if config.chunked:
        layer |= {f"self_attn.pool.{name}": shape for name, shape in _pool(config).items()}
    made = {"model.embed_tokens.weight": (config.vocab, d), "model.norm.weight": (d,)}
    return made | {
        f"model.layers.{i}.{name}": shape
        for i in range(config.layers)
        for name, shape in layer.items()
    }


def _pool(config: Config) -> dict[str, tuple[int, ...]]:
    made: dict[str, tuple[int, ...]] = {}
    numbers = {"uniform": 0, "scalar": 1, "vector": config.head_dim}[config.gate]
    if numbers:
        gates = (2, config.window, config.kv_heads * numbers)
        made |= {"gate": (*gates, config.width), "bias": gates}
    kinds = {"own": 1, "shared": 0, "offset": config.window, "lane": 2}[config.payload]
    if kinds:
        made["payload"] = (2, kinds, config.kv_heads * config.head_dim, config.width)
        made["norm.weight"] = (config.head_dim,)
    return made


def check(path: Path, config: Config) -> None:
    """SpecError names a tensor that is missing, too many, of another shape or dtype, or cut off."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        told = json.loads(file.read(size))
    try:
        held = {
            name: (tuple(part["shape"]), part["dtype"], part["data_offsets"][1])
            for name, part in told.items()
            if name != "__metadata__"
        }
        stop = 8 + size + max((end for _, _, end in held.values()), default=0)
    except (KeyError, TypeError, IndexError):
        raise refuse(path, "its header is damaged") from None
    wanted = shapes(config)
    if lacking := sorted(wanted.keys() - held.keys()):
        raise refuse(path, f"it lacks {len(lacking)} of its tensors ({lacking[0]})")
    if extra := sorted(held.keys() - wanted.keys()):
        raise refuse(path, f"it holds {len(extra)} tensors too many ({extra[0]})")
    for name, shape in wanted.items():
        found, dtype, _ = held[name]
        if found != shape:
            raise refuse(path, f"the shape of {name} is {found}, not {shape}")
        if dtype not in FLOATS:
            raise refuse(path, f"{name} is of dtype {dtype}; {', '.join(FLOATS)} work")
    if stop > path.stat().st_size:
        raise refuse(path, f"it is cut short: {stop:,} bytes were to be there")
