"""The errors that Shoal raises, as classes.

A message says what is wrong and what to do about it. It never contains a traceback, SQL, or a path of the
server that the caller did not give. The edges translate each class once: the CLI to an exit code, the API to
a status, the worker to the error of an item.

The `code` of a class is stable: programs compare it, never the message. `docs/errors.md` lists all codes.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import ClassVar

INTERNAL_ERROR = "internal_error"
ATTEMPTS_EXHAUSTED = "attempts_exhausted"
CANCELED = "canceled"
TEXT_LOST = "text_lost"
MALFORMED_JSON = "malformed_json"
INVALID_ARCHIVE_ENTRY = "invalid_archive_entry"

ITEM_CODES = frozenset(
    {INTERNAL_ERROR, ATTEMPTS_EXHAUSTED, CANCELED, TEXT_LOST, MALFORMED_JSON, INVALID_ARCHIVE_ENTRY}
)
"""Codes of items of jobs that no ShoalError causes. All other items have the code of an error below."""


class ShoalError(Exception):
    """Base of every error that Shoal raises on purpose."""

    code: ClassVar[str] = "error"


class SettingsError(ShoalError):
    """A `SHOAL_` variable is unknown or has an invalid value."""

    code = "invalid_settings"


class DocumentError(ShoalError):
    """A document cannot be ingested; the message is shown to the user who sent it."""

    code = "invalid_document"


class EmptyDocumentError(DocumentError):
    """The document has no text, or none that makes a chunk."""

    code = "empty_document"


class DocumentTooLargeError(DocumentError):
    """The document is over `max_document_bytes`, or has too many headings, sentences or chunks."""

    code = "document_too_large"


class UndecodableDocumentError(DocumentError):
    """The bytes are not text in a recognised encoding."""

    code = "undecodable_document"


class UnreadableFileError(UndecodableDocumentError):
    """The operating system refuses to read a file; its text may be valid."""

    code = "unreadable_file"


CONVERSION_CODES = frozenset(
    {
        "file_encrypted",
        "file_broken",
        "file_no_text",
        "file_too_large",
        "file_missing_extra",
        "file_time_limit",
        "file_memory_limit",
        "file_crashed",
        "file_unsupported",
    }
)
"""Codes of FileConversionError."""

PERMANENT_CODES = frozenset(
    {
        "file_encrypted",
        "file_broken",
        "file_too_large",
        "file_unsupported",
        EmptyDocumentError.code,
        UndecodableDocumentError.code,
    }
)
"""Codes of items that fail again when they are retried: they depend on the bytes of the file alone."""


class FileConversionError(DocumentError):
    """A file cannot be converted to text. `code` is one of CONVERSION_CODES and says why."""

    code = "file_unsupported"

    def __init__(self, reason: str, message: str) -> None:
        """`reason`: the code of the converter, without `file_`."""
        super().__init__(message)
        self.code = f"file_{reason}"  # type: ignore[misc]


class RefusedKindError(FileConversionError):
    """The content of a file shows that it is of a kind without text."""

    code = "file_refused"

    def __init__(self, reason: str, message: str, kind: str) -> None:
        """`kind`: its name, as in "an image"."""
        super().__init__(reason, message)
        self.kind = kind


FETCH_CODES = frozenset({"url_refused", "url_unreachable", "url_failed", "url_time_limit", "url_too_large"})
"""Codes of FetchError."""


class FetchError(DocumentError):
    """A page or file cannot be fetched. `code` is one of FETCH_CODES and says why.

    `is_temporary`: another try may succeed; `retry_after`: the seconds that the server asks to wait for.
    """

    code = "url_failed"

    def __init__(
        self, reason: str, message: str, *, is_temporary: bool = False, retry_after: float | None = None
    ) -> None:
        """`reason`: the code without `url_`."""
        super().__init__(message)
        self.code = f"url_{reason}"  # type: ignore[misc]
        self.is_temporary = is_temporary
        self.retry_after = retry_after


class UnknownFormatError(DocumentError):
    """The format is not one of `DocFormat`, or the file's name does not determine it."""

    code = "unknown_format"


class InvalidFieldError(DocumentError):
    """A field of a document or query has a wrong type, length or value.

    `field` is the name as the caller wrote it.
    """

    code = "invalid_field"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class DuplicateContentError(DocumentError):
    """The same content is already stored, as document `document_id`."""

    code = "duplicate_content"

    def __init__(self, document_id: int) -> None:
        super().__init__(f"the same content is stored already as document {document_id}")
        self.document_id = document_id


