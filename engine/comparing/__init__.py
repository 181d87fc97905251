"""Runs side by side, over HTTP."""
