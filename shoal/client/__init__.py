"""A client of a running service: uploads documents, follows jobs, runs and explains searches.

    with Client("http://127.0.0.1:8000") as client:
        job = client.upload(Path("notes").rglob("*.md"), tags=["notes"])
        client.wait_for_job(job, seen=lambda job: print(f"{job.progress.fraction:.0%}"), check=True)
        for result in client.search("how bees find food", top_k=3).results:
            print(result.document_title, result.start_line, result.match_score)

`AsyncClient` has the same operations for programs with an event loop. Responses are frozen dataclasses with
the field names of the HTTP API; searches, explanations and chunks are the same values as those of
`shoal.Engine`. Memory does not grow with an upload: files are read from disk while they are sent.
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
from shoal.models.jobs import Item
from shoal.models.responses import (
    Chunk,
    Document,
    ItemPage,
    Job,
    JobPage,
    Progress,
    Readiness,
    Reefs,
    Status,
    Stored,
)
from shoal.support.search_tokens import make_token

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
    "make_token",
]
