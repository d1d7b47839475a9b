"""Operations on the pins of the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.client.flows import Flow, Repeat, Request, Stream, listing, operation
from shoal.client.paths import API
from shoal.client.requests import Requester, pages, parse
from shoal.models.pins import ListedTarget, Pin, PinMatch, PinPage, PinTarget

PINS = "/pins"
Target = PinTarget | ListedTarget | Mapping[str, int | None] | int
"""A document by its id, or {"document_id": …} or {"chunk_id": …}."""


class PinOperations(Requester):
    """Operations on pins.

    An invalid field or a missing target raises InvalidError, a second pin for the same words ConflictError,
    an unknown id NotFoundError.
    """

    @operation
    def pins(self, *, q: str | None = None, limit: int = 50, offset: int = 0) -> Flow[PinPage]:
        """A page of the pins, by id; with `q`, those whose query contains it."""
        return (yield from self._page(PinPage, PINS, limit, offset, q=q))

    @listing
    def each_pin(self, *, q: str | None = None) -> Stream[Pin]:
        """All pins, read page by page."""
        yield from pages(
            lambda limit, offset: self._page(PinPage, PINS, limit, offset, q=q), lambda page: page.pins
        )

    @operation
    def pin(self, pin_id: int) -> Flow[Pin]:
        """One pin."""
        return (yield from self._get(Pin, f"{PINS}/{int(pin_id)}"))

    @operation
    def add_pin(
        self,
        query: str,
        pinned: Sequence[Target] = (),
        *,
        hidden: Sequence[Target] = (),
        match: PinMatch | str = PinMatch.exact,
    ) -> Flow[Pin]:
        """Put documents or passages first for a query, and hide others. Arguments are those of
        `Engine.pins.add`."""
        body = _body(query, pinned, hidden, match)
        return (yield from self._post(Pin, PINS, body, Repeat.unsent))

    @operation
    def replace_pin(
        self,
        pin_id: int,
        query: str,
        pinned: Sequence[Target] = (),
        *,
        hidden: Sequence[Target] = (),
        match: PinMatch | str = PinMatch.exact,
    ) -> Flow[Pin]:
        """Replace a pin."""
        body = _body(query, pinned, hidden, match)
        request = Request("PUT", f"{API}{PINS}/{int(pin_id)}", json=body)
        return parse(Pin, (yield from self._send(request)))

    @operation
    def delete_pin(self, pin_id: int) -> Flow[bool]:
        """Delete a pin; false if there is none."""
        path = f"{API}{PINS}/{int(pin_id)}"
        response = yield from self._send(Request("DELETE", path, passed=frozenset({404})))
        return response.status_code != 404


def _body(query: str, pinned: Sequence[Target], hidden: Sequence[Target], match: str) -> dict[str, Any]:
    return {
        "query": query,
        "match": str(match),
        "pinned": [_target(each) for each in pinned],
        "hidden": [_target(each) for each in hidden],
    }


def _target(target: Target) -> dict[str, Any]:
    if isinstance(target, PinTarget | ListedTarget):
        return {"document_id": target.document_id, "chunk_id": target.chunk_id}
    return {"document_id": target} if isinstance(target, int) else dict(target)
