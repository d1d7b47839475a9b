"""The notes that the bearer of a search token may read: those of the owner that the token names.

What an owner noted belongs to the owner, whatever documents say. Learned words may come from documents that
the bearer does not see, so queries do not know them here.
"""

from __future__ import annotations

from typing import Any, NoReturn

from shoal.errors import RestrictedError
from shoal.notes.context import NoteContext
from shoal.notes.drafts import checked_owner
from shoal.notes.notes import OwnerNotes

READING = frozenset(
    {"owner", "list", "get", "categories", "history", "feedbacks", "pinned", "search", "explain", "recall"}
)
"""Methods of `OwnerNotes` that write nothing and read nothing but the notes of their owner."""


class VisibleNotes:
    """`engine.notes` with a token. Anything that is not in `READING` raises RestrictedError."""

    def __init__(self, context: NoteContext, owner: str | None) -> None:
        self._context, self._owner = context, owner

    def of(self, owner: str) -> OwnerNotes:
        """The notes of an owner, to be read only. Raises RestrictedError for any but that of the token."""
        if owner != self._owner:
            raise RestrictedError("this search token does not name this owner of notes")
        return _ReadNotes(self._context.without_learned(), checked_owner(owner))

    def __getattr__(self, name: str) -> NoReturn:
        _refuse(name)


class _ReadNotes(OwnerNotes):
    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name not in READING:
            _refuse(name)
        return super().__getattribute__(name)


def _refuse(name: str) -> NoReturn:
    raise RestrictedError(f"this is not for search tokens: {name} of notes")
