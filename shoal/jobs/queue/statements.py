"""All SQL statements of the job protocol. `now` is a timestamp text, `moment` is seconds since the epoch.

A statement changes a row only in the state it names, so a late or repeated statement changes nothing; the
caller checks the row count.
"""

from __future__ import annotations

from shoal.errors import PERMANENT_CODES
from shoal.jobs.queue.states import (
    DROPPED,
    FINAL,
    RECEIVING,
    RETRIABLE,
    RUNNING,
    STATUS_AFTER,
    STORED,
    WAVE_DONE,
    WHOLE_WAVE_STAGES,
    sql_list,
)
from shoal.models.jobs import ItemStatus, JobKind, JobStatus, Stage

OPEN_ITEM = sql_list(status for status in STORED if status not in FINAL)
"""Statuses of open items. The text is that of the partial indexes, which SQLite uses for no other text."""
OPEN_JOB = sql_list([JobStatus.enqueued, JobStatus.processing])
_RUNNING_ITEM = sql_list(dict.fromkeys(RUNNING.values()))
_UNDISCOVERED_ITEM = sql_list(
    [ItemStatus.enqueued, ItemStatus.converting, ItemStatus.converted, ItemStatus.discovering]
)
_PASSED_ITEM = sql_list(dict.fromkeys(STATUS_AFTER.values()))
_REFUSED_ITEM = sql_list([ItemStatus.failed, ItemStatus.duplicate])
"""Statuses of items that end with the upload."""
_RETRIABLE_JOB = sql_list(status for status in JobStatus if status is not JobStatus.succeeded)
_RETRIABLE_ITEM = sql_list(sorted(RETRIABLE))
_LEARN_STAGES = sql_list(sorted(WHOLE_WAVE_STAGES))
_RUNNING_AT = " ".join(f"WHEN '{stage}' THEN '{status}'" for stage, status in RUNNING.items())
_STATUS_AFTER = " ".join(f"WHEN '{stage}' THEN '{status}'" for stage, status in STATUS_AFTER.items())
MAX_SUMMED_ITEMS = 1000
"""Items of a wave whose bytes are summed whenever somebody looks at the progress. Among more items, the share
of the items says enough."""
_WITHOUT_TEXT = sql_list([JobKind.delete, JobKind.rescore, JobKind.dedup, JobKind.embed])
"""Kinds of jobs whose items have no text."""

# --- Accepting ----------------------------------------------------------------------------------------------

# Opens an upload.
INSERT_JOB = """
    INSERT INTO jobs (kind, status, plan, created_at, updated_at, received_at, local_owner, trace_id)
    VALUES (:kind, :status, :plan, :created_at, :created_at, :received_at, :local_owner, :trace_id)
    RETURNING id
"""

# Heartbeat of an upload; affects no row if the upload was dropped.
TOUCH_UPLOAD = f"UPDATE jobs SET received_at = :moment WHERE id = :job_id AND status = '{RECEIVING}'"

INSERT_ITEM = """
    INSERT INTO job_items (job_id, seq, wave, title, source_path, format, tags, metadata, warnings, n_bytes,
                           content_hash, status, document_id, by_path, alone, error, error_code, updated_at,
                           chunk_tokens, rights, language)
    VALUES (:job_id, :seq, :wave, :title, :source_path, :format, :tags, :metadata, :warnings, :n_bytes,
            :content_hash, :status, :document_id, :by_path, :alone, :error, :error_code, :now,
            :chunk_tokens, :rights, :language)
"""

# Makes each item that waits a batch of its own.
RUN_ALONE = f"UPDATE job_items SET alone = 1 WHERE job_id = :job_id AND status = '{ItemStatus.enqueued}'"

INSERT_CONTENT = """
    INSERT INTO job_item_contents (item_id, content, passages)
    SELECT id, :content, :passages FROM job_items WHERE job_id = :job_id AND seq = :seq
"""

INSERT_FILE = """
    INSERT INTO job_item_files (item_id, kind, name, title, source, data)
    SELECT id, :kind, :name, :title, :source, :data FROM job_items
    WHERE job_id = :job_id AND seq = :seq
"""
# Whether a job has files to convert.
HAS_FILES = """
    SELECT 1 FROM job_items i JOIN job_item_files f ON f.item_id = i.id
    WHERE i.job_id = :job_id AND f.source IS NULL LIMIT 1
"""
SET_PLAN = "UPDATE jobs SET plan = :plan WHERE id = :job_id"

# Waves of a complete upload, without its refused and duplicate items.
CREATE_WAVES = f"""
    INSERT INTO waves (job_id, n, stage, total, pending, bytes)
    SELECT job_id, wave, :stage, COUNT(*), COUNT(*), SUM(n_bytes)
    FROM job_items WHERE job_id = :job_id AND status = '{ItemStatus.enqueued}' GROUP BY job_id, wave
"""

# The wave of a rescore of an empty library: the vocabulary is still relearned.
CREATE_EMPTY_WAVE = """
    INSERT INTO waves (job_id, n, stage, total, pending, bytes) VALUES (:job_id, 0, :stage, 0, 0, 0)
"""

_OF_JOB = "FROM job_items i WHERE i.job_id = :job_id"

