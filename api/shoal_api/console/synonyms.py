"""The page of synonyms, and of the acronyms that wait for a decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.errors import SynonymConflictError, SynonymError
from shoal.models.synonyms import MAX_CHARS, MAX_GROUP
from shoal_api import service
from shoal_api.console import layout
from shoal_api.console.layout import blueprint, page, respond
from shoal_api.paths import ID

ENTRIES = 50
ACRONYMS = 20
"""Proposed acronyms that the page lists; those in most documents."""
SCAN_SECONDS = 5
"""Longest time for which a scan keeps a person waiting."""


@blueprint.get("/synonyms")
@page("q", "page")
def synonyms() -> tuple[str, Mapping[str, Any]]:
    """List the synonyms, and the acronyms that a person has not decided on."""
    return "synonyms.html", _values()


@blueprint.post("/synonyms")
@page()
def add_synonym_entry() -> Response:
    """Add the entry of the form."""
    form = flask.request.form
    words = [word for word in form.get("words", "").replace("\n", ",").split(",") if word.strip()]
    root = form.get("root", "").strip() or None
    return _done(lambda: service.current().engine.vocabulary.synonyms.add(words, root=root))


@blueprint.post(f"/synonyms/<{ID}:synonym_id>/delete")
@page()
def delete_synonym_entry(synonym_id: int) -> Response:
    """Delete an entry."""
    return _done(lambda: service.current().engine.vocabulary.synonyms.delete(synonym_id))


@blueprint.post("/synonyms/scan")
@page()
def scan_for_acronyms() -> Response:
    """Look for acronyms in documents that are new or changed."""
    acronyms = service.current().engine.vocabulary.acronyms
    return _done(lambda: acronyms.scan(max_seconds=SCAN_SECONDS))


@blueprint.post(f"/synonyms/acronyms/<{ID}:acronym_id>/<any(confirm, reject):decision>")
@page()
def decide_acronym(acronym_id: int, decision: str) -> Response:
    """Make an acronym and its expansion synonyms, or reject it."""
    acronyms = service.current().engine.vocabulary.acronyms
    decide = acronyms.confirm if decision == "confirm" else acronyms.reject
    return _done(lambda: decide(acronym_id))


def _values() -> dict[str, Any]:
    vocabulary = service.current().engine.vocabulary
    number, q = layout.page_number(), flask.request.args.get("q") or None
    return {
        "listed": vocabulary.synonyms.list(q=q, limit=ENTRIES, offset=(number - 1) * ENTRIES),
        "proposed": vocabulary.acronyms.list(limit=ACRONYMS),
        "q": q,
        "page": number,
        "per_page": ENTRIES,
        "max_chars": (MAX_GROUP + 1) * (MAX_CHARS + 1),
        "max_word": MAX_CHARS,
        "problem": None,
        "given": {},
    }


def _done(change: Callable[[], object]) -> Response:
    """Make a change and lead to the list; if it is not possible, say why, with what was sent."""
    try:
        change()
    except (SynonymError, SynonymConflictError) as error:
        values = {**_values(), "problem": str(error), "given": flask.request.form}
        return respond("synonyms.html", values, status=422 if isinstance(error, SynonymError) else 409)
    return flask.redirect(flask.url_for("console.synonyms"), 303)
