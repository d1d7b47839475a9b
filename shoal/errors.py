"""The errors that Shoal raises, as classes.

A message says what is wrong and what to do about it. It never contains a traceback, SQL, or a path of the
server that the caller did not give. The edges translate each class once: the CLI to an exit code, the API to
a status, the worker to the error of an item.

The `code` of a class is stable: programs compare it, never the message. `docs/errors.md` lists all codes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any, ClassVar

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
    """Base of every error that Shoal raises on purpose. A class names its code."""

    code: ClassVar[str] = "error"

    def __init_subclass__(cls, *, code: str | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if code is not None:
            cls.code = code


class FieldError(Exception):
    """A value is wrong. `field` names it as the caller wrote it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class SettingsError(ShoalError, code="invalid_settings"):
    """A `SHOAL_` variable is unknown or has an invalid value."""


class DocumentError(ShoalError, code="invalid_document"):
    """A document cannot be ingested; the message is shown to the user who sent it."""


class EmptyDocumentError(DocumentError, code="empty_document"):
    """The document has no text, or none that makes a chunk."""


class DocumentTooLargeError(DocumentError, code="document_too_large"):
    """The document is over `max_document_bytes`, or has too many headings, sentences or chunks."""


class UndecodableDocumentError(DocumentError, code="undecodable_document"):
    """The bytes are not text in a recognised encoding."""


class UnreadableFileError(UndecodableDocumentError, code="unreadable_file"):
    """The operating system refuses to read a file; its text may be valid."""


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


class FileConversionError(DocumentError, code="file_unsupported"):
    """A file cannot be converted to text. `code` is one of CONVERSION_CODES and says why."""

    def __init__(self, reason: str, message: str) -> None:
        """`reason`: the code of the converter, without `file_`."""
        super().__init__(message)
        self.code = f"file_{reason}"  # type: ignore[misc]


class RefusedKindError(FileConversionError, code="file_refused"):
    """The content of a file shows that it is of a kind without text."""

    def __init__(self, reason: str, message: str, kind: str) -> None:
        """`kind`: its name, as in "an image"."""
        super().__init__(reason, message)
        self.kind = kind


FETCH_CODES = frozenset({"url_refused", "url_unreachable", "url_failed", "url_time_limit", "url_too_large"})
"""Codes of FetchError."""


class FetchError(DocumentError, code="url_failed"):
    """A page or file cannot be fetched. `code` is one of FETCH_CODES and says why.

    `is_temporary`: another try may succeed; `retry_after`: the seconds that the server asks to wait for.
    """

    def __init__(
        self, reason: str, message: str, *, is_temporary: bool = False, retry_after: float | None = None
    ) -> None:
        """`reason`: the code without `url_`."""
        super().__init__(message)
        self.code = f"url_{reason}"  # type: ignore[misc]
        self.is_temporary = is_temporary
        self.retry_after = retry_after


class UnknownFormatError(DocumentError, code="unknown_format"):
    """The format is not one of `DocFormat`, or the file's name does not determine it."""


class InvalidFieldError(FieldError, DocumentError, code="invalid_field"):
    """A field of a document or query has a wrong type, length or value.

    `field` is the name as the caller wrote it.
    """


class DuplicateContentError(DocumentError, code="duplicate_content"):
    """The same content is already stored, as document `document_id`."""

    def __init__(self, document_id: int) -> None:
        super().__init__(f"the same content is stored already as document {document_id}")
        self.document_id = document_id


class DocumentGoneError(DocumentError, code="document_gone"):
    """The document was deleted before its new content could be stored."""

    def __init__(self, document_id: int) -> None:
        super().__init__(f"document {document_id} was deleted before its new content was stored")
        self.document_id = document_id


class AmbiguousPathError(DocumentError, code="ambiguous_path"):
    """Several stored documents have the source path of a document that should replace the one with it."""

    def __init__(self, source_path: str) -> None:
        super().__init__(
            f"several stored documents have the path {source_path!r}, so none of them was replaced; "
            "delete all but one"
        )
        self.source_path = source_path


