"""The pins of a library: add, change, delete and list.

Every change is one transaction. A search uses the pins of its snapshot.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from shoal.declared.arguments import MAX_ID
from shoal.errors import NotFoundError, PinConflictError, PinError, QueryError
from shoal.filters.tree import check_characters
from shoal.library.library import Library
from shoal.models.pins import (
    MAX_CHARS,
    MAX_HIDDEN,
    MAX_PINNED,
    MAX_WORDS,
    ListedTarget,
    Pin,
    PinMatch,
    PinPage,
    PinTarget,
)
from shoal.search import pins as stored
from shoal.search.request import check_id, check_page
from shoal.search.suggesting import key_of
from shoal.storage.database import Snapshot, Transaction
from shoal.support.clock import timestamp

MAX_PINS = 10_000
"""Most pins of a library."""

Target = PinTarget | ListedTarget | Mapping[str, int | None] | int
"""A document by its id, or {"document_id": …} or {"chunk_id": …}."""


class CheckedPin(NamedTuple):
    """A pin whose arguments are valid; its targets may be missing."""

    query: str
    words: str
    match: PinMatch
    pinned: tuple[PinTarget, ...]
    hidden: tuple[PinTarget, ...]


class PinTable:
    """`engine.pins`."""

    def __init__(self, library: Library) -> None:
        self._database = library.database

    def list(self, *, q: str | None = None, limit: int = 50, offset: int = 0) -> PinPage:
        """A page of the pins, by id; with `q`, those whose query contains it. Raises QueryError."""
        check_page(limit, offset)
        check_characters("q", q or "")
        with self._database.snapshot() as snapshot:
            return PinPage(*stored.list_page(snapshot, q, limit, offset))

    def get(self, pin_id: int) -> Pin:
        """One pin. Raises NotFoundError."""
        check_id("id", pin_id)
        with self._database.snapshot() as snapshot:
            pin = stored.get(snapshot, pin_id)
        if pin is None:
            raise _not_found(pin_id)
        return pin

    def add(
        self,
        query: str,
        pinned: Sequence[Target] = (),
        *,
        hidden: Sequence[Target] = (),
        match: PinMatch | str = PinMatch.exact,
    ) -> Pin:
        """Put up to 10 documents or passages first for a query, in this order, and hide up to 10 others.

        The query is compared without case, accents and punctuation. A pin with match `exact` is for searches
        with exactly its words, one with `contains` for all that have them side by side. A target is the id of
        a document, `{"document_id": …}` or `{"chunk_id": …}`.

        Raises PinError for an invalid field or a target that does not exist, and PinConflictError if there is
        a pin for these words.
        """
        checked = checked_pin(query, pinned, hidden, match)
        with self._database.write() as transaction:
            targets = _found(transaction, checked)
            return _stored(transaction, store_pin(transaction, targets))

    def replace(
        self,
        pin_id: int,
        query: str,
        pinned: Sequence[Target] = (),
        *,
        hidden: Sequence[Target] = (),
        match: PinMatch | str = PinMatch.exact,
    ) -> Pin:
        """Replace a pin; arguments and errors are those of `add`. Raises NotFoundError."""
        check_id("id", pin_id)
        checked = checked_pin(query, pinned, hidden, match)
        with self._database.write() as transaction:
            if stored.get(transaction, pin_id) is None:
                raise _not_found(pin_id)
            targets = _found(transaction, checked)
            _check_words(transaction, checked, without=pin_id)
            stored.change(transaction, pin_id, *targets, timestamp())
            return _stored(transaction, pin_id)

    def delete(self, pin_id: int) -> None:
        """Delete a pin. Raises NotFoundError."""
        check_id("id", pin_id)
        with self._database.write() as transaction:
            if not stored.delete(transaction, pin_id):
                raise _not_found(pin_id)


def checked_pin(query: object, pinned: object, hidden: object, match: object) -> CheckedPin:
    """Validate the arguments of a pin. Raises PinError."""
    if not isinstance(query, str):
        raise PinError("query", "must be a string")
    if len(query) > MAX_CHARS:
        raise PinError("query", f"has more than {MAX_CHARS} characters, which is the limit")
    try:
        shown = " ".join(check_characters("query", query).split())
    except QueryError as error:
        raise PinError("query", str(error)) from None
    if any(not letter.isprintable() for letter in shown):
        raise PinError("query", "has a character that cannot be printed")
    words = key_of(shown)
    if not words:
        raise PinError("query", "has no letter or digit")
    n_words = len(words.split(" "))
    if n_words > MAX_WORDS:
        raise PinError("query", f"has {n_words} words; the limit is {MAX_WORDS}")
    try:
        kind = PinMatch(match) if isinstance(match, str) else None
    except ValueError:
        kind = None
    if kind is None:
        raise PinError("match", f"must be one of {', '.join(each.value for each in PinMatch)}")
    first = _targets("pinned", pinned, MAX_PINNED)
    last = _targets("hidden", hidden, MAX_HIDDEN)
    if not first and not last:
        raise PinError("pinned", "is empty, and so is hidden: name a document or a passage")
    for target in last:
        if target in first:
            raise PinError("hidden", f"names {_name(target)}, which is pinned")
    return CheckedPin(shown, words, kind, first, last)


def store_pin(transaction: Transaction, pin: CheckedPin) -> int:
    """Store a pin whose targets exist and return its id. Raises PinConflictError."""
    if stored.count(transaction) >= MAX_PINS:
        raise PinConflictError(f"the library has {MAX_PINS:,} pins, which is the limit")
    _check_words(transaction, pin)
    return stored.add(transaction, *pin, timestamp())


def _targets(field: str, given: object, limit: int) -> tuple[PinTarget, ...]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise PinError(field, "must be a list of documents and passages")
    targets: builtins.list[PinTarget] = []
    for each in given:
        if len(targets) == limit:
            raise PinError(field, f"has more than {limit} documents and passages, which is the limit")
        target = _target(f"{field}.{len(targets)}", each)
        if target in targets:
            raise PinError(field, f"names {_name(target)} twice")
        targets.append(target)
    return tuple(targets)


def _target(field: str, given: object) -> PinTarget:
    if isinstance(given, PinTarget | ListedTarget):
        given = {"document_id": given.document_id, "chunk_id": given.chunk_id}
    if isinstance(given, int) and not isinstance(given, bool):
        given = {"document_id": given}
    if not isinstance(given, Mapping):
        raise PinError(field, "must be an object with `document_id` or `chunk_id`")
    unknown = given.keys() - {"document_id", "chunk_id"}
    if unknown:
        name = min(map(str, unknown))[:40]
        raise PinError(field, f"there is no {name!r}; known are document_id, chunk_id")
    ids = []
    for name in ("document_id", "chunk_id"):
        value = given.get(name)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_ID
        ):
            named = "document" if name == "document_id" else "passage"
            raise PinError(f"{field}.{name}", f"must be a whole number, the id of a {named}")
        ids.append(value)
    if ids == [None, None]:
        raise PinError(field, "needs `document_id` or `chunk_id`")
    # The document of a passage alone is looked up: 0 stands for it until then.
    return PinTarget(ids[0] or 0, ids[1])


def _found(snapshot: Snapshot, pin: CheckedPin) -> CheckedPin:
    """The pin with the documents of its passages. Raises PinError for a target that does not exist."""
    lists = []
    for field, targets in (("pinned", pin.pinned), ("hidden", pin.hidden)):
        found = []
        for number, target in enumerate(targets):
            where = f"{field}.{number}"
            if target.chunk_id is None:
                if not stored.has_document(snapshot, target.document_id):
                    raise PinError(where, f"there is no document {target.document_id}")
                found.append(target)
                continue
            document_id = stored.document_of_chunk(snapshot, target.chunk_id)
            if document_id is None:
                raise PinError(where, f"there is no passage with chunk_id {target.chunk_id}")
            if target.document_id not in (0, document_id):
                message = f"passage {target.chunk_id} is not part of document {target.document_id}"
                raise PinError(where, message)
            found.append(PinTarget(document_id, target.chunk_id))
        lists.append(tuple(found))
    # A passage may have been named with and without its document.
    return checked_pin(pin.query, lists[0], lists[1], pin.match)


def _check_words(transaction: Transaction, pin: CheckedPin, *, without: int | None = None) -> None:
    other = stored.id_of(transaction, pin.words, pin.match)
    if other is not None and other != without:
        raise PinConflictError(f"pin {other} is for the words {pin.words!r} ({pin.match}); change that pin")


def _name(target: PinTarget) -> str:
    if target.chunk_id is None:
        return f"document {target.document_id}"
    return f"the passage with chunk_id {target.chunk_id}"


def _stored(transaction: Transaction, pin_id: int) -> Pin:
    pin = stored.get(transaction, pin_id)
    if pin is None:
        raise _not_found(pin_id)
    return pin


def _not_found(pin_id: int) -> NotFoundError:
    return NotFoundError(f"there is no pin {pin_id}")
