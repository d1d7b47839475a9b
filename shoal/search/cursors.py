"""Cursors: where the next page of a search begins.

A cursor names the last results before the page, so the page continues after them wherever they stand now. In
an unchanged library that is the page that an offset would give. If all of them are gone, the page begins
where the raw scores of the last one would stand, and not behind its number less the results that are gone:
results may come twice, but none is skipped.

It is text for clients to send back; a checksum finds a damaged one, and a digest of the request one of
another search.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from shoal.declared.search import SEARCH, SHORT_FORMS
from shoal.errors import QueryError

if TYPE_CHECKING:
    from shoal.models.pins import PinRule
    from shoal.models.queries import UsedSynonym
    from shoal.search.request import SearchRequest

MAX_ANCHORS = 3
"""Results that a cursor names: the last may be deleted before the next page is read."""
MAX_CHARS = 200
"""Longer texts are no cursors."""
CHANGED = (
    "the library has changed since the page before: this page continues after its last result, where that "
    "stands now"
)
CHANGED_WITHOUT_ANCHOR = (
    "the library has changed since the page before, and its last results are gone: this page continues where "
    "they stood, so results may come twice"
)

_VERSION = 2
_HEAD = struct.Struct("<BIIQQqqqqd")
_ANCHOR = struct.Struct("<q")
_MAX_TOTAL = 2**32 - 1
_CHECK_BYTES = 6
_INVALID = "is not a cursor of this service: send `next_cursor` of the page before, unchanged"


class RawScores(NamedTuple):
    """What the key of a result is made of: its raw scores, and what is added to their blend."""

    lexical: int = 0
    reef: int = 0
    fields: int = 0
    dense: int = 0
    added: float = 0.0


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place between two pages.

    position  results before the next page, those left out by `min_relevance` included
    total     results on all pages
    last      raw scores of the last result before the next page
    state     of the library that the page before was read from, by `state_of`
    digest    of the request, without the arguments that may differ between the pages of one search
    anchors   ids of the last chunks before the next page, the last one first
    """

    position: int
    total: int
    state: int
    digest: int
    last: RawScores
    anchors: tuple[int, ...] = ()

    def text(self) -> str:
        """Return the cursor as text for an address."""
        packed = _HEAD.pack(
            _VERSION, self.position, min(self.total, _MAX_TOTAL), self.state, self.digest, *self.last
        )
        packed += b"".join(map(_ANCHOR.pack, self.anchors[:MAX_ANCHORS]))
        return base64.urlsafe_b64encode(packed + _check(packed)).rstrip(b"=").decode("ascii")


def make_cursor(value: object) -> Cursor | None:
    """Parse a cursor; None for None. Raises QueryError."""
    if value is None:
        return None
    if not isinstance(value, str) or not value.isascii() or not 0 < len(value) <= MAX_CHARS:
        raise QueryError("cursor", _INVALID)
    try:
        data = base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise QueryError("cursor", _INVALID) from None
    packed, check = data[:-_CHECK_BYTES], data[-_CHECK_BYTES:]
    n_anchors, rest = divmod(len(packed) - _HEAD.size, _ANCHOR.size)
    if rest or not 0 <= n_anchors <= MAX_ANCHORS or check != _check(packed) or packed[0] != _VERSION:
        raise QueryError("cursor", _INVALID)
    _, position, total, state, digest, *last = _HEAD.unpack_from(packed)
    anchors = tuple(each for (each,) in _ANCHOR.iter_unpack(packed[_HEAD.size :]))
    return Cursor(position, total, state, digest, RawScores(*last), anchors)


def digest_of(request: SearchRequest) -> int:
    """Return a digest of what the order of the results depends on. It is the same in every process.

    The moment of a decay may differ: without one in the request, it is that of each page.
    """
    if request.decay is not None:
        request = dataclasses.replace(request, decay=dataclasses.replace(request.decay, now=0))
    parts = [("query", request.query)] + [
        (name, getattr(request, name))
        for name, argument in SEARCH.items()
        if argument.ranks and name not in SHORT_FORMS
    ]
    return _digest(parts)


def state_of(revision: int, synonyms: Sequence[UsedSynonym], pins: Sequence[PinRule]) -> int:
    """Return a digest of what the library gave a search: its revision, synonyms and pins.

    The revision counts changes of documents only.
    """
    return _digest((revision, tuple(synonyms), tuple(pins)))


def cursor_after(
    request: SearchRequest, state: int, position: int, total: int, last: RawScores, chunk_ids: Sequence[int]
) -> Cursor:
    """Return the cursor of the page after `position` of `total` results. `chunk_ids`: the last ones before
    it, in order; `last`: the raw scores of the last one."""
    anchors = tuple(reversed(chunk_ids[-MAX_ANCHORS:]))
    return Cursor(position, total, state, digest_of(request), last, anchors)


def check_cursor(request: SearchRequest) -> None:
    """Raise QueryError if the cursor of a request is of another search, or comes with an offset."""
    if request.cursor is None:
        return
    if not request.has_plain_pages:
        raise QueryError("cursor", "is for passages one by one: with group_by or fold_similar, use offset")
    if request.offset:
        raise QueryError("cursor", "and offset both say where the page begins: give one of them")
    if request.cursor.digest != digest_of(request):
        raise QueryError(
            "cursor",
            "is of another search: send the same query, filters and ranking arguments as for the page before",
        )


def _digest(value: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=8).digest(), "little")


def _check(packed: bytes) -> bytes:
    return hashlib.blake2b(packed, digest_size=_CHECK_BYTES, person=b"shoal-cursor").digest()
