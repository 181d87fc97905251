"""Decode runs: what the queue, the worker and a reader know of them."""
