"""Scopes of keys when collections exchange their names. The keys themselves are in `shoal.access`."""

from __future__ import annotations

import json

from shoal.storage.database import Transaction

WITH_SCOPES_IN = "SELECT id, scopes FROM keys WHERE scopes LIKE :first OR scopes LIKE :second"
SET_SCOPES = "UPDATE keys SET scopes = :scopes WHERE id = :id"


def swap_scopes(transaction: Transaction, first: str, second: str) -> None:
    """Let the keys of two collections, by id, exchange them.

    For the transaction in which the collections exchange their names: a key for `books` then opens the
    collection that is called `books` from now on.
    """
    other = {first: second, second: first}
    patterns = {"first": f'%"{first}"%', "second": f'%"{second}"%'}
    for row in transaction.rows(WITH_SCOPES_IN, patterns):
        scopes = json.loads(row["scopes"])
        for scope in scopes:
            scope["collection"] = other.get(scope["collection"], scope["collection"])
        transaction.execute(SET_SCOPES, {"id": row["id"], "scopes": json.dumps(scopes)})
