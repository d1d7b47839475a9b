"""`engine.saved_searches`: create, list, change, delete and test saved searches, and see their webhooks."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from shoal.declared.arguments import MAX_ID, check_choice
from shoal.errors import NotFoundError, QueryError
from shoal.models.saved_searches import (
    Delivery,
    DeliveryDetail,
    DeliveryEvent,
    DeliveryPage,
    DeliveryStatus,
    NewSavedSearch,
    SavedSearch,
    SavedSearchPage,
)
from shoal.saved_searches import arguments as checks
from shoal.saved_searches import delivering
from shoal.saved_searches import matching as rows
from shoal.saved_searches.matching import TEST_PASSAGES, Matcher, store_delivery
from shoal.search.request import check_page
from shoal.search.searcher import Searcher
from shoal.settings import Settings
from shoal.storage import saved_search_changes as changes
from shoal.storage.database import ConstraintError, Database, Row, Snapshot
from shoal.support.clock import timestamp, timestamp_at

MAX_SAVED_SEARCHES = 1_000
"""Each is evaluated after every job that brings documents."""
MAX_ROUNDS = 10_000
"""Most steps of `run`: more than saved searches and waiting webhooks together make."""
SECRET_BYTES = 32


class SavedSearches:
    """The saved searches of a library. May be shared between threads."""

    def __init__(self, database: Database, settings: Settings, get_searcher: Callable[[], Searcher]) -> None:
        self._database = database
        self._settings = settings
        self._get_searcher = get_searcher

    def create(
        self,
        name: str,
        search: Mapping[str, Any],
        *,
        url: str,
        secret: str | None = None,
        min_score: float = 0.0,
        is_active: bool = True,
    ) -> NewSavedSearch:
        """Save a search. When a job ends, its new passages that match are sent to `url`.

        `search`: arguments of `Engine.search`, `query` among them; `min_relevance` is 0.25 unless given,
        and mode `dense` is refused.
        `secret` signs the webhooks; without one, a random one is made. It is returned this once. Raises
        QueryError, which names the argument.
        """
        values = {
            "name": checks.check_name(name),
            "arguments": checks.stored_arguments(search, self._settings),
            "min_score": checks.check_score(min_score),
            "url": checks.check_webhook(url, self._settings),
            "secret": secrets.token_urlsafe(SECRET_BYTES) if secret is None else checks.check_secret(secret),
            "is_active": int(checks.check_flag("is_active", is_active)),
            "now": timestamp(),
        }
        try:
            with self._database.write() as transaction:
                if rows.count(transaction) >= MAX_SAVED_SEARCHES:
                    raise QueryError("name", f"there are {MAX_SAVED_SEARCHES:,} saved searches, the limit")
                # What is stored already is not new for this search.
                values["evaluated"] = changes.close_ended(transaction)
                row = _row(transaction, rows.insert(transaction, values))
                created = _saved_search(row, transaction)
        except ConstraintError:
            raise _name_taken(str(values["name"])) from None
        return NewSavedSearch(created, str(values["secret"]))

    def list(self, *, limit: int = 50, offset: int = 0) -> SavedSearchPage:
        """A page of the saved searches, by id. Raises QueryError."""
        check_page(limit, offset)
        with self._database.snapshot() as snapshot:
            page, total = rows.page(snapshot, limit, offset)
            return SavedSearchPage(tuple(_saved_search(row, snapshot) for row in page), total)

    def get(self, search_id: int) -> SavedSearch:
        """A saved search, without its secret. Raises NotFoundError."""
        with self._database.snapshot() as snapshot:
            return _saved_search(_row(snapshot, search_id), snapshot)

    def change(
        self,
        search_id: int,
        *,
        name: str | None = None,
        search: Mapping[str, Any] | None = None,
        url: str | None = None,
        secret: str | None = None,
        min_score: float | None = None,
        is_active: bool | None = None,
    ) -> SavedSearch:
        """Change what is given. What came while a search was not active is not reported later.

        Raises NotFoundError, and QueryError, which names the argument.
        """
        given: dict[str, Any] = {}
        if name is not None:
            given["name"] = checks.check_name(name)
        if search is not None:
            given["arguments"] = checks.stored_arguments(search, self._settings)
        if url is not None:
            given["url"] = checks.check_webhook(url, self._settings)
        if min_score is not None:
            given["min_score"] = checks.check_score(min_score)
        if is_active is not None:
            given["is_active"] = int(checks.check_flag("is_active", is_active))
        given["secret"] = None if secret is None else checks.check_secret(secret)
        try:
            with self._database.write() as transaction:
                before = _row(transaction, search_id)
                values = {**dict(before), **given, "now": timestamp()}
                if values["is_active"] and not before["is_active"]:
                    values["evaluated"] = changes.close_ended(transaction)
                rows.update(transaction, values)
                return _saved_search(_row(transaction, search_id), transaction)
        except ConstraintError:
            raise _name_taken(given["name"]) from None

    def delete(self, search_id: int) -> None:
        """Delete a saved search and its webhooks. Raises NotFoundError."""
        with self._database.write() as transaction:
            if not rows.delete(transaction, _checked(search_id)):
                raise _missing(search_id)

    def test(self, search_id: int) -> DeliveryDetail:
        """Send a webhook with the best matches in the library, at most 3, as the event `test`.

        A worker sends it soon, or `run`. Raises NotFoundError, QueryError.
        """
        with self._database.snapshot() as snapshot:
            row = _row(snapshot, search_id)
        matches = self._matcher().best_matches(json.loads(row["arguments"]), row["min_score"], TEST_PASSAGES)
        with self._database.write() as transaction:
            row = _row(transaction, search_id)
            delivery_id = store_delivery(transaction, row, matches, DeliveryEvent.test)
        return self.delivery(search_id, delivery_id)

    def deliveries(
        self, search_id: int, *, status: str | None = None, limit: int = 50, offset: int = 0
    ) -> DeliveryPage:
        """A page of the webhooks of a saved search, newest first; `status`: only those with it.

        Raises NotFoundError, QueryError.
        """
        check_page(limit, offset)
        wanted = None if status is None else check_choice("status", status, DeliveryStatus).value
        with self._database.snapshot() as snapshot:
            _row(snapshot, search_id)
            page, total = delivering.page(snapshot, search_id, wanted, limit, offset)
        return DeliveryPage(tuple(Delivery(**_delivery(row)) for row in page), total)

    def delivery(self, search_id: int, delivery_id: str) -> DeliveryDetail:
        """A webhook, with its body. Raises NotFoundError."""
        with self._database.snapshot() as snapshot:
            row = delivering.get(snapshot, _checked(search_id), delivery_id)
        if row is None:
            raise NotFoundError(f"saved search {search_id} has no delivery {delivery_id[:40]!r}")
        return DeliveryDetail(**_delivery(row), body=row["body"])

    def redeliver(self, search_id: int, delivery_id: str) -> DeliveryDetail:
        """Send a webhook again, under its id, whatever became of it. Raises NotFoundError."""
        with self._database.write() as transaction:
            now = transaction.now()
            delivering.send_again(transaction, _checked(search_id), delivery_id, now, timestamp_at(now))
        return self.delivery(search_id, delivery_id)

    def run(self) -> int:
        """Evaluate what is due and send the webhooks that are due, as a worker does; return the number of
        tries to send. For programs without a worker. Raises StorageError."""
        # Imported late, because it needs an HTTP client.
        from shoal.saved_searches.delivering import Deliverer

        matcher = self._matcher()
        for _ in range(MAX_ROUNDS):
            if not matcher.match_batch():
                break
        deliverer = Deliverer(self._database, self._settings)
        deliverer.prune()
        return next(i for i in range(MAX_ROUNDS + 1) if i == MAX_ROUNDS or not deliverer.deliver_one())

    def counts(self) -> Mapping[str, int]:
        """The numbers of `active` saved searches and of deliveries by status."""
        with self._database.snapshot() as snapshot:
            by_status = delivering.count_by_status(snapshot)
            return {
                "active": rows.count_active(snapshot),
                **{status.value: by_status.get(status.value, 0) for status in DeliveryStatus},
            }

    def _matcher(self) -> Matcher:
        return Matcher(self._database, self._get_searcher())


def _checked(search_id: int) -> int:
    if isinstance(search_id, bool) or not isinstance(search_id, int) or not 0 < search_id <= MAX_ID:
        raise _missing(search_id)
    return search_id


def _row(snapshot: Snapshot, search_id: int) -> Row:
    row = rows.get(snapshot, _checked(search_id))
    if row is None:
        raise _missing(search_id)
    return row


def _missing(search_id: object) -> NotFoundError:
    return NotFoundError(f"there is no saved search {search_id!s:.40}")


def _name_taken(name: str) -> QueryError:
    return QueryError("name", f"another saved search has the name {name!r}")


def _saved_search(row: Row, snapshot: Snapshot) -> SavedSearch:
    is_active = bool(row["is_active"])
    return SavedSearch(
        id=row["id"],
        name=row["name"],
        search=json.loads(row["arguments"]),
        min_score=row["min_score"],
        url=row["url"],
        is_active=is_active,
        is_pending=is_active and row["evaluated"] < changes.latest_evaluation(snapshot),
        n_waiting=row["n_waiting"],
        n_failed=row["n_failed"],
        error=row["error"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _delivery(row: Row) -> dict[str, Any]:
    is_waiting = row["status"] == DeliveryStatus.waiting
    return {
        "delivery_id": row["delivery_id"],
        "saved_search_id": row["saved_search_id"],
        "event": DeliveryEvent(row["event"]),
        "n_passages": row["n_passages"],
        "status": DeliveryStatus(row["status"]),
        "attempts": row["attempts"],
        "next_try_at": timestamp_at(row["due_at"]) if is_waiting else None,
        "response_status": row["response_status"],
        "error": row["error"],
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
    }