# Accepts a job: from this commit on the items are claimable.
ACCEPT_JOB = f"""
    UPDATE jobs SET status = '{JobStatus.enqueued}', idempotency_key = :key, request_hash = :request_hash,
        n_skipped = :n_skipped, updated_at = :now, revision = revision + 1,
        total       = (SELECT COUNT(*) {_OF_JOB}),
        bytes_total = (SELECT COALESCE(SUM(n_bytes), 0) {_OF_JOB}),
        n_failed    = (SELECT COUNT(*) {_OF_JOB} AND i.status = '{ItemStatus.failed}'),
        n_duplicate = (SELECT COUNT(*) {_OF_JOB} AND i.status = '{ItemStatus.duplicate}'),
        bytes_done  = (SELECT COALESCE(SUM(n_bytes), 0) {_OF_JOB} AND i.status IN {_REFUSED_ITEM})
    WHERE id = :job_id AND status = '{RECEIVING}'
"""

PLAN = "SELECT plan FROM jobs WHERE id = :job_id"
JOB_BY_KEY = "SELECT id, request_hash FROM jobs WHERE idempotency_key = :key"

DOCUMENT_HEAD = "SELECT id, title, source_path, n_bytes FROM documents WHERE id = :document_id"
DOCUMENT_HEADS = "SELECT id, title, source_path, n_bytes FROM documents ORDER BY id"

# --- Dropping uploads ---------------------------------------------------------------------------------------

DROP_UPLOAD = f"UPDATE jobs SET status = '{DROPPED}' WHERE id = :job_id AND status = '{RECEIVING}'"

# Uploads without a heartbeat since `moment`.
DROP_STALE_UPLOADS = (
    f"UPDATE jobs SET status = '{DROPPED}' WHERE status = '{RECEIVING}' AND received_at < :moment"
)
COUNT_STALE_UPLOADS = f"""
    SELECT COUNT(*) FROM jobs
    WHERE status = '{DROPPED}' OR (status = '{RECEIVING}' AND received_at < :moment)
"""

# Local jobs (a single process works on each) with their last heartbeat.
LOCAL_JOBS = (
    f"SELECT id, local_owner, received_at FROM jobs WHERE local_owner IS NOT NULL AND status <> '{DROPPED}'"
)
# A local job is not visible to other processes, and no other process continues it.
DROP_LOCAL_JOB = (
    f"UPDATE jobs SET status = '{DROPPED}', idempotency_key = NULL "
    "WHERE id = :job_id AND local_owner IS NOT NULL"
)

DROPPED_JOB = f"SELECT id FROM jobs WHERE status = '{DROPPED}' LIMIT 1"
DROPPED_ITEMS = "SELECT id, n_bytes FROM job_items WHERE job_id = :job_id ORDER BY seq LIMIT :limit"
DELETE_ITEM = "DELETE FROM job_items WHERE id = :item_id"
DELETE_JOB = f"DELETE FROM jobs WHERE id = :job_id AND status = '{DROPPED}'"

# --- Claiming -----------------------------------------------------------------------------------------------

# Jobs of the service in fair order: the job with the longest time since its last claim first. Embedding comes
# last: it makes no document searchable.
JOBS_IN_TURN = f"""
    SELECT (j.kind = '{JobKind.embed}') AS is_last, j.last_claim, j.id, j.plan, j.total
    FROM jobs j
    WHERE j.parked = :parked AND j.status IN {OPEN_JOB} AND j.local_owner IS NULL
    ORDER BY (j.kind = '{JobKind.embed}'), j.last_claim, j.id
"""
OPEN_LOCAL_JOB = f"""
    SELECT 0 AS is_last, j.last_claim, j.id, j.plan, j.total FROM jobs j
    WHERE j.id = :job_id AND j.status IN {OPEN_JOB}
"""
WAVES_AT = f"""
    SELECT n FROM waves WHERE job_id = :job_id AND stage = :stage AND stage <> '{WAVE_DONE}' ORDER BY n
"""
# The version of the last wave of a job that has learned, done or not.
NEWEST_VERSION = """
    SELECT vocabulary_version FROM waves WHERE job_id = :job_id AND vocabulary_version IS NOT NULL
    ORDER BY vocabulary_version DESC LIMIT 1
"""

# Whether a wave is being learned from. Others must wait, because each learns on top of the one before.
LEARNING_NOW = f"""
    SELECT 1 FROM waves w JOIN jobs j ON j.id = w.job_id
    WHERE w.stage <> '{WAVE_DONE}' AND w.stage IN {_LEARN_STAGES} AND w.lease_owner IS NOT NULL
      AND j.status IN {OPEN_JOB} LIMIT 1
"""

# Whether documents are being embedded: one process at a time does it, so that no text is embedded twice.
EMBEDDING_NOW = f"""
    SELECT 1 FROM job_items i JOIN jobs j ON j.id = i.job_id
    WHERE i.status IN {_RUNNING_ITEM} AND i.lease_owner IS NOT NULL
      AND i.status IN {OPEN_ITEM} AND j.kind = '{JobKind.embed}' LIMIT 1
"""

_ITEM_COLUMNS = """i.id, i.seq, i.title, i.source_path, i.format, i.tags, i.metadata, i.warnings,
                   i.n_bytes, i.content_hash, i.document_id, i.by_path, i.alone, i.attempts,
                   i.chunk_tokens, i.rights, i.language"""