class DocumentGoneError(DocumentError):
    """The document was deleted before its new content could be stored."""

    code = "document_gone"

    def __init__(self, document_id: int) -> None:
        super().__init__(f"document {document_id} was deleted before its new content was stored")
        self.document_id = document_id


class AmbiguousPathError(DocumentError):
    """Several stored documents have the source path of a document that should replace the one with it."""

    code = "ambiguous_path"

    def __init__(self, source_path: str) -> None:
        super().__init__(
            f"several stored documents have the path {source_path!r}, so none of them was replaced; "
            "delete all but one"
        )
        self.source_path = source_path


class NoteError(ShoalError):
    """A field of a note, or an argument about one, has a wrong type, length or value.

    `field` is the name as the caller wrote it.
    """

    code = "invalid_note"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class NoteStateError(ShoalError):
    """The state of a note, or of another with its text, does not allow the change."""

    code = "invalid_note_state"


class SynonymError(ShoalError):
    """A field of a synonym has a wrong type, length or value. `field` names it."""

    code = "invalid_synonym"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class SynonymConflictError(ShoalError):
    """Another synonym says the same or the opposite, or the state of an acronym does not allow the change."""

    code = "synonym_conflict"


class PinError(ShoalError):
    """A field of a pin has a wrong type, length or value. `field` names it."""

    code = "invalid_pin"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class PinConflictError(ShoalError):
    """Another pin is for the same words, or the library has as many pins as it may have."""

    code = "pin_conflict"


class ChatEndpointError(ShoalError):
    """The chat endpoint is not configured, cannot be reached, or gives no usable answer.

    `retry_seconds`: when to ask again; None if the endpoint does not say.
    """

    code = "chat_endpoint_failed"

    def __init__(self, message: str, retry_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


class QueryError(ShoalError):
    """A search request is invalid. `field` names the invalid argument."""

    code = "invalid_query"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


EXCERPT_CHARS = 60
"""Characters of an expression before, at and after the place of an error."""


class FilterError(QueryError):
    """A filter expression or object is invalid.

    `start` and `end` are the place to blame in an expression, in code points; `blamed` is the number of the
    value among those of a condition.
    """

    code = "invalid_filter"

    def __init__(
        self, message: str, start: int | None = None, end: int | None = None, *, blamed: int | None = None
    ) -> None:
        super().__init__("filter", message if start is None else f"character {start + 1}: {message}")
        self.start = start
        self.end = end
        self.blamed = blamed
        self.expression: str | None = None

    @property
    def excerpt(self) -> tuple[str, str, str] | None:
        """The expression before the place, at it, and after it, at most EXCERPT_CHARS each; None without a
        place."""
        if self.expression is None or self.start is None or self.end is None:
            return None
        before, after = self.expression[: self.start], self.expression[self.end :]
        blamed = self.expression[self.start : self.end]
        return before[-EXCERPT_CHARS:], blamed[:EXCERPT_CHARS], after[:EXCERPT_CHARS]


class NotFoundError(ShoalError):
    """No document, job or chunk has this id, or the caller has no note with it."""

    code = "not_found"


class CollectionNameError(ShoalError):
    """A name cannot be that of a collection. `field` names the argument."""

    code = "invalid_collection_name"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class CollectionNotFoundError(NotFoundError):
    """There is no collection with this name."""

    code = "collection_not_found"


class CollectionExistsError(ShoalError):
    """Another collection has this name."""

    code = "collection_exists"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is a collection {name!r} already; choose another name, or delete or rename it"
        )


class CollectionStateError(ShoalError):
    """The operation is not possible for this collection, such as deleting `main`."""

    code = "invalid_collection_state"


class JobStateError(ShoalError):
    """The state of a job does not allow the operation."""

    code = "invalid_job_state"


class StorageError(ShoalError):
    """The database cannot be used right now."""

    code = "storage_error"


class DatabaseUnavailableError(StorageError):
    """The database cannot be reached or stayed locked for longer than the busy timeout."""

    code = "database_unavailable"


class CommitUnknownError(DatabaseUnavailableError):
    """The connection to the database ended during a commit, and the server did not say what became of it."""

    code = "commit_unknown"

    def __init__(self) -> None:
        super().__init__(
            "the connection to the database ended during a commit, so the change may be stored or not: look "
            "before you repeat it"
        )


