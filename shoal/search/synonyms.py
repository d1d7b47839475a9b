"""Synonyms in a search: a word of the query also matches the synonyms that the library has for it.

A word and its synonyms are one term (`shoal.index.matching`). If several words of the query are one entry,
such as *world health organization*, each of them matches the synonyms of the entry. The longest entry at a
place counts. Synonyms of synonyms are not looked up. Phrases, `title:` and excluded words, and codes are
exact. A stop word can be an entry in capitals: WHO is not *who*.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lagoon.tokens import STOP_WORDS
from shoal.index.matching import Matches, unite
from shoal.models.queries import UsedSynonym
from shoal.models.synonyms import Synonym
from shoal.search.lexical_ranking import find_matches
from shoal.search.library_index import LibraryIndex
from shoal.search.query_language import ParsedQuery, Term, plain_runs
from shoal.storage.column_values import compact_json
from shoal.storage.database import Snapshot, Transaction, listed_in_parts
from shoal.storage.document_queries import literal
from shoal.words.typed import folded, names_of, stems_of

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


MAX_WORDS = 8
"""Most words of a phrase in an entry."""
MAX_QUERY_WORDS = 64
"""Words of a query that synonyms are looked up for."""
MAX_FORMS = 64
"""Most different synonyms that one search looks up; each costs as much as a word of the query."""
WORDS_SHOWN = 3
"""Synonyms of a word that a warning names."""


@dataclass(frozen=True, slots=True)
class Use:
    """Words of a query, as typed, with a synonym of an entry."""

    typed: str
    form: Term
    synonym_id: int


def key_of(tokens: Sequence[str]) -> str:
    """Return the stems of the words of an entry, as the index has them."""
    return " ".join(stems_of(tokens))


def is_stop_words(form: str) -> bool:
    """Whether a word or phrase has only words that are too common to be searched for."""
    return all(folded(token) in STOP_WORDS for token in names_of(form))


def add_synonyms(snapshot: Snapshot, parsed: ParsedQuery) -> tuple[ParsedQuery, tuple[Use, ...]]:
    """Return a query whose terms have their synonyms, and what was used; the same query without any."""
    if not any_synonyms(snapshot):
        return parsed, ()
    runs = plain_runs(parsed)
    ends = itertools.accumulate(map(len, runs))
    runs = [run[: max(0, MAX_QUERY_WORDS + len(run) - end)] for run, end in zip(runs, ends, strict=True)]
    sources = _find_sources(snapshot, runs)
    if not sources:
        return parsed, ()
    forms: set[tuple[str, ...]] = set()
    synonyms = {term: list(others) for term, others in parsed.synonyms.items()}
    plain = {stems_of(term.tokens): term for term in parsed.terms if _may_widen(parsed, term)}
    uses: list[Use] = []
    for tokens, key in _longest(runs, sources):
        own = list(dict.fromkeys(plain[stem] for stem in _stem_keys(tokens) if stem in plain))
        others = list(_forms(key, sources[key]))
        typed = " ".join(tokens)
        for form, synonym_id in others:
            if own and _is_taken(form, forms):
                uses.append(Use(typed, form, synonym_id))
                for term in own:
                    synonyms.setdefault(term, []).append(form)
    groups = {term: tuple(dict.fromkeys(others)) for term, others in synonyms.items() if others}
    return dataclasses.replace(parsed, synonyms=groups), tuple(dict.fromkeys(uses))


def terms_with_synonyms(snapshot: Snapshot, library: LibraryIndex, parsed: ParsedQuery) -> frozenset[Term]:
    """Return the terms of a query with a synonym that some chunk contains."""
    widened, _ = add_synonyms(snapshot, parsed)
    forms = dict.fromkeys(form for others in widened.synonyms.values() for form in others)
    found = find_matches(library, list(forms))
    return frozenset(
        term for term, others in widened.synonyms.items() if any(found[form].n_chunks for form in others)
    )


def unite_forms(
    library: LibraryIndex, parsed: ParsedQuery, matches: dict[Term, Matches], uses: Sequence[Use]
) -> tuple[dict[Term, Matches], tuple[UsedSynonym, ...]]:
    """Return the matches of the terms with those of their synonyms, and what was used."""
    forms = itertools.chain.from_iterable(parsed.synonyms.values())
    found = find_matches(library, list(dict.fromkeys([*forms, *(use.form for use in uses)])))
    united = {
        term: unite(own, [found[form] for form in parsed.synonyms.get(term, ())])
        for term, own in matches.items()
    }
    used = tuple(
        UsedSynonym(use.typed, use.form.text, use.synonym_id, found[use.form].n_chunks) for use in uses
    )
    return united, used


def describe(used: Sequence[UsedSynonym]) -> list[str]:
    """Return a warning for each word that was also searched for as synonyms that some passage contains."""
    by_typed: dict[str, list[str]] = {}
    for each in used:
        if each.n_chunks:
            by_typed.setdefault(each.typed, []).append(each.synonym)
    return [
        f"searched for {typed} also as {_joined(words)}, by the synonyms of this library"
        for typed, words in by_typed.items()
    ]


def _joined(words: Sequence[str]) -> str:
    more = len(words) - WORDS_SHOWN
    shown = ", ".join(words[:WORDS_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown


def _may_widen(parsed: ParsedQuery, term: Term) -> bool:
    return len(term.tokens) == 1 and not term.in_title and term not in parsed.required


def _is_taken(form: Term, forms: set[tuple[str, ...]]) -> bool:
    """Whether a form is among those that this search looks up."""
    key = stems_of(form.tokens)
    if key not in forms and len(forms) >= MAX_FORMS:
        return False
    forms.add(key)
    return True


def _find_sources(snapshot: Snapshot, runs: Sequence[Sequence[str]]) -> dict[str, list[Synonym]]:
    """The entries that words of a query have synonyms in, by the stems of these words."""
    keys = {key_of(run[i : i + n]): None for run in runs for i, n in _places(run)}
    sources: dict[str, list[Synonym]] = {}
    for found in of_keys(snapshot, list(keys)):
        if found.is_source:
            sources.setdefault(found.key, []).append(found.entry)
    return sources


def _places(run: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The starts and lengths of the phrases in a run of words."""
    return ((i, n) for i in range(len(run)) for n in range(1, min(MAX_WORDS, len(run) - i) + 1))


def _longest(runs: Sequence[Sequence[str]], sources: Mapping[str, object]) -> Iterator[tuple[list[str], str]]:
    """Yield the entries in the runs of a query, the longest at each place, with their words as typed."""
    for run in runs:
        i = 0
        while i < len(run):
            for n in range(min(MAX_WORDS, len(run) - i), 0, -1):
                key = key_of(run[i : i + n])
                if key in sources:
                    yield list(run[i : i + n]), key
                    break
            else:
                n = 1
            i += n


def _stem_keys(tokens: Sequence[str]) -> list[tuple[str, ...]]:
    return [(stem,) for stem in stems_of(tokens)]


def _forms(key: str, entries: Sequence[Synonym]) -> Iterator[tuple[Term, int]]:
    """The other words of some entries, without stop words, each with the entry."""
    for entry in entries:
        for word in entry.synonyms:
            tokens = tuple(names_of(word))
            if key_of(tokens) != key and not is_stop_words(word):
                yield Term(tokens), entry.id