# Jobs that may hold the latest item before item `i` for which `i` waits: not those of incomplete uploads, nor
# other local jobs.
_JOB_BEFORE = f"""e.status IN {OPEN_ITEM}
          AND (e.job_id, e.seq) < (i.job_id, i.seq)
          AND j.id = e.job_id AND j.status IN {OPEN_JOB}
          AND (j.id = i.job_id OR (j.local_owner IS NULL AND :is_local = 0))"""


def _latest_before(condition: str, column: str = "e.id") -> str:
    """The latest open item `e` before item `i` that fulfills a condition, or NULL.

    Items that wait for the same thing so form a chain, and the end of one item wakes one.
    """
    return f"""(
        SELECT {column} FROM job_items e CROSS JOIN jobs j
        WHERE {condition} AND {_JOB_BEFORE}
        ORDER BY e.job_id DESC, e.seq DESC LIMIT 1)"""


# An earlier item with the same content that is not discovered yet: only one of two equal texts is discovered.
# A job of a single document waits until the earlier item has ended, because it most likely ends with it.
_UNDISCOVERED_COPY = _latest_before(
    "e.content_hash = i.content_hash",
    f"CASE WHEN e.status IN {_UNDISCOVERED_ITEM} OR (e.job_id <> i.job_id AND :total = 1) THEN e.id END",
)
_COPY = _latest_before("e.content_hash = i.content_hash")

# Items that replace by their id the content of the document of item `i`: the document that `i` itself
# replaces, or the stored document with the same content as `i`.
_REPLACEMENTS = [
    _latest_before(f"e.document_id = {document} AND e.content_hash IS NOT NULL AND e.document_id IS NOT NULL")
    for document in (
        "i.document_id",
        "(SELECT d.id FROM documents d WHERE d.content_hash = i.content_hash)",
        "(SELECT MAX(d.id) FROM documents d WHERE i.by_path = 1 AND d.source_path = i.source_path)",
    )
]

# Items with the path of item `i`, which replaces the document with its path. A rescore does not count: it
# changes no text, and takes long.
_SAME_PATH = _latest_before(
    "i.by_path = 1 AND e.source_path = i.source_path AND e.source_path IS NOT NULL "
    f"AND j.kind <> '{JobKind.rescore}'"
)

# Items that replace by their path the document that `i` replaces by its id, or that has the content of `i`.
_BY_PATH = [
    _latest_before(f"e.source_path = {path} AND e.source_path IS NOT NULL AND e.by_path = 1")
    for path in (
        "(SELECT d.source_path FROM documents d WHERE d.content_hash = i.content_hash)",
        "(SELECT d.source_path FROM documents d WHERE d.id = i.document_id)",
    )
]

_READY = f"""
    SELECT {_ITEM_COLUMNS}, {{earlier}} AS earlier FROM job_items i
    WHERE i.job_id = :job_id AND i.wave = :wave AND i.status = :status AND i.status IN {OPEN_ITEM}
      AND i.lease_owner IS NULL AND i.waits_for IS NULL AND i.retry_at IS NULL
    ORDER BY i.seq
"""
# Items of a wave that nobody has claimed and that are not known to wait.
READY_ITEMS = _READY.format(earlier="NULL")
# The same, each with the earlier open item for which it must wait, if there is one.
READY_UNDISCOVERED = _READY.format(earlier=_UNDISCOVERED_COPY)
READY_ORIGINALS = _READY.format(
    earlier=f"COALESCE({', '.join([_COPY, *_REPLACEMENTS, _SAME_PATH, *_BY_PATH])})"
)

# Whether an open item replaces the content of a document, by its id or its path. Only items before `seq` of
# `job_id` count; those of other local jobs do not.
IS_BEING_REPLACED = f"""
    SELECT EXISTS (
        SELECT 1 FROM job_items r JOIN jobs j ON j.id = r.job_id
        WHERE r.document_id = :document_id AND r.content_hash IS NOT NULL AND r.document_id IS NOT NULL
          AND r.status IN {OPEN_ITEM}
          AND (r.job_id, r.seq) < (:job_id, :seq)
          AND j.status IN {OPEN_JOB} AND (j.local_owner IS NULL OR j.id = :job_id))
    OR EXISTS (
        SELECT 1 FROM job_items p JOIN jobs j ON j.id = p.job_id
        WHERE p.source_path = (SELECT source_path FROM documents WHERE id = :document_id)
          AND p.by_path = 1 AND p.status IN {OPEN_ITEM}
          AND (p.job_id, p.seq) < (:job_id, :seq)
          AND j.status IN {OPEN_JOB} AND (j.local_owner IS NULL OR j.id = :job_id))
"""
BEFORE_ANY = {"job_id": 1 << 62, "seq": 0}
"""For IS_BEING_REPLACED: all items of the service count."""

# Whether an earlier open item has the path of an item that replaces by its path.
IS_PATH_AWAITED = f"SELECT 1 FROM job_items i WHERE i.id = :item_id AND {_SAME_PATH} IS NOT NULL"

# The file that the text of an item comes from.
ITEM_SOURCE = "SELECT source FROM job_item_files WHERE item_id = :item_id"