class NoteError(FieldError, ShoalError, code="invalid_note"):
    """A field of a note, or an argument about one, has a wrong type, length or value.

    `field` is the name as the caller wrote it.
    """


class NoteStateError(ShoalError, code="invalid_note_state"):
    """The state of a note, or of another with its text, does not allow the change."""


class SynonymError(FieldError, ShoalError, code="invalid_synonym"):
    """A field of a synonym has a wrong type, length or value. `field` names it."""


class SynonymConflictError(ShoalError, code="synonym_conflict"):
    """Another synonym says the same or the opposite, or the state of an acronym does not allow the change."""


class PinError(FieldError, ShoalError, code="invalid_pin"):
    """A field of a pin has a wrong type, length or value. `field` names it."""


class PinConflictError(ShoalError, code="pin_conflict"):
    """Another pin is for the same words, or the library has as many pins as it may have."""


class ChatEndpointError(ShoalError, code="chat_endpoint_failed"):
    """The chat endpoint is not configured, cannot be reached, or gives no usable answer.

    `retry_seconds`: when to ask again; None if the endpoint does not say.
    """

    def __init__(self, message: str, retry_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


class QueryError(ShoalError, code="invalid_query"):
    """A search request is invalid. `field` names the invalid argument."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


EXCERPT_CHARS = 60
"""Characters of an expression before, at and after the place of an error."""


class FilterError(QueryError, code="invalid_filter"):
    """A filter expression or object is invalid.

    `start` and `end` are the place to blame in an expression, in code points; `blamed` is the number of the
    value among those of a condition.
    """

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


@contextmanager
def blaming(argument: str) -> Iterator[None]:
    """Raise a QueryError about this argument for conditions and fields that are not of `filter`."""
    try:
        yield
    except FilterError as error:
        raise QueryError(argument, str(error)) from None


class NotFoundError(ShoalError, code="not_found"):
    """No document, job or chunk has this id, or the caller has no note with it."""


class VersionConflictError(ShoalError, code="version_conflict"):
    """A document has changed since the version that a change names; nothing was changed."""

    def __init__(self, document_id: int) -> None:
        super().__init__(f"document {document_id} has changed since; read it again")


class RestrictedError(ShoalError, code="not_for_tokens"):
    """What was requested cannot be restricted to what a search token may see."""


class CollectionNameError(FieldError, ShoalError, code="invalid_collection_name"):
    """A name cannot be that of a collection. `field` names the argument."""


class CollectionNotFoundError(NotFoundError, code="collection_not_found"):
    """There is no collection with this name."""


class CollectionExistsError(ShoalError, code="collection_exists"):
    """Another collection has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is a collection {name!r} already; choose another name, or delete or rename it"
        )


class CollectionStateError(ShoalError, code="invalid_collection_state"):
    """The operation is not possible for this collection, such as deleting `main`."""


class JobStateError(ShoalError, code="invalid_job_state"):
    """The state of a job does not allow the operation."""


class StorageError(ShoalError, code="storage_error"):
    """The database cannot be used right now."""


class DatabaseUnavailableError(StorageError, code="database_unavailable"):
    """The database cannot be reached or stayed locked for longer than the busy timeout."""


class CommitUnknownError(DatabaseUnavailableError, code="commit_unknown"):
    """The connection to the database ended during a commit, and the server did not say what became of it."""

    def __init__(self) -> None:
        super().__init__(
            "the connection to the database ended during a commit, so the change may be stored or not: look "
            "before you repeat it"
        )


class ReadOnlyDatabaseError(DatabaseUnavailableError, code="database_read_only"):
    """The database or its folder is read-only."""

    def __init__(self, place: PurePath | str) -> None:
        """`place`: the file of the database, or the name of one on a server."""
        if isinstance(place, PurePath):
            super().__init__(f"cannot write to {place.name} or its folder; only reading is possible")
        else:
            super().__init__(
                f"cannot write to {place}: its server is a standby, or default_transaction_read_only is on, "
                "so only reading is possible; SHOAL_DATABASE_URL must name a primary that takes changes"
            )


