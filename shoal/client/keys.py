"""Operations on the keys of a service."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from shoal.client.flows import Flow, Repeat, Request, Stream, listing, operation
from shoal.client.requests import Requester, pages, without_none
from shoal.declared.operations.operation import API
from shoal.models.keys import CreatedKey, KeyDetails, KeyPage
from shoal.support.clock import timestamp

KEYS = "/keys"


class KeyOperations(Requester):
    """Operations on keys. They need a key that may manage the service.

    Unknown ids raise NotFoundError, invalid arguments InvalidError.
    """

    @operation
    def create_key(
        self,
        name: str,
        scopes: Mapping[str, str],
        *,
        owners: Sequence[str] | None = None,
        expires_at: dt.datetime | None = None,
        requests_per_second: float | None = None,
    ) -> Flow[CreatedKey]:
        """Create a key; the result has the key itself, this once.

        `scopes`: rights (`read`, `write` or `admin`) by name of a collection, or `*` for all.
        """
        body: dict[str, Any] = without_none(
            name=name,
            scopes=[{"collection": name, "right": str(right)} for name, right in scopes.items()],
            owners=None if owners is None else list(owners),
            expires_at=None if expires_at is None else timestamp(expires_at),
            requests_per_second=requests_per_second,
        )
        return (yield from self._post(CreatedKey, KEYS, body, Repeat.unsent))

    @operation
    def keys(self, *, only_active: bool = False, limit: int = 50, offset: int = 0) -> Flow[KeyPage]:
        """A page of the keys, newest first; `only_active`: without expired and revoked ones."""
        only = "true" if only_active else None
        return (yield from self._page(KeyPage, KEYS, limit, offset, only_active=only))

    @listing
    def each_key(self, *, only_active: bool = False) -> Stream[KeyDetails]:
        """All keys, newest first, read page by page."""
        only = "true" if only_active else None
        yield from pages(
            lambda limit, offset: self._page(KeyPage, KEYS, limit, offset, only_active=only),
            lambda page: page.keys,
        )

    @operation
    def key_details(self, key_id: str) -> Flow[KeyDetails]:
        """A key, without the key itself."""
        return (yield from self._get(KeyDetails, _one(key_id)))

    @operation
    def revoke_key(self, key_id: str) -> Flow[None]:
        """Revoke a key for good."""
        yield from self._send(Request("DELETE", f"{API}{_one(key_id)}"))

    @operation
    def rotate_key(self, key_id: str, *, grace_seconds: float = 0.0) -> Flow[CreatedKey]:
        """Replace a key by another with the same rights; the old one ends after `grace_seconds`."""
        body = {"grace_seconds": grace_seconds}
        return (yield from self._post(CreatedKey, f"{_one(key_id)}/rotate", body, Repeat.unsent))


def _one(key_id: str) -> str:
    return f"{KEYS}/{quote(key_id, safe='')}"
