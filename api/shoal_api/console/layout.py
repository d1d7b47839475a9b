"""Layout of the console's pages: frame, headers, access, and query parameters.

The first page is rendered whole. Its scripts then fetch only the main part of the next page (`Shoal-Part:
main`), with the key that the user entered. If the service has keys, a request without one gets only the
frame, which asks for a key. Invalid parameters raise a QueryError that names the parameter.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlencode

import flask
from werkzeug.wrappers import Response

from shoal import __version__
from shoal.access.rights import SERVICE
from shoal.errors import EncoderError, NoteError, NotFoundError, QueryError
from shoal.support.collection_names import MAIN
from shoal_api import access, request_collection, service
from shoal_api.problems import for_error
from shoal_api.schemas.common import parameter_hint

MAX_PAGES = 1_000_000
"""Far beyond the last page of any list; a search has a lower limit."""
LIST_SEPARATOR = ","
MAX_VALUES = 100
"""Most values of a parameter. The page shows a link for each, to remove it."""
MAX_DIGITS = 18
"""Most digits of an integer; SQLite's largest has 19."""
SHOWN_CHARS = 40
"""Most characters of an invalid value in a message."""

Choice = TypeVar("Choice", bound=enum.StrEnum)


def check_known(names: Sequence[str]) -> None:
    """Raise a QueryError for a query parameter with another name, which the page would ignore."""
    for name in flask.request.args:
        if name not in names:
            raise QueryError(name[:SHOWN_CHARS], parameter_hint(name, names))


def page_number() -> int:
    """Return the number of the page of a list, from 1."""
    number = whole("page", 1)
    if not 1 <= number <= MAX_PAGES:
        raise QueryError("page", f"must be between 1 and {MAX_PAGES:,}")
    return number


def whole(name: str, default: int) -> int:
    """Return a non-negative integer."""
    given = flask.request.args.get(name)
    return _whole(name, given) if given else default


def wholes(name: str) -> list[int]:
    """Return comma-separated integers."""
    return [_whole(name, text) for text in texts(name)]


def texts(name: str) -> list[str]:
    """Return comma-separated texts without duplicates."""
    given = flask.request.args.get(name, "").split(LIST_SEPARATOR)
    if len(given) > MAX_VALUES:
        raise QueryError(name, f"has more than {MAX_VALUES} values, which is the limit")
    return list(dict.fromkeys(text.strip() for text in given if text.strip()))


def number(name: str) -> float | None:
    """Return a number, None if absent."""
    given = flask.request.args.get(name)
    if not given:
        return None
    try:
        return float(given)
    except ValueError:
        raise QueryError(name, "must be a number") from None


def choice(name: str, choices: type[Choice], what: str) -> Choice | None:
    """Return a member of an enumeration, None if absent; `what` names the enumeration in the message."""
    given = flask.request.args.get(name)
    if not given:
        return None
    try:
        return choices(given)
    except ValueError:
        raise QueryError(name, f"{given[:SHOWN_CHARS]!r} is not a {what}") from None


def _whole(name: str, given: str) -> int:
    if not given.isascii() or not given.isdigit() or len(given) > MAX_DIGITS:
        raise QueryError(name, "must be a whole number")
    return int(given)


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PART = "Shoal-Part"
"""The header by which the console's scripts ask for the main part of a page."""

PLAIN_IN_QUERY = "!$'()*,/:;?@"
"""Characters that stand for themselves among the arguments of an address (RFC 3986), where nothing is split
at them."""

PAGES = (
    ("console.search", "Search"),
    ("console.library", "Library"),
    ("console.verification", "Verify"),
    ("console.notes", "Notes"),
    ("console.jobs", "Jobs"),
    ("console.reefs", "Reefs"),
    ("console.vocabulary", "Vocabulary"),
    ("console.saved_searches", "Saved"),
)

blueprint = flask.Blueprint("console", __name__)