CLAIM_ITEM = """
    UPDATE job_items SET status = :running, lease_owner = :owner, lease_expires_at = :expires, alone = :alone,
        stage_share = NULL, updated_at = :now
    WHERE id = :item_id AND status = :ready AND lease_owner IS NULL
"""

CLAIM_WAVE = """
    UPDATE waves SET lease_owner = :owner, lease_expires_at = :expires
    WHERE job_id = :job_id AND n = :wave AND stage = :stage AND lease_owner IS NULL
"""

START_JOB = f"""
    UPDATE jobs SET status = '{JobStatus.processing}', stage = :stage,
        started_at = COALESCE(started_at, :now), last_claim = :moment, received_at = :moment, parked = 0,
        updated_at = :now, revision = revision + 1
    WHERE id = :job_id AND status IN {OPEN_JOB}
"""

# The text of an item, and the file that it was converted from.
ITEM_CONTENT = """
    SELECT c.content, f.source, c.passages
    FROM job_item_contents c LEFT JOIN job_item_files f ON f.item_id = c.item_id
    WHERE c.item_id = :item_id
"""
# The file of an item to convert; without data, it has to be fetched first.
ITEM_FILE = """
    SELECT f.kind, f.name, f.title, f.data, COALESCE(r.item_id, p.item_id) IS NOT NULL AS is_named
    FROM job_item_files f LEFT JOIN job_item_responses r ON r.item_id = f.item_id
    LEFT JOIN job_item_parents p ON p.item_id = f.item_id
    WHERE f.item_id = :item_id AND (f.data IS NOT NULL OR f.kind = 'url')
"""
ITEM_RESPONSE = "SELECT etag, last_modified FROM job_item_responses WHERE item_id = :item_id"

# --- Waiting ------------------------------------------------------------------------------------------------

PARK_ITEM = "UPDATE job_items SET waits_for = :waits_for WHERE id = :item_id AND lease_owner IS NULL"
PARK_JOB = "UPDATE jobs SET parked = :parked WHERE id = :job_id"
JOBS_WAITING_FOR = "SELECT DISTINCT job_id FROM job_items WHERE waits_for IN ({ids})"
WAKE_ITEMS = "UPDATE job_items SET waits_for = NULL WHERE waits_for IN ({ids})"
WAKE_JOB = "UPDATE jobs SET parked = 0 WHERE id = :job_id AND parked <> 0"
# Items whose pause before another try has ended.
_DUE = "retry_at <= :moment AND retry_at IS NOT NULL"
ANY_DUE = f"SELECT 1 FROM job_items WHERE {_DUE} LIMIT 1"
JOBS_DUE = f"SELECT DISTINCT job_id FROM job_items WHERE {_DUE}"
WAKE_DUE = f"UPDATE job_items SET retry_at = NULL WHERE {_DUE}"
# Whether jobs are parked although nothing is claimed, nor pauses before another try: a wait was not ended.
IS_STALLED = f"""
    SELECT 1 FROM jobs j
    WHERE j.parked <> 0 AND j.status IN {OPEN_JOB} AND j.local_owner IS NULL
      AND NOT EXISTS (SELECT 1 FROM job_items i
                      WHERE i.status IN {_RUNNING_ITEM} AND i.status IN {OPEN_ITEM}
                        AND i.lease_owner IS NOT NULL)
      AND NOT EXISTS (SELECT 1 FROM waves w WHERE w.stage <> '{WAVE_DONE}' AND w.lease_owner IS NOT NULL)
      AND NOT EXISTS (SELECT 1 FROM job_items i WHERE i.retry_at IS NOT NULL)
    LIMIT 1
"""
WAKE_ALL_ITEMS = "UPDATE job_items SET waits_for = NULL WHERE waits_for IS NOT NULL"
WAKE_ALL_JOBS = "UPDATE jobs SET parked = 0 WHERE parked <> 0"

_OPEN_TO = f"""k.status IN {OPEN_JOB}
      AND (i.job_id = :job_id OR (k.local_owner IS NULL AND :is_local = 0))"""
IS_LOCAL = "SELECT local_owner IS NOT NULL FROM jobs WHERE id = :job_id"
# Unclaimed copies of items that have passed the discover stage: there is nothing to discover in them.
COPIES_TO_PASS = f"""
    SELECT i.id, i.job_id, i.wave, i.n_bytes FROM job_items o
    JOIN job_items i ON i.content_hash = o.content_hash
    JOIN jobs k ON k.id = i.job_id
    JOIN waves w ON w.job_id = i.job_id AND w.n = i.wave
    WHERE o.id IN ({{ids}}) AND o.status = '{ItemStatus.discovered}'
      AND i.status IN {OPEN_ITEM} AND i.status IN ('{ItemStatus.enqueued}', '{ItemStatus.converted}')
      AND i.lease_owner IS NULL AND w.stage = '{Stage.discover}'
      AND (i.job_id = o.job_id OR k.total > 1) AND {_OPEN_TO}
    LIMIT :limit
"""
PASS_COPY = f"""
    UPDATE job_items SET status = '{ItemStatus.discovered}', waits_for = NULL, alone = 0, updated_at = :now
    WHERE id = :item_id
"""
# Unclaimed new documents with the content of a document that was just stored, and that nothing will replace
# before their turn.
COPIES_TO_END = f"""
    SELECT i.id, i.job_id, i.wave, i.n_bytes, i.tags, w.stage, d.id AS document_id FROM job_items o
    JOIN documents d ON d.id = o.document_id AND d.content_hash = o.content_hash
    JOIN job_items i ON i.content_hash = o.content_hash
    JOIN jobs k ON k.id = i.job_id
    JOIN waves w ON w.job_id = i.job_id AND w.n = i.wave
    WHERE o.id IN ({{ids}}) AND i.status IN {OPEN_ITEM} AND i.lease_owner IS NULL
      AND i.document_id IS NULL AND i.by_path = 0 AND k.kind = '{JobKind.ingest}'
      AND (w.stage = '{Stage.score}'
           OR (w.stage = '{Stage.discover}' AND i.status <> '{ItemStatus.discovered}'))
      AND {_OPEN_TO}
      AND COALESCE({", ".join([*_REPLACEMENTS, *_BY_PATH])}) IS NULL
    LIMIT :limit
"""
END_COPY = f"""
    UPDATE job_items SET status = '{ItemStatus.duplicate}', document_id = :document_id, waits_for = NULL,
        retry_at = NULL, error = NULL, error_code = NULL, updated_at = :now
    WHERE id = :item_id
"""

