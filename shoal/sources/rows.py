"""The rows of sources, runs and objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shoal.errors import DocumentError, NotFoundError
from shoal.models.sources import RunStatus
from shoal.sources.stores import Listed
from shoal.storage import document_writer
from shoal.storage.database import Row, Snapshot, Transaction

INSERT = """
    INSERT INTO sources (name, arguments, every, is_paused, due_at, created_at, updated_at)
    VALUES (:name, :arguments, :every, :is_paused, :due_at, :now, :now)
"""
BY_NAME = "SELECT * FROM sources WHERE name = :name"
BY_ID = "SELECT * FROM sources WHERE id = :id"
PAGE = "SELECT * FROM sources ORDER BY name LIMIT :limit OFFSET :offset"
COUNT = "SELECT COUNT(*) FROM sources"
UPDATE = """
    UPDATE sources SET arguments = :arguments, every = :every, is_paused = :is_paused, due_at = :due_at,
        updated_at = :now
    WHERE id = :id
"""
SET_FAILURES = "UPDATE sources SET n_failures = :n_failures WHERE id = :id"
COUNT_FAILURE = "UPDATE sources SET n_failures = n_failures + 1 WHERE id = :id"
SET_DUE = "UPDATE sources SET n_failures = 0, due_at = :due_at WHERE id = :id"
DELETE = "DELETE FROM sources WHERE id = :id"
N_OBJECTS = """
    SELECT COUNT(*), COALESCE(SUM(CASE WHEN error IS NULL THEN 0 ELSE 1 END), 0)
    FROM source_objects WHERE source_id = :source_id
"""

# Runs

_CAN_BEGIN = """
    is_paused = 0 AND due_at IS NOT NULL AND due_at <= :now
    AND NOT EXISTS (SELECT 1 FROM source_runs r WHERE r.source_id = sources.id AND r.ended_at IS NULL)
"""
BEGIN_DUE = f"""
    INSERT INTO source_runs (source_id, status, started_at)
    SELECT id, '{RunStatus.listing}', :timestamp FROM sources WHERE {_CAN_BEGIN}
"""
BEGIN = f"""
    INSERT INTO source_runs (source_id, status, is_forced, started_at)
    VALUES (:source_id, '{RunStatus.listing}', :is_forced, :timestamp)
"""
OPEN_RUN = "SELECT * FROM source_runs WHERE source_id = :source_id AND ended_at IS NULL"
# A paused source ends no run: it goes on when the source does.
_NEXT = """
    SELECT r.id FROM source_runs r JOIN sources s ON s.id = r.source_id
    WHERE r.ended_at IS NULL AND r.lease_expires_at <= :now AND s.is_paused = 0
      AND (:source_id IS NULL OR r.source_id = :source_id)
    ORDER BY r.lease_expires_at, r.id LIMIT 1
"""
IS_ANY_DUE = f"""
    SELECT EXISTS ({_NEXT}) OR EXISTS (SELECT 1 FROM sources WHERE {_CAN_BEGIN})
"""
CLAIM = f"""
    UPDATE source_runs SET lease_owner = :owner, lease_expires_at = :expires WHERE id = ({_NEXT})
    RETURNING id
"""
# A run that is given back has no owner: one with an owner was left by a process that died.
HAD_OWNER = f"SELECT lease_owner IS NOT NULL FROM source_runs WHERE id = ({_NEXT})"
RELEASE = """
    UPDATE source_runs SET lease_owner = NULL, lease_expires_at = 0
    WHERE id = :id AND lease_owner = :lease_owner
"""
IS_ANY_EXPECTED = """
    SELECT EXISTS (SELECT 1 FROM source_runs WHERE ended_at IS NULL)
        OR EXISTS (SELECT 1 FROM sources WHERE is_paused = 0 AND due_at IS NOT NULL)
"""
# Nobody holds a run without an owner: it waits after a failure, or for a job.
WAKE = """
    UPDATE source_runs SET lease_expires_at = 0
    WHERE source_id = :source_id AND ended_at IS NULL AND lease_owner IS NULL
"""
RUN = "SELECT * FROM source_runs WHERE id = :id"
RUNS = "SELECT * FROM source_runs WHERE source_id = :source_id ORDER BY id DESC LIMIT :limit OFFSET :offset"
N_RUNS = "SELECT COUNT(*) FROM source_runs WHERE source_id = :source_id"
IS_OWNED = "SELECT EXISTS (SELECT 1 FROM source_runs WHERE id = :id AND lease_owner = :lease_owner)"
UPDATE_RUN = """
    UPDATE source_runs SET status = :status, place = :place, job_id = :job_id, n_listed = :n_listed,
        n_skipped = :n_skipped, n_new = :n_new, n_changed = :n_changed, n_moved = :n_moved,
        n_removed = :n_removed, n_failed = :n_failed, n_bytes = :n_bytes, error = :error,
        lease_owner = NULL, lease_expires_at = :lease_expires_at, ended_at = :ended_at
    WHERE id = :id AND lease_owner = :lease_owner
"""
STOP = f"""
    UPDATE source_runs SET status = '{RunStatus.stopped}', ended_at = :timestamp, lease_owner = NULL
    WHERE source_id = :source_id AND ended_at IS NULL
"""
PRUNE = """
    DELETE FROM source_runs WHERE source_id = :source_id AND ended_at IS NOT NULL AND id <= (
        SELECT id FROM source_runs WHERE source_id = :source_id AND ended_at IS NOT NULL
        ORDER BY id DESC LIMIT 1 OFFSET :kept)
