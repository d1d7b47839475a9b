"""All SQL statements of the job protocol. `now` is a timestamp text, `moment` is seconds since the epoch.

A statement changes a row only in the state it names, so a late or repeated statement changes nothing; the
caller checks the row count.
"""

from __future__ import annotations

import sqlalchemy as sa

# --- Accepting ----------------------------------------------------------------------------------------------

# Opens an upload.
INSERT_JOB = sa.text("""
    INSERT INTO jobs (kind, status, plan, created_at, updated_at, received_at, local_owner, trace_id)
    VALUES (:kind, :status, :plan, :created_at, :created_at, :received_at, :local_owner, :trace_id)
    RETURNING id
""")

# Heartbeat of an upload; affects no row if the upload was dropped.
TOUCH_UPLOAD = sa.text("UPDATE jobs SET received_at = :moment WHERE id = :job_id AND status = 'receiving'")

INSERT_ITEM = sa.text("""
    INSERT INTO job_items (job_id, seq, wave, title, source_path, format, tags, metadata, warnings, n_bytes,
                           content_hash, status, document_id, error, error_code, updated_at)
    VALUES (:job_id, :seq, :wave, :title, :source_path, :format, :tags, :metadata, :warnings, :n_bytes,
            :content_hash, :status, :document_id, :error, :error_code, :now)
""")

INSERT_CONTENT = sa.text("""
    INSERT INTO job_item_contents (item_id, content)
    SELECT id, :content FROM job_items WHERE job_id = :job_id AND seq = :seq
""")

# Waves of a complete upload, without its refused and duplicate items.
CREATE_WAVES = sa.text("""
    INSERT INTO waves (job_id, n, stage, total, pending, bytes)
    SELECT job_id, wave, :stage, COUNT(*), COUNT(*), SUM(n_bytes)
    FROM job_items WHERE job_id = :job_id AND status = 'enqueued' GROUP BY job_id, wave
""")

# The wave of a rescore of an empty library: the vocabulary is still relearned.
CREATE_EMPTY_WAVE = sa.text("""
    INSERT INTO waves (job_id, n, stage, total, pending, bytes) VALUES (:job_id, 0, :stage, 0, 0, 0)
""")

# Accepts a job: from this commit on the items are claimable.
ACCEPT_JOB = sa.text("""
    UPDATE jobs SET status = 'enqueued', idempotency_key = :key, request_hash = :request_hash,
        n_skipped = :n_skipped, updated_at = :now, revision = revision + 1,
        total       = (SELECT COUNT(*) FROM job_items i WHERE i.job_id = :job_id),
        bytes_total = (SELECT COALESCE(SUM(n_bytes), 0) FROM job_items i WHERE i.job_id = :job_id),
        n_failed    = (SELECT COUNT(*) FROM job_items i WHERE i.job_id = :job_id AND i.status = 'failed'),
        n_duplicate = (SELECT COUNT(*) FROM job_items i WHERE i.job_id = :job_id AND i.status = 'duplicate'),
        bytes_done  = (SELECT COALESCE(SUM(n_bytes), 0) FROM job_items i
                       WHERE i.job_id = :job_id AND i.status IN ('failed', 'duplicate'))
    WHERE id = :job_id AND status = 'receiving'
""")

PLAN = sa.text("SELECT plan FROM jobs WHERE id = :job_id")
JOB_BY_KEY = sa.text("SELECT id, request_hash FROM jobs WHERE idempotency_key = :key")

DOCUMENT_HEAD = sa.text("SELECT id, title, source_path, n_bytes FROM documents WHERE id = :document_id")
DOCUMENT_HEADS = "SELECT id, title, source_path, n_bytes FROM documents ORDER BY id"

# --- Dropping uploads ---------------------------------------------------------------------------------------

DROP_UPLOAD = sa.text("UPDATE jobs SET status = 'dropped' WHERE id = :job_id AND status = 'receiving'")

# Uploads without a heartbeat since `moment`.
DROP_STALE_UPLOADS = sa.text(
    "UPDATE jobs SET status = 'dropped' WHERE status = 'receiving' AND received_at < :moment"
)
COUNT_STALE_UPLOADS = sa.text(
    "SELECT COUNT(*) FROM jobs WHERE status = 'dropped' OR (status = 'receiving' AND received_at < :moment)"
)

