"""Chunked memory: windows of W tokens every S, each pooled into one entry (SCIENCE §1; PWS §2).

Training-free on a pretrained model: the gates are uniform or set by hand, never learned (rule 8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.memory import layers as layer_words
from engine.memory.base import Plan, window_plan
from engine.registry import MEMORIES, FieldError, is_number, option, shown

GATES = ("mean", "onehot", "hand")
LONGEST = 1_000_000  # tokens; more than any context


@MEMORIES.register("pooled")
@dataclass(frozen=True)
class Pooled:
    """Windows of tokens pooled into entries, training-free."""

    window: int = option(
        4, "W, tokens that one entry is made of", label="Window W", low=1, high=4096
    )
    stride: int = option(
        4,
        "S, tokens from one window's start to the next; at most W",
        label="Stride S",
        low=1,
        high=4096,
    )
    gate: str = option(
        "mean",
        "weights inside a window: equal, one offset, or by hand",
        label="Gate",
        choices=GATES,
    )
    offset: int = option(
        0,
        "the offset that a one-hot gate keeps",
        label="Offset",
        low=0,
        high=4095,
        when="gate=onehot",
    )
    weights: tuple = option(
        (), "one weight per offset, not negative", label="Weights", when="gate=hand"
    )
    v_gate: str = option(
        "same", "gate of the values, if not the keys'", label="Value gate", choices=("same", *GATES)
    )
    v_offset: int = option(
        0,
        "offset that the values' one-hot gate keeps",
        label="Value offset",
        low=0,
        high=4095,
        when="v_gate=onehot",
    )
    v_weights: tuple = option(
        (), "the values' weights, one per offset", label="Value weights", when="v_gate=hand"
    )
    anchor: str = option(
        "weighted",
        "position to which a pooled key is rotated; weighted is the gate's mean position",
        label="Anchor",
        choices=("weighted", "centre", "first", "last"),
    )
    keys: str = option(
        "unrotated",
        "pool keys with RoPE taken off (default), or as they are",
        label="Keys",
        choices=("unrotated", "rotated"),
    )
    local: int = option(
        16,
        "L, an entry is seen when it closed L tokens ago; until then exact",
        label="Local",
        low=0,
        high=LONGEST,
    )
    sinks: int = option(
        4, "first tokens that stay exact and are in no pool", label="Sinks", low=0, high=LONGEST
    )
    layers: str = option(
        "all", 'compressed layers: "all", "0-7, 9" or "all but 8, 18"', label="Layers"
    )
    strides_by_layer: str = option(
        "", 'strides of single layers: "0-9:4, 10-29:8"', label="Strides by layer"
    )
    when: str = option(
        "streamed",
        "streamed: each token reads the compressed past; after_context: the context is read "
        "exactly, then compressed once",
        label="When",
        choices=("streamed", "after_context"),
    )
    origin: int = option(
        0, "where the grid starts; −S with W = 2S is DeepSeek's layout", label="Grid origin"
    )
    beside: bool = option(
        False, "entries beside the local window: seen as soon as they close", label="Beside"
    )
    count_bias: bool = option(
        False, "add log of the number of members to an entry's logit", label="Count bias"
    )

    @classmethod
    def normalise(cls, values: dict) -> dict:
        for name in ("layers", "strides_by_layer"):
            if name in values:
                values[name] = layer_words.spelled(values[name])
        for name in ("weights", "v_weights"):
            if isinstance(values.get(name), list | tuple):
                values[name] = [float(w) if is_number(w) else w for w in values[name]]
        # The window's bound is the stride's: both are told in one sentence.
        stride, window = values.get("stride"), values.get("window", 4)
        if "stride" in values and isinstance(window, int) and not _whole(stride):
            raise_stride(stride)
        if "window" in values and "stride" not in values and _whole(window):
            values["stride"] = min(int(window), 4)
        return values

    def check(self) -> list[FieldError]:
        errors = []
        if self.stride > self.window:
            errors.append(
                FieldError(
                    "stride",
                    f"stride {self.stride} exceeds window {self.window}: windows would leave gaps; "
                    f"stride must not exceed the window",
                )
            )
        for gate, offset, weights, name in (
            (self.gate, self.offset, self.weights, ""),
            (self.v_gate, self.v_offset, self.v_weights, "v_"),
        ):
            if gate == "onehot" and offset >= self.window:
                errors.append(
                    FieldError(
                        f"{name}offset", f"must be from 0 to {self.window - 1}, inside the window"
                    )
                )
            if weights or gate == "hand":
                at = f"{name}weights"
                errors += _weights_problem(weights, self.window if gate == "hand" else None, at)
        if words := layer_words.problem(self.layers):
            errors.append(FieldError("layers", words))
        try:
            wide = {
                s for s in layer_words.strides(self.strides_by_layer).values() if s > self.window
            }
            if wide:
                errors.append(
                    FieldError(
                        "strides_by_layer",
                        f"stride {max(wide)} exceeds window {self.window}: windows would leave "
                        "gaps; stride must not exceed the window",
                    )
                )
        except ValueError as error:
            errors.append(FieldError("strides_by_layer", str(error)))
        if abs(self.origin) >= 4096 or self.origin <= -self.window:
            errors.append(
                FieldError(
                    "origin", f"must be above −{self.window} (minus the window) and below 4096"
                )
            )
        return errors

    def check_model(self, n_layers: int, full_layers: tuple[int, ...]) -> list[FieldError]:
        errors = []
        for field, named in (
            ("layers", layer_words.listed(self.layers)),
            ("strides_by_layer", tuple(layer_words.strides(self.strides_by_layer))),
        ):
            beyond = [i for i in named if i >= n_layers]
            if beyond:
                errors.append(
                    FieldError(
                        field, f"layer {beyond[0]} does not exist: layers are 0 to {n_layers - 1}"
                    )
                )
            sliding = [i for i in named if i < n_layers and i not in full_layers]
            if sliding and not self.layers.startswith("all"):
                errors.append(
                    FieldError(
                        field, f"layer {sliding[0]} has a sliding window and no long memory to pool"
                    )
                )
        if not errors and not any(layer_words.chosen(self.layers, i) for i in full_layers):
            errors.append(FieldError("layers", "leaves no layer with full attention to compress"))
        return errors

    def phrase(self) -> str:
        gates = [_gate_words(self.gate, self.offset)]
        if self.v_gate != "same":
            gates.append("values " + _gate_words(self.v_gate, self.v_offset))
        extra = ["rotated keys"] if self.keys == "rotated" else []
        extra += [self.when.replace("_", " ")]
        extra += ["beside"] if self.beside else []
        shape = f"W{self.window} S{'/'.join(map(str, self.strides()))}"
        return ", ".join([f"pooled {shape}", *gates, *extra])

    def strides(self) -> tuple[int, ...]:
        table = layer_words.strides(self.strides_by_layer)
        used = {stride for layer, stride in table.items() if layer_words.chosen(self.layers, layer)}
        if layer_words.others(self.layers, table):
            used.add(self.stride)
        return tuple(sorted(used))

    def plan(self, layer: int, length: int, origin: Tensor) -> Plan | None:
        if not layer_words.chosen(self.layers, layer):
            return None
        stride = layer_words.strides(self.strides_by_layer).get(layer, self.stride)
        k_gate = _gate(self.gate, self.offset, self.weights, self.window)
        v_gate = (
            k_gate
            if self.v_gate == "same"
            else _gate(self.v_gate, self.v_offset, self.v_weights, self.window)
        )
        return window_plan(
            length=length,
            origin=self.origin + origin % stride,
            window=self.window,
            stride=stride,
            k_gate=k_gate,
            v_gate=v_gate,
            anchor=self.anchor,
            sinks=self.sinks,
            local=self.local,
            rotated=self.keys == "rotated",
            beside=self.beside,
            count_bias=self.count_bias,
        )


def _whole(value: object) -> bool:
    return is_number(value) and value == int(value) and value >= 1


def raise_stride(value: object) -> None:
    from engine.registry import SpecError

    raise SpecError(
        FieldError(
            "memory.stride",
            f"stride must be a whole number from 1 to the window, not {shown(value)}",
        )
    )


def _weights_problem(weights: tuple, window: int | None, name: str) -> list[FieldError]:
    """`window` None: the gate is another, so that the weights need not fit; they stay numbers."""
    numbers = [w for w in weights if is_number(w)]
    if len(numbers) != len(weights) or any(w < 0 for w in numbers):
        return [FieldError(name, "weights must be finite numbers, none below 0")]
    if not math.isfinite(sum(numbers)):
        return [FieldError(name, "weights are too large to be added; make them smaller")]
    if window is None:
        return []
    if len(weights) != window:
        return [
            FieldError(
                name, f"{len(weights)} weights for a window of {window}: one per offset is needed"
            )
        ]
    return [] if sum(numbers) > 0 else [FieldError(name, "weights must not all be 0")]


def _gate(kind: str, offset: int, weights: tuple, window: int) -> Tensor:
    if kind == "mean":
        return torch.full((window,), 1 / window, dtype=torch.float64)
    if kind == "onehot":
        return torch.eye(window, dtype=torch.float64)[offset]
    return torch.tensor(weights, dtype=torch.float64)


def _gate_words(gate: str, offset: int) -> str:
    return {"mean": "mean", "onehot": f"one-hot {offset}", "hand": "hand-set"}[gate]
