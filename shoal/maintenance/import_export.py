"""Imports an export: its documents as new ones, its notes as new notes, and its pins, synonyms and vectors.

Chunks, reefs and learned words are computed again by this version; the import ignores those of the export.
Ids, the times of documents and the history of jobs are not imported. A note keeps its owner, evidence, state,
times and history, and a merge can be undone after the import.

Pins and vectors come after the documents, which are found by their contents. Vectors are kept by the hashes
of their texts until then; those of another encoder than that of the library, or of the settings, are left
out.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from shoal.errors import (
    DocumentError,
    EncoderError,
    InvalidFieldError,
    NoteError,
    PinConflictError,
    PinError,
    ShoalError,
    SynonymConflictError,
    SynonymError,
)
from shoal.formats.decoding import clean
from shoal.formats.drafts import checked_tags, make_draft
from shoal.formats.given_passages import fields_of
from shoal.index.upkeep import update_index
from shoal.index.vectors import MAX_DIMENSION, has_unit_length
from shoal.jobs.in_process import rescore as rescore_library
from shoal.library.acronyms import store_decided
from shoal.library.documents import Documents
from shoal.library.library import Library
from shoal.library.pins import MAX_PINS, CheckedPin, checked_pin, store_pin
from shoal.library.synonyms import add_entry, checked_entry, is_stored
from shoal.maintenance.export import FORMAT
from shoal.models.documents import DocumentDraft, IngestResult, Passage
from shoal.models.files import ANY_TOKENS, SourceFile
from shoal.models.pins import MAX_HIDDEN, MAX_PINNED, PinTarget
from shoal.notes.merge_records import RELATED_TYPES, Related, RelatedImport, checked_related
from shoal.notes.note_records import ImportedNote, checked_note, store_notes
from shoal.search import pins as stored
from shoal.settings import Settings
from shoal.storage import vectors
from shoal.storage.attachments import Links, write_links
from shoal.storage.database import Transaction
from shoal.storage.document_queries import file_from_json
from shoal.support.byte_units import MIB

if TYPE_CHECKING:
    from shoal.jobs.in_process import Watcher

NOTE_TYPES = RELATED_TYPES | {"note"}
NOTES_TOGETHER = 100
"""Records of one transaction."""
PIN_TYPE = "pin"
LISTS = {"pinned": MAX_PINNED, "hidden": MAX_HIDDEN}
SYNONYM_TYPES = frozenset({"synonym", "acronym"})
SYNONYMS_TOGETHER = 500
"""Entries of one transaction."""
VECTORS_TOGETHER = 1_000
MAX_NAME_CHARS = 1_000
LINE_BYTES_PER_BYTE = 8
"""Longest line in bytes per byte of a document: JSON can encode two bytes of text as six, and adds
structure."""
READ_BYTES = MIB
GZIP = b"\x1f\x8b"
MAX_BAD_LINES = 1000
"""Bad lines kept with their reasons. In a wrong file every line may be bad, and there may be millions."""
MAX_REASON_CHARS = 300
MAX_WARNINGS = 100
MAX_WARNING_CHARS = 1000
"""Limits for the warnings of a document. Those of Shoal are a few lines."""
RECORD_TYPES = (
    frozenset({"export", "document", "chunk", "custom_word", PIN_TYPE}) | NOTE_TYPES | SYNONYM_TYPES
)


class NoteImport:
    """Stores records in short transactions, in the order of their lines: the notes of an owner, then what
    refers to them. An import that was killed is completed by another."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._notes: list[ImportedNote] = []
        self._related: list[Related] = []
        self._seen = Counter[tuple[str, str]]()
        self._of_owner: RelatedImport | None = None
        self._counts = Counter[str]()

    def add(self, record: Mapping[str, Any]) -> None:
        """Check a record. Raises NoteError."""
        settings = self._library.settings
        if record["type"] == "note":
            note = checked_note(settings, record)
            self._begin(note.owner)
            self._notes.append(note)
        else:
            related = checked_related(settings, record)
            self._begin(related.owner)
            self._store_notes()
            self._related.append(related)
        if len(self._notes) + len(self._related) >= NOTES_TOGETHER:
            self._store()

    def finish(self) -> None:
        """Store the rest."""
        if self._of_owner is None:
            return
        self._store()
        self._of_owner.name_survivors(NOTES_TOGETHER)
        self._counts.update(
            merges=self._of_owner.n_merges,
            proposals=self._of_owner.n_proposals,
            sessions=self._of_owner.n_sessions,
            left_out=self._of_owner.n_left_out,
        )
        self._of_owner = None

    def counts(self) -> dict[str, int]:
        """Return the numbers of an `Imported` by name."""
        return dict(self._counts)

    def _begin(self, owner: str) -> None:
        if self._of_owner is not None and self._of_owner.owner == owner:
            return
        self.finish()
        library = self._library
        self._of_owner = RelatedImport(library.database, library.scorer, library.settings, owner)

    def _store(self) -> None:
        self._store_notes()
        if self._related and self._of_owner is not None:
            # A merge can be undone once its notes name the survivor.
            self._of_owner.name_survivors(NOTES_TOGETHER)
            self._of_owner.store(self._related)
            self._related = []

    def _store_notes(self) -> None:
        library, notes = self._library, self._notes
        if not notes or self._of_owner is None:
            return
        stored = store_notes(library.database, library.scorer, library.settings, notes, self._seen)
        self._notes = []
        for note, each in zip(notes, stored, strict=True):
            if each is None:
                self._counts["forgotten_notes"] += 1
                continue
            self._counts["notes" if each.is_new else "duplicate_notes"] += 1
            self._of_owner.add_note(note, each)


