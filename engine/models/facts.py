"""What a config tells of a model without its weights: sizes, and which layers reach back far.

Knows configs.  Loads nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.models.controlled.config import Config

CONTROLLED = "controlled"  # the architecture of models with a memory of their own
CONTROLLED_POSITIONS = 4096  # trained on 128; a prompt may be longer, to see what becomes of it

# Architectures that the self-check refuses whatever their sizes: told before weights are loaded.
REFUSED = {
    "falcon": "its attention bypasses the registry of attention functions",
    "gpt_oss": "its attention has sinks of its own (s_aux), which pooled entries are not defined "
    "for",
    "cohere": "its keys have a rotation of another convention, so they cannot be un-rotated",
}


@dataclass(frozen=True)
class Facts:
    """What a config tells without weights."""

    n_layers: int
    full_layers: tuple[int, ...]  # those whose attention reaches back without a window
    q_heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    parameters: int
    vocab: int
    positions: int
    bytes_per_weight: int
    architecture: str


def facts_of(config: Any, dtype: str = "float32") -> Facts:
    q_heads, hidden = config.num_attention_heads, config.hidden_size
    kv_heads = getattr(config, "num_key_value_heads", None) or q_heads
    head_dim = getattr(config, "head_dim", None) or hidden // q_heads
    width = getattr(config, "intermediate_size", None) or 4 * hidden
    layer = hidden * head_dim * (2 * q_heads + 2 * kv_heads) + 3 * hidden * width
    embeddings = (
        config.vocab_size * hidden * (1 if getattr(config, "tie_word_embeddings", False) else 2)
    )
    return Facts(
        n_layers=config.num_hidden_layers,
        full_layers=full_layers(config),
        q_heads=q_heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        hidden=hidden,
        parameters=config.num_hidden_layers * layer + embeddings,
        vocab=config.vocab_size,
        positions=getattr(config, "max_position_embeddings", None) or 2**31,
        bytes_per_weight={"float64": 8, "float32": 4}.get(dtype, 2),
        architecture=config.model_type,
    )


def full_layers(config: Any) -> tuple[int, ...]:
    """Layers whose attention has no sliding window, from `layer_types`, not from attributes of
    modules.
    """
    kinds = getattr(config, "layer_types", None)
    if kinds:
        return tuple(i for i, kind in enumerate(kinds) if kind == "full_attention")
    windowed = getattr(config, "sliding_window", None) and getattr(
        config, "use_sliding_window", True
    )
    return () if windowed else tuple(range(config.num_hidden_layers))


def unreadable(config: Any) -> str:
    """Why a memory cannot read this model, as far as its config tells; "" where it may."""
    full, rope = full_layers(config), getattr(config, "rope_parameters", None) or {}
    kind = rope.get("full_attention", rope).get("rope_type", "default")
    rotated = getattr(config, "no_rope_layers", None) or ()  # 1 a layer with RoPE, 0 one without
    if kind in ("dynamic", "longrope"):
        return f"its {kind} RoPE changes with length, so cached keys cannot be un-rotated"
    if getattr(config, "attn_logit_softcapping", None):
        return "its attention logits are capped (softcap), which pooled entries are not defined for"
    if not rope:
        return (
            "it has no rotary position embedding (RoPE), so keys cannot be moved to an entry's "
            "position"
        )
    if not full:
        return "every layer has a sliding window, so there is no long memory to compress"
    if bare := [i for i in full if i < len(rotated) and not rotated[i]]:
        return f"layer {bare[0]} has no RoPE (NoPE), so its keys cannot be moved to a position"
    return ""


def controlled_facts(config: Config, dtype: str = "float32") -> Facts:
    """Of a controlled model."""
    layer = config.width * config.head_dim * 2 * (config.q_heads + 2 * config.kv_heads)
    layer += 3 * config.width * config.ff
    return Facts(
        n_layers=config.layers,
        full_layers=tuple(range(config.layers)),
        q_heads=config.q_heads,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
        hidden=config.width,
        parameters=config.layers * layer + config.vocab * config.width,
        vocab=config.vocab,
        positions=CONTROLLED_POSITIONS,
        bytes_per_weight={"float64": 8, "float32": 4}.get(dtype, 2),
        architecture=CONTROLLED,
    )
