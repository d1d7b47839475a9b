"""The keys in the catalog: create, list, revoke and rotate them, and find one by its digest.

Only SHA-256 digests of keys are stored, as in `SHOAL_API_KEYS`: 192 random bits cannot be guessed from a
digest. A key that was revoked stays in the table, so that a service whose keys are all revoked does not turn
into one without keys.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

from shoal.access import keys
from shoal.access.keys import NewKey, StoredKey
from shoal.access.rights import EVERYWHERE, Scope
from shoal.collections.catalog import Catalog
from shoal.errors import CollectionNotFoundError, InvalidFieldError, NotFoundError
from shoal.models.keys import CreatedKey, KeyDetails, KeyPage, KeyState, Right
from shoal.settings import Settings
from shoal.storage.database import Transaction, listed_in_parts
from shoal.support.api_keys import digest_of, new_key
from shoal.support.collection_names import MAIN

FINGERPRINT_CHARS = 8

_COLUMNS = """
    id, name, digest, scopes, owner, created_at, expires_at, last_used_at, revoked_at, requests_per_second
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
    INSERT INTO keys (id, name, digest, scopes, owner, created_at, expires_at, requests_per_second)
    VALUES (:id, :name, :digest, :scopes, :owner, :created_at, :expires_at, :requests_per_second)
"""
REVOKE = """
    UPDATE keys SET revoked_at = :at WHERE id = :id AND (revoked_at IS NULL OR revoked_at > :at)
"""
USED = """
    UPDATE keys SET last_used_at = :at WHERE id = :id AND (last_used_at IS NULL OR last_used_at < :at)
"""
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
            keys.check_name(name),
            keys.check_scopes(pairs, self._ids(pair[0] for pair in pairs)),
            keys.check_owners(owners),
            keys.check_expiry(expires_at, self._clock()),
            keys.check_rate(requests_per_second),
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
        grace = keys.check_grace(grace_seconds)
        self._get(key_id)
        with self._catalog.database().write() as transaction:
            row = transaction.first(BY_ID, {"id": key_id})
            if row is None:
                raise _no_key(key_id)
            old, now = _key(row), self._clock()
            state = old.state(now)
            if state is not KeyState.active:
                raise InvalidFieldError("id", f"the key is {state}; create another")
            new = NewKey(old.name, old.scopes, old.owners, old.expires_at, old.requests_per_second)
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
        return tuple(keys.details_of(key, names, now) for key in listed)

    def _ids(self, names: Iterable[str]) -> dict[str, str]:
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
    )


def _owners(text: str) -> tuple[str, ...]:
    return tuple(map(str, json.loads(text)))
