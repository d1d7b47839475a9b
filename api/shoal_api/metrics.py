"""Prometheus metrics: counts of requests, and numbers read from the database at each scrape.

Workers record their work in the database, so one scrape of the API covers all workers. Several processes of
the API keep their counts in files of one folder (PROMETHEUS_MULTIPROC_DIR), so a scrape of one covers all.
"""

from __future__ import annotations

import math
import os
import shutil
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
from shoal.engine import Engine
from shoal.errors import StorageError
from shoal.jobs.queue import counters
from shoal.jobs.queue.metrics import Work
from shoal.models import JobStatus

__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
"""Buckets from a cached search to the longest wait for a job."""
SEARCH_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.035, 0.06, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Buckets, dense where searches of a library of some ten thousand passages lie."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})

log = structlog.get_logger("shoal.api")


class Metrics:
    """The metrics of one application, with their own registry, so that tests can build several."""

    def __init__(self, engine: Engine) -> None:
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
        self._searches = Histogram(
            "shoal_search_seconds",
            "Time of a search, without HTTP",
            ("mode",),
            buckets=SEARCH_SECONDS,
            registry=own,
        )
        if is_shared:
            MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]
        else:
            ProcessCollector(registry=self._registry)
        self._registry.register(_DatabaseCollector(engine))

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. `route` is the URL pattern, because the number of URLs is unbounded."""
        method = method if method in METHODS else "(other)"
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def observe_search(self, mode: str, seconds: float) -> None:
        """Count a search."""
        self._searches.labels(mode).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in the text format. Without the database, only its metrics are missing."""
        return generate_latest(self._registry)


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
        except StorageError as error:
            log.warning("metrics without the database", reason=str(error))
            yield _gauge("shoal_database_up", "1 if the database can be read", 0)
            return
        yield _gauge("shoal_database_up", "1 if the database can be read", 1)
        yield from _library_metrics(status)
        yield _gauge(
            "shoal_disk_free_bytes",
            "Free space on the disk of the database",
            shutil.disk_usage(self._engine.settings.database_path.parent).free,
        )
        yield from _job_metrics(work, status["jobs"])
        yield from _stage_metrics(work.counted)


def _library_metrics(status: Mapping[str, object]) -> Iterator[Metric]:
    yield InfoMetricFamily(
        "shoal",
        "Versions of program, schema and data",
        value={
            "version": shoal.__version__,
            "schema": str(status["schema"]),
            "data": str(status["lagoon_version"]),
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
        (
            "shoal_stale_chunks",
            "n_stale_chunks",
            "Passages with words that changed since, or of other scorer data; a rescore updates them",
        ),
    ):
        value = status[field]
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
    yield _gauge("shoal_uploads_receiving", "Uploads in progress", work.receiving)
    yield _gauge("shoal_workers", "Workers with a recent heartbeat", work.workers)
    yield _gauge("shoal_worker_processes", "Processes of these workers", work.worker_processes)
    yield _counters("shoal_items", "Items that ended, by final status", "status", work.ended)
    yield CounterMetricFamily(
        "shoal_items_bytes", "Text of the items that ended, bytes of UTF-8", value=work.ended_bytes
    )
    removed = work.counted.get(counters.REMOVED_JOBS, {})
    open_jobs = (JobStatus.enqueued, JobStatus.processing)
    ended = {
        status.value: jobs.get(status, 0) + removed.get(status, 0)
        for status in JobStatus
        if status not in open_jobs
    }
    yield _counters("shoal_jobs_ended", "Jobs that ended, by final status", "status", ended)
    lost = sum(work.counted.get(counters.LEASES_LOST, {}).values())
    yield CounterMetricFamily("shoal_leases_lost", "Claims reclaimed after their lease expired", value=lost)


def _stage_metrics(counted: Mapping[str, Mapping[str, float]]) -> Iterator[Metric]:
    """Metrics of the batches of workers. The table counts per bucket; Prometheus needs cumulative counts."""
    stages: dict[str, dict[str, float]] = {}
    for label, n in counted.get(counters.STAGE_BATCHES, {}).items():
        stage, _, bound = label.partition(" ")
        stages.setdefault(stage, {})[bound] = n
    batches = HistogramMetricFamily(
        "shoal_batch_seconds", "Time of a worker for one batch, by stage", labels=["stage"]
    )
    for stage, by_bound in sorted(stages.items()):
        buckets, cumulative = [], 0.0
        for limit in (*counters.SECONDS, math.inf):
            cumulative += by_bound.get(counters.bound_text(limit), 0)
            buckets.append(("+Inf" if math.isinf(limit) else str(limit), cumulative))
        seconds = counted.get(counters.STAGE_SECONDS, {}).get(stage, 0.0)
        batches.add_metric([stage], buckets=buckets, sum_value=seconds)
    yield batches
    for name, counter, meaning in (
        ("shoal_batch_items", counters.STAGE_ITEMS, "Items that workers processed, by stage"),
        ("shoal_batch_bytes", counters.STAGE_BYTES, "Text of these items, bytes of UTF-8"),
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