# Local jobs (a single process works on each) with their last heartbeat.
LOCAL_JOBS = sa.text(
    "SELECT id, local_owner, received_at FROM jobs WHERE local_owner IS NOT NULL AND status <> 'dropped'"
)
# A local job is not visible to other processes, and no other process continues it.
DROP_LOCAL_JOB = sa.text(
    "UPDATE jobs SET status = 'dropped', idempotency_key = NULL "
    "WHERE id = :job_id AND local_owner IS NOT NULL"
)

DROPPED_JOB = sa.text("SELECT id FROM jobs WHERE status = 'dropped' LIMIT 1")
DROPPED_ITEMS = sa.text("SELECT id, n_bytes FROM job_items WHERE job_id = :job_id ORDER BY seq LIMIT :limit")
DELETE_ITEM = sa.text("DELETE FROM job_items WHERE id = :item_id")
DELETE_JOB = sa.text("DELETE FROM jobs WHERE id = :job_id AND status = 'dropped'")

# --- Claiming -----------------------------------------------------------------------------------------------

# Open waves in fair order: the job with the longest time since its last claim first, then the lowest wave.
# With `job_id` only that local job; without it all jobs of the service.
OPEN_WAVES = sa.text("""
    SELECT j.id AS job_id, j.plan, w.n, w.stage, w.vocabulary_version, w.lease_owner, w.notified_at
    FROM waves w JOIN jobs j ON j.id = w.job_id
    WHERE w.stage <> 'done' AND j.status IN ('enqueued', 'processing')
      AND (j.id = :job_id OR (:job_id IS NULL AND j.local_owner IS NULL))
    ORDER BY j.last_claim, j.id, w.n
""")

# Whether a wave is being learned from. Others must wait, because each learns on top of the one before.
LEARNING_NOW = sa.text("""
    SELECT 1 FROM waves w JOIN jobs j ON j.id = w.job_id
    WHERE w.stage <> 'done' AND w.stage IN ('learn', 'relearn') AND w.lease_owner IS NOT NULL
      AND j.status IN ('enqueued', 'processing') LIMIT 1
""")

_ITEM_COLUMNS = """i.id, i.job_id, i.seq, i.wave, i.title, i.source_path, i.format, i.tags, i.metadata,
                   i.warnings, i.n_bytes, i.content_hash, i.document_id, i.attempts, i.alone"""

# Claimable items of a wave.
READY_ITEMS = sa.text(f"""
    SELECT {_ITEM_COLUMNS} FROM job_items i
    WHERE i.status = :status AND i.job_id = :job_id AND i.wave = :wave AND i.lease_owner IS NULL
    ORDER BY i.seq
""")

# Whether an earlier open item has the same content as item `i`; `{states}` restricts the earlier item's
# status. Items of incomplete uploads and of other local jobs do not count.
_HAS_EARLIER_COPY = """EXISTS (
        SELECT 1 FROM job_items e JOIN jobs j ON j.id = e.job_id
        WHERE e.content_hash = i.content_hash
          AND (e.job_id, e.seq) < (i.job_id, i.seq)
          AND e.status IN ('enqueued', 'discovering', 'discovered', 'scoring') {states}
          AND j.status IN ('enqueued', 'processing')
          AND (j.id = i.job_id OR (j.local_owner IS NULL AND :is_local = 0)))"""

# Whether an earlier open item replaces the content of the document of item `i`: the document that `i` itself
# replaces, or the stored document with the same content as `i`.
_HAS_EARLIER_REPLACEMENT = """EXISTS (
        SELECT 1 FROM job_items r JOIN jobs j ON j.id = r.job_id
        WHERE r.document_id IN (i.document_id,
                                (SELECT d.id FROM documents d WHERE d.content_hash = i.content_hash))
          AND r.content_hash IS NOT NULL AND r.document_id IS NOT NULL
          AND r.status IN ('enqueued', 'discovering', 'discovered', 'scoring')
          AND (r.job_id, r.seq) < (i.job_id, i.seq)
          AND j.status IN ('enqueued', 'processing')
          AND (j.id = i.job_id OR (j.local_owner IS NULL AND :is_local = 0)))"""