"""

# Objects

LIST = """
    INSERT INTO source_objects (source_id, name, version, n_bytes, listed_run)
    VALUES (:source_id, :name, :version, :n_bytes, :run_id)
    ON CONFLICT (source_id, name) DO UPDATE SET
        version = excluded.version, n_bytes = excluded.n_bytes, listed_run = excluded.listed_run
    WHERE source_objects.listed_run <= excluded.listed_run
"""
_HAS_DOCUMENT = "EXISTS (SELECT 1 FROM documents d WHERE d.id = source_objects.document_id)"
# What was stored, and whose document somebody has deleted since, is read again.
_TO_READ = f"""
    (stored_version IS NULL OR stored_version <> version
     OR (checksum IS NOT NULL AND error IS NULL AND NOT {_HAS_DOCUMENT}))
"""
TO_READ = f"""
    SELECT name, version, n_bytes, stored_version, checksum,
           CASE WHEN {_HAS_DOCUMENT} THEN 1 ELSE 0 END AS has_document
    FROM source_objects WHERE source_id = :source_id AND listed_run = :run_id AND {_TO_READ} AND name > :place
    ORDER BY name LIMIT :limit
"""
GONE = """
    SELECT name, checksum FROM source_objects WHERE source_id = :source_id AND listed_run <> :run_id
    ORDER BY name LIMIT :limit
"""
N_GONE = "SELECT COUNT(*) FROM source_objects WHERE source_id = :source_id AND listed_run <> :run_id"
OTHER_WITH = """
    SELECT name FROM source_objects WHERE source_id = :source_id AND checksum = :checksum AND name <> :name
      AND CASE WHEN listed_run = :run_id THEN 1 ELSE 0 END = :is_listed
    ORDER BY name LIMIT 1
"""
READ = """
    UPDATE source_objects SET stored_version = :stored_version, checksum = :checksum, error = :error
    WHERE source_id = :source_id AND name = :name
"""
# What failed has no checksum, so that its content counts as new when it is read again. The next run reads
# it, unless it fails again for sure.
SETTLE = """
    UPDATE source_objects SET document_id = :document_id, error = :error,
        checksum = CASE WHEN :error IS NULL THEN checksum ELSE NULL END,
        stored_version = CASE WHEN :may_pass = 1 THEN NULL ELSE stored_version END
    WHERE source_id = :source_id AND name = :name
"""
IS_HELD_BY_ANOTHER = """
    SELECT EXISTS (SELECT 1 FROM source_objects
                   WHERE document_id = :document_id AND source_id <> :source_id)
"""
FORGET = "DELETE FROM source_objects WHERE source_id = :source_id AND name = :name"
OBJECTS = f"""
    SELECT name, n_bytes, error, CASE WHEN {_HAS_DOCUMENT} THEN document_id END AS document_id
    FROM source_objects
    WHERE source_id = :source_id AND (:has_error = 0 OR error IS NOT NULL)
    ORDER BY name LIMIT :limit OFFSET :offset
"""
N_LISTED_OBJECTS = """
    SELECT COUNT(*) FROM source_objects WHERE source_id = :source_id AND (:has_error = 0 OR error IS NOT NULL)
"""
VERSIONS = f"""
    SELECT name, CASE WHEN {_TO_READ} THEN NULL ELSE stored_version END FROM source_objects
    WHERE source_id = :source_id
"""
ITEMS = """
    SELECT source_path, status, document_id, error, error_code FROM job_items WHERE job_id = :job_id
"""


def by_name(snapshot: Snapshot, name: str) -> Row:
    """Read a source. Raises NotFoundError."""
    row: Row | None = snapshot.first(BY_NAME, {"name": name})
    if row is None:
        raise NotFoundError(f"there is no source {name[:64]!r}")
    return row


def claim(transaction: Transaction, *, source_id: int | None, owner: str, expires: float) -> Row | None:
    """Lease the run that has waited longest, of one source or of any; None if none is due."""
    values = {"source_id": source_id, "now": transaction.now(), "owner": owner, "expires": expires}
    run_id = transaction.value(CLAIM, values)
    row: Row | None = None if run_id is None else transaction.first(RUN, {"id": run_id})
    return row


def write_listed(transaction: Transaction, source_id: int, run_id: int, objects: Iterable[Listed]) -> None:
    """Store that a run has seen objects."""
    rows = [
        {"source_id": source_id, "run_id": run_id, "name": each.name, "version": each.version,
         "n_bytes": each.n_bytes}
        for each in objects
    ]  # fmt: skip
    transaction.write_many(LIST, rows)


def write_read(transaction: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store what was read of objects, or why it could not be."""
    transaction.write_many(READ, rows)


def is_any_expected(snapshot: Snapshot) -> bool:
    """Whether a run is open, or a source has a next run, due or not."""
    return bool(snapshot.value(IS_ANY_EXPECTED))


def document_at(snapshot: Snapshot, source_path: str) -> int | None:
    """Return the document with a source path; None if there is none, or more than one."""
    try:
        return document_writer.find_by_path(snapshot, source_path)
    except DocumentError:
        return None


def is_held_by_another(snapshot: Snapshot, source_id: int, document_id: int) -> bool:
    """Whether an object of another source has a document."""
    values = {"source_id": source_id, "document_id": document_id}
    return bool(snapshot.value(IS_HELD_BY_ANOTHER, values))