# --- Holding a claim ----------------------------------------------------------------------------------------

RENEW_ITEM = "UPDATE job_items SET lease_expires_at = :expires WHERE id = :item_id AND lease_owner = :owner"
RENEW_WAVE = """
    UPDATE waves SET lease_expires_at = :expires WHERE job_id = :job_id AND n = :wave AND lease_owner = :owner
"""

# How far an item is in its stage; only running items have a share.
REPORT_SHARE = "UPDATE job_items SET stage_share = :share WHERE id = :item_id AND lease_owner = :owner"
CHANGE_JOB = "UPDATE jobs SET updated_at = :now, revision = revision + 1 WHERE id = :job_id"

RELEASE_ITEM = """
    UPDATE job_items SET status = :ready, lease_owner = NULL, lease_expires_at = NULL, updated_at = :now,
        alone = :alone
    WHERE id = :item_id AND lease_owner = :owner AND status = :running
"""
RELEASE_WAVE = """
    UPDATE waves SET lease_owner = NULL, lease_expires_at = NULL, attempts = attempts + :charged
    WHERE job_id = :job_id AND n = :wave AND lease_owner = :owner
"""

HOLDS_ITEM = """
    SELECT 1 FROM job_items WHERE id = :item_id AND lease_owner = :owner AND status = :running
"""
# The same, or the item was canceled, so that nobody else has it.
HOLDS_OR_CANCELED = f"""
    SELECT 1 FROM job_items WHERE id = :item_id
      AND ((lease_owner = :owner AND status = :running) OR status = '{ItemStatus.canceled}')
"""
HOLDS_WAVE = """
    SELECT 1 FROM waves WHERE job_id = :job_id AND n = :wave AND stage = :stage AND lease_owner = :owner
"""
WAVE_ATTEMPTS = "SELECT attempts FROM waves WHERE job_id = :job_id AND n = :wave AND lease_owner = :owner"

# --- Results ------------------------------------------------------------------------------------------------

# Requires the lease, so it works only once. An item that ran alone may share its batch in the next stage.
END_ITEM = f"""
    UPDATE job_items SET status = :status, document_id = COALESCE(:document_id, document_id), error = :error,
        error_code = :error_code, lease_owner = NULL, lease_expires_at = NULL, updated_at = :now,
        alone = CASE WHEN :status IN {_PASSED_ITEM} THEN 0 ELSE alone END
    WHERE id = :item_id AND lease_owner = :owner AND status = :running
"""
DELETE_CONTENT = "DELETE FROM job_item_contents WHERE item_id = :item_id"
DELETE_FILE = "DELETE FROM job_item_files WHERE item_id = :item_id"
DELETE_CUTS = "DELETE FROM job_item_cuts WHERE item_id = :item_id"

# The text of a converted file. An item that failed in a later stage and is tried again has one already.
CONVERT_ITEM = """
    UPDATE job_items SET title = :title, format = :format, content_hash = :content_hash, tags = :tags,
        metadata = :metadata, warnings = :warnings
    WHERE id = :item_id
"""
SET_SOURCE = "UPDATE job_item_files SET source = :source WHERE item_id = :item_id"
SET_CONTENT = """
    INSERT INTO job_item_contents (item_id, content) VALUES (:item_id, :content)
    ON CONFLICT (item_id) DO UPDATE SET content = excluded.content
"""

# A fetched page: its size is known now.
SET_FETCHED_FILE = """
    UPDATE job_item_files SET kind = :kind, name = :name, data = :data WHERE item_id = :item_id
"""
INSERT_RESPONSE = """
    INSERT INTO job_item_responses (item_id, etag, last_modified) VALUES (:item_id, :etag, :last_modified)
"""
SET_FETCHED_ITEM = """
    UPDATE job_items SET content_hash = :file_hash, n_bytes = :n_bytes, attempts = 0,
        retry_at = NULL
    WHERE id = :item_id
"""
GROW_WAVE = "UPDATE waves SET bytes = bytes + :bytes WHERE job_id = :job_id AND n = :wave"
GROW_JOB = "UPDATE jobs SET bytes_total = bytes_total + :bytes WHERE id = :job_id"
DEFER_ITEM = "UPDATE job_items SET retry_at = :moment WHERE id = :item_id"
POSTPONE_ITEM = "UPDATE job_items SET attempts = attempts + 1, retry_at = :moment WHERE id = :item_id"