# READY_ITEMS without copies of earlier undiscovered items: only one of two equal texts is discovered.
READY_UNDISCOVERED = sa.text(f"""
    SELECT {_ITEM_COLUMNS} FROM job_items i
    WHERE i.status = :status AND i.job_id = :job_id AND i.wave = :wave AND i.lease_owner IS NULL
      AND NOT {_HAS_EARLIER_COPY.format(states="AND e.status IN ('enqueued', 'discovering')")}
    ORDER BY i.seq
""")

# READY_ITEMS without those that wait for an earlier open item with the same content or a replacement of their
# document.
READY_ORIGINALS = sa.text(f"""
    SELECT {_ITEM_COLUMNS} FROM job_items i
    WHERE i.status = :status AND i.job_id = :job_id AND i.wave = :wave AND i.lease_owner IS NULL
      AND NOT {_HAS_EARLIER_COPY.format(states="")}
      AND NOT {_HAS_EARLIER_REPLACEMENT}
    ORDER BY i.seq
""")

# Whether an open item replaces the content of a document.
IS_BEING_REPLACED = """
    SELECT EXISTS (
        SELECT 1 FROM job_items r JOIN jobs j ON j.id = r.job_id
        WHERE r.document_id = :document_id AND r.content_hash IS NOT NULL AND r.document_id IS NOT NULL
          AND r.status IN ('enqueued', 'discovering', 'discovered', 'scoring')
          AND j.status IN ('enqueued', 'processing') AND j.local_owner IS NULL)
"""

CLAIM_ITEM = sa.text("""
    UPDATE job_items SET status = :running, lease_owner = :owner, lease_expires_at = :expires, alone = :alone,
        updated_at = :now
    WHERE id = :item_id AND status = :ready AND lease_owner IS NULL
""")

CLAIM_WAVE = sa.text("""
    UPDATE waves SET lease_owner = :owner, lease_expires_at = :expires
    WHERE job_id = :job_id AND n = :wave AND stage = :stage AND lease_owner IS NULL
""")

START_JOB = sa.text("""
    UPDATE jobs SET status = 'processing', stage = :stage, started_at = COALESCE(started_at, :now),
        last_claim = :moment, received_at = :moment, updated_at = :now, revision = revision + 1
    WHERE id = :job_id AND status IN ('enqueued', 'processing')
""")

ITEM_CONTENT = "SELECT content FROM job_item_contents WHERE item_id = :item_id"

# --- Holding a claim ----------------------------------------------------------------------------------------

RENEW_ITEM = sa.text(
    "UPDATE job_items SET lease_expires_at = :expires WHERE id = :item_id AND lease_owner = :owner"
)
RENEW_WAVE = sa.text("""
    UPDATE waves SET lease_expires_at = :expires WHERE job_id = :job_id AND n = :wave AND lease_owner = :owner
""")

RELEASE_ITEM = sa.text("""
    UPDATE job_items SET status = :ready, lease_owner = NULL, lease_expires_at = NULL, updated_at = :now,
        alone = :alone
    WHERE id = :item_id AND lease_owner = :owner AND status = :running
""")
RELEASE_WAVE = sa.text("""
    UPDATE waves SET lease_owner = NULL, lease_expires_at = NULL, attempts = attempts + :charged
    WHERE job_id = :job_id AND n = :wave AND lease_owner = :owner
""")

HOLDS_WAVE = sa.text("""
    SELECT 1 FROM waves WHERE job_id = :job_id AND n = :wave AND stage = :stage AND lease_owner = :owner
""")
WAVE_ATTEMPTS = sa.text(
    "SELECT attempts FROM waves WHERE job_id = :job_id AND n = :wave AND lease_owner = :owner"
)

# --- Results ------------------------------------------------------------------------------------------------

# Requires the lease, so it works only once. An item that ran alone in discover may share its next batch.
END_ITEM = sa.text("""
    UPDATE job_items SET status = :status, document_id = COALESCE(:document_id, document_id), error = :error,
        error_code = :error_code, lease_owner = NULL, lease_expires_at = NULL, updated_at = :now,
        alone = CASE WHEN :status = 'discovered' THEN 0 ELSE alone END
    WHERE id = :item_id AND lease_owner = :owner AND status = :running
""")
DELETE_CONTENT = sa.text("DELETE FROM job_item_contents WHERE item_id = :item_id")
DELETE_CUTS = sa.text("DELETE FROM job_item_cuts WHERE item_id = :item_id")

