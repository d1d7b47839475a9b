"""The errors that Shoal raises, as classes.

A message says what is wrong and what to do about it. It never contains a traceback, SQL, or a path of the
server that the caller did not give. The edges translate each class once: the CLI to an exit code, the API to
a status, the worker to the error of an item.
"""

from __future__ import annotations

from pathlib import PurePath


class ShoalError(Exception):
    """Base of every error that Shoal raises on purpose."""


class SettingsError(ShoalError):
    """A `SHOAL_` variable is unknown or has an invalid value."""


class DocumentError(ShoalError):
    """A document cannot be ingested; the message is shown to the user who sent it."""


class EmptyDocumentError(DocumentError):
    """The document has no text, or none that makes a chunk."""


class DocumentTooLargeError(DocumentError):
    """The document is over `max_document_bytes`, or has too many headings, sentences or chunks."""


class UndecodableDocumentError(DocumentError):
    """The bytes are not text in a recognised encoding."""


class UnreadableFileError(UndecodableDocumentError):
    """The operating system refuses to read a file; its text may be valid."""


class UnknownFormatError(DocumentError):
    """The format is not one of `DocFormat`, or the file's name does not determine it."""


class InvalidFieldError(DocumentError):
    """A field of a document or query has a wrong type, length or value.

    `field` is the name as the caller wrote it.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class DuplicateContentError(DocumentError):
    """The same content is already stored, as document `document_id`."""

    def __init__(self, document_id: int) -> None:
        super().__init__(f"the same content is stored already as document {document_id}")
        self.document_id = document_id


class DocumentGoneError(DocumentError):
    """The document was deleted before its new content could be stored."""

    def __init__(self, document_id: int) -> None:
        super().__init__(f"document {document_id} was deleted before its new content was stored")
        self.document_id = document_id


class QueryError(ShoalError):
    """A search request is invalid. `field` names the invalid argument."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class NotFoundError(ShoalError):
    """No document, job or chunk has this id."""


class JobStateError(ShoalError):
    """The state of a job does not allow the operation."""


class StorageError(ShoalError):
    """The database cannot be used right now."""


class DatabaseUnavailableError(StorageError):
    """The database cannot be reached or stayed locked for longer than the busy timeout."""


class ReadOnlyDatabaseError(DatabaseUnavailableError):
    """The database or its folder is read-only."""

    def __init__(self, path: PurePath) -> None:
        super().__init__(f"cannot write to {path.name} or its folder; only reading is possible")


class DatabaseReplacedError(DatabaseUnavailableError):
    """A file of the database was removed or replaced while this process had it open; writes would be lost."""

    def __init__(self) -> None:
        super().__init__(
            "a file of the database (or its -wal or -shm) was removed or replaced while it was in use; "
            "nothing more is written. Stop all processes that use the library, and start them again"
        )


class ReadTimeoutError(StorageError):
    """A read took longer than SHOAL_SEARCH_TIMEOUT and was stopped."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"this took longer than {seconds:g} seconds and was stopped; use fewer words, phrases or "
            "filters, or try again when the service is less busy"
        )


class DiskFullError(StorageError):
    """The disk is full; nothing of the operation was stored."""


class SchemaError(StorageError):
    """The database was written by a newer Shoal, or is not a Shoal database."""


class DamagedDatabaseError(StorageError):
    """A value or page of the database is corrupt."""

    def __init__(self) -> None:
        super().__init__("the database is damaged; `shoal doctor` says where, and what to do")


class DatabaseInUseError(StorageError):
    """Another process uses the database, and the operation needs it exclusively; nothing was changed."""


class BackupError(ShoalError):
    """A backup cannot be made or cannot be used."""


class LeaseLostError(ShoalError):
    """Another worker has taken over the work; the result must not be stored."""


class IdempotencyError(ShoalError):
    """An `Idempotency-Key` was reused with a different body."""


class UploadDroppedError(ShoalError):
    """An upload was dropped before it was complete; nothing of it was accepted."""


class BrokerUnavailableError(ShoalError):
    """A message could not be sent. Not fatal: the reconciler sends it later."""
