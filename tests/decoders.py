"""Tiny random decoders of the architectures that the memory must work on, and of those it must
refuse.
"""

import torch
import transformers as hf

from engine.memory import MEMORIES, attention
from engine.memory.rotary import Rotary
from engine.models.facts import full_layers

BASE = dict(
    vocab_size=97,
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=3,
    num_attention_heads=8,
    num_key_value_heads=2,
    max_position_embeddings=512,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)
HEADS = {**BASE, "head_dim": 16}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 2.0,
    "original_max_position_embeddings": 256,
}

READ = {
    "llama": hf.LlamaConfig(**BASE),
    "llama-mha": hf.LlamaConfig(**{**BASE, "num_key_value_heads": 8}),
    "llama-mqa": hf.LlamaConfig(**{**BASE, "num_key_value_heads": 1}),
    "llama-yarn": hf.LlamaConfig(**BASE, rope_parameters=YARN),
    "qwen2": hf.Qwen2Config(**BASE),
    "qwen3": hf.Qwen3Config(**HEADS),
    "mistral": hf.MistralConfig(**BASE, sliding_window=None),
    "gemma3": hf.Gemma3TextConfig(
        **HEADS,
        layer_types=["sliding_attention", "full_attention", "full_attention"],
        sliding_window=8,
    ),
    "phi3": hf.Phi3Config(**BASE),
    "gpt-neox": hf.GPTNeoXConfig(**{**BASE, "num_key_value_heads": 8}),
}

READ["phi"] = hf.PhiConfig(**BASE)  # rotates a part of each head by slicing
READ["stablelm"] = hf.StableLmConfig(**BASE)

# Each with a word of the reason that the user must be told.
REFUSED = {
    "gpt2": (hf.GPT2Config(vocab_size=97, n_embd=64, n_layer=2, n_head=4), "no rotary position"),
    "falcon": (
        hf.FalconConfig(vocab_size=97, hidden_size=64, num_hidden_layers=2, num_attention_heads=4),
        "bypasses the registry",
    ),
    "mistral-sliding": (hf.MistralConfig(**BASE, sliding_window=16), "sliding window"),
    "smollm3-nope": (
        hf.SmolLM3Config(**BASE, no_rope_layers=[1, 0, 1]),
        "layer 1 has no RoPE",
    ),
    "gemma2": (hf.Gemma2Config(**HEADS), "softcap"),
    "gpt-oss": (hf.GptOssConfig(**{**HEADS, "rope_parameters": None}), "s_aux"),
    "llama-dynamic": (
        hf.LlamaConfig(
            **BASE, rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
        ),
        "changes with length",
    ),
    "cohere": (hf.CohereConfig(**BASE), "rotation of another convention"),
    "phi3-longrope": (
        hf.Phi3Config(
            **BASE,
            original_max_position_embeddings=256,
            rope_parameters={
                "rope_type": "longrope",
                "rope_theta": 1e4,
                "short_factor": [1.0] * 4,
                "long_factor": [2.0] * 4,
                "original_max_position_embeddings": 256,
            },
        ),
        "changes with length",
    ),
}


def make(config, dtype=torch.float64, seed=0):
    """A model with weights large enough that attention matters."""
    torch.manual_seed(seed)
    model = hf.AutoModelForCausalLM.from_config(config)
    model = model.to(dtype).eval().requires_grad_(False)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.mul_(4)
    return model


def pooled(**options):
    """A pooled memory without local window and sinks, unless they are given."""
    return MEMORIES.build({"kind": "pooled", "local": 0, "sinks": 0, **options})


def ours(config, **options):
    """A model that reads through our attention."""
    attention.register()
    model = make(config, **options)
    model.set_attn_implementation(attention.NAME)
    return model


def read(model, ids, memory, origin=(0,), context_end=None, cache=None):
    """Logits of one forward with a memory."""
    full = full_layers(model.config)
    with attention.reading(memory, Rotary(model), full, torch.tensor(origin), context_end):
        return model(ids, cache=cache, use_cache=cache is not None).logits
