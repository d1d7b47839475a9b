"""Grounding: whether the statements of a text are supported by the passages that they cite."""
