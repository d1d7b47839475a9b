"""A client of a running service: documents in, jobs followed, searches answered and explained.

    with Client("http://127.0.0.1:8000") as client:
        job = client.upload(Path("notes").rglob("*.md"), tags=["notes"])
        client.wait_for_job(job, seen=lambda job: print(f"{job.progress.fraction:.0%}"), check=True)
        for result in client.search("how bees find food", top_k=3).results:
            print(result.document_title, result.start_line, result.match_score)

`AsyncClient` has the same operations for programs with an event loop. Answers are frozen dataclasses with the
names of the HTTP API; a search, an explanation, a chunk is the same value as from `shoal.Engine`. Memory does
not grow with an upload: files are read from disk as the connection takes them.
"""

from shoal.client.bodies import CHUNK_BYTES, MultipartBody, UploadFile, archive_type, holds_records
from shoal.client.clients import AsyncClient, Client
from shoal.client.errors import (
    BusyError,
    ClientError,
    ConflictError,
    InvalidError,
    JobFailedError,
    JobTimeoutError,
    KeyRefusedError,
    NotFoundError,
    NotShoalError,
    TooLargeError,
    UnavailableError,
    UnreachableError,
)
from shoal.client.replies import (
    Chunk,
    Document,
    Item,
    ItemPage,
    Job,
    JobPage,
    Progress,
    Readiness,
    Reefs,
    Status,
    Stored,
)

__all__ = [
    "CHUNK_BYTES",
    "AsyncClient",
    "BusyError",
    "Chunk",
    "Client",
    "ClientError",
    "ConflictError",
    "Document",
    "InvalidError",
    "Item",
    "ItemPage",
    "Job",
    "JobFailedError",
    "JobPage",
    "JobTimeoutError",
    "KeyRefusedError",
    "MultipartBody",
    "NotFoundError",
    "NotShoalError",
    "Progress",
    "Readiness",
    "Reefs",
    "Status",
    "Stored",
    "TooLargeError",
    "UnavailableError",
    "UnreachableError",
    "UploadFile",
    "archive_type",
    "holds_records",
]
