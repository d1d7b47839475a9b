"""The page that shows a search in notes step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flask

from shoal_api.console.layout import blueprint, page
from shoal_api.console.notes import ENVIRONMENT, RESULTS, Filters, environment_given, kept
from shoal_api.notes import notes_of

FILTERS = ("owner", "q", *Filters._fields, *ENVIRONMENT)


@blueprint.get("/notes/explain")
@page(*FILTERS)
def note_search_steps() -> tuple[str, Mapping[str, Any]]:
    """Show what each step of a search contributed, and how it moved the best notes."""
    of_owner, args = notes_of(flask.request.args), flask.request.args
    environment = environment_given()
    query, tag = args.get("q", "").strip(), args.get("tag")
    steps = query and of_owner.search_steps(
        query,
        category=args.get("category") or None,
        kind=args.get("kind") or None,
        tags=[tag] if tag else None,
        environment=environment,
        top_k=RESULTS,
    )
    return "note_search_steps.html", {
        "owner": of_owner.owner,
        "query_params": args,
        "has_environment": environment is not None,
        "steps": steps or None,
    }


@blueprint.app_template_global()
def note_steps_address() -> str:
    """Return the URL of the steps of this search."""
    return flask.url_for("console.note_search_steps", **kept(*FILTERS))


@blueprint.app_template_global()
def note_search_address() -> str:
    """Return the URL of the results of this search."""
    return flask.url_for("console.notes", **kept(*FILTERS))


@blueprint.app_template_global()
def kept_filters() -> list[tuple[str, str]]:
    """Return the owner and the filters that the form of the steps keeps."""
    return list(kept("owner", *Filters._fields).items())
