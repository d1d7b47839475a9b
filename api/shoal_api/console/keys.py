"""The page of keys, for those who may manage them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.errors import InvalidFieldError
from shoal.models.keys import Right
from shoal_api import keys as resource
from shoal_api.console import query_params
from shoal_api.console.layout import blueprint, page, respond

KEYS = 50
DAY = 86_400.0


@blueprint.get("/keys")
@page("page")
def keys() -> tuple[str, Mapping[str, Any]]:
    """List keys, with a form for a new one."""
    return "keys.html", _values()


@blueprint.post("/keys")
@page()
def create_key() -> Response:
    """Create a key and show it this once; if it is not possible, say why, with what was sent."""
    form = flask.request.form
    try:
        created = resource.store().create(
            form.get("name", "").strip(),
            [_scope(part) for part in _parts(form.get("scopes", ""))],
            owners=_parts(form.get("owners", "")) or None,
            expires_at=_moment(form.get("days", "")),
            requests_per_second=_number("rate", form.get("rate", "")),
        )
    except InvalidFieldError as error:
        return respond("keys.html", _values() | {"problem": str(error), "given": form}, status=422)
    return respond("keys.html", _values() | {"created": created})


@blueprint.post("/keys/<string(minlength=1, maxlength=64):key_id>/<any(revoke, rotate):change>")
@page()
def change_key(key_id: str, change: str) -> Response:
    """Revoke a key, or replace it by another, which is shown this once."""
    if change == "revoke":
        resource.revoke(key_id)
        return flask.redirect(flask.url_for("console.keys"), 303)
    try:
        created = resource.rotate(key_id)
    except InvalidFieldError as error:
        return respond("keys.html", _values() | {"problem": str(error)}, status=422)
    return respond("keys.html", _values() | {"created": created})


def _values() -> dict[str, Any]:
    number = query_params.page_number()
    return {
        "listed": resource.store().page(KEYS, (number - 1) * KEYS),
        "page": number,
        "per_page": KEYS,
        "rights": ", ".join(Right),
        "problem": None,
        "created": None,
        "given": {},
    }


def _parts(text: str) -> list[str]:
    return [part for part in (piece.strip() for piece in text.split(",")) if part]


def _scope(text: str) -> tuple[str, str]:
    collection, _, right = text.rpartition(":")
    return collection.strip(), right.strip()


def _moment(days: str) -> float | None:
    number = _number("days", days)
    return None if number is None else time.time() + number * DAY


def _number(field: str, text: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        raise InvalidFieldError(field, "must be a number") from None
