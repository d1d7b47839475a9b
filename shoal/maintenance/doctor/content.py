"""What is stored of documents: the text is the truth, and the rest must follow from it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from shoal.chunking.analysis import ReadDraft, analyze, analyze_cut, cuts_of, scored_document
from shoal.errors import DatabaseUnavailableError, DiskFullError
from shoal.learning.scorers import Vocabularies
from shoal.maintenance.doctor.findings import Check, CheckContext, Finding, examples
from shoal.models import DocumentDraft, ScoredDocument
from shoal.storage import document_writer
from shoal.storage.database import Snapshot
from shoal.storage.document_queries import get_draft, tags_of
from shoal.storage.statistics import COUNT_STALE
from shoal.support.clock import timestamp

ROWS_MENDED = 20_000
"""Rows of postings written in one transaction: about 50 ms."""
WEIGHT_TOLERANCE = 1.0
"""Of a posting, in its unit of a millionth: rounding, and not damage."""
NORM_TOLERANCE = 1e-3

# Texts as bytes: one that is not UTF-8 any more could not be read as anything else.
TEXTS = """
    SELECT id, content_hash, n_bytes, n_chunks, typeof(content) = 'text' AS is_text, CAST(content AS BLOB)
    FROM documents ORDER BY id
"""
# A chunk whose section is missing or of another document has no section here.
CHUNKS_OF = """
    SELECT c.id, c.chunk_index, c.start_char, c.end_char, CAST(c.text AS BLOB) AS text, s.id AS section
    FROM chunks c LEFT JOIN sections s ON s.id = c.section_id AND s.document_id = c.document_id
    WHERE c.document_id = :document_id ORDER BY c.chunk_index
"""
# Documents with a chunk whose strongest reef or norm is not that of its reefs.
OTHER_SCORES = """
    SELECT DISTINCT c.document_id FROM chunks c
    LEFT JOIN (SELECT chunk_id, SUM(z_score * z_score) AS square, MAX(CASE rank WHEN 0 THEN reef_id END) AS top,
                      COUNT(*) AS n, MAX(rank) AS last
               FROM chunk_reefs GROUP BY chunk_id) r ON r.chunk_id = c.id
    WHERE c.top_reef_id IS NOT r.top OR COALESCE(r.n, 0) <> COALESCE(r.last, -1) + 1
       OR ABS(c.norm * c.norm - COALESCE(r.square, 0)) > :tolerance * (1 + c.norm * c.norm)
    ORDER BY c.document_id
"""
N_REEFS = "SELECT value FROM json_each(:reefs)"
FORGET_POSTINGS_OF_CHUNK = f"DELETE FROM reef_postings WHERE chunk_id = :chunk_id AND reef_id IN ({N_REEFS})"
DELETE_CHUNKS = "DELETE FROM chunks WHERE document_id = :document_id"

NOT_INDEXED = "SELECT COUNT(*) FROM chunks WHERE id NOT IN (SELECT id FROM chunk_fts_docsize)"
INDEXED_ONLY = "SELECT COUNT(*) FROM chunk_fts_docsize WHERE id NOT IN (SELECT id FROM chunks)"
COMPARE_INDEX = "INSERT INTO chunk_fts (chunk_fts, rank) VALUES ('integrity-check', 1)"
REBUILD_INDEX = "INSERT INTO chunk_fts (chunk_fts) VALUES ('rebuild')"

# Postings that do not follow from the reefs of their chunk, with what they should be: NULL where they should not be.
WRONG_POSTINGS = """
    SELECT r.reef_id, r.chunk_id, CAST(ROUND(1000000 * r.z_score / c.norm) AS INTEGER) AS weight
    FROM chunks c
    JOIN chunk_reefs r ON r.chunk_id = c.id
    LEFT JOIN reef_postings p ON p.reef_id = r.reef_id AND p.chunk_id = r.chunk_id
    WHERE p.weight IS NULL OR ABS(p.weight - 1000000 * r.z_score / c.norm) > :tolerance
    UNION ALL
    SELECT p.reef_id, p.chunk_id, NULL
    FROM reef_postings p
    LEFT JOIN chunk_reefs r ON r.chunk_id = p.chunk_id AND r.reef_id = p.reef_id
    WHERE r.chunk_id IS NULL
"""
DELETE_POSTING = "DELETE FROM reef_postings WHERE reef_id = ? AND chunk_id = ?"
WRITE_POSTING = "INSERT OR REPLACE INTO reef_postings (reef_id, chunk_id, weight) VALUES (?, ?, ?)"
# Who keeps postings in memory reads these documents again.
NOTE_CHANGED = """
    INSERT OR REPLACE INTO rescored_documents (document_id) SELECT document_id FROM chunks WHERE id = ?