# Chunk boundaries of an item from the discover stage, and its packed document.
INSERT_CUTS = "INSERT INTO job_item_cuts (item_id, cuts, document) VALUES (?, ?, ?)"
ITEM_CUTS = "SELECT cuts FROM job_item_cuts WHERE item_id = :item_id"
ITEM_SEGMENTS = "SELECT cuts, document FROM job_item_cuts WHERE item_id = :item_id"

COUNT_DOWN_WAVE = """
    UPDATE waves SET pending = pending - :ended WHERE job_id = :job_id AND n = :wave AND stage = :stage
    RETURNING pending
"""

# Open items of a wave; their number is the `pending` count of the next stage.
OPEN_ITEMS_OF_WAVE = f"""
    SELECT id, n_bytes FROM job_items
    WHERE status IN {OPEN_ITEM} AND job_id = :job_id AND wave = :wave
"""
ADVANCE_WAVE = """
    UPDATE waves SET stage = :next, pending = :pending, notified_at = 0, attempts = 0,
        lease_owner = NULL, lease_expires_at = NULL,
        vocabulary_version = COALESCE(:vocabulary_version, vocabulary_version)
    WHERE job_id = :job_id AND n = :wave AND stage = :stage
"""
# Advances a wave by the owner of its lease.
ADVANCE_LEASED_WAVE = ADVANCE_WAVE + " AND lease_owner = :owner"

END_OPEN_ITEM = f"""
    UPDATE job_items SET status = :status, error = :error, error_code = :error_code, lease_owner = NULL,
        lease_expires_at = NULL, waits_for = NULL, retry_at = NULL, updated_at = :now
    WHERE id = :item_id AND status IN {OPEN_ITEM}
"""

# Open items of a job, to end them all. A wave has already subtracted the items that have passed its stage
# from `pending`.
OPEN_ITEMS_OF_JOB = f"""
    SELECT i.id, i.wave, i.status, i.n_bytes, w.stage
    FROM job_items i JOIN waves w ON w.job_id = i.job_id AND w.n = i.wave
    WHERE i.status IN {OPEN_ITEM} AND i.job_id = :job_id
    LIMIT :limit
"""

COUNT_JOB = """
    UPDATE jobs SET n_succeeded = n_succeeded + :n_succeeded, n_failed = n_failed + :n_failed,
        n_duplicate = n_duplicate + :n_duplicate, n_canceled = n_canceled + :n_canceled,
        bytes_done = bytes_done + :bytes_done, stage = COALESCE(:stage, stage), updated_at = :now,
        revision = revision + 1
    WHERE id = :job_id
"""

OPEN_WAVES_OF_JOB = f"SELECT COUNT(*) FROM waves WHERE job_id = :job_id AND stage <> '{WAVE_DONE}'"
JOB_COUNTS = f"""
    SELECT total, n_succeeded, n_failed, n_duplicate, n_canceled FROM jobs
    WHERE id = :job_id AND status IN {OPEN_JOB}
"""
FIRST_ERROR = f"""
    SELECT error FROM job_items WHERE job_id = :job_id AND status = '{ItemStatus.failed}' ORDER BY seq LIMIT 1
"""
END_JOB = f"""
    UPDATE jobs SET status = :status, stage = NULL, error = :error, finished_at = :now,
        started_at = COALESCE(started_at, :now), updated_at = :now, revision = revision + 1
    WHERE id = :job_id AND status IN {OPEN_JOB}
"""

# --- Retrying -----------------------------------------------------------------------------------------------