class PinRecords:
    """Stores records at the end, in one transaction. A pin for words that have one is not stored again."""

    def __init__(self, library: Library) -> None:
        self._database = library.database
        self._waiting: list[tuple[int, Mapping[str, Any]]] = []
        self.n_stored = 0
        self.refused: list[tuple[int, str]] = []

    def add(self, line: int, record: Mapping[str, Any]) -> None:
        """Check the record of a line. Raises InvalidFieldError."""
        try:
            # Any target makes a pin valid; those of the record are found at the end.
            checked_pin(record.get("query"), [1], [], record.get("match"))
        except PinError as error:
            raise InvalidFieldError(error.field, error.message) from None
        for name, limit in LISTS.items():
            targets = record.get(name, [])
            if not isinstance(targets, list) or len(targets) > limit or not all(map(_is_target, targets)):
                raise InvalidFieldError(name, f"must be a list of up to {limit} documents and passages")
        if len(self._waiting) >= MAX_PINS:
            raise InvalidFieldError("query", f"is of a pin beyond the first {MAX_PINS:,}, which is the limit")
        self._waiting.append((line, record))

    def finish(self) -> None:
        """Store all pins. One whose documents are all missing is refused."""
        if not self._waiting:
            return
        with self._database.write() as transaction:
            for line, record in self._waiting:
                try:
                    pin = _found(transaction, record)
                    if stored.id_of(transaction, pin.words, pin.match) is None:
                        store_pin(transaction, pin)
                        self.n_stored += 1
                except (PinConflictError, PinError) as error:
                    self.refused.append((line, str(error)))
        self._waiting = []


def _is_target(target: object) -> bool:
    if not isinstance(target, Mapping) or not isinstance(target.get("document"), str):
        return False
    start = target.get("start_char")
    return start is None or (isinstance(start, int) and not isinstance(start, bool) and 0 <= start < 2**53)


def _found(transaction: Transaction, record: Mapping[str, Any]) -> CheckedPin:
    """The pin of a record with the documents that the library has. Raises PinError if it has none."""
    lists: dict[str, list[PinTarget]] = {}
    for name in LISTS:
        targets = [
            stored.find_target(transaction, each["document"], each.get("start_char"))
            for each in record.get(name, [])
        ]
        lists[name] = list(dict.fromkeys(target for target in targets if target is not None))
    if not any(lists.values()) and any(record.get(name) for name in LISTS):
        raise PinError("pinned", "none of its documents is in the library")
    return checked_pin(record.get("query"), lists["pinned"], lists["hidden"], record.get("match"))