# Chunk boundaries of an item from the discover stage.
INSERT_CUTS = "INSERT INTO job_item_cuts (item_id, cuts) VALUES (?, ?)"
ITEM_CUTS = "SELECT cuts FROM job_item_cuts WHERE item_id = :item_id"

COUNT_DOWN_WAVE = sa.text("""
    UPDATE waves SET pending = pending - :ended WHERE job_id = :job_id AND n = :wave AND stage = :stage
    RETURNING pending
""")

# Open items of a wave; their number is the `pending` count of the next stage.
OPEN_ITEMS_OF_WAVE = sa.text("""
    SELECT id, n_bytes FROM job_items
    WHERE status IN ('enqueued', 'discovering', 'discovered', 'scoring') AND job_id = :job_id AND wave = :wave
""")
ADVANCE_WAVE = sa.text("""
    UPDATE waves SET stage = :next, pending = :pending, notified_at = 0, attempts = 0,
        lease_owner = NULL, lease_expires_at = NULL,
        vocabulary_version = COALESCE(:vocabulary_version, vocabulary_version)
    WHERE job_id = :job_id AND n = :wave AND stage = :stage
""")
# Advances a wave by the owner of its lease.
ADVANCE_LEASED_WAVE = sa.text(ADVANCE_WAVE.text + " AND lease_owner = :owner")

END_OPEN_ITEM = sa.text("""
    UPDATE job_items SET status = :status, error = :error, error_code = :error_code, lease_owner = NULL,
        lease_expires_at = NULL, updated_at = :now
    WHERE id = :item_id AND status IN ('enqueued', 'discovering', 'discovered', 'scoring')
""")

# Open items of a job, to end them all. A wave in a discover stage has already subtracted its `discovered`
# items from `pending`.
OPEN_ITEMS_OF_JOB = sa.text("""
    SELECT i.id, i.wave, i.status, i.n_bytes, w.stage
    FROM job_items i JOIN waves w ON w.job_id = i.job_id AND w.n = i.wave
    WHERE i.status IN ('enqueued', 'discovering', 'discovered', 'scoring') AND i.job_id = :job_id
    LIMIT :limit
""")

COUNT_JOB = sa.text("""
    UPDATE jobs SET n_succeeded = n_succeeded + :n_succeeded, n_failed = n_failed + :n_failed,
        n_duplicate = n_duplicate + :n_duplicate, n_canceled = n_canceled + :n_canceled,
        bytes_done = bytes_done + :bytes_done, stage = COALESCE(:stage, stage), updated_at = :now,
        revision = revision + 1
    WHERE id = :job_id
""")

OPEN_WAVES_OF_JOB = sa.text("SELECT COUNT(*) FROM waves WHERE job_id = :job_id AND stage <> 'done'")
JOB_COUNTS = sa.text("""
    SELECT total, n_succeeded, n_failed, n_duplicate, n_canceled FROM jobs
    WHERE id = :job_id AND status IN ('enqueued', 'processing')
""")
FIRST_ERROR = sa.text(
    "SELECT error FROM job_items WHERE job_id = :job_id AND status = 'failed' ORDER BY seq LIMIT 1"
)
END_JOB = sa.text("""
    UPDATE jobs SET status = :status, stage = NULL, error = :error, finished_at = :now,
        started_at = COALESCE(started_at, :now), updated_at = :now, revision = revision + 1
    WHERE id = :job_id AND status IN ('enqueued', 'processing')
""")

# --- Retrying -----------------------------------------------------------------------------------------------

