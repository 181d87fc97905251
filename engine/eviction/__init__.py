"""Eviction while decoding: prompts, methods, caches, rows.  One file a method."""