# Failed and canceled items that can be retried: their text is stored, or they need none. A later replacement
# of the same document, by its id or its path, supersedes an earlier one.
RETRIABLE_ITEMS = f"""
    SELECT i.id, i.wave, i.n_bytes, i.status, i.error_code FROM job_items i JOIN jobs j ON j.id = i.job_id
    WHERE i.job_id = :job_id AND i.status IN {_RETRIABLE_ITEM} AND j.local_owner IS NULL
      AND (j.kind IN {_WITHOUT_TEXT}
           OR EXISTS (SELECT 1 FROM job_item_contents c WHERE c.item_id = i.id)
           OR EXISTS (SELECT 1 FROM job_item_files f WHERE f.item_id = i.id))
      AND NOT (j.kind = '{JobKind.replacing}' AND EXISTS (
        SELECT 1 FROM job_items r
        WHERE r.document_id = i.document_id AND (r.job_id, r.seq) > (i.job_id, i.seq)
          AND r.content_hash IS NOT NULL
          AND r.status NOT IN ('{ItemStatus.failed}', '{ItemStatus.canceled}')))
      AND NOT (i.by_path = 1 AND EXISTS (
        SELECT 1 FROM job_items p JOIN jobs k ON k.id = p.job_id
        WHERE p.source_path = i.source_path AND (p.job_id, p.seq) > (i.job_id, i.seq)
          AND p.by_path = 1 AND k.status NOT IN ('{RECEIVING}', '{DROPPED}')
          AND p.status NOT IN ('{ItemStatus.failed}', '{ItemStatus.canceled}')))
    ORDER BY i.seq
"""
# Those that do not fail again for certain. Text recognition may have been switched on since.
MAY_SUCCEED = f"""
    SELECT 1 FROM ({RETRIABLE_ITEMS}) retriable
    WHERE error_code IS NULL
       OR (error_code NOT IN {sql_list(sorted(PERMANENT_CODES))}
           AND (:ocr = 1 OR error_code <> 'file_no_text'))
    LIMIT 1
"""
NEXT_WAVE = "SELECT COALESCE(MAX(n), -1) + 1 FROM waves WHERE job_id = :job_id"
# `alone` stays: an item that crashed its worker keeps running alone.
RETRY_ITEM = f"""
    UPDATE job_items SET status = '{ItemStatus.enqueued}', wave = :wave, attempts = 0, interruptions = 0,
        retry_at = NULL, waits_for = NULL, error = NULL, error_code = NULL, updated_at = :now
    WHERE id = :item_id AND status IN {_RETRIABLE_ITEM}
"""
SHRINK_WAVE = """
    UPDATE waves SET total = total - :items, bytes = bytes - :bytes WHERE job_id = :job_id AND n = :wave
"""
INSERT_WAVE = """
    INSERT INTO waves (job_id, n, stage, total, pending, bytes)
    VALUES (:job_id, :n, :stage, :items, :items, :bytes)
"""
REOPEN_JOB = f"""
    UPDATE jobs SET
        status = CASE status WHEN '{JobStatus.processing}' THEN status ELSE '{JobStatus.enqueued}' END,
        error = NULL, finished_at = NULL, parked = 0, n_failed = n_failed - :failed,
        n_canceled = n_canceled - :canceled,
        bytes_done = bytes_done - :bytes, updated_at = :now, revision = revision + 1
    WHERE id = :job_id AND status IN {_RETRIABLE_JOB}
"""
# --- Reconciling --------------------------------------------------------------------------------------------

# The second condition is literally that of the partial index of open items, so that SQLite uses the index.
LEASED_ITEMS = f"""
    SELECT i.id, i.job_id, i.seq, i.wave, i.n_bytes, i.attempts, i.interruptions, i.alone, i.lease_owner,
           i.lease_expires_at, i.status, w.stage, j.plan
    FROM job_items i
    JOIN waves w ON w.job_id = i.job_id AND w.n = i.wave
    JOIN jobs j ON j.id = i.job_id
    WHERE i.status IN {_RUNNING_ITEM} AND i.lease_owner IS NOT NULL
      AND i.status IN {OPEN_ITEM}
"""
LEASED_WAVES = f"""
    SELECT w.job_id, w.n, w.stage, w.attempts, w.lease_owner, w.lease_expires_at
    FROM waves w WHERE w.stage <> '{WAVE_DONE}' AND w.lease_owner IS NOT NULL
"""

# Counts a crash or interruption of an item's worker, before the item is released or failed. `interruptions`
# is the weight of all of them, in units of 1/ATTEMPT of a crash.
RECORD_ATTEMPT = """
    UPDATE job_items SET attempts = :attempts, interruptions = :interruptions
    WHERE id = :item_id AND lease_owner = :owner AND status = :running
"""

OPEN_WORK = f"SELECT 1 FROM waves WHERE stage <> '{WAVE_DONE}' LIMIT 1"

# Affects a row for only one of several reconcilers; that one sends the message.
MARK_WAVE_NOTIFIED = """
    UPDATE waves SET notified_at = :moment WHERE job_id = :job_id AND n = :wave AND notified_at <= :before
"""

UPSERT_WORKER = """
    INSERT INTO workers (name, hostname, pid, processes, version, started_at, seen_at)
    VALUES (:name, :hostname, :pid, :processes, :version, :started_at, :seen_at)
    ON CONFLICT (name) DO UPDATE SET hostname = excluded.hostname, pid = excluded.pid,
        processes = excluded.processes, version = excluded.version, started_at = excluded.started_at,
        seen_at = excluded.seen_at
"""
DELETE_WORKER = "DELETE FROM workers WHERE name = :name"
DELETE_STALE_WORKERS = "DELETE FROM workers WHERE seen_at < :moment"

# --- Reading ------------------------------------------------------------------------------------------------

