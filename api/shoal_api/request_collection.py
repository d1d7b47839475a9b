"""Binds the collection of a request: its engine is that of `service.current()` until the response is sent.

A request holds a lease, so its library stays open and its files stay on the disk even if the collection is
deleted meanwhile. A response of a deleted collection becomes a 404: what was stored in it is gone, too.
"""

from __future__ import annotations

import dataclasses
from urllib.parse import quote

import flask
import structlog
from werkzeug.wrappers import Response

from shoal.access.operations import needed_by_rule
from shoal.access.rights import ELSEWHERE
from shoal.collections.catalog import Collection
from shoal.errors import CollectionNotFoundError, StorageError
from shoal.models.keys import Needed
from shoal.support.collection_names import MAIN, shown
from shoal_api import access, service
from shoal_api.paths import COLLECTION
from shoal_api.service import EXTENSION, Service

log = structlog.get_logger("shoal.api")


def register(app: flask.Flask) -> None:
    """Bind the collection of each request. Call after the keys are checked: a key must not learn names."""

    @app.before_request
    def bind() -> None:
        request = flask.request
        name = request.environ.get(COLLECTION)
        if name is None or name == MAIN or access.is_public(request) or access.shows_frame_only():
            return
        _bind(name)

    @app.after_request
    def check(response: Response) -> Response:
        here: Service | None = flask.g.get("bound")
        if here is None or 400 <= response.status_code < 500:
            return response
        if here.is_deleted():
            gone = CollectionNotFoundError(
                f"the collection {shown(here.collection.name)} was deleted while the request ran"
            )
            return app.make_response(app.handle_user_exception(gone))
        if response.status_code >= 400:
            return response
        if is_change(flask.request) and "is_marked" not in flask.g:
            mark(here)
        if response.is_streamed:
            # Runs after the context of the request has ended.
            response.call_on_close(flask.g.pop("release"))
        return response

    @app.teardown_request
    def release(_error: BaseException | None) -> None:
        if "release" in flask.g:
            flask.g.pop("release")()


def enter(name: str) -> Service:
    """Let the current request into the collection that it names in its body; return what is bound to it.

    Raises the problems of `Gate.admit`, and CollectionNotFoundError.
    """
    flask.g.collection_id = access.gate().admit(access.current(), _needed(), name)
    if name != MAIN:
        _bind(name)
    return service.current()


def enter_by_id(collection_id: str, detail: str) -> Service:
    """Do the same for the collection that its path names by an id. `detail`: that of the 404."""
    access.gate().judge(access.current(), _needed(), collection_id, detail)
    whole: Service = flask.current_app.extensions[EXTENSION]
    collection = whole.collections.catalog.by_id(collection_id)
    if collection is None:
        raise CollectionNotFoundError(detail)
    bind(collection)
    return service.current()


def bind(collection: Collection) -> None:
    """Bind a collection that the current request is let into, or has created."""
    flask.g.collection_id = collection.id
    if collection.id != MAIN:
        _bind(collection.name)


def _needed() -> Needed:
    request = flask.request
    return needed_by_rule(request.method, request.url_rule.rule if request.url_rule else None)


def _bind(name: str) -> None:
    whole: Service = flask.current_app.extensions[EXTENSION]
    structlog.contextvars.bind_contextvars(collection=quote(name[:80]))
    collection = _collection(whole, name)
    lease = whole.collections.lease(collection)
    flask.g.release = lease.release
    viewer = access.viewer()
    library = lease.value if viewer is None else lease.value.seen_by(viewer)
    flask.g.bound = dataclasses.replace(whole, engine=library, collection=collection)


def _collection(whole: Service, name: str) -> Collection:
    """Return the collection of the request: the one whose id the key was judged by, whatever its name is now.

    Raises CollectionNotFoundError.
    """
    judged = access.collection_id()
    if judged == ELSEWHERE:
        return whole.collections.catalog.find(name)
    found = whole.collections.catalog.by_id(judged)
    if found is None:
        raise CollectionNotFoundError(f"there is no collection {shown(name)}")
    return found


def is_change(request: flask.Request) -> bool:
    """Whether a request may have stored something."""
    rule = request.url_rule.rule if request.url_rule else None
    is_read = needed_by_rule(request.method, rule) is Needed.read
    return request.method not in access.READING and not is_read


def mark(here: Service) -> None:
    """Note for the workers that the collection may have work. If this fails, a worker's sweep finds it."""
    try:
        here.collections.catalog.mark_work(here.collection.id)
    except StorageError as error:
        log.warning("collection not marked; a worker looks at it later", reason=str(error))


def base() -> str:
    """Return the prefix of pages of the collection of this request; empty for `main`."""
    return flask.request.environ.get("SCRIPT_NAME", "") if service.collection_name() != MAIN else ""
