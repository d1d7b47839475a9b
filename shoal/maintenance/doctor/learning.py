"""Checks of learned words: the evidence must match the observations it was summed from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shoal.learning.evidence import Evidence, total
from shoal.maintenance.doctor.findings import Check, CheckContext, Finding, Severity, examples
from shoal.storage import evidence, observations, vocabulary
from shoal.storage.database import Snapshot
from shoal.storage.vocabulary import StoredRow

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


CHECKS = (
    Check("learned texts", "texts that words are learned from", _stored, _repair_stored),
    Check("evidence", "the evidence for learned words", _evidence, _invalidate_evidence, reads_all=True),
    Check("vocabulary", "learned words", _words, _count_words),
)
