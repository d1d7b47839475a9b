"""Values of synonyms, acronyms and pins as they are stored."""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Synonym:
    """An entry of the synonyms of a library.

    With a `root`, the root also finds the `synonyms`. Without one, each of the `synonyms` also finds the
    others. Times are as in `shoal.support.clock`.
    """

    id: int
    root: str | None
    synonyms: tuple[str, ...]
    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class SynonymPage:
    """A page of the entries, by id, and how many there are on all pages."""

    synonyms: tuple[Synonym, ...]
    total: int


@dataclass(frozen=True, slots=True)
class SynonymImport:
    """What an import did: entries stored, entries that were there already, and why others were refused."""

    stored: int
    duplicates: int
    refused: tuple[str, ...] = ()


class AcronymStatus(enum.StrEnum):
    """What a person decided on an acronym."""

    proposed = "proposed"
    confirmed = "confirmed"
    rejected = "rejected"


@dataclass(frozen=True, slots=True)
class Acronym:
    """An acronym and its expansion, found in `n_documents` documents.

    `document_id`, `start_char`, `end_char`: one place where both stand, in code points; None if no document
    has them any more. `synonym_id`: the entry of a confirmed one.
    """

    id: int
    acronym: str
    expansion: str
    status: AcronymStatus
    n_documents: int
    synonym_id: int | None
    document_id: int | None
    start_char: int | None
    end_char: int | None


@dataclass(frozen=True, slots=True)
class AcronymPage:
    """A page of acronyms, those in most documents first; how many there are on all pages, and how many
    documents were not scanned since they changed."""

    acronyms: tuple[Acronym, ...]
    total: int
    n_unscanned: int


@dataclass(frozen=True, slots=True)
class AcronymScan:
    """What a scan did: documents read, acronyms that are new, and documents that are left to scan."""

    scanned: int
    new: int
    n_unscanned: int
