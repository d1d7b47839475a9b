"""Collections: many libraries in one service, each with its own database.

`shoal.support.collection_names` says which names are allowed. `catalog.py` maps names to databases; the
catalog is a small database of its own, which also has the keys that are made at run time.
"""
