"""Tasks: what is asked.  One file a task; importing this package fills the registry."""

from engine.tasks import access_code, banner, custom, document_pair, pairs, records  # noqa: F401
