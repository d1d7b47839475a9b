"""`engine.queries`: the query log, clicks on results, and judged queries made from both.

A thread of its own writes queries in batches: no search waits for the database. What does not fit in the
queue, or cannot be stored, is dropped and counted.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from shoal.declared.filters import SearchFilters
from shoal.errors import NotFoundError, QueryError, ShoalError
from shoal.filters.tree import text_of
from shoal.models.notes import NoteHit, UnitResponse
from shoal.models.queries import (
    CLICKS_OF_GRADES,
    MAX_FREQUENT,
    MAX_PREFIX_CHARS,
    ClickedQueries,
    ClickedQuery,
    FrequentQueries,
    FrequentQuery,
    LoggedQuery,
    LoggedQueryPage,
    QueryClick,
)
from shoal.models.search import DocumentResult, GroupBy, SearchResponse, SearchResult
from shoal.search.request import SearchRequest, check_id, check_page, make_request
from shoal.settings import Settings
from shoal.storage import query_log as rows
from shoal.storage.column_values import compact_json
from shoal.storage.database import Database, Row
from shoal.support.clock import timestamp

log = logging.getLogger(__name__)


MAX_CLICKS = 100
"""Most clicks of one query."""
MAX_LISTED = 1_000
MAX_JUDGED = 10_000
"""Most judged queries of one export."""
MAX_RELEVANT = 100
"""Most documents of one judged query, those with most clicks."""
PRUNED_TOGETHER = 1_000
MAX_PRUNES = 1_000
OFF = "off"


class QueryLog:
    """The query log of a library. May be shared between threads. It can be read also while it is off."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    @functools.cached_property
    def recorder(self) -> QueryRecorder | None:
        """What writes queries to the log; None while it is off."""
        return None if self._settings.query_log == OFF else QueryRecorder(self._database, self._settings)

    def record(self, request: SearchRequest, response: SearchResponse | UnitResponse) -> None:
        """Log a search, if the log is on. Returns at once."""
        if self.recorder is not None:
            self.recorder.record(request, response)

    def list(self, *, only_empty: bool = False, limit: int = 50, offset: int = 0) -> LoggedQueryPage:
        """A page of the logged queries, newest first; `only_empty`: those without results.

        Raises QueryError.
        """
        check_page(limit, offset)
        _between("limit", limit, 0, MAX_LISTED)
        with self._database.snapshot() as snapshot:
            page, clicks, total = rows.page(snapshot, limit, offset, only_empty=only_empty)
        return LoggedQueryPage(tuple(_logged_query(row, clicks.get(row["id"], ())) for row in page), total)

    def frequent(
        self,
        *,
        prefix: str = "",
        days: int | None = None,
        min_searches: int = 2,
        only_empty: bool = False,
        limit: int = 50,
    ) -> FrequentQueries:
        """The most frequent queries that begin with `prefix`, most frequent first.

        `days`: only searches of the last days. `only_empty`: only queries that never had a result. Raises
        QueryError.
        """
        if not isinstance(prefix, str) or len(prefix) > MAX_PREFIX_CHARS:
            raise QueryError("prefix", f"must be a string of at most {MAX_PREFIX_CHARS} characters")
        _between("limit", limit, 1, MAX_FREQUENT)
        _between("min_searches", min_searches, 1, 1_000_000)
        since = ""
        if days is not None:
            _between("days", days, 1, 3650)
            since = timestamp(datetime.now(UTC) - timedelta(days=days))
        with self._database.snapshot() as snapshot:
            found = rows.frequent(
                snapshot,
                prefix=prefix,
                since=since,
                min_searches=min_searches,
                only_empty=only_empty,
                limit=limit,
            )
        return FrequentQueries(tuple(FrequentQuery(**dict(row)) for row in found))

    def click(self, trace_id: str, *, chunk_id: int | None = None, document_id: int | None = None) -> None:
        """Log that a result was opened: its chunk, or its document as a whole. A second click on it counts
        no more.

        Raises NotFoundError for a search that is not in the log, and QueryError for what was not among its
        results.
        """
        check_id("chunk_id", chunk_id)
        check_id("document_id", document_id)
        if chunk_id is None and document_id is None:
            raise QueryError("chunk_id", "or document_id is missing")
        if self.recorder is not None:
            # The search may still wait to be written.
            self.recorder.flush()
        with self._database.write() as transaction:
            row = rows.by_trace(transaction, trace_id)
            if row is None:
                raise NotFoundError(
                    f"no search with the trace id {trace_id[:40]!r} is in the query log"
                    + ("; it is off (SHOAL_QUERY_LOG)" if self._settings.query_log == OFF else "")
                )
            rank, document = _place(row, chunk_id, document_id)
            if rows.count_clicks(transaction, row["id"]) >= MAX_CLICKS:
                raise QueryError("trace_id", f"has {MAX_CLICKS} clicks already, which is the limit")
            rows.insert_click(
                transaction,
                query_id=row["id"],
                document_id=document,
                chunk_id=chunk_id,
                rank=rank,
                now=timestamp(),
            )

    def judged(self, *, min_clicks: int = 1) -> ClickedQueries:
        """Judged queries made from clicks, for `engine.maintenance.evaluate` and `shoal evaluate`.

        A document is relevant for a query with grade 1 from `min_clicks` clicks on, 2 from 3 and 3 from 10.
        It is named by its source path, or its title without one. Raises QueryError.
        """
        _between("min_clicks", min_clicks, 1, 1_000_000)
        by_query: dict[str, tuple[str, dict[str, int]]] = {}
        with self._database.snapshot() as snapshot:
            for normalized, query, title, source_path, n_clicks in rows.clicked(snapshot, min_clicks):
                if normalized not in by_query and len(by_query) == MAX_JUDGED:
                    break
                relevant = by_query.setdefault(normalized, (query, {}))[1]
                if len(relevant) < MAX_RELEVANT:
                    grade = next(grade for fewest, grade in CLICKS_OF_GRADES if n_clicks >= fewest)
                    relevant.setdefault(source_path or title, grade)
        return ClickedQueries(tuple(ClickedQuery(query, relevant) for query, relevant in by_query.values()))

    def clear(self) -> int:
        """Delete all logged queries and clicks; return the number of queries."""
        if self.recorder is not None:
            self.recorder.flush()
        return self._prune(timestamp(datetime.now(UTC) + timedelta(days=1)))

    def prune(self) -> int:
        """Delete what was logged longer than `query_log_days` ago; return the number of queries."""
        return self._prune(timestamp(datetime.now(UTC) - timedelta(days=self._settings.query_log_days)))

    def counts(self) -> Mapping[str, int]:
        """The numbers of logged queries: `queries`, and of those, `empty`, without results."""
        with self._database.snapshot() as snapshot:
            _, _, n_queries = rows.page(snapshot, 0, 0, only_empty=False)
            _, _, n_empty = rows.page(snapshot, 0, 0, only_empty=True)
        return {"queries": n_queries, "empty": n_empty}

    def close(self) -> None:
        """Write what waits to be written."""
        if self.recorder is not None:
            self.recorder.close()

    def _prune(self, before: str) -> int:
        n_deleted = 0
        for _ in range(MAX_PRUNES):
            with self._database.write() as transaction:
                n = rows.prune(transaction, before, PRUNED_TOGETHER)
            n_deleted += n
            if n < PRUNED_TOGETHER:
                break
        return n_deleted


