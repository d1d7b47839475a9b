"""What the library has learned: the sums must be those of the texts that are in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from shoal.learning.evidence import Evidence, total
from shoal.maintenance.doctor.findings import Check, CheckContext, Finding, examples
from shoal.storage import evidence, observations, vocabulary_queries
from shoal.storage.database import Snapshot, snapshot_of
from shoal.storage.vocabulary_records import EvidenceRow

# Texts whose document is noted as stored and is not, or the other way round.
WRONG_STORED = """
    SELECT o.id FROM observed_documents o
    WHERE o.state IN ('pending', 'learned')
      AND o.stored <> EXISTS (SELECT 1 FROM documents d WHERE d.content_hash = o.content_hash)
"""
SET_STORED = sa.text(f"""
    UPDATE observed_documents SET stored = 1 - stored WHERE id IN ({WRONG_STORED})
""")
# Texts that are in the sums.
IN_SUMS = """
    SELECT id FROM observed_documents WHERE state IN ('learned', 'withdrawn') AND basis = :basis ORDER BY id
"""
# Of these, those whose observations were not kept: what is in the sums of them can't be told.
PRUNED = f"""
    SELECT COUNT(*) FROM observed_documents o WHERE o.id IN ({IN_SUMS})
      AND NOT EXISTS (SELECT 1 FROM word_observations w WHERE w.observed_id = o.id)
"""
WORDS = "SELECT DISTINCT word FROM word_evidence WHERE revision <= :revision ORDER BY word"
N_LEARNING = "SELECT COUNT(*) FROM learning"
RESET_LEARNING = (
    "DELETE FROM learning",
    """INSERT INTO learning (id, revision, basis, learner)
       SELECT 1, COALESCE(MAX(revision), 0), NULL, NULL FROM word_evidence""",
)

# To learn everything once more: the sums are good for nothing, and no text is in them.
VOID = (
    "UPDATE learning SET basis = NULL, learner = NULL",
    "UPDATE observed_documents SET state = 'removed' WHERE state = 'withdrawn'",
    # What they said was not kept: a rescore looks at their documents again.
    """UPDATE observed_documents SET state = 'removed' WHERE state = 'learned'
       AND NOT EXISTS (SELECT 1 FROM word_observations w WHERE w.observed_id = observed_documents.id)""",
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
            f"{n:,} texts count as stored that are not, or the other way round",
            "words of deleted documents live on, or those of stored ones are forgotten",
            "--repair notes what is stored; the next learn or `shoal rescore` follows it",
            n=n,
            can_repair=True,
        )
    ]


def _note_stored(context: CheckContext) -> None:
    with context.database.write() as connection:
        connection.execute(SET_STORED)


def _sums(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        if snapshot.value(N_LEARNING) != 1:
            return [_wrong_sums("the state of learning is missing", 1)]
        state = evidence.state(snapshot)
        if state.basis is None:
            return []
        if pruned := snapshot.value(PRUNED, {"basis": state.basis}):
            return [_not_checked(pruned)]
        expected = _expected(snapshot, state.basis)
        found = total(iter(_in_force(snapshot, state.revision)))
    if expected == found:
        return []
    differing = _differing(expected, found)
    return [_wrong_sums(f"of {len(differing):,} words", len(differing), examples(differing))]


def _expected(snapshot: Snapshot, basis: str) -> Evidence:
    ids = observations.ids(snapshot, IN_SUMS, basis=basis)
    return total(observations.rows_of(snapshot, ids))


def _in_force(snapshot: Snapshot, revision: int) -> Iterator[EvidenceRow]:
    words = [row[0] for row in snapshot.tuples(WORDS, {"revision": revision})]
    yield from evidence.in_force(snapshot, words, revision)


def _differing(expected: Evidence, found: Evidence) -> list[str]:
    """Words whose sums differ; the sums over all words are named by what they are."""
    a, b = ({(row.kind, row.word): row for row in one.rows()} for one in (expected, found))
    keys = sorted(key for key in a.keys() | b.keys() if a.get(key) != b.get(key))
    return [word or "(all words)" for _, word in keys]


def _wrong_sums(what: str, n: int, named: tuple[str, ...] = ()) -> Finding:
    return Finding(
        "evidence",
        f"the sums that words are learned from are not those of the texts: {what}",
        "words may be learned too late, or not be forgotten with their documents",
        "--repair makes the next learn add everything up afresh; `shoal rescore` afterwards brings passages up to date",
        n=n,
        examples=named,
        can_repair=True,
    )


def _not_checked(n: int) -> Finding:
    return Finding(
        "evidence",
        "the sums that words are learned from could not be compared with the texts",
        f"SHOAL_OBSERVATIONS=prune has removed what {n:,} texts say of words",
        "nothing needs to be done; `shoal rescore` learns afresh if in doubt",
        n=n,
        is_harm=False,
    )


def _add_up_afresh(context: CheckContext) -> None:
    with context.database.write() as connection:
        if connection.exec_driver_sql(N_LEARNING).scalar_one() != 1:
            for statement in RESET_LEARNING:
                connection.exec_driver_sql(statement)
        for statement in VOID:
            connection.exec_driver_sql(statement)


def _words(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        number = vocabulary_queries.newest(snapshot).number
        noted = vocabulary_queries.count_words(snapshot, number)
        n = sum(known.learned is not None for known in vocabulary_queries.words_at(snapshot, number))
    if noted == n:
        return []
    return [
        Finding(
            "vocabulary",
            f"{noted} learned words are noted, there are {n:,}",
            "the number that `shoal status` tells is wrong, or words were removed by hand",
            "--repair counts them again; `shoal rescore` learns afresh what is missing",
            n=abs(noted - n) if isinstance(noted, int) else 1,
            can_repair=True,
        )
    ]


def _count_words(context: CheckContext) -> None:
    with context.database.write() as connection:
        snapshot = snapshot_of(connection)
        number = vocabulary_queries.newest(snapshot).number
        n = sum(known.learned is not None for known in vocabulary_queries.words_at(snapshot, number))
        connection.execute(sa.text(SET_N_WORDS), {"n": n, "version": number})


CHECKS = (
    Check("learned texts", "which texts words are learned from", _stored, _note_stored),
    Check("evidence", "the sums that words are learned from", _sums, _add_up_afresh, reads_all=True),
    Check("vocabulary", "learned words", _words, _count_words),
)
