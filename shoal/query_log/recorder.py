"""Writes queries to the log from a thread of its own, in batches: no search waits for the database.

What does not fit in the queue, or cannot be stored, is dropped and counted.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from shoal.declared.filters import SearchFilters
from shoal.errors import ShoalError
from shoal.filters.tree import text_of
from shoal.models.notes import NoteHit, UnitResponse
from shoal.models.search import DocumentResult, SearchResponse, SearchResult
from shoal.search.request import SearchRequest, make_request
from shoal.settings import Settings
from shoal.storage import query_log as rows
from shoal.storage.database import Database
from shoal.storage.json_text import compact_json
from shoal.support.clock import timestamp

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

log = logging.getLogger(__name__)


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
