"""Notes: short texts with an owner, found by words and reefs, judged by feedback.

`service.py` is `engine.notes`; the other modules are decisions with values in and out.
"""
