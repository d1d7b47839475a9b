"""Keys as people see them, without what they are compared with."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated

from shoal.models.described import Time

MAX_NAME_CHARS = 100
MAX_OWNERS = 100
MAX_SCOPES = 100
MAX_REVOKED_TOKENS = 10_000
"""Tokens of a key that may be revoked one by one at a time; revoke all before a moment instead."""
MIN_RATE, MAX_RATE = 0.001, 100_000.0
"""Requests a second; the least is one in about 17 minutes."""
MAX_SECONDS = 100 * 365 * 86_400
"""Longest time until a key expires, and longest time that a rotated key stays valid: a hundred years."""


class Right(enum.StrEnum):
    """What a key allows in a collection. Each right includes the ones before it."""

    read = "read"
    write = "write"
    admin = "admin"

    def includes(self, other: Right) -> bool:
        """Whether this right allows everything that `other` allows."""
        return _LEVELS[self] >= _LEVELS[other]


_LEVELS = {right: level for level, right in enumerate(Right)}


class Needed(enum.StrEnum):
    """What an operation needs.

    public    nothing, not even a key
    any_key   a valid key; the answer holds only what this key may see
    read, write, admin  this right in the collection of the request
    overview  `read` everywhere: the answer is about all collections
    manage    `admin` everywhere: it changes which collections there are
    grant     the same with a key that may grant access to others
    """

    public = "public"
    any_key = "any_key"
    read = "read"
    write = "write"
    admin = "admin"
    overview = "overview"
    manage = "manage"
    grant = "grant"


class KeyState(enum.StrEnum):
    """Whether a key opens anything."""

    active = "active"
    expired = "expired"
    revoked = "revoked"


@dataclass(frozen=True, slots=True)
class KeyScope:
    """A right in a collection."""

    collection: Annotated[str | None, "present name of the collection, `*` for all; null if it was deleted"]
    right: Annotated[Right, "what the key may do there; each right includes the ones before it"]


@dataclass(frozen=True, slots=True)
class KeyDetails:
    """A key as people see it: never the key itself."""

    id: Annotated[str, "id of the key"]
    name: Annotated[str, "its name"]
    fingerprint: Annotated[str, "first eight digits of its SHA-256, as logs and metrics name it"]
    state: Annotated[KeyState, "whether it opens anything"]
    scopes: Annotated[tuple[KeyScope, ...], "its rights"]
    owners: Annotated[tuple[str, ...] | None, "the only owners of notes that the key may name; null for any"]
    requests_per_second: Annotated[
        float | None, "most requests a second to each process of the API; null for the limit of the service"
    ]
    created_at: Annotated[Time, "when it was created"]
    expires_at: Annotated[Time | None, "when it stops working; null for never"]
    last_used_at: Annotated[Time | None, "when it was last used, at most a minute late; null for never"]
    revoked_at: Annotated[Time | None, "when it was revoked, or will be after a rotation; null if it was not"]
    public_key: Annotated[
        str | None, "the Ed25519 key that its search tokens are signed with, in base64url; null for none"
    ] = None
    tokens_before: Annotated[
        Time | None, "search tokens that were issued before this are revoked; null for none"
    ] = None


@dataclass(frozen=True, slots=True)
class KeyPage:
    """A page of keys."""

    keys: Annotated[tuple[KeyDetails, ...], "a page, newest first"]
    total: int


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new key, and the text that its bearer sends."""

    key: Annotated[str, "what clients send; shown this once and stored nowhere"]
    details: Annotated[KeyDetails, "what was created"]


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The public key of a new pair."""

    public_key: Annotated[str, "Ed25519, in base64url"]


@dataclass(frozen=True, slots=True)
class SignedToken:
    """A search token."""

    token: Annotated[str, "what clients send"]
