"""Imports a static index: texts with the vectors that an encoder made of them (004).

    {"embeddings": [[0.1, 0.2, ...], ...], "documents": [{"content": "...", "metadata": {...}}, ...]}

The file is read twice, piece by piece, so that memory does not grow with its size. The first time everything
is checked, and the vectors are quantised into a temporary file; nothing is stored unless the whole file is
sound. The second time the texts are stored. Each becomes a document with one passage, as its author cut it,
and the passage gets the given vector.
"""

from __future__ import annotations

import codecs
import dataclasses
import gzip
import json
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from shoal.encoders.encoder import EncoderIdentity, TextKind, unit_vectors
from shoal.errors import DocumentError, EncoderError, EncoderMismatchError, InvalidFieldError, ShoalError
from shoal.formats.drafts import make_draft
from shoal.index.upkeep import update_index
from shoal.index.vectors import MAX_DIMENSION, SCALE_BYTES, code_bytes, quantised
from shoal.jobs.in_process import IngestSession
from shoal.jobs.jobs import prepare_embedding
from shoal.jobs.stages.runner import handlers_for
from shoal.library.library import Library
from shoal.maintenance.import_export import LINE_BYTES_PER_BYTE
from shoal.models.documents import DocFormat, DocumentDraft, IngestResult
from shoal.models.jobs import OnConflict
from shoal.settings import Settings
from shoal.storage import vectors
from shoal.storage.database import IDS_PER_STATEMENT
from shoal.support.byte_units import MIB

if TYPE_CHECKING:
    from shoal.encoders.encoder import Encoder
    from shoal.jobs.in_process import Watcher


UNCUT_SENTENCES = 1_000_000_000
"""A least length of passages at which no text is cut where its topic shifts."""
NUMBER_CHARS = 32
"""Longest number with its separator, on average: double precision has 17 digits, sign, point and exponent."""
QUANTISED_TOGETHER = 256
SAMPLE = 8
"""Texts that are embedded to see whether the given vectors are of the encoder."""
LEAST_SIMILAR = 0.7
"""Least mean cosine of given and fresh vectors of the sample. Those of another model are as good as random,
near 0; other weights of the same model, or a title before the text, change a vector much less."""
MAX_BAD = 1000
MAX_REASON_CHARS = 300
FIELDS = frozenset({"id", "content", "metadata"})


class NotAnIndexError(ShoalError, code="not_an_index"):
    """The whole file cannot be imported."""


