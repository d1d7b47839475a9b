"""Access control: keys and their rights, or only the local machine where the service has no keys.

With keys, every route except a few public ones requires `Authorization: Bearer KEY`. Browsers do not add that
header by themselves, so the Host and Origin of a request need no check. What a key may do is decided in
`shoal.access`; this module applies the decision before a request reaches its view, and before its body is
received.

Without keys, the service listens on 127.0.0.1, where a browser on the same machine can still reach it. A
foreign page could submit forms to it (cross-site requests) or point its own host name at 127.0.0.1 (DNS
rebinding). This module refuses both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flask
import structlog

from shoal.access.authentication import OWNER_REFUSED, RATE_REFUSED, TOKEN_REFUSED, Authenticator, Refusal
from shoal.access.key_store import KeyStore
from shoal.access.operations import (
    is_for_tokens,
    is_for_tokens_by_path,
    needed_by_path,
    needed_by_rule,
    needed_first,
)
from shoal.access.rate_limit import RateLimit
from shoal.access.rights import (
    ANYBODY,
    OF_SERVICE,
    RIGHT_NEEDED,
    SERVICE,
    Access,
    Verdict,
    judge,
    needs_right,
)
from shoal.collections.catalog import Catalog
from shoal.errors import CollectionNotFoundError, RestrictedError, StorageError
from shoal.filters.visibility import Viewer
from shoal.models.keys import Needed, Right
from shoal.service.addresses import is_for_this_machine, is_same_site
from shoal.settings import Settings
from shoal.support.collection_names import MAIN, shown
from shoal.support.request_context import KEY_NAME
from shoal_api.cross_origin import CrossOrigin
from shoal_api.paths import COLLECTION, named_collection, without_collection
from shoal_api.problems import ProblemError, field_problem, for_error

READING = frozenset({"GET", "HEAD", "OPTIONS"})

CONSOLE = "console"
"""The blueprint of the console. Without a key, its pages show only their frame."""

REALM = 'Bearer realm="shoal"'

DESCRIPTION = {
    "type": "http",
    "scheme": "bearer",
    "description": "a key of `shoal key create` or `SHOAL_API_KEYS`; not needed if the service has no keys",
}
"""Security scheme in the OpenAPI document."""

NOT_FOR_TOKENS = "{asked} is not for search tokens; docs/search-tokens.md lists what they may do"
MANAGES_NOT = "this changes collections and needs a key with the right `admin` in all of them"
GRANTS_NOT = (
    "this needs a key that may manage keys: one of `shoal key create` with the scope `*:admin`, or an entry "
    "`admin:KEY` of SHOAL_API_KEYS"
)
FIRST_KEY = "shoal key create NAME --scope '*:admin'"
"""The command that makes a service's first key."""
NO_FIRST_KEY = f"this service has no keys yet; make the first one on its machine with `{FIRST_KEY}`"
OVERVIEW = "this is about all collections and needs a key that may read all of them"

_OF_SERVICE = {Needed.overview: OVERVIEW, Needed.manage: MANAGES_NOT, Needed.grant: GRANTS_NOT}

EXTENSION = "shoal gate"
RATE_LIMIT = "shoal rate limit"
SHOWN_OWNERS = 5

Watcher = Callable[[str], None]


