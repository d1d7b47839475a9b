"""Paths of the HTTP API."""

from __future__ import annotations

from shoal.support.collection_names import MAIN

API = "/api/v1"
GLOBAL = frozenset({"collections", "keys"})
"""Resources of the whole service."""


def path_in(collection: str, path: str) -> str:
    """Return the path of an operation in a collection."""
    inner = path.removeprefix(f"{API}/")
    if collection == MAIN or inner == path or inner.partition("/")[0] in GLOBAL:
        return path
    return f"{API}/collections/{collection}/{inner}"
