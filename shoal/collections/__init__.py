"""Collections: many libraries in one service, each with its own database.

`names.py` says which names are allowed, `catalog.py` maps names to databases. The catalog is a small database
of its own (`catalog.py`), which also has the keys that are made at run time.
"""
