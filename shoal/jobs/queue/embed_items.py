"""Jobs that embed documents: an item is a document with chunks that lack a vector.

A library has at most one open job of this kind for its workers. Documents that come later join it.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from shoal.errors import EncoderMismatchError, EncoderUnavailableError
from shoal.jobs.queue.job_items import insert_items, item_of_document
from shoal.jobs.queue.statements import OPEN_ITEM, OPEN_JOB
from shoal.jobs.queue.states import WAVE_DONE
from shoal.jobs.queue.submission import Upload, submit_items
from shoal.models.jobs import ItemStatus, JobKind
from shoal.settings import Settings
from shoal.storage import vectors
from shoal.storage.database import Database, Snapshot, Transaction
from shoal.support.clock import timestamp_at

ITEMS_TOGETHER = 2_000
"""Items that one transaction adds: about a tenth of a second."""
UNAVAILABLE_SECONDS = 3600.0
"""How long a document waits that failed because the encoder did not answer, before it is taken by itself."""

OPEN_EMBEDDING = f"""
    SELECT id FROM jobs
    WHERE status IN {OPEN_JOB} AND kind = '{JobKind.embed}' AND local_owner IS NULL ORDER BY id LIMIT 1
"""
# Documents with chunks without a vector.
INCOMPLETE = """
    SELECT d.id, d.title, d.n_bytes, d.updated_at FROM documents d
    WHERE EXISTS (
        SELECT 1 FROM chunks c WHERE c.document_id = d.id
          AND NOT EXISTS (SELECT 1 FROM chunk_vectors v WHERE v.chunk_id = c.id))
    ORDER BY d.id
"""
OPEN_DOCUMENTS = f"""
    SELECT i.document_id FROM jobs j JOIN job_items i ON i.job_id = j.id
    WHERE j.kind = '{JobKind.embed}' AND j.status IN {OPEN_JOB} AND j.local_owner IS NULL
      AND i.status IN {OPEN_ITEM}
"""
# Documents that a person has to look at: they failed or were canceled, and when.
ENDED_WITHOUT = f"""
    SELECT i.document_id, MAX(i.updated_at) FROM jobs j JOIN job_items i ON i.job_id = j.id
    WHERE j.kind = '{JobKind.embed}' AND j.local_owner IS NULL
      AND (i.status = '{ItemStatus.canceled}' OR (i.status = '{ItemStatus.failed}'
           AND (i.error_code <> '{EncoderUnavailableError.code}' OR i.updated_at > :unavailable_since)))
    GROUP BY i.document_id
"""
LAST_OPEN_WAVE = f"SELECT MAX(n) FROM waves WHERE job_id = :job_id AND stage <> '{WAVE_DONE}'"
NEXT_SEQ = "SELECT COALESCE(MAX(seq), -1) + 1 FROM job_items WHERE job_id = :job_id"
GROW_WAVE = """
    UPDATE waves SET total = total + :items, pending = pending + :items, bytes = bytes + :bytes
    WHERE job_id = :job_id AND n = :wave
"""
GROW_JOB = """
    UPDATE jobs SET total = total + :items, bytes_total = bytes_total + :bytes, updated_at = :now,
        revision = revision + 1
    WHERE id = :job_id
