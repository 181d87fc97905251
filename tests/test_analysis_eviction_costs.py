"""What methods of a decode run cost, by hand."""

import numpy as np
import pandas as pd
import pytest
from made_decode import costs
from test_analysis_eviction import ARMS, noise, run


def test_costs_by_hand():
    """Batches of 4 and 2 rows, 56 tokens each; only those with single steps tell a pace."""
    event, step = [[1.0, 2.0, 30.0], []], [[1.0, 2.0], [3.0, 50.0]]
    cost = costs(ARMS[:2])
    cost.loc[cost["sample"] == 4, ["rows", "resident_mean", "resident_peak", "mean_bytes"]] = [
        (2, 60.0, 99, 400)
    ] * 2
    for name, cells in (("event_ms", event), ("step_ms", step)):
        cost[name] = pd.Series([cells[s // 4] for s in cost["sample"]], index=cost.index)
    row = run(noise((2, 6, 4)), arms=ARMS[:2], cost=cost)["methods"][1]
    # per token: forwards 1.5 and 26.5, the method beside them 100 / 2 each, events 33 / 56 and 0
    upkeep = (50 + 33 / 56) + 50
    total = 1.5 + 26.5 + upkeep
    assert row["tokens_per_s"] == pytest.approx(1000 * (4 + 2) / total)
    assert row["upkeep_share"] == pytest.approx(upkeep / total)
    assert row["fps_share"] == pytest.approx(2 * 28 / 56 / total)
    assert row["mean_resident"] == pytest.approx((4 * 96 + 2 * 60) / 6)
    assert row["mean_bytes"] == pytest.approx((4 * 1000 + 2 * 400) / 6)
    assert row["total_bytes"] == row["mean_bytes"]
    assert (row["peak_resident"], row["events"], row["prefill_s"]) == (99, 7, 0.5)
    assert (row["state_peak"], row["memory_peak"]) == (64, 1 << 20)
    assert (row["event_ms_p50"], row["step_ms_p50"]) == (2.0, 2.5)
    assert row["event_ms_p99"] == pytest.approx(np.quantile([1, 2, 30], 0.99))
    assert row["step_ms_p99"] == pytest.approx(np.quantile([1, 2, 3, 50], 0.99))


def test_batches_read_in_pieces_tell_no_pace():
    cost = costs(ARMS[:2])
    cost["step_ms"] = pd.Series([[4.0] if s == 0 else [] for s in cost["sample"]], index=cost.index)
    row = run(noise((2, 6, 4)), arms=ARMS[:2], cost=cost)["methods"][1]
    assert row["tokens_per_s"] == pytest.approx(1000 * 4 / (4 + 100 + 4 / 56))
    cost["step_ms"] = pd.Series([[] for _ in cost["sample"]], index=cost.index)
    row = run(noise((2, 6, 4)), arms=ARMS[:2], cost=cost)["methods"][1]
    assert row["tokens_per_s"] is None
    assert row["upkeep_share"] is None
