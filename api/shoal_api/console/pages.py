"""The blueprint with all pages of the console."""

from __future__ import annotations

from shoal_api.console import (
    collections,
    figures,
    jobs,
    keys,
    library,
    missing,
    note_adding,
    note_merges,
    note_steps,
    notes,
    pins,
    saved_searches,
    search,
    status,
    synonyms,
    topics,
    verification,
)
from shoal_api.console.layout import blueprint

__all__ = [
    "blueprint",
    "collections",
    "figures",
    "jobs",
    "keys",
    "library",
    "missing",
    "note_adding",
    "note_merges",
    "note_steps",
    "notes",
    "pins",
    "saved_searches",
    "search",
    "status",
    "synonyms",
    "topics",
    "verification",
]
