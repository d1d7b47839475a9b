"""Documents on the way in: drafts, parsed and scored documents, and the outcome of storing them."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from shoal.models.files import ANY_TOKENS, FilePlace, Locator, LocatorKind, SourceFile
from shoal.models.rights import Rights
from shoal.models.vocabulary import Island, Reef
from shoal.support.languages import ENGLISH


class Passage(NamedTuple):
    """A passage that the caller cut: its span in the content, the headings above it from the outermost, and
    the unit (`page` or `line`) that it begins and ends in; no unit: 0."""

    start_char: int
    end_char: int
    headings: tuple[str, ...] = ()
    unit: str = ""
    first: int = 0
    last: int = 0

    @property
    def locator(self) -> Locator | None:
        """The place that the caller gave."""
        if not self.unit:
            return None
        return Locator(self.start_char, self.end_char, LocatorKind(self.unit), "", self.first, self.last)

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> Passage:
        """Read a passage from a row of JSON."""
        start, end, headings, *place = row
        return cls(start, end, tuple(headings), *place)


class DocFormat(enum.StrEnum):
    """How a document's text is parsed."""

    markdown = "markdown"
    plaintext = "plaintext"


class DocumentSort(enum.StrEnum):
    """The order of a list of documents, by when they were stored."""

    oldest = "created"
    newest = "-created"


@dataclass(frozen=True, slots=True)
class UrlDraft:
    """A page or file that a worker fetches. `url`: normalized (`shoal.conversion.web_addresses`); it becomes
    the source path. `title` is None if none was given."""

    url: str
    title: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    chunk_tokens: str = ANY_TOKENS
    rights: Rights | None = None
    language: str | None = None

    @property
    def n_bytes(self) -> int:
        """Nothing is fetched yet."""
        return 0


class Validators(NamedTuple):
    """What a server said of a version of a page, so that it can be asked for a newer one (RFC 9110, 8.8)."""

    etag: str | None
    last_modified: str | None


@dataclass(frozen=True, slots=True)
class DocumentDraft:
    """A validated document that is not yet parsed.

    `content` is the decoded text with its original newlines; NUL and control characters are replaced by
    spaces. `content_hash` is the SHA-256 (hex) of its UTF-8, and of how it is cut unless that is the default
    (`shoal.formats.drafts`). `warnings` describe problems of the submitted
    text; they become part of the document's report. `file`: what it was converted from, None for a text.
    `chunk_tokens`: `any`, a range such as `300-800`, or `given`; then `passages` are the chunks. `rights`:
    None if none were given. `language`: as the caller said; None to detect it.
    """

    title: str
    content: str
    format: DocFormat
    content_hash: str
    n_bytes: int
    tags: tuple[str, ...] = ()
    source_path: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    file: SourceFile | None = None
    chunk_tokens: str = ANY_TOKENS
    passages: tuple[Passage, ...] = ()
    rights: Rights | None = None
    language: str | None = None

    @property
    def locators(self) -> Sequence[Locator]:
        """The places of spans of the content, in order."""
        if self.file is not None:
            return self.file.locators
        return [each.locator for each in self.passages if each.locator is not None]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A span of the content that is in no chunk."""

    start_char: int
    end_char: int
    reason: Annotated[
        str,
        "`heading`, `front matter`, `rule`, `comment`, `link definition`, `boilerplate`, or `no passage`: "
        "text between passages that the caller cut",
    ]


@dataclass(frozen=True, slots=True)
class Section:
    """The text between two headings.

    `path` has the headings from the outermost to this section's own; it is empty before the first heading.
    `heading_start` and `heading_end` are equal if there is no heading. `start_char:end_char` is the
    body; in a document of headings alone it begins with the heading.
    """

    path: tuple[str, ...]
    level: int
    heading_start: int
    heading_end: int
    start_char: int
    end_char: int

    @property
    def heading(self) -> str:
        return self.path[-1] if self.path else ""


class SentenceSpan(NamedTuple):
    """A sentence, or a block that is not split; `section` is an index into the sections."""

    start_char: int
    end_char: int
    section: int


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """The structure of a document.

    `masked` is the content with spaces in place of text that must not be scored; it has the same length.
    `sentences` are in order, do not overlap, and cover, together with `left_out`, every non-space character.
    """

    sections: tuple[Section, ...]
    sentences: tuple[SentenceSpan, ...]
    left_out: tuple[LeftOut, ...]
    masked: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage that can be cited, with its profile: `content[start_char:end_char] == text`.

    `profile` holds the reefs as stored (`shoal.storage.profiles`), and the fields after it follow from it.
    `norm` is the Euclidean norm of the stored z-scores, 0.0 if there are none. The top reef is the most
    probable one; of equally probable ones the strongest; None without reefs.
    """

    chunk_index: int
    section: int
    text: str
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    sentence_count: int
    confidence: float
    coverage: float
    matched_words: int
    arch_scores: tuple[float, float, float, float]
    profile: bytes
    norm: float
    top_reef_id: int | None
    top_reef_name: str | None
    top_reef_probability: float
    place: FilePlace | None = None
    language: str = ENGLISH


@dataclass(frozen=True, slots=True)
class ScoredDocument:
    """A document ready to be stored in one transaction.

    `left_out`: the first spans without headings; `n_left_out` counts all of them by reason. `coverage` is
    over all its words, 0..1. `reefs` and `islands` are those of the scorer's data. `unknown_words` tells
    which learned words may occur in which chunk (`shoal.storage.staleness`); None if the scorer cannot learn.
    """

    draft: DocumentDraft
    sections: tuple[Section, ...]
    chunks: tuple[Chunk, ...]
    left_out: tuple[LeftOut, ...]
    n_left_out: Mapping[str, int]
    n_sentences: int
    coverage: float
    warnings: tuple[str, ...]
    vocabulary_version: int
    data_version: str
    data_checksum: str
    reefs: Sequence[Reef]
    islands: Sequence[Island]
    unknown_words: bytes | None = None
    language: str = ENGLISH


@dataclass(frozen=True, slots=True)
class IngestResult:
    """The outcome of ingesting one document.

    `duplicate` is the id of an existing document with the same content; `id` is then that id too. `error` is
    the reason why the document was rejected, and `error_code` its stable code; `id` is then None.
    `n_attachments` counts the attachments stored with it; `warnings` name those that could not be.
    """

    id: int | None
    title: str
    n_chunks: int
    tags: tuple[str, ...]
    duplicate: int | None = None
    error: str | None = None
    warnings: tuple[str, ...] = ()
    error_code: str | None = None
    n_attachments: int = 0
