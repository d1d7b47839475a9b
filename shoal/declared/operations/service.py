# mypy: disable-error-code="empty-body"
"""Operations on the service: its state, its collections and its keys."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, TypedDict

from shoal.declared.arguments import Argument, Choice, Flag, Many, Members, Moment, Number, Text
from shoal.declared.operations.operation import Limit, Offset, Sent, delete, each, get, patch, post, put
from shoal.models import keys as of_keys
from shoal.models.keys import CreatedKey, KeyDetails, KeyPage, Needed, Right
from shoal.models.responses import (
    Collection,
    CollectionDetails,
    CollectionPage,
    Health,
    Readiness,
    Reefs,
    Status,
    SwappedCollections,
)
from shoal.support import search_tokens
from shoal.support.clock import timestamp
from shoal.support.collection_names import MAX_NAME_CHARS, PATTERN

COLLECTION = "/collections/{name}"
KEY = "/keys/{key_id}"
TAKEN = "Another collection has the name"
SHOWN_ONCE = "Created; the key is shown this once"


class ServiceOperations:
    """Operations about the service itself."""

    @get("/status", Needed.read, command="status")
    def status(self) -> Status:
        """Get counts, versions, jobs and workers"""

    @get("/reefs", Needed.read)
    def reefs(self) -> Reefs:
        """Get the hierarchy of reefs, with typical words and the number of chunks led by each reef"""


class OtherServiceOperations:
    """What the client asks in ways of its own."""

    @get("/health", Needed.public, of_service=True)
    def health(self) -> Health:
        """Check that the process is alive"""

    @get("/ready", Needed.public, of_service=True, fails=(503,))
    def ready(self) -> Readiness:
        """Check that the service can accept uploads and searches

        Returns 503 with the reasons if the database or the scorer fails. Without the broker the service still
        accepts and searches, so it returns 200 with the check `broker` as `failed` and a warning. Accepted
        jobs start when the broker is back or a worker next polls the database.

        The check `index` is about the collection `main`. Another collection whose index is too far behind
        adds a warning: only its own searches fail. Its name is for services without keys, and for keys that
        may read all collections.
        """

    @get("/metrics", Needed.overview, of_service=True)
    def metrics(self) -> str:
        """Get metrics for Prometheus"""


_CHARACTERS = f"1 to {MAX_NAME_CHARS} characters: a to z, 0 to 9, `-` and `_`, first a letter or digit"
_NAME = Text(pattern=PATTERN, message="must be " + _CHARACTERS.replace("`", ""))
Name = Annotated[
    str, Argument(kind=Text(most=MAX_NAME_CHARS, pattern=PATTERN), about="name of the collection")
]


class CollectionOperations:
    """Operations on collections.

    An invalid name raises InvalidError, one that is taken ConflictError, an unknown one NotFoundError.
    """

    @get("/collections", Needed.any_key, command="collection list")
    def collections(self, *, limit: Limit = 50, offset: Offset = 0) -> CollectionPage:
        """List the collections, `main` first and the others by name

        Only those that the key of the request opens.
        """

    @each(collections)
    def each_collection(self) -> Iterable[Collection]:
        """All collections, read page by page"""

    @post(
        "/collections",
        Needed.manage,
        status=201,
        about="Created; it is empty",
        conflict=TAKEN,
        may_repeat=False,
        command="collection create",
    )
    def create_collection(
        self, name: Annotated[str, Argument(kind=_NAME, about=f"its name, {_CHARACTERS}")]
    ) -> Collection:
        """Create an empty collection"""

    @get(COLLECTION, Needed.read, fails=(404,), command="collection show")
    def describe_collection(self, name: Name) -> CollectionDetails:
        """Show a collection and what it holds"""

    @patch(
        COLLECTION,
        Needed.manage,
        conflict=f"{TAKEN}, or it is `main`",
        fails=(404,),
        may_repeat=False,
        command="collection rename",
    )
    def rename_collection(
        self,
        name: Name,
        new_name: Annotated[str, Argument(kind=_NAME, member="name", about=f"the new name, {_CHARACTERS}")],
    ) -> Collection:
        """Rename a collection

        Its id stays, and running requests and jobs go on in it. URLs with the former name return 404.
        """

    @delete(
        COLLECTION,
        Needed.manage,
        about="Deleted with all it held",
        conflict="It is `main`",
        fails=(404,),
        command="collection delete",
    )
    def delete_collection(self, name: Name) -> bool:
        """Delete a collection with all it holds

        Its name is free at once. Running uploads end with 404, its jobs are dropped, and its files go as soon
        as no request or worker uses them. Only a backup can bring it back.
        """

    @post(
        "/collections/swap",
        Needed.manage,
        conflict="It is `main`, which stays what it is, or the same collection twice",
        fails=(404,),
        may_repeat=False,
        command="collection swap",
    )
    def swap_collections(
        self,
        first: Annotated[str, Argument(kind=_NAME, about="the name of one collection")],
        second: Annotated[str, Argument(kind=_NAME, about="the name of the other")],
    ) -> SwappedCollections:
        """Let two collections exchange their names, at one moment

        To rebuild a library without a pause: fill another collection, then swap the two. Requests that run go
        on in the collection in which they began, and so do jobs.
        """


class NewScope(TypedDict):
    """A right of a new key."""

    collection: Annotated[
        str, Argument(kind=Text(), about="name of a collection, or `*` for all, also those of the future")
    ]
    right: Annotated[
        str,
        Argument(
            kind=Choice(Right), about="what the key may do there; each right includes the ones before it"
        ),
    ]


def _as_scopes(scopes: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"collection": name, "right": str(right)} for name, right in scopes.items()]


class KeyOperations:
    """Operations on keys. They need a key that may manage the service.

    Unknown ids raise NotFoundError, invalid arguments InvalidError.
    """

    @post("/keys", Needed.grant, status=201, about=SHOWN_ONCE, may_repeat=False, command="key create")
    def create_key(
        self,
        name: Annotated[
            str, Argument(kind=Text(), about=f"for people, up to {of_keys.MAX_NAME_CHARS} characters")
        ],
        scopes: Annotated[
            Mapping[str, str],
            Argument(
                kind=Many(Members(NewScope, '{"collection": "main", "right": "read"}'), of_keys.MAX_SCOPES),
                about="the rights of the key, one for each collection",
            ),
            Sent(_as_scopes),
        ],
        *,
        owners: Annotated[
            Sequence[str] | None,
            Argument(
                kind=Many(Text(), of_keys.MAX_OWNERS),
                about="the only owners of notes that the key may name; null for any",
            ),
        ] = None,
        expires_at: Annotated[
            dt.datetime | None,
            Argument(kind=Moment(), about="when the key stops working (ISO 8601); null for never"),
            Sent(timestamp),
        ] = None,
        requests_per_second: Annotated[
            float | None,
            Argument(
                kind=Number(of_keys.MIN_RATE, of_keys.MAX_RATE),
                about="most requests a second to each process of the API; null for the limit of the service",
            ),
        ] = None,
    ) -> CreatedKey:
        """Create a key

        The service stores only its SHA-256. The first key of a service is made on its machine, with `shoal
        key create`.
        """

    @get("/keys", Needed.grant, command="key list")
    def keys(
        self,
        *,
        only_active: Annotated[
            bool, Argument(kind=Flag(), option="active", about="leave out expired and revoked keys")
        ] = False,
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> KeyPage:
        """List keys, without the keys themselves"""

    @each(keys)
    def each_key(self, *, only_active: bool = False) -> Iterable[KeyDetails]:
        """All keys, newest first, read page by page"""

    @get(KEY, Needed.grant, fails=(404,))
    def key_details(self, key_id: str) -> KeyDetails:
        """Get a key, without the key itself"""

    @delete(KEY, Needed.grant, fails=(404,), command="key revoke")
    def revoke_key(self, key_id: str) -> None:
        """Revoke a key for good

        Every process of the API refuses it within `SHOAL_KEY_CACHE_SECONDS`. It stays in the list.
        """

    @post(
        f"{KEY}/rotate",
        Needed.grant,
        status=201,
        about=SHOWN_ONCE,
        fails=(404,),
        needs_body=False,
        may_repeat=False,
        command="key rotate",
    )
    def rotate_key(
        self,
        key_id: str,
        *,
        grace_seconds: Annotated[
            float,
            Argument(
                kind=Number(0, of_keys.MAX_SECONDS),
                about="how long the old key stays valid; default 0: no longer",
            ),
        ] = 0.0,
    ) -> CreatedKey:
        """Replace a key by another with the same name, rights and limits

        The old key ends at once, or after `grace_seconds`. The body may be left out.
        """

    @put(f"{KEY}/public-key", Needed.grant, fails=(404,), command="key public-key")
    def set_public_key(
        self,
        key_id: str,
        public_key: Annotated[
            str,
            Argument(
                kind=Text(most=1_000),
                about="an Ed25519 public key, as PEM or as 32 bytes in base64; empty: no tokens from now on",
            ),
        ],
    ) -> KeyDetails:
        """Set the public key that search tokens of a key are signed with

        Tokens that were signed with another one are refused within `SHOAL_KEY_CACHE_SECONDS`.
        """

    @post(
        f"{KEY}/tokens/revoke",
        Needed.grant,
        fails=(404,),
        needs_body=False,
        command="key revoke-tokens",
    )
    def revoke_tokens(
        self,
        key_id: str,
        *,
        jti: Annotated[
            str | None,
            Argument(
                kind=Text(most=search_tokens.MAX_ID_CHARS),
                about="id of the token to revoke; null: those before a moment",
            ),
        ] = None,
        before: Annotated[
            dt.datetime | None,
            Argument(
                kind=Moment(), about="revoke all tokens that were issued before this (ISO 8601); null: now"
            ),
            Sent(timestamp),
        ] = None,
    ) -> KeyDetails:
        """Revoke a search token of a key, or all that were issued before a moment

        Every process of the API refuses them within `SHOAL_KEY_CACHE_SECONDS`, also after a restart.
        """


class AllServiceOperations(ServiceOperations, CollectionOperations, KeyOperations):
    """All that both clients have as they are declared."""
