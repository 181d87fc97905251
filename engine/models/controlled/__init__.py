"""Controlled models: matched decoders in which only the memory differs, small enough to train on a
laptop (PWS §5; SCIENCE §4, §5).
"""
