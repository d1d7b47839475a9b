"""Syncs a library with a folder: adds new files, replaces changed ones and optionally deletes vanished
ones."""

from shoal.maintenance.sync.apply import Synced, sync

__all__ = ["Synced", "sync"]