"""


class _AlreadyOpenError(Exception):
    """Another process has opened the job meanwhile."""


class _Document(NamedTuple):
    id: int
    title: str
    n_bytes: int
    updated_at: str


def check_identity(snapshot: Snapshot, identity: tuple[str, str, int]) -> None:
    """Raise EncoderMismatchError if the library has vectors of another encoder."""
    stored = vectors.encoder(snapshot)
    if stored is not None and stored.identity != tuple(identity) and vectors.is_any(snapshot):
        name, revision, dimension = identity
        raise EncoderMismatchError(
            f"the library has vectors of {stored.name} (revision {stored.revision}, {stored.dimension} "
            f"numbers), and the encoder is {name} (revision {revision}, {dimension} numbers); {vectors.AGAIN}"
        )


def submit_embedding(database: Database, settings: Settings, *, automatic: bool = False) -> int | None:
    """Let the open job embed all documents that lack vectors, or open one; return its id.

    `automatic`: without documents that a person has to look at, and None if nothing is to be done. Raises
    StorageError.
    """
    with database.snapshot(limited=False) as snapshot:
        due = _due(snapshot, automatic=automatic)
    if automatic and not due:
        return None
    slices = _slices(due)
    while True:
        with database.snapshot() as snapshot:
            job_id: int | None = snapshot.value(OPEN_EMBEDDING)
        if job_id is not None:
            break
        first = next(slices, [])
        try:
            job_id = submit_items(
                database,
                settings,
                JobKind.embed,
                lambda transaction, first=first: _first_items(transaction, first),  # type: ignore[misc]
                None,
                None,
            )
        except _AlreadyOpenError:
            slices = _slices(due)
            continue
        break
    for documents in slices:
        if not _join(database, job_id, documents):
            # The job has ended meanwhile; what is left is found the next time.
            break
    return job_id


def submit_local_embedding(database: Database, settings: Settings, owner: str) -> int | None:
    """Submit the embedding of all documents that lack vectors as a job of one process; None if none does."""
    upload = Upload(
        database, dataclasses.replace(settings, max_upload_items=sys.maxsize), local_owner=owner
    ).begin(JobKind.embed)
    try:
        with database.snapshot(limited=False) as snapshot:
            for document in _incomplete(snapshot):
                upload.add_stored(document.id, document.title, None, document.n_bytes)
        if not upload.n_items:
            upload.abandon()
            return None
        return upload.finish()
    except BaseException:
        upload.abandon()
        raise


def _incomplete(snapshot: Snapshot) -> Iterator[_Document]:
    return (_Document(*row) for row in snapshot.tuples(INCOMPLETE))


def _due(snapshot: Snapshot, *, automatic: bool) -> list[_Document]:
    """Documents that lack vectors and are in no open job."""
    taken = {row[0] for row in snapshot.tuples(OPEN_DOCUMENTS)}
    since = {"unavailable_since": timestamp_at(snapshot.now() - UNAVAILABLE_SECONDS)}
    ended = dict(snapshot.tuples(ENDED_WITHOUT, since)) if automatic else {}
    return [
        document
        for document in _incomplete(snapshot)
        if document.id not in taken and ended.get(document.id, "") < document.updated_at
    ]


def _slices(documents: Sequence[_Document]) -> Iterator[list[_Document]]:
    remaining = iter(documents)
    while some := list(islice(remaining, ITEMS_TOGETHER)):
        yield some


def _first_items(transaction: Transaction, documents: Sequence[_Document]) -> list[dict[str, Any]]:
    if transaction.value(OPEN_EMBEDDING) is not None:
        raise _AlreadyOpenError
    return _items(documents, first_seq=0, wave=0)


def _items(documents: Sequence[_Document], *, first_seq: int, wave: int) -> list[dict[str, Any]]:
    # Without the path of the document: items with a path wait for each other.
    return [
        {**item_of_document(each.id, each.title, None, each.n_bytes, wave), "seq": seq}
        for seq, each in enumerate(documents, first_seq)
    ]


def _join(database: Database, job_id: int, documents: Sequence[_Document]) -> bool:
    """Add documents to an open job; False if it has ended."""
    job = {"job_id": job_id}
    with database.write() as transaction:
        wave = transaction.value(LAST_OPEN_WAVE, job)
        if transaction.value(OPEN_EMBEDDING) != job_id or wave is None:
            return False
        taken = {row[0] for row in transaction.tuples(OPEN_DOCUMENTS)}
        due = [document for document in documents if document.id not in taken]
        first_seq = transaction.value(NEXT_SEQ, job)
        insert_items(transaction, job_id, _items(due, first_seq=first_seq, wave=wave))
        grown = {**job, "wave": wave, "items": len(due), "bytes": sum(each.n_bytes for each in due)}
        transaction.execute(GROW_WAVE, grown)
        transaction.execute(GROW_JOB, {**grown, "now": timestamp_at(transaction.now())})
    return True