# Failed items that can be retried: their text is stored, or they need none. A later replacement of the same
# document supersedes an earlier one.
RETRIABLE_ITEMS = sa.text("""
    SELECT i.id, i.wave, i.n_bytes FROM job_items i JOIN jobs j ON j.id = i.job_id
    WHERE i.job_id = :job_id AND i.status = 'failed' AND j.local_owner IS NULL
      AND (j.kind IN ('delete', 'rescore')
           OR EXISTS (SELECT 1 FROM job_item_contents c WHERE c.item_id = i.id))
      AND NOT (j.kind = 'replace' AND EXISTS (
        SELECT 1 FROM job_items r
        WHERE r.document_id = i.document_id AND (r.job_id, r.seq) > (i.job_id, i.seq)
          AND r.content_hash IS NOT NULL AND r.status NOT IN ('failed', 'canceled')))
    ORDER BY i.seq
""")
NEXT_WAVE = sa.text("SELECT COALESCE(MAX(n), -1) + 1 FROM waves WHERE job_id = :job_id")
# `alone` stays: an item that crashed its worker keeps running alone.
RETRY_ITEM = sa.text("""
    UPDATE job_items SET status = 'enqueued', wave = :wave, attempts = 0, interruptions = 0, error = NULL,
        error_code = NULL, updated_at = :now
    WHERE id = :item_id AND status = 'failed'
""")
SHRINK_WAVE = sa.text("""
    UPDATE waves SET total = total - :items, bytes = bytes - :bytes WHERE job_id = :job_id AND n = :wave
""")
INSERT_WAVE = sa.text("""
    INSERT INTO waves (job_id, n, stage, total, pending, bytes)
    VALUES (:job_id, :n, :stage, :items, :items, :bytes)
""")
REOPEN_JOB = sa.text("""
    UPDATE jobs SET status = CASE status WHEN 'processing' THEN status ELSE 'enqueued' END, error = NULL,
        finished_at = NULL, n_failed = n_failed - :failed, bytes_done = bytes_done - :bytes,
        updated_at = :now, revision = revision + 1
    WHERE id = :job_id AND status IN ('enqueued', 'processing', 'partial', 'failed')
""")
# Failed items whose text was kept for a retry; a canceled job cannot be retried.
FAILED_ITEMS_WITH_TEXT = sa.text("""
    SELECT i.id, i.n_bytes FROM job_items i JOIN job_item_contents c ON c.item_id = i.id
    WHERE i.job_id = :job_id AND i.status = 'failed' LIMIT :limit
""")

# --- Reconciling --------------------------------------------------------------------------------------------

# The second condition is literally that of the partial index of open items, so that SQLite uses the index.
LEASED_ITEMS = sa.text("""
    SELECT i.id, i.job_id, i.seq, i.wave, i.n_bytes, i.attempts, i.interruptions, i.alone, i.lease_owner,
           i.lease_expires_at, i.status, w.stage, j.plan
    FROM job_items i
    JOIN waves w ON w.job_id = i.job_id AND w.n = i.wave
    JOIN jobs j ON j.id = i.job_id
    WHERE i.status IN ('discovering', 'scoring') AND i.lease_owner IS NOT NULL
      AND i.status IN ('enqueued', 'discovering', 'discovered', 'scoring')
""")
LEASED_WAVES = sa.text("""
    SELECT w.job_id, w.n, w.stage, w.attempts, w.lease_owner, w.lease_expires_at
    FROM waves w WHERE w.stage <> 'done' AND w.lease_owner IS NOT NULL
""")

# Counts a crash or interruption of an item's worker, before the item is released or failed.
RECORD_ATTEMPT = sa.text("""
    UPDATE job_items SET attempts = :attempts, interruptions = :interruptions
    WHERE id = :item_id AND lease_owner = :owner AND status = :running
""")

OPEN_WORK = sa.text("SELECT 1 FROM waves WHERE stage <> 'done' LIMIT 1")

# Affects a row for only one of several reconcilers; that one sends the message.
MARK_WAVE_NOTIFIED = sa.text("""
    UPDATE waves SET notified_at = :moment WHERE job_id = :job_id AND n = :wave AND notified_at <= :before
""")

UPSERT_WORKER = sa.text("""
    INSERT INTO workers (name, hostname, pid, processes, version, started_at, seen_at)
    VALUES (:name, :hostname, :pid, :processes, :version, :started_at, :seen_at)
    ON CONFLICT (name) DO UPDATE SET hostname = excluded.hostname, pid = excluded.pid,
        processes = excluded.processes, version = excluded.version, started_at = excluded.started_at,
        seen_at = excluded.seen_at
""")
DELETE_WORKER = sa.text("DELETE FROM workers WHERE name = :name")
DELETE_STALE_WORKERS = sa.text("DELETE FROM workers WHERE seen_at < :moment")