def _place(row: Row, chunk_id: int | None, document_id: int | None) -> tuple[int | None, int]:
    """Return rank and document of a clicked result. Raises QueryError if it was not shown."""
    chunks = json.loads(row["results"])
    if json.loads(row["arguments"]).get("group_by", GroupBy.chunk) != GroupBy.chunk:
        shown = [list(passages) for _, passages in itertools.groupby(chunks, key=lambda each: each[1])]
    else:
        shown = [[each] for each in chunks]
    for rank, result in enumerate(shown, start=1):
        for chunk, document in result:
            if chunk_id in (None, chunk) and document_id in (None, document):
                return rank, document
    if document_id is None or row["n_results"] <= len(shown):
        raise QueryError(
            "document_id" if chunk_id is None else "chunk_id", "was not among the results of this search"
        )
    return None, document_id


def _logged_query(row: Row, clicks: Sequence[Row]) -> LoggedQuery:
    return LoggedQuery(
        trace_id=row["trace_id"],
        query=row["query"],
        arguments=json.loads(row["arguments"]),
        n_results=row["n_results"],
        best_relevance=row["best_relevance"],
        took_ms=row["took_ms"],
        results=tuple((chunk, document) for chunk, document in json.loads(row["results"])),
        clicks=tuple(
            QueryClick(click["document_id"], click["chunk_id"], click["rank"], click["created_at"])
            for click in clicks
        ),
        created_at=row["created_at"],
    )


