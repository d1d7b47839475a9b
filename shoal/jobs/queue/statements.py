"""Every SQL statement of the job protocol, by name. Times named `now` are texts, `moment` seconds since the epoch.

Statements change a row only while it is in the state they name, so that one that comes too late or twice changes
nothing; the caller looks at the number of rows.
"""

from __future__ import annotations

import sqlalchemy as sa

# --- Accepting -----------------------------------------------------------------------------------------------

# Opens an upload.
INSERT_JOB = sa.text("""
    INSERT INTO jobs (kind, status, plan, created_at, updated_at, received_at, local_owner, trace_id)
    VALUES (:kind, :status, :plan, :created_at, :created_at, :received_at, :local_owner, :trace_id)
    RETURNING id
""")

# The sign of life of an upload; no row where it was dropped meanwhile.
TOUCH_UPLOAD = sa.text("UPDATE jobs SET received_at = :moment WHERE id = :job_id AND status = 'receiving'")

INSERT_ITEM = sa.text("""
    INSERT INTO job_items (job_id, seq, wave, title, source_path, format, tags, metadata, warnings, n_bytes, content_hash,
                           status, document_id, error, updated_at)
    VALUES (:job_id, :seq, :wave, :title, :source_path, :format, :tags, :metadata, :warnings, :n_bytes, :content_hash,
            :status, :document_id, :error, :now)
""")

INSERT_CONTENT = sa.text("""
    INSERT INTO job_item_contents (item_id, content)
    SELECT id, :content FROM job_items WHERE job_id = :job_id AND seq = :seq
""")

# The waves of a complete upload: those items that are to be worked on.
CUT_WAVES = sa.text("""
    INSERT INTO waves (job_id, n, stage, total, pending, bytes)
    SELECT job_id, wave, :stage, COUNT(*), COUNT(*), SUM(n_bytes)
    FROM job_items WHERE job_id = :job_id AND status = 'enqueued' GROUP BY job_id, wave
""")

# The wave of a rescore where there is nothing to score: the vocabulary is still to be learned afresh.
CUT_EMPTY_WAVE = sa.text("""
    INSERT INTO waves (job_id, n, stage, total, pending, bytes) VALUES (:job_id, 0, :stage, 0, 0, 0)
""")

