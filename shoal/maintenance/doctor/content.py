"""Checks of stored documents, learned words, totals and notes, and of every value.

Text is authoritative; everything else can be derived from it. The chunks of a document hold its text, each
its own and what stands before it. So a chunk that is gone cannot be rebuilt, nor can one whose text has
changed. The totals that triggers maintain must equal a count, and the evidence of learned words must match
the observations it was summed from.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from shoal.chunking.analysis import analyze, rescore, scored_document
from shoal.errors import DatabaseUnavailableError, DiskFullError
from shoal.learning.evidence import Evidence, total
from shoal.learning.scorers import Vocabularies
from shoal.maintenance.doctor.findings import MAX_EXAMPLES, Check, CheckContext, Finding, Severity, examples
from shoal.maintenance.stored_values import Damaged, damaged_texts, invalid_values
from shoal.models.documents import DocumentDraft, ScoredDocument
from shoal.notes import note_maintenance
from shoal.notes.drafts import hash_of
from shoal.notes.note_maintenance import ScoredNote, rebuild_notes
from shoal.notes.texts import TitledText, score_texts
from shoal.storage import document_writer, evidence, observations, vocabulary
from shoal.storage.database import Snapshot
from shoal.storage.document_queries import get_draft, tags_of
from shoal.storage.document_writer import metadata_of
from shoal.storage.profiles import (
    BATCH,
    MAX_REEFS,
    PROBABILITY_STEPS,
    RECORD,
    Profiles,
    is_complete,
    reef_ids_of,
    write_all,
)
from shoal.storage.staleness import count_other_data, count_stale
from shoal.storage.totals import count_again, wrong_totals
from shoal.storage.vocabulary import StoredRow
from shoal.support.clock import timestamp

NORM_TOLERANCE = 1e-3

PLACES_OF = "SELECT id, start_char, end_char FROM chunks WHERE document_id = :document_id"
SCORES = """
    SELECT c.document_id, c.profile, c.reef_ids, c.top_reef_id, c.top_reef_probability, c.norm, c.metadata,
           s.path
    FROM chunks c JOIN sections s ON s.id = c.section_id ORDER BY c.document_id
"""
DELETE_CHUNKS = "DELETE FROM chunks WHERE document_id = :document_id"
READ_TOGETHER = 500
# Observed texts whose `stored` flag is wrong.
WRONG_STORED = """
    SELECT o.id FROM observed_documents o
    WHERE o.state IN ('pending', 'learned')
      AND (o.stored = 1) <> EXISTS (SELECT 1 FROM documents d WHERE d.content_hash = o.content_hash)
"""
SET_STORED = f"""
    UPDATE observed_documents SET stored = 1 - stored WHERE id IN ({WRONG_STORED})
"""
# Observed texts that count in the evidence.
IN_EVIDENCE = """
    SELECT id FROM observed_documents WHERE state IN ('learned', 'withdrawn') AND basis = :basis ORDER BY id
"""
# The number of these whose observations were pruned: their share of the evidence is unknown.
PRUNED = f"""
    SELECT COUNT(*) FROM observed_documents o WHERE o.id IN ({IN_EVIDENCE})
      AND NOT EXISTS (SELECT 1 FROM observed_words w WHERE w.observed_id = o.id)
