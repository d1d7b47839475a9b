"""What stays of forgotten notes: a digest of each text, which keeps its owner from storing the text again.

Every statement is bound to the owner.
"""

from __future__ import annotations

import hashlib

from shoal.errors import NoteError
from shoal.storage.database import Snapshot

FIND = "SELECT MIN(note_id) FROM forgotten_notes WHERE owner = :owner AND text_digest = :text_digest"


def digest_of(owner: str, text_hash: str) -> str:
    """Return the digest (SHA-256, hex) of a text for one owner, so that the digests of two owners do not show
    that they had the same text. `text_hash`: of `drafts.hash_of`."""
    return hashlib.sha256(f"{owner}\n{text_hash}".encode()).hexdigest()


def check_text(snapshot: Snapshot, owner: str, text_hash: str, field: str = "text") -> None:
    """Raise NoteError, which names the field, if the owner had this text forgotten."""
    note_id = snapshot.value(FIND, {"owner": owner, "text_digest": digest_of(owner, text_hash)})
    if note_id is not None:
        raise NoteError(field, f"was forgotten as note {note_id}, and is not stored again")
