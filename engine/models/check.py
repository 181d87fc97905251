"""The self-check at attach: is every layer's attention ours to read, and is the un-rotation right?

A model that fails is refused with the check that failed (SCIENCE §1, rules 6 and 7).
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from engine.memory import attention
from engine.memory.pooled import Pooled
from engine.memory.rotary import Rotary, Tables, unrotate
from engine.models.facts import full_layers, unreadable
from engine.models.head import Head
from engine.registry import FieldError, SpecError

PROBE = 24  # tokens; long enough for six windows of four
# Largest accepted errors, relative to the spread of the quantity, per dtype.
TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-2, torch.bfloat16: 0.5, torch.float16: 0.1}


def self_check(model: Any, name: str) -> dict[str, float]:
    """Attach our attention to `model`; returns what was measured, or raises SpecError with the
    reason.
    """

    def refuse(reason: str) -> SpecError:
        return SpecError(FieldError("model.id", f"{name} cannot be measured: {reason}"))

    attention.register()
    config = model.config.get_text_config(decoder=True)
    if told := unreadable(config):
        raise refuse(told)
    try:
        rotary = Rotary(model)
    except LookupError:
        raise refuse(
            "it has no rotary position embedding (RoPE), so keys cannot be moved to "
            "an entry's position"
        ) from None
    full = full_layers(config)
    ids = torch.arange(PROBE, device=model.device)[None] * 37 % config.vocab_size
    try:
        with torch.inference_mode():
            return _measure(model, rotary, ids, full, config, refuse)
    except (TypeError, RuntimeError, AttributeError, KeyError, ValueError) as error:
        if isinstance(error, SpecError):
            raise
        raise refuse(
            f"its attention does not follow the interface ({type(error).__name__}: {error})"
        ) from None


def _measure(
    model: Any, rotary: Rotary, ids: Tensor, full: tuple[int, ...], config: Any, refuse: Any
) -> dict:
    stock = model(ids).logits
    model.set_attn_implementation(attention.NAME)
    with recording() as calls:
        ours = model(ids).logits
    missing = sorted(set(range(config.num_hidden_layers)) - {call[0].layer_idx for call in calls})
    if missing:
        raise refuse(
            f"attention of layer {missing[0]} bypasses the registry of attention functions"
        )
    unknown = sorted(
        {n for call in calls for n in attention.UNSUPPORTED if call[3].get(n) is not None}
    )
    if unknown:
        raise refuse(f"its attention uses {unknown[0]}, which pooled entries are not defined for")
    if not torch.equal(stock, ours):
        raise refuse("without a memory our attention does not repeat the stock logits bit for bit")
    limit = TOLERANCE[stock.dtype]
    unrotation = _unrotation(model, rotary, ids, full)
    if not unrotation <= limit:
        raise refuse(
            f"un-rotated keys differ from the projection's output by {unrotation:.1e} "
            "of their size "
            "(a layer without RoPE, or a rotation of another convention)"
        )
    one = Pooled(window=1, stride=1, local=0, sinks=0)
    with attention.reading(one, rotary, full, torch.zeros(1, dtype=torch.long)):
        identity = _relative(model(ids).logits, stock)
    if not identity <= limit:
        raise refuse(
            f"W = S = 1 differs from full attention by {identity:.1e} of the logits' spread"
        )
    hidden = model.base_model(ids).last_hidden_state
    head = _relative(Head(model).logits(hidden), stock)
    if not head <= limit:
        raise refuse(
            "its logits are changed after the language-model head in a way that is not known here"
        )
    return {"unrotated_keys": unrotation, "window_1_stride_1": identity, "head": head}


def _relative(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max().double() / expected.double().std())


def _unrotation(model: Any, rotary: Rotary, ids: Tensor, full: tuple[int, ...]) -> float:
    """Largest error of un-rotated keys against the same layer run with an identity rotation.

    Running the layer's own attention again with cos = 1, sin = 0 yields the projection's output
    with
    whatever norm or fused projection the model has, and finds layers that never rotate.
    """
    worst = 0.0
    with recording() as calls, captured(model) as inputs:
        model(ids)
    positions = torch.arange(ids.shape[1], device=ids.device)[None]
    for module, key, _, _ in calls:
        if module.layer_idx not in full:
            continue
        args, kwargs = inputs[id(module)]
        tables = rotary.tables(positions, ids.shape[1], key)
        cos, sin = kwargs.get("position_embeddings") or args[1]
        still = (torch.ones_like(cos), torch.zeros_like(sin))
        if "position_embeddings" in kwargs:
            kwargs = {**kwargs, "position_embeddings": still}
        else:
            args = (args[0], still, *args[2:])
        bare = {k: v for k, v in kwargs.items() if k != "use_cache" and not isinstance(v, Cache)}
        with recording() as again:
            module(*args, **bare)
        plain = again[0][1]
        moved = float((key - plain).abs().max())
        if moved == 0:
            return float("inf")  # the layer does not rotate at all
        worst = max(worst, _relative(unrotate(key, Tables(*tables)), plain))
    return worst


@contextmanager
def recording():
    """Collect (module, key, query, kwargs) of each attention call, in place of nothing else."""
    calls: list = []
    token = attention.RECORD.set(calls)
    try:
        yield calls
    finally:
        attention.RECORD.reset(token)


@contextmanager
def captured(model: Any):
    """Arguments with which each attention module is called, by id of the module."""
    inputs: dict[int, tuple] = {}

    def keep(module, args, kwargs):
        inputs[id(module)] = (args, dict(kwargs))

    handles = [
        module.register_forward_pre_hook(keep, with_kwargs=True)
        for module in model.modules()
        if hasattr(module, "layer_idx")
        and "position_embeddings" in inspect.signature(module.forward).parameters
    ]
    try:
        yield inputs
    finally:
        for handle in handles:
            handle.remove()
