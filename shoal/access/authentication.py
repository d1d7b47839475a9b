"""Who sends a request: keys of `SHOAL_API_KEYS`, keys of the catalog, or anybody where there are none.

What the catalog says about a key is kept in memory for `SHOAL_KEY_CACHE_SECONDS`, so every process refuses a
key at most so long after it was revoked. Its expiry is compared with the clock at every request.

When a key was used is noted in memory, and a thread of its own writes it to the catalog, so a request never
waits for that. Of each key a use is written soon, and the next one a minute later. What a process has noted
and not written is lost if it is killed: at most a minute.
"""

from __future__ import annotations

import enum
import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from shoal.access.key_store import KeyStore, StoredKey
from shoal.access.rights import ANYBODY, ELSEWHERE, EVERYWHERE, Access, Scope
from shoal.errors import DatabaseUnavailableError, FilterError, ShoalError, StorageError
from shoal.filters.parsing import make_filter
from shoal.filters.visibility import Viewer
from shoal.models.keys import KeyState, Right
from shoal.settings import Settings
from shoal.support import api_keys, search_tokens
from shoal.support.api_keys import ApiKey, find_key, parse_keys
from shoal.support.search_tokens import Claims, TokenError

log = logging.getLogger(__name__)


Value = TypeVar("Value")

SCHEME = "bearer"

MAX_CACHED = 10_000
"""Most keys and search tokens in memory; beyond that, the least recently used one is read again."""

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


RATE_REFUSED, OWNER_REFUSED, TOKEN_REFUSED = "rate", "owner", "token"
"""Why a request with a valid key may be refused, besides the verdicts of `rights.py`."""


class Refusal(enum.StrEnum):
    """Why a request has no access at all."""

    missing = "missing"
    unknown = "unknown"
    expired = "expired"
    revoked = "revoked"
    bad_token = "bad token"  # noqa: S105 - no password
    expired_token = "expired token"  # noqa: S105 - no password
    revoked_token = "revoked token"  # noqa: S105 - no password

    @property
    def detail(self) -> str:
        """What to do about it."""
        return _DETAILS[self]


_DETAILS = {
    Refusal.missing: "this service needs a key: send it as `Authorization: Bearer KEY`",
    Refusal.unknown: "this key is not valid; send a valid one as `Authorization: Bearer KEY`",
    Refusal.expired: "this key has expired; ask an administrator of the service for another",
    Refusal.revoked: "this key was revoked; ask an administrator of the service for another",
    Refusal.bad_token: "this search token is not valid here; the log of the service says why",
    Refusal.expired_token: "this search token has expired, or is not valid yet; ask for another",
    Refusal.revoked_token: "this search token was revoked; ask for another",
}


def access_of_setting(key: ApiKey) -> Access:
    """Return what a key of `SHOAL_API_KEYS` allows."""
    scopes = (Scope(EVERYWHERE, _SCOPES[key.scope]),)
    return Access(key.name, scopes, may_grant=key.scope is api_keys.Scope.admin)