"""


class Damaged(NamedTuple):
    """A document that is not as its text says. `is_lost`: the text itself is not what was stored."""

    document_id: int
    why: str
    is_lost: bool = False


def _texts(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        damaged = list(_damaged(snapshot))
    lost, torn = [one for one in damaged if one.is_lost], [one for one in damaged if not one.is_lost]
    found = []
    if lost:
        found.append(
            Finding(
                "texts",
                f"the text of documents is not what was stored: {_ids(lost)}",
                "its SHA-256 is another than that of the text that came in: it was changed by damage or by hand",
                "take them from a backup or from where they came: `shoal delete ID`, then `shoal ingest` the file again",
                n=len(lost),
                examples=examples(f"document {one.document_id}: {one.why}" for one in lost),
            )
        )
    if torn:
        found.append(
            Finding(
                "texts",
                f"passages of documents are not those of their text: {_ids(torn)}",
                "searches miss parts of them or cite the wrong place; the texts themselves are whole",
                "--repair cuts and scores these documents anew from their text",
                n=len(torn),
                examples=examples(f"document {one.document_id}: {one.why}" for one in torn),
                can_repair=True,
            )
        )
    return found


def _damaged(snapshot: Snapshot) -> Iterator[Damaged]:
    for document_id, content_hash, n_bytes, n_chunks, is_text, encoded in snapshot.tuples(TEXTS):
        if not is_text or hashlib.sha256(encoded).hexdigest() != content_hash:
            yield Damaged(document_id, "the text has another SHA-256", is_lost=True)
            continue
        chunks = snapshot.rows(CHUNKS_OF, {"document_id": document_id})
        if len(encoded) != n_bytes:
            yield Damaged(document_id, f"{n_bytes} bytes are noted, it has {len(encoded)}")
        elif len(chunks) != n_chunks or not chunks:
            yield Damaged(document_id, f"{n_chunks} passages are noted, it has {len(chunks)}")
        elif why := next(filter(None, _faults(chunks, encoded.decode())), None):
            yield Damaged(document_id, why)


def _faults(chunks: Sequence[Any], content: str) -> Iterator[str | None]:
    return (_fault(i, chunk, content) for i, chunk in enumerate(chunks))


def _fault(i: int, chunk: Any, content: str) -> str | None:
    start, end = chunk["start_char"], chunk["end_char"]
    if chunk["chunk_index"] != i:
        return f"passage #{i} is missing"
    if chunk["section"] is None:
        return f"passage #{i} has no section"
    if not (isinstance(start, int) and isinstance(end, int)) or content[start:end].encode() != chunk["text"]:
        return f"passage #{i} is not the text at its place"
    return None


def _restore_documents(context: CheckContext) -> None:
    with context.database.snapshot() as snapshot:
        ids = [one.document_id for one in _damaged(snapshot) if not one.is_lost]
    _make_anew(context, ids)


def _scores(context: CheckContext) -> Sequence[Finding]:
    ids = _other_scores(context)
    if not ids:
        return []
    return [
        Finding(
            "scores",
            f"reefs of passages are missing or are not those they were scored with: {_some(ids)}",
            "these passages rank too low or too high, and their explanations are incomplete",
            "--repair scores these documents anew",
            n=len(ids),
            examples=examples(f"document {document_id}" for document_id in ids),
            can_repair=True,
        )
    ]


def _other_scores(context: CheckContext) -> list[int]:
    with context.database.snapshot() as snapshot:
        return [row[0] for row in snapshot.tuples(OTHER_SCORES, {"tolerance": NORM_TOLERANCE})]


def _restore_scores(context: CheckContext) -> None:
    _make_anew(context, _other_scores(context))


def _make_anew(context: CheckContext, document_ids: Sequence[int]) -> None:
    """Cut and score documents again, each in a transaction of its own; passages that are where they were keep their
    ids. One that cannot be read does not stop the rest; the first error is raised at the end."""
    vocabularies = Vocabularies(context.database, context.scorer) if document_ids else None
    failed: Exception | None = None
    for document_id in document_ids:
        assert vocabularies is not None, "made for the documents there are"
        try:
            _make_one_anew(context, document_id, vocabularies)
        except (DatabaseUnavailableError, DiskFullError):
            raise
        except Exception as error:  # whatever a damaged value leads to
            failed = failed or error
    if failed is not None:
        raise failed


def _make_one_anew(context: CheckContext, document_id: int, vocabularies: Vocabularies) -> None:
    with context.database.snapshot() as snapshot:
        draft = get_draft(snapshot, document_id)
        tags = tags_of(snapshot, [document_id]).get(document_id, ())
    draft = dataclasses.replace(draft, tags=tags, n_bytes=len(draft.content.encode()))
    scored = _scored(draft, vocabularies, context)
    reefs = json.dumps(list(range(context.scorer.n_reefs)))
    with context.database.write() as connection:
        one = {"document_id": document_id}
        rows = connection.execute(sa.text(CHUNKS_OF), one).all()
        before = {(row.start_char, row.end_char): row.id for row in rows}
        # What should follow from other rows may be there without them, and would be in the way.
        if rows:
            forget = [{"chunk_id": row.id, "reefs": reefs} for row in rows]
            connection.execute(sa.text(FORGET_POSTINGS_OF_CHUNK), forget)
        for statement in (document_writer.FORGET_TEXTS, DELETE_CHUNKS):
            connection.execute(sa.text(statement), one)
        kept = [before.get((chunk.start_char, chunk.end_char)) for chunk in scored.chunks]
        document_writer.replace_document(connection, document_id, scored, kept, now=timestamp())


def _scored(draft: DocumentDraft, vocabularies: Vocabularies, context: CheckContext) -> ScoredDocument:
    base, settings, version = vocabularies.base, context.settings, vocabularies.newest()
    scorer = vocabularies.at(version)
    first = analyze(draft, base, settings)
    again = first
    if scorer is not base:
        cut = analyze_cut(draft, cuts_of(first), scorer, settings, read=ReadDraft(first.parsed, None))
        assert cut is not None, "a text is read the same way twice"
        again = cut
    return scored_document(again, scorer, vocabulary_version=version)


def _full_text(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        missing, extra = snapshot.value(NOT_INDEXED), snapshot.value(INDEXED_ONLY)
    if missing or extra:
        return [
            _index_finding(f"{missing:,} passages are missing in it, {extra:,} are too many", missing + extra)
        ]
    return []


def _full_text_in_depth(context: CheckContext) -> Sequence[Finding]:
    with context.database.write() as connection:
        try:
            connection.exec_driver_sql(COMPARE_INDEX)
        except sa.exc.DatabaseError as error:
            if "malformed" not in str(error.orig):
                raise
            return [_index_finding("words in it are not those of the passages", 1, "full-text words")]
    return []


def _index_finding(what: str, n: int, check: str = "full-text") -> Finding:
    return Finding(
        check,
        f"the full-text index does not agree with the passages: {what}",
        "searches for words miss passages or find those that are gone; the passages are whole",
        "--repair makes the index anew from the passages",
        n=n,
        can_repair=True,
    )


def _rebuild_index(context: CheckContext) -> None:
    with context.database.write() as connection:
        connection.exec_driver_sql(REBUILD_INDEX)


def _postings(context: CheckContext) -> Sequence[Finding]:
    n = sum(1 for _ in _wrong_postings(context))
    if not n:
        return []
    return [
        Finding(
            "postings",
            f"{n:,} postings are not those of the passages' reefs",
            "searches by meaning rank passages wrongly or miss them; the reefs themselves are whole",
            "--repair makes these postings anew; restart a running service afterwards, which keeps them in memory",
            n=n,
            can_repair=True,
        )
    ]


def _wrong_postings(context: CheckContext) -> Iterator[tuple[int, int, int | None]]:
    with context.database.snapshot() as snapshot:
        yield from snapshot.tuples(WRONG_POSTINGS, {"tolerance": WEIGHT_TOLERANCE})


def _correct_postings(context: CheckContext) -> None:
    wrong = list(_wrong_postings(context))
    for start in range(0, len(wrong), ROWS_MENDED):
        some = wrong[start : start + ROWS_MENDED]
        with context.database.write() as connection:
            connection.exec_driver_sql(DELETE_POSTING, [(reef, chunk) for reef, chunk, _ in some])
            if there := [row for row in some if row[2] is not None]:
                connection.exec_driver_sql(WRITE_POSTING, there)
            connection.exec_driver_sql(NOTE_CHANGED, [(chunk,) for chunk in {row[1] for row in some}])


def _staleness(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        version = snapshot.value("SELECT COALESCE(MAX(version), 0) FROM vocabulary_versions")
        asked = {"data_checksum": context.scorer.data_checksum, "vocabulary_version": version}
        n = snapshot.value(COUNT_STALE, asked)
    if not n:
        return []
    return [
        Finding(
            "staleness",
            f"{n:,} passages were scored before the newest words were learned, or with other data",
            "this is how a library grows; they are found, but not by the words learned since",
            "`shoal rescore` when there is time for it",
            n=n,
            is_harm=False,
        )
    ]


def _ids(damaged: Sequence[Damaged]) -> str:
    return _some([one.document_id for one in damaged])


def _some(document_ids: Sequence[int]) -> str:
    shown = ", ".join(str(document_id) for document_id in document_ids[:10])
    return f"{shown} and {len(document_ids) - 10:,} more" if len(document_ids) > 10 else shown


CHECKS = (
    Check(
        "texts", "texts, and passages that are citations of them", _texts, _restore_documents, reads_all=True
    ),
    Check("scores", "reefs of every passage", _scores, _restore_scores),
    Check("postings", "what searches by meaning read", _postings, _correct_postings),
    Check("full-text", "passages in the full-text index", _full_text, _rebuild_index),
    Check(
        "full-text words", "words in the full-text index", _full_text_in_depth, _rebuild_index, reads_all=True
    ),
    Check("staleness", "passages that are out of date", _staleness),
)
