"""Other words that a search takes for those of the query: synonyms of the library, and near words.

A word and its synonyms are one term (`shoal.index.matching`). If several words of the query are one entry,
such as *world health organization*, each of them matches the synonyms of the entry. The longest entry at a
place counts. Synonyms of synonyms are not looked up. Phrases, `title:` and excluded words, and codes are
exact. A stop word can be an entry in capitals: WHO is not *who*.

A word with a typing error is in no chunk, as typed or inflected, and unknown to the scorer. The nearest word
of the library takes its place, with less weight, in the ranking by words and in the query's profile. Words
that a chunk contains, words that the scorer knows, phrases, titles, exclusions and codes are never changed,
so most queries have no near words. `benchmarks/typing_errors.py` chose the weights. With `prefix`, the last
word also stands for the words that begin with it, like synonyms.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lagoon.tokens import STOP_WORDS
from shoal.index.matching import (
    OTHER_SHARE,
    IndexTerm,
    Matches,
    NearForm,
    find,
    forms_of_term,
    forms_starting_with,
    has_form,
    is_name,
    near_forms,
    unite,
)
from shoal.models.queries import NearWord, UsedSynonym, UsedTranslation
from shoal.models.synonyms import Synonym
from shoal.search.library_index import LibraryIndex
from shoal.search.matched_terms import find_inflections
from shoal.search.passage_languages import in_languages
from shoal.search.query_language import ParsedQuery, Term, plain_runs
from shoal.search.signals import find_matches
from shoal.storage.column_values import compact_json
from shoal.storage.database import Snapshot, Transaction, listed_in_parts
from shoal.storage.document_queries import literal
from shoal.words.analysis import folded, names_of, stems_of, tokens_of
from shoal.words.terms import other_numbers, word_pattern

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
MAX_WORDS = 8
"""Most words of a phrase in an entry."""
MAX_QUERY_WORDS = 64
"""Words of a query that synonyms are looked up for."""
MAX_FORMS = 64
"""Most different synonyms that one search looks up; each costs as much as a word of the query."""
WORDS_SHOWN = 3
"""Synonyms of a word that a warning names."""
TYPO, PREFIX = "typo", "prefix"
REPLACED_WEIGHT = 0.8
"""Factor of the BM25 of a word in place of one with a typing error."""
OTHER_WEIGHT = 0.4
"""Factor of the other words that are as near."""
MAX_OTHERS = 2
MAX_COMPLETIONS = 8
MIN_PREFIX = 2
MAX_JOINED = 16
"""Pairs of neighbouring words that are looked up as one."""
MAX_CORRECTED = 8
"""Words of a query that near words are looked for; each takes a millisecond or two."""
MAX_CANDIDATES = 5
_ACRONYM = re.compile(r"[a-z]?[A-Z]{2,}s?")
"""An acronym or its plural. Stems do not join these: RNAs has no vowel before the *s* to a stemmer."""
_INSIDE = "-'’"
"""What may be between the letters of words."""
_AROUND = "'\".,;:!?()[]{}“”‘’"


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
    # What the library has as a synonym counts in any language, so the last of equal forms stays.
    groups = {
        term: tuple({form: form for form in others}.values()) for term, others in synonyms.items() if others
    }
    of_library = {use.form for use in uses}
    translations = tuple(each for each in parsed.translations if each.form not in of_library)
    parsed = dataclasses.replace(parsed, synonyms=groups, translations=translations)
    return parsed, tuple(dict.fromkeys(uses))


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
) -> tuple[dict[Term, Matches], tuple[UsedSynonym, ...], tuple[UsedTranslation, ...]]:
    """Return the matches of the terms with those of their synonyms, and what was used, also of other
    languages; for a viewer, of that what is in visible passages: an acronym may stand in hidden ones
    alone."""
    forms = itertools.chain.from_iterable(parsed.synonyms.values())
    found = find_matches(library, list(dict.fromkeys([*forms, *(use.form for use in uses)])))
    for form, languages in parsed.languages_of_forms.items():
        found[form] = in_languages(found[form], languages)
    united = {}
    for term, own in matches.items():
        others: list[Matches] = []
        inflected: list[Matches] = []
        for form in parsed.synonyms.get(term, ()):
            (inflected if form.is_inflection else others).append(found[form])
        united[term] = unite(own, others, inflected)
    used = tuple(
        UsedSynonym(use.typed, use.form.text, use.synonym_id, found[use.form].n_chunks)
        for use in uses
        if library.viewer is None or found[use.form].n_chunks
    )
    translated = tuple(
        UsedTranslation(
            each.typed,
            each.form.written,
            each.language,
            in_languages(found[each.form], [each.language]).n_chunks,
        )
        for each in parsed.translations
    )
    return united, used, tuple(dict.fromkeys(translated))


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


def is_known(library: LibraryIndex, word: str) -> bool:
    """Return whether an index has a folded word of letters as it is or in another inflection. A stem joins
    other words, too: that of *invoces* is that of *invoices*."""
    if has_form(library.index, word):
        return True
    (term,) = stems_of([word])
    forms = forms_of_term(library.index, term)
    return any(has_form(library.index, form) for form in find_inflections([word], forms))


def correct_typing_errors(
    library: LibraryIndex, parsed: ParsedQuery, missing: Sequence[Term]
) -> tuple[ParsedQuery, tuple[NearWord, ...]]:
    """Return a query with near words in place of missing terms, and what was changed.

    `missing` are terms of the query that no chunk contains as typed and the scorer does not know.
    """
    codes = _codes(parsed.about)
    near_words: list[NearWord] = []
    for term in missing[:MAX_CORRECTED]:
        is_exact = term in (*parsed.required, *parsed.identifiers) or term in parsed.parts
        if len(term.tokens) == 1 and not is_exact and term.text not in codes:
            words = _near_words(library, term.text)
            near_words += words
            parsed = _with_near_words(parsed, term, words)
    return parsed, tuple(near_words)


def complete_last_word(
    library: LibraryIndex, parsed: ParsedQuery, counts: Mapping[Term, int]
) -> tuple[ParsedQuery, tuple[NearWord, ...]]:
    """Return a query whose last word also stands for the words that begin with it, and these words, the most
    frequent first. They count as the word itself.

    If no chunk contains the last word itself, the most frequent of them takes its place. A query that ends
    with white space or punctuation is complete, and so is a phrase.
    """
    tokens = tokens_of(parsed.about)
    last = parsed.about.split()[-1:]
    # A stop word is a token in small letters: *us* of getUs.
    if not tokens or parsed.is_text or not parsed.about.lower().endswith(tokens[-1].lower()):
        return parsed, ()
    # The beginning of a code is all of it: E10 of E1042, 2.0 of 2.0.1.
    typed = Term((last[0].lstrip(_AROUND),)) if _is_code(last[0]) else Term((tokens[-1],))
    if Term(typed.tokens, in_title=True) in parsed.required:
        return parsed, ()
    prefix = folded(typed.text)
    if len(prefix) < MIN_PREFIX:
        return parsed, ()
    own = stems_of(typed.tokens)[0]
    found = [form for form, _ in forms_starting_with(library.index, prefix, 2 * MAX_COMPLETIONS)]
    forms = [
        form for form, term in zip(found, stems_of(found), strict=True) if term != own and form != prefix
    ]
    matches = dict(
        zip(forms, find(library.index, [IndexTerm(stems_of([form])) for form in forms]), strict=True)
    )
    words = [
        NearWord(typed.text, form, PREFIX, 0, OTHER_SHARE, matches[form].n_chunks, replaces=False)
        for form in sorted(forms, key=lambda form: (-matches[form].n_chunks, form))
        if matches[form].n_chunks
    ][:MAX_COMPLETIONS]
    if not words:
        return parsed, ()
    about = parsed.about
    if not counts.get(typed):
        words[0] = dataclasses.replace(words[0], replaces=True)
        about = about[: len(about) - len(typed.text)] + words[0].word
    parts = {Term((token,)) for token in tokens_of(typed.text)} - {typed}
    terms = [term for term in parsed.terms if term not in parts]
    completed = tuple(Term((word.word,)) for word in words)
    return dataclasses.replace(
        parsed,
        about=about,
        terms=tuple(terms if typed in terms else [*terms, typed]),
        synonyms={**parsed.synonyms, typed: (*parsed.synonyms.get(typed, ()), *completed)},
    ), tuple(words)


def with_joined_words(library: LibraryIndex, parsed: ParsedQuery) -> ParsedQuery:
    """Return a query whose neighbouring words also stand for the one word that they make, as far as the
    library has it, identifiers that it lacks for their parts side by side, and acronyms and irregular nouns
    for their plural and singular: *node js* for nodejs, *XR 300* for XR300, TBX90 for *TBX 90*, RNAs for RNA,
    *shelf* for shelves."""
    synonyms = {term: list(others) for term, others in parsed.synonyms.items()}
    for pair in parsed.pairs[:MAX_JOINED]:
        first, second = (Term((token,)) for token in pair.tokens)
        joined = "".join(map(folded, pair.tokens)).lower()
        # *grade D* is not *graded*.
        is_other = stems_of([joined]) != stems_of(first.tokens)
        if (
            joined.isalnum()
            and is_other
            and {first, second} <= {*parsed.terms}
            and _is_in(library, (joined,))
        ):
            for term in (first, second):
                synonyms.setdefault(term, []).append(Term((joined,)))
    for term in parsed.identifiers[:MAX_JOINED]:
        parts = parts_of(term)
        if parts and not _is_in(library, term.tokens) and _is_in(library, parts):
            synonyms.setdefault(term, []).append(Term(parts))
    for term in parsed.terms:
        others = () if len(term.tokens) > 1 or term.in_title else other_numbers(folded(term.text))
        # Both numbers of *matrix* rank worse than the one typed.
        if others and not _is_in(library, term.tokens):
            numbers = [Term((form,)) for form in others if _is_in(library, (form,))]
            synonyms.setdefault(term, []).extend(numbers)
        if len(term.tokens) == 1 and not term.in_title and _ACRONYM.fullmatch(term.text):
            other = term.text[:-1] if term.text.endswith("s") else f"{term.text}s"
            # GA has no plural in a library with the word gas.
            is_acronym = other[0].islower() or is_name(library.index, folded(other))
            if is_acronym and stems_of([other]) != stems_of(term.tokens) and _is_in(library, (other,)):
                synonyms.setdefault(term, []).append(Term((other,)))
    return dataclasses.replace(
        parsed, synonyms={term: tuple(dict.fromkeys(others)) for term, others in synonyms.items()}
    )


def parts_of(identifier: Term) -> tuple[str, ...]:
    """Return the parts of an identifier that are it if they stand side by side; none of a number, because
    *30, 31* is not 30.31."""
    parts = tuple(tokens_of(identifier.text))
    return parts if len(parts) > 1 and any(map(str.isalpha, parts)) else ()


def _is_in(library: LibraryIndex, tokens: Sequence[str]) -> bool:
    (found,) = find(library.index, [IndexTerm(stems_of(tokens))])
    return found.n_chunks > 0


def describe_typing_errors(near_words: Sequence[NearWord]) -> list[str]:
    """Return a warning for each typing error that was taken for a word."""
    return [
        f"searched for {near.typed}, which stands nowhere, as {near.word}"
        for near in near_words
        if near.kind == TYPO and near.replaces
    ]


def _near_words(library: LibraryIndex, typed: str) -> list[NearWord]:
    """The words of the library nearest to one that stands nowhere, the likeliest first; one of each stem."""
    near = near_forms(library.index, folded(typed), MAX_CANDIDATES)
    of_term: dict[str, NearForm] = {}
    for each, term in zip(near, stems_of(each.form for each in near), strict=True):
        of_term.setdefault(term, each)
    matches = dict(zip(of_term, find(library.index, [IndexTerm((term,)) for term in of_term]), strict=True))
    ranked = sorted(
        (each for each in of_term.items() if matches[each[0]].n_chunks),
        key=lambda each: (
            each[1].edits,
            not each[1].keeps_first,
            -matches[each[0]].n_chunks,
            each[1].form,
        ),
    )
    return [
        NearWord(
            typed,
            form.form,
            TYPO,
            form.edits,
            OTHER_WEIGHT if place else REPLACED_WEIGHT,
            matches[term].n_chunks,
            replaces=not place,
        )
        for place, (term, form) in enumerate(ranked[: 1 + MAX_OTHERS])
        if form.edits == ranked[0][1].edits
    ]


def _with_near_words(parsed: ParsedQuery, typed: Term, words: Sequence[NearWord]) -> ParsedQuery:
    """A query with near words of one of its terms."""
    own = {stems_of(term.tokens) for term in parsed.terms if not term.in_title}
    also = {
        term: word.weight
        for word in words
        if not word.replaces
        for term in (Term((word.word,)),)
        if stems_of(term.tokens) not in own
    }
    parsed = dataclasses.replace(parsed, also={**parsed.also, **also})
    if not words or not words[0].replaces:
        return parsed
    new = Term((words[0].word,))
    is_new = stems_of(new.tokens) not in own

    def replaced(terms: Iterable[Term]) -> tuple[Term, ...]:
        return tuple(new if term == typed else term for term in terms if is_new or term != typed)

    pairs = (
        Term(tuple(new.text if token == typed.text else token for token in pair.tokens))
        for pair in parsed.pairs
    )
    frequencies = {new if term == typed else term: n for term, n in parsed.frequencies.items()}
    return dataclasses.replace(
        parsed,
        about=_replace_word(parsed.about, typed.text, new.text),
        plain=_replace_word(parsed.plain, typed.text, new.text),
        terms=replaced(parsed.terms),
        pairs=tuple(dict.fromkeys(pairs)),
        frequencies=frequencies if is_new else parsed.frequencies,
        term_weights={**parsed.term_weights, new: words[0].weight} if is_new else parsed.term_weights,
    )


def _replace_word(text: str, typed: str, word: str) -> str:
    """The text with another word in place of one, in any case."""
    pieces = word_pattern(text).split(text)
    is_typed = folded(typed)
    return "".join(
        word if place % 2 and folded(piece) == is_typed else piece for place, piece in enumerate(pieces)
    )


def _codes(about: str) -> frozenset[str]:
    """The words of a query that belong to codes: with digits, all in capitals, or identifiers."""
    return frozenset(
        token for piece in about.split() if _is_code(piece.strip(_AROUND)) for token in tokens_of(piece)
    )


def _is_code(piece: str) -> bool:
    """Whether a piece of a query is not words as people write them: NATO, camelCase, B-17, a_b, a.b."""
    words = "".join(letter for letter in piece if letter not in _INSIDE)
    return (
        piece[1:] != piece[1:].lower() or "".join(tokens_of(words)) != words or any(map(str.isdigit, words))
    )
