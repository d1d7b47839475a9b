"""The synonyms of a library: add, change, delete, list, import and export.

Every change is one transaction. A search uses the entries of its snapshot.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shoal.errors import NotFoundError, SynonymConflictError, SynonymError
from shoal.filters.tree import check_characters
from shoal.library.library import Library
from shoal.models.synonyms import MAX_CHARS, MAX_GROUP, MAX_SYNONYMS, Synonym, SynonymImport, SynonymPage
from shoal.search import synonyms as stored
from shoal.search.request import check_id, check_page
from shoal.search.synonyms import MAX_WORDS, is_stop_words, key_of
from shoal.storage.database import Transaction
from shoal.support.clock import timestamp
from shoal.words.analysis import names_of

MAX_ENTRIES_PER_WORD = 16
"""Most entries that a word belongs to; a change compares the entry with all of them."""
MAX_REFUSED = 100
"""Refused entries of an import whose reasons are kept."""


class SynonymTable:
    """`engine.vocabulary.synonyms`."""

    def __init__(self, library: Library) -> None:
        self._database = library.database

    def list(self, *, q: str | None = None, limit: int = 50, offset: int = 0) -> SynonymPage:
        """A page of the entries, by id; with `q`, those with a word that contains it. Raises QueryError."""
        check_page(limit, offset)
        check_characters("q", q or "")
        with self._database.snapshot() as snapshot:
            return SynonymPage(*stored.list_page(snapshot, q, limit, offset))

    def get(self, synonym_id: int) -> Synonym:
        """One entry. Raises NotFoundError."""
        check_id("id", synonym_id)
        with self._database.snapshot() as snapshot:
            entry = stored.get(snapshot, synonym_id)
        if entry is None:
            raise _not_found(synonym_id)
        return entry

    def add(self, synonyms: Sequence[str], *, root: str | None = None) -> Synonym:
        """Add an entry: each of the `synonyms` also finds the others, or with a `root`, only the root finds
        them.

        Raises SynonymError for an invalid word, SynonymConflictError if another entry says the same or the
        opposite.
        """
        checked = checked_entry(root, synonyms)
        with self._database.write() as transaction:
            return add_entry(transaction, *checked)

    def replace(self, synonym_id: int, synonyms: Sequence[str], *, root: str | None = None) -> Synonym:
        """Replace an entry; arguments and errors are those of `add`. Raises NotFoundError."""
        check_id("id", synonym_id)
        root, words = checked_entry(root, synonyms)
        keys = _keys(root, words)
        with self._database.write() as transaction:
            if stored.get(transaction, synonym_id) is None:
                raise _not_found(synonym_id)
            _check_others(transaction, root, words, keys, without=synonym_id)
            stored.change(transaction, synonym_id, root, words, keys, timestamp())
            return _stored(transaction, synonym_id)

    def delete(self, synonym_id: int) -> None:
        """Delete an entry. Raises NotFoundError."""
        check_id("id", synonym_id)
        with self._database.write() as transaction:
            if not stored.delete(transaction, synonym_id):
                raise _not_found(synonym_id)

    def export(self) -> builtins.list[dict[str, Any]]:
        """All entries, as `import_all` takes them, by id."""
        with self._database.snapshot() as snapshot:
            entries, _ = stored.list_page(snapshot, None, MAX_SYNONYMS, 0)
        return [
            {**({} if entry.root is None else {"root": entry.root}), "synonyms": list(entry.synonyms)}
            for entry in entries
        ]

    def import_all(self, synonyms: Iterable[Mapping[str, Any]], *, replace: bool = False) -> SynonymImport:
        """Add entries, objects with `synonyms` and perhaps `root`, in one transaction.

        Entries that are there already are counted, and those that contradict others are refused with the
        reason. With `replace`, all former entries are deleted first. Raises SynonymError if an entry is
        invalid, with its place; nothing is changed then.
        """
        checked = [_checked_record(number, entry) for number, entry in enumerate(_bounded(synonyms))]
        n_stored = n_duplicates = 0
        refused: list[str] = []
        with self._database.write() as transaction:
            if replace:
                stored.delete_all(transaction)
            for number, (root, words) in enumerate(checked):
                if is_stored(transaction, root, words):
                    n_duplicates += 1
                    continue
                try:
                    add_entry(transaction, root, words)
                    n_stored += 1
                except SynonymConflictError as error:
                    refused.append(f"entry {number + 1}: {error}")
        return SynonymImport(n_stored, n_duplicates, tuple(refused[:MAX_REFUSED]))


def add_entry(transaction: Transaction, root: str | None, words: Sequence[str]) -> Synonym:
    """Add a checked entry. Raises SynonymConflictError."""
    if stored.count(transaction) >= MAX_SYNONYMS:
        raise SynonymConflictError(f"the library has {MAX_SYNONYMS:,} synonyms, which is the limit")
    keys = _keys(root, words)
    _check_others(transaction, root, words, keys)
    return _stored(transaction, stored.add(transaction, root, words, keys, timestamp()))


def is_stored(transaction: Transaction, root: str | None, words: Sequence[str]) -> bool:
    """Whether an entry with these words is stored."""
    return find_entry(transaction, root, words) is not None


def find_entry(transaction: Transaction, root: str | None, words: Sequence[str]) -> Synonym | None:
    """Return the entry with these words."""
    keys = _keys(root, words)
    same = (None if root is None else _key(root), {_key(word) for word in words})
    for _, _, entry in stored.of_keys(transaction, list(keys)):
        root_key = None if entry.root is None else _key(entry.root)
        if (root_key, {_key(word) for word in entry.synonyms}) == same:
            return entry
    return None


def _bounded(entries: object) -> list[Any]:
    if isinstance(entries, str | bytes | Mapping) or not isinstance(entries, Iterable):
        raise SynonymError("synonyms", "must be a list of entries")
    given = []
    for entry in entries:
        given.append(entry)
        if len(given) > MAX_SYNONYMS:
            raise SynonymError("synonyms", f"has more than {MAX_SYNONYMS:,} entries, which is the limit")
    return given


def _checked_record(number: int, entry: Any) -> tuple[str | None, tuple[str, ...]]:
    where = f"synonyms.{number}"
    if not isinstance(entry, Mapping):
        raise SynonymError(where, "must be an object with `synonyms`, and with `root` if it is one-way")
    # An export of GET /synonyms has these, too.
    unknown = entry.keys() - {"root", "synonyms", "id", "created_at", "updated_at"}
    if unknown:
        raise SynonymError(where, f"there is no {min(map(str, unknown))[:40]!r}; known are root, synonyms")
    try:
        return checked_entry(entry.get("root"), entry.get("synonyms"))
    except SynonymError as error:
        raise SynonymError(f"{where}.{error.field}", error.message) from None


def checked_entry(root: object, synonyms: object) -> tuple[str | None, tuple[str, ...]]:
    """The root and the words of an entry, with single spaces. Raises SynonymError."""
    if isinstance(synonyms, str | bytes | Mapping) or not isinstance(synonyms, Iterable):
        raise SynonymError("synonyms", "must be a list of words and phrases")
    words: list[str] = []
    for word in synonyms:
        if len(words) == MAX_GROUP:
            raise SynonymError("synonyms", f"has more than {MAX_GROUP} words and phrases, which is the limit")
        words.append(_checked_word("synonyms", word))
    first = None if root is None else _checked_word("root", root)
    least = 1 if first is not None else 2
    if len(words) < least:
        what = "at least one" if first is not None else "at least two, or a `root` and one"
        raise SynonymError("synonyms", f"needs {what}")
    by_key: dict[str, str] = {} if first is None else {_key(first): first}
    for word in words:
        same = by_key.setdefault(_key(word), word)
        if same is not word:
            raise SynonymError("synonyms", f"{word!r} and {same!r} are the same to a search")
    useful = [word for word in words if not is_stop_words(word)]
    if first is not None and len(useful) < len(words):
        blamed = next(word for word in words if word not in useful)
        raise SynonymError("synonyms", f"{blamed!r} has only common words, which are not searched for")
    for word in words if first is None else [first]:
        if is_stop_words(word):
            raise SynonymError(
                "synonyms" if first is None else "root",
                f"{word!r} has only common words; only in capitals, such as WHO, can it have synonyms",
            )
    if not useful:
        raise SynonymError("synonyms", "have only common words, which are not searched for")
    return first, tuple(words)


def _checked_word(field: str, word: object) -> str:
    if not isinstance(word, str):
        raise SynonymError(field, "must be words and phrases as strings")
    shown = " ".join(word.split())
    if len(shown) > MAX_CHARS:
        raise SynonymError(field, f"{shown[:40]!r}… has more than {MAX_CHARS} characters, which is the limit")
    if any(not letter.isprintable() for letter in shown):
        raise SynonymError(field, f"{shown[:40]!r} has a character that cannot be printed")
    tokens = names_of(shown)
    if not tokens:
        raise SynonymError(field, f"{shown[:40]!r} has no letter or digit")
    if len(tokens) > MAX_WORDS:
        raise SynonymError(field, f"{shown!r} has {len(tokens)} words; the limit is {MAX_WORDS}")
    return shown


def _key(word: str) -> str:
    return key_of(names_of(word))


def _keys(root: str | None, words: Sequence[str]) -> dict[str, bool]:
    """The stems of each word of an entry, and whether it finds the others."""
    keys = {_key(word): root is None for word in words}
    return keys if root is None else {_key(root): True, **keys}


def _check_others(
    transaction: Transaction,
    root: str | None,
    words: Sequence[str],
    keys: Mapping[str, bool],
    *,
    without: int | None = None,
) -> None:
    """Compare an entry with those that share words with it. Raises SynonymConflictError."""
    by_entry: dict[int, tuple[Synonym, set[str]]] = {}
    n_entries: dict[str, int] = {}
    for key, _, entry in stored.of_keys(transaction, list(keys)):
        if entry.id != without:
            by_entry.setdefault(entry.id, (entry, set()))[1].add(key)
            n_entries[key] = n_entries.get(key, 0) + 1
    spelling = {_key(word): word for word in (*words, *([] if root is None else [root]))}
    for key, n in n_entries.items():
        if n >= MAX_ENTRIES_PER_WORD:
            raise SynonymConflictError(
                f"{spelling[key]!r} is in {n} entries, which is the limit; change one of them"
            )
    own_root = None if root is None else _key(root)
    for entry, shared in by_entry.values():
        other_root = None if entry.root is None else _key(entry.root)
        if own_root is not None and own_root == other_root:
            raise SynonymConflictError(f"{root!r} has synonyms in entry {entry.id}; change that entry")
        if own_root is not None and other_root is not None and {own_root, other_root} <= shared:
            raise SynonymConflictError(
                f"entry {entry.id} says that {entry.root!r} also finds {root!r}; for both directions, make "
                "it one entry without a root"
            )
        if len(shared) > 1 and own_root is None and other_root is None:
            both = " and ".join(repr(spelling[key]) for key in sorted(shared)[:2])
            raise SynonymConflictError(f"{both} are together in entry {entry.id} already; change that entry")
        roots = {each for each in (own_root, other_root) if each is not None}
        if len(roots) == 1 and len(shared) > 1 and roots <= shared:
            blamed = spelling[min(shared - roots)]
            raise SynonymConflictError(
                f"entry {entry.id} has {spelling[min(roots)]!r} and {blamed!r}, too: the one makes them find "
                "each other, the other only in one direction; keep one of them"
            )


def _stored(transaction: Transaction, synonym_id: int) -> Synonym:
    entry = stored.get(transaction, synonym_id)
    if entry is None:
        raise _not_found(synonym_id)
    return entry


def _not_found(synonym_id: int) -> NotFoundError:
    return NotFoundError(f"there is no synonym {synonym_id}")