class SynonymRecords:
    """Stores records in short transactions. An entry that the library has already is not stored again."""

    def __init__(self, library: Library) -> None:
        self._database = library.database
        self._waiting: list[tuple[int, tuple[str | None, tuple[str, ...]]]] = []
        self.n_stored = 0
        self.refused: list[tuple[int, str]] = []

    def add(self, line: int, record: Mapping[str, Any]) -> None:
        """Check the record of a line. Raises InvalidFieldError."""
        try:
            if record["type"] == "acronym":
                entry = checked_entry(None, (record.get("acronym"), record.get("expansion")))
                self.finish()  # The entry of a confirmed one comes before it.
                with self._database.write() as transaction:
                    store_decided(transaction, entry[1][0], entry[1][1], record.get("status"))
                return
            self._waiting.append((line, checked_entry(record.get("root"), record.get("synonyms"))))
        except SynonymError as error:
            raise InvalidFieldError(error.field, error.message) from None
        if len(self._waiting) >= SYNONYMS_TOGETHER:
            self.finish()

    def finish(self) -> None:
        """Store the rest."""
        if not self._waiting:
            return
        with self._database.write() as transaction:
            for line, entry in self._waiting:
                if is_stored(transaction, *entry):
                    continue
                try:
                    add_entry(transaction, *entry)
                    self.n_stored += 1
                except SynonymConflictError as error:
                    self.refused.append((line, str(error)))
        self._waiting = []


class VectorImport:
    """The vectors of one export."""

    def __init__(self, library: Library, head: Mapping[str, Any]) -> None:
        """`head`: the first record of the export. Raises StorageError."""
        self._library = library
        self._title = ""
        self._waiting: list[tuple[bytes, bytes]] = []
        self._identity = _identity(head.get("encoder"))
        vectors.delete_imported(library.database)
        if self._identity is not None and not self._is_accepted(self._identity):
            self._identity = None

    def _is_accepted(self, identity: tuple[str, str, int]) -> bool:
        database = self._library.database
        with database.snapshot() as snapshot:
            has_own = vectors.is_any(snapshot)
        if not has_own and self._library.encoder is not None:
            try:
                if tuple(self._library.encoder.identity) != identity:
                    return False
            except EncoderError:
                # Whether it is the same cannot be known now.
                return False
        return vectors.begin(database, identity).identity == identity

    def begin_document(self, record: Mapping[str, Any]) -> None:
        """Note the document that the next chunks belong to; records of other types have no chunks."""
        title = record.get("title")
        self._title = title if isinstance(title, str) else ""

    def add(self, record: Mapping[str, Any]) -> None:
        """Keep the vector of a chunk, if it has one. Raises ValueError for one that is damaged."""
        encoded, text = record.get("vector"), record.get("text")
        if self._identity is None or encoded is None:
            return
        if not isinstance(encoded, str) or not isinstance(text, str):
            raise ValueError("vector: must be base64, and the chunk must have its text")
        try:
            blob = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            raise ValueError("vector: is not base64") from None
        if not has_unit_length([blob], self._identity[2])[0]:
            raise ValueError("vector: has not the size or the length of those of its encoder")
        self._waiting.append((vectors.text_hash(vectors.embedded_text(self._title, text)), blob))
        if len(self._waiting) >= VECTORS_TOGETHER:
            self._store()

    def finish(self, document_ids: Iterable[int]) -> int:
        """Give the chunks of stored documents their vectors; return how many got one."""
        if self._identity is None:
            return 0
        self._store()
        n = vectors.adopt(self._library.database, document_ids)
        vectors.delete_imported(self._library.database)
        update_index(self._library.database)
        return n

    def _store(self) -> None:
        if not self._waiting:
            return
        with self._library.database.write() as transaction:
            vectors.add_imported(transaction, self._waiting)
        self._waiting = []


