"""What is kept on disk.  All SQL lives in this folder."""

from engine.store.ledger import Job, Run
from engine.store.schema import StoreError, StoreLocked
from engine.store.store import Store

__all__ = ["Job", "Run", "Store", "StoreError", "StoreLocked"]
