"""The rows of saved searches, and their evaluation for the chunks that jobs have brought.

Each search is ranked once for all that is new, like a search with a filter on the new chunks, and not once
for each document. Its number of the last evaluation is stored in the transaction that stores its webhook, so
a process that dies in between repeats the evaluation, and reports nothing twice and nothing never.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ShoalError, StorageError
from shoal.models.saved_searches import DeliveryEvent
from shoal.models.search import SearchResult
from shoal.saved_searches import delivering
from shoal.saved_searches.arguments import request_of
from shoal.search.library_index import LibraryView
from shoal.search.relevance import is_relevant_enough
from shoal.search.searcher import Searcher
from shoal.storage import saved_search_changes as changes
from shoal.storage.database import Database, Row, Snapshot, Transaction
from shoal.support.clock import timestamp_at

SEARCHES_PER_BATCH = 10
"""Searches that are evaluated in one snapshot and stored in one transaction."""
LEASE_SECONDS = 300.0
MAX_WAITING = 100
"""While this many webhooks of a search wait, it is not evaluated; then it sees all that came meanwhile."""
MAX_PASSAGES = 50
"""Most passages in one webhook, the best; `has_more` says that there were others."""
MAX_TEXT_CHARS = 2_000
"""Longest text of a passage in a webhook."""
TEST_PASSAGES = 3
# The secret is read by the deliveries alone (`delivering.py`).
_COLUMNS = """id, name, arguments, min_score, url, is_active, evaluated, error, revision, created_at,
    updated_at"""
SELECT = f"""
    SELECT {_COLUMNS},
        (SELECT COUNT(*) FROM webhook_deliveries d WHERE d.saved_search_id = saved_searches.id
            AND d.status = 'waiting') AS n_waiting,
        (SELECT COUNT(*) FROM webhook_deliveries d WHERE d.saved_search_id = saved_searches.id
            AND d.status = 'failed') AS n_failed
    FROM saved_searches
"""
BY_ID = f"{SELECT} WHERE id = :id"
PAGE = f"{SELECT} ORDER BY id LIMIT :limit OFFSET :offset"
COUNT = "SELECT COUNT(*) FROM saved_searches"
INSERT = """
    INSERT INTO saved_searches (name, arguments, min_score, url, secret, is_active, evaluated, created_at,
                                updated_at)
    VALUES (:name, :arguments, :min_score, :url, :secret, :is_active, :evaluated, :now, :now)
    RETURNING id
"""
UPDATE = """
    UPDATE saved_searches SET name = :name, arguments = :arguments, min_score = :min_score, url = :url,
        secret = COALESCE(:secret, secret), is_active = :is_active, evaluated = :evaluated, error = NULL,
        revision = revision + 1, lease_owner = NULL, lease_expires_at = 0, updated_at = :now
    WHERE id = :id
"""
DELETE = "DELETE FROM saved_searches WHERE id = :id"
# A search whose webhooks wait is evaluated again when some of them have ended.
_DUE = """
    is_active = 1 AND evaluated < :last AND lease_expires_at <= :now
    AND (SELECT COUNT(*) FROM webhook_deliveries d
         WHERE d.saved_search_id = saved_searches.id AND d.status = 'waiting') < :max_waiting
"""
IS_ANY_DUE = f"SELECT EXISTS (SELECT 1 FROM saved_searches WHERE {_DUE})"
CLAIM = f"""
    UPDATE saved_searches SET lease_owner = :owner, lease_expires_at = :expires
    WHERE id IN (SELECT id FROM saved_searches WHERE {_DUE} ORDER BY evaluated, id LIMIT :limit)
"""
CLAIMED = f"SELECT {_COLUMNS} FROM saved_searches WHERE lease_owner = :owner ORDER BY evaluated, id"
# Nobody changed the search, or took it over, since it was claimed.
EVALUATED = """
    UPDATE saved_searches SET evaluated = :last, error = :error, lease_owner = NULL, lease_expires_at = 0
    WHERE id = :id AND lease_owner = :owner AND evaluated = :after AND revision = :revision