def _between(field: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise QueryError(field, f"must be a whole number from {low:,} to {high:,}")


MAX_QUEUED = 10_000
BATCH = 500
"""Most queries of one transaction."""
PAUSE_SECONDS = 0.5
"""How long queries are collected before they are written together."""
MAX_RESULTS = 100
"""Most results of a query whose ids are kept."""
MAX_VALUE_CHARS = 500
"""Longest value of an argument that is kept."""
CLOSE_SECONDS = 2.0

Watcher = Callable[[int, int], None]
"""Receives the numbers of written and of dropped queries."""


class _Entry(NamedTuple):
    """A search that waits to be written. It holds no text of results."""

    request: SearchRequest
    trace_id: str
    took_ms: float
    n_results: int
    best_relevance: float | None
    results: list[tuple[int, int]]
    created_at: str


class QueryRecorder:
    """Takes queries from any thread. `watch` may be set."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._queue: deque[_Entry] = deque()
        self._changed = threading.Condition()
        self._n_writing = 0
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._is_closed = False
        self._is_urgent = False
        self.watch: Watcher = lambda written, dropped: None

    def record(self, request: SearchRequest, response: SearchResponse | UnitResponse) -> None:
        """Queue a search. Never waits for the database, and never fails."""
        results: Sequence[SearchResult | NoteHit | DocumentResult] = response.results
        if isinstance(response, SearchResponse) and response.documents is not None:
            results = response.documents
        entry = _Entry(
            request,
            response.trace_id,
            response.took_ms,
            len(results),
            max((result.relevance for result in results), default=None),
            [
                (chunk.chunk_id, chunk.document_id)
                for result in results[:MAX_RESULTS]
                for chunk in _chunks(result)
            ],
            timestamp(),
        )
        with self._changed:
            is_full = self._is_closed or len(self._queue) >= MAX_QUEUED
            if not is_full:
                self._queue.append(entry)
                self._start()
                self._changed.notify_all()
        if is_full:
            self.watch(0, 1)

    def flush(self, seconds: float = CLOSE_SECONDS) -> None:
        """Wait until what is queued is written, at most so long."""
        deadline = time.monotonic() + seconds
        with self._changed:
            self._is_urgent = True
            self._changed.notify_all()
            while (self._queue or self._n_writing) and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)

    def close(self) -> None:
        """Write what is queued, for at most CLOSE_SECONDS; later queries are dropped."""
        with self._changed:
            self._is_closed = True
        self.flush()

    def _start(self) -> None:
        if self._thread is None or self._pid != os.getpid():
            self._pid = os.getpid()
            self._thread = threading.Thread(target=self._run, name="query log", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue:
                    if self._is_closed:
                        return
                    self._changed.wait()
                if not self._is_closed:
                    # Collects what comes soon. `close` and a full batch end it.
                    self._changed.wait_for(self._is_batch_ready, PAUSE_SECONDS)
                batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
                self._n_writing = len(batch)
                self._is_urgent = bool(self._is_urgent and self._queue)
            self._write(batch)
            with self._changed:
                self._n_writing = 0
                self._changed.notify_all()

    def _is_batch_ready(self) -> bool:
        return self._is_closed or self._is_urgent or len(self._queue) >= BATCH

    def _write(self, batch: list[_Entry]) -> None:
        try:
            written = [_row(entry, self._settings) for entry in batch]
            with self._database.write() as transaction:
                rows.insert(transaction, written)
        except ShoalError as error:
            log.warning("%d queries not logged: %s", len(batch), error)
            self.watch(0, len(batch))
        except Exception:
            # The thread has to go on for later queries.
            log.exception("%d queries not logged", len(batch))
            self.watch(0, len(batch))
        else:
            self.watch(len(batch), 0)


def _chunks(result: SearchResult | NoteHit | DocumentResult) -> Sequence[SearchResult]:
    """Return the chunks that a result shows."""
    if isinstance(result, DocumentResult):
        return result.passages
    return (result,) if isinstance(result, SearchResult) else ()


def _row(entry: _Entry, settings: Settings) -> rows.QueryRow:
    request = entry.request
    return rows.QueryRow(
        entry.trace_id,
        request.query,
        rows.normalized(request.query),
        compact_json(short_arguments(request, settings)),
        entry.n_results,
        entry.best_relevance,
        entry.took_ms,
        json.dumps(entry.results, separators=(",", ":")),
        entry.created_at,
    )


def short_arguments(request: SearchRequest, settings: Settings) -> dict[str, Any]:
    """Return the arguments of a search that differ from the defaults, long values cut."""
    usual = make_request("-", settings=settings)
    short: dict[str, Any] = {}
    for field in dataclasses.fields(request):
        value = getattr(request, field.name)
        if field.name == "query" or value == getattr(usual, field.name):
            continue
        if isinstance(value, SearchFilters):
            empty = SearchFilters()
            named = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
            value = {name: each for name, each in named.items() if each != getattr(empty, name)}
        elif field.name == "filter":
            value = text_of(value)
        short[field.name] = _short(value)
    return short


def _short(value: Any) -> Any:
    """Return a value, or the beginning of its text if it is long."""
    if isinstance(value, bool | int | float | None):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if len(text) > MAX_VALUE_CHARS:
        return text[: MAX_VALUE_CHARS - 1] + "…"
    return value if isinstance(value, str) else json.loads(text)
