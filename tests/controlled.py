"""Tiny controlled models in a models folder of their own, made on the spot: untrained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.models.controlled.config import Config, Recipe

TINY = Config(width=16, q_heads=2, kv_heads=1, head_dim=8, ff=16)
SHORT = Recipe(
    steps=12, records=4, places=16, queries=2, batch=2, warmup=2, first_records=2, phases="random"
)
NOTES = {"steps": 12, "accuracy": 0.5, "curve": [[12, 4.0, 0.5]], "cpu_seconds": 0.1}


def save(folder: Path, name: str, seed: int = 0, recipe: Recipe = SHORT, **changes) -> Path:
    """An untrained model of that name in the folder; `changes` of TINY."""
    import torch

    from engine.models.controlled.checkpoint import save_model
    from engine.models.controlled.model import Controlled

    torch.manual_seed(seed)
    path = folder / f"{name}.safetensors"
    save_model(path, Controlled(replace(TINY, **changes)), recipe, NOTES | {"name": name})
    return path
