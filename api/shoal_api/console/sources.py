"""The pages of sources. With keys, they need one with the right `admin`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.errors import InvalidFieldError, QueryError
from shoal.models.sources import WhenGone
from shoal_api import service
from shoal_api.console import layout
from shoal_api.console.layout import blueprint, page, respond

SOURCES = 20
RUNS = 20
ERRORS = 50


@blueprint.get("/sources")
@page("page")
def sources() -> tuple[str, Mapping[str, Any]]:
    """List sources, with a form for a new one."""
    return "sources.html", _list_values()


@blueprint.post("/sources")
@page()
def add_source() -> Response:
    """Follow a place; if that is not possible, say why, with what was sent."""
    form = flask.request.form
    try:
        added = service.current().engine.sources.add(
            form.get("name", "").strip(),
            form.get("url", ""),
            every=form.get("every", "").strip() or None,
            include=form.get("include", "").split(),
            exclude=form.get("exclude", "").split(),
            when_gone=form.get("when_gone") or WhenGone.delete,
        )
    except (InvalidFieldError, QueryError) as error:
        message = error.message if isinstance(error, InvalidFieldError) else str(error)
        values = _list_values() | {"problem": f"{error.field}: {message}", "given": form}
        return respond("sources.html", values, status=422)
    return flask.redirect(flask.url_for("console.source", name=added.name), 303)


@blueprint.get("/sources/<name>")
@page("page")
def source(name: str) -> tuple[str, Mapping[str, Any]]:
    """Show a source, its runs, and the objects that are not stored."""
    number = layout.page_number()
    followed = service.current().engine.sources
    shown = followed.get(name)
    return "source.html", {
        "source": shown,
        "listed": followed.runs(name, limit=RUNS, offset=(number - 1) * RUNS),
        "failed": followed.objects(name, only_errors=True, limit=ERRORS) if shown.n_errors else None,
        "page": number,
        "per_page": RUNS,
    }


@blueprint.post("/sources/<name>/<any(run, stop, pause, resume, remove):change>")
@page()
def change_source(name: str, change: str) -> Response:
    """Run, stop, pause, resume or remove a source; its documents stay."""
    followed = service.current().engine.sources
    changes: dict[str, Callable[[], object]] = {
        "run": lambda: followed.start(name),
        "stop": lambda: followed.stop(name),
        "pause": lambda: followed.change(name, is_paused=True),
        "resume": lambda: followed.change(name, is_paused=False),
        "remove": lambda: followed.remove(name),
    }
    changes[change]()
    if change == "remove":
        return flask.redirect(flask.url_for("console.sources"), 303)
    return flask.redirect(flask.url_for("console.source", name=name), 303)


def _list_values() -> dict[str, Any]:
    number = layout.page_number()
    here = service.current()
    return {
        "listed": here.engine.sources.list(limit=SOURCES, offset=(number - 1) * SOURCES),
        "is_on": bool(here.settings.sources),
        "choices": list(WhenGone),
        "page": number,
        "per_page": SOURCES,
        "problem": None,
        "given": {},
    }
