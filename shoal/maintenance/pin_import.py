"""Imports the pins of an export, after its documents: they are found by their content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.errors import InvalidFieldError, PinConflictError, PinError
from shoal.library.library import Library
from shoal.library.pins import MAX_PINS, CheckedPin, checked_pin, store_pin
from shoal.search.pins import MAX_HIDDEN, MAX_PINNED
from shoal.storage import pins as stored
from shoal.storage.database import Transaction
from shoal.storage.pin_records import PinTarget

PIN_TYPE = "pin"
LISTS = {"pinned": MAX_PINNED, "hidden": MAX_HIDDEN}


class PinRecords:
    """Stores records at the end, in one transaction. A pin for words that have one is not stored again."""

    def __init__(self, library: Library) -> None:
        self._database = library.database
        self._waiting: list[tuple[int, Mapping[str, Any]]] = []
        self.n_stored = 0
        self.refused: list[tuple[int, str]] = []

    def add(self, line: int, record: Mapping[str, Any]) -> None:
        """Check the record of a line. Raises InvalidFieldError."""
        try:
            # Any target makes a pin valid; those of the record are found at the end.
            checked_pin(record.get("query"), [1], [], record.get("match"))
        except PinError as error:
            raise InvalidFieldError(error.field, error.message) from None
        for name, limit in LISTS.items():
            targets = record.get(name, [])
            if not isinstance(targets, list) or len(targets) > limit or not all(map(_is_target, targets)):
                raise InvalidFieldError(name, f"must be a list of up to {limit} documents and passages")
        if len(self._waiting) >= MAX_PINS:
            raise InvalidFieldError("query", f"is of a pin beyond the first {MAX_PINS:,}, which is the limit")
        self._waiting.append((line, record))

    def finish(self) -> None:
        """Store all pins. One whose documents are all missing is refused."""
        if not self._waiting:
            return
        with self._database.write() as transaction:
            for line, record in self._waiting:
                try:
                    pin = _found(transaction, record)
                    if stored.id_of(transaction, pin.words, pin.match) is None:
                        store_pin(transaction, pin)
                        self.n_stored += 1
                except (PinConflictError, PinError) as error:
                    self.refused.append((line, str(error)))
        self._waiting = []


def _is_target(target: object) -> bool:
    if not isinstance(target, Mapping) or not isinstance(target.get("document"), str):
        return False
    start = target.get("start_char")
    return start is None or (isinstance(start, int) and not isinstance(start, bool) and 0 <= start < 2**53)


def _found(transaction: Transaction, record: Mapping[str, Any]) -> CheckedPin:
    """The pin of a record with the documents that the library has. Raises PinError if it has none."""
    lists: dict[str, list[PinTarget]] = {}
    for name in LISTS:
        targets = [
            stored.find_target(transaction, each["document"], each.get("start_char"))
            for each in record.get(name, [])
        ]
        lists[name] = list(dict.fromkeys(target for target in targets if target is not None))
    if not any(lists.values()) and any(record.get(name) for name in LISTS):
        raise PinError("pinned", "none of its documents is in the library")
    return checked_pin(record.get("query"), lists["pinned"], lists["hidden"], record.get("match"))
