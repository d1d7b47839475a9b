"""Operations on collections. They do not depend on the collection of the client."""

from __future__ import annotations

from urllib.parse import quote

from shoal.client.flows import Flow, Repeat, Request, Stream, listing, operation
from shoal.client.requests import Requester, pages, parse
from shoal.declared.operations.operation import API
from shoal.models.responses import Collection, CollectionDetails, CollectionPage, SwappedCollections

COLLECTIONS = "/collections"


class CollectionOperations(Requester):
    """Operations on collections.

    An invalid name raises InvalidError, one that is taken ConflictError, an unknown one NotFoundError.
    """

    @operation
    def collections(self, *, limit: int = 50, offset: int = 0) -> Flow[CollectionPage]:
        """A page of the collections, `main` first and the others by name."""
        return (yield from self._page(CollectionPage, COLLECTIONS, limit, offset))

    @listing
    def each_collection(self) -> Stream[Collection]:
        """All collections, read page by page."""
        yield from pages(
            lambda limit, offset: self._page(CollectionPage, COLLECTIONS, limit, offset),
            lambda page: page.collections,
        )

    @operation
    def describe_collection(self, name: str) -> Flow[CollectionDetails]:
        """What a collection holds."""
        return (yield from self._get(CollectionDetails, _path(name)))

    @operation
    def create_collection(self, name: str) -> Flow[Collection]:
        """Create an empty collection."""
        return (yield from self._post(Collection, COLLECTIONS, {"name": name}, Repeat.unsent))

    @operation
    def rename_collection(self, name: str, new_name: str) -> Flow[Collection]:
        """Give a collection another name."""
        request = Request("PATCH", API + _path(name), json={"name": new_name}, repeat=Repeat.unsent)
        return parse(Collection, (yield from self._send(request)))

    @operation
    def delete_collection(self, name: str) -> Flow[bool]:
        """Delete a collection with all it holds; false if there is none."""
        request = Request("DELETE", API + _path(name), passed=frozenset({404}))
        response = yield from self._send(request)
        return response.status_code != 404

    @operation
    def swap_collections(self, first: str, second: str) -> Flow[SwappedCollections]:
        """Let two collections exchange their names at one moment."""
        body = {"first": first, "second": second}
        return (yield from self._post(SwappedCollections, f"{COLLECTIONS}/swap", body, Repeat.unsent))


def _path(name: str) -> str:
    return f"{COLLECTIONS}/{quote(name, safe='')}"
