"""The controlled model: a Qwen3-style decoder whose memory was trained with it (PWS §5).

One forward serves training, scoring and decode: with a state it goes on where that ended, so
prefill in one pass, in pieces and token by token give the same logits (SCIENCE §1, rule 3).
Parameter names are those of transformers' Qwen3, so a full model is one.  Knows nothing of tasks.

Letters: B rows, T new tokens, N tokens, E entries, W window, H KV heads, D head size, d width.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.models.controlled import grid
from engine.models.controlled.config import Config

QK_GAIN, HEAD_GAIN, EMBEDDING = 1.5, 0.25, 0.5  # initial gains of norms, spread of embeddings
GATE_SPREAD, BIAS_SPREAD = 0.5, 0.05


class Norm(nn.Module):
    """RMSNorm."""

    def __init__(self, size: int, gain: float = 1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.full((size,), gain))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight, 1e-6)


def rotate(x: Tensor, positions: Tensor, base: float) -> Tensor:
    """RoPE of x (…, N, D) to positions (N,), halves paired as in Llama and Qwen."""
    half = x.shape[-1] // 2
    cos, sin = (t.to(x) for t in _turns(tuple(positions.tolist()), half, base))
    left, right = x[..., :half], x[..., half:]
    return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)


@functools.lru_cache(maxsize=256)
def _turns(positions: tuple[float, ...], half: int, base: float) -> tuple[Tensor, Tensor]:
    """cos and sin (N, half) in float64, kept: prompts of one length need them again."""
    speeds = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.tensor(positions, dtype=torch.float64)[:, None] * speeds
    return angles.cos(), angles.sin()


@dataclass
class LayerState:
    """What one layer keeps between calls: entries, tokens still exact, inputs of open windows."""

    entries: tuple[Tensor, Tensor] | None = None  # keys and values (B, H, E, D)
    tokens: tuple[Tensor, Tensor] | None = None  # keys and values (B, H, N, D)
    positions: Tensor | None = None  # (N,) of the tokens kept
    inputs: Tensor | None = None  # (B, n, d) of the last n tokens

    @property
    def nbytes(self) -> int:
        held = [*(self.entries or ()), *(self.tokens or ()), self.inputs]
        return sum(x.numel() * x.element_size() for x in held if x is not None)


@dataclass
class State:
    """The memory of one batch."""

    seen: int = 0
    layers: list[LayerState] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        return sum(layer.nbytes for layer in self.layers)


class Pool(nn.Module):
    """Windows → entries with trained gates: scores Z_i h_i + b_i, softmax over the window."""

    def __init__(self, config: Config):
        super().__init__()
        self.config, d, rows = config, config.width, config.kv_heads * config.head_dim
        self.numbers = {"uniform": 0, "scalar": 1, "vector": config.head_dim}[config.gate]
        if self.numbers:
            gates = (2, config.window, config.kv_heads * self.numbers)  # K and V, offset, number
            self.gate = nn.Parameter(torch.randn(*gates, d) * GATE_SPREAD / math.sqrt(d))
            self.bias = nn.Parameter(torch.randn(*gates) * BIAS_SPREAD)
        kinds = {"own": 1, "shared": 0, "offset": config.window, "lane": 2}[config.payload]
        if kinds:
            first = torch.randn(2, 1, rows, d) / math.sqrt(d)  # all offsets begin alike
            self.payload = nn.Parameter(first.repeat(1, kinds, 1, 1))
        self.norm = None if config.payload == "shared" else Norm(config.head_dim, QK_GAIN)

    def forward(
        self, inputs: Tensor, index: Tensor, project: tuple[nn.Linear, nn.Linear]
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Pooled keys (not yet normed) and values (B, E, H, D) and gates (B, E, W, H, 1 or D).

        inputs (B, n, d); index (E, W) into them, negative where a window begins before position 0:
        such members have no weight.
        """
        config, (rows, count, _) = self.config, inputs.shape
        entries, window = index.shape
        whole = bool((index >= 0).all())
        plain = whole and config.window == config.stride and entries * window <= count

        def windows(x: Tensor) -> Tensor:
            if plain:  # windows side by side: a view
                first = int(index[0, 0]) if entries else 0
                x = x[:, first : first + entries * window]
                return x.reshape(rows, entries, window, x.shape[-1])
            return x[:, index.clamp(0)]

        seen = windows(inputs)
        pooled, gates = [], []
        for branch in (0, 1):
            if config.payload == "shared":
                content = windows(project[branch](inputs))
            elif config.payload == "own":
                content = windows(F.linear(inputs, self.payload[branch, 0]))
            else:
                each = self.payload[branch]
                each = each.repeat_interleave(window // len(each), 0)
                content = torch.einsum("bewd,wrd->bewr", seen, each)
            content = content.view(rows, entries, window, config.kv_heads, config.head_dim)
            weight = self._weights(seen, branch, None if whole else index >= 0)
            gates.append(weight)
            pooled.append((weight * content).sum(2))
        return pooled[0], pooled[1], gates

    def _weights(self, seen: Tensor, branch: int, member: Tensor | None) -> Tensor:
        """Weights over the window's members, softmax of trained scores or equal."""
        rows, entries, window, _ = seen.shape
        heads = self.config.kv_heads
        if self.numbers:
            scores = torch.einsum("bewd,wnd->bewn", seen, self.gate[branch]) + self.bias[branch]
            scores = scores.view(rows, entries, window, heads, self.numbers)
        else:
            scores = seen.new_zeros(1, entries, window, heads, 1)
        if member is not None:
            scores = scores.masked_fill(~member[None, :, :, None, None], -math.inf)
        return scores.softmax(2)


class Attention(nn.Module):
    """Grouped-query attention over entries and exact tokens."""

    def __init__(self, config: Config, layer: int):
        super().__init__()
        self.config, self.layer = config, layer
        d, queries = config.width, config.q_heads * config.head_dim
        rows = config.kv_heads * config.head_dim
        self.q_proj, self.o_proj = _linear(d, queries), _linear(queries, d)
        self.k_proj, self.v_proj = _linear(d, rows), _linear(d, rows)
        self.o_proj.weight.data *= 1 / math.sqrt(2 * config.layers)
        self.q_norm, self.k_norm = Norm(config.head_dim, QK_GAIN), Norm(config.head_dim, QK_GAIN)
        self.pool = Pool(config) if config.chunked else None

    def forward(
        self,
        x: Tensor,
        start: int,
        state: LayerState | None,
        queries: tuple[int, ...] | None,
        gates: list | None,
    ) -> Tensor:
        """x (B, T, d) at positions start …; `queries` picks the new tokens that are answered."""
        config, (rows, count, _) = self.config, x.shape
        positions = torch.arange(start, start + count, device=x.device)
        asked = x if queries is None else x[:, list(queries)]
        where = positions if queries is None else positions[list(queries)]
        query = self._heads(self.q_proj(asked), config.q_heads, self.q_norm, where)
        keys = self._heads(self.k_proj(x), config.kv_heads, self.k_norm, positions)
        values = self.v_proj(x).view(rows, count, config.kv_heads, config.head_dim)
        exact = (keys, values.transpose(1, 2))
        entries = self._entries(x, start, state, gates) if self.pool else None
        if state is None:
            seen = tuple(range(count)) if queries is None else queries
            visible = grid.prefill_mask(config, self.layer, count, seen).to(x.device)
        else:
            exact, entries, visible = self._remember(state, exact, entries, positions, where)
        if entries is not None:
            exact = tuple(torch.cat(pair, 2) for pair in zip(entries, exact, strict=True))
        share = config.q_heads // config.kv_heads
        keys, values = (part.repeat_interleave(share, 1) for part in exact)
        out = F.scaled_dot_product_attention(query, keys, values, attn_mask=visible)
        return self.o_proj(out.transpose(1, 2).reshape(rows, len(where), -1))

    def _heads(self, x: Tensor, heads: int, norm: nn.Module, positions: Tensor) -> Tensor:
        """(B, N, heads·D) → normed, rotated (B, heads, N, D)."""
        x = norm(x.view(*x.shape[:2], heads, self.config.head_dim)).transpose(1, 2)
        return rotate(x, positions, self.config.rope_base) if self.config.rope else x

    def _entries(
        self, x: Tensor, start: int, state: LayerState | None, gates: list | None
    ) -> tuple[Tensor, Tensor]:
        """Keys and values (B, H, E, D) of the windows that the new tokens close."""
        config, end = self.config, start + x.shape[1]
        held = x if state is None or state.inputs is None else torch.cat([state.inputs, x], 1)
        base = end - held.shape[1]  # position of the first input held
        first = grid.closed_before(config, self.layer, start)
        stop = grid.closed_before(config, self.layer, end)
        begin = grid.starts(config, self.layer, first, stop).to(x.device)
        index = begin[:, None] + torch.arange(config.window, device=x.device)
        index = torch.where(index < 0, -1, index - base)
        pooled, values, weights = self.pool(held, index, (self.k_proj, self.v_proj))
        if gates is not None:
            gates.append(weights)
        keys = (self.pool.norm or self.k_norm)(pooled).transpose(1, 2)
        if config.rope:
            keys = rotate(keys, grid.anchors(config, begin), config.rope_base)
        if state is not None:
            open_from = max(config.start(self.layer) + stop * config.stride, 0)
            state.inputs = held[:, max(0, min(open_from - base, held.shape[1])) :]
        return keys, values.transpose(1, 2)

    def _remember(
        self,
        state: LayerState,
        exact: tuple[Tensor, Tensor],
        entries: tuple[Tensor, Tensor] | None,
        positions: Tensor,
        where: Tensor,
    ) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor] | None, Tensor]:
        """What the new queries read; the state keeps of it what later ones still need."""
        config, layer = self.config, self.layer
        if state.tokens is not None:
            exact = tuple(torch.cat(p, 2) for p in zip(state.tokens, exact, strict=True))
            positions = torch.cat([state.positions, positions])
        if state.entries is not None and entries is not None:
            entries = tuple(torch.cat(p, 2) for p in zip(state.entries, entries, strict=True))
        count = entries[0].shape[2] if entries is not None else 0
        last = grid.starts(config, layer, 0, count).to(positions.device) + config.window - 1
        visible = grid.mask(config, layer, last, positions, where)
        kept = grid.needed(config, layer, positions, int(positions[-1]) + 1)
        state.entries, state.positions = entries, positions[kept]
        state.tokens = (exact[0][:, :, kept], exact[1][:, :, kept])
        return exact, entries, visible


