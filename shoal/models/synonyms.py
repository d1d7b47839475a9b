"""Values of synonyms, acronyms and pins as they are stored."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated

from shoal.models.described import Presence, Time

MAX_SYNONYMS = 10_000
"""Most entries of a library."""
MAX_GROUP = 32
"""Most words and phrases of an entry, besides its root."""
MAX_CHARS = 100
"""Most characters of a word or phrase."""
WORDS = f"words and phrases, up to {MAX_GROUP}, of up to {MAX_CHARS} characters each"


@dataclass(frozen=True, slots=True)
class Synonym:
    """An entry of the synonyms of a library."""

    id: Annotated[int, "id of the entry"]
    root: Annotated[
        str | None, "the word or phrase that also finds the others; null: each of them finds the others"
    ]
    synonyms: Annotated[tuple[str, ...], WORDS]
    created_at: Time
    updated_at: Time


@dataclass(frozen=True, slots=True)
class SynonymPage:
    """A page of the entries."""

    synonyms: Annotated[tuple[Synonym, ...], "a page of entries, by id"]
    total: int


@dataclass(frozen=True, slots=True)
class ExportedSynonym:
    """An entry as an import takes it."""

    root: Annotated[str | None, Presence.IF_SET, "absent if each word finds the others"]
    synonyms: Annotated[tuple[str, ...], WORDS]


@dataclass(frozen=True, slots=True)
class SynonymExport:
    """The entries of a library."""

    synonyms: Annotated[tuple[ExportedSynonym, ...], "all entries, by id"]


@dataclass(frozen=True, slots=True)
class SynonymImport:
    """What an import did."""

    stored: Annotated[int, "number of new entries"]
    duplicates: Annotated[int, "number that were there already"]
    refused: Annotated[
        tuple[str, ...], "entries that contradict others, with the reasons; the first 100"
    ] = ()


class AcronymStatus(enum.StrEnum):
    """What a person decided on an acronym."""

    proposed = "proposed"
    confirmed = "confirmed"
    rejected = "rejected"


@dataclass(frozen=True, slots=True)
class Acronym:
    """An acronym and its expansion."""

    id: Annotated[int, "id of the pair"]
    acronym: Annotated[str, "such as `WHO`"]
    expansion: Annotated[str, "such as `World Health Organization`"]
    status: Annotated[AcronymStatus, "what a person decided on it"]
    n_documents: Annotated[int, "number of documents that define it so"]
    synonym_id: Annotated[int | None, "the entry that its confirmation made"]
    document_id: Annotated[int | None, "a document that defines it; null if none"]
    start_char: Annotated[int | None, "where its definition begins there"]
    end_char: Annotated[int | None, "where its definition ends there"]


@dataclass(frozen=True, slots=True)
class AcronymPage:
    """A page of acronyms."""

    acronyms: Annotated[tuple[Acronym, ...], "a page, those in most documents first"]
    total: int
    n_unscanned: Annotated[int, "documents that no scan has read since they were stored"]


@dataclass(frozen=True, slots=True)
class AcronymScan:
    """What a scan for acronyms did."""

    scanned: Annotated[int, "number of documents read"]
    new: Annotated[int, "number of new proposals"]
    n_unscanned: Annotated[int, "documents that are left to scan"]