"""
RELEASE = "UPDATE saved_searches SET lease_owner = NULL, lease_expires_at = 0 WHERE lease_owner = :owner"
N_ACTIVE = "SELECT COUNT(*) FROM saved_searches WHERE is_active = 1"


class Matches(NamedTuple):
    """Results of an evaluation, best first, and whether there were more."""

    results: Sequence[SearchResult]
    has_more: bool


class Matcher:
    """Evaluates the saved searches of a library. Any number of processes may do so."""

    def __init__(self, database: Database, searcher: Searcher) -> None:
        """`database` is the library itself, and not a standby."""
        self._database = database
        # Saved searches do not use vectors: new passages are embedded later than they are matched.
        self._searcher = dataclasses.replace(searcher, get_query_vectors=lambda: None)

    def match_batch(self) -> bool:
        """Evaluate some searches; False if none was due. Raises StorageError."""
        with self._database.snapshot() as snapshot:
            now = snapshot.now()
            last = changes.latest_evaluation(snapshot)
            is_ended = changes.is_any_ended(snapshot)
            is_due = is_ended or is_any_due(snapshot, last, now, MAX_WAITING)
            is_seen = changes.is_any_seen(snapshot)
        if is_due:
            is_due = self._match(now)
        if is_seen or is_due:
            with self._database.write() as transaction:
                changes.forget_seen(transaction)
        return is_due

    def best_matches(self, arguments: Mapping[str, Any], min_score: float, limit: int) -> Matches:
        """Return the matches in the whole library."""
        self._searcher.index.prepare()
        with self._database.snapshot() as snapshot:
            return self._matches(self._searcher.view(snapshot), arguments, min_score, None, limit)

    def _match(self, now: float) -> bool:
        owner = uuid.uuid4().hex
        with self._database.write() as transaction:
            last = changes.close_ended(transaction)
            claimed = claim(
                transaction,
                owner=owner,
                last=last,
                now=now,
                expires=now + LEASE_SECONDS,
                max_waiting=MAX_WAITING,
                limit=SEARCHES_PER_BATCH,
            )
        if not claimed:
            return False
        try:
            evaluated = self._evaluate(claimed, last)
            with self._database.write() as transaction:
                for row, matches, error in evaluated:
                    if finish(transaction, row, owner=owner, last=last, error=error) and matches.results:
                        store_delivery(transaction, row, matches, DeliveryEvent.match)
        except StorageError:
            with suppress(StorageError), self._database.write() as transaction:
                release(transaction, owner)
            raise
        return True

    def _evaluate(self, claimed: Sequence[Row], last: int) -> list[tuple[Row, Matches, str | None]]:
        evaluated: list[tuple[Row, Matches, str | None]] = []
        self._searcher.index.prepare()
        with self._database.snapshot() as snapshot:
            view: LibraryView | None = None
            for after, group in itertools.groupby(claimed, key=lambda row: int(row["evaluated"])):
                new = changes.new_chunks(snapshot, after, last)
                for row in group:
                    matches, error = Matches((), False), None
                    if len(new):
                        view = view or self._searcher.view(snapshot)
                        try:
                            arguments = json.loads(row["arguments"])
                            matches = self._matches(view, arguments, row["min_score"], new, MAX_PASSAGES)
                        except StorageError:
                            raise
                        except ShoalError as problem:
                            error = str(problem)
                    evaluated.append((row, matches, error))
        return evaluated

    def _matches(
        self,
        view: LibraryView,
        arguments: Mapping[str, Any],
        min_score: float,
        among: NDArray[np.int64] | None,
        limit: int,
    ) -> Matches:
        """Raises QueryError if the settings or the data of the scorer no longer allow the search."""
        searcher = self._searcher
        # One more than is reported shows whether there are more.
        request = request_of(arguments, view.settings, top_k=min(limit + 1, view.settings.max_top_k))
        filters = dataclasses.replace(searcher.compile_filters(request), among=among)
        search = searcher.rank(view, searcher.prepare(request, filters))
        results = search.results(search.ranking.first(request.top_k, request.limit_per_document))
        matching = [
            result
            for result in results
            if is_relevant_enough(result.relevance, request.min_relevance) and result.match_score >= min_score
        ]
        return Matches(matching[:limit], len(matching) > limit)


def store_delivery(transaction: Transaction, row: Row, matches: Matches, event: DeliveryEvent) -> str:
    """Store the webhook that reports matches of a saved search, and return its id.

    A test is due at once, a match not before those that wait.
    """
    delivery_id, due_at = str(uuid.uuid4()), transaction.now()
    now = timestamp_at(due_at)
    if event is DeliveryEvent.match:
        due_at = max(due_at, delivering.last_due_at(transaction, row["id"]) or 0.0)
    body = {
        "event": event.value,
        "delivery_id": delivery_id,
        "created_at": now,
        "saved_search": {
            "id": row["id"],
            "name": row["name"],
            "search": json.loads(row["arguments"]),
            "min_score": row["min_score"],
        },
        "passages": [_passage(result) for result in matches.results],
        "has_more": matches.has_more,
    }
    delivering.insert(
        transaction,
        delivery_id=delivery_id,
        search_id=row["id"],
        event=event.value,
        n_passages=len(matches.results),
        body=json.dumps(body, ensure_ascii=False, separators=(",", ":")),
        due_at=due_at,
        now=now,
    )
    return delivery_id


def _passage(result: SearchResult) -> dict[str, Any]:
    text = result.text
    return {
        "chunk_id": result.chunk_id,
        "document_id": result.document_id,
        "document_title": result.document_title,
        "source_path": result.source_path,
        "section_path": list(result.section_path),
        "start_char": result.start_char,
        "end_char": result.end_char,
        "start_line": result.start_line,
        "end_line": result.end_line,
        "relevance": result.relevance,
        "match_score": result.match_score,
        "text": text[:MAX_TEXT_CHARS],
        "is_text_cut": len(text) > MAX_TEXT_CHARS,
    }


def get(snapshot: Snapshot, search_id: int) -> Row | None:
    """Read a saved search with the numbers of its deliveries; None if there is none."""
    row: Row | None = snapshot.first(BY_ID, {"id": search_id})
    return row


def page(snapshot: Snapshot, limit: int, offset: int) -> tuple[Sequence[Row], int]:
    """Read a page of the saved searches, by id, and the number of all."""
    return snapshot.rows(PAGE, {"limit": limit, "offset": offset}), snapshot.value(COUNT)


def count(snapshot: Snapshot) -> int:
    """Count the saved searches."""
    number: int = snapshot.value(COUNT)
    return number


def count_active(snapshot: Snapshot) -> int:
    """Count the saved searches that are evaluated."""
    number: int = snapshot.value(N_ACTIVE)
    return number


def insert(transaction: Transaction, values: Mapping[str, Any]) -> int:
    """Store a saved search and return its id."""
    number: int = transaction.value(INSERT, values)
    return number


def update(transaction: Transaction, values: Mapping[str, Any]) -> None:
    """Replace a saved search; without a `secret` it keeps its own."""
    transaction.execute(UPDATE, values)


def delete(transaction: Transaction, search_id: int) -> bool:
    """Delete a saved search and its deliveries; False if there is none."""
    return bool(transaction.execute(DELETE, {"id": search_id}))


def is_any_due(snapshot: Snapshot, last: int, now: float, max_waiting: int) -> bool:
    """Whether an active search has not seen the evaluation `last` and nobody is at it."""
    return bool(snapshot.value(IS_ANY_DUE, {"last": last, "now": now, "max_waiting": max_waiting}))


def claim(
    transaction: Transaction,
    *,
    owner: str,
    last: int,
    now: float,
    expires: float,
    max_waiting: int,
    limit: int,
) -> list[Row]:
    """Lease some of the searches that are due, those that are furthest behind first."""
    values = {"last": last, "now": now, "max_waiting": max_waiting}
    transaction.execute(CLAIM, {**values, "owner": owner, "expires": expires, "limit": limit})
    return transaction.rows(CLAIMED, {"owner": owner})


def finish(transaction: Transaction, row: Row, *, owner: str, last: int, error: str | None) -> bool:
    """Record that a claimed search has seen the evaluations up to `last`; False, having recorded nothing, if
    it was changed or claimed by another since."""
    values = {"id": row["id"], "after": row["evaluated"], "revision": row["revision"]}
    return bool(transaction.execute(EVALUATED, {**values, "owner": owner, "last": last, "error": error}))


def release(transaction: Transaction, owner: str) -> None:
    """Give back what `owner` has claimed and not finished."""
    transaction.execute(RELEASE, {"owner": owner})