BELONGS_TO = {
    "console.document": "console.library",
    "console.sources": "console.library",
    "console.source": "console.library",
    "console.add_source": "console.library",
    "console.change_source": "console.library",
    "console.note": "console.notes",
    "console.change_note": "console.notes",
    "console.new_note": "console.notes",
    "console.add_note": "console.notes",
    "console.note_search_steps": "console.notes",
    "console.note_proposals": "console.notes",
    "console.decide_proposal": "console.notes",
    "console.undo_merge": "console.notes",
    "console.verify_text": "console.verification",
    "console.job": "console.jobs",
    "console.status": "console.jobs",
    "console.reef": "console.reefs",
    "console.word": "console.vocabulary",
    "console.saved_search": "console.saved_searches",
    "console.create_saved_search": "console.saved_searches",
    "console.change_saved_search": "console.saved_searches",
    "console.redeliver": "console.saved_searches",
    "console.queries": "console.saved_searches",
    "console.synonyms": "console.vocabulary",
    "console.add_synonym_entry": "console.vocabulary",
    "console.delete_synonym_entry": "console.vocabulary",
    "console.decide_acronym": "console.vocabulary",
    "console.pins": "console.vocabulary",
    "console.add_pin_entry": "console.vocabulary",
    "console.delete_pin_entry": "console.vocabulary",
}
"""The entry of PAGES under which a page is shown."""

Arguments = ParamSpec("Arguments")
View = Callable[Arguments, tuple[str, Mapping[str, Any]] | Response]
"""Returns the name of a template and its variables, or a response of its own."""


def page(*parameters: str) -> Callable[[View[Arguments]], Callable[Arguments, Response]]:
    """A view that draws a page, or the main part of one, or the frame alone for who may not read.

    `parameters` are the query parameters of the page; others are refused.
    """

    def decorate(view: View[Arguments]) -> Callable[Arguments, Response]:
        @functools.wraps(view)
        def draw(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Response:
            if access.shows_frame_only():
                return respond("locked.html", {})
            try:
                check_known(parameters)
                drawn = view(*args, **kwargs)
            except NotFoundError as error:
                return respond("missing.html", {"message": str(error)}, status=404)
            except QueryError as error:
                return respond("refused.html", {"message": f"{error.field}: {error}"}, status=422)
            except NoteError as error:
                return respond("refused.html", {"message": str(error)}, status=422)
            except EncoderError as error:
                problem = for_error(error)
                drawn = respond("refused.html", {"message": problem.detail}, status=problem.status)
            return drawn if isinstance(drawn, Response) else respond(*drawn)

        return draw

    return decorate


def respond(template: str, shown: Mapping[str, Any], *, status: int = 200) -> Response:
    """Draw a template of the console, as a page or as the main part of one."""
    layout = "console/part.html" if PART in flask.request.headers else "console/frame.html"
    endpoint = flask.request.endpoint or ""
    current = BELONGS_TO.get(endpoint, endpoint)
    text = flask.render_template(
        f"console/{template}",
        layout=layout,
        pages=PAGES,
        current=current,
        version=__version__,
        base=request_collection.base(),
        collection=_collection(),
        has_keys=access.gate().authenticator.needs_key(),
        http_status=status,
        **shown,
    )
    response = Response(text, status=status, content_type="text/html; charset=utf-8")
    response.headers["Content-Security-Policy"] = POLICY
    # With `no-referrer`, browsers send forms with `Origin: null`, like those of other sites (Fetch, 3.2).
    response.headers["Referrer-Policy"] = "same-origin"
    response.headers["Vary"] = f"{PART}, Authorization"
    return response


def _collection() -> str | None:
    """Return the name of the collection for the frame; None where it is the only one."""
    name = service.collection_name()
    if name != MAIN or access.shows_frame_only():
        return None if name == MAIN else name
    caller, catalog = access.current(), service.current().collections.catalog
    if caller.right_in(SERVICE) is None:
        # Whether there are others is not for this key.
        return MAIN if len(caller.own_collections()) > 1 else None
    return MAIN if catalog.existing_database() is not None and catalog.count() > 1 else None


@blueprint.app_template_global()
def turn(number: int) -> str:
    """Return the URL of another page of this list."""
    return here(page=number)


@blueprint.app_template_global()
def here(**changed: Any) -> str:
    """The address of this page with other arguments; None takes one away, and a list repeats one. It begins
    at the first page of a list."""
    arguments: dict[str, Any] = {name: given for name, given in flask.request.args.lists() if name != "page"}
    arguments |= changed
    # Not through `url_for`, which takes `_external`, `_scheme` and others for its own.
    query = urlencode(
        {name: value for name, value in arguments.items() if value is not None},
        doseq=True,
        safe=PLAIN_IN_QUERY,
    )
    assert flask.request.endpoint is not None, "a template is drawn for a page"
    path = flask.url_for(flask.request.endpoint, **(flask.request.view_args or {}))
    return f"{path}?{query}" if query else path
