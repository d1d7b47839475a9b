"""The keys in the catalog: create, list, revoke and rotate them, and find one by its digest.

Only SHA-256 digests of keys are stored, as in `SHOAL_API_KEYS`: 192 random bits cannot be guessed from a
digest. A key that was revoked stays in the table, so that a service whose keys are all revoked does not turn
into one without keys.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from shoal.access.rights import EVERYWHERE, Access, Scope
from shoal.collections.catalog import Catalog
from shoal.errors import CollectionNotFoundError, InvalidFieldError, NotFoundError
from shoal.models.keys import (
    MAX_NAME_CHARS,
    MAX_OWNERS,
    MAX_RATE,
    MAX_REVOKED_TOKENS,
    MAX_SCOPES,
    MAX_SECONDS,
    MIN_RATE,
    CreatedKey,
    KeyDetails,
    KeyPage,
    KeyScope,
    KeyState,
    Right,
)
from shoal.settings import Settings
from shoal.settings.service import MAX_TOKEN_SECONDS
from shoal.storage.database import Transaction, listed_in_parts
from shoal.support import search_tokens
from shoal.support.api_keys import digest_of, new_key
from shoal.support.clock import timestamp
from shoal.support.collection_names import MAIN

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
    public_key: str | None = None
    tokens_before: float | None = None

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
        stored.public_key,
        _moment_or_none(stored.tokens_before),
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
    public_key: str | None = None


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


def check_public_key(key: object) -> str | None:
    """Return an Ed25519 public key in base64url, None for an empty one. Raises InvalidFieldError."""
    if key == "":
        return None
    try:
        return search_tokens.checked_public_key(key)
    except ValueError as error:
        raise InvalidFieldError("public_key", str(error)) from None


def check_jti(jti: object) -> str:
    """Return the id of a token. Raises InvalidFieldError."""
    if not isinstance(jti, str) or not 1 <= len(jti) <= search_tokens.MAX_ID_CHARS:
        raise InvalidFieldError("jti", f"must be 1 to {search_tokens.MAX_ID_CHARS} characters")
    return jti


def _number(field: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidFieldError(field, "must be a number")
    return float(value)


def _shown(text: object) -> str:
    return repr(str(text)[:80])


FINGERPRINT_CHARS = 8

_COLUMNS = """
    id, name, digest, scopes, owner, created_at, expires_at, last_used_at, revoked_at, requests_per_second,
    public_key, tokens_before
"""
ANY = "SELECT 1 FROM keys LIMIT 1"
BY_DIGEST = f"SELECT {_COLUMNS} FROM keys WHERE digest = :digest"
BY_ID = f"SELECT {_COLUMNS} FROM keys WHERE id = :id"
PAGE = f"SELECT {_COLUMNS} FROM keys ORDER BY created_at DESC, id LIMIT :limit OFFSET :offset"
COUNT = "SELECT COUNT(*) FROM keys"
ACTIVE_PAGE = f"""
    SELECT {_COLUMNS} FROM keys
    WHERE (revoked_at IS NULL OR revoked_at > :now) AND (expires_at IS NULL OR expires_at > :now)
    ORDER BY created_at DESC, id LIMIT :limit OFFSET :offset
"""
ACTIVE_COUNT = """
    SELECT COUNT(*) FROM keys
    WHERE (revoked_at IS NULL OR revoked_at > :now) AND (expires_at IS NULL OR expires_at > :now)
"""
INSERT = """
    INSERT INTO keys (id, name, digest, scopes, owner, created_at, expires_at, requests_per_second,
                      public_key)
    VALUES (:id, :name, :digest, :scopes, :owner, :created_at, :expires_at, :requests_per_second,
            :public_key)
"""
REVOKE = """
    UPDATE keys SET revoked_at = :at WHERE id = :id AND (revoked_at IS NULL OR revoked_at > :at)
"""
USED = """
    UPDATE keys SET last_used_at = :at WHERE id = :id AND (last_used_at IS NULL OR last_used_at < :at)
"""
SET_PUBLIC_KEY = "UPDATE keys SET public_key = :public_key WHERE id = :id"
REVOKE_TOKENS_BEFORE = """
    UPDATE keys SET tokens_before = :before
    WHERE id = :id AND (tokens_before IS NULL OR tokens_before < :before)
"""
REVOKE_ONE = """
    INSERT INTO revoked_tokens (key_id, jti, expires_at) VALUES (:id, :jti, :expires_at)
    ON CONFLICT (key_id, jti) DO UPDATE SET expires_at = excluded.expires_at
