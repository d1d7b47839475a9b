"""The blueprint with all pages of the console."""

from __future__ import annotations

from shoal_api.console import (
    figures,
    installation,
    library,
    notes,
    saved_searches,
    search,
    sources,
    synonyms,
    verification,
)
from shoal_api.console.layout import blueprint

__all__ = [
    "blueprint",
    "figures",
    "installation",
    "library",
    "notes",
    "saved_searches",
    "search",
    "sources",
    "synonyms",
    "verification",
]
