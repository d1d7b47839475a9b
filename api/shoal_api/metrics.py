"""Prometheus metrics: counts of requests, and numbers read from the database at each scrape.

Workers record their work in the database, so one scrape of the API covers all workers. Several processes of
the API keep their counts in files of one folder (PROMETHEUS_MULTIPROC_DIR), so a scrape of one covers all.
"""

from __future__ import annotations

import math
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

import shoal
from shoal.access.authentication import OWNER_REFUSED, RATE_REFUSED, TOKEN_REFUSED, Refusal
from shoal.access.rights import Verdict
from shoal.collections.collections import Collections
from shoal.declared.search import SEARCH
from shoal.engine import Engine
from shoal.errors import NotFoundError, StorageError
from shoal.jobs.queue import metrics
from shoal.jobs.queue.metrics import Work
from shoal.models.jobs import JobStatus
from shoal.models.queries import NearWord, QueryInfo
from shoal.models.responses import Status
from shoal.models.scores import RerankInfo
from shoal.models.search import GroupBy
from shoal.search.synonyms import PREFIX, TYPO
from shoal.settings import Settings
from shoal.storage.index_records import Lag
from shoal.support.collection_names import MAIN

__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
"""Buckets from a cached search to the longest wait for a job."""
SEARCH_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.035, 0.06, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Buckets, dense where searches of a library of some ten thousand passages lie."""
BATCH_SEARCHES = (1, 2, 5, 10, 20, 50, 100)
"""Buckets up to the largest batch."""

LOGGED_OUTCOMES = ("written", "dropped")
OTHERS = "(other)"
"""Label of the collections above `SHOAL_COLLECTION_METRICS`."""

MAX_KEYS = 200
"""Most keys with a counter of their own."""

REFUSALS = (
    *Refusal,
    *(verdict.value for verdict in (Verdict.no_right, Verdict.no_collection)),
    RATE_REFUSED,
    OWNER_REFUSED,
    TOKEN_REFUSED,
)

FEATURES = tuple(name for name, argument in SEARCH.items() if argument.is_counted)
"""What searches may use besides their signals."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})

log = structlog.get_logger("shoal.api")


