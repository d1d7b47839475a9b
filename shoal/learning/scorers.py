"""Scorers with the learned words of a library at a given vocabulary version, and words as shown to users.

A process that scores documents keeps the words of the last few versions and loads only changes. A search
needs only the words of its query: it looks them up at the newest version, in the snapshot it searches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lagoon.tokens import TokenStream, plurals, singular, token_list, tokenise, without_clitic
from shoal.errors import NotFoundError
from shoal.models.vocabulary import Association, LearnedWord, WordEvidence, WordPage, WordUser
from shoal.scorer import Scorer
from shoal.storage import vocabulary
from shoal.storage.database import Database, Query, Snapshot
from shoal.storage.vocabulary import VocabularyEntry

if TYPE_CHECKING:
    from shoal.storage.vocabulary import LearnedWord as Row


N_KEPT = 3
"""Versions that a process keeps: overlapping jobs are scored with one version each."""

LONGEST_COMPOUND = 3
"""Words of a learned compound, at most."""


MAX_LOOKED_UP_TEXTS = 8
"""Texts that are read with a scorer of only their own words, before a scorer with all words of the version is
built.

Building that takes as long as scoring dozens of notes (5 ms for a thousand words), too long for a wave of one
note.
"""


@dataclass(slots=True)
class _Kept:
    """The words of a version with their ids, and the scorer with these words once it is built."""

    words: dict[str, tuple[int, Any]]
    scorer: Scorer | None = None
    n_texts: int = 0


class Vocabularies:
    """Scorers of a process by vocabulary version. Safe to share between threads."""

    def __init__(self, database: Database, scorer: Scorer) -> None:
        """`scorer` has no learned words. A scorer without lagoon's `with_custom_words` serves every
        version."""
        self._database = database
        self.base = scorer
        self._kept: dict[int, _Kept] = {}
        self._lock = threading.Lock()

    def newest(self) -> int:
        """Number of the newest version. Its words are loaded now, because the database may drop the words of
        a version that no wave is scored with once there is a newer one."""
        with self._lock, self._database.snapshot() as snapshot:
            number = vocabulary.newest(snapshot).number
            if number and self.base.can_learn:
                self._words(number, snapshot)
            return number

    def at(self, number: int) -> Any:
        """The scorer with the words of a version; the base scorer if they were learned with other data."""
        if number == 0 or not self.base.can_learn:
            return self.base
        with self._lock, self._database.snapshot() as snapshot:
            kept = self._words(number, snapshot)
            if kept.scorer is None:
                kept.scorer = self._with(kept.words.values())
            return kept.scorer

    def reading(self, number: int, texts: Sequence[TokenStream]) -> Any:
        """A scorer that reads these texts as `at(number)` does. It may lack learned words that are not in
        them."""
        if number == 0 or not self.base.can_learn:
            return self.base
        with self._lock, self._database.snapshot() as snapshot:
            kept = self._words(number, snapshot)
            kept.n_texts += 1
            if kept.scorer is None and kept.n_texts <= MAX_LOOKED_UP_TEXTS:
                tokens = ([stream.forms[i] for i in stream.ids.tolist()] for stream in texts)
                possible = set().union(*map(_possible_words, tokens))
                return self._with(kept.words[word] for word in sorted(possible & kept.words.keys()))
        return self.at(number)

    def _with(self, words: Iterable[tuple[int, Any]]) -> Any:
        from shoal.learning.vocabulary import with_vocabulary

        given = list(words)
        return with_vocabulary(self.base, given) if given and self.base.can_learn else self.base

    def _words(self, number: int, snapshot: Snapshot) -> _Kept:
        kept = self._kept.pop(number, None) or _Kept(self._load(number, snapshot))
        # Reinserting moves the version to the end, so that the least recently used one is evicted.
        self._kept[number] = kept
        if len(self._kept) > N_KEPT:
            del self._kept[next(iter(self._kept))]
        return kept

    def _load(self, number: int, snapshot: Snapshot) -> dict[str, tuple[int, Any]]:
        if vocabulary.version(snapshot, number).data_checksum != self.base.data_checksum:
            return {}
        earlier = max((kept for kept in self._kept if kept < number), default=None)
        words = dict(self._kept[earlier].words) if earlier is not None else {}
        if words and earlier is not None:
            changed = vocabulary.changed_words(snapshot, earlier, number)
        else:
            changed = vocabulary.read_words(snapshot, number)
        for entry in changed:
            words.pop(entry.word, None)
            if entry.learned is not None:
                words[entry.word] = entry.word_id, entry.learned
        return words


def scorer_for(
    text: str, snapshot: Snapshot, scorer: Scorer, is_seen: Callable[[str], bool] | None = None
) -> Any:
    """A scorer that reads a short text as a scorer with all words of the newest version does.

    `is_seen`: which learned words may be known; None: all."""
    possible = _words_to_find(text, scorer)
    if not possible or not scorer.can_learn:
        return scorer
    newest, entries = vocabulary.find_newest(snapshot, possible)
    words = [
        (entry.word_id, entry.learned)
        for entry in entries
        if entry.learned is not None and (is_seen is None or is_seen(entry.word))
    ]
    if not words or newest.data_checksum != scorer.data_checksum:
        return scorer
    from shoal.learning.vocabulary import with_vocabulary

    return with_vocabulary(scorer, words)


def scorer_queries(text: str, scorer: Scorer) -> list[Query]:
    """What `scorer_for` reads."""
    return vocabulary.newest_queries(_words_to_find(text, scorer))


def _words_to_find(text: str, scorer: Scorer) -> list[str]:
    return sorted(_possible_words(token_list(text))) if scorer.can_learn else []


def _possible_words(tokens: Sequence[str]) -> set[str]:
    """Every form under which a word or compound of a text, given by its tokens, may have been learned."""
    possible: set[str] = set()
    for length in range(1, LONGEST_COMPOUND + 1):
        possible.update(map(" ".join, zip(*(tokens[first:] for first in range(length)), strict=False)))
    # Only the last word of a compound may be inflected.
    bases = {form: found for form in set(tokens) if (found := _base_forms(form))}
    for i, token in enumerate(tokens):
        if token in bases:
            for first in range(max(0, i - LONGEST_COMPOUND + 1), i + 1):
                possible.update(" ".join([*tokens[first:i], base]) for base in bases[token])
    return possible


def _base_forms(form: str) -> set[str]:
    """A form without a genitive, and the singulars it may be a plural of; nothing for other forms."""
    if not (form.endswith("s") or "'" in form):
        return set()
    bases = {form, without_clitic(form)}
    for _ in range(2):
        bases |= {head for form in bases if (head := singular(form)) is not None}
    return bases


DOCUMENTS_PER_WORD = 3
"""Documents listed as evidence of a word; the counts cover all documents."""

OTHER_DATA = (
    "these words were learned with other lagoon data and are not used in searches; "
    "`shoal rescore` learns them again"
)


CountChunks = Callable[[str], Mapping[int, int]]
"""Counts the chunks that contain the words of a text side by side, in any inflection, by document id, most
first."""


def list_words(
    snapshot: Snapshot,
    scorer: Scorer,
    count_chunks: CountChunks | None,
    *,
    q: str | None = None,
    limit: int = 50,
    offset: int = 0,
) -> WordPage:
    """Words of the newest version that contain the normal form of `q`, most occurrences first.

    Without `count_chunks`, no documents are listed as evidence.
    """
    newest = vocabulary.newest(snapshot)
    form = None if q is None else normal_form(q)
    if form == "":
        return WordPage((), 0, newest.number)
    entries, total = vocabulary.list_words(snapshot, newest.number, q=form, limit=limit, offset=offset)
    is_other = total > 0 and newest.data_checksum != scorer.data_checksum
    words = tuple(_describe(snapshot, scorer, count_chunks, entries, newest))
    return WordPage(words, total, newest.number, (OTHER_DATA,) if is_other else ())


def find(
    snapshot: Snapshot, scorer: Scorer, count_chunks: CountChunks, words: Iterable[str]
) -> dict[str, LearnedWord]:
    """Find those of `words` (normal forms) that are learned at the newest version."""
    newest = vocabulary.newest(snapshot)
    entries = vocabulary.find_words(snapshot, sorted(set(words)), newest.number)
    return {learned.word: learned for learned in _describe(snapshot, scorer, count_chunks, entries, newest)}


def find_learned_word(
    snapshot: Snapshot, scorer: Scorer, count_chunks: CountChunks, text: str
) -> LearnedWord:
    """Find the learned word or compound that equals a text, in singular or plural. Raises NotFoundError."""
    matches = scorer_for(text, snapshot, scorer).explain_words(text)
    learned = [match for match in matches if match.status == "custom"]
    first, last = min((m.start for m in matches), default=0), max((m.end for m in matches), default=0)
    for match in learned:
        if (match.start, match.end) == (first, last):
            return find(snapshot, scorer, count_chunks, [match.word])[match.word]
    raise NotFoundError(_not_learned(text, [m.status for m in matches], [m.word for m in learned]))


def _not_learned(text: str, statuses: Sequence[str], learned: Sequence[str]) -> str:
    whole = normal_form(text)
    if not whole:
        return f"{text!r} contains no word"
    if learned:
        return f"{whole!r} was not learned as a whole, but {', '.join(map(repr, learned))} was"
    if statuses == ["known"]:
        return f"{whole!r} is in the dictionary; only words that are not in it are learned"
    if statuses == ["stop"]:
        return f"{whole!r} is a stop word; stop words are never learned"
    if statuses == ["number"]:
        return f"{whole!r} is a number; numbers are never learned"
    return (
        f"{whole!r} was not learned: too few documents use it, or the text around it has no topic in common"
    )


def normal_form(text: str) -> str:
    """Normal form of a text: lower case without accents, one space between tokens; '' without tokens."""
    stream = tokenise(text)
    return " ".join(stream.forms[i] for i in stream.ids.tolist())


def _describe(
    snapshot: Snapshot,
    scorer: Scorer,
    count_chunks: CountChunks | None,
    entries: Iterable[VocabularyEntry],
    newest: vocabulary.Version,
) -> list[LearnedWord]:
    rows = [entry.learned for entry in entries if entry.learned is not None]
    since = vocabulary.from_versions(snapshot, [row.word for row in rows], newest.number)
    is_of_this_data = newest.data_checksum == scorer.data_checksum
    names = {reef.id: reef.name for reef in scorer.reefs} if is_of_this_data else {}
    return [_learned_word(snapshot, count_chunks, row, since[row.word], names) for row in rows]


def _learned_word(
    snapshot: Snapshot, count_chunks: CountChunks | None, row: Row, since: int, names: Mapping[int, str]
) -> LearnedWord:
    users: Sequence[WordUser] = ()
    if count_chunks is not None:
        users = vocabulary.documents_using(
            snapshot,
            count_chunks(row.word),
            _forms(row.word),
            is_compound=row.is_compound,
            limit=DOCUMENTS_PER_WORD,
        )
    return LearnedWord(
        word=row.word,
        is_compound=row.is_compound,
        is_name=row.is_name,
        n_occurrences=row.n_occurrences,
        n_documents=row.n_documents,
        specificity=row.specificity,
        from_version=since,
        reefs=tuple(
            Association(reef.reef_id, names.get(reef.reef_id), round(reef.strength, 6))
            for reef in row.reefs
            if not row.is_name
        ),
        evidence=WordEvidence(row.n_occurrences, row.n_documents, tuple(users)),
    )


def _forms(word: str) -> list[str]:
    """A word and its regular plurals, which count as its evidence."""
    before, space, last = word.rpartition(" ")
    return [word, *(before + space + plural for plural in plurals(last))]
