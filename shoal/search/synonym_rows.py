"""The synonyms of a library: entries, and their words by stems."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from shoal.models.synonyms import Synonym
from shoal.storage.column_values import compact_json
from shoal.storage.database import Snapshot, Transaction, listed_in_parts
from shoal.storage.document_queries import literal

COLUMNS = "id, root, words, created_at, updated_at"
COUNT = "SELECT COUNT(*) FROM synonyms"
ANY = "SELECT EXISTS (SELECT 1 FROM synonyms)"
GET = f"SELECT {COLUMNS} FROM synonyms WHERE id = :id"
# Entries in the order of their ids; with a pattern, those with a word that contains it.
LIST = f"""
    SELECT {COLUMNS} FROM synonyms
    WHERE (:pattern IS NULL OR root LIKE :pattern ESCAPE '!' OR words LIKE :pattern ESCAPE '!')
    ORDER BY id LIMIT :limit OFFSET :offset
"""
COUNT_LISTED = """
    SELECT COUNT(*) FROM synonyms
    WHERE :pattern IS NULL OR root LIKE :pattern ESCAPE '!' OR words LIKE :pattern ESCAPE '!'
"""
ADD = """
    INSERT INTO synonyms (root, words, created_at, updated_at) VALUES (:root, :words, :now, :now) RETURNING id
"""
CHANGE = "UPDATE synonyms SET root = :root, words = :words, updated_at = :now WHERE id = :id"
DELETE = "DELETE FROM synonyms WHERE id = :id"
DELETE_ALL = "DELETE FROM synonyms"
ADD_WORDS = "INSERT INTO synonym_words (key, synonym_id, is_source) VALUES (:key, :id, :is_source)"
DELETE_WORDS = "DELETE FROM synonym_words WHERE synonym_id = :id"
# The entries that a word belongs to.
OF_KEYS = f"""
    SELECT w.key, w.is_source, {", ".join(f"s.{name}" for name in COLUMNS.split(", "))}
    FROM synonym_words w JOIN synonyms s ON s.id = w.synonym_id
    WHERE w.key IN ({{keys}}) ORDER BY w.key, s.id
"""


class FoundSynonym(NamedTuple):
    """A word of an entry: its stems, whether it finds the others, and the entry."""

    key: str
    is_source: bool
    entry: Synonym


def any_synonyms(snapshot: Snapshot) -> bool:
    """Return whether the library has any."""
    return bool(snapshot.value(ANY))


def count(snapshot: Snapshot) -> int:
    """Count the entries."""
    return int(snapshot.value(COUNT))


def get(snapshot: Snapshot, synonym_id: int) -> Synonym | None:
    """Return an entry."""
    row = snapshot.first(GET, {"id": synonym_id})
    return None if row is None else _entry(row)


def list_page(snapshot: Snapshot, q: str | None, limit: int, offset: int) -> tuple[tuple[Synonym, ...], int]:
    """Return a page of the entries, and how many there are; with `q`, those with a word that contains it."""
    pattern = f"%{literal(q)}%" if q else None
    rows = snapshot.rows(LIST, {"pattern": pattern, "limit": limit, "offset": offset})
    return tuple(map(_entry, rows)), int(snapshot.value(COUNT_LISTED, {"pattern": pattern}))


def of_keys(snapshot: Snapshot, keys: Sequence[str]) -> list[FoundSynonym]:
    """Return the entries that have words with these stems."""
    found: list[FoundSynonym] = []
    for names, parameters in listed_in_parts("key", keys):
        rows = snapshot.rows(OF_KEYS.format(keys=names), parameters)
        found += [FoundSynonym(row["key"], bool(row["is_source"]), _entry(row)) for row in rows]
    return found


def add(
    transaction: Transaction, root: str | None, words: Sequence[str], keys: Mapping[str, bool], now: str
) -> int:
    """Store an entry and return its id. `keys`: the stems of its words, and whether they find the others."""
    synonym_id = int(transaction.value(ADD, {"root": root, "words": compact_json(list(words)), "now": now}))
    _add_words(transaction, synonym_id, keys.items())
    return synonym_id


def change(
    transaction: Transaction,
    synonym_id: int,
    root: str | None,
    words: Sequence[str],
    keys: Mapping[str, bool],
    now: str,
) -> None:
    """Replace an entry."""
    given = {"id": synonym_id, "root": root, "words": compact_json(list(words)), "now": now}
    transaction.execute(CHANGE, given)
    transaction.execute(DELETE_WORDS, {"id": synonym_id})
    _add_words(transaction, synonym_id, keys.items())


def delete(transaction: Transaction, synonym_id: int) -> bool:
    """Delete an entry; return whether there was one."""
    return transaction.execute(DELETE, {"id": synonym_id}) > 0


def delete_all(transaction: Transaction) -> int:
    """Delete all entries; return how many there were."""
    return transaction.execute(DELETE_ALL)


def _add_words(transaction: Transaction, synonym_id: int, keys: Iterable[tuple[str, bool]]) -> None:
    rows = [{"key": key, "id": synonym_id, "is_source": int(is_source)} for key, is_source in keys]
    transaction.write_many(ADD_WORDS, rows)


def _entry(row: Any) -> Synonym:
    words = tuple(json.loads(row["words"]))
    return Synonym(row["id"], row["root"], words, row["created_at"], row["updated_at"])
