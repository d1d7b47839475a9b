"""A library that follows a folder: what is new in it comes in, what changed changes, what is gone can go."""

from shoal.maintenance.sync.apply import Synced, sync

__all__ = ["Synced", "sync"]