@dataclass(frozen=True, slots=True)
class BadDocument:
    """A document that was left out, counted from 0 like its embedding, with the reason."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class ImportedIndex:
    """The result of an import.

    `stored`: number of new documents. `duplicates`: documents whose text was stored already. `vectors`:
    passages that got the given vector; the others had one, or are of documents `cut` into several passages,
    which no given vector stands for. `bad`: the first of the `n_bad` documents that were left out.
    """

    stored: int
    duplicates: int
    vectors: int
    cut: int
    bad: tuple[BadDocument, ...]
    n_bad: int = 0


def import_index(
    library: Library, file: IO[bytes], *, encoder_name: str, processes: int = 1, watch: Watcher | None = None
) -> ImportedIndex:
    """Import a static index; `Maintenance.import_index` describes the arguments."""
    encoder = _checked_encoder(library, encoder_name)
    identity = encoder.identity
    with tempfile.TemporaryFile() as spool:
        checked = _Checked(identity, spool)
        try:
            checked.read(file, library.settings)
        except JsonStreamError as error:
            raise NotAnIndexError(f"{error}; nothing was stored") from None
        checked.compare_sample(encoder)
        bad = dict[int, str]()
        numbers, results = _store_texts(library, file, bad, processes, watch)
        for number, result in zip(numbers, results, strict=True):
            if result.error is not None:
                bad[number] = result.error
        n_vectors, n_cut = _store_vectors(library, identity, checked, numbers, results)
    update_index(library.database)
    duplicates = sum(result.duplicate is not None for result in results)
    first = tuple(BadDocument(number, bad[number][:MAX_REASON_CHARS]) for number in sorted(bad)[:MAX_BAD])
    stored = sum(result.error is None and result.duplicate is None for result in results)
    return ImportedIndex(stored, duplicates, n_vectors, n_cut, first, len(bad))


def _checked_encoder(library: Library, name: str) -> Encoder:
    """Return the encoder of the library. Raises EncoderError if the vectors cannot be used with it."""
    encoder = library.encoder
    if encoder is None:
        raise EncoderError(
            "no encoder is configured, and without one a query has no vector: set SHOAL_ENCODER to the model "
            "that made the vectors"
        )
    identity = encoder.identity
    if name != identity.name:
        raise EncoderMismatchError(
            f"the vectors are of `{name}`, and the encoder is `{identity.name}`: vectors of different models "
            "cannot be compared; set SHOAL_ENCODER to the model that made them, or upload the texts and run "
            "`shoal encoder embed`"
        )
    prepare_embedding(library.database, encoder, again=False)
    return encoder


class _Checked:
    """The vectors of a file, quantised, after the whole file was checked."""

    def __init__(self, identity: EncoderIdentity, spool: IO[bytes]) -> None:
        self._identity = identity
        self._spool = spool
        self._row_bytes = SCALE_BYTES + code_bytes(identity.dimension)
        self._waiting: list[NDArray[np.float64]] = []
        self._first_rows: list[NDArray[np.float64]] = []
        self._first_texts: list[str | None] = []
        self.n = 0

    def read(self, file: IO[bytes], settings: Settings) -> None:
        """Read the whole file. Raises JsonStreamError and NotAnIndexError."""
        counts = dict[str, int]()
        stream = _opened(file, settings)
        for key in stream.members():
            if key == "embeddings":
                counts[key] = self._read_embeddings(stream)
            elif key == "documents":
                counts[key] = self._read_documents(stream)
            else:
                stream.skip()
        stream.end()
        for key in ("embeddings", "documents"):
            if key not in counts:
                raise NotAnIndexError(f"the file has no `{key}`; nothing was stored")
        if counts["embeddings"] != counts["documents"]:
            raise NotAnIndexError(
                f"there are {counts['embeddings']:,} embeddings and {counts['documents']:,} documents; each "
                "document needs one embedding; nothing was stored"
            )
        self._flush()
        self.n = counts["documents"]

    def blobs(self, numbers: Sequence[int]) -> Iterator[bytes]:
        """Yield the quantised vectors of some documents."""
        for number in numbers:
            self._spool.seek(number * self._row_bytes)
            yield self._spool.read(self._row_bytes)

    def compare_sample(self, encoder: Encoder) -> None:
        """Raises EncoderMismatchError if the encoder makes other vectors of the first texts, EncoderError if
        it fails."""
        pairs = [(text, row) for text, row in zip(self._first_texts, self._first_rows, strict=True) if text]
        if not pairs:
            return
        dimension = self._identity.dimension
        fresh = unit_vectors(
            np.asarray(encoder.embed([text for text, _ in pairs], TextKind.document)), len(pairs), dimension
        )
        given = unit_vectors(np.stack([row for _, row in pairs]), len(pairs), dimension)
        mean = float((fresh * given).sum(axis=1).mean())
        if mean < LEAST_SIMILAR:
            raise EncoderMismatchError(
                f"the vectors are not those of `{self._identity.name}`: it makes others of the first "
                f"{len(pairs)} texts, with a mean cosine of {mean:.2f}; nothing was stored"
            )

    def _read_embeddings(self, stream: JsonStream) -> int:
        n = 0
        for number in stream.elements():
            row = self._vector(number, stream.value())
            if number < SAMPLE:
                self._first_rows.append(row)
            self._waiting.append(row)
            if len(self._waiting) == QUANTISED_TOGETHER:
                self._flush()
            n += 1
        return n

    def _read_documents(self, stream: JsonStream) -> int:
        n = 0
        for number in stream.elements():
            record = stream.value()
            content = record.get("content") if isinstance(record, dict) else None
            if number < SAMPLE:
                self._first_texts.append(content if isinstance(content, str) and content.strip() else None)
            n += 1
        return n

    def _vector(self, number: int, value: object) -> NDArray[np.float64]:
        dimension = self._identity.dimension
        if not isinstance(value, list) or not set(map(type, value)) <= {int, float}:
            raise NotAnIndexError(f"embedding {number} is not a list of numbers; nothing was stored")
        if len(value) != dimension:
            raise NotAnIndexError(
                f"Embedding dimension mismatch: got {len(value)}, expected {dimension} (embedding {number}); "
                "nothing was stored"
            )
        try:
            row = np.array(value, dtype=np.float64)
        except OverflowError:
            row = np.full(dimension, np.inf)
        with np.errstate(over="ignore"):
            norm = float(np.linalg.norm(row))
        if not np.isfinite(norm) or norm == 0:
            raise NotAnIndexError(f"embedding {number} is zero or not finite; nothing was stored")
        return row / norm

    def _flush(self) -> None:
        if self._waiting:
            self._spool.write(b"".join(quantised(np.stack(self._waiting).astype(np.float32))))
            self._waiting = []


def _opened(file: IO[bytes], settings: Settings) -> JsonStream:
    return JsonStream(
        file, max(LINE_BYTES_PER_BYTE * settings.max_document_bytes + MIB, MAX_DIMENSION * NUMBER_CHARS)
    )


def _store_texts(
    library: Library, file: IO[bytes], bad: dict[int, str], processes: int, watch: Watcher | None
) -> tuple[list[int], list[IngestResult]]:
    """Store the documents; return their numbers, and the result of each. Adds to `bad`."""
    settings = dataclasses.replace(
        library.settings, min_chunk_sentences=UNCUT_SENTENCES, max_chunk_sentences=0
    )
    handlers = handlers_for(library.database, library.scorer, settings, lambda: library.encoder)
    numbers: list[int] = []
    with IngestSession(library.database, handlers, settings, OnConflict.keep) as session:
        stream = _opened(file, settings)
        for key in stream.members():
            if key != "documents":
                stream.skip()
                continue
            for number in stream.elements():
                try:
                    draft = _draft(stream.value(), settings)
                except DocumentError as error:
                    bad[number] = str(error)
                else:
                    session.add_draft(draft)
                    numbers.append(number)
        return numbers, session.finish(processes=processes, watch=watch)


def _draft(record: Any, settings: Settings) -> DocumentDraft:
    """The document of a record. Raises DocumentError."""
    if not isinstance(record, dict):
        raise InvalidFieldError("document", "must be an object with `content` and `metadata`")
    if unknown := record.keys() - FIELDS:
        raise InvalidFieldError(str(min(unknown))[:40], "is no field of a document; put it into `metadata`")
    if "content" not in record:
        raise InvalidFieldError("content", "is missing")
    metadata = record.get("metadata")
    title = None
    if isinstance(metadata, dict):
        title = metadata.get("title") if isinstance(metadata.get("title"), str) else None
        if "id" in record:
            metadata = {"id": record["id"], **metadata}
    elif metadata is None and "id" in record:
        metadata = {"id": record["id"]}
    return make_draft(
        content=record["content"],
        settings=settings,
        title=title,
        format=DocFormat.plaintext,
        metadata=metadata,
    )


def _store_vectors(
    library: Library,
    identity: EncoderIdentity,
    checked: _Checked,
    numbers: Sequence[int],
    results: Sequence[IngestResult],
) -> tuple[int, int]:
    """Give the passages their vectors; return how many got one, and how many documents have several
    passages."""
    database = library.database
    stored = vectors.begin(database, identity)
    n_vectors, cut = 0, set[int]()
    found = [
        (number, result.id) for number, result in zip(numbers, results, strict=True) if result.id is not None
    ]
    for start in range(0, len(found), IDS_PER_STATEMENT):
        chunks, owners = [], []
        with database.snapshot() as snapshot:
            for number, document_id in found[start : start + IDS_PER_STATEMENT]:
                if vectors.is_cut(snapshot, document_id):
                    cut.add(document_id)
                    continue
                for chunk in vectors.without_vector(snapshot, document_id, after=-1, limit=1):
                    chunks.append(chunk)
                    owners.append(number)
        made = dict[str, bytes]()
        for chunk, blob in zip(chunks, checked.blobs(owners), strict=True):
            made.setdefault(chunk.text, blob)
        if chunks:
            with database.write() as transaction:
                n_vectors += vectors.store(transaction, stored.epoch, chunks, made)
    return n_vectors, len(cut)


READ_BYTES = 1 << 18
WHITE_SPACE = " \t\n\r"
BEFORE_DIGIT = "e-"
"""The longest part of a number that is none without the digit behind it."""
GZIP = b"\x1f\x8b"


class JsonStreamError(ValueError):
    """The text is not JSON, ends too early, or has a value over the limit."""


class JsonStream:
    """A cursor in a JSON text in UTF-8, plain or compressed by gzip, from its beginning.

    Members and elements are visited in order, and each has to be read by `value`, `members`, `elements` or
    `skip`. NaN and Infinity, which JSON does not have, are errors. All methods raise JsonStreamError.
    """

    def __init__(self, file: IO[bytes], max_chars: int) -> None:
        """`file` can be read again from its beginning; `max_chars`: longest text of a single value."""
        file.seek(0)
        is_compressed = file.read(len(GZIP)) == GZIP
        file.seek(0)
        self._file: IO[bytes] = gzip.GzipFile(fileobj=file) if is_compressed else file  # type: ignore[assignment]
        self._max_chars = max_chars
        self._to_text = codecs.getincrementaldecoder("utf-8-sig")()
        self._parse = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode
        self._text = ""
        self._at = 0
        self._is_end = False

    def members(self) -> Iterator[str]:
        """Yield the keys of the object at the cursor. A key that comes twice is an error."""
        keys = set[str]()
        for _ in self._separated("{", "}"):
            key = self.value()
            if not isinstance(key, str):
                raise JsonStreamError("a key of an object must be a text")
            if key in keys:
                raise JsonStreamError(f"`{key[:40]}` comes twice")
            keys.add(key)
            self._take(":")
            yield key

    def elements(self) -> Iterator[int]:
        """Yield the number of each element of the array at the cursor, from 0."""
        return self._separated("[", "]")

    def value(self) -> Any:
        """Return the value at the cursor."""
        self._peek()
        n_chars = READ_BYTES
        while True:
            try:
                value, end = self._parse(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._is_end:
                    raise JsonStreamError(
                        f"this is not JSON, or the file was cut off ({error.msg})"
                    ) from None
            except (ValueError, RecursionError) as error:
                reason = str(error) if isinstance(error, JsonStreamError) else type(error).__name__
                raise JsonStreamError(f"this is not a usable value: {reason}") from None
            else:
                # A number may go on behind what was read, such as 1 and 1e-7.
                if end + len(BEFORE_DIGIT) < len(self._text) or self._is_end:
                    if end - self._at > self._max_chars:
                        self._refuse_length()
                    self._at = end
                    return value
            if len(self._text) - self._at > self._max_chars:
                self._refuse_length()
            self._read(n_chars)
            n_chars *= 2

    def skip(self) -> None:
        """Leave out the value at the cursor; of an array, element by element."""
        if self._peek() != "[":
            self.value()
            return
        for _ in self.elements():
            self.value()

    def end(self) -> None:
        """Check that nothing follows."""
        if self._peek():
            raise JsonStreamError("something follows behind the end of the object")

    def _separated(self, first: str, last: str) -> Iterator[int]:
        self._take(first)
        number = 0
        while self._peek() != last or number:
            yield number
            number += 1
            if self._peek() == last:
                break
            self._take(",")
        self._take(last)

    def _take(self, char: str) -> None:
        found = self._peek()
        if found != char:
            place = f"`{found}`" if found else "the end of the file, which was cut off"
            raise JsonStreamError(f"expected `{char}`, found {place}")
        self._at += 1

    def _peek(self) -> str:
        """Return the next character that is no white space; empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in WHITE_SPACE:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if self._is_end:
                return ""
            self._read(READ_BYTES)

    def _read(self, n_bytes: int) -> None:
        try:
            data = self._file.read(n_bytes)
            text = self._to_text.decode(data, final=not data)
        except UnicodeDecodeError:
            raise JsonStreamError("this is not a text in UTF-8") from None
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise JsonStreamError(f"the compressed file was cut off or is damaged ({error})") from None
        self._is_end = not data
        self._text = self._text[self._at :] + text
        self._at = 0

    def _refuse_length(self) -> NoReturn:
        raise JsonStreamError(f"a value has over {self._max_chars:,} characters, which is the limit")


def _refuse_constant(name: str) -> NoReturn:
    raise JsonStreamError(f"{name} is no number of JSON")