class ReadOnlyDatabaseError(DatabaseUnavailableError):
    """The database or its folder is read-only."""

    code = "database_read_only"

    def __init__(self, place: PurePath | str) -> None:
        """`place`: the file of the database, or the name of one on a server."""
        if isinstance(place, PurePath):
            super().__init__(f"cannot write to {place.name} or its folder; only reading is possible")
        else:
            super().__init__(
                f"cannot write to {place}: its server is a standby, or default_transaction_read_only is on, "
                "so only reading is possible; SHOAL_DATABASE_URL must name a primary that takes changes"
            )


class DatabaseReplacedError(DatabaseUnavailableError):
    """A file of the database was removed or replaced while this process had it open; writes would be lost."""

    code = "database_replaced"

    def __init__(self) -> None:
        super().__init__(
            "a file of the database (or its -wal or -shm) was removed or replaced while it was in use; "
            "nothing more is written. Stop all processes that use the library, and start them again"
        )


class ReadTimeoutError(StorageError):
    """A read took longer than SHOAL_SEARCH_TIMEOUT and was stopped."""

    code = "read_timeout"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"this took longer than {seconds:g} seconds and was stopped; use fewer words, phrases, "
            "filters or searches at once, or try again when the service is less busy"
        )


class DiskFullError(StorageError):
    """The disk is full; nothing of the operation was stored."""

    code = "disk_full"


class SchemaError(StorageError):
    """The database was written by a newer Shoal, or is not a Shoal database."""

    code = "schema_mismatch"


class DamagedDatabaseError(StorageError):
    """A value or page of the database is corrupt."""

    code = "database_damaged"

    def __init__(self, damage: str | None = None) -> None:
        """`damage`: a value that is damaged."""
        example = "" if damage is None else f" ({damage})"
        super().__init__(f"the database is damaged{example}; `shoal doctor` says where, and what to do")


class DamagedIndexError(StorageError):
    """A segment of the index is corrupt or of another format. Nothing is lost: it is built anew from the
    database."""

    code = "index_damaged"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"a segment of the index cannot be used: {reason}; `shoal doctor --repair` builds it"
        )


class IndexBehindError(StorageError):
    """The index of this machine is behind the library by more than SHOAL_INDEX_LAG_SECONDS."""

    code = "index_behind"

    def __init__(self, n_documents: int, seconds: float) -> None:
        super().__init__(
            f"the index of this machine is {seconds:.0f} s behind ({n_documents:,} documents); try again"
        )


class ReplicaBehindError(StorageError):
    """A replica did not have what a search must see, after waiting for it."""

    code = "replica_behind"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"what you wrote has not reached the replica for searches within {seconds:g} s; try again, or "
            "search without Shoal-Read-After"
        )


class DatabaseInUseError(StorageError):
    """Another process uses the database, and the operation needs it exclusively; nothing was changed."""

    code = "database_in_use"


class BackupError(ShoalError):
    """A backup cannot be made or cannot be used."""

    code = "backup_failed"


class CopyError(ShoalError):
    """A library cannot be copied to another database."""

    code = "copy_failed"


class EncoderError(ShoalError):
    """The encoder cannot be used, or what it returned cannot; trying again does not help."""

    code = "encoder_failed"


class EncoderUnavailableError(EncoderError):
    """The encoder did not answer, or refused for now. `retry_after` are seconds to wait, if it said so."""

    code = "encoder_unavailable"

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class EncoderMismatchError(EncoderError):
    """The library has vectors of another encoder; they cannot be compared with those of this one."""

    code = "encoder_mismatch"


class LeaseLostError(ShoalError):
    """Another worker has taken over the work; the result must not be stored."""

    code = "lease_lost"


class IdempotencyError(ShoalError):
    """An `Idempotency-Key` was reused with a different body."""

    code = "idempotency_key_reused"


class UploadDroppedError(ShoalError):
    """An upload was dropped before it was complete; nothing of it was accepted."""

    code = "upload_dropped"


class BrokerUnavailableError(ShoalError):
    """A message could not be sent. Not fatal: the reconciler sends it later."""

    code = "broker_unavailable"


def refusal_code(error: BaseException | str) -> str:
    """Return the code of the reason why a document was refused: that of the error, or `invalid_document`."""
    return error.code if isinstance(error, ShoalError) else DocumentError.code
