"""The pages of saved searches and of the query log. With keys, both need one with the right `admin`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.errors import QueryError
from shoal.models.saved_searches import DeliveryStatus
from shoal_api import service
from shoal_api.console import layout
from shoal_api.console.layout import blueprint, page, respond
from shoal_api.paths import ID

SEARCHES = 20
DELIVERIES = 20
QUERIES = 50
FREQUENT = 20
"""Frequent queries that never had a result."""


@blueprint.get("/saved-searches")
@page("page")
def saved_searches() -> tuple[str, Mapping[str, Any]]:
    """List saved searches, with a form for a new one."""
    return "saved_searches.html", _list_values()


@blueprint.post("/saved-searches")
@page()
def create_saved_search() -> Response:
    """Save a search, and show its secret this once; if it is not possible, say why, with what was sent."""
    form = flask.request.form
    search = {
        "query": form.get("query", ""),
        "filter": form.get("filter", "").strip() or None,
        "min_relevance": _number(form.get("min_relevance", "")),
    }
    given = {name: value for name, value in search.items() if value is not None}
    try:
        created = service.current().engine.saved_searches.create(
            form.get("name", ""), given, url=form.get("url", ""), secret=form.get("secret") or None
        )
    except QueryError as error:
        values = _list_values() | {"problem": f"{error.field}: {error}", "given": form}
        return respond("saved_searches.html", values, status=422)
    return respond("saved_searches.html", _list_values() | {"created": created})


@blueprint.get(f"/saved-searches/<{ID}:search_id>")
@page("page", "status")
def saved_search(search_id: int) -> tuple[str, Mapping[str, Any]]:
    """Show a saved search and its webhooks."""
    number = layout.page_number()
    status = layout.choice("status", DeliveryStatus, "status of a webhook")
    searches = service.current().engine.saved_searches
    listed = searches.deliveries(search_id, status=status, limit=DELIVERIES, offset=(number - 1) * DELIVERIES)
    return "saved_search.html", {
        "search": searches.get(search_id),
        "listed": listed,
        "status": status,
        "statuses": list(DeliveryStatus),
        "page": number,
        "per_page": DELIVERIES,
    }


@blueprint.post(f"/saved-searches/<{ID}:search_id>/<any(test, pause, resume, delete):change>")
@page()
def change_saved_search(search_id: int, change: str) -> Response:
    """Test, pause, resume or delete a saved search."""
    searches = service.current().engine.saved_searches
    changes: dict[str, Callable[[], object]] = {
        "test": lambda: searches.test(search_id),
        "pause": lambda: searches.change(search_id, is_active=False),
        "resume": lambda: searches.change(search_id, is_active=True),
        "delete": lambda: searches.delete(search_id),
    }
    changes[change]()
    if change == "delete":
        return flask.redirect(flask.url_for("console.saved_searches"), 303)
    return flask.redirect(flask.url_for("console.saved_search", search_id=search_id), 303)


@blueprint.post(f"/saved-searches/<{ID}:search_id>/redeliver/<string(minlength=1, maxlength=64):delivery_id>")
@page()
def redeliver(search_id: int, delivery_id: str) -> Response:
    """Send a webhook again."""
    service.current().engine.saved_searches.redeliver(search_id, delivery_id)
    return flask.redirect(flask.url_for("console.saved_search", search_id=search_id), 303)


@blueprint.get("/queries")
@page("page", "empty")
def queries() -> tuple[str, Mapping[str, Any]]:
    """List logged queries, and those that never had a result."""
    number = layout.page_number()
    only_empty = layout.whole("empty", 0) == 1
    log = service.current().engine.queries
    return "queries.html", {
        "is_on": log.recorder is not None,
        "listed": log.list(only_empty=only_empty, limit=QUERIES, offset=(number - 1) * QUERIES),
        "only_empty": only_empty,
        "unanswered": log.frequent(only_empty=True, limit=FREQUENT).queries,
        "frequent": log.frequent(limit=FREQUENT).queries,
        "page": number,
        "per_page": QUERIES,
    }


def _list_values() -> dict[str, Any]:
    number = layout.page_number()
    here = service.current()
    return {
        "listed": here.engine.saved_searches.list(limit=SEARCHES, offset=(number - 1) * SEARCHES),
        "is_on": bool(here.settings.webhook_hosts),
        "page": number,
        "per_page": SEARCHES,
        "problem": None,
        "created": None,
        "given": {},
    }


def _number(text: str) -> float | str | None:
    """Return a number; a text that is none, for the library to refuse."""
    try:
        return float(text) if text.strip() else None
    except ValueError:
        return text
