"""How a model remembers: one file a method, listed in the registry by being imported here."""

from engine.memory import full, pooled, trained  # noqa: F401  (each registers itself)
from engine.registry import MEMORIES

__all__ = ["MEMORIES"]