class Metrics:
    """The metrics of one application, with their own registry, so that tests can build several."""

    def __init__(self, engine: Engine, collections: Collections) -> None:
        self._registry = CollectorRegistry()
        is_shared = "PROMETHEUS_MULTIPROC_DIR" in os.environ
        own = None if is_shared else self._registry
        self._requests = Counter(
            "shoal_http_requests", "Requests answered", ("method", "route", "status"), registry=own
        )
        self._seconds = Histogram(
            "shoal_http_request_seconds",
            "Time to answer a request",
            ("method", "route"),
            buckets=SECONDS,
            registry=own,
        )
        self._collection_requests = Counter(
            "shoal_collection_requests",
            "Requests answered in collections besides main; above a number of names as (other)",
            ("collection", "status"),
            registry=own,
        )
        self._collection_seconds = Counter(
            "shoal_collection_request_seconds",
            "Time to answer these requests",
            ("collection",),
            registry=own,
        )
        self._names = CollectionNames(engine.settings.collection_metrics)
        self._searches = Histogram(
            "shoal_search_seconds",
            "Time of a search, without HTTP",
            ("mode",),
            buckets=SEARCH_SECONDS,
            registry=own,
        )
        self._reranks = Histogram(
            "shoal_rerank_seconds",
            "Time of reranking in a search; `outcome` is `reranked`, or why the blend stayed",
            ("outcome",),
            buckets=SEARCH_SECONDS,
            registry=own,
        )
        self._facets = Histogram(
            "shoal_facets_seconds",
            "Time to count facets of the library, without HTTP",
            buckets=SEARCH_SECONDS,
            registry=own,
        )
        self._near_words = Counter(
            "shoal_search_near_words",
            "Words of queries that stand nowhere and were searched for as another",
            ("kind",),
            registry=own,
        )
        for kind in (TYPO, PREFIX):
            self._near_words.labels(kind)
        self._features = Counter(
            "shoal_search_features",
            "Searches that used a feature: `synonyms` and `pins` that applied, or `sort`, `decay`, `boosts`, "
            "`group_by` and `fold_similar` of the request",
            ("feature",),
            registry=own,
        )
        for feature in FEATURES:
            self._features.labels(feature)
        self._logged = Counter(
            "shoal_query_log_queries",
            "Queries for the query log; dropped ones found the queue or the disk full",
            ("outcome",),
            registry=own,
        )
        for outcome in LOGGED_OUTCOMES:
            self._logged.labels(outcome)
        self._batches = Histogram(
            "shoal_search_batch_searches",
            "Searches in a batch",
            buckets=BATCH_SEARCHES,
            registry=own,
        )
        self._key_requests = Counter(
            "shoal_key_requests",
            f"Requests by key, as logs name it; `(other)` beyond {MAX_KEYS} keys of a process",
            ("key",),
            registry=own,
        )
        self._keys: set[str] = set()
        self._refused = Counter(
            "shoal_refused_requests", "Requests refused by key, right or rate", ("reason",), registry=own
        )
        for reason in REFUSALS:
            self._refused.labels(reason)
        if is_shared:
            MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]
        else:
            ProcessCollector(registry=self._registry)
        self._registry.register(_DatabaseCollector(engine))
        self._registry.register(_CollectionCollector(collections, self._names))

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. `route` is the URL pattern, because the number of URLs is unbounded."""
        method = method if method in METHODS else "(other)"
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def observe_key(self, name: str) -> None:
        """Count a request with a valid key."""
        if name not in self._keys:
            if len(self._keys) >= MAX_KEYS:
                name = "(other)"
            else:
                self._keys.add(name)
        self._key_requests.labels(name).inc()

    def observe_refused(self, reason: str) -> None:
        """Count a request that was refused by key, right or rate."""
        self._refused.labels(reason).inc()

    def observe_collection(self, name: str, status: int, seconds: float) -> None:
        """Count a request to an existing collection."""
        label = self._names.label(name)
        self._collection_requests.labels(label, str(status)).inc()
        self._collection_seconds.labels(label).inc(seconds)

    def observe_search(self, mode: str, seconds: float, near_words: Iterable[NearWord] = ()) -> None:
        """Count a search, and the typing errors and beginnings of words that it replaced."""
        self._searches.labels(mode).observe(seconds)
        for near in near_words:
            if near.replaces:
                self._near_words.labels(near.kind).inc()

    def observe_features(self, info: QueryInfo, arguments: Mapping[str, object]) -> None:
        """Count what a search used. `arguments`: those of the request."""
        applied = {"synonyms": info.synonyms, "pins": info.pins}
        asked = {name: arguments.get(name) for name in FEATURES if name not in applied}
        for feature, value in {**applied, **asked}.items():
            if value and value != GroupBy.chunk:
                self._features.labels(feature).inc()

    def observe_rerank(self, rerank: RerankInfo | None) -> None:
        """Count a reranking, or why the order of the blend stayed."""
        if rerank is not None:
            self._reranks.labels(rerank.fallback or "reranked").observe(rerank.ms / 1000)

    def observe_facets(self, seconds: float) -> None:
        """Count a request for facets of the library."""
        self._facets.observe(seconds)

    def observe_logged(self, written: int, dropped: int) -> None:
        """Count queries that were written to the query log, and those that were not."""
        for outcome, n in zip(LOGGED_OUTCOMES, (written, dropped), strict=True):
            if n:
                self._logged.labels(outcome).inc(n)

    def observe_batch(self, n_searches: int) -> None:
        """Count a batch of searches."""
        self._batches.observe(n_searches)

    def text(self) -> bytes:
        """Return all metrics in the text format. Without the database, only its metrics are missing."""
        return generate_latest(self._registry)


class CollectionNames:
    """The collections that metrics name: the first ones that were used. Safe to share between threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._names: set[str] = set()
        self._lock = threading.Lock()

    def label(self, name: str) -> str:
        """Return the name, or OTHERS above the limit."""
        with self._lock:
            if name not in self._names and len(self._names) < self._most:
                self._names.add(name)
            return name if name in self._names else OTHERS