class Gate:
    """Decides on requests. `on_refused` gets the reason of each refusal, `on_used` the names of keys."""

    def __init__(self, authenticator: Authenticator) -> None:
        self.authenticator = authenticator
        self.on_refused: Watcher = lambda reason: None
        self.on_used: Watcher = lambda name: None

    @classmethod
    def of(cls, settings: Settings, catalog: Catalog | None = None) -> Gate:
        """Return the gate of a service with these settings. Raises ValueError for invalid keys."""
        return cls(Authenticator(settings, KeyStore(catalog or Catalog(settings))))

    def identify(self, authorization: str | None) -> Access | Refusal:
        """Return what the sender of a request may do. Raises StorageError."""
        return self.authenticator.identify(authorization, takes_tokens=True)

    def admit(self, caller: Access | Refusal, needed: Needed, name: str | None) -> str:
        """Return the id of the collection if the sender of a request may do this; ELSEWHERE if only a scope
        for all collections allows it, and then the collection may not exist.

        `name` is that of the collection that the request names, None if it names none. Raises a 401, 403 or
        404 problem otherwise, and StorageError.
        """
        if isinstance(caller, Refusal):
            self.on_refused(caller)
            raise _no_key(caller)
        collection = self._target(caller, needed, name)
        detail = f"this key does not open the collection {shown(MAIN if name is None else name)}"
        if name is None:
            detail += "; name one that it opens: /collections/NAME in the URL, or --collection NAME"
        self.judge(caller, needed, collection, detail)
        return collection

    def judge(self, caller: Access, needed: Needed, collection: str, detail: str) -> None:
        """Raise a 403 or 404 problem if a key may not do this in a collection, given by its id, ELSEWHERE or
        SERVICE. `detail`: that of the 404."""
        verdict = judge(needed, caller, collection)
        if verdict is Verdict.allowed:
            return
        self.on_refused(verdict)
        if verdict is Verdict.no_collection:
            raise for_error(CollectionNotFoundError(detail))
        raise _no_right(needed, caller)

    def check(self, method: str, path: str, authorization: str | None) -> None:
        """Raise a problem if such a request is refused. For requests that no application has seen yet."""
        path_in_main = without_collection(path)
        needed = needed_by_path(method, path_in_main)
        if needed is not Needed.public:
            caller = self.identify(authorization)
            is_for_tokens = is_for_tokens_by_path(method, path_in_main)
            self.check_token(caller, f"{method} {path_in_main}", is_for_tokens=is_for_tokens)
            self.admit(caller, needed, named_collection(path))

    def check_token(self, caller: Access | Refusal, asked: str, *, is_for_tokens: bool) -> None:
        """Raise a 403 problem if a search token is sent for what is not declared to be for them. `asked`:
        the method and the path."""
        if isinstance(caller, Access) and caller.viewer is not None and not is_for_tokens:
            self.on_refused(TOKEN_REFUSED)
            raise ProblemError(403, NOT_FOR_TOKENS.format(asked=shown(asked)), code=RestrictedError.code)

    def close(self) -> None:
        """Write when keys were last used."""
        self.authenticator.close()

    def _target(self, caller: Access, needed: Needed, name: str | None) -> str:
        if name is not None:
            return self.authenticator.collection_of(caller, name)
        return SERVICE if needed in OF_SERVICE else MAIN


def register(app: flask.Flask, settings: Settings, gate: Gate) -> None:
    """Check the key and the rate limit before every request of the application."""
    limit = app.extensions[RATE_LIMIT] = RateLimit(settings.rate_limit)
    app.extensions[EXTENSION] = gate
    cross_origin = CrossOrigin(settings)
    app.before_request(cross_origin.answer_preflight)
    app.after_request(cross_origin.share)

    @app.before_request
    def guard() -> None:
        request = flask.request
        if "Host" not in request.headers and request.environ.get("SERVER_PROTOCOL") == "HTTP/1.1":
            raise ProblemError(400, "the header Host is missing")
        flask.g.access = None
        if is_public(request):
            if not _needs_key(gate):
                _check_same_site(request, settings)
            return
        caller = gate.identify(request.headers.get("Authorization"))
        if caller is ANYBODY:
            _check_same_site(request, settings)
        elif isinstance(caller, Access) and caller.viewer is None:
            cross_origin.check_key(request)
        _take_rate(limit, gate, caller, request)
        if isinstance(caller, Access) and caller.name:
            structlog.contextvars.bind_contextvars(key=caller.name)
            KEY_NAME.set(caller.name)
            gate.on_used(caller.name)
        if isinstance(caller, Refusal) and _is_page_without_key(request):
            return
        rule = request.url_rule.rule if request.url_rule else None
        asked = f"{request.method} {request.path}"
        gate.check_token(caller, asked, is_for_tokens=is_for_tokens(request.method, rule))
        needed = needed_first(request.method, rule)
        name = request.environ.get(COLLECTION)
        flask.g.collection_id = gate.admit(
            caller, needed, named_collection(request.path) if name is None else name
        )
        flask.g.access = caller


def _needs_key(gate: Gate) -> bool:
    """Whether requests need a key. True if that cannot be read: /health does not depend on the database, and
    /ready says that it fails."""
    try:
        return gate.authenticator.needs_key()
    except StorageError:
        return True


def _take_rate(limit: RateLimit, gate: Gate, caller: Access | Refusal, request: flask.Request) -> None:
    """Count a request. Raises a 429 problem."""
    access = caller if isinstance(caller, Access) else None
    excess = limit.take_for(access, request.remote_addr or "")
    if excess is not None:
        gate.on_refused(RATE_REFUSED)
        raise ProblemError(429, excess.detail, headers={"Retry-After": str(excess.seconds)})


def gate() -> Gate:
    """Return the gate of the application that handles the current request."""
    registered = flask.current_app.extensions[EXTENSION]
    assert isinstance(registered, Gate)
    return registered


def current() -> Access:
    """Return what the sender of the current request may do. For views of routes that are not public."""
    access = flask.g.access
    assert isinstance(access, Access), "the guard admitted the request"
    return access


def require_somewhere(right: Right) -> None:
    """Raise a 403 problem if the key of the current request has a right in no collection."""
    if not any(scope.right.includes(right) for scope in current().scopes):
        raise ProblemError(403, needs_right(right))