"""
FORGET_TOKENS = "DELETE FROM revoked_tokens WHERE expires_at < :now"
COUNT_REVOKED_TOKENS = "SELECT COUNT(*) FROM revoked_tokens WHERE key_id = :id"
IS_REVOKED = "SELECT 1 FROM revoked_tokens WHERE key_id = :id AND jti = :jti"
OWN_COLLECTIONS = "SELECT id, name FROM collections WHERE id IN ({ids}) AND name IS NOT NULL"


def has_keys(settings: Settings) -> bool:
    """Whether the catalog of an installation has keys, so that its services need one. Raises StorageError."""
    with closing(Catalog(settings)) as catalog:
        return KeyStore(catalog).has_any()


class KeyStore:
    """The keys of an installation. May be shared between threads. Every method raises StorageError."""

    def __init__(self, catalog: Catalog, clock: Callable[[], float] = time.time) -> None:
        self._catalog = catalog
        self._clock = clock

    def has_any(self) -> bool:
        """Whether a key was ever created, revoked ones included."""
        database = self._catalog.existing_database()
        if database is None:
            return False
        with database.snapshot() as snapshot:
            return snapshot.value(ANY) is not None

    def create(
        self,
        name: str,
        scopes: Iterable[tuple[str, str]],
        *,
        owners: Sequence[str] | None = None,
        expires_at: float | None = None,
        requests_per_second: float | None = None,
    ) -> CreatedKey:
        """Create a key; `scopes` are pairs of a collection's name, or `*`, and a right.

        Raises InvalidFieldError. The key itself is in the result only: it cannot be read again.
        """
        pairs = list(scopes)
        new = NewKey(
            check_name(name),
            check_scopes(pairs, self.ids_of(pair[0] for pair in pairs)),
            check_owners(owners),
            check_expiry(expires_at, self._clock()),
            check_rate(requests_per_second),
        )
        with self._catalog.database().write() as transaction:
            key, stored = self._insert(transaction, new)
        return CreatedKey(key, self._details([stored])[0])

    def page(self, limit: int, offset: int = 0, *, only_active: bool = False) -> KeyPage:
        """List keys, newest first."""
        database = self._catalog.existing_database()
        if database is None:
            return KeyPage((), 0)
        values = {"now": self._clock()} if only_active else {}
        rows, count = (ACTIVE_PAGE, ACTIVE_COUNT) if only_active else (PAGE, COUNT)
        with database.snapshot() as snapshot:
            found = [_key(row) for row in snapshot.rows(rows, {**values, "limit": limit, "offset": offset})]
            total = int(snapshot.value(count, values))
        return KeyPage(self._details(found), total)

    def get(self, key_id: str) -> KeyDetails:
        """Return a key by its id. Raises NotFoundError."""
        return self._details([self._get(key_id)])[0]

    def _get(self, key_id: str) -> StoredKey:
        database = self._catalog.existing_database()
        row = None
        if database is not None:
            with database.snapshot() as snapshot:
                row = snapshot.first(BY_ID, {"id": key_id})
        if row is None:
            raise _no_key(key_id)
        return _key(row)

    def find(self, key: str) -> StoredKey | None:
        """Return the key that a client presents, whatever its state; None if there is none like it."""
        database = self._catalog.existing_database()
        if database is None:
            return None
        with database.snapshot() as snapshot:
            row = snapshot.first(BY_DIGEST, {"digest": digest_of(key).hex()})
        return None if row is None else _key(row)

    def find_by_id(self, key_id: str) -> StoredKey | None:
        """Return a key by its id, whatever its state; None if there is none."""
        try:
            return self._get(key_id)
        except NotFoundError:
            return None

    def set_public_key(self, key_id: str, public_key: object) -> KeyDetails:
        """Let search tokens of a key be signed with this key, instead of the one before; empty: with none.

        Raises NotFoundError, InvalidFieldError.
        """
        checked = check_public_key(public_key)
        self._get(key_id)
        with self._catalog.database().write() as transaction:
            transaction.execute(SET_PUBLIC_KEY, {"id": key_id, "public_key": checked})
        return self.get(key_id)

    def revoke_tokens(self, key_id: str, *, jti: object = None, before: float | None = None) -> KeyDetails:
        """Revoke the search token with an id, or all that were issued before a moment, by default now.

        Repeating it changes nothing. Raises NotFoundError, and InvalidFieldError for both at once, a moment
        in the future, and too many tokens.
        """
        if jti is not None and before is not None:
            raise InvalidFieldError("jti", "cannot be given together with `before`")
        self._get(key_id)
        now = self._clock()
        if before is not None and before > now + search_tokens.SKEW_SECONDS:
            raise InvalidFieldError("before", "must not be in the future")
        with self._catalog.database().write() as transaction:
            if jti is None:
                values = {"id": key_id, "before": now if before is None else before}
                transaction.execute(REVOKE_TOKENS_BEFORE, values)
            else:
                transaction.execute(FORGET_TOKENS, {"now": now})
                if transaction.value(COUNT_REVOKED_TOKENS, {"id": key_id}) >= MAX_REVOKED_TOKENS:
                    limit = f"{MAX_REVOKED_TOKENS:,} tokens are revoked, which is the limit"
                    raise InvalidFieldError("jti", f"{limit}; revoke all that were issued before now")
                expires_at = now + MAX_TOKEN_SECONDS + 2 * search_tokens.SKEW_SECONDS
                values = {"id": key_id, "jti": check_jti(jti), "expires_at": expires_at}
                transaction.execute(REVOKE_ONE, values)
        return self.get(key_id)

    def is_token_revoked(self, key_id: str, jti: str) -> bool:
        """Whether a search token of a key was revoked by its id."""
        with self._catalog.database().snapshot() as snapshot:
            return snapshot.value(IS_REVOKED, {"id": key_id, "jti": jti}) is not None

    def revoke(self, key_id: str) -> KeyDetails:
        """Revoke a key for good, from this moment on. Repeating it changes nothing. Raises NotFoundError."""
        self._get(key_id)
        with self._catalog.database().write() as transaction:
            transaction.execute(REVOKE, {"id": key_id, "at": self._clock()})
        return self.get(key_id)

    def rotate(self, key_id: str, *, grace_seconds: float = 0.0) -> CreatedKey:
        """Create a key with the name, scopes and limits of another, which ends after `grace_seconds`.

        Raises NotFoundError, and InvalidFieldError for a key that is no longer valid.
        """
        grace = check_grace(grace_seconds)
        self._get(key_id)
        with self._catalog.database().write() as transaction:
            row = transaction.first(BY_ID, {"id": key_id})
            if row is None:
                raise _no_key(key_id)
            old, now = _key(row), self._clock()
            state = old.state(now)
            if state is not KeyState.active:
                raise InvalidFieldError("id", f"the key is {state}; create another")
            new = NewKey(
                old.name, old.scopes, old.owners, old.expires_at, old.requests_per_second, old.public_key
            )
            key, stored = self._insert(transaction, new)
            transaction.execute(REVOKE, {"id": key_id, "at": now + grace})
        return CreatedKey(key, self._details([stored])[0])

    def record_uses(self, uses: Mapping[str, float]) -> None:
        """Store when keys were last used, by id. A moment before the stored one is ignored."""
        database = self._catalog.existing_database()
        if database is None or not uses:
            return
        with database.write() as transaction:
            transaction.write_many(USED, [{"id": key_id, "at": at} for key_id, at in uses.items()])

    def names_of(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the present names of collections by id; deleted ones are left out."""
        wanted = list(dict.fromkeys(ids))
        names = {MAIN: MAIN} if MAIN in wanted else {}
        others = [each for each in wanted if each not in (MAIN, EVERYWHERE)]
        database = self._catalog.existing_database()
        if database is None or not others:
            return names
        with database.snapshot() as snapshot:
            for inside, parameters in listed_in_parts("id", others):
                rows = snapshot.rows(OWN_COLLECTIONS.format(ids=inside), parameters)
                names |= {str(row["id"]): str(row["name"]) for row in rows}
        return names

    def _details(self, listed: Sequence[StoredKey]) -> tuple[KeyDetails, ...]:
        names = self.names_of(scope.collection for key in listed for scope in key.scopes)
        now = self._clock()
        return tuple(details_of(key, names, now) for key in listed)

    def ids_of(self, names: Iterable[str]) -> dict[str, str]:
        """Return the ids of the collections that exist among `names`."""
        ids = {}
        for name in dict.fromkeys(names):
            try:
                ids[name] = self._catalog.find(name).id
            except CollectionNotFoundError:
                continue
        return ids

    def _insert(self, transaction: Transaction, new: NewKey) -> tuple[str, StoredKey]:
        key = new_key()
        digest = digest_of(key).hex()
        stored = StoredKey(
            secrets.token_hex(8),
            new.name,
            digest[:FINGERPRINT_CHARS],
            new.scopes,
            new.owners,
            self._clock(),
            new.expires_at,
            None,
            None,
            new.requests_per_second,
            new.public_key,
        )
        transaction.execute(
            INSERT,
            {
                "id": stored.id,
                "name": stored.name,
                "digest": digest,
                "scopes": _scopes_text(stored.scopes),
                "owner": None if stored.owners is None else json.dumps(stored.owners),
                "created_at": stored.created_at,
                "expires_at": stored.expires_at,
                "requests_per_second": stored.requests_per_second,
                "public_key": stored.public_key,
            },
        )
        return key, stored


def _no_key(key_id: str) -> NotFoundError:
    return NotFoundError(f"there is no key with the id {key_id[:80]!r}")


def _scopes_text(scopes: Iterable[Scope]) -> str:
    return json.dumps([{"collection": scope.collection, "right": scope.right} for scope in scopes])


def _scopes(text: str) -> tuple[Scope, ...]:
    return tuple(Scope(str(each["collection"]), Right(each["right"])) for each in json.loads(text))


def _key(row: Any) -> StoredKey:
    return StoredKey(
        str(row["id"]),
        str(row["name"]),
        str(row["digest"])[:FINGERPRINT_CHARS],
        _scopes(row["scopes"]),
        None if row["owner"] is None else _owners(row["owner"]),
        float(row["created_at"]),
        row["expires_at"],
        row["last_used_at"],
        row["revoked_at"],
        row["requests_per_second"],
        row["public_key"],
        row["tokens_before"],
    )


def _owners(text: str) -> tuple[str, ...]:
    return tuple(map(str, json.loads(text)))
