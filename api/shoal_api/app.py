"""The application factory: builds a Flask application from settings and an engine."""

from __future__ import annotations

import ctypes

import flask
from flask.json.provider import DefaultJSONProvider
from werkzeug.middleware.proxy_fix import ProxyFix

from shoal.collections.collections import Collections
from shoal.engine import Engine
from shoal.jobs.jobs import Jobs
from shoal.jobs.queue.progress import ProgressEstimator
from shoal.jobs.transport.broker import make_celery
from shoal.settings import Settings
from shoal_api import (
    access,
    agents,
    documents,
    drop_in,
    installation,
    jobs,
    library,
    limits,
    notes,
    openapi,
    pages,
    problems,
    request_collection,
    search,
    service,
    trace,
)
from shoal_api.console import pages as console
from shoal_api.drop_in import forms
from shoal_api.events import Listeners
from shoal_api.metrics import Metrics
from shoal_api.paths import CollectionPrefix
from shoal_api.service import EXTENSION, Service, WaitLimiter

HEAPS = 2
"""With eight threads that search 90,000 chunks, the process grows by 118 MB with a heap per thread and by 39
MB with two heaps. Small blocks come from per-thread caches, so threads rarely wait for a heap. A low
`M_MMAP_THRESHOLD`, which returns large blocks at once, would cost a search up to 25 ms, because the system
zeroes the pages each time."""

_M_ARENA_MAX = -8  # from malloc.h


def share_heaps() -> None:
    """Let the threads of this process share HEAPS heaps, if its allocator is that of glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, HEAPS)


class ReadableJSON(DefaultJSONProvider):
    """JSON with unescaped non-ASCII characters and members in insertion order."""

    ensure_ascii = False
    sort_keys = False
    compact = True


def create_app(settings: Settings | None = None, *, engine: Engine | None = None) -> flask.Flask:
    """Build the application.

    `settings` default to those of the environment; `engine` is for tests and for callers that already have
    one. The engine opens the database at once, migrates it if necessary, and is shared by all threads. An
    application therefore belongs to the process that built it: call this after a fork. Raises SettingsError,
    StorageError.
    """
    share_heaps()
    settings = settings or (engine.settings if engine else Settings.from_environment())
    engine = engine or Engine(settings=settings)
    engine.limit_reads(settings.search_timeout)
    app = flask.Flask("shoal_api", static_url_path="/static")
    app.json = ReadableJSON(app)
    app.config.update(openapi.configuration())
    app.url_map.strict_slashes = False
    open_collections = Collections(settings, main=engine)
    metrics = Metrics(engine, open_collections)
    if engine.queries.recorder is not None:
        engine.queries.recorder.watch = metrics.observe_logged
    app.extensions[EXTENSION] = Service(
        settings=settings,
        engine=engine,
        celery=make_celery(settings),
        metrics=metrics,
        waiting=WaitLimiter(settings.api_threads, settings.max_wait_seconds),
        listeners=Listeners(settings),
        progress_estimator=ProgressEstimator(),
        collections=open_collections,
    )
    gate = access.Gate.of(settings, open_collections.catalog)
    gate.on_used, gate.on_refused = metrics.observe_key, metrics.observe_refused
    if settings.proxies:
        # Only the client address: the host and scheme that a proxy forwards may be forged by its client.
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=settings.proxies, x_proto=0, x_host=0)  # type: ignore[method-assign]
    # Innermost, so that the paths of the log and of the metrics have no prefix.
    app.wsgi_app = CollectionPrefix(app.wsgi_app)  # type: ignore[method-assign]
    trace.register(app, metrics)
    forms.register(app, settings)
    access.register(app, settings, gate)
    request_collection.register(app)
    limits.register(app, _jobs_of_request, settings)
    problems.register(app)
    service.register(app)
    api = openapi.Api(app)
    agents.register(app)
    for blueprint in (
        *(
            documents.blueprint,
            documents.uploads,
            documents.chunks,
            documents.rights,
            jobs.blueprint,
            jobs.actions,
        ),
        *(search.blueprint, search.batches, search.facets_blueprint, search.similarity),
        *(notes.blueprint, notes.bulk, installation.collections, notes.merges, agents.blueprint),
        *(library.saved_searches, library.queries, library.synonyms, library.pins, agents.hooks_blueprint),
        *(library.vocabulary, library.sources, installation.keys, installation.system),
    ):
        api.register_blueprint(blueprint)
    drop_in.register(app, settings)
    pages.register(app, api)
    app.register_blueprint(console.blueprint)
    return app


def _jobs_of_request() -> tuple[Jobs, str]:
    here = service.current()
    return here.engine.jobs, here.collection.id
