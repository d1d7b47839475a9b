"""The decision whether a request may be carried out. Pure functions of values.

A key has scopes: a right in one collection, or in all. The name of a collection is compared with those that
the key opens, and with nothing else: whether another collection of that name exists is never looked up. So
neither the answer nor its time tells a foreign collection from one that does not exist.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from shoal.filters.visibility import Viewer
from shoal.models.keys import Needed, Right

EVERYWHERE = "*"
"""The collection of a scope that holds in every collection, also in those that are created later."""

SERVICE = "*"
"""The target of a request that concerns the service as a whole. Only scopes for EVERYWHERE reach it."""

ELSEWHERE = ""
"""The target of a request that names a collection in which the key has no scope of its own, whether it exists
or not. Only scopes for EVERYWHERE reach it."""


RIGHT_NEEDED = {
    Needed.read: Right.read,
    Needed.write: Right.write,
    Needed.admin: Right.admin,
    Needed.overview: Right.read,
    Needed.manage: Right.admin,
    Needed.grant: Right.admin,
}


def needs_right(right: Right) -> str:
    """The message for a key without a right."""
    return f"this needs a key with the right `{right}`"


OF_SERVICE = frozenset({Needed.any_key, Needed.overview, Needed.manage, Needed.grant})
"""Operations on the service as a whole. Some of them name a collection all the same."""


class Verdict(enum.StrEnum):
    """The decision on a request, with the status of its response."""

    allowed = "allowed"
    no_key = "no key"
    no_right = "no right"
    no_collection = "no collection"

    @property
    def status(self) -> int:
        """The HTTP status of a refusal; 200 if allowed."""
        return _STATUS[self]


_STATUS = {Verdict.allowed: 200, Verdict.no_key: 401, Verdict.no_right: 403, Verdict.no_collection: 404}


@dataclass(frozen=True, slots=True)
class Scope:
    """A right in one collection, by its id, or EVERYWHERE."""

    collection: str
    right: Right


@dataclass(frozen=True, slots=True)
class Access:
    """What the sender of a request may do.

    name         of the key, for logs and metrics; empty without a key
    key_id       id in the catalog; None for keys of SHOAL_API_KEYS, and without a key
    owners       the only owners of notes that may be named; None for any
    may_grant    whether admin rights everywhere extend to keys
    rate         most requests per second; None for the limit of the service
    viewer       of a search token: what it lets its bearer see; None for a key, which sees everything
    token        likewise: its id
    token_rate   likewise: most requests per second with it; None for the rate of its key
    """

    name: str
    scopes: tuple[Scope, ...]
    key_id: str | None = None
    owners: tuple[str, ...] | None = None
    may_grant: bool = True
    rate: float | None = None
    viewer: Viewer | None = None
    token: str = ""
    token_rate: float | None = None

    def right_in(self, collection: str) -> Right | None:
        """Return the highest right in a collection, given by its id, ELSEWHERE or SERVICE; None if there is
        none."""
        highest: Right | None = None
        for scope in self.scopes:
            is_here = scope.collection in (EVERYWHERE, collection)
            if is_here and (highest is None or scope.right.includes(highest)):
                highest = scope.right
        return highest

    def own_collections(self) -> tuple[str, ...]:
        """Return the ids of the collections with scopes of their own."""
        return tuple(scope.collection for scope in self.scopes if scope.collection != EVERYWHERE)

    def may_name(self, owner: str) -> bool:
        """Whether this key may name an owner of notes."""
        return self.owners is None or owner in self.owners

    def default_owner(self, usual: str) -> str:
        """Return the owner of a request that names none: `usual`, or the first that the key may name; empty
        if it may name none."""
        if self.owners is None or usual in self.owners:
            return usual
        return self.owners[0] if self.owners else ""


ANYBODY = Access("", (Scope(EVERYWHERE, Right.admin),), may_grant=False)
"""A client of a service without keys, which listens to this machine only or to a trusted network. The first
key is made on the machine, so that nobody shuts the others out."""


def judge(needed: Needed, access: Access | None, collection: str) -> Verdict:
    """Decide on a request.

    `access` is None without a valid key. `collection` is the id of the collection that the request names (or
    means), ELSEWHERE if none of those with scopes has that name, or SERVICE if it names none and needs none.
    """
    if needed is Needed.public:
        return Verdict.allowed
    if access is None:
        return Verdict.no_key
    right = access.right_in(collection)
    if right is None and collection != SERVICE:
        return Verdict.no_collection
    if needed is Needed.any_key:
        return Verdict.allowed
    if needed in OF_SERVICE:
        right = access.right_in(SERVICE)
    may = right is not None and right.includes(RIGHT_NEEDED[needed])
    if needed is Needed.grant:
        may = may and access.may_grant
    return Verdict.allowed if may else Verdict.no_right