def _identity(value: object) -> tuple[str, str, int] | None:
    """The encoder that an export names; None if it names none."""
    if not isinstance(value, dict):
        return None
    name, revision, dimension = (value.get(part) for part in ("name", "revision", "dimension"))
    is_valid = (
        isinstance(name, str)
        and isinstance(revision, str)
        and type(dimension) is int
        and max(len(name), len(revision)) <= MAX_NAME_CHARS
        and 1 <= dimension <= MAX_DIMENSION
    )
    return (name, revision, dimension) if is_valid else None  # type: ignore[return-value]


class NotAnExportError(ShoalError, code="not_an_export"):
    """The whole file cannot be imported."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that could not be imported, counted from 1, with the reason."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import.

    `stored`: number of new documents. `duplicates`: number of documents whose text was stored already. `bad`:
    the first of the `n_bad` lines that could not be imported. `is_rescored`: words were learned again at the
    end, so that they do not depend on the order of the documents. `notes`: number of new notes;
    `duplicate_notes`: notes whose text the owner has already. `forgotten_notes`: notes that were not stored,
    because their owner had the text forgotten. `merges`, `proposals`, `sessions`: number of
    new ones. `left_out`: merges and proposals of notes that are not in the export, or of other notes that
    the owner had. `vectors`: number of passages that got the vector of the export. `synonyms`, `pins`:
    number of new ones.
    """

    stored: int
    duplicates: int
    bad: tuple[BadLine, ...]
    is_rescored: bool
    n_bad: int = 0
    notes: int = 0
    duplicate_notes: int = 0
    forgotten_notes: int = 0
    merges: int = 0
    proposals: int = 0
    sessions: int = 0
    left_out: int = 0
    vectors: int = 0
    synonyms: int = 0
    pins: int = 0


def import_export(
    library: Library,
    file: IO[bytes],
    *,
    rescore: bool,
    processes: int,
    watch: Watcher | None,
) -> Imported:
    """Import the documents of an export; `Maintenance.import_export` describes the arguments."""
    lines = _lines(file, library.settings)
    head = _checked_head(lines)
    if "without_rights" in head:
        # Before the first document.
        Documents(library).change_access_settings(head["without_rights"])
    vector_import = VectorImport(library, head)
    bad = _BadLines()
    line_numbers: list[int] = []
    links_by_line: dict[int, Links] = {}
    n_bytes = 0
    notes, synonyms, pins = NoteImport(library), SynonymRecords(library), PinRecords(library)
    readers: dict[str, Callable[[int, dict[str, Any]], None]] = {
        **dict.fromkeys(NOTE_TYPES, lambda _, record: notes.add(record)),
        **dict.fromkeys(SYNONYM_TYPES, synonyms.add),
        PIN_TYPE: pins.add,
        "chunk": lambda _, record: vector_import.add(record),
    }
    had_documents = Documents(library).list(limit=0).total > 0
    with library.ingest_session() as ingest_session:
        for number, line in lines:
            try:
                record = _record(line)
                if record is not None and record["type"] in readers:
                    readers[record["type"]](number, record)
                    continue
                if record is not None:
                    vector_import.begin_document(record)
                draft = _draft(record, library.settings)
                links = _links(record)
            except (DocumentError, NoteError, ValueError) as error:
                bad.add(number, str(error))
                continue
            if draft is not None:
                ingest_session.add_draft(draft)
                if links is not None:
                    links_by_line[number] = links
                line_numbers.append(number)
                n_bytes += draft.n_bytes
        results = ingest_session.finish(processes=processes, watch=watch)
    notes.finish()
    synonyms.finish()
    pins.finish()
    for number, reason in (*synonyms.refused, *pins.refused):
        bad.add(number, reason)
    stored_ids = [result.id for result in results if result.id is not None]
    n_vectors = vector_import.finish(stored_ids)
    numbered_results = list(zip(line_numbers, results, strict=True))
    for number, result in numbered_results:
        if result.error is not None:
            bad.add(number, result.error)
    _store_links(library, links_by_line, numbered_results)
    stored = sum(result.error is None and result.duplicate is None for _, result in numbered_results)
    # One wave in an empty library learns from all documents together, as a rescore does.
    has_several_waves = had_documents or n_bytes > library.settings.wave_bytes
    is_rescored = bool(rescore and library.settings.learning and stored and has_several_waves)
    if is_rescored:
        checksum = library.scorer.data_checksum
        rescore_library(library.database, library.handlers, library.settings, checksum, watch)
    duplicates = sum(result.duplicate is not None for _, result in numbered_results)
    counts = notes.counts()
    return Imported(
        stored,
        duplicates,
        bad.first(),
        is_rescored,
        bad.n,
        vectors=n_vectors,
        synonyms=synonyms.n_stored,
        pins=pins.n_stored,
        **counts,
    )