class _CollectionCollector(Collector):
    """Numbers of the collections that this process has open, so that a scrape opens none."""

    def __init__(self, collections: Collections, names: CollectionNames) -> None:
        self._collections = collections
        self._names = names

    def describe(self) -> Iterable[Metric]:
        """Return nothing, as above."""
        return ()

    def collect(self) -> Iterator[Metric]:
        try:
            n_collections = self._collections.catalog.count()
            sizes = {name: size for name in self._open_names() if (size := self._size(name)) is not None}
            lags = self._lags()
        except StorageError as error:
            log.warning("metrics without collections", reason=str(error))
            return
        yield _gauge("shoal_collections", "Collections, with main", n_collections)
        yield _gauge(
            "shoal_open_collections",
            "Collections besides main that this process has open",
            len(self._collections.open_ids()),
        )
        for i, (name, meaning) in enumerate(
            (
                ("documents", "Documents stored in a collection that is open"),
                ("chunks", "Passages stored in a collection that is open"),
                ("waiting", "Items that wait for the workers in a collection that is open"),
            )
        ):
            values = {label: size[i] for label, size in sizes.items()}
            yield _gauges(f"shoal_collection_{name}", meaning, "collection", values)
        if lags:
            yield _gauges(
                "shoal_index_documents_behind",
                "Documents whose newest state is in no segment of this machine's index: of main and the "
                "collections that are open",
                "collection",
                {label: lag.n_documents for label, lag in lags.items()},
            )
            yield _gauges(
                "shoal_index_seconds_behind",
                "Seconds since the oldest change that is not in this machine's index; of (other), the most",
                "collection",
                {label: lag.seconds for label, lag in lags.items()},
            )

    def _lags(self) -> dict[str, Lag]:
        """How far the indexes of this machine are behind their libraries, by label; empty where the machine
        has none of its own. Raises StorageError."""
        of_main = self._collections.main.index_lag()
        lags = {} if of_main is None else {MAIN: of_main}
        for collection_id, lag in self._collections.index_lags().items():
            collection = self._collections.catalog.by_id(collection_id)
            if collection is not None:
                label = self._names.label(collection.name)
                before = lags.get(label, Lag(0, 0.0))
                lags[label] = Lag(before.n_documents + lag.n_documents, max(before.seconds, lag.seconds))
        return lags

    def _open_names(self) -> Iterator[str]:
        for collection_id in self._collections.open_ids():
            collection = self._collections.catalog.by_id(collection_id)
            if collection is not None and self._names.label(collection.name) != OTHERS:
                yield collection.name

    def _size(self, name: str) -> tuple[int, int, int] | None:
        """Return the numbers of documents, chunks and waiting items; None if it was deleted just now."""
        try:
            with self._collections.engine(name) as engine:
                return *engine.size(), engine.jobs.backlog().items
        except NotFoundError:
            return None


