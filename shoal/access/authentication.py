"""Who sends a request: keys of `SHOAL_API_KEYS`, keys of the catalog, or anybody where there are none.

What the catalog says about a key is kept in memory for `SHOAL_KEY_CACHE_SECONDS`, so every process refuses a
key at most so long after it was revoked. Its expiry is compared with the clock at every request.
"""

from __future__ import annotations

import enum
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

from shoal.access.key_store import KeyStore
from shoal.access.keys import StoredKey
from shoal.access.last_use import LastUse
from shoal.access.rights import ANYBODY, ELSEWHERE, EVERYWHERE, Access, Scope
from shoal.errors import DatabaseUnavailableError, StorageError
from shoal.models.keys import KeyState, Right
from shoal.settings import Settings
from shoal.support import api_keys
from shoal.support.api_keys import ApiKey, find_key, parse_keys

Value = TypeVar("Value")

SCHEME = "bearer"

MAX_CACHED = 10_000
"""Most keys of the catalog in memory; beyond that, the least recently used one is read again."""

FAILURE_SECONDS = 1.0
"""After a failed read, the catalog is left alone for so long: requests are refused at once, and none waits
for a server that is away."""

_FORM = re.compile(rf"{api_keys.PREFIX}[0-9a-f]{{{2 * api_keys.RANDOM_BYTES}}}")
"""The form of the keys that the catalog has. Nothing else is looked for there."""

_SCOPES = {
    api_keys.Scope.read: Right.read,
    # Everything in all collections, as these keys always could. They grant no access to others: a key that
    # was made with one of them would outlive its removal from the settings.
    api_keys.Scope.write: Right.admin,
    api_keys.Scope.admin: Right.admin,
}


RATE_REFUSED, OWNER_REFUSED = "rate", "owner"
"""Why a request with a valid key may be refused, besides the verdicts of `rights.py`."""


class Refusal(enum.StrEnum):
    """Why a request has no access at all."""

    missing = "missing"
    unknown = "unknown"
    expired = "expired"
    revoked = "revoked"

    @property
    def detail(self) -> str:
        """What to do about it."""
        return _DETAILS[self]


_DETAILS = {
    Refusal.missing: "this service needs a key: send it as `Authorization: Bearer KEY`",
    Refusal.unknown: "this key is not valid; send a valid one as `Authorization: Bearer KEY`",
    Refusal.expired: "this key has expired; ask an administrator of the service for another",
    Refusal.revoked: "this key was revoked; ask an administrator of the service for another",
}


def access_of_setting(key: ApiKey) -> Access:
    """Return what a key of `SHOAL_API_KEYS` allows."""
    scopes = (Scope(EVERYWHERE, _SCOPES[key.scope]),)
    return Access(key.name, scopes, may_grant=key.scope is api_keys.Scope.admin)


class Authenticator:
    """Identifies senders. May be shared between threads."""

    def __init__(
        self,
        settings: Settings,
        store: KeyStore,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises ValueError for invalid keys in the settings."""
        self.store = store
        self._keys = parse_keys(settings.api_keys)
        self._cache_seconds = settings.key_cache_seconds
        self._clock = clock
        self._monotonic = monotonic
        self._cached: OrderedDict[str, tuple[StoredKey, float]] = OrderedDict()
        self._lock = threading.Lock()
        self._has_stored = False
        self._looked_at: float | None = None
        self._failure: tuple[str, float] | None = None
        self._last_use = LastUse(store.record_uses)

    def needs_key(self) -> bool:
        """Whether requests need a key: with keys in the settings, or once the catalog has one.

        It stays so while this process runs, and after every key was revoked. Raises StorageError.
        """
        if self._keys or self._has_stored:
            return True
        now = self._monotonic()
        if self._looked_at is None or now - self._looked_at >= self._cache_seconds:
            self._has_stored = self._read(self.store.has_any)
            self._looked_at = now
        return self._has_stored

    def identify(self, authorization: str | None) -> Access | Refusal:
        """Return what the sender of a request may do, by its header `Authorization`, None if absent.

        Raises StorageError if the catalog cannot be read: an old answer may be of a key that was revoked.
        """
        if not self.needs_key():
            return ANYBODY
        if authorization is None:
            return Refusal.missing
        scheme, _, presented = authorization.partition(" ")
        if scheme.lower() != SCHEME:
            return Refusal.unknown
        key = presented.strip()
        own = find_key(self._keys, key)
        if own is not None:
            return access_of_setting(own)
        stored = self._stored(key) if _FORM.fullmatch(key) else None
        if stored is None:
            return Refusal.unknown
        now = self._clock()
        state = stored.state(now)
        if state is not KeyState.active:
            return Refusal.revoked if state is KeyState.revoked else Refusal.expired
        self._last_use.note(stored.id, now)
        return stored.access()

    def collection_of(self, access: Access, name: str) -> str:
        """Return the id of the collection that a name means for a key; ELSEWHERE if the key names none so.

        Reads only rows of collections that the key names, so that its time depends on the key alone. Raises
        StorageError.
        """
        own = access.own_collections()
        if not own:
            return ELSEWHERE
        names = self._read(lambda: self.store.names_of(own))
        return next((each for each, present in names.items() if present == name), ELSEWHERE)

    def forget(self) -> None:
        """Read every key again at its next use: after a change in this process, which then holds at once."""
        with self._lock:
            self._cached.clear()

    def close(self) -> None:
        """Write when keys were last used."""
        self._last_use.close()

    def _stored(self, key: str) -> StoredKey | None:
        """Return a key of the catalog, at most `key_cache_seconds` old; None if there is none."""
        digest, now = api_keys.digest_of(key).hex(), self._monotonic()
        with self._lock:
            cached = self._cached.get(digest)
            if cached is not None and now - cached[1] < self._cache_seconds:
                self._cached.move_to_end(digest)
                return cached[0]
        found = self._read(lambda: self.store.find(key))
        with self._lock:
            self._cached.pop(digest, None)
            if found is not None:
                self._cached[digest] = (found, now)
                if len(self._cached) > MAX_CACHED:
                    self._cached.popitem(last=False)
        return found

    def _read(self, read: Callable[[], Value]) -> Value:
        """Read the catalog. Raises StorageError, also for some time after the last one."""
        failure = self._failure
        if failure is not None and self._monotonic() - failure[1] < FAILURE_SECONDS:
            raise DatabaseUnavailableError(failure[0])
        try:
            value = read()
        except StorageError as error:
            self._failure = (str(error), self._monotonic())
            raise
        self._failure = None
        return value