"""
WORDS = "SELECT DISTINCT word FROM word_evidence WHERE revision <= :revision ORDER BY word"
N_LEARNING = "SELECT COUNT(*) FROM learning"
RESET_LEARNING = (
    "DELETE FROM learning",
    """INSERT INTO learning (id, revision, basis, learner)
       SELECT 1, COALESCE(MAX(revision), 0), NULL, NULL FROM word_evidence""",
)
# Invalidates the evidence, so that everything is learned again.
INVALIDATE_EVIDENCE = (
    "UPDATE learning SET basis = NULL, learner = NULL",
    "UPDATE observed_documents SET state = 'removed' WHERE state = 'withdrawn'",
    # Their observations were pruned: a rescore observes their documents again.
    """UPDATE observed_documents SET state = 'removed' WHERE state = 'learned'
       AND NOT EXISTS (SELECT 1 FROM observed_words w WHERE w.observed_id = observed_documents.id)""",
    "UPDATE observed_documents SET state = 'pending' WHERE state = 'learned'",
)
SET_N_WORDS = "UPDATE vocabulary_versions SET n_words = :n WHERE version = :version"


def _texts(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        damaged = list(damaged_texts(snapshot))
    lost = [document for document in damaged if document.is_lost]
    inconsistent = [document for document in damaged if not document.is_lost]
    findings = []
    if lost:
        findings.append(
            Finding(
                "texts",
                f"texts of documents have changed since they were stored: {_ids(lost)}",
                "their SHA-256 differs from that of the accepted text: they were damaged, or edited by hand",
                "restore a backup, or add them from the source: `shoal delete ID`, then `shoal ingest` the "
                "file again",
                n=len(lost),
                examples=examples(f"document {document.document_id}: {document.reason}" for document in lost),
            )
        )
    if inconsistent:
        findings.append(
            Finding(
                "texts",
                f"passages of documents do not match their text: {_ids(inconsistent)}",
                "searches miss parts of these documents or cite the wrong place; the texts themselves are "
                "intact",
                "--repair rebuilds the passages and scores of these documents from their text",
                n=len(inconsistent),
                examples=examples(
                    f"document {document.document_id}: {document.reason}" for document in inconsistent
                ),
                can_repair=True,
            )
        )
    return findings


def _repair_texts(context: CheckContext) -> None:
    with context.database.snapshot() as snapshot:
        ids = [document.document_id for document in damaged_texts(snapshot) if not document.is_lost]
    _rebuild_documents(context, ids)


def _scores(context: CheckContext) -> Sequence[Finding]:
    ids = _wrong_scores(context)
    if not ids:
        return []
    return [
        Finding(
            "scores",
            f"reefs or headings of passages are missing or differ from their sources: {_shortened(ids)}",
            "these passages rank too low or too high, and their explanations are incomplete",
            "--repair scores these documents again",
            n=len(ids),
            examples=examples(f"document {document_id}" for document_id in ids),
            can_repair=True,
        )
    ]


def _wrong_scores(context: CheckContext) -> list[int]:
    """Documents with a chunk whose profile is damaged, or whose top reef or norm does not follow from it."""
    wrong: set[int] = set()
    with context.database.snapshot() as snapshot:
        rows = iter(snapshot.tuples(SCORES))
        while batch := list(itertools.islice(rows, BATCH)):
            whole = [row for row in batch if _is_whole(row[1])]
            wrong.update(row[0] for row in batch if not _is_whole(row[1]))
            wrong.update(_inconsistent(whole))
    return sorted(wrong)


def _is_whole(profile: object) -> bool:
    return isinstance(profile, bytes) and len(profile) % RECORD.itemsize == 0


def _inconsistent(rows: Sequence[tuple[Any, ...]]) -> Iterator[int]:
    """Documents of rows of SCORES whose columns contradict each other."""
    profiles = Profiles.of([row[1] for row in rows])
    cells = profiles.chunks * MAX_REEFS + profiles.reef_ids
    is_twice = np.bincount(profiles.chunks, minlength=len(rows)) != np.bincount(
        np.unique(cells) // MAX_REEFS, minlength=len(rows)
    )
    rises = (np.diff(profiles.z_scores) > 0) & (np.diff(profiles.chunks) == 0)
    is_unordered = np.isin(np.arange(len(rows)), profiles.chunks[1:][rises])
    tops, norms = profiles.top_records.tolist(), profiles.norms.tolist()
    for i, row in enumerate(rows):
        document_id, profile, reef_ids, top_reef_id, probability, norm, metadata, headings = row
        record = None if tops[i] < 0 else profiles.records[tops[i]]
        expected: tuple[int | None, float] = (None, 0.0)
        if record is not None:
            expected = int(record["reef_id"]), int(record["probability"]) / PROBABILITY_STEPS
        if (
            is_twice[i]
            or is_unordered[i]
            or reef_ids != reef_ids_of(profile)
            or metadata != metadata_of(headings)
            or (top_reef_id, probability) != expected
            or not isinstance(norm, float)
            or abs(norm - norms[i]) > NORM_TOLERANCE
        ):
            yield document_id


def _repair_scores(context: CheckContext) -> None:
    _rebuild_documents(context, _wrong_scores(context))


def _rebuild_documents(context: CheckContext, document_ids: Sequence[int]) -> None:
    """Chunk and score documents again, one transaction per document. Chunks with unchanged offsets keep their
    ids.

    A document that cannot be read does not stop the others; the first error is raised at the end.
    """
    vocabularies = Vocabularies(context.database, context.scorer) if document_ids else None
    first_error: Exception | None = None
    for document_id in document_ids:
        assert vocabularies is not None, "loaded if there are documents"
        try:
            _rebuild_document(context, document_id, vocabularies)
        except (DatabaseUnavailableError, DiskFullError):
            raise
        except Exception as error:  # a damaged value can raise anything
            first_error = first_error or error
    if first_error is not None:
        raise first_error


def _rebuild_document(context: CheckContext, document_id: int, vocabularies: Vocabularies) -> None:
    with context.database.snapshot() as snapshot:
        draft = get_draft(snapshot, document_id)
        tags = tags_of(snapshot, [document_id]).get(document_id, ())
    draft = dataclasses.replace(draft, tags=tags, n_bytes=len(draft.content.encode()))
    scored = _scored(draft, vocabularies, context)
    with context.database.write() as transaction:
        parameters = {"document_id": document_id}
        rows = transaction.rows(PLACES_OF, parameters)
        old_ids = {(row["start_char"], row["end_char"]): row["id"] for row in rows}
        transaction.execute(DELETE_CHUNKS, parameters)
        kept = [old_ids.get((chunk.start_char, chunk.end_char)) for chunk in scored.chunks]
        document_writer.replace_document(transaction, document_id, scored, kept, now=timestamp())


def _scored(draft: DocumentDraft, vocabularies: Vocabularies, context: CheckContext) -> ScoredDocument:
    base, settings, version = vocabularies.base, context.settings, vocabularies.newest()
    scorer = vocabularies.at(version)
    document = analyze(draft, base, settings)
    if scorer is not base:
        document = rescore(document, scorer, settings)
    return scored_document(document, scorer, vocabulary_version=version)


def _names(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        if is_complete(snapshot, context.scorer.data_checksum, context.scorer.reefs, context.scorer.islands):
            return []
    return [
        Finding(
            "names",
            "the names of reefs are not those of the scorer data, or what unpacks profiles is missing",
            "passages show wrong names or none, and the views of reefs and islands miss rows",
            "--repair writes these tables again",
            can_repair=True,
        )
    ]


def _repair_names(context: CheckContext) -> None:
    with context.database.write() as transaction:
        write_all(transaction, context.scorer.data_checksum, context.scorer.reefs, context.scorer.islands)


def _staleness(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        n = count_stale(snapshot, context.scorer.data_checksum)
        n_other_data = count_other_data(snapshot, context.scorer.data_checksum)
    if not n:
        return []
    problem = f"{n:,} passages contain words that were learned or changed after they were scored"
    meaning = "normal while a library grows; searches find these passages, but not by the newest words"
    if n_other_data:
        problem = f"{n_other_data:,} passages were scored with other scorer data"
        meaning = "normal after an upgrade; searches find them by words only, and they have no labels"
    return [
        Finding(
            "staleness",
            problem,
            meaning,
            "run `shoal rescore` when convenient",
            n=n,
            severity=Severity.note,
        )
    ]


def _ids(damaged: Sequence[Damaged]) -> str:
    return _shortened([document.document_id for document in damaged])


def _shortened(document_ids: Sequence[int]) -> str:
    shown = ", ".join(str(document_id) for document_id in document_ids[:10])
    return f"{shown} and {len(document_ids) - 10:,} more" if len(document_ids) > 10 else shown


def _totals(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        wrong = [totals.table for totals in wrong_totals(snapshot)]
    if not wrong:
        return []
    return [
        Finding(
            "totals",
            f"totals differ from a count: {', '.join(wrong)}",
            "another program has changed the database; status, pages and metrics show wrong numbers, and "
            "scores change slightly",
            "--repair counts again",
            n=len(wrong),
            can_repair=True,
        )
    ]


def _count_again(context: CheckContext) -> None:
    with context.database.write() as transaction:
        count_again(transaction)


def _values(context: CheckContext) -> Sequence[Finding]:
    n = 0
    shown: list[str] = []
    with context.database.snapshot() as snapshot:
        for value in invalid_values(snapshot):
            n += 1
            if len(shown) < MAX_EXAMPLES:
                shown.append(str(value))
    if not n:
        return []
    return [
        Finding(
            "values",
            f"{n:,} values are invalid",
            "damage or another program has changed them; operations that read them fail or return wrong "
            "results",
            "`shoal restore` a backup; without one, `shoal delete` the listed documents and ingest them "
            "again",
            n=n,
            examples=tuple(shown),
        )
    ]


def _notes(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        damaged = list(_damaged(snapshot, context))
    if not damaged:
        return []
    return [
        Finding(
            "notes",
            f"words, profiles or hashes of {len(damaged):,} notes do not follow from their texts",
            "searches miss these notes or rank them wrongly; the texts themselves are intact",
            "--repair makes them again from the texts",
            n=len(damaged),
            examples=examples(f"note {note.id}" for note in damaged),
            can_repair=True,
        )
    ]


def _damaged(snapshot: Snapshot, context: CheckContext) -> Iterator[ScoredNote]:
    """Notes whose words, hash or profile are wrong. Profiles of older words or data are stale, not wrong."""
    version = vocabulary.newest(snapshot).number
    for notes in note_maintenance.all_notes(snapshot, READ_TOGETHER):
        texts = [TitledText(note.title, note.text) for note in notes]
        expected = score_texts(
            snapshot, context.scorer, texts, reefs_per_note=context.settings.reefs_per_chunk
        )
        for note, scored in zip(notes, expected, strict=True):
            is_current = (note.vocabulary_version, note.data_checksum) == (version, scored.data_checksum)
            is_right = (
                note.words == scored.words
                and note.text_hash == hash_of(note.text)
                and (note.profile == scored.profile or not is_current)
            )
            if not is_right:
                yield note


def _rebuild(context: CheckContext) -> None:
    with context.database.snapshot() as snapshot:
        damaged = list(_damaged(snapshot, context))
    rebuild_notes(context.database, context.scorer, context.settings, damaged)


def _changes(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        if not note_maintenance.lacks_changes(snapshot):
            return []
    return [
        Finding(
            "note changes",
            "the number of the last change of notes is below that of a note",
            "processes may not see the next changes of notes",
            "--repair sets it",
            can_repair=True,
        )
    ]


def _repair_changes(context: CheckContext) -> None:
    with context.database.write() as transaction:
        note_maintenance.repair_changes(transaction)


def _owners(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        n_foreign = note_maintenance.count_foreign_shown(snapshot)
    if not n_foreign:
        return []
    return [
        Finding(
            "note owners",
            f"{n_foreign:,} records of shown notes belong to another owner than the note",
            "another program has changed the database; sessions miss notes that they were not shown",
            "--repair deletes these records",
            n=n_foreign,
            can_repair=True,
        )
    ]


def _repair_owners(context: CheckContext) -> None:
    with context.database.write() as transaction:
        note_maintenance.delete_foreign_shown(transaction)


TEXT_CHECKS = (
    Check("texts", "texts, and whether passages match them", _texts, _repair_texts, reads_all=True),
    Check("scores", "reefs of passages", _scores, _repair_scores),
    Check("names", "names of reefs", _names, _repair_names),
    Check("staleness", "passages that are out of date", _staleness),
    Check("totals", "kept totals", _totals, _count_again, reads_all=True),
)
NOTE_CHECKS = (
    Check("notes", "words and profiles of notes", _notes, _rebuild, reads_all=True),
    Check("note changes", "numbers of changes of notes", _changes, _repair_changes),
    Check("note owners", "owners of shown notes", _owners, _repair_owners, reads_all=True),
)
VALUE_CHECKS = (Check("values", "the type, range and format of every value", _values, reads_all=True),)


def _stored(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        n = sum(1 for _ in snapshot.tuples(WRONG_STORED))
    if not n:
        return []
    return [
        Finding(
            "learned texts",
            f"{n:,} learned texts are recorded as stored but are not, or the reverse",
            "words of deleted documents remain learned, or words of stored documents are forgotten",
            "--repair corrects the records; the next learn stage or `shoal rescore` applies them",
            n=n,
            can_repair=True,
        )
    ]


def _repair_stored(context: CheckContext) -> None:
    with context.database.write() as transaction:
        transaction.execute(SET_STORED)


def _evidence(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        if snapshot.value(N_LEARNING) != 1:
            return [_wrong_evidence("the state of learning is missing", 1)]
        state = evidence.state(snapshot)
        if state.basis is None:
            return []
        if n_pruned := snapshot.value(PRUNED, {"basis": state.basis}):
            return [_pruned(n_pruned)]
        expected = _expected(snapshot, state.basis)
        actual = total(iter(_in_force(snapshot, state.revision)))
    if expected == actual:
        return []
    differing = _differing(expected, actual)
    return [_wrong_evidence(f"{len(differing):,} words differ", len(differing), examples(differing))]


def _expected(snapshot: Snapshot, basis: str) -> Evidence:
    ids = observations.ids(snapshot, IN_EVIDENCE, basis=basis)
    return total(observations.rows_of(snapshot, ids))


def _in_force(snapshot: Snapshot, revision: int) -> Iterator[StoredRow]:
    words = [row[0] for row in snapshot.tuples(WORDS, {"revision": revision})]
    yield from evidence.in_force(snapshot, words, revision)


def _differing(expected: Evidence, actual: Evidence) -> list[str]:
    """Words whose evidence differs; `(all words)` stands for the sums over all words."""
    expected_rows = {(row.kind, row.word): row for row in expected.rows()}
    actual_rows = {(row.kind, row.word): row for row in actual.rows()}
    all_keys = expected_rows.keys() | actual_rows.keys()
    keys = sorted(key for key in all_keys if expected_rows.get(key) != actual_rows.get(key))
    return [word or "(all words)" for _, word in keys]


def _wrong_evidence(what: str, n: int, words: tuple[str, ...] = ()) -> Finding:
    return Finding(
        "evidence",
        f"the evidence for learned words does not match the texts: {what}",
        "words may be learned too late, or remain after their documents are deleted",
        "--repair makes the next learn stage sum all evidence again; then `shoal rescore` updates the "
        "passages",
        n=n,
        examples=words,
        can_repair=True,
    )


def _pruned(n: int) -> Finding:
    return Finding(
        "evidence",
        "the evidence for learned words could not be compared with the texts",
        f"SHOAL_OBSERVATIONS=prune has removed the observations of {n:,} texts",
        "no action is needed; `shoal rescore` learns all words again",
        n=n,
        severity=Severity.note,
    )


def _invalidate_evidence(context: CheckContext) -> None:
    with context.database.write() as transaction:
        if transaction.value(N_LEARNING) != 1:
            for statement in RESET_LEARNING:
                transaction.execute(statement)
        for statement in INVALIDATE_EVIDENCE:
            transaction.execute(statement)


def _words(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        number = vocabulary.newest(snapshot).number
        recorded = vocabulary.count_words(snapshot, number)
        n = sum(word.learned is not None for word in vocabulary.read_words(snapshot, number))
    if recorded == n:
        return []
    return [
        Finding(
            "vocabulary",
            f"{recorded} learned words are recorded, there are {n:,}",
            "the number in `shoal status` is wrong, or words were removed by hand",
            "--repair counts them again; `shoal rescore` learns missing words again",
            n=abs(recorded - n) if isinstance(recorded, int) else 1,
            can_repair=True,
        )
    ]


def _count_words(context: CheckContext) -> None:
    with context.database.write() as transaction:
        number = vocabulary.newest(transaction).number
        n = sum(word.learned is not None for word in vocabulary.read_words(transaction, number))
        transaction.execute(SET_N_WORDS, {"n": n, "version": number})


LEARNING_CHECKS = (
    Check("learned texts", "texts that words are learned from", _stored, _repair_stored),
    Check("evidence", "the evidence for learned words", _evidence, _invalidate_evidence, reads_all=True),
    Check("vocabulary", "learned words", _words, _count_words),
)