# The moment of the promise: from here on the items are claimable.
ACCEPT_JOB = sa.text("""
    UPDATE jobs SET status = 'enqueued', idempotency_key = :key, request_hash = :request_hash, n_skipped = :n_skipped,
        updated_at = :now, revision = revision + 1,
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

# --- Giving uploads up ---------------------------------------------------------------------------------------

DROP_UPLOAD = sa.text("UPDATE jobs SET status = 'dropped' WHERE id = :job_id AND status = 'receiving'")

# Uploads that gave no sign of life since `moment`.
DROP_SILENT_UPLOADS = sa.text(
    "UPDATE jobs SET status = 'dropped' WHERE status = 'receiving' AND received_at < :moment"
)
SILENT_UPLOADS = sa.text(
    "SELECT COUNT(*) FROM jobs WHERE status = 'dropped' OR (status = 'receiving' AND received_at < :moment)"
)

# Jobs that a process works on by itself, and when it gave the last sign of life.
LOCAL_JOBS = sa.text(
    "SELECT id, local_owner, received_at FROM jobs WHERE local_owner IS NOT NULL AND status <> 'dropped'"
)
# What such a process leaves undone is nobody's; what it has done, and ended, is told, and no job for others to see.
DROP_LOCAL_JOB = sa.text(
    "UPDATE jobs SET status = 'dropped', idempotency_key = NULL WHERE id = :job_id AND local_owner IS NOT NULL"
)

DROPPED_JOB = sa.text("SELECT id FROM jobs WHERE status = 'dropped' LIMIT 1")
DROPPED_ITEMS = sa.text("SELECT id, n_bytes FROM job_items WHERE job_id = :job_id ORDER BY seq LIMIT :limit")
DELETE_ITEM = sa.text("DELETE FROM job_items WHERE id = :item_id")
DELETE_JOB = sa.text("DELETE FROM jobs WHERE id = :job_id AND status = 'dropped'")

# --- Claiming ------------------------------------------------------------------------------------------------

# Open waves in fair order: the job that waited longest since its last claim, in it the smallest wave. A process that
# works on a job by itself sees that one only, and no one else sees it.
OPEN_WAVES = sa.text("""
    SELECT j.id AS job_id, j.plan, w.n, w.stage, w.vocabulary_version, w.lease_owner, w.notified_at
    FROM waves w JOIN jobs j ON j.id = w.job_id
    WHERE w.stage <> 'done' AND j.status IN ('enqueued', 'processing')
      AND (j.id = :job_id OR (:job_id IS NULL AND j.local_owner IS NULL))
    ORDER BY j.last_claim, j.id, w.n
""")

# Someone learns: others wait, because each learns on top of the last.
LEARNING_NOW = sa.text("""
    SELECT 1 FROM waves w JOIN jobs j ON j.id = w.job_id
    WHERE w.stage <> 'done' AND w.stage IN ('learn', 'relearn') AND w.lease_owner IS NOT NULL
      AND j.status IN ('enqueued', 'processing') LIMIT 1
""")

_ITEM_COLUMNS = """i.id, i.job_id, i.seq, i.wave, i.title, i.source_path, i.format, i.tags, i.metadata, i.warnings, i.n_bytes,
                   i.content_hash, i.document_id, i.attempts, i.alone"""

# Items of a wave that anyone may take.
READY_ITEMS = sa.text(f"""
    SELECT {_ITEM_COLUMNS} FROM job_items i
    WHERE i.status = :status AND i.job_id = :job_id AND i.wave = :wave AND i.lease_owner IS NULL
    ORDER BY i.seq
""")

# Whether the content of item `i` is that of an earlier open item, in a state that `{states}` narrows down. An item of
# an upload that is not complete, or of a job that a process works on by itself, is nobody else's original.
_EARLIER = """EXISTS (
        SELECT 1 FROM job_items e JOIN jobs j ON j.id = e.job_id
        WHERE e.content_hash = i.content_hash
          AND (e.job_id, e.seq) < (i.job_id, i.seq)
          AND e.status IN ('enqueued', 'discovering', 'discovered', 'scoring') {states}
          AND j.status IN ('enqueued', 'processing')
          AND (j.id = i.job_id OR (j.local_owner IS NULL AND :is_local = 0)))"""

# Whether an earlier open item is to give new content to the document that item `i` is about: the one that it replaces
# itself, or the one that has its content up to now.
_REPLACED_EARLIER = """EXISTS (
        SELECT 1 FROM job_items r JOIN jobs j ON j.id = r.job_id
        WHERE r.document_id IN (i.document_id, (SELECT d.id FROM documents d WHERE d.content_hash = i.content_hash))
          AND r.content_hash IS NOT NULL AND r.document_id IS NOT NULL
          AND r.status IN ('enqueued', 'discovering', 'discovered', 'scoring')
          AND (r.job_id, r.seq) < (i.job_id, i.seq)
          AND j.status IN ('enqueued', 'processing')
          AND (j.id = i.job_id OR (j.local_owner IS NULL AND :is_local = 0)))"""

# The same, without those whose content an earlier item has that was not looked at: one of the two is to be.
READY_UNSEEN = sa.text(f"""
    SELECT {_ITEM_COLUMNS} FROM job_items i
    WHERE i.status = :status AND i.job_id = :job_id AND i.wave = :wave AND i.lease_owner IS NULL
      AND NOT {_EARLIER.format(states="AND e.status IN ('enqueued', 'discovering')")}
    ORDER BY i.seq
""")

# The same, without those whose content an earlier open item has, or whose document one replaces: they wait for what
# becomes of it.
READY_ORIGINALS = sa.text(f"""
    SELECT {_ITEM_COLUMNS} FROM job_items i
    WHERE i.status = :status AND i.job_id = :job_id AND i.wave = :wave AND i.lease_owner IS NULL
      AND NOT {_EARLIER.format(states="")}
      AND NOT {_REPLACED_EARLIER}
    ORDER BY i.seq
""")

# Whether a document is to be given new content by an accepted item.
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

# --- Holding a claim -----------------------------------------------------------------------------------------

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

# --- Results -------------------------------------------------------------------------------------------------

# Only for whoever still holds the lease, and only once. What has come through a stage alone need not be alone in the next.
END_ITEM = sa.text("""
    UPDATE job_items SET status = :status, document_id = COALESCE(:document_id, document_id), error = :error,
        lease_owner = NULL, lease_expires_at = NULL, updated_at = :now,
        alone = CASE WHEN :status = 'discovered' THEN 0 ELSE alone END
    WHERE id = :item_id AND lease_owner = :owner AND status = :running
""")
DELETE_CONTENT = sa.text("DELETE FROM job_item_contents WHERE item_id = :item_id")
DELETE_CUTS = sa.text("DELETE FROM job_item_cuts WHERE item_id = :item_id")

# Where pass 1 cut the text of an item.
INSERT_CUTS = "INSERT INTO job_item_cuts (item_id, cuts) VALUES (?, ?)"
ITEM_CUTS = "SELECT cuts FROM job_item_cuts WHERE item_id = :item_id"

COUNT_DOWN_WAVE = sa.text("""
    UPDATE waves SET pending = pending - :ended WHERE job_id = :job_id AND n = :wave AND stage = :stage
    RETURNING pending
""")

# Passing the barrier: the items that are still open make the next stage's count.
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
# As above, by whoever leased the wave as a whole.
ADVANCE_LEASED_WAVE = sa.text(ADVANCE_WAVE.text + " AND lease_owner = :owner")

END_OPEN_ITEM = sa.text("""
    UPDATE job_items SET status = :status, error = :error, lease_owner = NULL, lease_expires_at = NULL,
        updated_at = :now
    WHERE id = :item_id AND status IN ('enqueued', 'discovering', 'discovered', 'scoring')
""")

# Open items of a job, for whoever ends them all; the status tells whether a first look has counted them down.
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

# --- Trying again --------------------------------------------------------------------------------------------

# Failed items that can be tried again: their text is there, or they need none. A replacement is overtaken by a later
# one of the same document.
RETRIABLE_ITEMS = sa.text("""
    SELECT i.id, i.wave, i.n_bytes FROM job_items i JOIN jobs j ON j.id = i.job_id
    WHERE i.job_id = :job_id AND i.status = 'failed' AND j.local_owner IS NULL
      AND (j.kind IN ('delete', 'rescore') OR EXISTS (SELECT 1 FROM job_item_contents c WHERE c.item_id = i.id))
      AND NOT (j.kind = 'replace' AND EXISTS (
        SELECT 1 FROM job_items r
        WHERE r.document_id = i.document_id AND (r.job_id, r.seq) > (i.job_id, i.seq)
          AND r.content_hash IS NOT NULL AND r.status NOT IN ('failed', 'canceled')))
    ORDER BY i.seq
""")
NEXT_WAVE = sa.text("SELECT COALESCE(MAX(n), -1) + 1 FROM waves WHERE job_id = :job_id")
# `alone` stays: an item that took its worker down goes on alone.
RETRY_ITEM = sa.text("""
    UPDATE job_items SET status = 'enqueued', wave = :wave, attempts = 0, interruptions = 0, error = NULL, updated_at = :now
    WHERE id = :item_id AND status = 'failed'
""")
LEAVE_WAVE = sa.text("""
    UPDATE waves SET total = total - :items, bytes = bytes - :bytes WHERE job_id = :job_id AND n = :wave
""")
INSERT_WAVE = sa.text("""
    INSERT INTO waves (job_id, n, stage, total, pending, bytes) VALUES (:job_id, :n, :stage, :items, :items, :bytes)
""")
REOPEN_JOB = sa.text("""
    UPDATE jobs SET status = CASE status WHEN 'processing' THEN status ELSE 'enqueued' END, error = NULL,
        finished_at = NULL, n_failed = n_failed - :failed, bytes_done = bytes_done - :bytes, updated_at = :now,
        revision = revision + 1
    WHERE id = :job_id AND status IN ('enqueued', 'processing', 'partial', 'failed')
""")
# What was kept for trying again, of a canceled job that will not be.
TEXTS_OF_FAILED = sa.text("""
    SELECT i.id, i.n_bytes FROM job_items i JOIN job_item_contents c ON c.item_id = i.id
    WHERE i.job_id = :job_id AND i.status = 'failed' LIMIT :limit
""")

# --- Reconciling ---------------------------------------------------------------------------------------------

# The second condition is that of the partial index of open items, in its very words.
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

# The end of its worker, charged to an item before it is given back or given up.
CHARGE_ITEM = sa.text("""
    UPDATE job_items SET attempts = :attempts, interruptions = :interruptions
    WHERE id = :item_id AND lease_owner = :owner AND status = :running
""")

OPEN_WORK = sa.text("SELECT 1 FROM waves WHERE stage <> 'done' LIMIT 1")

# One reconciler sends the message, however many see that it is missing.
NUDGE_WAVE = sa.text("""
    UPDATE waves SET notified_at = :moment WHERE job_id = :job_id AND n = :wave AND notified_at <= :before
""")

SIGN_OF_LIFE = sa.text("""
    INSERT INTO workers (name, hostname, pid, processes, version, started_at, seen_at)
    VALUES (:name, :hostname, :pid, :processes, :version, :started_at, :seen_at)
    ON CONFLICT (name) DO UPDATE SET hostname = excluded.hostname, pid = excluded.pid,
        processes = excluded.processes, version = excluded.version, started_at = excluded.started_at,
        seen_at = excluded.seen_at
""")
FORGET_WORKER = sa.text("DELETE FROM workers WHERE name = :name")
FORGET_OLD_WORKERS = sa.text("DELETE FROM workers WHERE seen_at < :moment")

# --- Reading -------------------------------------------------------------------------------------------------

JOB = sa.text("SELECT * FROM jobs WHERE id = :job_id AND status NOT IN ('receiving', 'dropped')")
# Bytes with half of those that had their first look, bytes, items that have ended, items.
LOCAL_PROGRESS = sa.text("""
    SELECT SUM(CASE WHEN status IN ('discovered', 'scoring') THEN n_bytes / 2
                    WHEN status IN ('enqueued', 'discovering') THEN 0 ELSE n_bytes END),
           SUM(n_bytes),
           SUM(CASE WHEN status IN ('enqueued', 'discovering', 'discovered', 'scoring') THEN 0 ELSE 1 END),
           COUNT(*)
    FROM job_items WHERE job_id = :job_id
""")
# What became of the items of a job, and the documents they became or are duplicates of.
LOCAL_RESULTS = sa.text("""
    SELECT i.id, i.seq, i.title, i.tags, i.status, i.error, i.document_id, d.title AS document_title, d.n_chunks, d.report
    FROM job_items i LEFT JOIN documents d ON d.id = i.document_id
    WHERE i.job_id = :job_id ORDER BY i.seq
""")
_LISTED: tuple[sa.BindParameter[str], ...] = (
    sa.bindparam("statuses", expanding=True),
    sa.bindparam("kinds", expanding=True),
)
JOBS = sa.text("""
    SELECT * FROM jobs
    WHERE status IN :statuses AND kind IN :kinds AND local_owner IS NULL
    ORDER BY id DESC LIMIT :limit OFFSET :offset
""").bindparams(*_LISTED)
COUNT_JOBS = sa.text("""
    SELECT COUNT(*) FROM jobs WHERE status IN :statuses AND kind IN :kinds AND local_owner IS NULL
""").bindparams(*_LISTED)
WAVES = sa.text("SELECT stage, total, pending, bytes FROM waves WHERE job_id = :job_id ORDER BY n")
# Documents that wait for the workers, whose texts take room; what is only deleted or scored again takes none.
WAITING = sa.text("""
    SELECT COUNT(*) AS jobs,
           COALESCE(SUM(total - n_succeeded - n_failed - n_duplicate - n_canceled), 0) AS items,
           COALESCE(SUM(bytes_total - bytes_done), 0) AS bytes
    FROM jobs
    WHERE status IN ('enqueued', 'processing') AND kind NOT IN ('delete', 'rescore') AND local_owner IS NULL
""")
# `report` is that of the document which an item became, as long as that still has the item's text.
ITEMS = sa.text("""
    SELECT i.seq, i.title, i.source_path, i.metadata, i.warnings, i.n_bytes, i.status, i.document_id, i.attempts, i.error,
           w.stage, d.title AS title_stored, d.source_path AS source_path_stored, d.metadata AS metadata_stored, s.report
    FROM job_items i
    LEFT JOIN waves w ON w.job_id = i.job_id AND w.n = i.wave
    LEFT JOIN documents d ON d.id = i.document_id AND i.status = 'duplicate'
    LEFT JOIN documents s ON s.id = i.document_id AND i.status = 'succeeded' AND s.content_hash = i.content_hash
    WHERE i.job_id = :job_id AND (:status IS NULL OR i.status = :status)
    ORDER BY i.seq LIMIT :limit OFFSET :offset
""")
COUNT_ITEMS = sa.text(
    "SELECT COUNT(*) FROM job_items WHERE job_id = :job_id AND (:status IS NULL OR status = :status)"
)
WORKERS = sa.text("SELECT * FROM workers WHERE seen_at >= :since ORDER BY name")
# The requests that jobs came with.
TRACE_IDS = (
    "SELECT DISTINCT trace_id FROM jobs WHERE id IN ({ids}) AND trace_id IS NOT NULL ORDER BY trace_id"
)
