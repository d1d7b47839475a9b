"""Keys of the catalog: their values, and the checks of what people give for a new one."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.access.rights import EVERYWHERE, Access, Scope
from shoal.errors import InvalidFieldError
from shoal.models.keys import (
    MAX_NAME_CHARS,
    MAX_OWNERS,
    MAX_RATE,
    MAX_SCOPES,
    MAX_SECONDS,
    MIN_RATE,
    KeyDetails,
    KeyScope,
    KeyState,
    Right,
)
from shoal.support.clock import timestamp

MAX_OWNER_CHARS = 200


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as the catalog has it: without the key itself.

    fingerprint  the first eight digits of its SHA-256, as logs name it
    owners       the only owners of notes that it may name; None for any
    All times are seconds since the epoch; `last_used_at` is at most a minute late.
    """

    id: str
    name: str
    fingerprint: str
    scopes: tuple[Scope, ...]
    owners: tuple[str, ...] | None
    created_at: float
    expires_at: float | None
    last_used_at: float | None
    revoked_at: float | None
    requests_per_second: float | None

    def state(self, now: float) -> KeyState:
        """Return the state at a moment."""
        if self.revoked_at is not None and self.revoked_at <= now:
            return KeyState.revoked
        if self.expires_at is not None and self.expires_at <= now:
            return KeyState.expired
        return KeyState.active

    def access(self) -> Access:
        """Return what the bearer of this key may do while it is active."""
        return Access(
            self.fingerprint,
            self.scopes,
            key_id=self.id,
            owners=self.owners,
            rate=self.requests_per_second,
        )


def details_of(stored: StoredKey, names: Mapping[str, str], now: float) -> KeyDetails:
    """Return a key as people see it; `names` has the present names of collections by id."""
    return KeyDetails(
        stored.id,
        stored.name,
        stored.fingerprint,
        stored.state(now),
        tuple(
            KeyScope(EVERYWHERE if each.collection == EVERYWHERE else names.get(each.collection), each.right)
            for each in stored.scopes
        ),
        stored.owners,
        stored.requests_per_second,
        _moment(stored.created_at),
        _moment_or_none(stored.expires_at),
        _moment_or_none(stored.last_used_at),
        _moment_or_none(stored.revoked_at),
    )


def _moment(seconds: float) -> str:
    return timestamp(dt.datetime.fromtimestamp(seconds, dt.UTC))


def _moment_or_none(seconds: float | None) -> str | None:
    return None if seconds is None else _moment(seconds)


@dataclass(frozen=True, slots=True)
class NewKey:
    """A checked request for a key; `scopes` name collections by id."""

    name: str
    scopes: tuple[Scope, ...]
    owners: tuple[str, ...] | None = None
    expires_at: float | None = None
    requests_per_second: float | None = None


def check_name(name: object) -> str:
    """Return the name of a key. Raises InvalidFieldError."""
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME_CHARS or not name.isprintable():
        raise InvalidFieldError("name", f"must be 1 to {MAX_NAME_CHARS} printable characters")
    if name != name.strip():
        raise InvalidFieldError("name", "must not begin or end with a space")
    return name


def check_owners(owners: Iterable[object] | None) -> tuple[str, ...] | None:
    """Return the owners that a key is bound to, None for any. Raises InvalidFieldError."""
    if owners is None:
        return None
    checked = tuple(dict.fromkeys(owners))
    if not 1 <= len(checked) <= MAX_OWNERS:
        raise InvalidFieldError("owners", f"must be 1 to {MAX_OWNERS} names; leave it out for any owner")
    for owner in checked:
        is_name = isinstance(owner, str) and 1 <= len(owner) <= MAX_OWNER_CHARS
        if not is_name or not str(owner).isprintable() or str(owner).isspace():
            raise InvalidFieldError("owners", f"each must be 1 to {MAX_OWNER_CHARS} printable characters")
    return tuple(str(owner) for owner in checked)


def check_scopes(scopes: Iterable[tuple[str, str]], ids: Mapping[str, str]) -> tuple[Scope, ...]:
    """Return scopes from pairs of a collection's name, or `*`, and a right.

    `ids` has the ids of collections by name. Raises InvalidFieldError.
    """
    checked: dict[str, Right] = {}
    for name, right in scopes:
        if right not in list(Right):
            raise InvalidFieldError("scopes", f"{_shown(right)} is not a right; use {', '.join(Right)}")
        collection = EVERYWHERE if name == EVERYWHERE else ids.get(name)
        if collection is None:
            raise InvalidFieldError("scopes", f"there is no collection {_shown(name)}; `*` means all")
        if collection in checked:
            raise InvalidFieldError("scopes", f"{_shown(name)} is named twice; give its highest right")
        checked[collection] = Right(right)
    if not 1 <= len(checked) <= MAX_SCOPES:
        raise InvalidFieldError("scopes", f"must be 1 to {MAX_SCOPES} pairs of a collection and a right")
    return tuple(Scope(collection, right) for collection, right in checked.items())


def check_rate(rate: object) -> float | None:
    """Return the most requests per second, None for the limit of the service. Raises InvalidFieldError."""
    if rate is None:
        return None
    value = _number("requests_per_second", rate)
    if not MIN_RATE <= value <= MAX_RATE:
        raise InvalidFieldError("requests_per_second", f"must be from {MIN_RATE:g} to {MAX_RATE:,.0f}")
    return value


def check_expiry(expires_at: object, now: float) -> float | None:
    """Return when a key expires, None for never. Raises InvalidFieldError."""
    if expires_at is None:
        return None
    value = _number("expires_at", expires_at)
    if not now < value <= now + MAX_SECONDS:
        raise InvalidFieldError("expires_at", "must be in the future, within a hundred years")
    return value


def check_grace(seconds: object) -> float:
    """Return how long a key that was rotated stays valid. Raises InvalidFieldError."""
    value = _number("grace_seconds", seconds)
    if not 0 <= value <= MAX_SECONDS:
        raise InvalidFieldError("grace_seconds", "must be from 0 to a hundred years")
    return value


def _number(field: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidFieldError(field, "must be a number")
    return float(value)


def _shown(text: object) -> str:
    return repr(str(text)[:80])
