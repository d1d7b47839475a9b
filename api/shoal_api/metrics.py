"""Numbers for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
"""From a cached search to the longest wait for a job."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})


class Metrics:
    """The metrics of one application; a registry of their own lets tests make many."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "shoal_http_requests", "Requests answered", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "shoal_http_request_seconds",
            "Time to answer a request",
            ("method", "route"),
            buckets=SECONDS,
            registry=self._registry,
        )
        self._documents = Gauge("shoal_documents", "Documents stored", registry=self._registry)
        self._chunks = Gauge("shoal_chunks", "Chunks stored", registry=self._registry)
        self._jobs = Gauge("shoal_jobs", "Jobs by status", ("status",), registry=self._registry)

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. `route` is the pattern, not the address: addresses are without number."""
        method = method if method in METHODS else "(other)"
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def text(self, *, documents: int, chunks: int, jobs: dict[str, int]) -> bytes:
        """All metrics in the text format, with the given state of the library."""
        self._documents.set(documents)
        self._chunks.set(chunks)
        self._jobs.clear()
        for status, count in jobs.items():
            self._jobs.labels(status).set(count)
        return generate_latest(self._registry)
