"""Imports the synonyms of an export, and what a person decided on acronyms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.errors import InvalidFieldError, SynonymConflictError, SynonymError
from shoal.library.acronyms import store_decided
from shoal.library.library import Library
from shoal.library.synonyms import add_entry, checked_entry, is_stored

SYNONYM_TYPES = frozenset({"synonym", "acronym"})
TOGETHER = 500
"""Entries of one transaction."""


class SynonymRecords:
    """Stores records in short transactions. An entry that the library has already is not stored again."""

    def __init__(self, library: Library) -> None:
        self._database = library.database
        self._waiting: list[tuple[int, tuple[str | None, tuple[str, ...]]]] = []
        self.n_stored = 0
        self.refused: list[tuple[int, str]] = []

    def add(self, line: int, record: Mapping[str, Any]) -> None:
        """Check the record of a line. Raises InvalidFieldError."""
        try:
            if record["type"] == "acronym":
                entry = checked_entry(None, (record.get("acronym"), record.get("expansion")))
                self.finish()  # The entry of a confirmed one comes before it.
                with self._database.write() as transaction:
                    store_decided(transaction, entry[1][0], entry[1][1], record.get("status"))
                return
            self._waiting.append((line, checked_entry(record.get("root"), record.get("synonyms"))))
        except SynonymError as error:
            raise InvalidFieldError(error.field, error.message) from None
        if len(self._waiting) >= TOGETHER:
            self.finish()

    def finish(self) -> None:
        """Store the rest."""
        if not self._waiting:
            return
        with self._database.write() as transaction:
            for line, entry in self._waiting:
                if is_stored(transaction, *entry):
                    continue
                try:
                    add_entry(transaction, *entry)
                    self.n_stored += 1
                except SynonymConflictError as error:
                    self.refused.append((line, str(error)))
        self._waiting = []
