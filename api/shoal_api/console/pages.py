"""The blueprint with all pages of the console."""

from __future__ import annotations

from shoal_api.console import figures, jobs, library, note_merges, notes, search, topics
from shoal_api.console.layout import blueprint

__all__ = ["blueprint", "figures", "jobs", "library", "note_merges", "notes", "search", "topics"]
