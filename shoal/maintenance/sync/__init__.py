"""Syncs a library with a folder: adds new documents, updates changed ones, can delete vanished ones."""

from shoal.maintenance.sync.apply import SyncResult, sync

__all__ = ["SyncResult", "sync"]