class DatabaseReplacedError(DatabaseUnavailableError, code="database_replaced"):
    """A file of the database was removed or replaced while this process had it open; writes would be lost."""

    def __init__(self) -> None:
        super().__init__(
            "a file of the database (or its -wal or -shm) was removed or replaced while it was in use; "
            "nothing more is written. Stop all processes that use the library, and start them again"
        )


class ReadTimeoutError(StorageError, code="read_timeout"):
    """A read took longer than SHOAL_SEARCH_TIMEOUT and was stopped."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"this took longer than {seconds:g} seconds and was stopped; use fewer words, phrases, "
            "filters or searches at once, or try again when the service is less busy"
        )


class DiskFullError(StorageError, code="disk_full"):
    """The disk is full; nothing of the operation was stored."""


class SchemaError(StorageError, code="schema_mismatch"):
    """The database was written by a newer Shoal, or is not a Shoal database."""


class DamagedDatabaseError(StorageError, code="database_damaged"):
    """A value or page of the database is corrupt."""

    def __init__(self, damage: str | None = None) -> None:
        """`damage`: a value that is damaged."""
        example = "" if damage is None else f" ({damage})"
        super().__init__(f"the database is damaged{example}; `shoal doctor` says where, and what to do")


class DamagedIndexError(StorageError, code="index_damaged"):
    """A segment of the index is corrupt or of another format. Nothing is lost: it is built anew from the
    database."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"a segment of the index cannot be used: {reason}; `shoal doctor --repair` builds it"
        )


class IndexBehindError(StorageError, code="index_behind"):
    """The index of this machine is behind the library by more than SHOAL_INDEX_LAG_SECONDS.

    `n_documents`: None for who may not know how many documents there are.
    """

    def __init__(self, n_documents: int | None, seconds: float) -> None:
        counted = "" if n_documents is None else f" ({n_documents:,} documents)"
        super().__init__(f"the index of this machine is {seconds:.0f} s behind{counted}; try again")
        self.seconds = seconds


class ReplicaBehindError(StorageError, code="replica_behind"):
    """A replica did not have what a search must see, after waiting for it."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"what you wrote has not reached the replica for searches within {seconds:g} s; try again, or "
            "search without Shoal-Read-After"
        )


class DatabaseInUseError(StorageError, code="database_in_use"):
    """Another process uses the database, and the operation needs it exclusively; nothing was changed."""


class BackupError(ShoalError, code="backup_failed"):
    """A backup cannot be made or cannot be used."""


class CopyError(ShoalError, code="copy_failed"):
    """A library cannot be copied to another database."""


class SourceError(ShoalError, code="source_failed"):
    """A source cannot be listed or read. `is_temporary`: another try may succeed; `retry_after`: the seconds
    that the store asks to wait for."""

    def __init__(self, message: str, *, is_temporary: bool = True, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.is_temporary = is_temporary
        self.retry_after = retry_after


class ObjectGoneError(SourceError, code="source_object_gone"):
    """An object is gone since it was listed."""


class EncoderError(ShoalError, code="encoder_failed"):
    """The encoder cannot be used, or what it returned cannot; trying again does not help."""


class EncoderUnavailableError(EncoderError, code="encoder_unavailable"):
    """The encoder did not answer, or refused for now. `retry_after` are seconds to wait, if it said so."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class EncoderMismatchError(EncoderError, code="encoder_mismatch"):
    """The library has vectors of another encoder; they cannot be compared with those of this one."""


class LeaseLostError(ShoalError, code="lease_lost"):
    """Another worker has taken over the work; the result must not be stored."""


class IdempotencyError(ShoalError, code="idempotency_key_reused"):
    """An `Idempotency-Key` was reused with a different body."""


class UploadDroppedError(ShoalError, code="upload_dropped"):
    """An upload was dropped before it was complete; nothing of it was accepted."""


class BrokerUnavailableError(ShoalError, code="broker_unavailable"):
    """A message could not be sent. Not fatal: the reconciler sends it later."""


def refusal_code(error: BaseException | str) -> str:
    """Return the code of the reason why a document was refused: that of the error, or `invalid_document`."""
    return error.code if isinstance(error, ShoalError) else DocumentError.code
