"""The page of pins: what comes first for a query, and what is hidden from its results."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.errors import PinConflictError, PinError
from shoal.models.pins import MAX_CHARS, PinMatch
from shoal_api import service
from shoal_api.console import layout
from shoal_api.console.layout import blueprint, page, respond
from shoal_api.paths import ID

ENTRIES = 50
MAX_LIST = 500
"""Most characters of a list of documents; ten passages fit."""
_TARGET = re.compile(r"(?P<document>[0-9]{1,18})(?:#(?P<index>[0-9]{1,9}))?")


FORM = ("query", "contains", "pinned", "hidden")
"""Fields of the form, which the address may fill in."""


@blueprint.get("/pins")
@page("q", "page", *FORM)
def pins() -> tuple[str, Mapping[str, Any]]:
    """List the pins."""
    return "pins.html", _values(flask.request.args)


@blueprint.post("/pins")
@page()
def add_pin_entry() -> Response:
    """Add the pin of the form."""
    form = flask.request.form

    def add() -> None:
        service.current().engine.pins.add(
            form.get("query", ""),
            _targets("pinned", form.get("pinned", "")),
            hidden=_targets("hidden", form.get("hidden", "")),
            match=PinMatch.contains if form.get("contains") else PinMatch.exact,
        )

    return _done(add)


@blueprint.post(f"/pins/<{ID}:pin_id>/delete")
@page()
def delete_pin_entry(pin_id: int) -> Response:
    """Delete a pin."""
    return _done(lambda: service.current().engine.pins.delete(pin_id))


def _values(given: Mapping[str, str]) -> dict[str, Any]:
    number, q = layout.page_number(), flask.request.args.get("q") or None
    listed = service.current().engine.pins.list(q=q, limit=ENTRIES, offset=(number - 1) * ENTRIES)
    return {
        "listed": listed,
        "q": q,
        "page": number,
        "per_page": ENTRIES,
        "max_query": MAX_CHARS,
        "max_list": MAX_LIST,
        "problem": None,
        "given": given,
    }


def _targets(field: str, text: str) -> list[Mapping[str, int | None]]:
    """The documents and passages of a list such as `3, 7#2`. Raises PinError."""
    targets: list[Mapping[str, int | None]] = []
    for piece in filter(None, map(str.strip, text.replace("\n", ",").split(","))):
        named = _TARGET.fullmatch(piece)
        if named is None:
            message = f"{piece[:40]!r} is not a document such as 3, or a passage such as 3#0"
            raise PinError(field, message)
        document_id = int(named["document"])
        if named["index"] is None:
            targets.append({"document_id": document_id})
            continue
        chunk_id = service.current().engine.documents.chunk_id(document_id, int(named["index"]))
        if chunk_id is None:
            raise PinError(field, f"there is no passage {piece}")
        targets.append({"chunk_id": chunk_id})
    return targets


def _done(change: Callable[[], object]) -> Response:
    """Make a change and lead to the list; if it is not possible, say why, with what was sent."""
    try:
        change()
    except (PinError, PinConflictError) as error:
        values = {**_values(flask.request.form), "problem": str(error)}
        return respond("pins.html", values, status=422 if isinstance(error, PinError) else 409)
    return flask.redirect(flask.url_for("console.pins"), 303)
