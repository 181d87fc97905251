"""Tasks: what is asked.  One file a task; importing this package fills the registry."""

from engine.tasks import access_code  # noqa: F401
