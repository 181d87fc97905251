"""How densely a retrieval task's prompts are written, beside what the model was trained on."""

from __future__ import annotations

from typing import Any

from engine.models.controlled import shelf


def density(spec: Any) -> dict[str, float | None] | None:
    """Records a place, in training and in this sweep, and in one window; None for other tasks."""
    if not hasattr(spec.task, "density"):
        return None
    here = spec.task.density(spec.settings.protocol, spec.settings.modulus)
    found = shelf.describe(spec.model.id)
    trained = found and (found.recipe.records / found.recipe.places)
    evicts = getattr(spec.memory, "evicts", False)
    window = None if evicts else getattr(spec.memory, "window", None)
    per_window = round(here * window, 3) if window else None
    return {"here": round(here, 4), "trained": trained and round(trained, 4), "window": per_window}
