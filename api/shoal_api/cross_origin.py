"""Cross-origin requests: pages of listed origins may search with a search token (Fetch standard, CORS).

No answer allows credentials that a browser sends by itself, so a page reads only what its token opens.
"""

from __future__ import annotations

import flask
from werkzeug.wrappers import Response

from shoal.access.operations import is_for_tokens_by_path
from shoal.access.rights import Access
from shoal.service.addresses import is_same_site
from shoal.settings import Settings
from shoal_api.paths import without_collection
from shoal_api.problems import ProblemError

PREFLIGHT = {
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Accept",
    "Access-Control-Max-Age": "600",
}
NO_KEYS = "web pages of other sites may send search tokens and no keys; docs/search-tokens.md has an example"


class CrossOrigin:
    """What pages of the origins in the settings may do."""

    def __init__(self, settings: Settings) -> None:
        self._origins = frozenset(filter(None, map(str.strip, settings.cors_origins.split(","))))

    def answer_preflight(self) -> Response | None:
        """Answer what a browser asks before it sends a request; None for any other request."""
        request = flask.request
        method = request.headers.get("Access-Control-Request-Method", "")
        if request.method != "OPTIONS" or not method or self._listed(request) is None:
            return None
        if not is_for_tokens_by_path(method, without_collection(request.path)):
            return None
        return Response(status=204, headers={**PREFLIGHT, "Access-Control-Allow-Methods": method})

    def share(self, response: flask.Response) -> flask.Response:
        """Let a listed page read the answer, unless a key was sent."""
        if not self._origins:
            return response
        response.vary.add("Origin")
        origin = self._listed(flask.request)
        caller: Access | None = flask.g.get("access")
        if origin is not None and (caller is None or caller.viewer is not None):
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = "Retry-After"
        return response

    def check_key(self, request: flask.Request) -> None:
        """Raise a 403 problem if a listed page of another site sends a key."""
        origin = self._listed(request)
        if origin is not None and not is_same_site(origin, request.headers.get("Host", "")):
            raise ProblemError(403, NO_KEYS)

    def _listed(self, request: flask.Request) -> str | None:
        origin = request.headers.get("Origin")
        return origin if origin in self._origins else None
