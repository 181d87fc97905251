"""The GPU benchmark's own arithmetic, on a tiny model of the same architecture and a CPU."""

import pytest
import torch

from engine.bench import gpu as bench_gpu
from engine.bench.gpu import Plan, Point

TINY = bench_gpu.QWEN3_4B | {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}


def test_a_small_cache_is_measured_beside_full_ones():
    plan = Plan(batch=2, budget=96, lengths=(96, 384), steps=3)
    loaded = bench_gpu.random_model(TINY, torch.float32, "cpu")
    full, small = bench_gpu.full_points(loaded, plan), bench_gpu.small_point(loaded, plan)
    each = 2 * 2 * 2 * 2 * 8 * 4  # rows, layers, KV heads, keys and values, head size, bytes
    assert [point.length for point in full] == [98, 386]
    assert [point.cache for point in full] == [each * 101, each * 389]
    assert small.cache <= each * 96
    assert small.seconds > 0
    names = [row[0] for row in bench_gpu.rows(plan, full, small)]
    assert any("paper 4.3" in name and "386 tokens" in name for name in names)


def test_a_filled_cache_is_read_like_any_other():
    """The step behind a filled cache attends to its keys: they change the state."""
    from engine.eviction.decode import Decoder
    from engine.registry import MEMORIES

    loaded = bench_gpu.random_model(TINY, torch.float64, "cpu")
    token = torch.tensor([[5]])
    states = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        decoder = Decoder(loaded, MEMORIES.build({"kind": "full"}), 1)
        bench_gpu.fill(decoder, loaded, 20)
        states.append(decoder.read(token))
        assert decoder.clock.seen == 21
    assert (states[0] - states[1]).abs().max() > 1e-6


def test_time_between_lengths_is_interpolated():
    points = [Point(0, 1.0, 0, 0), Point(10, 3.0, 0, 0), Point(30, 5.0, 0, 0)]
    assert bench_gpu.between(points) == pytest.approx(10 * 2 + 20 * 4)
