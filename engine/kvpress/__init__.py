"""Evaluations of kvpress: in as runs that can be compared, a memory out as a press."""