class Mlp(nn.Module):
    """SwiGLU."""

    def __init__(self, config: Config):
        super().__init__()
        self.gate_proj, self.up_proj = (_linear(config.width, config.ff) for _ in range(2))
        self.down_proj = _linear(config.ff, config.width)
        self.down_proj.weight.data *= 1 / math.sqrt(2 * config.layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    """Attention and SwiGLU, each behind its norm."""

    def __init__(self, config: Config, layer: int):
        super().__init__()
        self.input_layernorm = Norm(config.width)
        self.self_attn = Attention(config, layer)
        self.post_attention_layernorm = Norm(config.width)
        self.mlp = Mlp(config)

    def forward(
        self,
        x: Tensor,
        start: int,
        state: LayerState | None,
        queries: tuple[int, ...] | None,
        gates: list | None,
    ) -> Tensor:
        read = self.self_attn(self.input_layernorm(x), start, state, queries, gates)
        x = (x if queries is None else x[:, list(queries)]) + read
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Token ids (B, T) → normed hidden states (B, T, d)."""

    def __init__(self, config: Config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab, config.width)
        nn.init.normal_(self.embed_tokens.weight, std=EMBEDDING)
        self.layers = nn.ModuleList(Block(config, i) for i in range(config.layers))
        self.norm = Norm(config.width, HEAD_GAIN)

    def forward(
        self,
        ids: Tensor,
        cache: State | None = None,
        queries: tuple[int, ...] | None = None,
        gates: list | None = None,
        use_cache: bool = False,
    ) -> Any:
        """`queries`: the positions answered (all by default); only they pass the last layer.

        `gates` collects each layer's gate weights.  `cache` is read and written; `use_cache` is
        there for callers that ask every model alike.
        """
        x, start = self.embed_tokens(ids), 0
        if cache is not None:
            start, cache.seen = cache.seen, cache.seen + ids.shape[1]
            cache.layers = cache.layers or [LayerState() for _ in self.layers]
        for i, block in enumerate(self.layers):
            asked = queries if i == len(self.layers) - 1 else None
            x = block(x, start, cache.layers[i] if cache is not None else None, asked, gates)
        return SimpleNamespace(last_hidden_state=self.norm(x))


class Controlled(nn.Module):
    """The decoder with its tied head; asked like a transformers model."""

    def __init__(self, config: Config):
        super().__init__()
        self.shape = config
        self.model = Decoder(config)
        self.lm_head = nn.Linear(config.width, config.vocab, bias=False)
        self.lm_head.weight = self.model.embed_tokens.weight
        self.generation_config = SimpleNamespace(eos_token_id=0)

    @property
    def base_model(self) -> Decoder:
        return self.model

    @property
    def device(self) -> torch.device:
        return self.lm_head.weight.device

    @property
    def config(self) -> Any:
        """What the head asks of a config: no scaling, no cap."""
        return SimpleNamespace(get_text_config=lambda decoder: SimpleNamespace())

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_head

    def num_parameters(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def forward(self, ids: Tensor, **options: Any) -> Any:
        """Logits (B, T, vocabulary), as `.logits`."""
        hidden = self.model(ids, **options).last_hidden_state
        return SimpleNamespace(logits=self.lm_head(hidden))


def _linear(width: int, out: int) -> nn.Linear:
    linear = nn.Linear(width, out, bias=False)
    nn.init.normal_(linear.weight, std=1 / math.sqrt(width))
    return linear
