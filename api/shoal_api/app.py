"""The application factory: builds a Flask application from settings and an engine."""

from __future__ import annotations

import flask
from flask.json.provider import DefaultJSONProvider
from werkzeug.middleware.proxy_fix import ProxyFix

from shoal.engine import Engine
from shoal.jobs.queue.progress import ProgressEstimator
from shoal.jobs.transport.broker import make_celery
from shoal.settings import Settings
from shoal_api import (
    access,
    bulk,
    bulk_notes,
    chunks,
    documents,
    hooks,
    job_actions,
    jobs,
    limits,
    note_merges,
    notes,
    openapi,
    pages,
    problems,
    retrieval,
    search,
    similarity,
    system,
    trace,
    vocabulary,
)
from shoal_api.console import pages as console
from shoal_api.events import Listeners
from shoal_api.memory import share_heaps
from shoal_api.metrics import Metrics
from shoal_api.service import EXTENSION, Service
from shoal_api.wait_limits import WaitLimiter


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
    # The default; routes for documents and uploads set a higher limit.
    app.config["MAX_CONTENT_LENGTH"] = limits.MAX_JSON_BYTES
    app.url_map.strict_slashes = False
    metrics = Metrics(engine)
    app.extensions[EXTENSION] = Service(
        settings=settings,
        engine=engine,
        celery=make_celery(settings),
        metrics=metrics,
        waiting=WaitLimiter(settings.api_threads, settings.max_wait_seconds),
        listeners=Listeners(settings),
        progress_estimator=ProgressEstimator(),
    )
    if settings.proxies:
        # Only the client address: the host and scheme that a proxy forwards may be forged by its client.
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=settings.proxies, x_proto=0, x_host=0)  # type: ignore[method-assign]
    trace.register(app, metrics)
    access.register(app, settings)
    limits.register(app, engine.jobs, settings)
    problems.register(app)
    api = openapi.Api(app)
    retrieval.register(app)
    resources = (documents, bulk, chunks, jobs, job_actions, search, similarity, notes, bulk_notes)
    for module in (*resources, note_merges, retrieval, hooks, vocabulary, system):
        api.register_blueprint(module.blueprint)
    pages.register(app, api)
    app.register_blueprint(console.blueprint)
    return app