@dataclass(frozen=True, slots=True)
class _VerifiedToken:
    """A search token whose signature is valid, with its key and what it allows."""

    key: StoredKey
    claims: Claims
    access: Access
    is_revoked: bool


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
        self._token_seconds = settings.token_seconds
        self._cached: OrderedDict[str, tuple[Any, float]] = OrderedDict()
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

    def identify(self, authorization: str | None, *, takes_tokens: bool = False) -> Access | Refusal:
        """Return what the sender of a request may do, by its header `Authorization`, None if absent.

        `takes_tokens`: whether the caller restricts what it shows to what a search token may see; others
        refuse every token. Raises StorageError if the catalog cannot be read: an old answer may be of a key
        that was revoked.
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
        if search_tokens.has_form(key):
            return self._access_of_token(key) if takes_tokens else Refusal.bad_token
        stored = self._stored(key) if _FORM.fullmatch(key) else None
        if stored is None:
            return Refusal.unknown
        now = self._clock()
        state = stored.state(now)
        if state is not KeyState.active:
            return Refusal.revoked if state is KeyState.revoked else Refusal.expired
        self._last_use.note(stored.id, now)
        return stored.access()

    def _access_of_token(self, token: str) -> Access | Refusal:
        """What a search token allows. What was verified is remembered as long as a key is."""
        try:
            verified = self._remembered(
                api_keys.digest_of(token).hex(), lambda: self._verified(token), is_kept=lambda _: True
            )
        except (TokenError, FilterError) as error:
            log.info("search token refused: %s", error)
            return Refusal.bad_token
        now, claims = self._clock(), verified.claims
        skew = search_tokens.SKEW_SECONDS
        if not claims.issued_at - skew <= now < claims.expires_at + skew:
            return Refusal.expired_token
        stored = verified.key
        state = stored.state(now)
        if state is not KeyState.active:
            return Refusal.revoked if state is KeyState.revoked else Refusal.expired
        is_before = stored.tokens_before is not None and claims.issued_at < stored.tokens_before
        if is_before or verified.is_revoked:
            return Refusal.revoked_token
        self._last_use.note(stored.id, now)
        return verified.access

    def _verified(self, token: str) -> _VerifiedToken:
        """Verify a token. Raises TokenError, FilterError, StorageError."""
        key_id = search_tokens.key_id_of(token)
        stored = self._remembered(
            f"id {key_id}", lambda: self._read(lambda: self.store.find_by_id(key_id)), is_kept=bool
        )
        if stored is None or stored.public_key is None:
            raise TokenError("no key with this id has a public key")
        claims = search_tokens.read_claims(token, stored.public_key, self._token_seconds)
        if claims.owner is not None and stored.owners is not None and claims.owner not in stored.owners:
            raise TokenError("its key may not name this owner of notes")
        viewer = Viewer(
            frozenset(claims.principals), make_filter(claims.filter), frozenset(claims.hidden), claims.owner
        )
        of_key = stored.access()
        ids = self._read(lambda: self.store.ids_of(claims.collections)).values()
        access = replace(
            of_key,
            scopes=tuple(Scope(each, Right.read) for each in ids if of_key.right_in(each) is not None),
            owners=() if claims.owner is None else (claims.owner,),
            may_grant=False,
            viewer=viewer,
            token=claims.jti,
            token_rate=claims.rate,
        )
        is_revoked = self._read(lambda: self.store.is_token_revoked(key_id, claims.jti))
        return _VerifiedToken(stored, claims, access, is_revoked)

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
        return self._remembered(
            api_keys.digest_of(key).hex(), lambda: self._read(lambda: self.store.find(key)), is_kept=bool
        )

    def _remembered(self, name: str, read: Callable[[], Value], *, is_kept: Callable[[Value], bool]) -> Value:
        """Return what was read at most `key_cache_seconds` ago, or what is read now."""
        now = self._monotonic()
        with self._lock:
            cached = self._cached.get(name)
            if cached is not None and now - cached[1] < self._cache_seconds:
                self._cached.move_to_end(name)
                value: Value = cached[0]
                return value
        found = read()
        with self._lock:
            self._cached.pop(name, None)
            if is_kept(found):
                self._cached[name] = (found, now)
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


EVERY_SECONDS = 60.0
"""Shortest time between two writes of the same key."""
COLLECT_SECONDS = 0.5
"""How long uses are collected before they are written together."""
RETRY_SECONDS = 10.0
"""Pause after a failed write."""
CLOSE_SECONDS = 2.0

Write = Callable[[Mapping[str, float]], None]


class LastUse:
    """Takes uses from any thread; `write` stores moments by id of the key."""

    def __init__(
        self, write: Write, *, every: float = EVERY_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write = write
        self._every = every
        self._clock = clock
        self._noted: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def note(self, key_id: str, at: float) -> None:
        """Note that a key was used at a moment. Never waits for the catalog, and never fails."""
        with self._changed:
            is_new = key_id not in self._noted
            self._noted[key_id] = at
            if is_new and not self._is_closed:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="last use of keys", daemon=True)
                    self._thread.start()
                self._changed.notify_all()

    def close(self) -> None:
        """Write what is noted, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        is_last = False
        while not is_last:
            with self._changed:
                while not self._is_closed and not self._due_keys():
                    self._changed.wait(self._seconds_to_next())
                if not self._is_closed:
                    # Collects what comes soon. `close` ends it.
                    self._changed.wait_for(lambda: self._is_closed, COLLECT_SECONDS)
                is_last = self._is_closed
                uses = {
                    key_id: self._noted.pop(key_id)
                    for key_id in (list(self._noted) if is_last else self._due_keys())
                }
                next_due = self._clock() + self._every
                self._due.update(dict.fromkeys(uses, next_due))
            if uses:
                self._store(uses)

    def _due_keys(self) -> list[str]:
        now = self._clock()
        return [key_id for key_id in self._noted if self._due.get(key_id, 0.0) <= now]

    def _seconds_to_next(self) -> float | None:
        """Seconds until a noted key is due; None if none is noted."""
        if not self._noted:
            return None
        return max(0.0, min(self._due.get(key_id, 0.0) for key_id in self._noted) - self._clock())

    def _store(self, uses: Mapping[str, float]) -> None:
        try:
            self._write(uses)
        except ShoalError as error:
            log.warning("last use of %d keys not written: %s", len(uses), error)
        except Exception:
            # The thread has to go on for later uses.
            log.exception("last use of %d keys not written", len(uses))
        else:
            return
        with self._changed:
            for key_id, at in uses.items():
                self._noted.setdefault(key_id, at)
                self._due[key_id] = self._clock() + RETRY_SECONDS
