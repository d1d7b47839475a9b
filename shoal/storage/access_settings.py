"""What a library says of documents without rights."""

from __future__ import annotations

from shoal.models.rights import Visibility
from shoal.storage.database import Query, Snapshot, Transaction

VISIBILITY = "SELECT visibility FROM access_settings"
SET_VISIBILITY = """
    INSERT INTO access_settings (id, visibility) VALUES (1, :visibility)
    ON CONFLICT (id) DO UPDATE SET visibility = excluded.visibility
"""
VISIBILITY_QUERY = Query(VISIBILITY)


def visibility(snapshot: Snapshot) -> Visibility:
    """Read who may see documents without rights; everyone if nothing was set."""
    stored: str | None = snapshot.value(VISIBILITY)
    return Visibility.everyone if stored is None else Visibility(stored)


def set_visibility(transaction: Transaction, visibility: Visibility) -> None:
    """Store who may see documents without rights."""
    transaction.execute(SET_VISIBILITY, {"visibility": visibility.value})
