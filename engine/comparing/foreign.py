"""An imported evaluation as a column of a comparison: its name, its numbers, what it lacks.

Knows its spec and its report.  Computes no statistic: the paired ones are those of
`engine.kvpress.pairs`.
"""

from __future__ import annotations

from typing import Any

from engine.kvpress.spec import NO_PRESS

ELSEWHERE = "computed elsewhere, no phases"
MEASURE = "score"
LABELS = {
    "task.data_dir": "Part of the dataset",
    "task.query_aware": "Question compressed too",
    "press.name": "Press",
    "press.compression_ratio": "Share removed",
    "press.key_channel_compression_ratio": "Share of key channels removed",
    "press.target_size": "Entries kept",
    "press.compression_interval": "Tokens between events",
    "press.hidden_states_buffer_size": "Hidden states kept",
    "fp8": "FP8 weights",
}


def name(spec: Any) -> str:
    """ "snapkv, 50 % removed"; what keeps all is called as a sweep's full cache is."""
    return "Full cache" if keeps_all(spec) else spec.phrase()


def keeps_all(spec: Any) -> bool:
    return spec.to_dict()["press"]["name"] == NO_PRESS


def numbers(block: dict) -> dict[str, float | None]:
    return {name: block.get(name) for name in ("mean", "mean_low", "mean_high")}


def tasks(block: dict) -> list[dict]:
    """[{task, n, score, low, high}], none where its rows have no scores."""
    return list(block.get("tasks") or ())
