"""Imports that take seconds, made once and by one thread at a time.

transformers fills its namespace lazily, and two threads that import from it at once break each
other (ImportError); so every request that reads a model's config asks here first.
"""

from __future__ import annotations

import threading

_importing = threading.Lock()


def warm() -> None:
    """Load what the first preview needs; later calls cost nothing."""
    with _importing:
        from transformers import AutoConfig, AutoTokenizer  # noqa: F401

        import engine.memory
        import engine.plan
        import engine.tasks  # noqa: F401