# --- Reading ------------------------------------------------------------------------------------------------

JOB = sa.text("SELECT * FROM jobs WHERE id = :job_id AND status NOT IN ('receiving', 'dropped')")
# Bytes done (discovered items count half), all bytes, ended items, all items.
LOCAL_PROGRESS = sa.text("""
    SELECT SUM(CASE WHEN status IN ('discovered', 'scoring') THEN n_bytes / 2
                    WHEN status IN ('enqueued', 'discovering') THEN 0 ELSE n_bytes END),
           SUM(n_bytes),
           SUM(CASE WHEN status IN ('enqueued', 'discovering', 'discovered', 'scoring') THEN 0 ELSE 1 END),
           COUNT(*)
    FROM job_items WHERE job_id = :job_id
""")
# Results of the items of a job, with the documents they became or duplicate.
LOCAL_RESULTS = sa.text("""
    SELECT i.id, i.seq, i.title, i.tags, i.status, i.error, i.error_code, i.document_id,
           d.title AS document_title, d.n_chunks, d.report
    FROM job_items i LEFT JOIN documents d ON d.id = i.document_id
    WHERE i.job_id = :job_id ORDER BY i.seq
""")
_LIST_FILTERS: tuple[sa.BindParameter[str], ...] = (
    sa.bindparam("statuses", expanding=True),
    sa.bindparam("kinds", expanding=True),
)
JOBS = sa.text("""
    SELECT * FROM jobs
    WHERE status IN :statuses AND kind IN :kinds AND local_owner IS NULL
    ORDER BY id DESC LIMIT :limit OFFSET :offset
""").bindparams(*_LIST_FILTERS)
COUNT_JOBS = sa.text("""
    SELECT COUNT(*) FROM jobs WHERE status IN :statuses AND kind IN :kinds AND local_owner IS NULL
""").bindparams(*_LIST_FILTERS)
WAVES = sa.text("SELECT stage, total, pending, bytes FROM waves WHERE job_id = :job_id ORDER BY n")
# Open documents whose texts take disk space. Delete and rescore jobs hold no text and are left out.
WAITING = sa.text("""
    SELECT COUNT(*) AS jobs,
           COALESCE(SUM(total - n_succeeded - n_failed - n_duplicate - n_canceled), 0) AS items,
           COALESCE(SUM(bytes_total - bytes_done), 0) AS bytes
    FROM jobs
    WHERE status IN ('enqueued', 'processing') AND kind NOT IN ('delete', 'rescore') AND local_owner IS NULL
""")
# `report` is that of the document an item became, as long as the document still has the item's text.
ITEMS = sa.text("""
    SELECT i.seq, i.title, i.source_path, i.metadata, i.warnings, i.n_bytes, i.status, i.document_id,
           i.attempts, i.error, i.error_code, w.stage, d.title AS title_stored,
           d.source_path AS source_path_stored, d.metadata AS metadata_stored, s.report
    FROM job_items i
    LEFT JOIN waves w ON w.job_id = i.job_id AND w.n = i.wave
    LEFT JOIN documents d ON d.id = i.document_id AND i.status = 'duplicate'
    LEFT JOIN documents s
        ON s.id = i.document_id AND i.status = 'succeeded' AND s.content_hash = i.content_hash
    WHERE i.job_id = :job_id AND (:status IS NULL OR i.status = :status)
    ORDER BY i.seq LIMIT :limit OFFSET :offset
""")
COUNT_ITEMS = sa.text(
    "SELECT COUNT(*) FROM job_items WHERE job_id = :job_id AND (:status IS NULL OR status = :status)"
)
WORKERS = sa.text("SELECT * FROM workers WHERE seen_at >= :since ORDER BY name")
# Trace ids of the requests that submitted the jobs.
TRACE_IDS = (
    "SELECT DISTINCT trace_id FROM jobs WHERE id IN ({ids}) AND trace_id IS NOT NULL ORDER BY trace_id"
)
