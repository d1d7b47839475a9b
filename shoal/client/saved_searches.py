"""Operations on saved searches and the query log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from shoal.client.flows import Flow, Repeat, Request, Stream, listing, operation
from shoal.client.paths import API
from shoal.client.requests import Requester, json_object, pages, parse, without_none
from shoal.models.query_log import (
    ClickedQueries,
    FrequentQueries,
    LoggedQuery,
    LoggedQueryPage,
)
from shoal.models.saved_searches import (
    DeliveryDetail,
    DeliveryPage,
    NewSavedSearch,
    SavedSearch,
    SavedSearchPage,
)

SEARCHES = "/saved-searches"
QUERIES = "/queries"


class SavedSearchOperations(Requester):
    """Operations on saved searches. Arguments and results are those of `engine.saved_searches`.

    They need a key with the right `admin`. Unknown ids raise NotFoundError, invalid arguments InvalidError.
    """

    @operation
    def create_saved_search(
        self,
        name: str,
        search: Mapping[str, Any],
        *,
        url: str,
        secret: str | None = None,
        min_score: float | None = None,
        is_active: bool | None = None,
    ) -> Flow[NewSavedSearch]:
        """Save a search that reports new matches to `url`; the result has the secret, this once.

        `search`: `query` and other fields of the body of `POST /search`.
        """
        body = without_none(
            name=name, search=dict(search), url=url, secret=secret, min_score=min_score, is_active=is_active
        )
        return (yield from self._post(NewSavedSearch, SEARCHES, body, Repeat.unsent))

    @operation
    def saved_searches(self, *, limit: int = 50, offset: int = 0) -> Flow[SavedSearchPage]:
        """A page of the saved searches, by id."""
        return (yield from self._page(SavedSearchPage, SEARCHES, limit, offset))

    @listing
    def each_saved_search(self) -> Stream[SavedSearch]:
        """All saved searches, read page by page."""
        yield from pages(
            lambda limit, offset: self._page(SavedSearchPage, SEARCHES, limit, offset),
            lambda page: page.saved_searches,
        )

    @operation
    def saved_search(self, search_id: int) -> Flow[SavedSearch]:
        """A saved search, without its secret."""
        return (yield from self._get(SavedSearch, f"{SEARCHES}/{int(search_id)}"))

    @operation
    def change_saved_search(
        self,
        search_id: int,
        *,
        name: str | None = None,
        search: Mapping[str, Any] | None = None,
        url: str | None = None,
        secret: str | None = None,
        min_score: float | None = None,
        is_active: bool | None = None,
    ) -> Flow[SavedSearch]:
        """Change what is given; `search` replaces the whole search."""
        body = without_none(
            name=name,
            search=None if search is None else dict(search),
            url=url,
            secret=secret,
            min_score=min_score,
            is_active=is_active,
        )
        request = Request("PATCH", f"{API}{SEARCHES}/{int(search_id)}", json=body)
        return parse(SavedSearch, (yield from self._send(request)))

    @operation
    def delete_saved_search(self, search_id: int) -> Flow[None]:
        """Delete a saved search and its webhooks."""
        yield from self._send(Request("DELETE", f"{API}{SEARCHES}/{int(search_id)}", repeat=Repeat.unsent))

    @operation
    def test_saved_search(self, search_id: int) -> Flow[DeliveryDetail]:
        """Send a test webhook with the best matches of the library."""
        return (yield from self._post(DeliveryDetail, f"{SEARCHES}/{int(search_id)}/test", {}, Repeat.unsent))

    @operation
    def webhook_deliveries(
        self, search_id: int, *, status: str | None = None, limit: int = 50, offset: int = 0
    ) -> Flow[DeliveryPage]:
        """A page of the webhooks of a saved search, newest first; `status`: only those with it."""
        path = f"{SEARCHES}/{int(search_id)}/deliveries"
        return (yield from self._page(DeliveryPage, path, limit, offset, status=status))

    @operation
    def webhook_delivery(self, search_id: int, delivery_id: str) -> Flow[DeliveryDetail]:
        """A webhook with its body."""
        return (yield from self._get(DeliveryDetail, _delivery(search_id, delivery_id)))

    @operation
    def redeliver_webhook(self, search_id: int, delivery_id: str) -> Flow[DeliveryDetail]:
        """Send a webhook again, under its id."""
        return (yield from self._post(DeliveryDetail, f"{_delivery(search_id, delivery_id)}/redeliver", {}))


class QueryLogOperations(Requester):
    """Operations on the query log. All but `report_click` need a key with the right `admin`."""

    @operation
    def queries(self, *, only_empty: bool = False, limit: int = 50, offset: int = 0) -> Flow[LoggedQueryPage]:
        """A page of the logged queries, newest first; `only_empty`: those without results."""
        only = "true" if only_empty else None
        return (yield from self._page(LoggedQueryPage, QUERIES, limit, offset, only_empty=only))

    @listing
    def each_query(self, *, only_empty: bool = False) -> Stream[LoggedQuery]:
        """All logged queries, newest first, read page by page."""
        only = "true" if only_empty else None
        yield from pages(
            lambda limit, offset: self._page(LoggedQueryPage, QUERIES, limit, offset, only_empty=only),
            lambda page: page.queries,
        )

    @operation
    def frequent_queries(
        self,
        *,
        prefix: str | None = None,
        days: int | None = None,
        min_searches: int | None = None,
        only_empty: bool = False,
        limit: int = 50,
    ) -> Flow[FrequentQueries]:
        """The most frequent queries, most frequent first."""
        only = "true" if only_empty else None
        query = without_none(
            prefix=prefix, days=days, min_searches=min_searches, only_empty=only, limit=limit
        )
        request = Request("GET", f"{API}{QUERIES}/frequent", query=query)
        return parse(FrequentQueries, (yield from self._send(request)))

    @operation
    def judged_queries(self, *, min_clicks: int = 1) -> Flow[ClickedQueries]:
        """Judged queries made from clicks, as `shoal evaluate` reads them."""
        request = Request("GET", f"{API}{QUERIES}/judged", query={"min_clicks": min_clicks})
        return parse(ClickedQueries, (yield from self._send(request)))

    @operation
    def report_click(
        self, trace_id: str, *, chunk_id: int | None = None, document_id: int | None = None
    ) -> Flow[None]:
        """Report that a result of the search with this `trace_id` was opened.

        Raises NotFoundError if the search is not in the query log.
        """
        body = without_none(chunk_id=chunk_id, document_id=document_id)
        yield from self._send(Request("POST", f"{API}{QUERIES}/{_segment(trace_id)}/clicks", json=body))

    @operation
    def clear_queries(self) -> Flow[int]:
        """Delete all logged queries and clicks; the number of queries."""
        response = yield from self._send(Request("DELETE", f"{API}{QUERIES}"))
        return int(json_object(response).get("n_deleted", 0))


def _segment(text: str) -> str:
    """Return a text as one segment of a path."""
    return quote(str(text), safe="")


def _delivery(search_id: int, delivery_id: str) -> str:
    return f"{SEARCHES}/{int(search_id)}/deliveries/{_segment(delivery_id)}"
