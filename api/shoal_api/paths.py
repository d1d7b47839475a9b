"""URL paths of the API's resources, and the prefix that names a collection.

`/api/v1/collections/NAME/REST` is `/api/v1/REST` in the collection NAME, for every operation. The pages of
the console, and what they request, have the prefix `/collections/NAME` instead. A path without a prefix means
the collection `main`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_to_bytes

from shoal.support.collection_names import RESERVED

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

API = "/api/v1"
DOCUMENTS = f"{API}/documents"
CHUNKS = f"{API}/chunks"
JOBS = f"{API}/jobs"
NOTES = f"{API}/notes"
COLLECTIONS = f"{API}/collections"
CONSOLE_COLLECTIONS = "/collections"

ID = f"int(max={2**63 - 1})"
"""URL converter of an id. Numbers larger than the database can store return 404."""

COLLECTION = "shoal.collection"
"""Key of the WSGI environment for the collection that the URL names; absent for `main`."""

_OF_COLLECTION = re.compile(rf"({API})?/collections/([^/]*)(/.*)?", re.DOTALL)
_GLOBAL = re.compile(
    rf"({API})?/(collections|keys)(/.*)?|/(health|ready|metrics|docs|redoc|openapi\.json|dify|openai)(/.*)?",
    re.DOTALL,
)
"""Paths that belong to the service and not to a collection."""


class CollectionPath(NamedTuple):
    """A path within a collection: the name in it, the path without the prefix, and the prefix of pages."""

    collection: str
    path: str
    script_name: str


def in_collection(path: str) -> CollectionPath | None:
    """Split a path that names a collection; None for other paths, and for what no collection has."""
    match = _OF_COLLECTION.fullmatch(path)
    if match is None:
        return None
    is_api, name, rest = match[1] is not None, match[2], match[3]
    if is_api and rest in (None, "/"):
        # The collection itself.
        return None
    inner = f"{API}{rest}" if is_api else rest or "/"
    # An empty part would be redirected to a path without the prefix.
    if _GLOBAL.fullmatch(inner) or "//" in inner:
        return None
    return CollectionPath(name, inner, "" if is_api else f"{CONSOLE_COLLECTIONS}/{name}")


def without_collection(path: str) -> str:
    """Return a path without the prefix of a collection."""
    split = in_collection(path)
    return path if split is None else split.path


def named_collection(path: str) -> str | None:
    """Return the name of the collection that a path names, also to manage it; None if it names none."""
    split = in_collection(path)
    if split is not None:
        return split.collection
    match = _OF_COLLECTION.fullmatch(path)
    if match is None or not match[2] or match[2] in RESERVED:
        return None
    return match[2]


def with_encoded_slashes(path: str, uri: str) -> str:
    """Return the decoded path of a request, with `%2F` for slashes that were encoded in a collection's name.

    No name has a `%`, so such a path names no collection instead of a resource of another one. `uri` is the
    path as it was sent, with the query.
    """
    sent = uri.partition("?")[0].encode("latin-1", "replace")
    match = _OF_COLLECTION.fullmatch(path)
    if match is None or b"%2f" not in sent.lower():
        return path
    kept = "/".join(unquote_to_bytes(part).decode("latin-1").replace("/", "%2F") for part in sent.split(b"/"))
    named = path[: match.end(2)]
    return path if kept == named or kept.startswith(f"{named}/") else kept


class CollectionPrefix:
    """WSGI middleware: takes the prefix from the path and notes the collection in the environment."""

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ.pop(COLLECTION, None)
        path = with_encoded_slashes(environ.get("PATH_INFO", ""), environ.get("REQUEST_URI", ""))
        environ["PATH_INFO"] = path
        split = in_collection(path)
        if split is not None:
            environ[COLLECTION] = split.collection
            environ["PATH_INFO"] = split.path
            environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "") + split.script_name
        return self._application(environ, start_response)