def _store_links(
    library: Library, links_by_line: dict[int, Links], results: Iterable[tuple[int, IngestResult]]
) -> None:
    """Link documents to their parents. Those that the library had stay without them."""
    for number, result in results:
        if result.id is not None and number in links_by_line:
            links = links_by_line[number]
            is_held = links.is_held and result.duplicate is None
            with library.database.write() as transaction:
                write_links(transaction, result.id, links._replace(is_held=is_held))


class _BadLines:
    """Counts bad lines and keeps the first of them."""

    def __init__(self) -> None:
        self.n = 0
        self._kept: list[BadLine] = []

    def add(self, line: int, reason: str) -> None:
        self.n += 1
        if len(self._kept) < MAX_BAD_LINES:
            shown = reason if len(reason) <= MAX_REASON_CHARS else f"{reason[:MAX_REASON_CHARS]}…"
            self._kept.append(BadLine(line, shown))

    def first(self) -> tuple[BadLine, ...]:
        return tuple(sorted(self._kept, key=lambda bad_line: bad_line.line))


class _BadRecordError(ValueError):
    """A line is not a record of an export."""


def _lines(file: IO[bytes], settings: Settings) -> Iterator[tuple[int, bytes | None]]:
    """Yield lines with their numbers, from 1; None instead of a line longer than any document."""
    limit = LINE_BYTES_PER_BYTE * settings.max_document_bytes + MIB
    opened = _opened(file)
    number = 0
    try:
        while line := opened.readline(limit):
            number += 1
            is_whole = line.endswith(b"\n") or len(line) < limit
            yield number, line if is_whole else None
            while not is_whole and (rest := opened.readline(READ_BYTES)):
                is_whole = rest.endswith(b"\n")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise NotAnExportError(
            f"the compressed file ends in line {number + 1} or is damaged ({error}); nothing was stored"
        ) from error


def _opened(file: IO[bytes]) -> IO[bytes]:
    head = file.peek(len(GZIP)) if hasattr(file, "peek") else b""
    return gzip.GzipFile(fileobj=file) if head[: len(GZIP)] == GZIP else file  # type: ignore[return-value]


def _checked_head(lines: Iterator[tuple[int, bytes | None]]) -> dict[str, Any]:
    """Return the first record. Raises NotAnExportError unless it declares an export that this version can
    read."""
    for _, line in lines:
        try:
            record = _record(line)
        except _BadRecordError:
            record = {}
        if record is None:
            continue
        if record.get("type") != "export":
            break
        if not isinstance(record.get("format"), int) or record["format"] > FORMAT:
            raise NotAnExportError(
                f"the export has format {record.get('format')!r}; this version reads formats up to {FORMAT}: "
                "install a newer version"
            )
        return record
    raise NotAnExportError(
        "this is not an export: its first line must have the type `export`. `shoal ingest` reads texts, "
        "`shoal upload` reads NDJSON"
    )