def viewer() -> Viewer | None:
    """Return what the search token of the current request lets its bearer see; None without a token."""
    found: Access | None = flask.g.get("access")
    return None if found is None else found.viewer


def may_see_all() -> bool:
    """Whether the sender of a request to a public route may know all collections. A key that is sent counts
    for the rate limit, so that nobody guesses keys here."""
    request = flask.request
    try:
        caller = gate().identify(request.headers.get("Authorization"))
        if "Authorization" in request.headers:
            _take_rate(flask.current_app.extensions[RATE_LIMIT], gate(), caller, request)
    except (ProblemError, StorageError):
        return False
    return not isinstance(caller, Refusal) and judge(Needed.overview, caller, SERVICE) is Verdict.allowed


def is_administrator(settings: Settings) -> bool:
    """Whether the sender of the current request is known to have the right `admin` in its collection: by a
    key, or on this machine where the service has no keys."""
    caller = current()
    if caller is ANYBODY and settings.allow_anonymous:
        return False
    return caller.right_in(collection_id()) is Right.admin


def collection_id() -> str:
    """Return the id of the collection of the current request; ELSEWHERE if its name is to be looked up."""
    found: str = flask.g.collection_id
    return found


def owner_of(named: str | None, usual: str) -> str:
    """Return the owner of notes that the current request means: `named`, or the usual one of its key.

    `usual` is the owner of requests that name none. Raises a 403 problem for an owner that the key may not
    name.
    """
    access = current()
    owner = access.default_owner(usual) if named is None else named
    if not access.may_name(owner):
        raise foreign_owner(access, "this key may not name this owner of notes")
    return owner


def named_owner(query: dict[str, Any], data: dict[str, Any]) -> str | None:
    """Return the owner of notes that a request names, and remove it from both; None without one.

    Raises a 422 problem if query parameter and body name different owners.
    """
    named = [name for name in (query.pop("owner", None), data.pop("owner", None)) if name is not None]
    if len(set(named)) > 1:
        raise field_problem("owner", "differs between the query parameter and the body")
    return named[0] if named else None


def foreign_owner(access: Access, reason: str) -> ProblemError:
    """Return the 403 problem of a request about an owner of notes that its key may not name; count it."""
    gate().on_refused(OWNER_REFUSED)
    own = ", ".join(map(shown, (access.owners or ())[:SHOWN_OWNERS]))
    if access.viewer is not None:
        reason, own = "this search token may not name this owner of notes", own or "none: it has no `owner`"
    return ProblemError(403, f"{reason}; it is bound to {own}")


def shows_frame_only() -> bool:
    """Whether the current request, for a console page, may see only the frame of the page."""
    return flask.g.get("access") is None


def is_public(request: flask.Request) -> bool:
    """Whether a request needs no key. Unknown paths return 404 without a key, except below `/api/`."""
    if request.url_rule is None:
        return not request.path.startswith("/api/")
    return needed_by_rule(request.method, request.url_rule.rule) is Needed.public


def _is_page_without_key(request: flask.Request) -> bool:
    """Whether a browser requests a console page by its URL, which carries no key. The page then asks for
    one."""
    is_page = request.blueprint == CONSOLE or request.path == "/"
    return is_page and request.method in READING and "Authorization" not in request.headers


def _no_key(refusal: Refusal) -> ProblemError:
    is_given = refusal is not Refusal.missing
    return ProblemError(
        401,
        refusal.detail,
        headers={"WWW-Authenticate": f'{REALM}, error="invalid_token"' if is_given else REALM},
    )


def _no_right(needed: Needed, caller: Access) -> ProblemError:
    right = RIGHT_NEEDED[needed]
    if caller is ANYBODY:
        return ProblemError(403, NO_FIRST_KEY)
    detail = _OF_SERVICE[needed] if needed in OF_SERVICE else needs_right(right)
    scope = f'{REALM}, error="insufficient_scope", scope="{right}"'
    return ProblemError(403, detail, headers={"WWW-Authenticate": scope})


def _check_same_site(request: flask.Request, settings: Settings) -> None:
    """Refuse requests that a foreign web page makes a browser send."""
    host = request.headers.get("Host", "")
    if not settings.allow_anonymous and not is_for_this_machine(host):
        raise ProblemError(
            403,
            "this service has no keys and accepts requests for localhost only; set SHOAL_API_KEYS, or "
            "SHOAL_ALLOW_ANONYMOUS=1 if it runs behind a proxy that authenticates clients",
        )
    if request.method in READING:
        return
    origin = request.headers.get("Origin")
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    if (origin is not None and not is_same_site(origin, host)) or site not in ("same-origin", "none"):
        raise ProblemError(403, "requests that change something are not accepted from pages of other sites")