class _DatabaseCollector(Collector):
    """Metrics read from the database at each scrape."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def describe(self) -> Iterable[Metric]:
        """Return nothing; otherwise the registry would call `collect` on registration and read the
        database."""
        return ()

    def collect(self) -> Iterator[Metric]:
        try:
            status = self._engine.status()
            work = self._engine.jobs.work()
            saved_searches = dict(self._engine.saved_searches.counts())
            logged = self._engine.queries.counts()
            n_synonyms = self._engine.vocabulary.synonyms.list(limit=0).total
            n_pins = self._engine.pins.list(limit=0).total
        except StorageError as error:
            log.warning("metrics without the database", reason=str(error))
            yield _gauge("shoal_database_up", "1 if the database can be read", 0)
            return
        yield _gauge("shoal_database_up", "1 if the database can be read", 1)
        yield from _library_metrics(status)
        if (free := free_bytes(self._engine.settings)) is not None:
            yield _gauge(
                "shoal_disk_free_bytes",
                "Free space on the disk of the database; on PostgreSQL, of this machine's data folder",
                free,
            )
        yield from _job_metrics(work, status.jobs)
        yield from _stage_metrics(work.counted)
        yield _gauge("shoal_saved_searches", "Saved searches that are active", saved_searches.pop("active"))
        yield _gauges(
            "shoal_webhook_deliveries",
            "Webhooks of saved searches by status; ended ones are removed after some time",
            "status",
            saved_searches,
        )
        yield _gauge("shoal_synonyms", "Entries of synonyms", n_synonyms)
        yield _gauge("shoal_pins", "Pins", n_pins)
        yield _gauge("shoal_logged_queries", "Queries in the query log", logged["queries"])
        yield _gauge("shoal_logged_queries_empty", "Of them, queries without results", logged["empty"])


def free_bytes(settings: Settings) -> int | None:
    """Free space where this machine stores; None if the folder cannot be read."""
    folder = settings.database_path.parent if settings.is_sqlite else settings.data_path
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        return shutil.disk_usage(folder).free
    except OSError as error:
        log.warning("metrics without free space", reason=error.strerror)
        return None


def _library_metrics(status: Status) -> Iterator[Metric]:
    yield InfoMetricFamily(
        "shoal",
        "Versions of program, schema and data",
        value={
            "version": shoal.__version__,
            "schema": str(status.schema),
            "data": str(status.lagoon_version),
        },
    )
    for name, field, meaning in (
        ("shoal_documents", "n_documents", "Documents stored"),
        ("shoal_chunks", "n_chunks", "Passages stored"),
        ("shoal_content_bytes", "content_bytes", "Text stored, bytes of UTF-8"),
        ("shoal_database_bytes", "db_bytes", "Size of the database on disk, with its log"),
        ("shoal_index_bytes", "index_bytes", "Size of the files of the search index"),
        ("shoal_vocabulary_version", "vocabulary_version", "Version of the vocabulary"),
        ("shoal_custom_words", "n_custom_words", "Learned words in the vocabulary"),
        ("shoal_embedded_chunks", "n_embedded_chunks", "Passages that have a vector"),
        (
            "shoal_chunks_to_embed",
            "n_chunks_to_embed",
            "Passages that lack a vector; 0 if the library is not embedded",
        ),
        (
            "shoal_stale_chunks",
            "n_stale_chunks",
            "Passages with words that changed since, or of other scorer data; a rescore updates them",
        ),
    ):
        value = getattr(status, field)
        assert isinstance(value, int), "counts are whole numbers"
        yield _gauge(name, meaning, value)


def _job_metrics(work: Work, jobs: Mapping[str, int]) -> Iterator[Metric]:
    yield _gauges("shoal_jobs", "Jobs by status; ended jobs are removed after some time", "status", jobs)
    yield _gauges("shoal_items_waiting", "Items accepted and not ended, by status", "status", work.waiting)
    yield _gauges(
        "shoal_items_waiting_bytes", "Text of these items, bytes of UTF-8", "status", work.waiting_bytes
    )
    yield _gauge(
        "shoal_oldest_job_seconds",
        "Age of the oldest job that has not ended; 0 if there is none",
        work.oldest_seconds,
    )
    yield _gauge(
        "shoal_queue_age_seconds",
        "Age of the oldest job that no worker has begun; 0 if there is none",
        work.queue_seconds,
    )
    yield _gauge("shoal_uploads_receiving", "Uploads in progress", work.receiving)
    yield _gauge("shoal_workers", "Workers with a recent heartbeat", work.workers)
    yield _gauge("shoal_worker_processes", "Processes of these workers", work.worker_processes)
    yield _counters("shoal_items", "Items that ended, by final status", "status", work.ended)
    yield CounterMetricFamily(
        "shoal_items_bytes", "Text of the items that ended, bytes of UTF-8", value=work.ended_bytes
    )
    removed = work.counted.get(metrics.REMOVED_JOBS, {})
    open_jobs = (JobStatus.enqueued, JobStatus.processing)
    ended = {
        status.value: jobs.get(status, 0) + removed.get(status, 0)
        for status in JobStatus
        if status not in open_jobs
    }
    yield _counters("shoal_jobs_ended", "Jobs that ended, by final status", "status", ended)
    lost = sum(work.counted.get(metrics.LEASES_LOST, {}).values())
    yield CounterMetricFamily("shoal_leases_lost", "Claims reclaimed after their lease expired", value=lost)


def _stage_metrics(counted: Mapping[str, Mapping[str, float]]) -> Iterator[Metric]:
    """Metrics of the batches of workers. The table counts per bucket; Prometheus needs cumulative counts."""
    stages: dict[str, dict[str, float]] = {}
    for label, n in counted.get(metrics.STAGE_BATCHES, {}).items():
        stage, _, bound = label.partition(" ")
        stages.setdefault(stage, {})[bound] = n
    batches = HistogramMetricFamily(
        "shoal_batch_seconds", "Time of a worker for one batch, by stage", labels=["stage"]
    )
    for stage, by_bound in sorted(stages.items()):
        buckets, cumulative = [], 0.0
        for limit in (*metrics.SECONDS, math.inf):
            cumulative += by_bound.get(metrics.bound_text(limit), 0)
            buckets.append(("+Inf" if math.isinf(limit) else str(limit), cumulative))
        seconds = counted.get(metrics.STAGE_SECONDS, {}).get(stage, 0.0)
        batches.add_metric([stage], buckets=buckets, sum_value=seconds)
    yield batches
    for name, counter, meaning in (
        ("shoal_batch_items", metrics.STAGE_ITEMS, "Items that workers processed, by stage"),
        ("shoal_batch_bytes", metrics.STAGE_BYTES, "Text of these items, bytes of UTF-8"),
    ):
        yield _counters(name, meaning, "stage", counted.get(counter, {}))


def _gauge(name: str, meaning: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, meaning, value=value)


def _gauges(name: str, meaning: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, meaning, labels=[label])
    for key, value in values.items():
        family.add_metric([str(key)], value)
    return family


def _counters(name: str, meaning: str, label: str, values: Mapping[str, float]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, meaning, labels=[label])
    for key, value in values.items():
        family.add_metric([str(key)], value)
    return family