def _record(line: bytes | None) -> dict[str, Any] | None:
    """The object of a line; None for a line without one, such as the brackets of `shoal --json export`."""
    if line is None:
        raise _BadRecordError("the line is longer than any document can be")
    text = line.strip().removesuffix(b",").removeprefix(b"\xef\xbb\xbf")
    if text in (b"", b"[", b"]", b"[]"):
        return None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _BadRecordError(f"this is not JSON; was the file cut off? ({type(error).__name__})") from None
    if not isinstance(record, dict) or not isinstance(record.get("type"), str):
        raise _BadRecordError("this is not a record: an object with a `type`")
    return record


def _draft(record: dict[str, Any] | None, settings: Settings) -> DocumentDraft | None:
    """The document of a record, None for other records. Raises DocumentError, _BadRecordError."""
    if record is None or record["type"] in RECORD_TYPES - {"document"}:
        return None
    if record["type"] != "document":
        raise _BadRecordError(f"`{record['type'][:20]}` is not a record type of an export")
    if "content" not in record:
        raise InvalidFieldError("content", "is missing")
    draft = make_draft(
        content=record["content"],
        settings=settings,
        title=record.get("title"),
        format=record.get("format"),
        metadata=record.get("metadata"),
        allow=record.get("allow"),
        deny=record.get("deny"),
        language=record.get("language"),
        source_path=record.get("source_path"),
        chunk_tokens=None if "passages" in record else record.get("chunk_tokens", ANY_TOKENS),
        chunks=_chunks(record),
    )
    expected = record.get("content_hash")
    if expected is not None and expected != draft.content_hash:
        raise InvalidFieldError("content_hash", "is not that of the content; the line was changed or damaged")
    # Tags of the front matter may have been removed since. The warnings are those of the original file.
    return dataclasses.replace(
        draft,
        tags=checked_tags(record.get("tags", ()), settings),
        warnings=_warnings(record.get("warnings", ())),
        file=_file(record.get("file"), len(draft.content)),
    )


def _links(record: dict[str, Any] | None) -> Links | None:
    """What an exported document is attached to. Raises InvalidFieldError."""
    rows = (record or {}).get("attached_to")
    if record is None or rows is None:
        return None
    if not isinstance(rows, list) or not all(
        isinstance(row, list) and len(row) == 2 and all(isinstance(text, str) for text in row) for row in rows
    ):
        raise InvalidFieldError("attached_to", "must be a list of content hashes with names")
    return Links(tuple((parent, clean(name)) for parent, name in rows), record.get("is_held") is True)


def _chunks(record: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The passages that the caller of an exported document had cut, as an upload names them."""
    if "passages" not in record:
        return None
    content = record["content"]
    try:
        return [fields_of(Passage.of_row(row), content) for row in record["passages"]]
    except (TypeError, ValueError):
        raise InvalidFieldError("passages", "are not those of an export") from None


def _file(value: object, length: int) -> SourceFile | None:
    """The file of an exported document, whose content has `length` code points."""
    if value is None:
        return None
    try:
        file = file_from_json(json.dumps(value))
        texts = (file.kind, file.name, file.file_hash)
        numbers = (file.n_bytes, file.converter)
        at = 0
        for locator in file.locators:
            if not at <= locator.start_char <= locator.end_char <= length:
                raise ValueError("locators are not in order")
            at = locator.end_char
    except (TypeError, ValueError, KeyError) as error:
        raise InvalidFieldError("file", f"is not that of an export ({error})") from None
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(n, int) for n in numbers):
        raise InvalidFieldError("file", "is not that of an export")
    return file


def _warnings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise InvalidFieldError("warnings", "must be a list of texts")
    if len(value) > MAX_WARNINGS or any(len(text) > MAX_WARNING_CHARS for text in value):
        raise InvalidFieldError(
            "warnings", f"are over {MAX_WARNINGS:,}, or one has over {MAX_WARNING_CHARS:,} characters"
        )
    return tuple(map(clean, value))
