"""Runs: phase copies through a model with a memory, batch by batch."""
