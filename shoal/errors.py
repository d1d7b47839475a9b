"""Everything that can go wrong for a person, as classes.

A message says what is wrong and what to do about it, and never holds a traceback, SQL or a path of the
server that the person did not give. The edges (CLI, HTTP, worker) translate a class once: the CLI to an
exit code, the API to a status, the worker to the error of an item.
"""

from __future__ import annotations

from pathlib import PurePath


class ShoalError(Exception):
    """Base of every error that Shoal raises on purpose."""


class SettingsError(ShoalError):
    """A `SHOAL_` variable is unknown or has a value that cannot be used."""


class DocumentError(ShoalError):
    """A document cannot be taken in; the message is shown to whoever sent it."""


class EmptyDocumentError(DocumentError):
    """No text at all, or none that makes a chunk."""


class DocumentTooLargeError(DocumentError):
    """The document is over `max_document_bytes`, or has too many headings, sentences or chunks."""


class UndecodableDocumentError(DocumentError):
    """The bytes are not text in an encoding that can be recognised."""


class UnreadableFileError(UndecodableDocumentError):
    """The system does not let a file be read; its text may be fine."""


class UnknownFormatError(DocumentError):
    """The format is not one of `DocFormat`, or cannot be told from the file's name."""


class InvalidFieldError(DocumentError):
    """A field of a document or query has a wrong type, length or value.

    `field` is its name as the caller wrote it.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class DuplicateContentError(DocumentError):
    """The same content is stored already; `document_id` says where."""

    def __init__(self, document_id: int) -> None:
        super().__init__(f"the same content is stored already as document {document_id}")
        self.document_id = document_id


class DocumentGoneError(DocumentError):
    """The document that was to be given new content was deleted meanwhile."""

    def __init__(self, document_id: int) -> None:
        super().__init__(f"document {document_id} was deleted before its new content was stored")
        self.document_id = document_id


class QueryError(ShoalError):
    """A search cannot be run as asked. `field` names the argument at fault."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class NotFoundError(ShoalError):
    """There is no document, job or chunk with that id."""


class JobStateError(ShoalError):
    """A job is not in a state in which this can be done with it."""


class StorageError(ShoalError):
    """The database cannot be used right now."""


class DatabaseUnavailableError(StorageError):
    """The database cannot be reached or stayed locked for longer than the busy timeout."""


class ReadOnlyDatabaseError(DatabaseUnavailableError):
    """The database can be read, but neither it nor its folder be written to."""

    def __init__(self, path: PurePath) -> None:
        super().__init__(f"cannot write to {path.name} or its folder; only reading is possible")


class DatabaseReplacedError(DatabaseUnavailableError):
    """A file of the database was removed or replaced while this process had it open; what is written would be lost."""

    def __init__(self) -> None:
        super().__init__(
            "a file of the database (or its -wal or -shm) was removed or replaced while it was in use; nothing more is "
            "written. Stop all processes that use the library, and start them again"
        )


class ReadTimeoutError(StorageError):
    """A read took longer than SHOAL_SEARCH_TIMEOUT, and was stopped."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"this took longer than {seconds:g} seconds and was stopped; ask for less, such as fewer words, phrases or "
            "filters, or try again when the service has less to do"
        )


class DiskFullError(StorageError):
    """There is no space left to write; nothing of the operation was stored."""


class SchemaError(StorageError):
    """The database was written by a newer Shoal, or is not a Shoal database."""


class DamagedDatabaseError(StorageError):
    """A value or page of the database is not what was written."""

    def __init__(self) -> None:
        super().__init__("the database is damaged; `shoal doctor` says where, and what to do")


class DatabaseInUseError(StorageError):
    """Something uses the database that has to be alone with it; nothing was changed."""


class BackupError(ShoalError):
    """A copy of a library can't be made, or can't be used."""


class LeaseLostError(ShoalError):
    """Another worker has taken over the work; whatever was computed must not be stored."""


class IdempotencyError(ShoalError):
    """An `Idempotency-Key` came again with another body."""


class UploadDroppedError(ShoalError):
    """An upload was given up before it was complete; nothing of it was accepted."""


class BrokerUnavailableError(ShoalError):
    """A message could not be sent. Never fatal: the reconciler sends it later."""
