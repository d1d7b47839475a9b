"""The learn stage: add the observations of a wave to the sums, and decide its words again.

It reads and computes outside transactions, and writes its rows in short ones under the next revision and
version. The transaction that ends the stage publishes them. A process killed at any point leaves rows without
effect; the next learn deletes them and comes to the same result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from shoal.errors import LeaseLostError
from shoal.jobs.queue import job_items, statements
from shoal.jobs.queue.claims import WaveRef
from shoal.jobs.stages.contract import NotPreparedError, WaveHandler
from shoal.jobs.stages.discover import Discovery
from shoal.learning.evidence import Evidence, total
from shoal.learning.vocabulary import VocabularyChanges, changes, learn, related_words
from shoal.storage import evidence, observations, vocabulary
from shoal.storage.database import Database, Snapshot, Transaction
from shoal.storage.staleness import Outdated, find_outdated, mark_outdated
from shoal.storage.vocabulary import EvidenceRow, LearnedWord, Version, VocabularyEntry
from shoal.support.clock import timestamp_at

WORDS_DECIDED = 50_000
"""Words decided at a time, when all of them are."""
EVIDENCE_ROWS = 2_000
LEARNED_WORDS = 500
OBSERVED_TEXTS = 20
KEYS = 5_000
"""Rows written or deleted in one transaction: about 50 ms each."""

TOTALS = ""


@dataclass(frozen=True, slots=True)
class Texts:
    """Ids of observed texts to add to the sums and to remove from them."""

    gained: list[int]
    lost: list[int]


@dataclass(frozen=True, slots=True)
class Claim:
    """A wave and the owner of its lease."""

    wave: WaveRef
    owner: str

    def check(self, snapshot: Snapshot) -> None:
        """Raise LeaseLostError if the owner has lost the wave."""
        wave = self.wave
        place = {"job_id": wave.job_id, "wave": wave.n, "stage": wave.stage.value, "owner": self.owner}
        if snapshot.first(statements.HOLDS_WAVE, place) is None:
            raise LeaseLostError("another worker has taken the wave")


@dataclass(slots=True)
class VocabularyUpdate:
    """An update of the vocabulary that is not published yet.

    Its rows belong to the revision after `revision`. If words are learned or retired (`is_new`), they belong
    to the version after `before`, which has `n_words` words. `changed` are the words that differ, and
    `outdated` the chunks that contain them."""

    claim: Claim
    revision: int
    before: Version
    texts: Texts
    n_words: int
    is_new: bool = False
    next_word_id: int | None = None
    changed: set[str] = field(default_factory=set)
    outdated: Outdated | None = None


@dataclass(frozen=True, slots=True)
class _Start:
    """The state before a learn.

    `is_void`: the sums come from another build of lagoon's data and do not count; neither do `words_void`.
    """

    revision: int
    version: Version
    is_void: bool
    words_void: list[str]


class Learning(WaveHandler):
    """The learn stage of a wave or, with `afresh`, the relearn stage: decide every word again."""

    def __init__(
        self, database: Database, discovery: Discovery, *, afresh: bool = False, prune: bool = False
    ) -> None:
        """`prune`: delete observations once they are in the sums and their document is stored."""
        self._database = database
        self._discovery = discovery
        self._afresh = afresh
        self._prune = prune

    def prepare_wave(self, wave: WaveRef, owner: str) -> VocabularyUpdate | None:
        """Do everything but publish; None if this process cannot learn.

        Raises LeaseLostError if another learn begins.
        """
        if not self._discovery.is_possible:
            return None
        claim = Claim(wave, owner)
        start = self._begin(claim)
        with self._database.snapshot() as snapshot:
            n_words = vocabulary.count_words(snapshot, start.version.number)
            update = VocabularyUpdate(
                claim, start.revision, start.version, self._texts(snapshot, wave), n_words
            )
            self._learn(snapshot, start, update)
            if update.is_new:
                words = update.changed.union(start.words_void)
                update.outdated = find_outdated(snapshot, words, self._discovery.scorer.data_checksum)
        return update

    def store_wave(self, transaction: Transaction, wave: WaveRef, prepared: VocabularyUpdate | None) -> int:
        """Publish an update; return the version that scores the wave.

        Raises NotPreparedError if the state it builds on has changed.
        """
        if prepared is None:
            return Version(*transaction.first(vocabulary.NEWEST)).number
        evidence.check_learning_lock(transaction, prepared.claim.owner)
        if not evidence.publish_revision(
            transaction, prepared.claim.owner, prepared.revision + 1, self._discovery.basis
        ):
            raise NotPreparedError
        texts = prepared.texts
        if texts.lost:
            gone = observations.ids(transaction, observations.GONE, basis=self._discovery.basis)
            if not set(texts.lost) <= set(gone):
                raise NotPreparedError
        if observations.execute_for(transaction, observations.ADD_TO_SUMS, texts.gained) != len(texts.gained):
            raise NotPreparedError
        observations.execute_for(transaction, observations.REMOVE, texts.lost)
        number = self._publish_words(transaction, wave, prepared)
        if self._afresh:
            job_items.record_decided(
                transaction, wave.job_id, prepared.revision + 1, self._discovery.decided_with
            )
            job_items.add_stale_documents(transaction, wave.job_id, wave.n)
        return number

    def _publish_words(self, transaction: Transaction, wave: WaveRef, prepared: VocabularyUpdate) -> int:
        """Publish the version of an update; return the number of the newest version."""
        if not prepared.is_new:
            return prepared.before.number
        version = Version(prepared.before.number + 1, self._discovery.scorer.data_checksum)
        place = {"job_id": wave.job_id, "wave": wave.n, "n_words": prepared.n_words}
        vocabulary.insert_version(transaction, version, now=timestamp_at(transaction.now()), **place)
        assert prepared.outdated is not None, "`prepare_wave` has found them"
        mark_outdated(transaction, prepared.outdated, self._discovery.scorer.data_checksum)
        return version.number

    def cleanup(self, prepared: VocabularyUpdate | None) -> None:
        """Delete rows that a published update makes useless. Otherwise the next learn deletes them."""
        if prepared is None:
            return
        if self._prune:
            for ids in _slices(prepared.texts.gained, OBSERVED_TEXTS):
                with self._database.write() as transaction:
                    observations.execute_for(transaction, observations.PRUNE, ids)
        self._remove_useless()

    # Before learning

    def _begin(self, claim: Claim) -> _Start:
        """Take the learning lock, and delete the rows of an interrupted learn or another build of the
        data."""
        with self._database.write() as transaction:
            claim.check(transaction)
            before = evidence.acquire_learning_lock(transaction, claim.owner)
            is_void = before.basis != self._discovery.basis
            if is_void:
                evidence.invalidate(transaction, claim.owner)
        if is_void:
            self._delete_evidence(claim, beyond=-1)
            self._forget_other_basis(claim)
        elif before.learner is not None:
            self._delete_evidence(claim, beyond=before.revision)
        newest: Version = self._read(vocabulary.newest)
        if before.learner is not None:
            self._delete_words(claim, newest.number)
        self._remove_useless()
        words_void: list[str] = []
        if newest.data_checksum not in (None, self._discovery.scorer.data_checksum):
            known = self._read(lambda snapshot: vocabulary.read_words(snapshot, newest.number))
            words_void = [one.word for one in known]
        return _Start(before.revision, newest, is_void, words_void)

    def _delete_evidence(self, claim: Claim, beyond: int) -> None:
        last = evidence.FIRST_KEY
        while keys := self._read(partial(evidence.keys, after=last, beyond=beyond, limit=KEYS)):
            self._write(claim, partial(evidence.delete, rows=keys))
            last = keys[-1]

    def _delete_words(self, claim: Claim, version: int) -> None:
        parameters = {"version": version, "limit": KEYS}
        while ids := self._read(
            lambda snapshot: [row[0] for row in snapshot.tuples(vocabulary.UNPUBLISHED_ROWS, parameters)]
        ):
            self._write(claim, partial(vocabulary.delete_unpublished, row_ids=ids, version=version))

    def _forget_other_basis(self, claim: Claim) -> None:
        parameters = {"basis": self._discovery.basis, "limit": KEYS}
        while ids := self._read(
            lambda snapshot: observations.ids(snapshot, observations.OF_OTHER_BASIS, **parameters)
        ):
            self._write(
                claim,
                lambda transaction, ids=ids: observations.execute_for(  # type: ignore[misc]
                    transaction, observations.REMOVE, ids
                ),
            )

    def _remove_useless(self) -> None:
        parameters = {"basis": self._discovery.basis, "limit": OBSERVED_TEXTS}
        while ids := self._read(
            lambda snapshot: observations.ids(snapshot, observations.USELESS, **parameters)
        ):
            rows = [{"id": observed_id, "basis": self._discovery.basis} for observed_id in ids]
            with self._database.write() as transaction:
                transaction.write_many(observations.DELETE_USELESS, rows)

    def _read(self, read: Callable[[Snapshot], Any]) -> Any:
        with self._database.snapshot() as snapshot:
            return read(snapshot)

    def _write(self, claim: Claim, write: Callable[[Transaction], object]) -> None:
        """Write in a short transaction. Raises LeaseLostError once another learn has begun, or another
        worker has the wave."""
        with self._database.write() as transaction:
            evidence.check_learning_lock(transaction, claim.owner)
            claim.check(transaction)
            write(transaction)

    # Learning

    def _texts(self, snapshot: Snapshot, wave: WaveRef) -> Texts:
        place = {"job_id": wave.job_id, "wave": wave.n, "basis": self._discovery.basis}
        gained = observations.ids(snapshot, observations.OF_WAVE, **place)
        gained += observations.ids(snapshot, observations.STRAYS, **place)
        return Texts(gained, observations.ids(snapshot, observations.GONE, basis=self._discovery.basis))

    def _learn(self, snapshot: Snapshot, start: _Start, update: VocabularyUpdate) -> None:
        """Write the changes of sums and vocabulary, under the next revision and version."""
        gained = total(observations.rows_of(snapshot, update.texts.gained))
        lost = total(observations.rows_of(snapshot, update.texts.lost))
        touched = {*gained.words, *lost.words, *start.words_void}
        touched |= related_words(touched)
        before = self._in_force(snapshot, start, [TOTALS, *sorted(touched)])
        after = before + gained - lost
        self._write_evidence(update, {*gained.keys, *lost.keys}, after)
        # Skip words that have no evidence before or after this wave.
        affected_words = touched.intersection([*before.words, *after.words, *start.words_void])
        self._write_words(snapshot, update, affected_words, after)
        if not self._afresh or start.is_void:
            return
        if not (gained.keys or lost.keys or start.words_void) and job_items.is_revision_decided(
            snapshot, start.revision, self._discovery.decided_with
        ):
            # An interrupted rescore has decided all words from the same evidence.
            return
        totals = Evidence.of(after.rows()[:1])
        last = TOTALS
        while words := evidence.words_after(snapshot, last, start.revision, WORDS_DECIDED):
            last = words[-1]
            rest = set(words) - touched
            of_rest = self._in_force(snapshot, start, sorted(rest | related_words(rest)))
            self._write_words(snapshot, update, rest, totals + of_rest)

    def _in_force(self, snapshot: Snapshot, start: _Start, words: Sequence[str]) -> Evidence:
        return total(evidence.in_force(snapshot, [] if start.is_void else words, start.revision))

    def _write_evidence(
        self, update: VocabularyUpdate, changed: set[tuple[int, str]], after: Evidence
    ) -> None:
        rows = [row for row in after.rows() if (row.kind, row.word) in changed]
        nothing_left = changed.difference((row.kind, row.word) for row in rows)
        rows += [EvidenceRow(kind, word, 0, 0, 0, 0, 0, (), (), ()) for kind, word in sorted(nothing_left)]
        for some in _slices(rows, EVIDENCE_ROWS):
            self._write(update.claim, partial(evidence.write, rows=some, revision=update.revision + 1))

    def _write_words(
        self, snapshot: Snapshot, update: VocabularyUpdate, words: set[str], after: Evidence
    ) -> None:
        """Decide words, and write those that differ from the published ones."""
        number = update.before.number
        known = {one.word: one for one in vocabulary.find_words(snapshot, sorted(words), number)}
        in_force = {word: one.learned for word, one in known.items() if one.learned is not None}
        assert self._discovery.learner is not None, "`prepare_wave` has checked it"
        decided = learn(after, words, self._discovery.learner, self._discovery.settings)
        changed = changes(in_force, words, decided)
        if not (changed.learned or changed.retired):
            return
        n_new = sum(word.word not in in_force for word in changed.learned)
        update.n_words += n_new - len(changed.retired)
        update.is_new = True
        update.changed.update((word.word for word in changed.learned), changed.retired)
        ids = self._word_ids(snapshot, update, changed, known)
        floor = vocabulary.oldest_in_use(snapshot, number)
        now = timestamp_at(self._database.now())
        for some in _slices(changed.learned, LEARNED_WORDS):
            rows = [(ids[word.word], word) for word in some]
            self._write(
                update.claim,
                partial(_write_slice, learned=rows, retired=[], version=number + 1, floor=floor, now=now),
            )
        for names in _slices(changed.retired, LEARNED_WORDS):
            gone = [(ids[word], word) for word in names]
            self._write(
                update.claim,
                partial(_write_slice, learned=[], retired=gone, version=number + 1, floor=floor, now=now),
            )

    def _word_ids(
        self,
        snapshot: Snapshot,
        update: VocabularyUpdate,
        changed: VocabularyChanges,
        known: Mapping[str, VocabularyEntry],
    ) -> dict[str, int]:
        """The id of each changed word. A word keeps its id for ever; new ids follow in the order of words."""
        n_base = self._discovery.scorer.n_words
        ids = {word: one.word_id for word, one in known.items()}
        if update.next_word_id is None:
            largest = vocabulary.largest_word_id(snapshot, update.before.number)
            update.next_word_id = max(n_base, 0 if largest is None else largest + 1)
        for word in changed.learned:
            # With other data of lagoon, a base word may have taken the id.
            if ids.get(word.word, -1) < n_base:
                ids[word.word] = update.next_word_id
                update.next_word_id += 1
        return ids


def _write_slice(
    transaction: Transaction,
    *,
    learned: Sequence[tuple[int, LearnedWord]],
    retired: Sequence[tuple[int, str]],
    version: int,
    floor: int,
    now: str,
) -> None:
    words = [*(word.word for _, word in learned), *(word for _, word in retired)]
    vocabulary.delete_superseded(transaction, words, floor)
    vocabulary.write_learned(transaction, learned, version, now=now)
    vocabulary.write_retired(transaction, retired, version, now=now)


Item = TypeVar("Item")


def _slices(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
