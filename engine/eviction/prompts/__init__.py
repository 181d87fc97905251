"""Prompts of the decode lane: one file a task; importing this package fills the registry."""

from engine.eviction.prompts import lookback, reasoning  # noqa: F401
