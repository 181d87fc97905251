"""Controlled models of all kinds, tiny, and their forward by loops straight from SCIENCE §1.

Written from the definition, without the closed forms of the engine.
"""

import math
from dataclasses import replace

import numpy as np
import torch

from engine.models.controlled.config import Config
from engine.models.controlled.model import Controlled

SMALL = Config(width=16, q_heads=4, kv_heads=2, head_dim=8, ff=24, fillers=3, symbols=12)
DEEPSEEK = dict(window=8, stride=4, origin=-4, payload="lane", anchor="first", local=6, beside=True)
VARIANTS = {
    "full": dict(memory="full"),
    "full-norope": dict(memory="full", rope=False),
    "scalar": {},
    "vector": dict(gate="vector"),
    "uniform": dict(gate="uniform"),
    "shared": dict(payload="shared"),
    "offset": dict(payload="offset", gate="vector"),
    "lane": dict(payload="lane", window=8, stride=4),
    "norope": dict(rope=False),
    "W8S6": dict(window=8, stride=6),
    "W8S4": dict(window=8, stride=4, gate="vector", payload="shared"),
    "W12S4": dict(window=12, stride=4, anchor="last"),
    "W13S12": dict(window=13, stride=12, kv_heads=4),
    "local-0": dict(local=0),
    "local-16": dict(local=16),
    "beside": dict(local=5, beside=True),
    "staggered": dict(stagger=4, kv_heads=1),
    "late": dict(origin=5, window=6, stride=5, anchor="first"),
    "early": dict(origin=-3, gate="uniform", payload="offset"),
    "deepseek": dict(DEEPSEEK, gate="vector"),
    "deepseek-scalar": dict(DEEPSEEK, gate="scalar", payload="own", local=1),
    "deepseek-uniform": dict(DEEPSEEK, gate="uniform"),
}
CONFIGS = {name: replace(SMALL, **changes) for name, changes in VARIANTS.items()}
LENGTH = 34
TIGHT = dict(atol=1e-10, rtol=0)


def made(config, seed=0, dtype=torch.float64):
    """A model in which no two parameters are alike, so that none can be taken for another."""
    torch.manual_seed(seed)
    model = Controlled(config).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter += 0.2 * torch.randn_like(parameter)
    return model.to(dtype)


def prompt(config, length=LENGTH, rows=1, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, config.vocab, (rows, length), generator=generator)


# ---- the definition, in loops


def normed(x, weight):
    return x / np.sqrt(np.mean(x * x) + 1e-6) * weight


def turned(x, position, config):
    """R(position) x by complex numbers."""
    if not config.rope:
        return x
    half = len(x) // 2
    speed = config.rope_base ** (-np.arange(half) / half)
    z = (x[:half] + 1j * x[half:]) * np.exp(1j * position * speed)
    return np.concatenate([z.real, z.imag])


def closed_windows(config, layer, length):
    """First tokens of the windows that end within the prompt."""
    if config.memory == "full":
        return []
    start, found = config.origin + (config.stagger if layer % 2 else 0), []
    while start + config.window <= length:
        found.append(start)
        start += config.stride
    return found


def sees(config, windows, q):
    """(numbers of visible entries, exact tokens) of a query: rule 2, and entries beside."""
    ends = [start + config.window - 1 for start in windows]
    reach = q if config.beside else q - config.local
    visible = [j for j, end in enumerate(ends) if end <= reach]
    held = {t for j in visible for t in range(windows[j], windows[j] + config.window)}
    exact = [t for t in range(q + 1) if t not in held or (config.beside and t > q - config.local)]
    return visible, exact


def entry(config, weights, h, start, head):
    """Pooled key, normed and rotated, and pooled value of one window and KV head."""
    size, pooled = config.head_dim, []
    rows = slice(head * size, (head + 1) * size)
    members = [i for i in range(config.window) if start + i >= 0]
    for branch, name in enumerate(("k_proj", "v_proj")):
        scores, contents = [], []
        for i in members:
            x = h[start + i]
            if config.gate == "uniform":
                scores.append(np.zeros(1))
            else:
                n = 1 if config.gate == "scalar" else size
                own = slice(head * n, (head + 1) * n)
                gate, bias = weights["pool.gate"], weights["pool.bias"]
                scores.append(gate[branch, i, own] @ x + bias[branch, i, own])
            if config.payload == "shared":
                matrix = weights[f"{name}.weight"]
            else:
                which = {"own": 0, "offset": i, "lane": i // config.stride}[config.payload]
                matrix = weights["pool.payload"][branch, which]
            contents.append(matrix[rows] @ x)
        share = np.exp(np.array(scores))
        share /= share.sum(0)
        pooled.append((share * np.array(contents)).sum(0))
    gain = weights["k_norm.weight" if config.payload == "shared" else "pool.norm.weight"]
    anchor = {
        "centre": start + (config.window - 1) / 2,
        "first": start,
        "last": start + config.window - 1,
    }[config.anchor]
    return turned(normed(pooled[0], gain), anchor, config), pooled[1]


def attention(config, layer, weights, h):
    """(N, d) outputs of one attention layer, query by query and head by head."""
    size, out = config.head_dim, []
    windows = closed_windows(config, layer, len(h))
    kv = range(config.kv_heads)
    entries = [[entry(config, weights, h, start, head) for start in windows] for head in kv]
    rows = [slice(head * size, (head + 1) * size) for head in range(config.q_heads)]
    tokens = [
        [
            (
                turned(normed(weights["k_proj.weight"][rows[head]] @ x, weights["k_norm.weight"]),
                       t, config),
                weights["v_proj.weight"][rows[head]] @ x,
            )
            for t, x in enumerate(h)
        ]
        for head in kv
    ]  # fmt: skip
    for q, x in enumerate(h):
        visible, exact = sees(config, windows, q)
        read = []
        for head in range(config.q_heads):
            asked = normed(weights["q_proj.weight"][rows[head]] @ x, weights["q_norm.weight"])
            asked = turned(asked, q, config)
            own = head // (config.q_heads // config.kv_heads)
            seen = [entries[own][j] for j in visible] + [tokens[own][t] for t in exact]
            scores = np.array([key @ asked / math.sqrt(size) for key, _ in seen])
            share = np.exp(scores - scores.max())
            read.append(share / share.sum() @ np.array([value for _, value in seen]))
        out.append(weights["o_proj.weight"] @ np.concatenate(read))
    return np.array(out)


def by_loops(model, ids):
    """Logits (N, vocabulary) of one prompt."""
    config = model.shape
    named = {n: p.numpy() for n, p in model.state_dict().items()}
    x = named["model.embed_tokens.weight"][ids]
    for layer in range(config.layers):
        front = f"model.layers.{layer}."
        own = {n.removeprefix(front): p for n, p in named.items() if n.startswith(front)}
        inner = {n.removeprefix("self_attn."): p for n, p in own.items()}
        h = np.array([normed(row, own["input_layernorm.weight"]) for row in x])
        x = x + attention(config, layer, inner, h)
        for t, row in enumerate(x):
            h = normed(row, own["post_attention_layernorm.weight"])
            gate, up = own["mlp.gate_proj.weight"] @ h, own["mlp.up_proj.weight"] @ h
            x[t] = row + own["mlp.down_proj.weight"] @ (gate / (1 + np.exp(-gate)) * up)
    x = np.array([normed(row, named["model.norm.weight"]) for row in x])
    return x @ named["model.embed_tokens.weight"].T