JOB = f"SELECT * FROM jobs WHERE id = :job_id AND status NOT IN ('{RECEIVING}', '{DROPPED}')"
# Bytes done, all bytes, ended items, all items, and the path or title of the item that ended last. A document
# that is not stored yet counts for the stages that it has passed: half after the discover stage, or half
# after conversion and then three quarters. In a conversion, it counts for its share of this half.
LOCAL_PROGRESS = f"""
    SELECT SUM(CASE WHEN i.status IN ('{ItemStatus.discovered}', '{ItemStatus.scoring}')
                    THEN CASE WHEN p.converts THEN i.n_bytes * 3 / 4 ELSE i.n_bytes / 2 END
                    WHEN i.status = '{ItemStatus.converted}'
                         OR (i.status = '{ItemStatus.discovering}' AND p.converts) THEN i.n_bytes / 2
                    WHEN i.status = '{ItemStatus.converting}' THEN COALESCE(i.stage_share, 0) * i.n_bytes / 2
                    WHEN i.status IN {_UNDISCOVERED_ITEM} THEN 0 ELSE i.n_bytes END),
           SUM(i.n_bytes),
           SUM(CASE WHEN i.status IN {OPEN_ITEM} THEN 0 ELSE 1 END),
           COUNT(*),
           (SELECT COALESCE(e.source_path, e.title) FROM job_items e
            WHERE e.job_id = :job_id AND e.status NOT IN {OPEN_ITEM}
            ORDER BY e.updated_at DESC, e.seq DESC LIMIT 1)
    FROM (SELECT plan LIKE '%"{Stage.convert}"%' AS converts FROM jobs WHERE id = :job_id) p, job_items i
    WHERE i.job_id = :job_id
"""
# Results of the items of a job, with the documents they became or duplicate.
LOCAL_RESULTS = """
    SELECT i.id, i.seq, i.title, i.tags, i.status, i.error, i.error_code, i.document_id,
           d.title AS document_title, d.n_chunks, d.report, a.root_id, a.name
    FROM job_items i LEFT JOIN documents d ON d.id = i.document_id
    LEFT JOIN job_item_parents a ON a.item_id = i.id
    WHERE i.job_id = :job_id ORDER BY i.seq
"""
JOBS = """
    SELECT * FROM jobs
    WHERE status IN ({statuses}) AND kind IN ({kinds}) AND local_owner IS NULL{of_owners}
    ORDER BY id DESC LIMIT :limit OFFSET :offset
"""
COUNT_JOBS = """
    SELECT COUNT(*) FROM jobs
    WHERE status IN ({statuses}) AND kind IN ({kinds}) AND local_owner IS NULL{of_owners}
"""
# The fifth column, for a wave of few items that is in the middle of a stage: bytes of those that have not
# passed it. Only few waves are, and an index answers it. The last column: bytes that workers have passed in
# running items.
WAVES = f"""
    SELECT w.stage, w.total, w.pending, w.bytes,
           CASE WHEN w.total <= {MAX_SUMMED_ITEMS} AND w.pending BETWEEN 1 AND w.total - 1 THEN (
               SELECT SUM(i.n_bytes) FROM job_items i
               WHERE i.status IN {OPEN_ITEM} AND i.job_id = w.job_id AND i.wave = w.n
                 AND i.status <> CASE w.stage {_STATUS_AFTER} ELSE '' END) END,
           CASE WHEN w.pending > 0 THEN (
               SELECT SUM(i.n_bytes * i.stage_share) FROM job_items i
               WHERE i.status IN {OPEN_ITEM} AND i.job_id = w.job_id AND i.wave = w.n
                 AND i.status = CASE w.stage {_RUNNING_AT} ELSE '' END) END
    FROM waves w WHERE w.job_id = :job_id ORDER BY w.n
"""
# Open documents whose texts take disk space. Delete and rescore jobs hold no text and are left out.
WAITING = f"""
    SELECT COUNT(*) AS jobs,
           COALESCE(SUM(total - n_succeeded - n_failed - n_duplicate - n_canceled), 0) AS items,
           COALESCE(SUM(bytes_total - bytes_done), 0) AS bytes
    FROM jobs
    WHERE status IN {OPEN_JOB} AND kind NOT IN {_WITHOUT_TEXT} AND local_owner IS NULL
"""
# A page is found in an index alone. `{has_status}` is empty or HAS_STATUS.
HAS_STATUS = "AND status = :status"
_ITEMS_OF_JOB = "FROM job_items WHERE job_id = :job_id {has_status}"
# `report` is that of the document an item became, as long as the document still has the item's text.
ITEMS = f"""
    SELECT i.seq, i.title, i.source_path, i.metadata, i.rights, i.warnings, i.n_bytes, i.status,
           i.document_id, i.attempts, i.error, i.error_code, i.stage_share, w.stage, d.title AS title_stored,
           d.source_path AS source_path_stored, d.metadata AS metadata_stored, s.report,
           d.rights AS rights_stored,
           (SELECT p.seq FROM job_item_parents a JOIN job_items p ON p.id = a.parent_id
            WHERE a.item_id = i.id) AS attached_to
    FROM job_items i
    LEFT JOIN waves w ON w.job_id = i.job_id AND w.n = i.wave
    LEFT JOIN documents d ON d.id = i.document_id AND i.status = '{ItemStatus.duplicate}'
    LEFT JOIN documents s
        ON s.id = i.document_id AND i.status = '{ItemStatus.succeeded}' AND s.content_hash = i.content_hash
    WHERE i.id IN (SELECT id {_ITEMS_OF_JOB} ORDER BY seq LIMIT :limit OFFSET :offset)
    ORDER BY i.seq
"""
COUNT_ITEMS = f"SELECT COUNT(*) {_ITEMS_OF_JOB}"
WORKERS = "SELECT * FROM workers WHERE seen_at >= :since ORDER BY name"
# Trace ids of the requests that submitted the jobs.
TRACE_IDS = (
    "SELECT DISTINCT trace_id FROM jobs WHERE id IN ({ids}) AND trace_id IS NOT NULL ORDER BY trace_id"
)
