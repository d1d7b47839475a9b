"""Real parts for tests of the job protocol: drafts, scoring without a scorer, a worker loop."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

from fake_scorer import IslandInfo, ReefInfo

from shoal.jobs.queue import claims
from shoal.jobs.queue.claims import Batch, WorkItem, claim
from shoal.jobs.queue.submission import Upload
from shoal.jobs.stages.contract import Handlers
from shoal.jobs.stages.runner import process
from shoal.jobs.stages.score import Deleting, ItemScorer, Scoring, Segments
from shoal.models.documents import Chunk, DocFormat, DocumentDraft, ScoredDocument, Section
from shoal.models.jobs import Stage
from shoal.settings import Settings
from shoal.storage.copies import last_ids
from shoal.storage.database import Database
from shoal.storage.profiles import pack

POISON = "poison"
REFUSED = "refused by the scorer"


def draft(content: str, *, title: str = "", tags: Sequence[str] = ()) -> DocumentDraft:
    data = content.encode()
    return DocumentDraft(
        title=title or content[:20],
        content=content,
        format=DocFormat.plaintext,
        content_hash=hashlib.sha256(data).hexdigest(),
        n_bytes=len(data),
        tags=tuple(tags),
    )


def scored(document: DocumentDraft) -> ScoredDocument:
    """Return the whole document as one chunk with one reef."""
    n = len(document.content)
    profile = pack([(0, 2.0, 1.0, 1, 0.7)])
    arch = 0.0, 0.0, 0.0, 0.0
    chunk = Chunk(0, 0, document.content, 0, n, 1, 1, 1, 1.0, 1.0, 1, arch, profile, 2.0, 0, "reef", 0.7)
    return ScoredDocument(
        draft=document,
        sections=(Section((), 0, 0, 0, 0, n),),
        chunks=(chunk,),
        left_out=(),
        n_left_out={},
        n_sentences=1,
        coverage=1.0,
        warnings=(),
        vocabulary_version=0,
        data_version="test",
        data_checksum="test",
        reefs=[ReefInfo(0, "reef", 0, 0, ())],
        islands=[IslandInfo(0, "island", 0)],
    )


class FunctionScorer(ItemScorer):
    """Scores with a function of the draft."""

    def __init__(self, score: Callable[[DocumentDraft], ScoredDocument]) -> None:
        self._score = score

    def score(self, item: WorkItem, draft: DocumentDraft, segments: Segments | None) -> ScoredDocument:
        return self._score(draft)


def handlers(database: Database, score: Callable[[DocumentDraft], ScoredDocument] = scored) -> Handlers:
    """Return handlers of the stages that need no scorer; `score` creates the chunks of a document."""
    return {
        Stage.score: Scoring(database, FunctionScorer(score), Settings()),
        Stage.delete: Deleting(database),
    }


def upload(database: Database, settings: Settings, contents: Iterable[str]) -> int:
    opened = Upload(database, settings).begin()
    for content in contents:
        opened.add(draft(content))
    return opened.finish()


def claim_now(database: Database, settings: Settings, now: float | None = None) -> Batch | None:
    return claim(database, claims.new_owner(), settings, now)


def must_claim(database: Database, settings: Settings, now: float | None = None) -> Batch:
    batch = claim_now(database, settings, now)
    assert batch is not None, "no claimable work"
    return batch


def run_job(database: Database, settings: Settings, using: Handlers | None = None) -> int:
    """Claim and process until no work is left; return the number of batches."""
    using = using or handlers(database)
    n = 0
    while batch := claim_now(database, settings):
        process(batch, database, using, settings)
        n += 1
    return n


def rows(database: Database, sql: str, **values: object) -> list[tuple[object, ...]]:
    with database.snapshot() as snapshot:
        return list(snapshot.tuples(sql, values))


def value(database: Database, sql: str, **values: object) -> object:
    return rows(database, sql, **values)[0][0]


def last_ids_of(database: Database) -> dict[str, int]:
    """The last id that was given in each table, to a row that is deleted as well."""
    with database.snapshot() as snapshot:
        return last_ids(snapshot)


def statuses(database: Database, job_id: int) -> list[str]:
    sql = "SELECT status FROM job_items WHERE job_id = :job_id ORDER BY seq"
    return [str(row[0]) for row in rows(database, sql, job_id=job_id)]


def assert_consistent(database: Database) -> None:
    """Check the invariants of all jobs: counts of waves and jobs match their items."""
    wrong_pending = rows(
        database,
        """SELECT w.job_id, w.n, w.stage, w.pending, COUNT(i.id) FROM waves w
           LEFT JOIN job_items i ON i.job_id = w.job_id AND i.wave = w.n AND (
               CASE w.stage
               WHEN 'discover' THEN i.status IN ('enqueued', 'discovering')
               WHEN 'learn' THEN i.status = 'discovered'
               WHEN 'done' THEN i.status IN ('enqueued', 'discovering', 'discovered', 'scoring')
               ELSE i.status IN ('enqueued', 'discovered', 'scoring') END)
           GROUP BY w.job_id, w.n HAVING w.pending <> COUNT(i.id)""",
    )
    assert wrong_pending == []
    wrong_counts = rows(
        database,
        """SELECT j.id FROM jobs j JOIN job_items i ON i.job_id = j.id
           WHERE j.status NOT IN ('receiving', 'dropped')
           GROUP BY j.id HAVING j.total <> COUNT(*)
               OR j.n_succeeded <> COUNT(*) FILTER (WHERE i.status = 'succeeded') OR j.n_failed <> COUNT(*) FILTER (WHERE i.status = 'failed')
               OR j.n_duplicate <> COUNT(*) FILTER (WHERE i.status = 'duplicate')
               OR j.bytes_done <>
                  SUM(CASE WHEN i.status IN ('succeeded', 'failed', 'duplicate', 'canceled')
                      THEN i.n_bytes ELSE 0 END)
               OR (j.status IN ('enqueued', 'processing')) <>
                  (COUNT(*) FILTER (
                      WHERE i.status IN ('enqueued', 'discovering', 'discovered', 'scoring')) > 0)""",
    )
    assert wrong_counts == []
    leased = "status IN ('discovering', 'scoring')"
    assert (
        value(database, f"SELECT COUNT(*) FROM job_items WHERE (lease_owner IS NOT NULL) <> ({leased})") == 0
    )
    orphans = """SELECT COUNT(*) FROM job_item_contents c JOIN job_items i ON i.id = c.item_id
                 WHERE i.status IN ('succeeded', 'duplicate')"""
    assert value(database, orphans) == 0
    lost_text = """SELECT COUNT(*) FROM job_items i JOIN jobs j ON j.id = i.job_id AND j.kind = 'ingest'
                   WHERE i.status IN ('enqueued', 'discovering', 'discovered', 'scoring')
                     AND NOT EXISTS (SELECT 1 FROM job_item_contents c WHERE c.item_id = i.id)"""
    assert value(database, lost_text) == 0
